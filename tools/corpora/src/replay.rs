//! The inputs that are kept, whole and damaged, for tests: `fuzz/corpus/NAME/*`.

use std::fs;
use std::path::{Path, PathBuf};

use softtimers_core::Random;

use crate::Target;

/// The directory of the fuzz targets and their corpora.
pub fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The files of a directory, in the order of their names.
///
/// # Panics
/// If it cannot be read.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Runs each target with each of its inputs in `fuzz`.
///
/// # Panics
/// If a target has no input, one is too long, or something does not hold of it.
pub fn kept(fuzz: &Path, targets: &[Target]) {
    for target in targets {
        let inputs = files(&fuzz.join("corpus").join(target.name));
        assert!(!inputs.is_empty(), "{} has no corpus", target.name);
        for input in inputs {
            let bytes = fs::read(&input).unwrap();
            assert!(bytes.len() <= LARGEST, "{} has {} bytes", input.display(), bytes.len());
            // Which one it was, should it end the process.
            println!("{}", input.display());
            target.run(&bytes);
        }
    }
}

/// Runs each target with the same inputs of `fuzz` damaged at random, by a fixed seed: bits flipped, bytes set to what lengths and
/// counts go wrong at, pieces cut out, doubled, or taken from another input. `DAMAGE=1000` tries that many of each input
/// instead, and `ONLY=rules` tries one target.
///
/// # Panics
/// If something does not hold of an input.
pub fn damaged(fuzz: &Path, targets: &[Target]) {
    let wanted = |name: &str, otherwise| std::env::var(name).map_or(otherwise, |text| text.parse().unwrap());
    let (rounds, only) = (wanted("DAMAGE", 12), std::env::var("ONLY").ok());
    for target in targets.iter().filter(|target| only.as_ref().is_none_or(|only| only == target.name)) {
        let kept = files(&fuzz.join("corpus").join(target.name));
        let inputs: Vec<Vec<u8>> = kept.iter().map(|path| fs::read(path).unwrap()).collect();
        let mut random = Random::stream(1, 0);
        for (input, path) in inputs.iter().zip(&kept) {
            for round in 0..rounds {
                let mut damaged = input.clone();
                for _ in 0..=random.below(4) {
                    damage(&mut damaged, &inputs, &mut random);
                }
                println!("{} {round}: {}", path.display(), damaged.escape_ascii());
                target.run(&damaged);
            }
        }
    }
}

fn damage(bytes: &mut Vec<u8>, others: &[Vec<u8>], random: &mut Random) {
    let mut below = |most: usize| random.below(most.max(1) as u64) as usize;
    let at = below(bytes.len());
    let end = at + below(bytes.len() - at.min(bytes.len())).min(64);
    match below(6) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << below(8),
        1 if !bytes.is_empty() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'\n', b'9', b'-'][below(8)],
        2 if bytes.len() >= at + 4 => {
            let number = [0, 1, 4, 11, 12, 0x7fff_ffff, 0xffff_fff9, u32::MAX][below(8)];
            let number = if below(2) == 0 { number.to_le_bytes() } else { number.to_be_bytes() };
            bytes[at..at + 4].copy_from_slice(&number);
        }
        3 => drop(bytes.drain(at..end)),
        4 => {
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        }
        _ => {
            let other = &others[below(others.len())];
            bytes.truncate(at);
            bytes.extend_from_slice(&other[below(other.len())..]);
            bytes.truncate(LARGEST);
        }
    }
}

/// Inputs that are kept are read by people too, and lie in every clone.
const LARGEST: usize = 16 << 10;
