//! `--json-stream`: a line of JSON a second, from a run that waits for no reader.
//!
//! Making a line takes a millisecond, and a reader may take as long as it likes. So a thread of its own does
//! both, and the run only counts: into an account that the thread takes away each second, leaving a cleared
//! one. What the two share is a pointer, and a lock that is held while it is exchanged or something is counted.
//!
//! ```text
//!   the run      ● ●  ●  ●   ●   ● ●  ●   ●  ● ●   ●
//!   account      └────── first ─────┘└─── second ────┘└─ …
//!                                    │                │
//!   the writer                       ▼ take           ▼ take, add to the total, print
//! ```
//!
//! Of each second and of the run so far a line has the same figures. The last line comes when the run is over, so
//! that the intervals add up to it; the object of `--json` follows. Where a reader is slow, an interval is
//! longer, and no line is lost. One that goes away ends the run as a signal does, and is no error.

pub mod passage;

use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Ender;
use softtimers_measure::machine::{Host, Machine};

use crate::run::output::print_line;

/// What is counted in an interval.
pub trait Account: Clone + Send + 'static {
    /// What a line says of an account.
    type Figures: Serialize;

    /// Whether nothing has been counted.
    fn is_empty(&self) -> bool;

    /// Forgets what was counted, not how.
    fn clear(&mut self);

    /// Adds what was counted in the interval that followed.
    fn add(&mut self, next: &Self);

    /// The figures of an interval that took `time`.
    fn figures(&self, time: Duration) -> Self::Figures;
}

/// Counts into the account of the interval that is going on.
pub struct Counter<A>(Arc<Mutex<Box<A>>>);

impl<A> Counter<A> {
    /// Lets `count` see the account.
    ///
    /// # Cost
    /// A lock that nobody holds, 10 ns, and what `count` takes: 27 ns together for a datagram of `recv`. Once a
    /// second it may be held, for as long as it takes to exchange a pointer.
    #[inline]
    pub fn count(&self, count: impl FnOnce(&mut A)) {
        count(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Exchanges the accounts, and nothing else, for the run may wait for it.
    fn exchange(&self, other: &mut Box<A>) {
        std::mem::swap(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), other);
    }
}

impl<A> Clone for Counter<A> {
    fn clone(&self) -> Self {
        Counter(Arc::clone(&self.0))
    }
}

impl<A> fmt::Debug for Counter<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counter(…)")
    }
}

/// The lines of a run that goes on.
#[derive(Debug)]
pub struct Stream<A> {
    counter: Counter<A>,
    over: Sender<()>,
    writer: JoinHandle<Result<(), Failure>>,
}

impl<A: Account> Stream<A> {
    /// Begins with an interval of which `blank` is the account. The thread is what this one is now: if that
    /// is to be kept on a processor, or to have another slice, then afterwards.
    ///
    /// `schema` is that of the lines, `seed` that of the run, and `ender` ends it if nobody reads any more.
    pub fn start(schema: &'static str, seed: Option<u64>, blank: A, ender: Ender) -> Self {
        let counter = Counter(Arc::new(Mutex::new(Box::new(blank.clone()))));
        let (over, wait) = mpsc::channel();
        // Files are read before the run begins, not beside its first departures.
        let (machine, host) = (Machine::read(), Host::watch());
        let now = Monotonic.now();
        let writer = Writer {
            schema,
            seed,
            counter: counter.clone(),
            spare: Box::new(blank.clone()),
            total: Box::new(blank),
            start: now,
            taken: now,
            machine,
            host,
        };
        Stream { counter, over, writer: std::thread::spawn(move || writer.run(&wait, &ender)) }
    }

    /// What the run counts into.
    pub fn counter(&self) -> Counter<A> {
        self.counter.clone()
    }

    /// Prints what has been counted since the last line.
    ///
    /// # Errors
    /// What kept a line from being written, except that its reader has gone.
    pub fn finish(self) -> Result<(), Failure> {
        let _ = self.over.send(());
        self.writer
            .join()
            .unwrap_or_else(|_| Err(Failure::check("the thread that writes the stream panicked")))
    }
}

struct Writer<A> {
    schema: &'static str,
    seed: Option<u64>,
    counter: Counter<A>,
    /// Cleared, to be left for what is taken.
    spare: Box<A>,
    total: Box<A>,
    start: Timestamp,
    /// When the last interval ended.
    taken: Timestamp,
    machine: Machine,
    host: Host,
}

/// One line.
#[derive(Serialize)]
struct Line<'a, F> {
    schema: &'static str,
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    machine: &'a Machine,
    /// Since the run began.
    from_s: f64,
    to_s: f64,
    interval: F,
    total: F,
}

impl<A: Account> Writer<A> {
    fn run(mut self, over: &Receiver<()>, ender: &Ender) -> Result<(), Failure> {
        let mut next = self.start + SECOND;
        loop {
            let left = next.saturating_duration_since(Monotonic.now());
            let over = match over.recv_timeout(left) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                // The run did not begin.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            match self.line(over) {
                Ok(()) if over => return Ok(()),
                Ok(()) => {}
                Err(error) => {
                    ender.end();
                    let gone = error.kind() == ErrorKind::BrokenPipe;
                    return if gone { Ok(()) } else { Err(Failure::broke_off("writing to stdout", &error)) };
                }
            }
            // Seconds that a slow reader took are part of the next interval.
            let now = Monotonic.now();
            while next <= now {
                next += SECOND;
            }
        }
    }

    /// Prints the interval that ends now; the run's last one only if there is something in it.
    fn line(&mut self, last: bool) -> io::Result<()> {
        self.counter.exchange(&mut self.spare);
        let now = Monotonic.now();
        let interval = &mut self.spare;
        if last && interval.is_empty() && self.taken > self.start {
            return Ok(());
        }
        self.total.add(interval);
        let since = |earlier| now.saturating_duration_since(earlier);
        let line = Line {
            schema: self.schema,
            version: env!("CARGO_PKG_VERSION"),
            seed: self.seed,
            machine: &self.machine.clone().during(self.host.so_far()),
            from_s: self.taken.saturating_duration_since(self.start).as_secs_f64(),
            to_s: since(self.start).as_secs_f64(),
            interval: interval.figures(since(self.taken)),
            total: self.total.figures(since(self.start)),
        };
        self.taken = now;
        let text = serde_json::to_string(&line).map_err(io::Error::other)?;
        interval.clear();
        print_line(&text)
    }
}

const SECOND: Duration = Duration::from_secs(1);
