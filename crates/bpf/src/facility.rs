//! Soft timers in the kernel, as the paper measured them: [`Facility`].
//!
//! The events are those of the experiments: they do nothing, or touch fifty cache lines, and schedule
//! themselves again. For events of your own, include `softtimer.bpf.h` in your program.
//!
//! ```text
//!   load: the verifier, most of a second ──▶ run ──▶ stats ──▶ drop ──▶ run ──▶ …
//!                                            attached, events go on     detached, none is scheduled any more
//! ```

use aya::EbpfLoader;
use aya::programs::tp_btf::BtfTracePointLink;

use crate::load::{self, Attached};
use crate::object::{Object, Verified};
use crate::orders::{Events, Orders};
use crate::{Error, Source};

/// The program, compiled from `c/softtimer.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../object/softtimer.bpf.o");

/// `struct st_cpu` in words, and the start of its counters.
const CPU: usize = 552;
const STATS: usize = 13;

/// The verified programs of soft timers in the kernel, loaded until this is dropped.
#[derive(Debug)]
pub struct Facility {
    object: Object,
    loaded: Vec<Attached>,
    verified: Vec<Verified>,
    runs: u64,
}

/// Counters of a CPU's events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FacilityStats {
    /// How often the gate was open.
    pub visits: u64,
    /// How often the gate was open but the wheel was in use: a trigger state inside another.
    pub nested: u64,
    /// How often the backup fired.
    pub backups: u64,
    /// How often the backup was set.
    pub rearms: u64,
    /// The sum of the lateness of all events, in nanoseconds.
    pub late_sum_ns: u64,
    /// The greatest lateness, in nanoseconds.
    pub late_max_ns: u64,
    /// Due events at trigger states where they were not allowed to fire.
    pub held: u64,
    /// Events that fired at their deadline or later, from any source: the backup's interrupt is itself a
    /// trigger state, and often runs before the backup's own function.
    pub expired: u64,
    /// Events that fired, by the number of the source; 15 is the backup.
    pub fired: [u64; 16],
}

impl FacilityStats {
    /// Returns the number of fired events, over all sources.
    pub fn total(&self) -> u64 {
        self.fired.iter().sum()
    }

    /// Returns the number of events fired by the backup. This includes events that it found due when it fired
    /// for an event that had already fired, because it is not reset each time.
    pub fn by_backup(&self) -> u64 {
        self.fired[15]
    }

    /// Returns the counts since `before`; the greatest lateness is that of all. The kernel counts without
    /// locks, so a count may miss concurrent increments; a count lower than before gives zero.
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
    /// Loads the programs for these trigger states; with none, only the backup fires. (An ordinary
    /// `bpf_timer` is [`Timers`](crate::Timers).) The kernel's verifier takes most of a second for all of
    /// them; nothing runs yet.
    ///
    /// # Errors
    /// If the process may not, or the kernel cannot.
    pub fn load(sources: &[Source]) -> Result<Facility, Error> {
        let types = load::kernel_types(load::TIMERS)?;
        let maps = ["st_cpus", "st_backups", "orders", "footprints"];
        let mut object = Object::load(&mut EbpfLoader::new(), &maps, OBJECT)?;
        let mut verified = vec![object.load_at(load::INIT, "sys_enter", &types)?];
        let tracepoints = sources.iter().flat_map(|source| source.tracepoints().iter().copied());
        let mut loaded = vec![];
        for tracepoint in tracepoints {
            let one = object.load_at(&at(tracepoint), tracepoint, &types);
            loaded.push((tracepoint, one.as_ref().map(drop).map_err(ToString::to_string)));
            verified.extend(one.ok());
        }
        if !sources.is_empty() && loaded.iter().all(|(_, how)| how.is_err()) {
            return Err(Error::NothingAttached);
        }
        Ok(Facility { object, loaded, verified, runs: 0 })
    }

    /// Returns the tracepoints used as trigger states, and why some could not be attached.
    pub fn tracepoints(&self) -> impl Iterator<Item = (&'static str, Result<(), &str>)> {
        self.loaded.iter().map(|(name, how)| (*name, how.as_ref().copied().map_err(String::as_str)))
    }

    /// Returns the verifier's figures for each program.
    pub fn verified(&self) -> &[Verified] {
        &self.verified
    }

    /// Returns the number of possible CPUs.
    pub fn processors(&self) -> u32 {
        self.object.processors()
    }

    /// Attaches the programs, and runs these events until the returned value is dropped. Takes some
    /// milliseconds; an event is first due a millisecond later. A CPU that is offline, or on which this
    /// process may not run, has no events.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn run(&mut self, events: &Events) -> Result<FacilityRun<'_>, Error> {
        let mut links = vec![];
        let loaded = self.loaded.iter().filter(|(_, how)| how.is_ok());
        for (tracepoint, _) in loaded {
            links.push(self.object.attach(&at(tracepoint))?);
        }
        self.runs += 1;
        let orders = Orders::new(events, self.runs, &self.object);
        // From here on, dropping this stops them.
        let mut running = FacilityRun { facility: self, links, orders, before: vec![] };
        running.orders.begin(&mut running.facility.object)?;
        running.before = (0..running.facility.processors())
            .map(|cpu| running.facility.stats(cpu))
            .collect::<Result<_, _>>()?;
        Ok(running)
    }

    /// Returns the counters of a CPU's events, in all runs.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn stats(&self, cpu: u32) -> Result<FacilityStats, Error> {
        let words: [u64; CPU] = self.object.value("st_cpus", cpu)?;
        let [visits, nested, backups, rearms, late_sum_ns, late_max_ns, held, expired, ref fired @ ..] =
            words[STATS..STATS + 24]
        else {
            return Err(Error::Map("st_cpus is short".to_owned()));
        };
        let fired = std::array::from_fn(|source| fired[source]);
        Ok(FacilityStats { visits, nested, backups, rearms, late_sum_ns, late_max_ns, held, expired, fired })
    }
}

/// Events that run in the kernel until this is dropped.
#[derive(Debug)]
pub struct FacilityRun<'a> {
    facility: &'a mut Facility,
    links: Vec<BtfTracePointLink>,
    orders: Orders,
    before: Vec<FacilityStats>,
}

impl FacilityRun<'_> {
    /// Returns the counters of a CPU's events in this run.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn stats(&self, cpu: u32) -> Result<FacilityStats, Error> {
        let before = self.before.get(cpu as usize).copied().unwrap_or_default();
        Ok(self.facility.stats(cpu)?.since(&before))
    }

    /// Returns the events fired over all CPUs. The greatest lateness is omitted because it covers all runs.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn fired(&self) -> Result<u64, Error> {
        (0..self.facility.processors()).map(|cpu| Ok(self.stats(cpu)?.total())).sum()
    }
}

impl Drop for FacilityRun<'_> {
    fn drop(&mut self) {
        // First, so that a backup that may still be set finds no run either.
        self.orders.end(&mut self.facility.object);
        self.links.clear();
    }
}

fn at(tracepoint: &str) -> String {
    format!("st_at_{tracepoint}")
}
