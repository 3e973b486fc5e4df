//! The workloads, the same for every contender. The figures are nanoseconds of CPU time.

use std::hint::black_box;

use softtimers_measure::estimate::median;
use softtimers_trials::random::Random;

use crate::clock;
use crate::contender::Contender;

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;

/// Figures by name, in order.
pub(crate) type Named = Vec<(&'static str, f64)>;

/// The median of three measurements, for each of `operations`.
fn median_of_three(operations: usize, mut measured: impl FnMut()) -> f64 {
    let costs = (0..3).map(|_| {
        let start = clock::spent();
        measured();
        (clock::spent() - start) as f64 / operations as f64
    });
    median(costs).unwrap_or(f64::NAN)
}

fn far_timers<C: Contender>(contender: &mut C, timers: usize, random: &mut Random) -> Vec<Option<C::Handle>> {
    let due = |random: &mut Random| 60 * SECOND + random.below(60 * SECOND);
    (0..timers).map(|number| Some(contender.set(due(random), number as u32))).collect()
}

pub(crate) fn w1<C: Contender>(timers: usize, operations: usize) -> Named {
    let (mut contender, mut random) = (C::new(timers + 8), Random::new());
    let handles = far_timers(&mut contender, timers, &mut random);
    let pair = median_of_three(operations, || {
        for _ in 0..operations {
            let handle = contender.set(120 * SECOND + random.below(10 * SECOND), timers as u32);
            contender.cancel(handle);
        }
    });
    std::mem::forget((handles, contender));
    vec![("set_cancel_ns", pair)]
}

/// Returns the handles of the fired timers to the contender.
fn release<C: Contender>(contender: &mut C, handles: &mut [Option<C::Handle>], fired: &mut Vec<u32>) {
    for number in fired.drain(..) {
        if let Some(handle) = handles[number as usize].take() {
            contender.release(handle);
        }
    }
}

pub(crate) fn w2<C: Contender>(timers: usize) -> Named {
    let mut random = Random::new();
    let dues: Vec<u32> = (0..timers).map(|_| 1 + random.below(SECOND) as u32).collect();
    // The bench's own memory is touched before the contender's is counted; zeroed pages would not be.
    let mut handles: Vec<Option<C::Handle>> = Vec::with_capacity(timers);
    handles.resize_with(timers, || None);
    let mut fired = vec![u32::MAX; timers + 16];
    fired.clear();
    let before = clock::resident();
    let mut contender = C::new(1_024);
    let start = clock::spent();
    for (number, &due) in dues.iter().enumerate() {
        handles[number] = Some(contender.set(u64::from(due), number as u32));
    }
    let insert = (clock::spent() - start) as f64 / timers as f64;
    let bytes = clock::resident().saturating_sub(before) as f64 / timers as f64;
    let start = clock::spent();
    let mut count = 0;
    for now in 1..=SECOND {
        contender.advance(now, &mut fired);
        if !fired.is_empty() {
            count += fired.len();
            release(&mut contender, &mut handles, &mut fired);
        }
    }
    let expire = (clock::spent() - start) as f64 / timers as f64;
    assert!(count == timers, "{count} of {timers} timers fired");
    std::mem::forget((handles, contender));
    vec![("insert_ns", insert), ("expire_ns", expire), ("bytes", bytes)]
}

/// Connections with a time-out each, of which one is re-armed each microsecond.
pub(crate) struct Connections<C: Contender> {
    pub(crate) contender: C,
    pub(crate) handles: Vec<Option<C::Handle>>,
    pub(crate) random: Random,
    pub(crate) now: u64,
    pub(crate) fired: Vec<u32>,
    /// The shortest time-out, and the range up to the longest.
    least: u64,
    span: u64,
}

impl<C: Contender> Connections<C> {
    /// A steady state, at `now`.
    pub(crate) fn warm(timers: usize, now: u64) -> Self {
        Self::at(timers, now - 43 * SECOND / 10, SECOND)
    }

    /// A steady state with time-outs of 2.0 to 4.3 µs for each timer that there is.
    pub(crate) fn scaled(timers: usize) -> Self {
        Self::at(timers, 0, timers as u64)
    }

    fn at(timers: usize, start: u64, unit: u64) -> Self {
        let (mut contender, mut random) = (C::new(timers + 8), Random::new());
        let (least, span) = (2 * unit, (23 * unit / 10).max(1));
        let warm_up = least + span;
        // Touched, and at its final size: otherwise its growth, and page faults, would be within a timed call.
        let mut fired = vec![u32::MAX; timers + 16];
        fired.clear();
        contender.advance(start, &mut fired);
        let handles = (0..timers)
            .map(|number| Some(contender.set(start + 1 + random.below(warm_up), number as u32)))
            .collect();
        let mut connections = Connections { contender, handles, random, now: start, fired, least, span };
        connections.run(warm_up as usize);
        connections
    }

    pub(crate) fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            self.now += 1;
            self.contender.advance(self.now, &mut self.fired);
            self.set_again();
            if let Some((which, due)) = self.chosen() {
                self.rearm(which, due);
            }
        }
    }

    /// As [`run`](Self::run), but every other time-out is cancelled and set again.
    pub(crate) fn run_mixed(&mut self, steps: usize) {
        for step in 0..steps {
            self.now += 1;
            self.contender.advance(self.now, &mut self.fired);
            self.set_again();
            let Some((which, due)) = self.chosen() else { continue };
            if step % 2 == 0 {
                self.rearm(which, due);
            } else if let Some(handle) = self.handles[which].take() {
                self.contender.cancel(handle);
                self.handles[which] = Some(self.contender.set(due, which as u32));
            }
        }
    }

    /// Sets the fired timers again.
    pub(crate) fn set_again(&mut self) {
        for at in 0..self.fired.len() {
            let number = self.fired[at];
            if let Some(handle) = self.handles[number as usize].take() {
                self.contender.release(handle);
            }
            let due = self.now + self.least + self.random.below(self.span);
            self.handles[number as usize] = Some(self.contender.set(due, number));
        }
        self.fired.clear();
    }

    /// Returns the timer to re-arm in this step, with its new time; `None` for one in twenty.
    #[inline]
    pub(crate) fn chosen(&mut self) -> Option<(usize, u64)> {
        if self.random.below(100) >= 95 {
            return None;
        }
        let which = self.random.below(self.handles.len() as u64) as usize;
        Some((which, self.now + self.least + self.random.below(self.span)))
    }

    #[inline]
    pub(crate) fn rearm(&mut self, which: usize, due: u64) {
        if let Some(handle) = self.handles[which].take() {
            self.handles[which] = Some(self.contender.rearm(handle, due, which as u32));
        }
    }
}

