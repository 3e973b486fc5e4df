//! Soft timers in the kernel, as the paper measured them: [`Facility`].
//!
//! The events are those of the experiments: they do nothing, or touch fifty cache lines, and schedule themselves again.
//! Programs that have something to do at such times include `softtimer.bpf.h` themselves.

use std::thread;
use std::time::Duration;

use aya::maps::Array;
use aya::{Ebpf, EbpfLoader};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::load::{self, Attached};
use crate::{Error, Source};

/// The program, compiled from `c/softtimer.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../object/softtimer.bpf.o");

/// `struct st_cpu` in words, and where its counters begin.
const CPU: usize = 552;
const STATS: usize = 13;

/// Events that fire at the kernel's trigger states, on chosen processors, until it is dropped.
#[derive(Debug)]
pub struct Facility {
    bpf: Ebpf,
    attached: Vec<Attached>,
    processors: u32,
}

/// What a [`Facility`] does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FacilityConfig {
    /// An event is due so long after it fired last; zero: at every trigger state.
    pub period: Duration,
    /// The backup fires an event so long after it was due; `None`: it waits for a trigger state.
    pub slack: Option<Duration>,
    /// Events of each processor, at most 63; zero: only the gate.
    pub events: u32,
    /// Which processors have them, by bit.
    pub processors: u64,
    /// Whether a handler touches fifty cache lines, of four pages in turn.
    pub touches: bool,
    /// The trigger states; with none and a slack, the backup fires all events, as an ordinary `bpf_timer` would.
    pub sources: Vec<Source>,
}

impl Default for FacilityConfig {
    /// One event of 100 µs on each processor, within 1 ms, at three cheap kinds of trigger state.
    fn default() -> Self {
        FacilityConfig {
            period: Duration::from_micros(100),
            slack: Some(Duration::from_millis(1)),
            events: 1,
            processors: u64::MAX,
            touches: false,
            sources: vec![Source::SoftInterrupt, Source::Timer, Source::Switch],
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
    /// Events that fired, by the number of the source; 15 is the backup.
    pub fired: [u64; 16],
}

impl FacilityStats {
    /// All that fired.
    pub fn total(&self) -> u64 {
        self.fired.iter().sum()
    }

    /// Those that the backup fired.
    pub fn by_backup(&self) -> u64 {
        self.fired[15]
    }
}

impl Facility {
    /// Loads and attaches the programs, and sets the processors up. Most of a second, of the kernel's verifier.
    ///
    /// # Errors
    /// If the process may not, or the kernel cannot.
    pub fn start(config: &FacilityConfig) -> Result<Facility, Error> {
        let types = load::kernel_types()?;
        let processors = load::processors()?;
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let mut bpf = load::load(
            EbpfLoader::new()
                .override_global("period", &nanos(config.period), true)
                .override_global("slack", &config.slack.map_or(u64::MAX, nanos), true)
                .override_global("events", &config.events, true)
                .override_global("processors", &config.processors, true)
                .override_global("touches", &u32::from(config.touches), true)
                .map_max_entries("st_cpus", processors)
                .map_max_entries("st_backups", processors)
                .map_max_entries("footprints", processors),
            OBJECT,
        )?;
        let tracepoints = config.sources.iter().flat_map(|source| source.tracepoints().iter().copied());
        // Without sources the backup alone fires: an ordinary bpf_timer.
        let attached = if config.sources.is_empty() && config.slack.is_some() {
            vec![]
        } else {
            load::attach_all(&mut bpf, "st_at_", tracepoints, &types)?
        };
        load::attach(&mut bpf, "st_init_cpu", "sys_enter", &types)?;
        let facility = Facility { bpf, attached, processors };
        facility.begin_system_calls(config.processors);
        Ok(facility)
    }

    /// The tracepoints that were to be attached to, and why some were not.
    pub fn tracepoints(&self) -> impl Iterator<Item = (&'static str, Result<(), &str>)> {
        self.attached.iter().map(|(name, how)| (*name, how.as_ref().copied().map_err(String::as_str)))
    }

    /// What has been counted of a processor's events so far.
    ///
    /// # Errors
    /// If the kernel does not hand it over.
    pub fn stats(&self, cpu: u32) -> Result<FacilityStats, Error> {
        let map = self.bpf.map("st_cpus").ok_or_else(|| Error::Map("st_cpus is missing".to_owned()))?;
        let cpus: Array<_, [u64; CPU]> = Array::try_from(map).map_err(load::map_error)?;
        let words = cpus.get(&cpu, 0).map_err(load::map_error)?;
        let [visits, nested, backups, rearms, late_sum_ns, late_max_ns, held, ref fired @ ..] =
            words[STATS..STATS + 23]
        else {
            return Err(Error::Map("st_cpus is short".to_owned()));
        };
        let fired = std::array::from_fn(|source| fired[source]);
        Ok(FacilityStats { visits, nested, backups, rearms, late_sum_ns, late_max_ns, held, fired })
    }

    /// Processors that may exist.
    pub fn processors(&self) -> u32 {
        self.processors
    }

    /// A processor is set up when it next begins a system call: so begin one on each. One that is offline stays as it is.
    fn begin_system_calls(&self, which: u64) {
        thread::scope(|scope| {
            scope.spawn(|| {
                for cpu in (0..self.processors).filter(|&cpu| cpu < 64 && which >> cpu & 1 == 1) {
                    let mut there = CpuSet::new();
                    there.set(cpu as usize);
                    if sched_setaffinity(None, &there).is_ok() {
                        thread::yield_now();
                    }
                }
            });
        });
    }
}
