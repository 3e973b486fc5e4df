//! Captured files, read by programs that share nothing with the writer: a crate, and the libraries of tcpdump and Wireshark
//! where they are installed.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The number of packets in a file, by a reader of ours; and by tshark's library where there is one.
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

/// The interface and the flags of each packet, of the blocks that are whole; and the bytes behind them.
pub(super) fn flagged(path: &Path) -> (Vec<(u32, u32)>, usize) {
    let bytes = fs::read(path).unwrap();
    let (mut rest, mut packets) = (&bytes[..], Vec::new());
    while let Ok((after, block)) = pcap_parser::pcapng::parse_block_le(rest) {
        if let pcap_parser::Block::EnhancedPacket(packet) = block {
            let flags = packet.options.iter().find(|option| option.code.0 == 2).expect("flags");
            packets.push((packet.if_id, u32::from_le_bytes(flags.value[..4].try_into().unwrap())));
        }
        rest = after;
    }
    (packets, rest.len())
}

/// The number of blocks of statistics in a file.
pub(super) fn endings(path: &Path) -> usize {
    let bytes = fs::read(path).unwrap();
    let (mut rest, mut endings) = (&bytes[..], 0);
    while let Ok((after, block)) = pcap_parser::pcapng::parse_block_le(rest) {
        endings += usize::from(matches!(block, pcap_parser::Block::InterfaceStatistics(_)));
        rest = after;
    }
    endings
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
