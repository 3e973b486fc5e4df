//! A machine with faults, whose counter and kernel's clock are handed to the clock under test.

use proptest::prelude::*;

use softtimers_linux::clock::NANOS_PER_SEC;

use super::super::line::HORIZON;
use super::*;

/// A fault of the machine, between any two readings.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The thread is held up for N nanoseconds.
    Pause(u64),
    /// The counter steps by N ticks.
    CounterStep(i64),
    /// The counter's rate becomes N millionths of what it was at first.
    CounterRate(u64),
    /// The kernel's clock steps ahead by N nanoseconds.
    KernelStep(u64),
    /// The kernel slews its clock: its rate, in millionths.
    KernelRate(u64),
}

#[derive(Debug)]
struct Machine {
    /// Millionths of a tick and of a nanosecond.
    counter: Cell<u128>,
    kernel: Cell<u128>,
    counter_rate: Cell<u64>,
    kernel_rate: Cell<u64>,
    /// The readings until the next event, and that event.
    pending: Cell<Option<(u32, Event)>>,
}

/// Nanoseconds that a reading takes.
const READ: u64 = 20;
const NOMINAL: u64 = 1_000_000;

impl Machine {
    /// A counter of 3 GHz, up for a minute or so.
    fn new() -> Self {
        Machine {
            counter: Cell::new(777 << 60),
            kernel: Cell::new(60_000_000_123 << 20),
            counter_rate: Cell::new(3 * NOMINAL),
            kernel_rate: Cell::new(NOMINAL),
            pending: Cell::new(None),
        }
    }

    fn clock(&self) -> Anchored<&Machine, &Machine> {
        Anchored::calibrated(self, self, |time| self.pass(time)).expect("a counter with a rate")
    }

    fn pass(&self, time: Duration) {
        let time = time.as_nanos();
        self.counter.set(self.counter.get() + time * u128::from(self.counter_rate.get()));
        self.kernel.set(self.kernel.get() + time * u128::from(self.kernel_rate.get()));
    }

    fn befall(&self, event: Event) {
        let micro = u128::from(NOMINAL);
        match event {
            Event::Pause(nanos) => self.pass(Duration::from_nanos(nanos)),
            Event::CounterStep(ticks) => {
                let step = u128::from(ticks.unsigned_abs()) * micro;
                let counter = self.counter.get();
                self.counter.set(if ticks < 0 { counter.saturating_sub(step) } else { counter + step });
            }
            Event::CounterRate(millionths) => self.counter_rate.set(3 * millionths),
            Event::KernelStep(nanos) => self.kernel.set(self.kernel.get() + u128::from(nanos) * micro),
            Event::KernelRate(millionths) => self.kernel_rate.set(millionths),
        }
    }

    fn reading(&self) {
        match self.pending.take() {
            Some((0, event)) => self.befall(event),
            Some((readings, event)) => self.pending.set(Some((readings - 1, event))),
            None => {}
        }
        self.pass(Duration::from_nanos(READ));
    }

    /// Returns the kernel's clock, without the time that reading it takes.
    fn truth(&self) -> Timestamp {
        Timestamp::from_nanos((self.kernel.get() / u128::from(NOMINAL)) as u64)
    }
}

impl Clock for &Machine {
    fn now(&self) -> Timestamp {
        self.reading();
        self.truth()
    }
}

impl Counter for &Machine {
    fn read(&self) -> u64 {
        self.reading();
        (self.counter.get() / u128::from(NOMINAL)) as u64
    }

    fn read_in_order(&self) -> u64 {
        self.read()
    }
}

/// A program's next step with the clock.
#[derive(Clone, Copy, Debug)]
enum ClockOp {
    Read,
    Work(u64),
    Sleep(u64),
    Event(u32, Event),
}

fn steps(event: impl Strategy<Value = Event>) -> impl Strategy<Value = Vec<ClockOp>> {
    let step = prop_oneof![
        8 => Just(ClockOp::Read),
        4 => (0u64..5_000).prop_map(ClockOp::Work),
        2 => (0u64..3_000_000).prop_map(ClockOp::Work),
        2 => prop_oneof![0u64..100_000, 0u64..50_000_000, Just(3_600_000_000_000)].prop_map(ClockOp::Sleep),
        1 => (0u32..6, event).prop_map(|(readings, event)| ClockOp::Event(readings, event)),
    ];
    prop::collection::vec(step, 0..100)
}

