use std::net;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

use softtimers_core::Recovery;
use softtimers_core::{CatchUp, PaceConfig, Rate};
use softtimers_measure::units;

use super::*;
use crate::gaps::Extremes;
use crate::pattern::SendPattern;
use crate::quantum::SendQuantum;
use crate::session::stats::{Calls, LateReport};
use crate::traffic::Phase;
use crate::wire::Datagram;

/// Traffic in the words of `send`, and how its engine wants the flow to be handled.
fn traffic(flags: &str) -> (Traffic, Handling) {
    let words: Vec<&str> = flags.split(' ').collect();
    let value = |flag: &str| words.iter().position(|&word| word == flag).map(|at| words[at + 1]);
    let number = |flag: &str| value(flag).map(|number| number.parse::<u32>().unwrap());
    let time = |flag: &str| value(flag).map(|time| units::duration(time).unwrap());
    let rate = Rate::every(time("--interval").unwrap()).unwrap();
    let seed = number("--seed").unwrap_or(0).into();
    let catch_up = match value("--catch-up") {
        None => CatchUp::within(Duration::from_millis(10)),
        Some("all") => CatchUp::ALL,
        Some(_) => CatchUp::NONE,
    };
    let pattern = value("--pattern").map_or(SendPattern::Constant, |pattern| pattern.parse().unwrap());
    let pace = PaceConfig {
        pattern: pattern.seeded(seed),
        burst_interval: time("--burst-interval"),
        catch_up,
        recovery: Recovery::trains(number("--recovery").unwrap_or(1) as u16),
        ..PaceConfig::new(rate)
    };
    let timer = value("--timer").unwrap_or("soft");
    let mut traffic = Traffic { pace, ..Traffic::new(rate) };
    traffic.flows = number("--flows").unwrap_or(1);
    traffic.size = number("--size").map_or(1_200, |size| size as usize);
    traffic.end.count = number("--count").map(u64::from);
    traffic.phase = if value("--phase") == Some("together") { Phase::Together } else { Phase::Spread };
    traffic.quantum = value("--quantum").map_or(1, |quantum| SendQuantum::parse(quantum).unwrap().at(rate));
    traffic.gso = !words.contains(&"--no-gso");
    traffic.train = match value("--train") {
        Some(most) => most.parse().ok(),
        None => traffic.usual_train().filter(|_| timer != "kernel"),
    };
    (traffic, Handling { queued: timer == "soft", ahead: timer == "kernel" })
}

/// A flow on loopback, driven by hand, and the socket where it arrives.
fn flow(flags: &str, start: Timestamp) -> (Flow, UdpSocket) {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(receiver.local_addr().unwrap()).unwrap();
    let (traffic, handling) = traffic(flags);
    let counter = Counter::new(SendStats::new(traffic.pace.rate.interval(), traffic.flows));
    (Flow::new(&traffic, handling, Sender::new(socket), None, counter, start).unwrap(), receiver)
}

fn forfeited(flow: &mut Flow) -> u64 {
    flow.settle();
    flow.stats().forfeited
}

/// For several flows, which check the clock after sending: none of these times has come yet.
const AHEAD: Timestamp = Timestamp::from_micros(1 << 50);

fn scheduled(receiver: &UdpSocket) -> Timestamp {
    let mut packet = [0; 2048];
    let length = receiver.recv(&mut packet).unwrap();
    match Datagram::parse(&packet[..length]) {
        Ok(Datagram::Data { scheduled, .. }) => scheduled,
        other => panic!("{other:?}"),
    }
}

/// A receiver would take the numbers of null events for losses.
#[test]
fn null_events_are_departures_without_a_number() {
    let (millis, start) = (Duration::from_millis, Timestamp::from_micros(1_000_000));
    let (mut flow, receiver) = flow("--interval 1ms --count 3", start);
    let clock = || traffic("--interval 1ms").0.clock().unwrap();
    flow.restart(clock(), true, start);
    for count in 0..2 {
        flow.depart(start + millis(count), TriggerState::HandlerExit).unwrap();
    }
    assert_eq!((flow.stats().sent, flow.departures(), flow.finished()), (0, 2, false));
    flow.restart(clock(), false, start + millis(2));
    flow.depart(start + millis(2), TriggerState::HandlerExit).unwrap();
    assert_eq!((flow.stats().sent, flow.departures(), flow.finished()), (1, 3, true));
    let mut packet = [0; 2048];
    let length = receiver.recv(&mut packet).unwrap();
    assert!(matches!(Datagram::parse(&packet[..length]), Ok(Datagram::Data { sequence: 0, .. })));
}

