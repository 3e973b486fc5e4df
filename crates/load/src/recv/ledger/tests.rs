//! Which datagrams are counted, and whose.

use super::*;
use crate::gaps::Extremes;
use crate::properties;
use crate::wire::{Hello, MIN_SIZE};
use proptest::prelude::*;
use softtimers_measure::distribution::Distribution;

fn peer(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn data(flow: u32, sequence: u64) -> [u8; MIN_SIZE] {
    let interval = Duration::from_micros(40);
    Datagram::Data { flow, sequence, scheduled: Timestamp::ZERO, interval, token: None }.encode()
}

fn bye(flow: u32, sent: u64, token: Option<Token>) -> [u8; MIN_SIZE] {
    Datagram::Bye { flow, sent, token }.encode()
}

/// The traffic of a sender that has agreed.
fn agreed(flow: u32, sequence: u64, token: Token) -> [u8; MIN_SIZE] {
    let scheduled = Timestamp::ZERO;
    Datagram::Data { flow, sequence, scheduled, interval: Duration::ZERO, token: Some(token) }.encode()
}

/// Datagrams of other programs: nothing, a byte, less than a header, and more.
const PLAIN: [&[u8]; 4] = [b"", b"S", b"GET / HTTP/1.1\r\n\r\n", &[0xff; 1_000]];

/// Flows 100 and 101, 40 µs apart.
const HELLO: Hello = Hello { nonce: 3, flow: 100, flows: 2, interval_ns: 40_000, token: None };

/// Asks, comes back, and returns the token.
fn agree(ledger: &mut Ledger, port: u16, time: Timestamp) -> Token {
    let hello = Datagram::Hello(HELLO).encode();
    let welcome = ledger.take(peer(port), &hello, time);
    let Some(Datagram::Welcome { token, .. }) = welcome else { panic!("{welcome:?}") };
    let hello = Datagram::Hello(Hello { token: Some(token), ..HELLO }).encode();
    assert_eq!(ledger.take(peer(port), &hello, time), welcome);
    token
}

#[test]
fn an_even_flow_is_accounted_for() {
    let mut ledger = Ledger::new(None, true);
    for turn in 0..=1_000 {
        ledger.take(peer(1), &data(0, turn), Timestamp::from_micros(turn * 40));
    }
    let report = ledger.report();
    assert_eq!((report.received, report.lost, report.flows), (1_001, Some(0), 1));
    assert_eq!(report.gaps.back_to_back, Some(0.0));
    assert_eq!(report.received_pps, Some(25_000.0));
    assert_eq!(ledger.target(), Some(Duration::from_micros(40)));
}

#[test]
fn flows_of_one_peer_and_of_several_are_kept_apart() {
    let mut ledger = Ledger::new(None, true);
    for (port, flow) in [(1, 0), (1, 1), (2, 0)] {
        for sequence in [0, 2] {
            ledger.take(peer(port), &data(flow, sequence), Timestamp::ZERO);
        }
    }
    let report = ledger.report();
    assert_eq!((report.flows, report.lost, report.duplicated), (3, Some(3), Some(0)));
    assert_eq!(report.per_flow[2].peer, "127.0.0.1:2");
    let FlowsReport { count, ended, received, lost, gap_stddev_ns, .. } = report.over_flows;
    assert_eq!((count, ended, received.min, received.max), (3, 0, Some(2), Some(2)));
    assert_eq!((lost.max, gap_stddev_ns.max), (Some(1), Some(0)));
}

#[test]
fn what_went_wrong_is_told_of_the_flow_it_happened_to() {
    let mut ledger = Ledger::new(None, true);
    for (turn, (flow, sequence)) in
        [(0, 0), (1, 0), (0, 2), (1, 1), (0, 1), (1, 1), (1, 3)].into_iter().enumerate()
    {
        ledger.take(peer(1), &data(flow, sequence), Timestamp::from_micros(turn as u64 * 10));
    }
    let per_flow = ledger.report().per_flow;
    let counts = |at: usize| [per_flow[at].lost, per_flow[at].reordered, per_flow[at].duplicated];
    assert_eq!((counts(0), counts(1)), ([0, 1, 0].map(Some), [1, 0, 1].map(Some)));
    // Gaps of 20, 20; and of 20, 20, 10.
    assert_eq!((per_flow[0].gap_mean_ns, per_flow[0].gap_stddev_ns), (Some(20_000.0), Some(0.0)));
    assert!((per_flow[1].gap_stddev_ns.unwrap() - 4_714.0).abs() < 1.0, "{per_flow:?}");
    // Only one gap is of two datagrams in a row.
    let deviations = ledger.report().gap_deviation_ns;
    assert_eq!((deviations.count, deviations.p50), (1, Some(20_000)));
}

/// A thousand flows: one lost some, one was delayed now and then, and both are found.
#[test]
fn the_worst_of_many_flows_are_told() {
    let mut ledger = Ledger::new(None, true);
    for turn in 0..20 {
        for flow in (0..1_000).filter(|&flow| flow != 800 || turn % 7 != 3) {
            let scheduled = Timestamp::from_micros(1_000_000 + turn * 40);
            let interval = Duration::from_micros(40);
            let held_up = if flow == 900 && turn % 5 == 4 { 10_000 } else { 0 };
            let time = scheduled + Duration::from_micros(7 + u64::from(flow) + held_up);
            ledger.take(
                peer(1),
                &Datagram::Data { flow, sequence: turn, scheduled, interval, token: None }.encode(),
                time,
            );
        }
    }
    let report = ledger.report();
    let worst: Vec<u32> = report.worst_flows.iter().filter_map(|flow| flow.flow).collect();
    assert_eq!((worst.len(), &worst[..2]), (WORST_SHOWN, &[800, 900][..]));
    assert_eq!(
        (report.worst_flows[0].lost, report.worst_flows[0].one_way_variation_ns.max),
        (Some(3), Some(0))
    );
    let held_up = report.worst_flows[1].one_way_variation_ns;
    assert_eq!((held_up.mean, held_up.max, held_up.p50), (Some(2_000_000.0), Some(10_000_000), None));
    assert_eq!(report.per_flow[5].one_way_variation_ns.p99, Some(0), "each flow has its own least");
    let all = report.one_way_variation_ns;
    assert_eq!((all.count, all.p50, all.p999, all.max), (20_000 - 3, Some(0), Some(0), Some(10_000_000)));
    assert_eq!(report.over_flows.one_way_variation_mean_ns.max, Some(2_000_000));
}

/// Four flows 10 µs apart, once all have been heard; then a pause that makes five datagrams late.
#[test]
fn trains_and_rates_are_those_of_all_flows() {
    let mut ledger = Ledger::new(None, true);
    let mut take = |flow: u32, turn: u64, micros| {
        ledger.take(peer(1), &data(flow, turn), Timestamp::from_micros(micros));
    };
    for turn in 0..100 {
        for flow in 0..4 {
            // The flows' first datagrams come close together, as if from one flow.
            let at = if turn == 0 { u64::from(flow) } else { turn * 40 + u64::from(flow) * 10 };
            take(flow, turn, if (2_000..2_050).contains(&at) { 2_040 + (at - 2_000) / 10 } else { at });
        }
    }
    let FlowsReport { longest_train, rate_pps: Extremes { min, max }, .. } = ledger.report().over_flows;
    assert_eq!(longest_train, Some(5));
    // 99 intervals, from 0 to 3,960 µs; and from 3 to 3,990.
    assert_eq!((min.map(f64::round), max.map(f64::round)), (Some(24_831.0), Some(25_000.0)));
}

#[test]
fn an_expected_interval_overrules_the_sender() {
    let mut ledger = Ledger::new(Some(Duration::from_millis(1)), true);
    for turn in 0..3 {
        ledger.take(peer(1), &data(0, turn), Timestamp::from_micros(turn * 40));
    }
    assert_eq!(ledger.report().gaps.back_to_back, Some(1.0));
}

/// Anything that strangers send before, during and after a run is counted as theirs: from other addresses, with other
/// tokens, and from the sender's own address without its token; and other programs' datagrams as foreign.
#[test]
fn strangers_change_nothing_but_their_own_count() {
    let at = |micros| Timestamp::from_micros(1_000_000 + micros);
    let run = |disturbed: bool| {
        let mut ledger = Ledger::new(None, false);
        let (mut strange, mut foreign) = (0, 0);
        let mut disturb = |ledger: &mut Ledger, micros| {
            let wrong = Token::new(12_345).unwrap();
            let forged = [
                data(0, 1_000_000_000),
                data(100, 7),
                agreed(100, 1_000_000_000, wrong),
                bye(0, 999_999_999, None),
                bye(100, 999_999_999, None),
                bye(100, 999_999_999, Some(wrong)),
            ];
            for port in [1, 2].into_iter().filter(|_| disturbed) {
                for forged in forged {
                    assert_eq!(ledger.take(peer(port), &forged, at(micros)), None);
                    strange += 1;
                }
                for plain in PLAIN {
                    assert_eq!(ledger.take(peer(port), plain, at(micros)), None);
                    foreign += 1;
                }
            }
        };
        disturb(&mut ledger, 0);
        assert!(!ledger.all_ended());
        let token = agree(&mut ledger, 1, at(10));
        for turn in 0..100 {
            disturb(&mut ledger, turn * 40 + 15);
            for flow in [100, 101] {
                ledger.take(peer(1), &agreed(flow, turn, token), at(turn * 40 + 20));
            }
        }
        assert!(!ledger.all_ended());
        for flow in [100, 101] {
            ledger.take(peer(1), &bye(flow, 101, Some(token)), at(5_000));
        }
        disturb(&mut ledger, 6_000);
        assert!(ledger.all_ended());
        let report = ledger.report();
        assert_eq!((report.strangers, report.foreign, report.unnumbered), (strange, foreign, 0));
        RecvReport { strangers: 0, foreign: 0, ..report }
    };
    let report = run(false);
    assert_eq!((report.received, report.lost, report.flows, report.hellos), (200, Some(2), 2, 2));
    assert_eq!(report.per_flow.iter().map(|flow| flow.flow).collect::<Vec<_>>(), [Some(0), Some(1)]);
    assert_eq!(run(true), report);
}

/// An agreed sender cannot have sent more than there was time for, either; its end is accepted.
#[test]
fn a_goodbye_that_claims_too_much_counts_nothing_as_lost() {
    let at = |micros| Timestamp::from_micros(1_000_000 + micros);
    let mut ledger = Ledger::new(None, false);
    let token = agree(&mut ledger, 1, at(0));
    for turn in 0..1_000 {
        ledger.take(peer(1), &agreed(100, turn, token), at(turn * 40));
    }
    ledger.take(peer(1), &bye(100, 1_000_000_497, Some(token)), at(40_000));
    let report = ledger.report();
    assert_eq!((report.lost, report.strangers, ledger.all_ended()), (Some(0), 1, true));
    // With `any` and without an agreement, not even that.
    let mut ledger = Ledger::new(None, true);
    ledger.take(peer(1), &data(0, 0), at(0));
    ledger.take(peer(1), &bye(0, 1_000_000_497, None), at(40));
    assert!(!ledger.all_ended());
    ledger.take(peer(1), &bye(0, 50_000, None), at(40));
    assert_eq!(
        (ledger.report().lost, ledger.all_ended()),
        (Some(49_999), true),
        "a burst of loss is believed"
    );
}

/// With `any`, agreed senders must still send their token.
#[test]
fn who_has_agreed_is_not_replaced_by_who_has_not() {
    let mut ledger = Ledger::new(None, true);
    let token = agree(&mut ledger, 1, Timestamp::ZERO);
    ledger.take(peer(1), &agreed(100, 0, token), Timestamp::ZERO);
    for forged in [data(100, 1), bye(100, 9, None), bye(100, 9, Token::new(5))] {
        ledger.take(peer(1), &forged, Timestamp::ZERO);
    }
    ledger.take(peer(2), &data(100, 0), Timestamp::ZERO);
    let report = ledger.report();
    assert_eq!((report.received, report.lost, report.strangers), (2, Some(0), 3));
}

/// A sender of another version is told so, in no more bytes than it sent.
#[test]
fn another_version_is_answered_and_remembered() {
    let mut ledger = Ledger::new(None, false);
    let mut hello = Datagram::Hello(HELLO).encode();
    hello[4] = 1;
    assert_eq!(ledger.take(peer(1), &hello, Timestamp::ZERO), Some(Datagram::Busy { nonce: 3 }));
    let mut old = data(0, 0);
    old[4] = 1;
    assert_eq!(ledger.take(peer(1), &old, Timestamp::ZERO), None);
    let report = ledger.report();
    assert_eq!((ledger.other_version(), report.strangers, report.foreign), (Some(1), 2, 0));
    // Any host can send that. Next to an agreed sender the receiver need not report it.
    agree(&mut ledger, 1, Timestamp::ZERO);
    assert_eq!(ledger.take(peer(2), &old, Timestamp::ZERO), None);
    assert_eq!((ledger.other_version(), ledger.report().strangers), (None, 3));
}

#[test]
fn what_is_not_ours_is_counted_and_not_answered() {
    let welcome = Datagram::Welcome { nonce: 1, token: Token::new(1).unwrap() }.encode();
    let mut unknown = welcome;
    unknown[5] = 99;
    let mut later = data(0, 0);
    later[4] = 3;
    // The last but three begins like one of our datagrams, and is too short for one.
    let payloads = || PLAIN.into_iter().chain([&b"SOFT and then some"[..], &welcome, &unknown, &later]);
    for (any, plain) in [(false, 0), (true, 4)] {
        let mut ledger = Ledger::new(None, any);
        for payload in payloads() {
            assert_eq!(ledger.take(peer(1), payload, Timestamp::ZERO), None);
        }
        let report = ledger.report();
        assert_eq!((report.unnumbered, report.foreign, report.strangers), (plain, 5 - plain, 3), "{any}");
        assert_eq!((report.received, report.flows, ledger.received()), (plain, plain.min(1), plain));
        assert_eq!((report.received_pps, report.gaps.back_to_back), (None, None));
    }
}

/// Every 100 µs from one port, and every 50 µs in pairs from another: gaps, bursts and rates are measured, and loss,
/// order and delay are unknown.
#[test]
fn any_program_is_measured_by_its_port() {
    let mut ledger = Ledger::new(Some(Duration::from_micros(100)), true);
    for turn in 0..=1_000 {
        ledger.take(peer(1), PLAIN[turn as usize % 4], Timestamp::from_micros(turn * 100));
        let pair = turn - turn % 2;
        ledger.take(peer(2), &[7; 100], Timestamp::from_micros(pair * 100 + turn % 2 * 10));
    }
    let report = ledger.report();
    assert_eq!((report.received, report.unnumbered, report.flows), (2_002, 2_002, 2));
    assert_eq!(report.received_bytes, 1_001 * 100 + 250 * (1 + 18 + 1_000));
    assert_eq!((report.gaps.gap_ns.count, report.gaps.longest_burst), (2_000, Some(2)));
    assert_eq!(report.gaps.back_to_back, Some(0.25), "half of the gaps of one flow of two");
    assert_eq!([report.lost, report.reordered, report.duplicated, report.too_late], [None; 4]);
    assert_eq!((report.foreign, report.strangers), (0, 0));
    assert_eq!(report.one_way_variation_ns, Distribution::default());
    let [even, pairs] = &report.per_flow[..] else { panic!("{report:?}") };
    assert_eq!((&*even.peer, even.flow, even.received, even.lost), ("127.0.0.1:1", None, 1_001, None));
    assert_eq!((even.gap_mean_ns, even.gap_stddev_ns), (Some(100_000.0), Some(0.0)));
    assert!(pairs.gap_stddev_ns.unwrap() > 80_000.0, "{pairs:?}");
    assert_eq!(report.worst_flows[0], *pairs, "whose gaps vary more");
    let over = report.over_flows;
    assert_eq!((over.count, over.ended, over.lost), (2, 0, Distribution::default()));
    assert_eq!((over.received.max, over.rate_pps.min.map(f64::round)), (Some(1_001), Some(10_000.0)));
    assert!(!ledger.all_ended(), "nobody says goodbye");
}

/// A flow with numbers keeps all its figures; the total has those that both have. Datagrams beyond the limit are
/// ignored.
#[test]
fn beside_datagrams_without_numbers_loss_is_known_of_each_flow_only() {
    let mut ledger = Ledger::new(None, true);
    let take = |ledger: &mut Ledger, payload: &[u8], micros| {
        ledger.take(peer(1), payload, Timestamp::from_micros(micros));
    };
    for (turn, sequence) in [0, 2, 1, 1, 4].into_iter().enumerate() {
        take(&mut ledger, &data(0, sequence), turn as u64 * 40);
    }
    let before = ledger.report();
    assert_eq!([before.lost, before.reordered, before.duplicated], [Some(1); 3]);
    assert_eq!(before.over_flows.lost.max, Some(1));
    // From the same port, between two of ours.
    take(&mut ledger, b"plain", 180);
    take(&mut ledger, &data(0, 5), 200);
    let report = ledger.report();
    assert_eq!((report.received, report.unnumbered, report.flows), (7, 1, 2));
    assert_eq!([report.lost, report.reordered, report.duplicated, report.too_late], [None; 4]);
    assert_eq!(report.over_flows.lost, Distribution::default());
    assert_eq!(report.one_way_variation_ns.count, 5, "those that have one");
    let [ours, plain] = &report.per_flow[..] else { panic!("{report:?}") };
    assert_eq!((ours.flow, ours.received, ours.lost), (Some(0), 6, Some(1)));
    assert_eq!((ours.gap_mean_ns, plain.gap_mean_ns), (Some(40_000.0), None), "the gaps of each its own");
    assert_eq!((plain.flow, plain.received, plain.lost, plain.reordered), (None, 1, None, None));
    assert_eq!(report.worst_flows[0], *ours);
    take(&mut ledger, &bye(0, 6, None), 240);
    assert!(!ledger.all_ended(), "one of two");
}

#[test]
fn memory_is_bounded_whoever_sends() {
    let mut ledger = Ledger::new(None, true);
    for flow in 0..2 * MOST_FLOWS as u32 {
        ledger.take(peer(1), &data(flow, 0), Timestamp::ZERO);
    }
    let report = ledger.report();
    assert_eq!((report.flows, report.unsorted), (MOST_FLOWS as u64, MOST_FLOWS as u64));
    assert_eq!((report.received, report.per_flow.len()), (MOST_FLOWS as u64, MOST_FLOWS_SHOWN));
    // Other programs' flows fill the same room, whatever ports are written on their datagrams.
    ledger.take(peer(1), b"plain", Timestamp::ZERO);
    let full = ledger.report();
    assert_eq!((full.unnumbered, full.unsorted, full.lost), (0, MOST_FLOWS as u64 + 1, Some(0)));
    let mut ledger = Ledger::new(None, true);
    for flow in 0..2 * MOST_FLOWS as u32 {
        let forged = SocketAddr::from((std::net::Ipv4Addr::from_bits(flow), 9));
        ledger.take(forged, b"plain", Timestamp::ZERO);
    }
    let report = ledger.report();
    assert_eq!((report.flows, report.unsorted), (MOST_FLOWS as u64, MOST_FLOWS as u64));
    assert_eq!((report.received, report.unnumbered), (MOST_FLOWS as u64, MOST_FLOWS as u64));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_datagrams_add_up(script in prop::collection::vec(any::<u8>(), 0..1_600)) {
        properties::ledger(&script);
    }
}

#[test]
fn who_asks_is_answered() {
    let mut ledger = Ledger::new(None, false);
    let peer = "127.0.0.1:5000".parse().unwrap();
    let hello = Hello { nonce: 1, flow: 9, flows: 1, interval_ns: 40_000, token: None };
    let hello = Datagram::Hello(hello).encode();
    assert!(matches!(ledger.take(peer, &hello, Timestamp::ZERO), Some(Datagram::Welcome { nonce: 1, .. })));
}

#[test]
fn streams_of_rtp_have_loss_and_order_each() {
    use super::super::rtp::tests::packet;

    let mut ledger = Ledger::new(Some(Duration::from_millis(20)), true).reading_rtp(true);
    for number in 0..100_u16 {
        for ssrc in 0..8 {
            // Each loses another packet, and the numbers begin anew.
            if u32::from(number) != 10 + ssrc {
                let time = Timestamp::from_micros(20_000 * u64::from(number));
                ledger.take(peer(1), &packet(ssrc, number.wrapping_sub(30)), time);
            }
        }
    }
    ledger.take(peer(1), &packet(3, 4), Timestamp::from_micros(3_000_000));
    ledger.take(peer(1), b"no RTP, and not ours", Timestamp::from_micros(3_000_000));
    let report = ledger.report();
    assert_eq!((report.flows, report.received, report.lost), (8, 8 * 99 + 1, Some(8)));
    assert_eq!((report.duplicated, report.unnumbered, report.foreign), (Some(1), 0, 1));
    assert_eq!(report.one_way_variation_ns.count, 0);
    assert!(report.per_flow.iter().all(|flow| flow.lost == Some(1)), "{report:?}");
}
