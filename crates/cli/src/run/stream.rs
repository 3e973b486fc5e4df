//! `--json-stream`: a line of JSON a second, from a run that waits for no reader.
//!
//! Making a line takes a millisecond, and a reader may take as long as it likes. So a thread of its own does both, and the
//! run only counts, into the stats of an interval that the thread takes away each second.
//!
//! A line has the same figures of its interval and of the run so far. The last line comes when the run is over, so that
//! the intervals add up to it; the object of `--json` follows. Where a reader is slow, an interval is longer, and no line
//! is lost. One that goes away ends the run as a signal does, and is no error.

use std::io::{self, ErrorKind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::Serialize;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::StopHandle;
use softtimers_measure::machine::{BackgroundLoad, Machine};
use softtimers_measure::stats::{Intervals, Stats};

use super::output::print_line;

/// The lines of a run that goes on.
#[derive(Debug)]
pub(super) struct Stream {
    over: Sender<()>,
    writer: JoinHandle<Result<(), Failure>>,
}

impl Stream {
    /// Begins with an interval in which nothing has been counted. `schema` is that of the lines, `seed` that of the run,
    /// and `stop` ends it if nobody reads any more.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub(super) fn start<S: Stats>(
        schema: String,
        seed: Option<u64>,
        intervals: Intervals<S>,
        stop: StopHandle,
    ) -> io::Result<Self> {
        let (over, wait) = mpsc::channel();
        // Files are read before the run begins, not beside its first departures.
        let (machine, host) = (Machine::read(), BackgroundLoad::of_host());
        let now = Monotonic.now();
        let writer = Writer { schema, seed, intervals, start: now, taken: now, machine, host };
        let writer =
            thread::Builder::new().name("stream".to_owned()).spawn(move || writer.run(&wait, &stop))?;
        Ok(Stream { over, writer })
    }

    /// Prints what has been counted since the last line.
    ///
    /// # Errors
    /// What kept a line from being written, except that its reader has gone.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let _ = self.over.send(());
        self.writer
            .join()
            .unwrap_or_else(|_| Err(Failure::check("the thread that writes the stream panicked")))
    }
}

struct Writer<S> {
    schema: String,
    seed: Option<u64>,
    intervals: Intervals<S>,
    start: Timestamp,
    /// When the last interval ended.
    taken: Timestamp,
    machine: Machine,
    host: BackgroundLoad,
}

/// A line of the stream.
#[derive(Serialize)]
struct Line<'a, F> {
    schema: &'a str,
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

impl<S: Stats> Writer<S> {
    fn run(mut self, over: &Receiver<()>, stop: &StopHandle) -> Result<(), Failure> {
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
                    stop.end();
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
        let Self { schema, seed, intervals, start, taken, machine, host } = self;
        let machine = machine.clone().during(host.so_far());
        let line = intervals.next(|interval, total| {
            let now = Monotonic.now();
            if last && interval.is_empty() && *taken > *start {
                return Ok(None);
            }
            let since = |earlier| now.saturating_duration_since(earlier);
            let line = Line {
                schema,
                version: env!("CARGO_PKG_VERSION"),
                seed: *seed,
                machine: &machine,
                from_s: taken.saturating_duration_since(*start).as_secs_f64(),
                to_s: since(*start).as_secs_f64(),
                interval: interval.figures(since(*taken)),
                total: total.figures(since(*start)),
            };
            *taken = now;
            serde_json::to_string(&line).map(Some).map_err(io::Error::other)
        })?;
        line.map_or(Ok(()), |line| print_line(&line))
    }
}

const SECOND: Duration = Duration::from_secs(1);
