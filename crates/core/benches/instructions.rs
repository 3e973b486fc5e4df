//! The cost of timers in instructions, which `cargo xtask instructions` runs under callgrind and holds against
//! `instructions.toml`.
//!
//! Timings on a shared machine vary by a fifth from one minute to the next, so they cannot show that a change
//! made something a tenth slower. Instruction counts can: the same program always executes the same number.
//! They do not show cache misses; the benches that read a clock do.
//!
//! ```text
//!   instructions --list          the names below, a line each
//!   instructions "handles w1/0"  does that one, and prints how many operations were between the marks
//!
//!     set up ──▶ measured(…) ──▶ "10000"        callgrind counts inside `measured` only
//! ```
//!
//! | workload | set up | an operation |
//! |---|---|---|
//! | w1/N | N timers 60 to 120 s ahead | one more is set 120 to 130 s ahead, and cancelled |
//! | hit/N, miss/N | the same | a cancel of a timer that is there, of one that is not |
//! | w1r/N | the same | a random one is postponed to 120 to 130 s |
//! | w2 set/N, w2 expire/N | – | N timers within N µs: one is set; one expires, in steps of 1 µs |
//! | w3/N | N connections, time-outs of 20 to 43 ms | a microsecond passes, one is postponed; 5% expire |
//! | tcp/N | N connections, 40,000 packets/s in all | a packet: time-outs of 200 and 500 ms are cancelled and set |
//! | w4 step/F, w4 leap/F | F flows at intervals of 10 µs to 1 ms | one departs and is set again |
//! | w5 due/N, w5 next/N | N timers 60 s ahead | "anything due?", and when to look |
//! | slot/N | N timers due in the same microsecond | one of them expires |
//! | input original/1 | a loop that takes what its ring has | a wake-up for one packet |
//! | input unpolled/1 | the rounds that poll, told at run time not to | the same |
//!
//! Small sizes suffice: growth with the number of timers shows between a thousand and a hundred thousand.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use softtimers_core::{Config, KeyedTimers, Random, Slack, SoftTimers, TimerId, Timestamp, TriggerState};
use softtimers_poll::{Action, BusyWait, Interrupts, Policy, Rounds, SourceConfig};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    match arguments.next().as_deref() {
        None => println!("nothing is counted here: `cargo xtask instructions` does, with valgrind"),
        Some("--list") => WORKLOADS.iter().for_each(|(name, _)| println!("{name}")),
        Some(asked) => match WORKLOADS.iter().find(|(name, _)| *name == asked) {
            Some((_, run)) => println!("{}", run()),
            None => {
                eprintln!("error: no workload {asked:?}; `--list` names them");
                return ExitCode::from(2);
            }
        },
    }
    ExitCode::SUCCESS
}

/// A workload; returns the number of operations that it did.
type Workload = fn() -> usize;

/// Names are `who what/size`.
const WORKLOADS: &[(&str, Workload)] = &[
    ("handles w1/0", || w1::<Handles>(0)),
    ("handles w1/1000", || w1::<Handles>(1_000)),
    ("handles w1/100000", || w1::<Handles>(100_000)),
    ("handles hit/1000", || cancels::<Handles>(1_000, true)),
    ("handles hit/100000", || cancels::<Handles>(100_000, true)),
    ("handles miss/1000", || cancels::<Handles>(1_000, false)),
    ("handles miss/100000", || cancels::<Handles>(100_000, false)),
    ("handles w1r/1000", || w1r::<Handles>(1_000)),
    ("handles w1r/100000", || w1r::<Handles>(100_000)),
    ("handles w2 set/20000", || w2::<Handles>(20_000, true)),
    ("handles w2 expire/20000", || w2::<Handles>(20_000, false)),
    ("handles w3/10000", || w3::<Handles>(10_000)),
    ("handles tcp/1000", || tcp::<Handles>(1_000)),
    ("handles w4 step/1", || w4::<Handles>(1, false)),
    ("handles w4 step/64", || w4::<Handles>(64, false)),
    ("handles w4 step/10000", || w4::<Handles>(10_000, false)),
    ("handles w4 leap/1", || w4::<Handles>(1, true)),
    ("handles w4 leap/64", || w4::<Handles>(64, true)),
    ("handles w5 due/100000", || w5::<Handles>(100_000, false)),
    ("handles w5 next/100000", || w5::<Handles>(100_000, true)),
    ("handles slot/1000", || slot::<Handles>(1_000)),
    ("handles slot/20000", || slot::<Handles>(20_000)),
    ("keyed w1/0", || w1::<Keyed>(0)),
    ("keyed w1/1000", || w1::<Keyed>(1_000)),
    ("keyed w1/100000", || w1::<Keyed>(100_000)),
    ("keyed hit/100000", || cancels::<Keyed>(100_000, true)),
    ("keyed miss/100000", || cancels::<Keyed>(100_000, false)),
    ("keyed w1r/100000", || w1r::<Keyed>(100_000)),
    ("keyed w2 set/20000", || w2::<Keyed>(20_000, true)),
    ("keyed w2 expire/20000", || w2::<Keyed>(20_000, false)),
    ("keyed w3/10000", || w3::<Keyed>(10_000)),
    ("keyed w4 step/64", || w4::<Keyed>(64, false)),
    ("keyed w4 step/10000", || w4::<Keyed>(10_000, false)),
    ("keyed w5 due/100000", || w5::<Keyed>(100_000, false)),
    ("keyed slot/20000", || slot::<Keyed>(20_000)),
    ("input original/1", original),
    ("input unpolled/1", unpolled),
];

