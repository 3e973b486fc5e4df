//! The machine itself: what is an event, what it costs, who is taken by which look.

use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_poll::HipConfig;
use softtimers_poll::readings::Costs;
use softtimers_poll::{Factor, Hip, Interrupts};

use super::{READINGS, run, table_1};
use crate::Streams;
use crate::engine::arrivals::{self, Arrival};
use crate::engine::receiver::{Receiver, ReceiverEvent, Timing};
use crate::experiments::hip::scheme::{Scheme, Settings};

/// Packets at these microseconds, of 1500 bytes each: V(B) is 0.5 µs for one.
fn at(micros: &[u64]) -> Vec<Arrival> {
    micros.iter().map(|&at| Arrival { at: Timestamp::from_micros(at), bytes: 1_500 }).collect()
}

/// At 10 Mbit/s frames are 51.2 µs apart at least, so a handler of 5 µs meets two of them at most, and here never.
#[test]
fn one_packet_an_interrupt_on_ten_megabits() {
    for (_, trace) in table_1(1) {
        let account = run(Scheme::Interrupts, &Settings::PAPER, &trace);
        assert_eq!(account.interrupts, account.packets());
    }
    // Two at once are the most that its handlers see even if the wire could do it, at its shortest gap.
    let account =
        Settings::PAPER.run(Scheme::Interrupts, at(&[100, 105, 156, 161]).into_iter(), 1, |_, _| ());
    assert_eq!((account.interrupts, account.by_interrupt), (2, 4));
}

/// Every nanosecond of overhead is an interrupt's, a poll's, a transfer's or a change's.
#[test]
fn overhead_is_the_sum_of_its_parts() {
    for (row, trace) in table_1(3) {
        let (account, hip) =
            Receiver::new(Hip::new(READINGS[0]), Costs::HIP, Timing::Clock, arrivals::of_trace(&trace))
                .run(|_, _| ());
        let fixed = account.interrupts * 5_000 + account.polls * 500 + account.switches * 1_000;
        let transfer = account.bytes * 500 / 1_500;
        let busy = account.busy_nanos() as u64;
        // Each look rounds its bytes down to a nanosecond.
        let looks = account.interrupts + account.polls;
        assert!(
            (fixed + transfer - looks..=fixed + transfer).contains(&busy),
            "{busy} of {fixed} + {transfer}"
        );
        assert_eq!(account.switches, hip.stats().switches);
        assert_eq!((account.interrupts, account.polls), (hip.stats().interrupts, hip.stats().polls));
        assert_eq!(account.unsuccessful, hip.stats().unsuccessful);
        assert_eq!(account.packets(), u64::from(row.packets));
    }
}

/// The timelines of figure 2: an interrupt at an arrival, and polls that find one packet, two, none.
#[test]
fn events_come_in_the_order_of_figure_2() {
    use ReceiverEvent::{Arrival as A, InterruptBegin, InterruptEnd as I, PollBegin as Ps, PollEnd as Pf};
    let log = |scheme, micros: &[u64]| {
        let mut log = vec![];
        let settings = Settings { period: Duration::from_micros(100), ..Settings::PAPER };
        settings.run(scheme, at(micros).into_iter(), 1, |time, event| log.push((time.as_nanos(), event)));
        log
    };
    assert_eq!(
        log(Scheme::Interrupts, &[50, 80]),
        [
            (50_000, A),
            (50_000, InterruptBegin),
            (55_500, I(1)),
            (80_000, A),
            (80_000, InterruptBegin),
            (85_500, I(1))
        ]
    );
    // The first look is at the beginning; then each 100 µs.
    let polls = log(Scheme::Constant, &[50, 210, 260]);
    let found = [
        (0, Ps),
        (500, Pf(0)),
        (50_000, A),
        (100_000, Ps),
        (101_000, Pf(1)),
        (200_000, Ps),
        (200_500, Pf(0)),
    ];
    assert_eq!(polls[..7], found);
    assert_eq!(polls[7..], [(210_000, A), (260_000, A), (300_000, Ps), (301_500, Pf(2))]);
}

#[test]
fn what_arrives_during_a_look_is_taken_in_it() {
    let run = |micros: &[u64]| {
        let arrivals = at(micros).into_iter();
        Receiver::new(Interrupts, Costs::HIP, Timing::Clock, arrivals).run(|_, _| ()).0
    };
    // 2 µs apart: 5.5 µs for one become 6 with the second.
    let two = run(&[100, 102]);
    assert_eq!((two.interrupts, two.by_interrupt), (1, 2));
    assert_eq!(two.busy_nanos(), 6_000);
    assert_eq!(two.longest_delay, Duration::from_micros(6));
    // Each packet that is taken makes room for another: ten in one interrupt of 10 µs.
    let ten = run(&[100, 101, 102, 103, 104, 105, 106, 107, 108, 109]);
    assert_eq!((ten.interrupts, ten.busy_nanos()), (1, 10_000));
    // A poll is no different: packets at the very time of it, and during it.
    let settings = Settings { period: Duration::from_micros(100), ..Settings::PAPER };
    let polled = settings.run(Scheme::Constant, at(&[90, 100, 101]).into_iter(), 1, |_, _| ());
    assert_eq!((polled.by_poll, polled.longest_delay), (3, Duration::from_micros(12)));
}

#[test]
fn whatever_it_is_given_it_ends_and_loses_nothing() {
    let mut random = Streams::new(11).of("programs");
    for _ in 0..if cfg!(miri) { 3 } else { 60 } {
        let mut micros: Vec<u64> = (0..random.below(200) + 1).map(|_| random.below(40_000)).collect();
        micros.sort_unstable();
        let time = |random: &mut softtimers_core::Random, most| Duration::from_nanos(1 + random.below(most));
        let settings = Settings {
            hip: HipConfig {
                shortest: time(&mut random, 2_000_000),
                longest: time(&mut random, 20_000_000),
                gamma: Factor::thousandths(random.below(5_000) as u32),
                unsuccessful: random.below(12) as u32,
                ..READINGS[(random.next_u64() & 1) as usize]
            },
            period: time(&mut random, 3_000_000).max(Duration::from_micros(1)),
            ..Settings::PAPER
        };
        for scheme in Scheme::ALL {
            // A period of nanoseconds would be polls without end in a test.
            let settings = Settings {
                hip: HipConfig {
                    shortest: settings.hip.shortest.max(Duration::from_micros(5)),
                    ..settings.hip
                },
                ..settings
            };
            let mut events = vec![];
            let account =
                settings.run(scheme, at(&micros).into_iter(), 1, |time, event| events.push((time, event)));
            assert_eq!(account.packets(), micros.len() as u64, "{scheme:?}");
            assert_eq!(account.bytes, micros.len() as u64 * 1_500);
            let arrived = events.iter().filter(|(_, event)| *event == ReceiverEvent::Arrival).count();
            assert_eq!(arrived, micros.len());
            let looks = events.iter().filter(|(_, event)| *event != ReceiverEvent::Arrival);
            assert!(looks.map(|(time, _)| *time).is_sorted(), "{scheme:?}");
        }
    }
}