/// Requests with a time-out each, all of which are answered: `timers` are under way, and the oldest is answered next.
pub(crate) fn w6<C: Contender>(timers: usize, operations: usize) -> Named {
    let (mut contender, mut random) = (C::new(timers + 8), Random::new());
    let due = |now: u64, random: &mut Random| now + SECOND + random.below(SECOND);
    let mut handles: Vec<Option<C::Handle>> =
        (0..timers).map(|number| Some(contender.set(due(0, &mut random), number as u32))).collect();
    let (mut now, mut oldest, mut fired) = (0, 0, Vec::new());
    let mut run = |requests: usize| {
        for _ in 0..requests {
            // No request gets a second old.
            now += u64::from(random.below(4) == 0);
            contender.advance(now, &mut fired);
            if let Some(handle) = handles[oldest].take() {
                contender.cancel(handle);
            }
            handles[oldest] = Some(contender.set(due(now, &mut random), oldest as u32));
            oldest = (oldest + 1) % timers;
        }
    };
    run(2 * timers);
    let request = median_of_three(operations, || run(operations));
    assert!(fired.is_empty(), "a timer fired that was to be cancelled");
    std::mem::forget((handles, contender));
    vec![("request_ns", request)]
}

/// Paced flows. With `leap`, time jumps from one due time to the next.
fn paced<C: Contender>(
    flows: usize,
    events: u64,
    leap: bool,
    mut interval: impl FnMut(&mut Random) -> u64,
) -> f64 {
    let (mut contender, mut random) = (C::new(flows + 8), Random::new());
    let intervals: Vec<u64> = (0..flows).map(|_| interval(&mut random)).collect();
    let mut handles: Vec<Option<C::Handle>> =
        (0..flows).map(|flow| Some(contender.set(1 + random.below(intervals[flow]), flow as u32))).collect();
    let (mut fired, mut now) = (Vec::with_capacity(flows + 16), 0);
    let mut run = |events: u64| {
        let (mut done, mut calls) = (0, 0);
        while done < events && calls < 2 * events {
            calls += 1;
            now = if leap { contender.next().unwrap_or(now + 1).max(now) } else { now + 1 };
            contender.advance(now, &mut fired);
            done += fired.len() as u64;
            for &flow in &fired {
                let flow = flow as usize;
                if let Some(handle) = handles[flow].take() {
                    contender.release(handle);
                }
                handles[flow] = Some(contender.set(now + intervals[flow], flow as u32));
            }
            fired.clear();
        }
        done
    };
    run(events / 4);
    let start = clock::spent();
    let done = run(events);
    let cost = (clock::spent() - start) as f64 / done as f64;
    std::mem::forget((handles, contender));
    cost
}