/// Runs the work between the marks. callgrind finds it by its name, and counts while it runs.
#[inline(never)]
fn measured<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

/// Timers by number. Times are microseconds.
trait Timers {
    fn new() -> Self;
    fn set(&mut self, now: u64, number: u32, due: u64);
    fn cancel(&mut self, number: u32) -> bool;
    fn put_off(&mut self, now: u64, number: u32, due: u64);
    fn expire(&mut self, now: u64, fired: &mut Vec<u32>);
    /// The time of the next check.
    fn next(&self) -> u64;
}

/// With slack and the earliest deadline, as programs use them.
struct Handles {
    timers: SoftTimers<u32>,
    ids: Vec<Option<TimerId>>,
}

impl Timers for Handles {
    fn new() -> Self {
        Handles { timers: SoftTimers::new(Config::default()), ids: Vec::new() }
    }

    #[inline]
    fn set(&mut self, now: u64, number: u32, due: u64) {
        let (now, due) = (Timestamp::from_micros(now), Timestamp::from_micros(due));
        let id = self.timers.schedule_at(now, due, Slack::DEFAULT, number);
        if self.ids.len() <= number as usize {
            self.ids.resize(number as usize + 1, None);
        }
        self.ids[number as usize] = Some(id);
    }

    /// The handle stays, so that the next cancel misses.
    #[inline]
    fn cancel(&mut self, number: u32) -> bool {
        self.ids[number as usize].is_some_and(|id| self.timers.cancel(id).is_some())
    }

    #[inline]
    fn put_off(&mut self, now: u64, number: u32, due: u64) {
        if let Some(id) = self.ids[number as usize] {
            let (now, due) = (Timestamp::from_micros(now), Timestamp::from_micros(due));
            self.timers.reschedule_at(now, id, due, Slack::DEFAULT).expect("it is pending");
        }
    }

    #[inline]
    fn expire(&mut self, now: u64, fired: &mut Vec<u32>) {
        let turn = self.timers.trigger(TriggerState::Idle, Timestamp::from_micros(now));
        while let Some(one) = self.timers.next(&turn) {
            fired.push(one.event);
        }
    }

    #[inline]
    fn next(&self) -> u64 {
        self.timers.poll_at().map_or(u64::MAX, |at| at.as_nanos() / 1_000)
    }
}

/// Timers in which the number is the timer.
struct Keyed(KeyedTimers);

impl Timers for Keyed {
    fn new() -> Self {
        Keyed(KeyedTimers::new(Duration::from_micros(1)))
    }

    #[inline]
    fn set(&mut self, now: u64, number: u32, due: u64) {
        self.0.set(Timestamp::from_micros(now), number, Timestamp::from_micros(due));
    }

    #[inline]
    fn cancel(&mut self, number: u32) -> bool {
        self.0.cancel(number)
    }

    #[inline]
    fn put_off(&mut self, now: u64, number: u32, due: u64) {
        self.set(now, number, due);
    }

    #[inline]
    fn expire(&mut self, now: u64, fired: &mut Vec<u32>) {
        let turn = self.0.turn(Timestamp::from_micros(now));
        while let Some((number, _)) = self.0.next(&turn) {
            fired.push(number);
        }
    }

    #[inline]
    fn next(&self) -> u64 {
        self.0.next_due().map_or(u64::MAX, |due| due.as_nanos() / 1_000)
    }
}

/// Sets `count` timers, 60 to 120 s ahead.
fn far<T: Timers>(count: usize, random: &mut Random) -> T {
    let mut timers = T::new();
    for number in 0..count as u32 {
        timers.set(0, number, between(random, 60 * SECOND, 120 * SECOND));
    }
    timers
}

/// Drawn beforehand, so that the drawing is not counted.
fn drawn(count: usize, from: u64, to: u64, random: &mut Random) -> Vec<u64> {
    (0..count).map(|_| between(random, from, to)).collect()
}

