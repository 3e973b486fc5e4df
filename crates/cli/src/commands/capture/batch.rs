//! Writing frames to the file: [`BatchWriter`], which gathers a batch and writes it at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_measure::interrupt::StopHandle;
use softtimers_measure::stats::Counter;

use super::pcapng::{self, Stamp, Statistics};
use super::sink::{Loss, Sink, Why};
use super::stats::{CaptureStats, DropCounts};
use crate::run::output::say;

/// The losses of each interface upstream of the writer, as of the last check.
pub(crate) type Before = Arc<Mutex<Vec<DropCounts>>>;

/// Whether all wanted frames are in the file.
pub(crate) type Complete = Arc<AtomicBool>;

/// Gathers frames and writes them.
#[derive(Debug)]
pub(crate) struct BatchWriter {
    sink: Sink,
    /// The blocks to write.
    blocks: Vec<u8>,
    /// The packets in them.
    waiting: Vec<Waiting>,
    /// The counts of each interface's packets.
    written: Vec<Passed>,
    counter: Counter<CaptureStats>,
    before: Before,
    /// The beginning, since 1970.
    begin: Duration,
    stop: StopHandle,
    /// Frames accepted for writing, and the most that are wanted.
    taken: u64,
    most: u64,
    /// Whether enough frames are written.
    complete: Complete,
    /// Why nothing can be written any more.
    broken: Option<Why>,
    /// Whether the user has been told that the disk is full.
    told: bool,
}

/// A packet to be written.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    arrived: Timestamp,
    bytes: u32,
    interface: u32,
}

impl Waiting {
    fn is_of_the_same(&self, other: &Waiting) -> bool {
        self.interface == other.interface
    }
}

/// Packets of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Passed {
    /// In a file.
    pub(crate) captured: u64,
    /// Lost at the file.
    pub(crate) lost: u64,
}

/// The result of writing.
#[derive(Debug)]
pub(crate) struct Written {
    /// The counter of frames, and of their delays.
    pub(crate) counter: Counter<CaptureStats>,
    /// The packets of each interface.
    pub(crate) passed: Vec<Passed>,
    /// The number of files, and how many of them were removed again.
    pub(crate) files: [u64; 2],
    /// Why it could not be written to the end.
    pub(crate) broken: Option<Why>,
}

impl BatchWriter {
    /// Creates a writer to this sink, whose file has begun. When it can no longer be written, `stop` ends the run.
    pub(crate) fn new(sink: Sink, before: Before, stop: StopHandle, counter: Counter<CaptureStats>) -> Self {
        let interfaces = before.lock().unwrap_or_else(PoisonError::into_inner).len();
        BatchWriter {
            sink,
            blocks: Vec::with_capacity(BATCH),
            waiting: Vec::new(),
            written: vec![Passed::default(); interfaces],
            counter,
            before,
            begin: since_1970(),
            stop,
            taken: 0,
            most: u64::MAX,
            complete: Complete::default(),
            broken: None,
            told: false,
        }
    }

    /// Returns the flag that says whether all wanted frames are in the file.
    pub(crate) fn complete(&self) -> Complete {
        Complete::clone(&self.complete)
    }

    /// Begins the file. Once `count` frames are in it, it ends the run and accepts no more.
    pub(crate) fn begin(&mut self, count: Option<u64>) {
        self.most = count.unwrap_or(u64::MAX);
        if let Err(loss) = self.sink.begin() {
            self.lose(loss, 0);
        }
    }

    /// Accepts a frame, which is in the file after the next [`flush`](BatchWriter::flush) at the latest.
    pub(crate) fn take(&mut self, stamp: &Stamp, arrived: Timestamp, bytes: &[u8]) {
        if self.taken >= self.most {
            return;
        }
        if self.broken.is_some() {
            self.passed(stamp.interface).lost += 1;
            return self.count_lost(1);
        }
        if self.blocks.len() + pcapng::packet_size(bytes.len()) > BATCH {
            self.flush();
        }
        pcapng::packet(&mut self.blocks, stamp, bytes);
        self.waiting.push(Waiting { arrived, bytes: bytes.len() as u32, interface: stamp.interface });
        self.taken += 1;
    }

