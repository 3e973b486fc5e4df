//! The peer of soft timers in the experiments: a `bpf_timer` for each event and nothing else, [`Timers`].
//!
//! [`Facility`](crate::Facility) with no trigger states would be no fair rival: each of its interrupts walks the wheel and looks for the
//! next deadline, which a program that has only a `bpf_timer` does not.

use std::time::Duration;

use aya::EbpfLoader;

use crate::Error;
use crate::load;
use crate::object::{Object, Verified};
use crate::orders::{Events, Orders};

/// The program, compiled from `c/timer.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../object/timer.bpf.o");

/// `struct plain` in words, and where what it counts begins.
const PLAIN: usize = 8;
const FIRED: usize = 3;

/// A `bpf_timer` on each CPU that starts itself again, verified, until it is dropped.
#[derive(Debug)]
pub struct Timers {
    object: Object,
    verified: Verified,
    runs: u64,
}

/// Counters of a CPU's timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimerStats {
    /// Times that it went off: interrupts.
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
    /// If the process may not, or the kernel cannot.
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

    /// Lets a timer go on on each of the CPUs until what is returned is dropped: of `events`, their period, CPUs
    /// and what they touch. Neither slack nor count: a timer has none, and a CPU has one. It goes off a millisecond
    /// later. A CPU that is offline, or that this process may not run on, has none.
    ///
    /// # Errors
    /// If the kernel does not let it.
    pub fn run(&mut self, events: &Events) -> Result<TimersRun<'_>, Error> {
        self.runs += 1;
        let events = Events { period: events.period.max(LEAST), ..events.clone() };
        let orders = Orders::new(&events, self.runs, &self.object);
        // From here on what is dropped stops them.
        let running = TimersRun { timers: self, orders };
        running.orders.begin(&mut running.timers.object)?;
        Ok(running)
    }

    /// Returns the counters of a CPU's timer, in all runs.
    ///
    /// # Errors
    /// If the kernel does not hand it over.
    pub fn stats(&self, cpu: u32) -> Result<TimerStats, Error> {
        let words: [u64; PLAIN] = self.object.value("timers", cpu)?;
        let [fired, late_sum_ns, late_max_ns] = [words[FIRED], words[FIRED + 1], words[FIRED + 2]];
        Ok(TimerStats { fired, late_sum_ns, late_max_ns })
    }
}

/// Timers that go on in the kernel, until it is dropped.
#[derive(Debug)]
pub struct TimersRun<'a> {
    timers: &'a mut Timers,
    orders: Orders,
}

impl TimersRun<'_> {
    /// Returns the counters of a CPU's timer, in all runs.
    ///
    /// # Errors
    /// If the kernel does not hand it over.
    pub fn stats(&self, cpu: u32) -> Result<TimerStats, Error> {
        self.timers.stats(cpu)
    }
}

impl Drop for TimersRun<'_> {
    fn drop(&mut self) {
        self.orders.end(&mut self.timers.object);
    }
}

/// A timer of no period would leave the CPU nothing else.
const LEAST: Duration = Duration::from_micros(1);