fn between(random: &mut Random, from: u64, to: u64) -> u64 {
    from + random.below(to - from)
}

fn w1<T: Timers>(count: usize) -> usize {
    let mut random = Random::stream(1, count as u64);
    let mut timers: T = far(count, &mut random);
    let dues = drawn(OPERATIONS, 120 * SECOND, 130 * SECOND, &mut random);
    let extra = count as u32;
    timers.set(0, extra, 125 * SECOND);
    timers.cancel(extra);
    measured(|| {
        for &due in &dues {
            timers.set(0, extra, due);
            timers.cancel(extra);
        }
    });
    OPERATIONS
}

fn cancels<T: Timers>(count: usize, hits: bool) -> usize {
    let mut timers: T = far(count, &mut Random::stream(2, count as u64));
    // A thousand, all over the table.
    let chosen: Vec<u32> = (0..1_000).map(|at| (at * (count / 1_000)) as u32).collect();
    if !hits {
        assert!(chosen.iter().all(|&number| timers.cancel(number)), "a timer was lost");
    }
    let hit = measured(|| chosen.iter().filter(|&&number| timers.cancel(number)).count());
    assert_eq!(hit, if hits { chosen.len() } else { 0 }, "a timer was lost or kept");
    chosen.len()
}

fn w1r<T: Timers>(count: usize) -> usize {
    let mut random = Random::stream(3, count as u64);
    let mut timers: T = far(count, &mut random);
    let dues = drawn(OPERATIONS, 120 * SECOND, 130 * SECOND, &mut random);
    let which = drawn(OPERATIONS, 0, count as u64, &mut random);
    measured(|| {
        for (&due, &which) in dues.iter().zip(&which) {
            timers.put_off(0, which as u32, due);
        }
    });
    OPERATIONS
}

/// Records and chunks are allocated already: an earlier run set as many timers.
fn w2<T: Timers>(count: usize, set: bool) -> usize {
    let mut random = Random::stream(4, 0);
    let dues = drawn(count, 1, count as u64, &mut random);
    let (mut timers, mut fired) = (T::new(), Vec::with_capacity(count));
    let fill = |timers: &mut T, now: u64| {
        for (number, &due) in dues.iter().enumerate() {
            timers.set(now, number as u32, now + due);
        }
    };
    let empty = |timers: &mut T, fired: &mut Vec<u32>, now: u64| {
        (1..=count as u64).for_each(|at| timers.expire(now + at, fired));
    };
    fill(&mut timers, 0);
    empty(&mut timers, &mut fired, 0);
    fired.clear();
    let now = SECOND;
    timers.expire(now, &mut fired);
    if set {
        measured(|| fill(&mut timers, now));
    } else {
        fill(&mut timers, now);
        measured(|| empty(&mut timers, &mut fired, now));
        assert_eq!(fired.len(), count, "a timer was lost");
    }
    count
}

/// W3 a hundred times as fast: level 0 reaches 2 to 4 ms, so that nearly all timers come by way of level 1.
fn w3<T: Timers>(count: usize) -> usize {
    const LEAST_AHEAD: u64 = 20_000;
    const MOST_AHEAD: u64 = 43_000;
    let (warm_up, steps) = (MOST_AHEAD as usize, 2 * OPERATIONS);
    let mut random = Random::stream(5, count as u64);
    let dues = drawn(2 * (warm_up + steps), LEAST_AHEAD, MOST_AHEAD, &mut random);
    let which = drawn(warm_up + steps, 0, count as u64, &mut random);
    let mut dues = dues.iter().copied();
    let mut due = |now: u64| now + dues.next().unwrap_or(MOST_AHEAD);
    let (mut timers, mut fired) = (T::new(), Vec::with_capacity(count));
    for number in 0..count as u32 {
        timers.set(0, number, 1 + random.below(MOST_AHEAD));
    }
    let mut run = |steps: core::ops::Range<usize>| {
        for step in steps {
            let now = step as u64 + 1;
            timers.expire(now, &mut fired);
            for &number in &fired {
                timers.set(now, number, due(now));
            }
            fired.clear();
            if step % 20 != 0 {
                timers.put_off(now, which[step] as u32, due(now));
            }
        }
    };
    run(0..warm_up);
    measured(|| run(warm_up..warm_up + steps));
    steps
}