    /// Writes the accepted frames.
    pub(crate) fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let Self { sink, blocks, before, begin, written, .. } = self;
        let outcome = sink.write(blocks, |ending| end(ending, before, *begin, written));
        let taken = self.waiting.len();
        let kept = outcome.as_ref().map_or_else(|loss| loss.kept, |()| taken).min(taken);
        self.count(kept);
        if let Err(loss) = outcome {
            self.lose(loss, taken - kept);
        }
        self.blocks.clear();
        self.waiting.clear();
        if self.taken >= self.most && self.broken.is_none() {
            self.complete.store(true, Ordering::Release);
            self.stop.end();
        }
    }

    /// Writes the accepted frames, and ends the file.
    pub(crate) fn finish(mut self) -> Written {
        self.flush();
        if !matches!(self.broken, Some(Why::Gone | Why::Stalled(_))) {
            // On a full disk there may be room for the ending: the batch that did not fit was longer.
            let mut ending = Vec::new();
            end(&mut ending, &self.before, self.begin, &self.written);
            if let Err(loss) = self.sink.finish(&ending)
                && self.broken.is_none()
            {
                self.lose(loss, 0);
            }
        }
        Written { counter: self.counter, passed: self.written, files: self.sink.files(), broken: self.broken }
    }

    fn passed(&mut self, interface: u32) -> &mut Passed {
        let place = interface as usize;
        if self.written.len() <= place {
            self.written.resize(place + 1, Passed::default());
        }
        &mut self.written[place]
    }

    /// Counts the first `kept` of the waiting frames as written now, and the others as lost.
    fn count(&mut self, kept: usize) {
        let now = Monotonic.now();
        let waiting = std::mem::take(&mut self.waiting);
        let (written, lost) = waiting.split_at(kept);
        for frames in written.chunk_by(Waiting::is_of_the_same) {
            self.passed(frames[0].interface).captured += frames.len() as u64;
        }
        for frames in lost.chunk_by(Waiting::is_of_the_same) {
            self.passed(frames[0].interface).lost += frames.len() as u64;
        }
        let bytes: u64 = written.iter().map(|waiting| u64::from(waiting.bytes)).sum();
        let stay = |waiting: &Waiting| now.as_nanos().saturating_sub(waiting.arrived.as_nanos());
        self.counter.count(|stats| {
            stats.counts.captured += written.len() as u64;
            stats.counts.bytes += bytes;
            stats.stay.record_all(written.iter().map(stay));
        });
        self.waiting = waiting;
    }

    fn count_lost(&mut self, frames: u64) {
        self.counter.count(|stats| stats.counts.dropped.output += frames);
    }

    fn lose(&mut self, loss: Loss, frames: usize) {
        self.count_lost(frames as u64);
        if let Why::Full(why) = &loss.why {
            // They are not in the file, so as many others are wanted.
            self.taken -= frames as u64;
            if !std::mem::replace(&mut self.told, true) {
                say(format_args!("{why}; frames are lost until there is room"));
            }
            return;
        }
        self.broken = Some(loss.why);
        self.stop.end();
    }
}

/// Writes the statistics of each interface in this run.
fn end(ending: &mut Vec<u8>, before: &Before, begin: Duration, written: &[Passed]) {
    let before = before.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for ((interface, passed), before) in (0..).zip(written).zip(before) {
        let dropped_behind = before.ring + before.queue + passed.lost;
        let statistics = Statistics {
            begin,
            end: since_1970(),
            received: passed.captured + dropped_behind,
            dropped: before.interface,
            dropped_behind,
            delivered: passed.captured,
        };
        pcapng::statistics(ending, interface, &statistics);
    }
}

/// Returns the time since 1970, like the kernel's timestamps of frames.
fn since_1970() -> Duration {
    let time = clock_gettime(ClockId::Realtime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The bytes written at once: some hundred long frames; far below the minimum size of a file.
const BATCH: usize = 256 << 10;
