//! The baseline for soft timers in the experiments: only a `bpf_timer` for each event, [`Timers`].
//!
//! [`Facility`](crate::Facility) without trigger states would not be a fair baseline: each of its interrupts
//! walks the wheel and searches for the next deadline, which a program with only a `bpf_timer` does not do.

use std::time::Duration;

use aya::EbpfLoader;

use crate::Error;
use crate::load;
use crate::object::{Object, Verified};
use crate::orders::{Events, Orders};

/// The program, compiled from `c/timer.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../object/timer.bpf.o");

/// `struct plain` in words, and the start of its counters.
const PLAIN: usize = 8;
const FIRED: usize = 3;

/// A verified program with a periodic `bpf_timer` on each CPU, loaded until this is dropped.
#[derive(Debug)]
pub struct Timers {
    object: Object,
    verified: Verified,
    runs: u64,
}

/// Counters of a CPU's timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimerStats {
    /// How often it fired: interrupts.
    pub fired: u64,
    /// The sum of its lateness, in nanoseconds.
    pub late_sum_ns: u64,
    /// The greatest lateness, in nanoseconds.
    pub late_max_ns: u64,
}

impl TimerStats {
    /// Returns the counts since `before`; the greatest lateness is that of all.
    #[must_use]
    pub fn since(&self, before: &TimerStats) -> TimerStats {
        TimerStats {
            fired: self.fired.saturating_sub(before.fired),
            late_sum_ns: self.late_sum_ns.saturating_sub(before.late_sum_ns),
            late_max_ns: self.late_max_ns,
        }
    }
}

impl Timers {
    /// Loads the program; nothing runs yet.
    ///
    /// # Errors
    /// If the process lacks the privileges, or the kernel lacks support.
    pub fn load() -> Result<Timers, Error> {
        let types = load::kernel_types(load::TIMERS)?;
        let maps = ["timers", "orders", "footprints"];
        let mut object = Object::load(&mut EbpfLoader::new(), &maps, OBJECT)?;
        let verified = object.load_at(load::INIT, "sys_enter", &types)?;
        Ok(Timers { object, verified, runs: 0 })
    }

    /// Returns the verifier's figures for the program.
    pub fn verified(&self) -> &Verified {
        &self.verified
    }

    /// Runs a timer on each of the CPUs until the returned value is dropped. It uses the period, the CPUs and
    /// the cache setting of `events`, but neither slack nor count: a timer has no slack, and a CPU has one
    /// timer. It first fires a millisecond later. A CPU that is offline, or on which this process may not
    /// run, has no timer.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn run(&mut self, events: &Events) -> Result<TimersRun<'_>, Error> {
        self.runs += 1;
        let events = Events { period: events.period.max(SHORTEST_PERIOD), ..events.clone() };
        let orders = Orders::new(&events, self.runs, &self.object);
        // From here on, dropping this stops them.
        let running = TimersRun { timers: self, orders };
        running.orders.begin(&mut running.timers.object)?;
        Ok(running)
    }

    /// Returns the counters of a CPU's timer, in all runs.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn stats(&self, cpu: u32) -> Result<TimerStats, Error> {
        let words: [u64; PLAIN] = self.object.value("timers", cpu)?;
        let [fired, late_sum_ns, late_max_ns] = [words[FIRED], words[FIRED + 1], words[FIRED + 2]];
        Ok(TimerStats { fired, late_sum_ns, late_max_ns })
    }
}

/// Timers that run in the kernel until this is dropped.
#[derive(Debug)]
pub struct TimersRun<'a> {
    timers: &'a mut Timers,
    orders: Orders,
}

impl TimersRun<'_> {
    /// Returns the counters of a CPU's timer, in all runs.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn stats(&self, cpu: u32) -> Result<TimerStats, Error> {
        self.timers.stats(cpu)
    }
}

impl Drop for TimersRun<'_> {
    fn drop(&mut self) {
        self.orders.end(&mut self.timers.object);
    }
}

/// A timer with period zero would use up the CPU.
const SHORTEST_PERIOD: Duration = Duration::from_micros(1);
