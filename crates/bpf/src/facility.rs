//! Soft timers in the kernel, as the paper measured them: [`Facility`].
//!
//! The events are those of the experiments: they do nothing, or touch fifty cache lines, and schedule themselves again.
//! Programs that have something to do at such times include `softtimer.bpf.h` themselves.
//!
//! ```text
//!   load: the verifier, most of a second ──▶ run ──▶ stats ──▶ drop ──▶ run ──▶ …
//!                                            attached, events go on     detached, none is scheduled any more
//! ```

use std::time::Duration;

use aya::maps::Array;
use aya::programs::tp_btf::BtfTracePointLink;
use aya::{Ebpf, EbpfLoader};

use crate::load::{self, Attached, Verified};
use crate::{Error, Source};

/// The program, compiled from `c/softtimer.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../object/softtimer.bpf.o");

/// `struct st_cpu` in words, and where its counters begin.
const CPU: usize = 552;
const STATS: usize = 13;
/// `struct orders` in words, and where the program says which run it has begun.
const ORDERS: usize = 8;
const BEGUN: usize = 5;

/// The programs of soft timers in the kernel, verified, until it is dropped.
#[derive(Debug)]
pub struct Facility {
    bpf: Ebpf,
    loaded: Vec<Attached>,
    verified: Vec<Verified>,
    processors: u32,
    runs: u64,
}

/// What the events of a run do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Events {
    /// An event is due so long after it fired last; zero: at every trigger state.
    pub period: Duration,
    /// The backup fires an event so long after it was due; `None`: it waits for a trigger state.
    pub slack: Option<Duration>,
    /// Events of each processor, at most 63; zero: only the gate.
    pub count: u32,
    /// Which processors have them; `None`: all.
    pub processors: Option<Vec<u32>>,
    /// Whether a handler touches fifty cache lines, of four pages in turn.
    pub touches: bool,
}

impl Default for Events {
    /// One event of 100 µs on each processor that does nothing, within 1 ms.
    fn default() -> Self {
        Events {
            period: Duration::from_micros(100),
            slack: Some(Duration::from_millis(1)),
            count: 1,
            processors: None,
            touches: false,
        }
    }
}

/// What has been counted of a processor's events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FacilityStats {
    /// Times that the gate was open.
    pub visits: u64,
    /// Times that it was, and the wheel was taken: a trigger state inside another.
    pub nested: u64,
    /// Times that the backup went off.
    pub backups: u64,
    /// Times that it was set.
    pub rearms: u64,
    /// The sum of the lateness of all events, in nanoseconds.
    pub late_sum_ns: u64,
    /// The greatest lateness.
    pub late_max_ns: u64,
    /// Events that were due where they were not allowed to fire.
    pub held: u64,
    /// Events that fired at their deadline or later, whoever fired them: the interrupt of the backup is a trigger state itself,
    /// and often comes before the backup's own function.
    pub expired: u64,
    /// Events that fired, by the number of the source; 15 is the backup.
    pub fired: [u64; 16],
}

impl FacilityStats {
    /// All that fired.
    pub fn total(&self) -> u64 {
        self.fired.iter().sum()
    }

    /// Those that the backup fired: also what it found due when it went off for an event that had fired already, for it is
    /// not set anew each time.
    pub fn by_backup(&self) -> u64 {
        self.fired[15]
    }

    /// What was counted since `before`; the greatest lateness is that of all. The kernel counts without locks, so a count may fall behind
    /// by what was counted at the same time; what is less than before is none.
    #[must_use]
    pub fn since(&self, before: &FacilityStats) -> FacilityStats {
        FacilityStats {
            visits: self.visits.saturating_sub(before.visits),
            nested: self.nested.saturating_sub(before.nested),
            backups: self.backups.saturating_sub(before.backups),
            rearms: self.rearms.saturating_sub(before.rearms),
            late_sum_ns: self.late_sum_ns.saturating_sub(before.late_sum_ns),
            late_max_ns: self.late_max_ns,
            held: self.held.saturating_sub(before.held),
            expired: self.expired.saturating_sub(before.expired),
            fired: std::array::from_fn(|source| self.fired[source].saturating_sub(before.fired[source])),
        }
    }

    /// The mean lateness in nanoseconds; `None` if no event fired.
    pub fn late_mean_ns(&self) -> Option<f64> {
        (self.total() > 0).then(|| self.late_sum_ns as f64 / self.total() as f64)
    }
}

impl Facility {
    /// Loads the programs for these trigger states; with none, the backup alone fires. (An ordinary
    /// `bpf_timer` is [`Timers`](crate::Timers).)
    /// Most of a second for all of them, of the kernel's verifier; nothing runs yet.
    ///
    /// # Errors
    /// If the process may not, or the kernel cannot.
    pub fn load(sources: &[Source]) -> Result<Facility, Error> {
        let types = load::kernel_types(load::TIMERS)?;
        let processors = load::processors()?;
        let mut bpf = load::load(
            EbpfLoader::new()
                .map_max_entries("st_cpus", processors)
                .map_max_entries("st_backups", processors)
                .map_max_entries("orders", processors)
                .map_max_entries("footprints", processors),
            OBJECT,
        )?;
        let mut verified = vec![load::load_at(&mut bpf, load::INIT, "sys_enter", &types)?];
        let tracepoints = sources.iter().flat_map(|source| source.tracepoints().iter().copied());
        let mut loaded = vec![];
        for tracepoint in tracepoints {
            let one = load::load_at(&mut bpf, &at(tracepoint), tracepoint, &types);
            loaded.push((tracepoint, one.as_ref().map(drop).map_err(ToString::to_string)));
            verified.extend(one.ok());
        }
        if !sources.is_empty() && loaded.iter().all(|(_, how)| how.is_err()) {
            return Err(Error::NothingAttached);
        }
        Ok(Facility { bpf, loaded, verified, processors, runs: 0 })
    }