/// After a pause of 10 ms, each datagram queued behind it is late too, though it left as soon as allowed.
#[test]
fn a_delay_shows_in_all_that_it_delays() {
    let (millis, start) = (Duration::from_millis, Timestamp::from_micros(1_000_000));
    let (mut flow, receiver) = flow("--interval 1ms --burst-interval 750us --catch-up all", start);
    flow.depart(start, TriggerState::HandlerExit).unwrap();
    let mut due = flow.depart(start + millis(11), TriggerState::HandlerExit).unwrap();
    for _ in 0..3 {
        due = flow.depart(due, TriggerState::Readiness).unwrap();
    }
    let late = flow.stats().late.distribution();
    assert_eq!((late.count, late.min, late.max), (5, Some(0), Some(10_000_000)));
    // 0, 10, 9.75, 9.5 and 9.25 ms: each one catches up by a quarter of the interval.
    assert!((late.mean.unwrap() - 7_700_000.0).abs() < 1.0, "{late:?}");
    let causes = flow.stats().late_by_cause();
    let count = |wanted: bool| {
        causes
            .iter()
            .filter(|(name, _)| (**name == "catch_up") == wanted)
            .map(|(_, late)| late.count)
            .sum::<u64>()
    };
    assert_eq!((count(true), count(false)), (3, 1), "{causes:?}");
    for place in 0..5 {
        assert_eq!(scheduled(&receiver), start + millis(place), "the header states the place");
    }
    assert_eq!((flow.stats().fired.total(), flow.stats().fired[TriggerState::Readiness]), (5, 3));
}

/// A skipped time does not make a datagram late: the next datagram takes the next scheduled time.
#[test]
fn places_given_up_do_not_count_as_late() {
    let (millis, start) = (Duration::from_millis, Timestamp::from_micros(1_000_000));
    let (mut flow, receiver) = flow("--interval 1ms --burst-interval 750us --catch-up none", start);
    flow.depart(start, TriggerState::HandlerExit).unwrap();
    let due = flow.depart(start + Duration::from_micros(11_500), TriggerState::HandlerExit).unwrap();
    assert_eq!(due, start + Duration::from_micros(12_250), "a burst interval after the last one");
    flow.depart(due, TriggerState::HandlerExit).unwrap();
    let places: Vec<_> = (0..3).map(|_| scheduled(&receiver)).collect();
    assert_eq!(places, [start, start + millis(1), start + millis(12)]);
    assert_eq!(forfeited(&mut flow), 10);
}

#[test]
fn goodbyes_are_a_few() {
    let (mut flow, receiver) = flow("--interval 1ms --count 1", Timestamp::ZERO);
    assert!(flow.say_goodbye());
    receiver.set_nonblocking(true).unwrap();
    let mut packet = [0; 2048];
    let came = std::iter::from_fn(|| receiver.recv(&mut packet).ok()).count();
    assert_eq!(came, 3);
}

/// A handler's departures are counted later, when the thread's own statistics cover other things.
#[test]
fn a_departure_of_a_handler_is_late_without_a_cause() {
    let (millis, start) = (Duration::from_millis, Timestamp::from_micros(1_000_000));
    let (mut flow, _receiver) = flow("--interval 1ms --catch-up all", start);
    flow.account(Departure { sent: start + millis(9), due: start, place: start });
    flow.account(Departure { sent: start + millis(10), due: start + millis(10), place: start + millis(1) });
    assert_eq!(flow.stats().late.distribution().max, Some(9_000_000));
    let counts: Vec<_> =
        flow.stats().late_by_cause().into_iter().filter(|(_, late)| late.count > 0).collect();
    assert_eq!(counts, [("catch_up", LateReport { count: 1, longest_ns: 9_000_000 })]);
}

/// The kernel does not say why a batch stopped and could go on at once; the queue of ICMP errors does. Without that
/// queue, nothing reveals a closed port.
#[test]
fn a_closed_port_is_told_from_a_full_queue() {
    let start = AHEAD;
    for queued in [true, false] {
        let (mut flow, receiver) = flow("--interval 1ms --flows 64 --phase together --train none", start);
        flow.sender.socket().report_queue_drops(queued).unwrap();
        drop(receiver);
        flow.depart(start, TriggerState::Backup).unwrap();
        let Calls { would_block, no_buffers, refused, .. } = flow.stats().calls;
        let (told, not_told) = if queued { (refused, no_buffers) } else { (no_buffers, refused) };
        assert!(told > 0 && (would_block, not_told) == (0, 0), "{queued}: {:?}", flow.stats().calls);
        assert_eq!(flow.sender.socket().drain_errors().unwrap(), 0);
    }
}

