//! Recordings of every format: what was written is read, and what is wrong is named with its byte.

#[path = "common/captures.rs"]
mod captures;

use captures::{BIG, ETHERNET, Interface, LITTLE, MICROSECONDS, NANOSECONDS, Order, Packet};
use proptest::prelude::*;
use softtimers_load::properties;
use softtimers_load::recording::{self, Fit, Format, Recording};

fn read(bytes: &[u8]) -> Result<Recording, String> {
    let fit = Fit { headers: Some(0), ..Fit::default() };
    recording::read(bytes, &fit).map_err(|error| error.to_string())
}

/// Returns times from the first packet on, in nanoseconds, and lengths.
fn packets(recording: &Recording) -> Vec<(u128, u32)> {
    recording.trace.iter().map(|(time, length)| (time.as_nanos(), length.into())).collect()
}

/// Returns the times and lengths of what was written, with times in whole multiples of `unit` nanoseconds.
fn expected(written: &[Packet], unit: u64) -> Vec<(u128, u32)> {
    let first = written[0].0 / unit * unit;
    written.iter().map(|&(nanos, length)| (u128::from(nanos / unit * unit - first), length)).collect()
}

#[track_caller]
fn refused(bytes: &[u8], message: &str) {
    let error = read(bytes).unwrap_err();
    assert!(error.starts_with(message), "{error:?} does not begin with {message:?}");
}

/// Around the time this is written, and with a pause of a minute.
const WRITTEN: [Packet; 4] = [
    (1_795_000_000_123_456_789, 60),
    (1_795_000_000_123_499_999, 1514),
    (1_795_000_000_123_500_000, 77),
    (1_795_000_060_000_000_001, 9000),
];

#[test]
fn every_format_is_read_in_both_byte_orders() {
    for order in [LITTLE, BIG] {
        for (bytes, format, unit) in [
            (captures::pcap(order, false, 262_144, &WRITTEN), Format::Pcap, 1_000),
            (captures::pcap(order, true, 262_144, &WRITTEN), Format::Pcap, 1),
            (captures::pcapng(order, &[MICROSECONDS], 262_144, &WRITTEN), Format::Pcapng, 1_000),
            (captures::pcapng(order, &[NANOSECONDS], 262_144, &WRITTEN), Format::Pcapng, 1),
            (captures::csv(&WRITTEN), Format::Csv, 1),
        ] {
            let recording = read(&bytes).unwrap();
            assert_eq!(recording.format, format);
            assert_eq!(packets(&recording), expected(&WRITTEN, unit), "{format:?} {order:?}");
            // The last one is longer than an Ethernet frame; text does not count frames.
            let oversized = u64::from(format != Format::Csv);
            assert_eq!(recording.changed, recording::Changed { oversized, ..Default::default() });
            properties::recording(&bytes);
        }
    }
}

/// Resolutions in powers of ten and of two, offsets before and after, of several interfaces in one file.
#[test]
fn interfaces_have_clocks_of_their_own() {
    let coarse = Interface { resolution: Some((0x80 | 10, 1 << 10)), ..MICROSECONDS };
    let shifted = Interface { offset: 1_000_000_000, ..NANOSECONDS };
    let before = Interface { offset: -86_400, resolution: Some((3, 1_000)), ..MICROSECONDS };
    // Multiples of 1/8 s, which all of them can express.
    let written = [0u64, 125, 250, 1_000, 1_125, 5_000]
        .map(|millis| (1_795_000_000_000_000_000 + millis * 1_000_000, 500));
    for order in [LITTLE, BIG] {
        let bytes = captures::pcapng(order, &[coarse, shifted, before], 64, &written);
        assert_eq!(packets(&read(&bytes).unwrap()), expected(&written, 1), "{order:?}");
    }
}

/// A section may have another byte order, and interfaces of its own.
#[test]
fn sections_follow_each_other() {
    let file = [
        captures::pcapng(LITTLE, &[NANOSECONDS], 64, &WRITTEN[..2]),
        captures::pcapng(BIG, &[MICROSECONDS], 64, &WRITTEN[2..]),
    ];
    let read = read(&file.concat()).unwrap();
    assert_eq!(packets(&read)[3], (59_876_543_211, 9000));
}

/// The length of a packet counts, and not how much of it was kept; and its headers come off.
#[test]
fn the_original_length_counts() {
    let cut = captures::pcap(LITTLE, false, 64, &WRITTEN);
    assert_eq!(packets(&read(&cut).unwrap()), expected(&WRITTEN, 1_000));
    let sent = recording::read(&cut[..], &Fit::default()).unwrap();
    let lengths: Vec<u16> = sent.trace.iter().map(|(_, length)| length).collect();
    assert_eq!(lengths, [32, 1472, 35, 8958]);
    assert_eq!(sent.changed.lengthened, 1);
}

