//! What is in a file, by readers that share nothing with its writer: a crate, and the libraries of tcpdump and Wireshark
//! where they are installed.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::Place;
use super::common::skipped;

/// How many packets are in a file, by a reader of ours; and by tshark's library where there is one, which
/// `other_readers_read_the_same` says.
pub(super) fn packets(path: &Path) -> u64 {
    let bytes = fs::read(path).unwrap();
    let (mut rest, mut packets) = (&bytes[..], 0);
    while !rest.is_empty() {
        let (after, block) = pcap_parser::pcapng::parse_block_le(rest).expect("a file of whole blocks");
        packets += u64::from(matches!(block, pcap_parser::Block::EnhancedPacket(_)));
        rest = after;
    }
    let tshark =
        Command::new("tshark").args(["-r"]).arg(path).args(["-T", "fields", "-e", "frame.len"]).output();
    if let Ok(Output { status, stdout, stderr }) = tshark {
        let words = String::from_utf8_lossy(&stderr);
        assert!(status.success() && !words.contains("cut short"), "{words}");
        assert_eq!(String::from_utf8_lossy(&stdout).lines().count() as u64, packets);
    }
    packets
}

/// The statistics at a file's end: received, dropped by the interface, dropped behind, delivered.
pub(super) fn statistics(path: &Path) -> [u64; 4] {
    let bytes = fs::read(path).unwrap();
    let mut rest = &bytes[..];
    while let Ok((after, block)) = pcap_parser::pcapng::parse_block_le(rest) {
        if let pcap_parser::Block::InterfaceStatistics(block) = block {
            return [4, 5, 7, 8].map(|code| {
                let option = block.options.iter().find(|option| option.code.0 == code).expect("told");
                u64::from_le_bytes(option.value[..8].try_into().unwrap())
            });
        }
        rest = after;
    }
    panic!("no statistics")
}

/// Its time in ns, its length, and what was kept of it.
type Frame = (u64, u32, Vec<u8>);

/// What a program makes of a capture that it reads, in the older format.
fn rewritten(program: &str, flags: &[&str], file: &Path) -> Option<Vec<Frame>> {
    let input = fs::File::open(file).unwrap();
    let Ok(Output { status, stdout, stderr }) = Command::new(program).args(flags).stdin(input).output()
    else {
        return None;
    };
    let words = String::from_utf8_lossy(&stderr);
    assert!(status.success() && !words.contains("cut short"), "{program}: {words}");
    let word = |at: usize| u32::from_le_bytes(stdout[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), 0xa1b2_3c4d, "with nanoseconds");
    let (mut at, mut packets) = (24, Vec::new());
    while at < stdout.len() {
        let [seconds, nanos, kept, length] = [0, 4, 8, 12].map(|field| word(at + field));
        let bytes = stdout[at + 16..][..kept as usize].to_vec();
        packets.push((u64::from(seconds) * 1_000_000_000 + u64::from(nanos), length, bytes));
        at += 16 + kept as usize;
    }
    Some(packets)
}

/// The files of the property test, by the libraries of tcpdump and of Wireshark, which share nothing with its reader.
#[test]
fn other_readers_read_the_same() {
    let place = Place::new("readers");
    let file = place.file("t.pcapng");
    let readers: [(&str, &[&str]); 2] = [
        ("tcpdump", &["-r", "-", "--time-stamp-precision=nano", "-w", "-"]),
        ("tshark", &["-r", "-", "-F", "nsecpcap", "-w", "-"]),
    ];
    let mut state = 1u64;
    for round in 0..4 {
        let script: Vec<u8> = (0..round * 9_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let (bytes, expected) = softtimers_cli::properties::capture_of(&script);
        fs::write(&file, bytes).unwrap();
        let expected: Vec<_> =
            expected.into_iter().map(|(time, length, kept)| (time, length, kept.to_vec())).collect();
        for (program, flags) in readers {
            match rewritten(program, flags, &file) {
                Some(found) => assert!(found == expected, "{program} reads something else"),
                None if round == 0 => skipped(&format!("no {program}")),
                None => {}
            }
        }
    }
}