/// Some contenders search for it, so it is called in batches for a tenth of a second.
fn cost_of_poll_at<C: Contender>(contender: &mut C, operations: usize) -> f64 {
    const BATCH: usize = 1_000;
    let (mut asked, start) = (0, clock::spent());
    while asked < operations && clock::spent() - start < 100_000_000 {
        for _ in 0..BATCH {
            black_box(black_box(&mut *contender).poll_at());
        }
        asked += BATCH;
    }
    (clock::spent() - start) as f64 / asked as f64
}

pub(crate) fn w5<C: Contender>(timers: usize, operations: usize) -> Named {
    let (mut contender, mut random) = (C::new(timers + 8), Random::new());
    let handles = far_timers(&mut contender, timers, &mut random);
    let (mut fired, mut now) = (Vec::with_capacity(64), 5);
    contender.advance(now, &mut fired);
    let same = median_of_three(operations, || {
        for _ in 0..operations {
            black_box(&mut contender).advance(black_box(now), &mut fired);
        }
    });
    let moving = median_of_three(operations, || {
        for _ in 0..operations {
            now += 1;
            black_box(&mut contender).advance(black_box(now), &mut fired);
        }
    });
    let mut measured = vec![("same_ns", same), ("moving_ns", moving)];
    if C::TELLS_NEXT {
        measured.push(("poll_at_ns", cost_of_poll_at(&mut contender, operations)));
    }
    assert!(fired.is_empty(), "a timer 60 s away fired");
    std::mem::forget((handles, contender));
    measured
}

/// A server: each step it receives from one connection, whose time-out is moved, or cancelled and set again. Time-outs
/// grow with the number of connections, so that one in twenty expires at any size.
pub(crate) fn mix<C: Contender>(timers: usize, operations: usize) -> Named {
    let mut connections = Connections::<C>::scaled(timers);
    let step = median_of_three(operations, || connections.run_mixed(operations));
    std::mem::forget(connections);
    vec![("step_ns", step)]
}

/// Idle time-outs: each step a random connection receives, and its time-out is a minute from now again.
pub(crate) fn idle<C: Contender>(timers: usize, operations: usize) -> Named {
    let (mut contender, mut random) = (C::new(timers + 8), Random::new());
    let mut handles: Vec<Option<C::Handle>> = (0..timers)
        .map(|number| Some(contender.set(MINUTE / 2 + random.below(MINUTE / 2), number as u32)))
        .collect();
    let (mut now, mut fired) = (0, Vec::new());
    let rearm = median_of_three(operations, || {
        for _ in 0..operations {
            now += 1;
            contender.advance(now, &mut fired);
            let which = random.below(timers as u64) as usize;
            if let Some(handle) = handles[which].take() {
                handles[which] = Some(contender.rearm(handle, now + MINUTE, which as u32));
            }
        }
    });
    assert!(fired.is_empty(), "a timer fired that was put off");
    std::mem::forget((handles, contender));
    vec![("rearm_ns", rearm)]
}

/// Periodic timers with different phases; time goes from one to the next.
pub(crate) fn periodic<C: Contender>(timers: usize, operations: usize, interval: u64) -> Named {
    let events = 2 * operations.max(timers) as u64;
    vec![("event_ns", paced::<C>(timers, events, C::TELLS_NEXT, |_| interval))]
}

/// All timers of a minute are due at once.
pub(crate) fn jump<C: Contender>(timers: usize) -> Named {
    let mut random = Random::new();
    let mut contender = C::new(timers);
    let mut fired = vec![u32::MAX; timers + 16];
    fired.clear();
    let handles: Vec<C::Handle> =
        (0..timers).map(|number| contender.set(1 + random.below(MINUTE), number as u32)).collect();
    let start = clock::spent();
    contender.advance(MINUTE, &mut fired);
    let jump = (clock::spent() - start) as f64 / timers as f64;
    assert!(fired.len() == timers, "{} of {timers} timers fired", fired.len());
    std::mem::forget((handles, contender));
    vec![("jump_ns", jump)]
}