/// The lengths of captures with check sequences are those that Wireshark finds: of a frame of 146 bytes 132 follow Ethernet.
#[test]
fn a_frame_check_sequence_is_no_payload() {
    let fit = Fit { headers: Some(14), ..Fit::default() };
    let payload = |bytes: &[u8]| recording::read(bytes, &fit).unwrap().trace.length(0).unwrap();
    let frame = [(1_795_000_000_000_000_000, 146)];
    for order in [LITTLE, BIG] {
        // Words of 16 bits in the upper four bits of the link type, if the bit below says so.
        for (link, expected) in [
            (0x0000_0001, 132),
            (0x2000_0001, 132),
            (0x0400_0001, 132),
            (0x1400_0001, 130),
            (0x2400_0001, 128),
            (0xf400_0001, 102),
        ] {
            let mut file = captures::pcap(order, false, 146, &frame);
            file[20..24].copy_from_slice(&order.four(link));
            assert_eq!(payload(&file), expected, "{order:?} {link:#x}");
        }
        let capture = |interface: Option<u8>, flags: Option<u32>| {
            let checked = Interface { check_sequence: interface, ..MICROSECONDS };
            let mut file = [captures::section(order), captures::described(order, checked)].concat();
            let header = [0, 0, 0, 146, 146].map(|number| order.four(number)).concat();
            let options = flags.map_or_else(Vec::new, |flags| {
                [captures::option(order, 2, &order.four(flags)), captures::option(order, 0, &[])].concat()
            });
            file.extend(captures::block(order, 6, &[&header[..], &[0xee; 148], &options].concat()));
            file
        };
        for (interface, flags, expected) in [
            (None, None, 132),
            (Some(0), None, 132),
            (Some(2), None, 130),
            (Some(4), None, 128),
            (Some(7), None, 125),
            (Some(8), None, 131),
            (Some(32), None, 128),
            (Some(39), None, 128),
            (None, Some(4 << 5), 128),
            (None, Some(15 << 5 | 0x1f), 117),
            (Some(4), Some(2 << 5), 130),
            (Some(4), Some(0), 128),
        ] {
            assert_eq!(payload(&capture(interface, flags)), expected, "{order:?} {interface:?} {flags:?}");
        }
    }
}

/// The form of packets that old programs write.
#[test]
fn obsolete_packet_blocks_are_packets() {
    for order in [LITTLE, BIG] {
        let packet = |interface: u16, micros: u32, length: u32| {
            let numbers = [0, micros, 64, length].map(|number| order.four(number)).concat();
            let body = [&order.two(interface)[..], &order.two(9), &numbers, &[0xee; 64]].concat();
            captures::block(order, 2, &body)
        };
        let file = |interface| {
            let head = [captures::section(order), captures::described(order, MICROSECONDS)].concat();
            [head, packet(0, 5, 100), packet(interface, 30, 1_514)].concat()
        };
        assert_eq!(packets(&read(&file(0)).unwrap()), [(0, 100), (25_000, 1_514)], "{order:?}");
        assert!(read(&file(1)).unwrap_err().ends_with("a packet of interface 1, where 1 are described"));
    }
}

/// A capture that is still being written ends anywhere: its whole packets can be had.
#[test]
fn what_is_whole_of_a_damaged_file_is_kept() {
    let fit = Fit { headers: Some(0), keeps_whole: true, ..Fit::default() };
    for bytes in
        [captures::pcap(LITTLE, true, 64, &WRITTEN), captures::pcapng(BIG, &[NANOSECONDS], 64, &WRITTEN)]
    {
        let whole = read(&bytes).unwrap();
        let mut kept = Vec::new();
        for end in 0..bytes.len() {
            let Ok(recording) = recording::read(&bytes[..end], &fit) else {
                assert!(kept.is_empty(), "{end} bytes");
                continue;
            };
            let (packets, all) = (packets(&recording), packets(&whole));
            assert_eq!(packets[..], all[..packets.len()], "{end} bytes");
            // Without the flag the same file is refused, and the message names it; or it ends between two records.
            let refused = read(&bytes[..end]).err();
            assert_eq!(refused.is_some(), recording.changed.cut_off, "{end} bytes");
            assert!(
                refused.is_none_or(|problem| problem.ends_with("--damaged keep sends the packets before it"))
            );
            kept.push(packets.len());
        }
        assert!(kept.is_sorted() && [1, 2, 3].iter().all(|count| kept.contains(count)), "{kept:?}");
    }
}