/// A kernel that never has room is not tried again and again, whether the loop is on time or far behind; and when it
/// has room again, the waiting datagrams leave.
#[test]
fn a_kernel_that_goes_on_refusing_is_left_alone_each_time() {
    let (micros, start) = (Duration::from_micros, Timestamp::from_micros(1_000_000));
    let (mut flow, _receiver) =
        flow("--interval 80us --flows 2 --size 64 --timer loop --phase spread", start);
    let (here, there) = UnixDatagram::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    there.set_nonblocking(true).unwrap();
    flow.sender = Sender::new(UdpSocket::from(net::UdpSocket::from(OwnedFd::from(here))));
    let Schedule::Several(flows, _) = flow.schedule else { panic!() };
    flow.schedule = Schedule::Ahead(flows, HandOver::new(start, Timestamp::MAX));
    while flow.sender.transmit(b"nobody reads this", start).unwrap() {}
    let mut now = start;
    for late in [0, 100, 0, 50_000, 0, 0, 200_000] {
        now += micros(late);
        let wake = flow.depart(now, TriggerState::Backup).unwrap();
        assert!(wake >= now + micros(100), "late by {late} us: {now:?}, then {wake:?}");
        assert_eq!((flow.stats().sent, flow.due()), (0, wake));
        now = wake;
    }
    assert!(flow.stats().calls.would_block >= 8, "{:?}", flow.stats().calls);
    let mut packet = [0; 64];
    while there.recv(&mut packet).is_ok() {}
    flow.depart(now, TriggerState::Backup).unwrap();
    assert!(flow.stats().sent > 0);
}

/// After a stall, in a loop that checks its clock twice in three intervals, datagrams found by one check leave by one
/// call, each with its scheduled time, and no more than the count.
#[test]
fn a_train_of_a_catch_up_leaves_by_one_call() {
    let (micros, start) = (Duration::from_micros, Timestamp::from_micros(1_000_000));
    let flags = "--interval 40us --size 64 --recovery 3 --catch-up all --count 401";
    let (mut flow, receiver) = flow(flags, start);
    let (mut now, mut checks) = (start, 0);
    let mut places = Vec::new();
    while !flow.finished() {
        assert!(now < start + micros(1_000_000), "{:?}", flow.stats().sent);
        if flow.due() <= now {
            let before = flow.stats().sent;
            let due = flow.depart(now, TriggerState::HandlerExit).unwrap();
            let sent = flow.stats().sent - before;
            assert!((1..=3).contains(&sent) && due > now, "{sent} at {now:?}, then {due:?}");
            checks += 1;
            places.extend((0..sent).map(|_| scheduled(&receiver)));
        }
        now += if checks == 20 { micros(3_000) } else { micros(60) };
    }
    let stats = flow.stats();
    assert_eq!((stats.calls.calls, stats.turns, stats.sent, forfeited(&mut flow)), (checks, checks, 401, 0));
    assert!(stats.catch_ups.in_trains > 50 && checks < 350, "{:?}", stats.catch_ups);
    assert_eq!(places, (0..401).map(|place| start + place * micros(40)).collect::<Vec<_>>());
}

/// The part of a train that the kernel has no room for keeps its scheduled times, and leaves before anything else.
#[test]
fn the_rest_of_a_train_keeps_its_places() {
    let (micros, start) = (Duration::from_micros, Timestamp::from_micros(1_000_000));
    let (mut flow, receiver) =
        flow("--interval 40us --size 64 --recovery 3 --catch-up all --burst-interval 0ns", start);
    let (here, there) = UnixDatagram::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    there.set_nonblocking(true).unwrap();
    let full = Sender::new(UdpSocket::from(net::UdpSocket::from(OwnedFd::from(here))));
    let open = std::mem::replace(&mut flow.sender, full);
    while flow.sender.transmit(b"nobody reads this", start).unwrap() {}
    let late = start + micros(1_000);
    let again = flow.depart(late, TriggerState::Backup).unwrap();
    assert!(again >= late + micros(10) && flow.stats().sent == 0, "{again:?}");
    assert_eq!(flow.depart(again, TriggerState::Backup).unwrap(), flow.due());
    assert!(flow.stats().sent == 0 && flow.due() > again);
    flow.sender = open;
    for _ in 0..4 {
        flow.depart(flow.due(), TriggerState::Backup).unwrap();
    }
    let places: Vec<_> = (0..flow.stats().sent as u32).map(|_| scheduled(&receiver)).collect();
    assert!(places.len() > 4, "{places:?}");
    assert_eq!(places, (0..places.len() as u32).map(|place| start + place * micros(40)).collect::<Vec<_>>());
}

