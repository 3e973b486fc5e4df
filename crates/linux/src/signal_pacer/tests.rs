//! The pacer beside a thread that computes, on real sockets.

use std::net::UdpSocket;

use softtimers_core::{CatchUp, PaceConfig, Rate, Strategy};

use super::super::posix_timer::{raise_own, with_own_blocked};
use super::*;

fn clock(micros: u64) -> RateClock {
    RateClock::new(PaceConfig::new(Rate::every(Duration::from_micros(micros)).unwrap())).unwrap()
}

fn pair() -> (UdpSocket, UdpSocket) {
    let (sender, receiver) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    receiver.set_nonblocking(true).unwrap();
    (sender, receiver)
}

fn course(limit: u64) -> Course {
    let start = Monotonic.now();
    let course = Course::new(start, start + Duration::from_secs(30));
    Course { limit, sequence_at: 4, scheduled_at: 16, ..course }
}

/// Computes until the flow is over; fails rather than hangs.
fn compute_until_over(pacer: &mut SignalPacer, mut piece: impl FnMut(&mut SignalPacer)) {
    let patience = Monotonic.now() + Duration::from_secs(40);
    while !pacer.is_over() {
        assert!(Monotonic.now() < patience, "ten seconds after its end the flow is not over");
        piece(pacer);
    }
}

/// A thread that computes all the time is interrupted, no datagram leaves early, and each one matches its
/// departure record.
#[test]
fn a_computing_thread_sends_in_time_and_in_order() {
    let (sender, receiver) = pair();
    let mut pacer = SignalPacer::start(&sender, vec![7; 64], clock(500), course(20)).unwrap();
    compute_until_over(&mut pacer, |_| {});
    assert!(pacer.error().is_none(), "{:?}", pacer.error());
    assert_eq!(pacer.stop().departures(), 20);
    let mut packet = [0; 128];
    for number in 0..20 {
        let departure = pacer.take().unwrap();
        assert!(departure.sent >= departure.due && departure.due >= departure.place, "{departure:?}");
        assert_eq!(receiver.recv(&mut packet).unwrap(), 64);
        assert_eq!(packet[4..12], u64::to_be_bytes(number));
        assert_eq!(packet[16..24], departure.place.as_nanos().to_be_bytes());
        assert_eq!((packet[0], packet[63]), (7, 7));
    }
    assert_eq!(pacer.take(), None);
}

/// At any rate, however high, the program makes progress and ends.
#[test]
fn a_rate_beyond_reach_leaves_the_program_some_time() {
    let (sender, _receiver) = pair();
    let start = Monotonic.now();
    // Longer than a machine stands still between this and the first of its pieces.
    let course = Course::new(start, start + Duration::from_millis(500));
    let mut pacer = SignalPacer::start(&sender, vec![0; 32], clock(1), course).unwrap();
    let mut progress = 0_u64;
    compute_until_over(&mut pacer, |pacer| {
        progress += 1;
        while pacer.take().is_some() {}
    });
    let (counts, departures) = (pacer.counts(), pacer.stop().departures());
    assert!(progress > 0 && counts.unread == 0, "{progress} beside {departures} departures, {counts:?}");
}

#[test]
fn what_cannot_be_mended_ends_it() {
    let (sender, _receiver) = pair();
    let mut pacer = SignalPacer::start(&sender, vec![0; 65_508], clock(100), course(5)).unwrap();
    compute_until_over(&mut pacer, |_| {});
    assert_eq!(pacer.error().unwrap().raw_os_error(), Some(libc::EMSGSIZE));
}

/// An early expiry would be the last one, unless the timer is armed again.
#[test]
fn an_expiry_before_its_time_does_not_stop_the_flow() {
    let (sender, _receiver) = pair();
    let start = Monotonic.now() + Duration::from_millis(50);
    let course = Course { limit: 2, ..Course::new(start, start + Duration::from_secs(30)) };
    let mut pacer = SignalPacer::start(&sender, vec![0; 32], clock(100), course).unwrap();
    pacer.timer.disarm().unwrap();
    raise_own();
    compute_until_over(&mut pacer, |_| {});
    assert_eq!(std::iter::from_fn(|| pacer.take()).count(), 2);
}

/// A periodic timer's clock: its places are the ticks, and a tick that passes is lost.
fn ticking(micros: u64) -> RateClock {
    let rate = Rate::every(Duration::from_micros(micros)).unwrap();
    let config =
        PaceConfig { strategy: Strategy::FixedSeries, catch_up: CatchUp::NONE, ..PaceConfig::new(rate) };
    RateClock::new(config).unwrap()
}

