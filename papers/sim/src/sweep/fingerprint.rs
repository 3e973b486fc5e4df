//! A number that identifies a sweep: [`fingerprint`], a hash of everything that determines the rows.
//!
//! A recording is identified by its packets, not by how it is displayed: two recordings with the same
//! duration and number of packets give different sweeps, wherever their files are.

use sha2::{Digest as _, Sha256};

use super::{Axis, Runs};
use crate::machine::Hardware;
use crate::parameter::Parameters;
use crate::setting::Setting;

/// The first eight bytes of the SHA-256 of version, build, experiment, seeds, parameters and axes.
pub(super) fn fingerprint(experiment: &str, base: &Parameters, axes: &[Axis], runs: &Runs) -> u64 {
    let mut hash = Sha256::new();
    text(&mut hash, env!("CARGO_PKG_VERSION"));
    text(&mut hash, experiment);
    let Runs { seed, seeds, precision, skips, build } = runs;
    hash.update(seed.to_le_bytes());
    hash.update(seeds.get().to_le_bytes());
    text(&mut hash, &format!("{precision:?} {skips} {build:?}"));
    if *base.hardware() != Hardware::PAPERS {
        text(&mut hash, &format!("{:?}", base.hardware()));
    }
    for (name, setting) in base.iter() {
        text(&mut hash, name);
        content(&mut hash, setting);
    }
    for axis in axes {
        text(&mut hash, axis.name);
        hash.update((axis.values.len() as u64).to_le_bytes());
        for (given, setting) in &axis.values {
            text(&mut hash, given);
            content(&mut hash, setting);
        }
    }
    let digest = hash.finalize();
    digest.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Hashes a text after its length, so that different lists of texts have different input.
fn text(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_le_bytes());
    hash.update(text);
}

fn content(hash: &mut Sha256, setting: &Setting) {
    match setting {
        Setting::Real(number) => hash.update(number.to_bits().to_le_bytes()),
        Setting::Trace(Some(recording)) => {
            hash.update((recording.trace.packets() as u64).to_le_bytes());
            for (time, length) in recording.trace.iter() {
                hash.update(time.as_nanos().to_le_bytes());
                hash.update(length.to_le_bytes());
            }
        }
        // As typed, which is exact.
        exact => text(hash, &exact.to_string()),
    }
}