#[test]
fn times_that_go_back_are_counted() {
    let mut written = WRITTEN;
    written.swap(1, 3);
    let read = read(&captures::pcap(LITTLE, true, 64, &written)).unwrap();
    let last = packets(&read)[1].0;
    assert_eq!(read.changed.out_of_order, 2);
    assert_eq!(packets(&read)[2..], [(last, 77), (last, 1514)]);
}

#[test]
fn what_is_wrong_with_a_pcap_is_named() {
    let good = captures::pcap(LITTLE, false, 100, &WRITTEN);
    let second = 24 + 16 + 60;
    refused(&good[..23], "byte 0: the file ends in its header");
    refused(&good[..24], "byte 24: the file ends, and there was no packet in it");
    refused(&good[..second + 5], "byte 100: the file ends in a packet, after 5 bytes of it");
    refused(&good[..good.len() - 1], "byte 309: the file ends in a packet, after 115 bytes of it");
    let with = |at: usize, number: u32| {
        let mut bytes = good.clone();
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        bytes
    };
    refused(&with(4, 3), "byte 0: pcap of format 3.0; format 2.4 is read");
    refused(
        &with(second + 4, 1_000_000),
        "byte 100: a time of 1795000000 s and a fraction of 1000000 / 1000000 s: a fraction is less than a second",
    );
    refused(&with(second + 12, 99), "byte 100: 100 bytes kept of a packet of 99");
    refused(
        &with(second + 12, 70_000),
        "byte 100: a packet of 70000 bytes, 70000 without headers: a datagram carries at most 65507",
    );
    // Four gigabytes are claimed, and none is allocated.
    refused(&with(second + 8, u32::MAX), "byte 100: the file ends in a packet, after 325 bytes of it");
    let unknown = recording::read(&with(20, 105)[..], &Fit::default()).unwrap_err().to_string();
    assert!(unknown.starts_with("byte 24: a packet of link type 105"), "{unknown}");
}

