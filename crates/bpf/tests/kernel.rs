//! The programs in this kernel: they load, count, fire, and leave nothing behind. Without the privileges or the
//! kernel for it, each says so.

use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use softtimers_bpf::{
    Batches, Error, Events, Facility, FlushedBy, Probe, ProbeConfig, Source, Timers, Verified,
};

/// Returns the started program if it may run here; else says why it does not.
fn possible<T>(started: Result<T, Error>) -> Option<T> {
    match started {
        Ok(started) => Some(started),
        Err(error @ (Error::Privilege { .. } | Error::NoBtf(_) | Error::TooOld { .. })) => {
            skipped(&error.to_string());
            None
        }
        // A kernel that is locked down refuses every program; another one has to take ours.
        Err(error @ Error::Refused { .. }) if locked_down() => {
            skipped(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn locked_down() -> bool {
    fs::read_to_string("/sys/kernel/security/lockdown").is_ok_and(|modes| !modes.contains("[none]"))
}

fn skipped(reason: &str) {
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    let line = format!("skipped: {name}: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

fn probe_of(sources: &[Source]) -> Option<Probe> {
    possible(Probe::start(&ProbeConfig { sources: sources.to_vec(), ..ProbeConfig::default() }))
}

/// Intervals that this source ended so far, on all CPUs.
fn ended_by(probe: &Probe, source: Source) -> u64 {
    probe.intervals().unwrap().processors.iter().map(|processor| processor.ended_by(source).count).sum()
}

/// System calls, one after another.
fn call(times: usize) {
    for _ in 0..times {
        let _ = fs::metadata("/proc/self");
    }
}

/// Datagrams on loopback, each received before the next is sent.
fn datagrams(times: usize) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(socket.local_addr().unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for _ in 0..times {
        socket.send(&[0; 16]).unwrap();
        socket.recv(&mut [0; 16]).unwrap();
    }
}

#[test]
fn system_calls_are_counted() {
    let Some(probe) = probe_of(&[Source::Syscall]) else { return };
    let before = probe.intervals().unwrap();
    let counted = ended_by(&probe, Source::Syscall);
    call(5_000);
    let after = probe.intervals().unwrap();
    let total: u64 = after.processors.iter().map(|processor| processor.ended_by(Source::Syscall).count).sum();
    assert!(total - counted >= 5_000);
    let only: u64 = after.since(&before).processors.iter().map(|processor| processor.busy().count).sum();
    assert!(only >= total - counted, "no other source was attached");
    let kept: usize = (0..probe.processors()).map(|cpu| probe.samples(cpu).unwrap().len()).sum();
    assert!(kept >= 5_000);
}

#[test]
fn only_the_chosen_processor_is_measured_and_all_samples_are_its() {
    let config = ProbeConfig { processors: Some(vec![0]), samples: 4_096, ..ProbeConfig::default() };
    let Some(probe) = possible(Probe::start(&config)) else { return };
    // The timer's interrupts alone fill it in time on most machines; but an idle CPU has none.
    for _ in 0..10_000 {
        call(100);
        if probe.samples(0).unwrap().len() == 4_096 {
            break;
        }
    }
    let counted = probe.intervals().unwrap();
    let others: u64 = counted.processors[1..].iter().map(|other| other.busy().count + other.idle.count).sum();
    assert_eq!(others, 0);
    assert!((1..probe.processors()).all(|cpu| probe.samples(cpu).unwrap().is_empty()));
    let kept = probe.samples(0).unwrap().len() as u64;
    let passed = counted.processors[0].busy().count + counted.processors[0].idle.count;
    // What an interrupt's trigger state overtakes may be kept in one of the two only.
    assert!(kept <= 4_096 && kept * 10 >= passed.min(4_096) * 9, "{kept} of {passed}");
}

/// Also while another CPU counts.
#[test]
fn what_was_kept_before_a_restart_does_not_survive_it() {
    let Some(mut probe) = probe_of(&[Source::Syscall]) else { return };
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // It ends also if the other panics.
            for _ in 0..20_000 {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                call(100);
            }
        });
        for round in 0..50 {
            call(2_000);
            probe.restart().unwrap();
            // In this order: what comes in between is counted, and not among those kept.
            let kept: usize = (0..probe.processors()).map(|cpu| probe.samples(cpu).unwrap().len()).sum();
            let counted = ended_by(&probe, Source::Syscall)
                + probe.intervals().unwrap().processors.iter().map(|cpu| cpu.idle.count).sum::<u64>();
            if kept as u64 > counted + 100 {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                panic!("round {round}: {kept} kept of {counted}");
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Intervals do not overlap, so those of a CPU are no longer together than the time they were counted in: what was
/// counted before, or written back by a program that was under way, would be too much.
#[test]
fn what_was_counted_before_a_restart_does_not_survive_it() {
    let Some(mut probe) = probe_of(&Source::ALL) else { return };
    for round in 0..20 {
        // Long beside a restart, on both sides of it.
        while longest(&probe) < Duration::from_millis(50) {
            call(1_000);
        }
        let begun = now();
        probe.restart().unwrap();
        call(10);
        let sum = longest(&probe);
        let elapsed = now() - begun;
        assert!(sum <= elapsed, "round {round}: {sum:?} in {elapsed:?}");
    }
}

/// By the clock that the programs read.
fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap()
}

/// The sum of the intervals of the CPU that has the most.
fn longest(probe: &Probe) -> Duration {
    let intervals = probe.intervals().unwrap();
    let sums = intervals.processors.iter().map(|cpu| cpu.busy().sum_ns + cpu.idle.sum_ns);
    Duration::from_nanos(sums.max().unwrap_or(0))
}

/// A process that begins has its pages brought in one by one.
#[test]
fn page_faults_are_trigger_states() {
    let Some(probe) = probe_of(&[Source::PageFault]) else { return };
    let before = ended_by(&probe, Source::PageFault);
    for _ in 0..20 {
        assert!(Command::new("true").status().unwrap().success());
    }
    let faults = ended_by(&probe, Source::PageFault) - before;
    assert!(faults >= 20 * 10, "{faults} page faults of 20 processes");
}

/// Each datagram on loopback is handed to a device, polled out of it, and received in a soft interrupt.
#[test]
fn packets_and_their_interrupts_are_trigger_states() {
    let sources = [Source::SoftInterrupt, Source::Transmit, Source::NetworkPoll];
    let Some(probe) = probe_of(&sources) else { return };
    let before = sources.map(|source| ended_by(&probe, source));
    datagrams(500);
    for (source, before) in sources.into_iter().zip(before) {
        let counted = ended_by(&probe, source) - before;
        // One that an interrupt's trigger state overtakes is counted there.
        assert!(counted >= 450, "{source}: {counted} of 500 datagrams");
    }
}

/// The kernel's own count of what `source` counts.
fn by_the_kernel(source: Source) -> u64 {
    match source {
        Source::SoftInterrupt => {
            let text = fs::read_to_string("/proc/softirqs").unwrap();
            text.lines()
                .skip(1)
                .flat_map(|line| line.split_whitespace().skip(1))
                .map(|count| count.parse::<u64>().unwrap())
                .sum()
        }
        Source::Switch => {
            let text = fs::read_to_string("/proc/stat").unwrap();
            text.lines().find_map(|line| line.strip_prefix("ctxt ")).unwrap().trim().parse().unwrap()
        }
        other => unreachable!("{other}"),
    }
}

/// The counts between two readings lie between those of the kernel inside of them and outside, but for what was under
/// way on a CPU at that moment, and the first of each, which begins its first interval.
#[test]
fn intervals_agree_with_the_kernels_own_counters() {
    let sources = [Source::SoftInterrupt, Source::Switch];
    for source in sources {
        let Some(probe) = probe_of(&[source]) else { return };
        let slack = 4 * u64::from(probe.processors());
        let load = || {
            datagrams(2_000);
            (0..200).for_each(|_| std::thread::scope(|scope| drop(scope.spawn(|| call(1)))));
        };
        let (outside, from) = (by_the_kernel(source), ended_by(&probe, source));
        let inside = by_the_kernel(source);
        load();
        let inside = by_the_kernel(source) - inside;
        let (counted, outside) = (ended_by(&probe, source) - from, by_the_kernel(source) - outside);
        assert!(
            counted >= 200 && counted + slack >= inside && counted <= outside + slack,
            "{source}: {counted}, {inside} to {outside}"
        );
    }
}

#[test]
fn events_fire_at_trigger_states_and_end_with_their_run() {
    let Some(mut facility) = possible(Facility::load(&[Source::Syscall, Source::Switch])) else { return };
    let processors = facility.processors();
    // Once more with the same programs: they are verified once.
    for touches in [false, true] {
        let run = facility.run(&Events { touches, ..Events::default() }).unwrap();
        let at_calls = || (0..processors).map(|cpu| run.stats(cpu).unwrap().fired[0]).sum::<u64>();
        for _ in 0..20_000 {
            call(20);
            if at_calls() > 50 {
                break;
            }
        }
        assert!(at_calls() > 50, "hardly an event fired in 400,000 system calls");
        drop(run);
        let total = |facility: &Facility| -> u64 {
            (0..processors).map(|cpu| facility.stats(cpu).unwrap().total()).sum()
        };
        let ended = total(&facility);
        call(5_000);
        // What was scheduled when it ended may still be fired by the backup: one event of each CPU.
        assert!(total(&facility) - ended <= u64::from(processors));
    }
}

#[test]
fn the_backup_fires_where_no_trigger_state_comes() {
    let Some(mut facility) = possible(Facility::load(&[])) else { return };
    let processors = facility.processors();
    let events = Events {
        period: Duration::from_micros(200),
        slack: Some(Duration::from_micros(300)),
        ..Events::default()
    };
    let run = facility.run(&events).unwrap();
    let mut sum = 0u64;
    for round in 0..200_000_000u64 {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(round));
        if round % 1_000 == 0 {
            let by_backup: u64 = (0..processors).map(|cpu| run.stats(cpu).unwrap().by_backup()).sum();
            if by_backup > 10 {
                for cpu in 0..processors {
                    // It is read while the kernel counts: what the first reading has seen, the second has, too.
                    let [first, second] = [(); 2].map(|()| run.stats(cpu).unwrap());
                    assert!(
                        first.expired <= second.total() + 1 && first.total() <= second.expired + 1,
                        "{first:?} {second:?}"
                    );
                    assert!(first.total() <= second.by_backup() + 1, "{first:?} {second:?}");
                }
                return;
            }
        }
    }
    panic!("the backup did not go off");
}

#[test]
fn a_plain_timer_goes_off_again_and_again_and_ends_with_its_run() {
    let Some(mut timers) = possible(Timers::load()) else { return };
    let fired = |timers: &Timers| timers.stats(0).unwrap().fired;
    for touches in [false, true] {
        let before = fired(&timers);
        let events = Events {
            touches,
            processors: Some(vec![0]),
            period: Duration::from_micros(100),
            ..Events::default()
        };
        let run = timers.run(&events).unwrap();
        for _ in 0..100_000 {
            call(20);
            if run.stats(0).unwrap().fired > before + 50 {
                break;
            }
        }
        let stats = run.stats(0).unwrap();
        assert!(stats.fired > before + 50, "hardly went off in 2,000,000 system calls: {stats:?}");
        drop(run);
        // One that was set when it ended still goes off.
        let ended = fired(&timers);
        call(5_000);
        assert!(fired(&timers) - ended <= 1);
    }
}

/// The verifier's work grows with the paths through a program, not with its length: it is what would make a kernel refuse one
/// some day, or take seconds. It is the same on every run of a kernel.
#[test]
fn the_verifier_accepts_every_program_with_little_work() {
    let Some(probe) = probe_of(&Source::ALL) else { return };
    let Some(facility) = possible(Facility::load(&Source::ALL)) else { return };
    let followed = |verified: &[Verified]| -> Vec<u32> {
        verified.iter().filter_map(|program| program.instructions).collect()
    };
    let (of_probe, of_facility) = (followed(probe.verified()), followed(facility.verified()));
    if of_probe.is_empty() {
        return skipped("before Linux 5.16 the kernel does not say what its verifier did");
    }
    assert!(of_probe.iter().all(|&instructions| instructions < 4_000), "{of_probe:?}");
    // The kernel refuses one of a million.
    assert!(of_facility.iter().all(|&instructions| instructions < 60_000), "{of_facility:?}");
}

/// The worked use, in a network of its own: this test starts itself there once more.
#[test]
fn batches_are_handed_on_whole_and_in_time() {
    if std::env::var_os("SOFTTIMERS_IN_A_NETWORK").is_some() {
        return batches();
    }
    if possible(Facility::load(&[])).is_none() {
        return;
    }
    let name = "batches_are_handed_on_whole_and_in_time";
    let script = format!("ip link set lo up && exec \"$0\" {name} --exact --nocapture");
    let inside = Command::new("unshare")
        .args(["--net", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env("SOFTTIMERS_IN_A_NETWORK", "1")
        .output();
    match inside {
        Err(why) => skipped(&format!("unshare: {why}")),
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains("unshare: ") || said.contains("ip: "), "{said}");
            skipped(said.trim());
        }
    }
}

fn batches() {
    const SENT: usize = 20_000;
    let [soft, timer] = [FlushedBy::SoftEvent, FlushedBy::Timer].map(|by| {
        let batches = Batches::collect("lo", by).unwrap();
        datagrams(SENT);
        // The last batch is handed on by the backup, which needs nothing of ours to go on.
        for _ in 0..1_000_000 {
            if batches.totals().unwrap().held == 0 {
                break;
            }
            std::thread::yield_now();
        }
        let totals = batches.totals().unwrap();
        assert_eq!((totals.packets as usize, totals.held), (SENT, 0), "{by:?}: {totals:?}");
        assert!(totals.batches >= totals.by_time && totals.batches as usize >= SENT / 64, "{totals:?}");
        totals
    });
    let processors = u64::from(softtimers_bpf::processors().unwrap());
    // A timer is an interrupt for each batch that it hands on; the last of a CPU is not seen by a packet any more.
    assert!(timer.interrupts + processors >= timer.by_time, "{timer:?}");
    // The backup goes off at the deadline of a batch, and not twice at that of one.
    assert!(soft.interrupts <= soft.batches + processors, "{soft:?}");
}