/// The starts of four flows share an interval; after a pause one datagram of each leaves in one turn, and no more than
/// the count.
#[test]
fn several_flows_are_spread_and_leave_together() {
    let (micros, start) = (Duration::from_micros, AHEAD);
    for timer in ["soft", "loop"] {
        let (mut flow, receiver) =
            flow(&format!("--interval 1ms --flows 4 --count 10 --timer {timer}"), start);
        let mut due = flow.due();
        for place in 0..4 {
            assert_eq!(due, start + place * micros(250), "{timer}");
            due = flow.depart(due, TriggerState::Readiness).unwrap();
        }
        due = flow.depart(start + micros(1_999), TriggerState::HandlerExit).unwrap();
        // Datagrams due by then have left; each flow leaves a burst interval, 562.5 µs, before its next.
        assert_eq!(
            (flow.stats().sent, due),
            (8, start + micros(1_999) + Duration::from_nanos(562_500)),
            "{timer}"
        );
        flow.depart(start + micros(5_000), TriggerState::HandlerExit).unwrap();
        assert_eq!((flow.stats().sent, flow.finished()), (10, true), "{timer}");
        assert_eq!(flow.stats().packets_per_turn(), Some(10.0 / 6.0), "{timer}");
        let places: Vec<Timestamp> = (0..8).map(|_| scheduled(&receiver)).collect();
        let expected: Vec<Timestamp> = (0..8).map(|place| start + place * micros(250)).collect();
        assert_eq!(places, expected, "{timer}");
    }
}

/// After a stall all flows are due: they leave in trains, with a pause behind each, and none has slack left.
#[test]
fn a_stall_of_all_flows_is_no_burst() {
    let (micros, start) = (Duration::from_micros, AHEAD);
    for timer in ["soft", "loop"] {
        let flags = format!("--interval 1s --flows 1000 --count 20 --train 4 --catch-up all --timer {timer}");
        let (mut flow, receiver) = flow(&flags, start);
        let mut now = start + micros(100_000);
        let mut trains = Vec::new();
        while !flow.finished() {
            let before = flow.stats().sent;
            let due = flow.depart(now, TriggerState::HandlerExit).unwrap();
            trains.push(flow.stats().sent - before);
            // Four burst intervals of 1,000 flows, or what sending them really took and one more.
            assert!(due >= now + micros(4 * 562), "{timer}: {due:?} after {now:?}");
            assert_eq!(flow.slack(micros(500)), Duration::ZERO, "{timer}");
            let early = due.saturating_sub(Duration::from_nanos(1));
            assert_eq!(flow.depart(early, TriggerState::HandlerExit).unwrap(), due, "{timer}");
            now = due;
        }
        assert_eq!(trains, [4; 5], "{timer}");
        let places: Vec<Timestamp> = (0..20).map(|_| scheduled(&receiver)).collect();
        assert_eq!(places, (0..20).map(|place| start + place * micros(1_000)).collect::<Vec<_>>(), "{timer}");
    }
}

/// Flows that begin together leave together, in as many turns as it takes.
#[test]
fn flows_that_begin_together_have_no_trains() {
    let start = AHEAD;
    for (flags, first_turn) in [("--flows 100", 64), ("--flows 10", 10), ("--flows 10 --train 3", 3)] {
        let (mut flow, _receiver) =
            flow(&format!("--interval 1ms --size 64 --phase together {flags}"), start);
        flow.depart(start, TriggerState::Readiness).unwrap();
        assert_eq!(flow.stats().sent, first_turn, "{flags}");
    }
}