#[test]
fn what_is_wrong_with_a_pcapng_is_named() {
    let order = LITTLE;
    let file = |blocks: &[Vec<u8>]| {
        [captures::section(order), captures::described(order, MICROSECONDS), blocks.concat()].concat()
    };
    let start = file(&[]).len();
    assert_eq!(start, 28 + 24);
    let packet = |header: [u32; 5], rest: &[u8]| {
        let header: Vec<u8> = header.iter().flat_map(|number| number.to_le_bytes()).collect();
        captures::block(order, 6, &[&header[..], rest].concat())
    };
    let good = packet([0, 0, 7, 4, 60], b"kept");
    let cut = file(&[good]);
    assert_eq!(read(&cut).unwrap().trace.packets(), 1);
    refused(&file(&[]), "byte 52: the file ends, and there was no packet in it");
    refused(
        &file(&[packet([1, 0, 7, 4, 60], b"kept")]),
        "byte 52: a packet of interface 1, where 1 are described",
    );
    refused(
        &file(&[packet([0, 0, 7, 9, 60], b"kept")]),
        "byte 52: a block of 36 bytes whose lengths contradict each other",
    );
    refused(&file(&[packet([0, 0, 7, 4, 3], b"kept")]), "byte 52: 4 bytes kept of a packet of 3");
    refused(&file(&[packet([0, u32::MAX, 7, 4, 60], b"kept")]), "byte 52: a time before 1970 or after 2554");
    refused(
        &file(&[captures::block(order, 3, &[0; 8])]),
        "byte 52: a simple packet block, which has no time",
    );
    refused(&file(&[captures::block(order, 2, &[0; 16])]), "byte 52: a packet block of less than 20 bytes");
    refused(&cut[..cut.len() - 1], "byte 52: the file ends after 35 of the 36 bytes of a block");
    refused(&cut[..start + 6], "byte 52: the file ends in a block, after 6 bytes of it");
    let with = |at: usize, bytes: &[u8]| {
        let mut file = cut.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    refused(&with(start + 32, &[37]), "byte 52: a block of 36 bytes whose lengths contradict each other");
    refused(&with(start + 4, &[8]), "byte 52: a block of 8 bytes; the shortest has 12");
    refused(
        &with(start + 4, &[0xff; 4]),
        "byte 52: the file ends after 36 of the 4294967295 bytes of a block",
    );
    refused(&with(8, b"sure"), "byte 0: a section header without a byte order");
    refused(&with(12, &[2]), "byte 0: a section of format 2; format 1 is read");
    let resolution = |exponent| Interface { resolution: Some((exponent, 1)), ..MICROSECONDS };
    for exponent in [20, 127, 0x80 | 64, 0xff] {
        let file = [captures::section(order), captures::described(order, resolution(exponent))].concat();
        refused(&file, &format!("byte 28: if_tsresol {exponent}: at the finest"));
    }
}

/// The parser takes the frame of a block off the length that the block claims: where that is shorter than a frame there is
/// nothing to take it from. 64 bytes of a file, and the same of every type of block, in both byte orders.
#[test]
fn a_block_that_claims_less_than_its_frame_is_refused() {
    // Process information first: of the rest the parser asks for more than a frame itself.
    let types = [0x8000_0001, 1, 2, 3, 4, 5, 6, 9, 10, 0x0bad, 0x4000_0bad, 0x7777_7777];
    for order in [LITTLE, BIG] {
        let head = [captures::section(order), captures::described(order, MICROSECONDS)].concat();
        for kind in types {
            for claimed in (0..12u32).rev() {
                let frame = captures::block(order, kind, &[]);
                let mut file = [&head[..], &frame[..]].concat();
                assert_eq!(file.len(), 64);
                let length = if order == BIG { claimed.to_be_bytes() } else { claimed.to_le_bytes() };
                file[56..60].copy_from_slice(&length);
                refused(&file, &format!("byte 52: a block of {claimed} bytes; the shortest has 12"));
                properties::recording(&file);
            }
        }
    }
}

/// A block longer than the buffer at first is passed over; one that is absurd is not waited for.
#[test]
fn long_blocks_are_passed_over() {
    let long = captures::block(BIG, 0x0bad, &vec![0; 300_000]);
    let file = [captures::pcapng(BIG, &[NANOSECONDS], 64, &WRITTEN[..1]), long].concat();
    properties::recording(&file);
    assert_eq!(read(&file).unwrap().trace.packets(), 1);
    let absurd = [
        captures::section(LITTLE),
        0x0badu32.to_le_bytes().to_vec(),
        0x4000_0000u32.to_le_bytes().to_vec(),
        vec![0; 17 << 20],
    ];
    refused(&absurd.concat(), "byte 28: a block of more than 16777216 bytes");
}

fn order() -> impl Strategy<Value = Order> {
    any::<bool>().prop_map(|big_endian| Order { big_endian })
}

/// Packets in order, and gaps of any kind between them.
fn some_packets() -> impl Strategy<Value = Vec<Packet>> {
    let gap = prop_oneof![Just(0u64), 0u64..2_000, 0u64..10_000_000_000];
    prop::collection::vec((gap, 32u32..=65_507), 1..60).prop_map(|gaps| {
        let mut nanos = 1_700_000_000_000_000_000;
        gaps.into_iter()
            .map(|(gap, length)| {
                nanos += gap;
                (nanos, length)
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_written_is_read_back(written in some_packets(), order in order(), kept in 0u32..200, format in 0usize..5) {
        let (bytes, unit) = match format {
            0 => (captures::pcap(order, false, kept, &written), 1_000),
            1 => (captures::pcap(order, true, kept, &written), 1),
            2 => (captures::pcapng(order, &[MICROSECONDS], kept, &written), 1_000),
            3 => (captures::pcapng(order, &[NANOSECONDS, NANOSECONDS], kept, &written), 1),
            _ => (captures::csv(&written), 1),
        };
        let read = read(&bytes);
        prop_assert!(read.is_ok(), "{read:?}");
        prop_assert_eq!(packets(&read.unwrap()), expected(&written, unit));
    }

    /// Bytes at random seldom get past the first check; so good files are damaged.
    #[test]
    fn damaged_files_are_read_or_refused(
        written in some_packets(),
        order in order(),
        format in 0usize..3,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        end in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = match format {
            0 => captures::pcap(order, false, 40, &written),
            1 => captures::pcapng(order, &[MICROSECONDS, NANOSECONDS], 40, &written),
            _ => captures::csv(&written),
        };
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        properties::recording(&bytes);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), magic in 0usize..6) {
        let magics: [&[u8]; 6] = [b"", b"\n\r\r\n", b"\xd4\xc3\xb2\xa1\x02\0\x04\0", b"\xa1\xb2\x3c\x4d\0\x02\0\x04", b"1,2\n", b"#"];
        properties::recording(&[magics[magic], &bytes].concat());
    }

    #[test]
    fn any_text_is_read_or_refused(text in "([0-9]{1,9}(\\.[0-9]{0,5})?,[0-9]{1,6}\n|#?[ -~]{0,12}\r?\n){0,12}") {
        properties::recording(text.as_bytes());
    }
}

#[test]
fn an_ethernet_capture_is_assumed_nowhere() {
    let loopback = Interface { link: 0, ..MICROSECONDS };
    let bytes = captures::pcapng(
        LITTLE,
        &[loopback, Interface { link: ETHERNET, ..loopback }],
        64,
        &[(0, 132), (1_000, 142)],
    );
    let read = recording::read(&bytes[..], &Fit::default()).unwrap();
    assert!(read.trace.iter().all(|(_, length)| length == 100));
}