/// Pauses anywhere, and slews that together stay below a thousandth with what calibration leaves.
fn honest_events() -> impl Strategy<Value = Event> {
    prop_oneof![
        prop_oneof![0u64..2_000, 0u64..20_000_000].prop_map(Event::Pause),
        (NOMINAL - 500..NOMINAL + 500).prop_map(Event::KernelRate),
        (NOMINAL - 400..NOMINAL + 400).prop_map(Event::CounterRate),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let step = prop_oneof![-3_000i64..3_000, -30_000_000i64..30_000_000, any::<i64>()];
    prop_oneof![
        1 => honest_events(),
        2 => step.prop_map(Event::CounterStep),
        1 => prop_oneof![Just(0), 0..2 * NOMINAL, 0..100 * NOMINAL].prop_map(Event::CounterRate),
        1 => prop_oneof![0u64..10_000, 0u64..NANOS_PER_SEC].prop_map(Event::KernelStep),
        1 => (NOMINAL / 2..2 * NOMINAL).prop_map(Event::KernelRate),
    ]
}

/// The times that a program on `clock` sees: the kernel's before, the reading, the kernel's after.
fn seen<'a>(
    machine: &'a Machine,
    clock: &'a Anchored<&'a Machine, &'a Machine>,
    steps: &'a [ClockOp],
) -> impl Iterator<Item = (Timestamp, Timestamp, Timestamp)> + 'a {
    steps.iter().filter_map(move |&step| {
        let before = machine.truth();
        let time = match step {
            ClockOp::Read => clock.now(),
            ClockOp::Work(nanos) => {
                machine.pass(Duration::from_nanos(nanos));
                return None;
            }
            ClockOp::Sleep(nanos) => {
                machine.pass(Duration::from_nanos(nanos));
                clock.check()
            }
            ClockOp::Event(readings, event) => {
                machine.pending.set(Some((readings, event)));
                return None;
            }
        };
        Some((before, time, machine.truth()))
    })
}

/// The guaranteed error for rates that differ by less than a thousandth: the width of the widest sandwich
/// that is accepted, and a thousandth of the horizon.
const ERROR: Duration = Duration::from_nanos(HELD_UP + 100 + 1);

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 500 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// However a machine is disturbed and its clock slewed, the counter stays in use, never goes back, and
    /// stays within the guaranteed error.
    #[test]
    fn drift_is_survived(steps in steps(honest_events())) {
        let machine = Machine::new();
        let clock = machine.clock();
        let mut last = Timestamp::ZERO;
        for (before, time, after) in seen(&machine, &clock, &steps) {
            prop_assert!(time >= last, "{time:?} after {last:?}");
            prop_assert!(time + ERROR >= before, "{time:?} is before {before:?}");
            prop_assert!(time <= after + ERROR, "{time:?} is after {after:?}");
            last = time;
        }
        prop_assert_eq!(clock.disagreement(), None);
    }

    /// Whatever the counter does, no reading is less than one before it, nor ahead of the kernel's clock by
    /// more than the horizon; and once the counter is rejected, the kernel's clock is used.
    #[test]
    fn faults_are_survived(steps in steps(any_event())) {
        let machine = Machine::new();
        let clock = machine.clock();
        let (mut last, mut was_closed) = (Timestamp::ZERO, false);
        for (before, time, after) in seen(&machine, &clock, &steps) {
            prop_assert!(time >= last, "{time:?} after {last:?}");
            prop_assert!(time <= after + HORIZON, "{time:?} is after {after:?}");
            if was_closed {
                prop_assert!(time >= before, "{time:?} is before {before:?}");
                prop_assert!(time <= after.max(last), "{time:?} is after {after:?} and {last:?}");
            }
            (last, was_closed) = (time, clock.disagreement().is_some());
        }
    }
}

/// Each fault of a machine is detected at the next comparison, after a sleep of 50 µs; from then on the clock
/// is the kernel's.
#[test]
fn faults_are_detected() {
    let ms = 3_000_000;
    for (event, ahead) in [
        (Event::CounterStep(-ms), false),
        (Event::CounterStep(-ms / 100), false),
        (Event::CounterStep(ms / 100), true),
        (Event::CounterStep(1_000 * ms), true),
        (Event::CounterStep(i64::MIN), false),
        (Event::CounterRate(0), false),
        (Event::CounterRate(NOMINAL * 11 / 10), true),
        (Event::KernelStep(50_000), false),
        (Event::KernelStep(86_400_000_000_000), false),
        (Event::KernelRate(NOMINAL * 11 / 10), false),
    ] {
        let machine = Machine::new();
        let clock = machine.clock();
        machine.pass(Duration::from_micros(400));
        let before = clock.now();
        machine.befall(event);
        machine.pass(Duration::from_micros(50));
        let woke = clock.check();
        let found = clock.disagreement().unwrap_or_else(|| panic!("{event:?} went unnoticed"));
        assert_eq!(found.ahead, ahead, "{event:?}: {found}");
        assert!(woke >= before && clock.counter_hz() == 0);
        // It stood still for at most as long as it was ahead.
        machine.pass(HORIZON);
        let (truth, now) = (machine.truth(), clock.now());
        assert!(now >= truth && now <= machine.truth(), "{event:?}: {now:?}, {truth:?}");
    }
}