/// Does a transport's work for each packet: the retransmission's time-out and the delayed ACK's are cancelled and set
/// anew. Costello and Varghese's systems had 200 ms and 500 ms for the two, and 25,000 to 40,000 packets/s.
fn tcp<T: Timers>(connections: usize) -> usize {
    const BETWEEN: u64 = SECOND / 40_000;
    let (warm_up, packets) = (SECOND / BETWEEN, OPERATIONS as u64);
    let which = drawn((warm_up + packets) as usize, 0, connections as u64, &mut Random::stream(8, 0));
    let (mut timers, mut fired) = (T::new(), Vec::new());
    for number in 0..2 * connections as u32 {
        timers.set(0, number, 10 * SECOND);
    }
    let mut run = |packets: core::ops::Range<u64>| {
        for packet in packets {
            let now = packet * BETWEEN;
            timers.expire(now, &mut fired);
            for (timer, delay) in [(0, SECOND / 5), (1, SECOND / 2)] {
                let number = 2 * which[packet as usize] as u32 + timer;
                timers.cancel(number);
                timers.set(now, number, now + delay);
            }
        }
    };
    run(0..warm_up);
    measured(|| run(warm_up..warm_up + packets));
    packets as usize
}

fn w4<T: Timers>(flows: usize, leap: bool) -> usize {
    let mut random = Random::stream(6, flows as u64);
    let intervals = drawn(flows, 10, 1_000, &mut random);
    let (mut timers, mut fired) = (T::new(), Vec::with_capacity(flows));
    for (flow, &interval) in intervals.iter().enumerate() {
        timers.set(0, flow as u32, 1 + random.below(interval));
    }
    let mut now = 0;
    let mut run = |departures: usize| {
        let mut done = 0;
        while done < departures {
            now = if leap { timers.next().max(now + 1) } else { now + 1 };
            timers.expire(now, &mut fired);
            done += fired.len();
            for &flow in &fired {
                timers.set(now, flow, now + intervals[flow as usize]);
            }
            fired.clear();
        }
        done
    };
    run(2 * flows);
    // A single one has hundreds of empty steps between two departures.
    measured(|| run(if flows == 1 { 1_000 } else { OPERATIONS }))
}

fn w5<T: Timers>(count: usize, next: bool) -> usize {
    let mut timers: T = far(count, &mut Random::stream(7, count as u64));
    let mut fired = Vec::new();
    timers.expire(1, &mut fired);
    if next {
        measured(|| {
            for _ in 0..OPERATIONS {
                black_box(black_box(&timers).next());
            }
        });
    } else {
        measured(|| {
            for now in 2..OPERATIONS as u64 + 2 {
                black_box(&mut timers).expire(now, &mut fired);
            }
        });
    }
    assert!(fired.is_empty(), "a timer 60 s ahead fired");
    OPERATIONS
}

fn slot<T: Timers>(count: usize) -> usize {
    let (mut timers, mut fired) = (T::new(), Vec::with_capacity(count));
    (0..count as u32).for_each(|number| timers.set(0, number, SECOND));
    measured(|| timers.expire(SECOND + 100, &mut fired));
    assert!(fired.iter().copied().eq(0..count as u32), "not in the order they were set");
    count
}

/// The livelock paper's unmodified system (§6.5), as far as it is a loop: each wake-up takes all there is.
fn original() -> usize {
    let mut ring = VecDeque::with_capacity(1);
    let handled = measured(|| {
        let mut handled = 0;
        for packet in 0..OPERATIONS {
            black_box(&mut ring).push_back(packet);
            while let Some(packet) = ring.pop_front() {
                handled += usize::from(black_box(packet) == packet);
            }
        }
        handled
    });
    assert_eq!(handled, OPERATIONS, "a packet was lost");
    OPERATIONS
}

/// Its modified one, "configured to act as if it were an unmodified system": the policy is chosen at run time.
fn unpolled() -> usize {
    let polls = black_box(false);
    let policy: Box<dyn Policy> = if polls { Box::new(BusyWait) } else { Box::new(Interrupts) };
    let mut rounds = Rounds::new();
    let source = rounds.add(SourceConfig::new(policy));
    let mut ring = VecDeque::with_capacity(1);
    let handled = measured(|| {
        let mut handled = 0;
        for packet in 0..OPERATIONS {
            let now = Timestamp::from_micros(packet as u64);
            black_box(&mut ring).push_back(packet);
            rounds.woken(source, now);
            loop {
                match rounds.action(now) {
                    Action::Receive { source, quota } => {
                        let mut taken = 0;
                        while taken < quota {
                            let Some(packet) = ring.pop_front() else { break };
                            handled += usize::from(black_box(packet) == packet);
                            taken += 1;
                        }
                        rounds.received(source, now, taken, !ring.is_empty());
                    }
                    Action::Arm { source } => rounds.armed(source, now, ring.is_empty()),
                    Action::Rest(_) => break,
                    Action::Transmit { .. } | Action::Disarm { .. } => {}
                }
            }
        }
        handled
    });
    assert_eq!(handled, OPERATIONS, "a packet was lost");
    OPERATIONS
}

const OPERATIONS: usize = 10_000;
/// A second in microseconds.
const SECOND: u64 = 1_000_000;
