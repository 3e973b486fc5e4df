//! What soft timers stand beside in the experiments: a `bpf_timer` for each event and nothing else, [`Timers`].
//!
//! [`Facility`](crate::Facility) with no trigger states would be no fair rival: each of its interrupts walks the wheel and looks for the
//! next deadline, which a program that has only a `bpf_timer` does not.

use std::time::Duration;

use aya::maps::Array;
use aya::{Ebpf, EbpfLoader};

use crate::load::{self, Verified};
use crate::{Error, Events};

/// The program, compiled from `c/timer.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../object/timer.bpf.o");

/// `struct plain` in words, and where what it counts begins.
const PLAIN: usize = 8;
const FIRED: usize = 3;
/// `struct orders` in words, and where the program says which run it has begun.
const ORDERS: usize = 8;
const BEGUN: usize = 3;

/// A `bpf_timer` on each processor that starts itself again, verified, until it is dropped.
#[derive(Debug)]
pub struct Timers {
    bpf: Ebpf,
    verified: Verified,
    processors: u32,
    runs: u64,
}

/// What has been counted of a processor's timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimerStats {
    /// Times that it went off: interrupts.
    pub fired: u64,
    /// The sum of its lateness, in nanoseconds.
    pub late_sum_ns: u64,
    /// The greatest lateness.
    pub late_max_ns: u64,
}

impl TimerStats {
    /// What was counted since `before`; the greatest lateness is that of all.
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
        let processors = load::processors()?;
        let mut bpf = load::load(
            EbpfLoader::new()
                .map_max_entries("timers", processors)
                .map_max_entries("orders", processors)
                .map_max_entries("footprints", processors),
            OBJECT,
        )?;
        let verified = load::load_at(&mut bpf, load::INIT, "sys_enter", &types)?;
        Ok(Timers { bpf, verified, processors, runs: 0 })
    }

    /// What the verifier did for the program.
    pub fn verified(&self) -> &Verified {
        &self.verified
    }

    /// Lets a timer go on on each of the processors until what is returned is dropped: of `events`, their period, processors
    /// and what they touch. Neither slack nor count: a timer has none, and a processor has one. It goes off a millisecond
    /// later. A processor that is offline, or that this process may not run on, has none.
    ///
    /// # Errors
    /// If the kernel does not let it.
    pub fn run(&mut self, events: &Events) -> Result<TimersRun<'_>, Error> {
        self.runs += 1;
        let run = self.runs;
        let chosen: Vec<u32> = (0..self.processors)
            .filter(|cpu| events.processors.as_ref().is_none_or(|chosen| chosen.contains(cpu)))
            .collect();
        // From here on what is dropped stops them.
        let mut running = TimersRun { timers: self, chosen };
        running.order(&orders(events, run))?;
        let starter = load::attach(&mut running.timers.bpf, load::INIT)?;
        let chosen = running.chosen.iter().copied();
        load::call_on_each(chosen, |cpu| Ok(running.timers.orders(cpu)?[BEGUN] == run))?;
        // In the way of each system call.
        drop(starter);
        Ok(running)
    }

    /// What has been counted of a processor's timer, in all runs.
    ///
    /// # Errors
    /// If the kernel does not hand it over.
    pub fn stats(&self, cpu: u32) -> Result<TimerStats, Error> {
        let map = self.bpf.map("timers").ok_or_else(|| Error::Map("timers is missing".to_owned()))?;
        let timers: Array<_, [u64; PLAIN]> = Array::try_from(map).map_err(load::map_error)?;
        let words = timers.get(&cpu, 0).map_err(load::map_error)?;
        let [fired, late_sum_ns, late_max_ns] = [words[FIRED], words[FIRED + 1], words[FIRED + 2]];
        Ok(TimerStats { fired, late_sum_ns, late_max_ns })
    }

    /// The orders of a processor.
    fn orders(&self, cpu: u32) -> Result<[u64; ORDERS], Error> {
        let map = self.bpf.map("orders").ok_or_else(|| Error::Map("orders is missing".to_owned()))?;
        let orders: Array<_, [u64; ORDERS]> = Array::try_from(map).map_err(load::map_error)?;
        orders.get(&cpu, 0).map_err(load::map_error)
    }
}

/// Timers that go on in the kernel, until it is dropped.
#[derive(Debug)]
pub struct TimersRun<'a> {
    timers: &'a mut Timers,
    chosen: Vec<u32>,
}

impl TimersRun<'_> {
    /// What has been counted of a processor's timer, in all runs.
    ///
    /// # Errors
    /// If the kernel does not hand it over.
    pub fn stats(&self, cpu: u32) -> Result<TimerStats, Error> {
        self.timers.stats(cpu)
    }

    fn order(&mut self, orders: &[u64; ORDERS]) -> Result<(), Error> {
        let map = self.timers.bpf.map_mut("orders");
        let map = map.ok_or_else(|| Error::Map("orders is missing".to_owned()))?;
        let mut of: Array<_, [u64; ORDERS]> = Array::try_from(map).map_err(load::map_error)?;
        self.chosen.iter().try_for_each(|&cpu| of.set(cpu, orders, 0)).map_err(load::map_error)
    }
}

impl Drop for TimersRun<'_> {
    fn drop(&mut self) {
        // A timer that finds no run does not start itself again.
        let _ = self.order(&[0; ORDERS]);
    }
}

fn orders(events: &Events, run: u64) -> [u64; ORDERS] {
    let period = u64::try_from(events.period.max(LEAST).as_nanos()).unwrap_or(u64::MAX);
    [period, run, u64::from(events.touches), 0, 0, 0, 0, 0]
}

/// A timer of no period would leave the processor nothing else.
const LEAST: Duration = Duration::from_micros(1);