    /// The tracepoints that are trigger states, and why some are not.
    pub fn tracepoints(&self) -> impl Iterator<Item = (&'static str, Result<(), &str>)> {
        self.loaded.iter().map(|(name, how)| (*name, how.as_ref().copied().map_err(String::as_str)))
    }

    /// What the verifier did for each program.
    pub fn verified(&self) -> &[Verified] {
        &self.verified
    }

    /// Processors that may exist.
    pub fn processors(&self) -> u32 {
        self.processors
    }

    /// Attaches the programs, and lets these events go on until what is returned is dropped. Some milliseconds; an event is
    /// due a millisecond later. A processor that is offline, or that this process may not run on, has none.
    ///
    /// # Errors
    /// If the kernel does not let it.
    pub fn run(&mut self, events: &Events) -> Result<FacilityRun<'_>, Error> {
        let mut links = vec![];
        let loaded = self.loaded.iter().filter(|(_, how)| how.is_ok());
        for (tracepoint, _) in loaded {
            links.push(load::attach(&mut self.bpf, &at(tracepoint))?);
        }
        self.runs += 1;
        let run = self.runs;
        let chosen: Vec<u32> = (0..self.processors)
            .filter(|cpu| events.processors.as_ref().is_none_or(|chosen| chosen.contains(cpu)))
            .collect();
        // From here on what is dropped stops them.
        let mut running = FacilityRun { facility: self, links, chosen, before: vec![] };
        running.order(&orders(events, run))?;
        let starter = load::attach(&mut running.facility.bpf, load::INIT)?;
        running.begin_system_calls(run)?;
        // In the way of each system call; the links of the trigger states stay.
        drop(starter);
        running.before = (0..running.facility.processors)
            .map(|cpu| running.facility.stats(cpu))
            .collect::<Result<_, _>>()?;
        Ok(running)
    }

    /// What has been counted of a processor's events, in all runs.
    ///
    /// # Errors
    /// If the kernel does not hand it over.
    pub fn stats(&self, cpu: u32) -> Result<FacilityStats, Error> {
        let map = self.bpf.map("st_cpus").ok_or_else(|| Error::Map("st_cpus is missing".to_owned()))?;
        let cpus: Array<_, [u64; CPU]> = Array::try_from(map).map_err(load::map_error)?;
        let words = cpus.get(&cpu, 0).map_err(load::map_error)?;
        let [visits, nested, backups, rearms, late_sum_ns, late_max_ns, held, expired, ref fired @ ..] =
            words[STATS..STATS + 24]
        else {
            return Err(Error::Map("st_cpus is short".to_owned()));
        };
        let fired = std::array::from_fn(|source| fired[source]);
        Ok(FacilityStats { visits, nested, backups, rearms, late_sum_ns, late_max_ns, held, expired, fired })
    }

    /// The orders of a processor.
    fn orders(&self, cpu: u32) -> Result<[u64; ORDERS], Error> {
        let map = self.bpf.map("orders").ok_or_else(|| Error::Map("orders is missing".to_owned()))?;
        let orders: Array<_, [u64; ORDERS]> = Array::try_from(map).map_err(load::map_error)?;
        orders.get(&cpu, 0).map_err(load::map_error)
    }
}

/// Events that go on in the kernel, until it is dropped.
#[derive(Debug)]
pub struct FacilityRun<'a> {
    facility: &'a mut Facility,
    links: Vec<BtfTracePointLink>,
    chosen: Vec<u32>,
    before: Vec<FacilityStats>,
}

impl FacilityRun<'_> {
    /// What has been counted of a processor's events in this run.
    ///
    /// # Errors
    /// If the kernel does not hand it over.
    pub fn stats(&self, cpu: u32) -> Result<FacilityStats, Error> {
        let before = self.before.get(cpu as usize).copied().unwrap_or_default();
        Ok(self.facility.stats(cpu)?.since(&before))
    }

    /// Those of all processors together; the greatest lateness is left out, for it is that of all runs.
    ///
    /// # Errors
    /// If the kernel does not hand it over.
    pub fn fired(&self) -> Result<u64, Error> {
        (0..self.facility.processors).map(|cpu| Ok(self.stats(cpu)?.total())).sum()
    }

    fn order(&mut self, orders: &[u64; ORDERS]) -> Result<(), Error> {
        let map = self.facility.bpf.map_mut("orders");
        let map = map.ok_or_else(|| Error::Map("orders is missing".to_owned()))?;
        let mut of: Array<_, [u64; ORDERS]> = Array::try_from(map).map_err(load::map_error)?;
        self.chosen.iter().try_for_each(|&cpu| of.set(cpu, orders, 0)).map_err(load::map_error)
    }

    /// A processor begins a run when it next begins a system call: so begin one on each.
    fn begin_system_calls(&self, run: u64) -> Result<(), Error> {
        load::call_on_each(self.chosen.iter().copied(), |cpu| Ok(self.facility.orders(cpu)?[BEGUN] == run))
    }
}

impl Drop for FacilityRun<'_> {
    fn drop(&mut self) {
        // First: a handler that finds no run schedules nothing, and neither does the backup that may still be set.
        let _ = self.order(&[0; ORDERS]);
        self.links.clear();
    }
}

fn at(tracepoint: &str) -> String {
    format!("st_at_{tracepoint}")
}

fn orders(events: &Events, run: u64) -> [u64; ORDERS] {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let slack = events.slack.map_or(u64::MAX, nanos);
    [nanos(events.period), slack, run, u64::from(events.count), u64::from(events.touches), 0, 0, 0]
}
