//! The trigger-state meter: [`Probe`].

use aya::EbpfLoader;
use rustix::thread::{MembarrierCommand, membarrier};
use softtimers_core::Histogram;

use crate::load::{self, AttachedAll};
use crate::object::{self, Object, Verified};
use crate::samples::Sample;
use crate::{Error, Source, error};

/// The program, compiled from `c/probe.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../object/probe.bpf.o");

/// As in the program.
const BUCKETS: usize = 320;
const ROWS: usize = Source::ALL.len() + 1;
const ROW: usize = 5 + BUCKETS;
const STAMP: usize = 8;
const CHUNK: usize = 512;

/// Measures the intervals between trigger states of each CPU, by the source that ended them, until this is
/// dropped.
///
/// # Cost
/// While a probe runs, each trigger state costs the kernel about 0.1 µs more.
#[derive(Debug)]
pub struct Probe {
    object: Object,
    attached: AttachedAll,
    /// The index of each CPU among the measured ones, from 1; zero: not measured.
    places: Vec<u32>,
    chunks: u32,
}

/// The settings of a [`Probe`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbeConfig {
    /// Trigger states of these kinds.
    pub sources: Vec<Source>,
    /// The number of intervals stored individually, over all CPUs; later ones are only counted. 4 bytes each,
    /// at most 64 million.
    pub samples: u32,
    /// The CPUs; `None`: all.
    pub processors: Option<Vec<u32>>,
}

impl Default for ProbeConfig {
    /// All sources and CPUs, and the paper's two million samples.
    fn default() -> Self {
        ProbeConfig { sources: Source::ALL.to_vec(), samples: 2_000_000, processors: None }
    }
}

impl Probe {
    /// Loads and attaches the programs: some milliseconds.
    ///
    /// # Errors
    /// If the process lacks the privileges, or the kernel lacks support.
    pub fn start(config: &ProbeConfig) -> Result<Probe, Error> {
        let types = load::kernel_types(load::PROBE)?;
        let processors = object::processors()?;
        let mut measured = 0;
        let places: Vec<u32> = (0..processors)
            .map(|cpu| {
                let chosen = config.processors.as_ref().is_none_or(|chosen| chosen.contains(&cpu));
                measured += u32::from(chosen);
                if chosen { measured } else { 0 }
            })
            .collect();
        let samples = config.samples.min(64 << 20);
        let chunks = samples.div_ceil(CHUNK as u32).div_ceil(measured.max(1));
        let mut loader = EbpfLoader::new();
        loader
            .override_global("log_chunks", &chunks, true)
            .map_max_entries("rows", processors * ROWS as u32)
            .map_max_entries("kept", (measured * chunks).max(1));
        let mut object = Object::load(&mut loader, &["stamps"], OBJECT)?;
        let tracepoints = config.sources.iter().flat_map(|source| source.tracepoints().iter().copied());
        let attached = load::attach_all(&mut object, "on_", tracepoints, &types)?;
        let mut probe = Probe { object, attached, places, chunks };
        probe.restart()?;
        Ok(probe)
    }