/// A program that never sleeps detects a fault at the horizon, or as soon as the counter is before its
/// anchor.
#[test]
fn a_busy_program_detects_them_too() {
    for (event, most) in [
        (Event::CounterStep(-3_000_000_000), 0),
        (Event::CounterStep(3_000_000_000), 0),
        (Event::CounterStep(-30_000), 110),
        (Event::CounterStep(30_000), 110),
        (Event::KernelStep(10_000), 110),
        (Event::CounterRate(NOMINAL * 11 / 10), 110),
        (Event::CounterRate(NOMINAL / 2), 210),
    ] {
        let machine = Machine::new();
        let clock = machine.clock();
        clock.check();
        machine.pass(Duration::from_micros(20));
        machine.befall(event);
        let from = machine.truth();
        while clock.disagreement().is_none() {
            machine.pass(Duration::from_nanos(100));
            clock.now();
            assert!(machine.truth() < from + Duration::from_millis(5), "{event:?} went unnoticed");
        }
        let took = machine.truth().saturating_duration_since(from);
        assert!(took <= Duration::from_micros(most + 1), "{event:?} was noticed after {took:?}");
    }
}

/// Frequent comparisons do not hide a fault: a rate that is wrong by 1% is detected within a millisecond
/// whether they are 5 µs or 500 µs apart.
#[test]
fn a_wrong_rate_is_detected_however_often_it_is_compared() {
    for apart in [5, 50, 500] {
        let machine = Machine::new();
        let clock = machine.clock();
        machine.befall(Event::CounterRate(NOMINAL * 101 / 100));
        for _ in 0..1_000 / apart {
            machine.pass(Duration::from_micros(apart));
            clock.check();
        }
        assert!(clock.disagreement().is_some(), "{apart} µs apart");
    }
}

#[test]
fn a_busy_program_compares_every_100_us() {
    let machine = Machine::new();
    let clock = machine.clock();
    let end = machine.truth() + 20 * HORIZON;
    while machine.truth() < end {
        clock.now();
    }
    let AnchorStats { checks, corrections, longest_correction } = clock.stats();
    assert!((19..=21).contains(&checks), "{checks}");
    assert!(corrections <= 1 && longest_correction < Duration::from_nanos(100), "{longest_correction:?}");
}

#[test]
fn a_counter_that_was_wrong_is_believed_again_after_a_calibration() {
    let machine = Machine::new();
    let clock = machine.clock();
    machine.befall(Event::CounterRate(2 * NOMINAL));
    machine.pass(Duration::from_micros(700));
    let wrong = clock.check();
    assert!(clock.disagreement().is_some());
    assert!(clock.recalibrate(|time| machine.pass(time)));
    assert_eq!(clock.disagreement(), None);
    assert!(clock.counter_hz().abs_diff(6_000_000_000) < 300_000, "{} Hz", clock.counter_hz());
    let (before, now) = (machine.truth(), clock.now());
    assert!(now >= wrong && now + ERROR >= before && now <= machine.truth() + ERROR);
    machine.befall(Event::CounterRate(0));
    assert!(!clock.recalibrate(|time| machine.pass(time)), "a counter that stands has no rate");
}

#[test]
fn a_counter_without_a_rate_makes_no_clock() {
    let machine = Machine::new();
    machine.befall(Event::CounterRate(0));
    assert!(Anchored::calibrated(&machine, &machine, |time| machine.pass(time)).is_none());
}

#[test]
fn the_resolution_is_the_coarser_ones() {
    let machine = Machine::new();
    let clock = machine.clock();
    assert_eq!(clock.resolution_hz(), NANOS_PER_SEC, "3 GHz are more than nanoseconds");
    machine.befall(Event::CounterRate(NOMINAL / 120));
    assert!(clock.recalibrate(|time| machine.pass(time)));
    assert!(clock.resolution_hz().abs_diff(25_000_000) < 2_500, "as aarch64 often has it");
    machine.befall(Event::KernelStep(NANOS_PER_SEC));
    clock.check();
    assert_eq!(clock.resolution_hz(), NANOS_PER_SEC, "the kernel's");
}
