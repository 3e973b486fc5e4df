//! The programs in this kernel: they load, count, fire, and leave nothing behind. Without the privileges or the
//! kernel for it, each says so.

use std::fs;
use std::io::Write;
use std::time::Duration;

use softtimers_bpf::{Error, Facility, FacilityConfig, Probe, ProbeConfig, Source};

/// Whether it may run here; else says why it does not.
fn possible<T>(started: Result<T, Error>) -> Option<T> {
    match started {
        Ok(started) => Some(started),
        Err(error @ (Error::Privilege { .. } | Error::NoBtf(_))) => {
            let name = std::thread::current().name().unwrap_or("?").to_owned();
            let line = format!("skipped: {name}: {error}\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// System calls, one after another.
fn call(times: usize) {
    for _ in 0..times {
        let _ = fs::metadata("/proc/self");
    }
}

#[test]
fn system_calls_are_counted() {
    let Some(probe) =
        possible(Probe::start(&ProbeConfig { sources: vec![Source::Syscall], ..ProbeConfig::default() }))
    else {
        return;
    };
    let total = |intervals: &softtimers_bpf::Intervals| {
        intervals.processors.iter().map(|processor| processor.of(Source::Syscall).count).sum::<u64>()
    };
    let before = probe.intervals().unwrap();
    call(5_000);
    let after = probe.intervals().unwrap();
    assert!(total(&after) - total(&before) >= 5_000);
    let only: u64 = after.processors.iter().map(|processor| processor.busy().count).sum();
    assert_eq!(only, total(&after), "no other source was attached");
    let kept: usize = (0..probe.processors()).map(|cpu| probe.samples(cpu).unwrap().len()).sum();
    assert!(kept >= 5_000);
}

#[test]
fn events_fire_at_trigger_states_and_not_early() {
    let config =
        FacilityConfig { sources: vec![Source::Syscall, Source::Switch], ..FacilityConfig::default() };
    let Some(facility) = possible(Facility::start(&config)) else { return };
    for _ in 0..2_000 {
        call(20);
        let fired: u64 = (0..facility.processors()).map(|cpu| facility.stats(cpu).unwrap().fired[0]).sum();
        if fired > 50 {
            return;
        }
    }
    panic!("hardly an event fired in 40,000 system calls");
}

#[test]
fn the_backup_fires_where_no_trigger_state_comes() {
    let config = FacilityConfig {
        period: Duration::from_micros(200),
        slack: Some(Duration::from_micros(300)),
        sources: vec![],
        ..FacilityConfig::default()
    };
    let Some(facility) = possible(Facility::start(&config)) else { return };
    let mut sum = 0u64;
    for round in 0..200_000u64 {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(round));
        if round % 1_000 == 0 {
            let by_backup: u64 =
                (0..facility.processors()).map(|cpu| facility.stats(cpu).unwrap().by_backup()).sum();
            if by_backup > 10 {
                return;
            }
        }
    }
    panic!("the backup did not go off");
}
