//! From a frame to the file: [`Outlet`], which gathers a batch and writes it at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_measure::interrupt::Ender;

use super::pcapng::{self, Stamp, Statistics};
use super::report::{DropCounts, Second};
use super::sink::{Loss, Sink, Why};
use crate::stream::Counter;

/// What was lost before frames came to the outlet, as it was asked last.
pub type Before = Arc<Mutex<DropCounts>>;

/// Whether all that were wanted are in the file.
pub type Complete = Arc<AtomicBool>;

/// Gathers frames and writes them.
#[derive(Debug)]
pub struct Outlet {
    sink: Sink,
    /// Blocks that are to be written.
    blocks: Vec<u8>,
    /// Of their packets, when each arrived, and how much of it there is.
    waiting: Vec<(Timestamp, u32)>,
    total: Second,
    counter: Option<Counter<Second>>,
    before: Before,
    /// Since 1970.
    begin: Duration,
    ender: Ender,
    /// Frames that were taken to be written, and the most that are wanted.
    taken: u64,
    most: u64,
    /// So many are written.
    complete: Complete,
    /// Whether nothing can be written any more, and why.
    broken: Option<Why>,
}

/// What has come of it.
#[derive(Debug)]
pub struct Written {
    /// Frames, and their delays.
    pub total: Second,
    /// Files.
    pub files: u64,
    /// Whether it could not be written to the end, and why.
    pub broken: Option<Why>,
}

impl Outlet {
    /// To this sink, which was begun. When it cannot be written any more, `ender` ends the run.
    pub fn new(sink: Sink, before: Before, ender: Ender, counter: Option<Counter<Second>>) -> Self {
        Outlet {
            sink,
            blocks: Vec::with_capacity(BATCH),
            waiting: Vec::new(),
            total: Second::default(),
            counter,
            before,
            begin: since_1970(),
            ender,
            taken: 0,
            most: u64::MAX,
            complete: Complete::default(),
            broken: None,
        }
    }

    /// What tells that so many are in the file.
    pub fn complete(&self) -> Complete {
        Complete::clone(&self.complete)
    }

    /// Begins the file. When so many frames are in it, it ends the run, and takes no others.
    pub fn begin(&mut self, count: Option<u64>) {
        self.most = count.unwrap_or(u64::MAX);
        if let Err(loss) = self.sink.begin() {
            self.lose(loss, 0);
        }
    }

    /// Takes a frame, which is in the file after the next [`flush`](Outlet::flush) at the latest.
    pub fn take(&mut self, stamp: &Stamp, arrived: Timestamp, bytes: &[u8]) {
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
    pub fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let Self { sink, blocks, before, begin, total, .. } = self;
        let written = sink.write(blocks, |ending| end(ending, before, *begin, total));
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
            self.ender.end();
        }
    }

    /// Writes what was taken, and ends the file.
    pub fn finish(mut self) -> Written {
        self.flush();
        if !matches!(self.broken, Some(Why::Gone | Why::Stalled(_))) {
            // On a full disk there may be room for it: the batch that did not fit was longer.
            let mut ending = Vec::new();
            end(&mut ending, &self.before, self.begin, &self.total);
            if let Err(loss) = self.sink.finish(&ending)
                && self.broken.is_none()
            {
                self.lose(loss, 0);
            }
        }
        Written { total: self.total, files: self.sink.files(), broken: self.broken }
    }

    /// Counts the first `kept` of those that wait as written now.
    fn count(&mut self, kept: usize) {
        let now = Monotonic.now();
        let Self { waiting, total, counter, .. } = self;
        let written = &waiting[..kept.min(waiting.len())];
        let bytes: u64 = written.iter().map(|&(_, bytes)| u64::from(bytes)).sum();
        let add = |second: &mut Second| {
            second.counts.captured += written.len() as u64;
            second.counts.bytes += bytes;
            for (arrived, _) in written {
                let delay = now.saturating_duration_since(*arrived);
                second.stay.record(delay.as_nanos() as u64);
            }
        };
        add(total);
        counter.iter().for_each(|counter| counter.count(add));
    }

    fn count_lost(&mut self, frames: u64) {
        self.total.counts.dropped.output += frames;
        self.counter
            .iter()
            .for_each(|counter| counter.count(|second| second.counts.dropped.output += frames));
    }

    fn lose(&mut self, loss: Loss, frames: usize) {
        self.count_lost(frames as u64);
        self.broken = Some(loss.why);
        self.ender.end();
    }
}

/// What the interface and we have done so far.
fn end(ending: &mut Vec<u8>, before: &Before, begin: Duration, total: &Second) {
    let before = *before.lock().unwrap_or_else(PoisonError::into_inner);
    let counts = total.counts;
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

/// What is written at once: some hundred long frames; far below what a file may be at the least.
const BATCH: usize = 256 << 10;