    /// Clears counts and stored intervals. A CPU's time before its next trigger state is not counted. Takes
    /// some milliseconds: it waits for programs that are counting at this moment, also on a CPU stalled by
    /// the host.
    ///
    /// The wait is `MEMBARRIER_CMD_GLOBAL`, which is not available if CPUs are isolated by `nohz_full`. Then
    /// a program that is stalled for as long as the rows take to be zeroed, eleven system calls per CPU, may
    /// write back an old count.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn restart(&mut self) -> Result<(), Error> {
        let stamp = |&place: &u32| [0, 0, 0, u64::from(place), 0, 0, 0, 0];
        let stamps: Vec<[u64; STAMP]> = self.places.iter().map(stamp).collect();
        // In this order: without an index no program starts to count; after those that had started have ended
        // (they are read-side sections of RCU), nothing is written back into zeroed rows. Finally, a zero
        // stamp starts no interval.
        self.object.write("stamps", (0..).zip(stamps.iter().map(|_| [0u64; STAMP])))?;
        let _ = membarrier(MembarrierCommand::Global);
        self.object.write("rows", (0..self.processors() * ROWS as u32).map(|row| (row, [0u64; ROW])))?;
        self.object.write("stamps", (0..).zip(stamps))
    }

    /// Returns the requested tracepoints, and why some could not be attached.
    pub fn tracepoints(&self) -> impl Iterator<Item = (&'static str, Result<(), &str>)> {
        self.attached.tried.iter().map(|(name, how)| (*name, how.as_ref().copied().map_err(String::as_str)))
    }

    /// Returns the verifier's figures for each program.
    pub fn verified(&self) -> &[Verified] {
        &self.attached.verified
    }

    /// Returns the counts so far. Takes some microseconds for each source and CPU.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn intervals(&self) -> Result<Intervals, Error> {
        let rows = self.object.map::<[u64; ROW]>("rows")?;
        let processors = (0..self.processors())
            .map(|cpu| {
                let mut read = |row: usize| {
                    let row = rows.get(&(cpu * ROWS as u32 + row as u32), 0).map_err(error::map_error)?;
                    Ok::<_, Error>(Counted::from_row(&row))
                };
                let by_source = (0..Source::ALL.len()).map(&mut read).collect::<Result<_, _>>()?;
                Ok(ProcessorIntervals { cpu, by_source, idle: read(Source::ALL.len())? })
            })
            .collect::<Result<_, Error>>()?;
        Ok(Intervals { processors })
    }

    /// Returns whether this source is measured: at least one of its tracepoints is attached.
    pub fn has(&self, source: Source) -> bool {
        let of_it = |name: &str| source.tracepoints().contains(&name);
        self.attached.tried.iter().any(|(name, how)| how.is_ok() && of_it(name))
    }

    /// Returns the stored intervals of a CPU, in order.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn samples(&self, cpu: u32) -> Result<Vec<Sample>, Error> {
        let kept = self.object.map::<[u32; CHUNK]>("kept")?;
        let [_, count, _, place, ..]: [u64; STAMP] = self.object.value("stamps", cpu)?;
        let Some(first) = (place as u32).checked_sub(1).map(|place| place * self.chunks) else {
            return Ok(vec![]);
        };
        let count = count as usize;
        let mut samples = Vec::with_capacity(count);
        for chunk in 0..(count.div_ceil(CHUNK) as u32).min(self.chunks) {
            let chunk = kept.get(&(first + chunk), 0).map_err(error::map_error)?;
            let left = count - samples.len();
            samples.extend(chunk.iter().take(left).map(|&word| Sample::from_word(word)));
        }
        Ok(samples)
    }

    /// Returns the number of possible CPUs.
    pub fn processors(&self) -> u32 {
        self.places.len() as u32
    }
}

/// Counts of intervals.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// The number of intervals.
    pub count: u64,
    /// Their sum in nanoseconds.
    pub sum_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
    /// The number of intervals longer than 100 µs.
    pub over_100us: u64,
    /// The number of intervals longer than 150 µs.
    pub over_150us: u64,
    buckets: Vec<u64>,
}

impl Counted {
    fn from_row(row: &[u64; ROW]) -> Counted {
        let [count, sum_ns, max_ns, over_100us, over_150us, ref buckets @ ..] = *row;
        Counted { count, sum_ns, max_ns, over_100us, over_150us, buckets: buckets.to_vec() }
    }

    /// Adds those of `other`.
    pub fn add(&mut self, other: &Counted) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.over_100us += other.over_100us;
        self.over_150us += other.over_150us;
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), 0);
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// Returns the counts since `before`; the longest is that of all time.
    #[must_use]
    pub fn since(&self, before: &Counted) -> Counted {
        let then = |at: usize| before.buckets.get(at).copied().unwrap_or(0);
        Counted {
            count: self.count.saturating_sub(before.count),
            sum_ns: self.sum_ns.saturating_sub(before.sum_ns),
            max_ns: self.max_ns,
            over_100us: self.over_100us.saturating_sub(before.over_100us),
            over_150us: self.over_150us.saturating_sub(before.over_150us),
            buckets: self.buckets.iter().enumerate().map(|(at, now)| now.saturating_sub(then(at))).collect(),
        }
    }

    /// Returns the exact mean in nanoseconds; `None` without intervals.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// Returns the standard deviation in nanoseconds, from lengths known to within an eighth; `None` without
    /// intervals.
    pub fn stddev_ns(&self) -> Option<f64> {
        let mean = self.mean_ns()?;
        let lengths = (0..).map(|bucket| middle(bucket) as f64).zip(&self.buckets);
        let squares: f64 = lengths.map(|(length, &count)| (length - mean).powi(2) * count as f64).sum();
        Some((squares / self.count as f64).sqrt())
    }

    /// Returns the distribution: each length is known to within an eighth.
    pub fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::new();
        for (bucket, &count) in self.buckets.iter().enumerate() {
            histogram.record_many(middle(bucket), count);
        }
        histogram
    }
}

