use clap::Parser;
use softtimers::TriggerState;

use super::*;
use crate::args::{Cli, Command};

/// A flow on loopback, driven by hand, and where it arrives.
fn flow(flags: &str, start: Timestamp) -> (Flow, UdpSocket) {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = receiver.local_addr().unwrap().to_string();
    let words = ["softtimers", "send", &address].into_iter().chain(flags.split(' '));
    let Command::Send(args) = Cli::parse_from(words).command else { panic!("{flags}") };
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(receiver.local_addr().unwrap()).unwrap();
    (Flow::new(&SendPlan::new(&args).unwrap(), socket, start).unwrap(), receiver)
}

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
    flow.mute(true);
    for count in 0..2 {
        flow.depart(start + millis(count), TriggerState::HandlerExit).unwrap();
    }
    assert_eq!((flow.sent(), flow.departures(), flow.finished()), (0, 2, false));
    flow.mute(false);
    flow.depart(start + millis(2), TriggerState::HandlerExit).unwrap();
    assert_eq!((flow.sent(), flow.departures(), flow.finished()), (1, 3, true));
    let mut packet = [0; 2048];
    let length = receiver.recv(&mut packet).unwrap();
    assert!(matches!(Datagram::parse(&packet[..length]), Ok(Datagram::Data { sequence: 0, .. })));
}

/// A pause of 10 ms: each of those that queue behind it is late too, though it left when it might.
#[test]
fn a_delay_shows_in_all_that_it_delays() {
    let (millis, start) = (Duration::from_millis, Timestamp::from_micros(1_000_000));
    let (mut flow, receiver) = flow("--interval 1ms --burst-interval 750us --catch-up all", start);
    flow.depart(start, TriggerState::HandlerExit).unwrap();
    let mut due = flow.depart(start + millis(11), TriggerState::HandlerExit).unwrap();
    for _ in 0..3 {
        due = flow.depart(due, TriggerState::Readiness).unwrap();
    }
    let late = flow.lateness().distribution();
    assert_eq!((late.count, late.min, late.max), (5, Some(0), Some(10_000_000)));
    // 0, 10, 9.75, 9.5 and 9.25 ms: each one catches up by a quarter of the interval.
    assert!((late.mean.unwrap() - 7_700_000.0).abs() < 1.0, "{late:?}");
    let causes = flow.late_report();
    let count = |wanted: bool| {
        causes
            .iter()
            .filter(|(name, _)| (*name == "catch_up") == wanted)
            .map(|(_, late)| late.count)
            .sum::<u64>()
    };
    assert_eq!((count(true), count(false)), (3, 1), "{causes:?}");
    for place in 0..5 {
        assert_eq!(scheduled(&receiver), start + millis(place), "the header states the place");
    }
    assert_eq!((flow.fired().total(), flow.fired()[TriggerState::Readiness]), (5, 3));
}

/// What is given up is not late: the next one takes the place that comes next.
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
    assert_eq!(flow.forfeited(), 10);
}

#[test]
fn goodbyes_are_a_few() {
    let (mut flow, receiver) = flow("--interval 1ms --count 1", Timestamp::ZERO);
    assert!(flow.say_goodbye(&Datagram::Bye { flow: 0, sent: 0, token: None }));
    receiver.set_nonblocking(true).unwrap();
    let mut packet = [0; 2048];
    let came = std::iter::from_fn(|| receiver.recv(&mut packet).ok()).count();
    assert_eq!(came, GOODBYES as usize);
}

/// The account of what a handler sent is taken later, when the thread's own accounts tell of something else.
#[test]
fn a_departure_of_a_handler_is_late_without_a_cause() {
    let (millis, start) = (Duration::from_millis, Timestamp::from_micros(1_000_000));
    let (mut flow, _receiver) = flow("--interval 1ms --catch-up all", start);
    flow.account(Departure { sent: start + millis(9), due: start, place: start });
    flow.account(Departure { sent: start + millis(10), due: start + millis(10), place: start + millis(1) });
    assert_eq!(flow.lateness().distribution().max, Some(9_000_000));
    let counts: Vec<_> = flow.late_report().into_iter().filter(|(_, late)| late.count > 0).collect();
    assert_eq!(counts, [("catch_up", LateReport { count: 1, longest_ns: 9_000_000 })]);
}