/// Random flows have a seed each, so they do not leave in step.
#[test]
fn random_flows_are_not_random_alike() {
    let start = AHEAD;
    let (mut flow, receiver) = flow("--interval 1ms --flows 2 --pattern poisson --seed 5", start);
    let mut due = flow.due();
    let mut gaps = [(); 2].map(|()| Vec::new());
    let mut last = [start, start + Duration::from_micros(500)];
    for _ in 0..20 {
        due = flow.depart(due, TriggerState::Backup).unwrap();
        let mut packet = [0; 2048];
        let length = receiver.recv(&mut packet).unwrap();
        let Ok(Datagram::Data { flow, scheduled, .. }) = Datagram::parse(&packet[..length]) else { panic!() };
        let at = flow as usize;
        gaps[at].push(scheduled.saturating_duration_since(last[at]));
        last[at] = scheduled;
    }
    let [first, second] = gaps;
    assert!(first.len() > 2 && second.len() > 2, "{first:?} {second:?}");
    assert!(first.iter().zip(&second).skip(1).all(|(first, second)| first != second), "{first:?} {second:?}");
}

/// Each datagram has its own number, all of a quantum the same scheduled time, and the next ones leave when the
/// scheduled times of all have passed.
#[test]
fn a_quantum_leaves_in_one_call_and_takes_its_places() {
    let (micros, start) = (Duration::from_micros, Timestamp::from_micros(1_000_000));
    for timer in ["soft", "loop"] {
        for (flags, segments) in [("--quantum 4", 8), ("--quantum 400us --no-gso", 0)] {
            let (mut flow, receiver) =
                flow(&format!("--interval 100us --size 100 --count 10 {flags} --timer {timer}"), start);
            let mut due = flow.due();
            for turn in 0..3 {
                assert_eq!(due, start + turn * micros(400), "{timer} {flags}");
                due = flow.depart(due, TriggerState::Readiness).unwrap();
            }
            assert_eq!(
                (flow.stats().sent, flow.finished(), forfeited(&mut flow)),
                (10, true, 0),
                "{timer} {flags}"
            );
            // Four, four and the two that are left of the count.
            let Calls { calls, segments: cut, .. } = flow.stats().calls;
            let expected = if segments > 0 { segments + 2 } else { 0 };
            assert_eq!((calls, cut), (3, expected), "{timer} {flags}");
            assert!(flow.shares() == Extremes::default() && flow.fallback().is_none());
            let mut packet = [0; 2048];
            for number in 0..10u32 {
                let length = receiver.recv(&mut packet).unwrap();
                let expected = Datagram::Data {
                    flow: 0,
                    sequence: number.into(),
                    scheduled: start + number / 4 * micros(400),
                    interval: micros(100),
                    token: None,
                };
                assert_eq!((length, Datagram::parse(&packet[..length])), (100, Ok(expected)));
            }
        }
    }
}

/// Handed over 10 ms ahead: on loopback, where no queue keeps them, they arrive at once, each once. A departure is the
/// requested time, so none is late.
#[test]
fn a_kernel_that_keeps_release_times_gets_datagrams_ahead_of_them() {
    let (micros, start) = (Duration::from_micros, Timestamp::from_micros(1_000_000));
    for flags in ["", "--flows 4", "--quantum 4"] {
        let flags = format!("--interval 2ms --count 40 --size 100 --timer kernel {flags}");
        let (mut flow, receiver) = flow(flags.trim_end(), start);
        let mut looks = 0;
        while !flow.finished() {
            let now = flow.due();
            assert!(now < Timestamp::MAX, "{flags}");
            flow.depart(now, TriggerState::Backup).unwrap();
            looks += 1;
        }
        assert_eq!(flow.stats().sent, 40, "{flags}");
        // Each check is one call, whatever the number of release times.
        assert!(
            looks <= 16 && flow.stats().calls.calls == looks,
            "{flags}: {looks} {:?}",
            flow.stats().calls
        );
        assert_eq!(flow.stats().late.distribution().max, Some(0), "{flags}");
        assert!(flow.stats().late_by_cause().iter().all(|(_, late)| late.count == 0), "{flags}");
        let mut numbers = [0; 4];
        let mut packet = [0; 2048];
        for _ in 0..40 {
            let length = receiver.recv(&mut packet).unwrap();
            let Ok(Datagram::Data { flow, sequence, scheduled, .. }) = Datagram::parse(&packet[..length])
            else {
                panic!("{flags}")
            };
            let number = &mut numbers[flow as usize];
            assert_eq!(sequence, *number, "{flags}");
            *number += 1;
            assert!(scheduled < start + micros(80_000), "{flags}");
        }
        assert_eq!(numbers.iter().sum::<u64>(), 40, "{flags}");
    }
}