/// The middle of a bucket: below eight each value has its own bucket, above that there are eight buckets in
/// each octave.
fn middle(bucket: usize) -> u64 {
    if bucket < 8 {
        return bucket as u64;
    }
    let (octave, part) = ((bucket >> 3) + 2, (bucket & 7) as u64);
    let width = 1u64 << (octave - 3);
    (1 << octave) + part * width + width / 2
}

/// The intervals of one CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessorIntervals {
    /// The number of the CPU.
    pub cpu: u32,
    /// By the source that ended them, in the order of [`Source::ALL`].
    by_source: Vec<Counted>,
    /// Intervals that began when the CPU became idle: long because there was no work.
    pub idle: Counted,
}

impl ProcessorIntervals {
    /// Intervals that this source ended.
    pub fn ended_by(&self, source: Source) -> &Counted {
        &self.by_source[source as usize]
    }

    /// Returns all except the idle ones.
    pub fn busy(&self) -> Counted {
        let mut all = Counted::default();
        self.by_source.iter().for_each(|counted| all.add(counted));
        all
    }

    /// Adds later counts of this CPU.
    pub fn add(&mut self, next: &ProcessorIntervals) {
        self.by_source.iter_mut().zip(&next.by_source).for_each(|(mine, theirs)| mine.add(theirs));
        self.idle.add(&next.idle);
    }

    /// Returns the counts since `before`.
    #[must_use]
    pub fn since(&self, before: &ProcessorIntervals) -> ProcessorIntervals {
        let by_source = self.by_source.iter().zip(&before.by_source);
        ProcessorIntervals {
            cpu: self.cpu,
            by_source: by_source.map(|(now, then)| now.since(then)).collect(),
            idle: self.idle.since(&before.idle),
        }
    }
}

/// The intervals of all CPUs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Intervals {
    /// The intervals of each CPU that may exist.
    pub processors: Vec<ProcessorIntervals>,
}

impl Intervals {
    /// Returns the counts since `before`, and all if that is empty.
    #[must_use]
    pub fn since(&self, before: &Intervals) -> Intervals {
        if before.processors.is_empty() {
            return self.clone();
        }
        let both = self.processors.iter().zip(&before.processors);
        Intervals { processors: both.map(|(now, then)| now.since(then)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bucket of a value, as `bucket_of` in the program.
    fn bucket(value: u64) -> usize {
        if value < 8 {
            return value as usize;
        }
        let log = value.ilog2() as usize;
        ((log - 2) << 3) + ((value >> (log - 3)) & 7) as usize
    }

    #[test]
    fn a_middle_lies_in_its_bucket() {
        for at in 0..BUCKETS {
            assert_eq!(bucket(middle(at)), at);
        }
        assert!(middle(BUCKETS - 1) > 1 << 40);
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_lengths() {
        let mut row = [0u64; ROW];
        (row[0], row[1], row[2]) = (2, 10_000, 9_000);
        (row[5 + bucket(1_000)], row[5 + bucket(9_000)]) = (1, 1);
        let counted = Counted::from_row(&row);
        assert_eq!(counted.mean_ns(), Some(5_000.0));
        assert!((counted.stddev_ns().unwrap() - 4_000.0).abs() < 500.0, "{:?}", counted.stddev_ns());
        assert_eq!((Counted::default().mean_ns(), Counted::default().stddev_ns()), (None, None));
    }
}
