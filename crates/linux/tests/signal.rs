//! A signal timer leaves the process as it found it. Alone in its file, for the handler belongs to the
//! whole process.

use std::net::UdpSocket;
use std::time::Duration;

use softtimers_core::{Clock, PaceConfig, Rate, RateClock, Timestamp};
use softtimers_linux::clock::Monotonic;
use softtimers_linux::signal_timer::{Course, SignalPacer, SignalTimer};

/// The signals that this process handles and those that this thread blocks, as the kernel has them.
fn signals() -> [String; 2] {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    ["SigCgt:", "SigBlk:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().to_owned()
    })
}

#[test]
fn handler_and_mask_are_restored_whatever_was_pending() {
    let before = signals();
    for _ in 0..20 {
        let timer = SignalTimer::new().unwrap();
        assert_ne!(signals()[0], before[0], "the signal is handled now");
        // Expires at once and again and again, so that one may be on its way when the timer goes.
        timer.arm_periodic(Timestamp::ZERO, Duration::from_micros(20)).unwrap();
        drop(timer);
        assert_eq!(signals(), before);
    }

    let (sender, receiver) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    let clock = RateClock::new(PaceConfig::new(Rate::every(Duration::from_micros(50)).unwrap())).unwrap();
    for _ in 0..20 {
        let start = Monotonic.now();
        let course = Course::new(start, start + Duration::from_secs(30));
        let pacer = SignalPacer::start(&sender, vec![0; 32], clock.clone(), course).unwrap();
        assert!(SignalTimer::new().is_err(), "one a thread");
        let until = Monotonic.now() + Duration::from_micros(300);
        while Monotonic.now() < until {}
        drop(pacer);
        assert_eq!(signals(), before);
    }

    // Another thread has its own, and the handler stays for it.
    let timer = SignalTimer::new().unwrap();
    std::thread::spawn(|| drop(SignalTimer::new().unwrap())).join().unwrap();
    assert_ne!(signals()[0], before[0]);
    timer.arm_at(Monotonic.now()).unwrap();
    let patience = Monotonic.now() + Duration::from_secs(30);
    while timer.signals() == 0 && Monotonic.now() < patience {}
    assert_eq!(timer.signals(), 1);
    drop(timer);
    assert_eq!(signals(), before);
}
