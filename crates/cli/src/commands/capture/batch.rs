//! From a frame to the file: [`BatchWriter`], which gathers a batch and writes it at once.

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

/// The losses before frames came to the writer, as of the last check.
pub(crate) type Before = Arc<Mutex<DropCounts>>;

/// Whether all frames that were wanted are in the file.
pub(crate) type Complete = Arc<AtomicBool>;

/// Gathers frames and writes them.
#[derive(Debug)]
pub(crate) struct BatchWriter {
    sink: Sink,
    /// Blocks that are to be written.
    blocks: Vec<u8>,
    /// The time of arrival of each packet in them, and its length.
    waiting: Vec<(Timestamp, u32)>,
    counter: Counter<CaptureStats>,
    before: Before,
    /// The beginning, since 1970.
    begin: Duration,
    stop: StopHandle,
    /// Frames that were taken to be written, and the most that are wanted.
    taken: u64,
    most: u64,
    /// So many are written.
    complete: Complete,
    /// The reason for which nothing can be written any more.
    broken: Option<Why>,
}

/// The result of writing.
#[derive(Debug)]
pub(crate) struct Written {
    /// The counter of frames, and of their delays.
    pub(crate) counter: Counter<CaptureStats>,
    /// The number of files.
    pub(crate) files: u64,
    /// The reason for which it could not be written to the end.
    pub(crate) broken: Option<Why>,
}

impl BatchWriter {
    /// To this sink, which was begun. When it cannot be written any more, `stop` ends the run.
    pub(crate) fn new(sink: Sink, before: Before, stop: StopHandle, counter: Counter<CaptureStats>) -> Self {
        BatchWriter {
            sink,
            blocks: Vec::with_capacity(BATCH),
            waiting: Vec::new(),
            counter,
            before,
            begin: since_1970(),
            stop,
            taken: 0,
            most: u64::MAX,
            complete: Complete::default(),
            broken: None,
        }
    }

    /// Returns the flag that says whether all wanted frames are in the file.
    pub(crate) fn complete(&self) -> Complete {
        Complete::clone(&self.complete)
    }

    /// Begins the file. When so many frames are in it, it ends the run, and takes no others.
    pub(crate) fn begin(&mut self, count: Option<u64>) {
        self.most = count.unwrap_or(u64::MAX);
        if let Err(loss) = self.sink.begin() {
            self.lose(loss, 0);
        }
    }

    /// Takes a frame, which is in the file after the next [`flush`](BatchWriter::flush) at the latest.
    pub(crate) fn take(&mut self, stamp: &Stamp, arrived: Timestamp, bytes: &[u8]) {
        if self.taken >= self.most {
            return;
        }
        if self.broken.is_some() {
            return self.count_lost(1);
        }
        if self.blocks.len() + pcapng::packet_size(bytes.len()) > BATCH {
            self.flush();
        }
        pcapng::packet(&mut self.blocks, stamp, bytes);
        self.waiting.push((arrived, bytes.len() as u32));
        self.taken += 1;
    }

    /// Writes what was taken.
    pub(crate) fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let Self { sink, blocks, before, begin, counter, .. } = self;
        let written = sink.write(blocks, |ending| end(ending, before, *begin, counter));
        let taken = self.waiting.len();
        let kept = written.as_ref().map_or_else(|loss| loss.kept, |()| taken);
        self.count(kept);
        if let Err(loss) = written {
            self.lose(loss, taken - kept.min(taken));
        }
        self.blocks.clear();
        self.waiting.clear();
        if self.taken >= self.most && self.broken.is_none() {
            self.complete.store(true, Ordering::Release);
            self.stop.end();
        }
    }

    /// Writes what was taken, and ends the file.
    pub(crate) fn finish(mut self) -> Written {
        self.flush();
        if !matches!(self.broken, Some(Why::Gone | Why::Stalled(_))) {
            // On a full disk there may be room for it: the batch that did not fit was longer.
            let mut ending = Vec::new();
            end(&mut ending, &self.before, self.begin, &self.counter);
            if let Err(loss) = self.sink.finish(&ending)
                && self.broken.is_none()
            {
                self.lose(loss, 0);
            }
        }
        Written { counter: self.counter, files: self.sink.files(), broken: self.broken }
    }

    /// Counts the first `kept` of those that wait as written now.
    fn count(&mut self, kept: usize) {
        let now = Monotonic.now();
        let Self { waiting, counter, .. } = self;
        let written = &waiting[..kept.min(waiting.len())];
        let bytes: u64 = written.iter().map(|&(_, bytes)| u64::from(bytes)).sum();
        counter.count(|stats| {
            stats.counts.captured += written.len() as u64;
            stats.counts.bytes += bytes;
            for (arrived, _) in written {
                stats.stay.record_duration(now.saturating_duration_since(*arrived));
            }
        });
    }

    fn count_lost(&mut self, frames: u64) {
        self.counter.count(|stats| stats.counts.dropped.output += frames);
    }

    fn lose(&mut self, loss: Loss, frames: usize) {
        self.count_lost(frames as u64);
        self.broken = Some(loss.why);
        self.stop.end();
    }
}

/// Writes the statistics of the interface and of this run.
fn end(ending: &mut Vec<u8>, before: &Before, begin: Duration, counter: &Counter<CaptureStats>) {
    let before = *before.lock().unwrap_or_else(PoisonError::into_inner);
    let counts = counter.total().counts;
    let dropped_behind = before.ring + before.queue + counts.dropped.output;
    let statistics = Statistics {
        begin,
        end: since_1970(),
        received: counts.captured + dropped_behind,
        dropped: before.interface,
        dropped_behind,
        delivered: counts.captured,
    };
    pcapng::statistics(ending, &statistics);
}

/// As the kernel's times of frames.
fn since_1970() -> Duration {
    let time = clock_gettime(ClockId::Realtime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The bytes that are written at once: some hundred long frames; far below the least that a file may have.
const BATCH: usize = 256 << 10;