/// One datagram for each signal. With the signal blocked for a while, the ticks meanwhile result in one
/// signal, and the kernel's count of the others is the number of places that the clock skips.
#[test]
fn ticks_that_find_a_signal_pending_are_lost_and_counted() {
    // Again where a pause came between the kernel's count and the handler's clock check.
    let mut counts = vec![];
    let agree = (0..5).any(|_| {
        let (lost, forfeited) = ticks_that_are_lost();
        counts.push((lost, forfeited));
        forfeited.abs_diff(lost) <= 2
    });
    assert!(agree, "overruns, and places that are given up: {counts:?}");
}

/// The overruns of a flow that has its signal blocked for a while, and the places that its clock has given up.
fn ticks_that_are_lost() -> (u64, u64) {
    let (sender, receiver) = pair();
    let course = Course { ticks: Ticks::Periodic, number: 70, ..course(60) };
    let mut pacer = SignalPacer::start(&sender, vec![0; 32], ticking(500), course).unwrap();
    let mut blocked = false;
    compute_until_over(&mut pacer, |pacer| {
        // A signal that was pending while this thread was stopped comes before the check.
        if pacer.timer.signals() >= 20 && !std::mem::replace(&mut blocked, true) {
            with_own_blocked(|| {
                let until = Monotonic.now() + Duration::from_millis(10);
                while Monotonic.now() < until {}
            });
        }
    });
    let (lost, clock) = (pacer.counts().overruns, pacer.stop());
    assert!(lost >= 18, "{lost} of the 20 ticks of 10 ms");
    assert_eq!(clock.departures(), 60, "{lost} {clock:?}");
    let departures: Vec<_> = std::iter::from_fn(|| pacer.take()).collect();
    assert!(departures.windows(2).all(|pair| pair[0].place < pair[1].place), "{departures:?}");
    // To when the last one left: if it was late, places were lost for it, too.
    let taken = departures[59].sent.saturating_duration_since(departures[0].place);
    // Each datagram carries its number, from the first one on.
    let mut packet = [0; 64];
    assert_eq!(receiver.recv(&mut packet).unwrap(), 32);
    assert_eq!(packet[4..12], u64::to_be_bytes(70));
    // mean = target / (1 − p), to the places: 59 gaps and those that were lost.
    let ticks = 59 + clock.forfeited() as u32;
    assert!(
        taken.abs_diff(Duration::from_micros(500) * ticks) <= Duration::from_micros(500) * 2,
        "{taken:?} {lost}"
    );
    (lost, clock.forfeited())
}

#[test]
fn null_events_send_nothing() {
    for ticks in [Ticks::OneShot, Ticks::Periodic] {
        let (sender, receiver) = pair();
        let course = Course { ticks, silent: true, ..course(10) };
        let mut pacer = SignalPacer::start(&sender, vec![0; 32], ticking(500), course).unwrap();
        compute_until_over(&mut pacer, |_| {});
        assert_eq!(std::iter::from_fn(|| pacer.take()).count(), 10);
        assert_eq!(receiver.recv(&mut [0; 64]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}

/// Stray signals may come at any time; the flow neither leaves early nor stops.
#[test]
fn stray_signals_neither_hurry_nor_stop_it() {
    let (sender, _receiver) = pair();
    let mut pacer = SignalPacer::start(&sender, vec![0; 32], clock(2_000), course(5)).unwrap();
    compute_until_over(&mut pacer, |_| raise_own());
    let departures: Vec<_> = std::iter::from_fn(|| pacer.take()).collect();
    assert_eq!(departures.len(), 5);
    assert!(departures.iter().all(|departure| departure.sent >= departure.due), "{departures:?}");
}

/// No socket listens there, and ICMP errors are queued: all datagrams still leave, and the error queue stays
/// empty.
#[test]
fn errors_about_the_way_are_counted_and_drained() {
    let (sender, receiver) = pair();
    drop(receiver);
    sockopt::set_queue_errors(sender.as_fd(), true).unwrap();
    let mut pacer = SignalPacer::start(&sender, vec![0; 32], clock(1_000), course(20)).unwrap();
    compute_until_over(&mut pacer, |_| {});
    assert!(pacer.error().is_none(), "{:?}", pacer.error());
    assert_eq!(std::iter::from_fn(|| pacer.take()).count(), 20);
    assert!(pacer.counts().refused > 0);
    assert!(sockopt::drain_errors(sender.as_fd()).unwrap() <= 1, "the last one's answer");
}

#[test]
fn stamps_must_fit() {
    let (sender, _receiver) = pair();
    let beyond = [Course { scheduled_at: 25, ..course(1) }, Course { sequence_at: usize::MAX, ..course(1) }];
    for course in beyond {
        let refused = SignalPacer::start(&sender, vec![0; 32], clock(100), course);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
