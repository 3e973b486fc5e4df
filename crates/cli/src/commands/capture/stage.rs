//! The writer: the loop itself, or a thread behind a bounded queue. [`Stage`].
//!
//! ```text
//!   to completion    ring ─▶ loop ─▶ batch ─▶ file             excess frames stay in the ring
//!
//!   --queue 32       ring ─▶ loop ─▶ queue ─▶ thread ─▶ batch ─▶ file
//!                      ▲               └ room for fewer than a quarter: shut for 1 ms (livelock §9)
//!                      └───────────────────┘
//! ```
//!
//! The queue is the paper's: its monitor was a program behind the kernel's packet filter. The ring does the same at
//! less cost, since it is larger and its drops cost nothing; the queue is there to show that.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use softtimers::Timestamp;
use softtimers_measure::failure::Failure;
use softtimers_net::poller::Gauge;
use softtimers_poll::FeedbackConfig;

use super::batch::{BatchWriter, Complete, Written};
use super::pcapng::Stamp;

/// The stage that the loop's frames go to.
#[derive(Debug)]
pub(crate) struct Stage {
    way: Way,
    complete: Complete,
}

#[derive(Debug)]
enum Way {
    /// Frames are written at once, in this thread.
    Here(Box<BatchWriter>),
    /// Frames go to a thread through a queue.
    Beside(Queue),
}

/// A thread that writes, and the queue before it.
#[derive(Debug)]
struct Queue {
    frames: SyncSender<Frame>,
    gauge: Gauge,
    capacity: u32,
    writer: JoinHandle<Written>,
    /// Dropped frames by interface.
    dropped: Vec<u64>,
}

/// A frame in the queue.
#[derive(Debug)]
struct Frame {
    stamp: Stamp,
    arrived: Timestamp,
    bytes: Box<[u8]>,
}

impl Stage {
    /// Creates a writer behind a queue of `capacity` frames, or without one.
    ///
    /// # Errors
    /// A check failure if the system has no descriptor or no thread left.
    pub(crate) fn new(writer: BatchWriter, capacity: Option<u32>) -> Result<Self, Failure> {
        let complete = writer.complete();
        let Some(capacity) = capacity else {
            return Ok(Stage { way: Way::Here(Box::new(writer)), complete });
        };
        let gauge = Gauge::new().map_err(|error| Failure::broke_off("making a queue", &error))?;
        let (frames, taken) = sync_channel(capacity as usize);
        let behind = gauge.clone();
        let writer =
            thread::Builder::new().name("writer".to_owned()).spawn(move || write(writer, &taken, &behind));
        let writer = writer.map_err(|error| Failure::broke_off("starting the thread that writes", &error))?;
        let way = Way::Beside(Queue { frames, gauge, capacity, writer, dropped: Vec::new() });
        Ok(Stage { way, complete })
    }

    /// Returns the queue's gauge, and when it shuts the input.
    pub(crate) fn feedback(&self) -> Option<(&Gauge, FeedbackConfig)> {
        let Way::Beside(queue) = &self.way else { return None };
        let config = FeedbackConfig::monitor(queue.capacity, queue.capacity / 4).ok()?;
        Some((&queue.gauge, config))
    }

    /// Says whether all wanted frames are in the file.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    /// Accepts a frame, unless that is so.
    pub(crate) fn take(&mut self, stamp: &Stamp, arrived: Timestamp, bytes: &[u8]) {
        if self.is_complete() {
            return;
        }
        match &mut self.way {
            Way::Here(writer) => writer.take(stamp, arrived, bytes),
            Way::Beside(queue) => queue.offer(stamp, arrived, bytes),
        }
    }

    /// Called when the loop has no more frames for now.
    pub(crate) fn flush(&mut self) {
        if let Way::Here(writer) = &mut self.way {
            writer.flush();
        }
    }

    /// The number of frames of an interface dropped before the queue so far.
    pub(crate) fn dropped(&self, interface: usize) -> u64 {
        match &self.way {
            Way::Here(_) => 0,
            Way::Beside(queue) => queue.dropped.get(interface).copied().unwrap_or(0),
        }
    }

    /// Ends the file, and returns the result.
    ///
    /// # Errors
    /// A check failure if the thread panicked.
    pub(crate) fn finish(self) -> Result<Written, Failure> {
        match self.way {
            Way::Here(writer) => Ok(writer.finish()),
            Way::Beside(Queue { frames, writer, .. }) => {
                drop(frames);
                writer.join().map_err(|_| Failure::check("the thread that writes the file panicked"))
            }
        }
    }
}

impl Queue {
    fn offer(&mut self, stamp: &Stamp, arrived: Timestamp, bytes: &[u8]) {
        if self.gauge.depth() >= self.capacity {
            return self.refuse(stamp.interface);
        }
        // Before the writer can take it out.
        self.gauge.put(1);
        let frame = Frame { stamp: *stamp, arrived, bytes: bytes.into() };
        match self.frames.try_send(frame) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.gauge.took(1);
                self.refuse(stamp.interface);
            }
        }
    }

    fn refuse(&mut self, interface: u32) {
        self.gauge.refused();
        let place = interface as usize;
        if self.dropped.len() <= place {
            self.dropped.resize(place + 1, 0);
        }
        self.dropped[place] += 1;
    }
}

/// Writes the queued frames, and then waits for more.
fn write(mut writer: BatchWriter, frames: &Receiver<Frame>, gauge: &Gauge) -> Written {
    while let Ok(first) = frames.recv() {
        for Frame { stamp, arrived, bytes } in std::iter::once(first).chain(frames.try_iter()) {
            gauge.took(1);
            writer.take(&stamp, arrived, &bytes);
        }
        writer.flush();
    }
    writer.finish()
}
