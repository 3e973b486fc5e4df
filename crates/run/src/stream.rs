//! A line a second, from a run that never waits for its reader: JSON with `--json-stream`, and columns on a terminal.
//!
//! Making a line takes a millisecond, and a reader may take any time. So a separate thread does both, and the run only
//! counts, into the stats of an interval that the thread takes each second.
//!
//! A line of JSON has the figures of its interval and of the run so far; one of columns has those of its interval. The
//! last line comes when the run is over, so that the intervals add up to it; the object of `--json` follows. With a
//! slow reader, intervals become longer, and no line is lost. A reader that goes away ends the run like a signal, and
//! is not an error.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::Serialize;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::StopHandle;
use softtimers_measure::machine::{BackgroundLoad, Machine};
use softtimers_measure::stats::{Intervals, Stats};

use super::output::{is_unread, print, print_line};
use super::screen::Screen;

/// Stats to watch: a few figures of each second, in columns; of the command `C`, as a [`Report`](super::output::Report) is.
pub trait Seconds<C: ?Sized>: Stats {
    /// The columns after the time: their names, and the width of their cells.
    const COLUMNS: &'static [(&'static str, usize)];

    /// Returns the figures of an interval, one for each column.
    fn cells(figures: &Self::Figures) -> Vec<String>;
}

/// The form of the lines.
#[derive(Debug)]
pub(crate) enum Form {
    /// Each line is an object.
    Json {
        /// The schema of the lines.
        schema: String,
        /// The seed of the run.
        seed: Option<u64>,
    },
    /// The lines are columns.
    Lines(Screen),
    /// Nothing is printed: the figures are only kept.
    Silent,
}

/// The figures of a second, as a line of JSON has them.
#[derive(Clone, PartialEq, Debug)]
pub struct Second {
    /// Its beginning, since the run began.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// The figures of this interval.
    pub figures: serde_json::Value,
}

/// The seconds of a run, kept until its end. Of a run of more than an hour, every other one is forgotten, and again.
#[derive(Clone, Debug, Default)]
pub struct Kept(Arc<Mutex<Thinned>>);

#[derive(Debug, Default)]
struct Thinned {
    seconds: Vec<Second>,
    /// How many came so far.
    came: usize,
    /// Of so many one more is left out each time that there is no room: 2 to this power.
    thinning: u32,
}

impl Kept {
    /// Returns the seconds so far.
    pub fn taken(&self) -> Vec<Second> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).seconds.clone()
    }

    fn keep(&self, second: Second) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.came.is_multiple_of(1 << kept.thinning) {
            kept.seconds.push(second);
        }
        kept.came += 1;
        if kept.seconds.len() > MOST_KEPT {
            let mut place = 0;
            kept.seconds.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            kept.thinning += 1;
        }
    }
}

/// The lines of a run in progress.
#[derive(Debug)]
pub(crate) struct Stream {
    over: Sender<()>,
    writer: JoinHandle<Result<(), Failure>>,
}

impl Stream {
    /// Begins with an empty interval; `stop` ends the run if the reader is gone.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub(crate) fn start<C: ?Sized, S: Seconds<C>>(
        form: Form,
        kept: Option<Kept>,
        intervals: Intervals<S>,
        stop: StopHandle,
    ) -> io::Result<Self> {
        let (over, wait) = mpsc::channel();
        // Files are read before the run begins, not during its first departures.
        let (machine, host) = (Machine::read(), BackgroundLoad::of_host());
        let now = Monotonic.now();
        let writer = Writer { form, kept, intervals, start: now, taken: now, printed: 0, machine, host };
        let writer =
            thread::Builder::new().name("stream".to_owned()).spawn(move || writer.run::<C>(&wait, &stop))?;
        Ok(Stream { over, writer })
    }

    /// Prints the counts since the last line.
    ///
    /// # Errors
    /// The error of a write, except that its reader has gone.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let _ = self.over.send(());
        self.writer
            .join()
            .unwrap_or_else(|_| Err(Failure::check("the thread that writes the stream panicked")))
    }
}

struct Writer<S> {
    form: Form,
    kept: Option<Kept>,
    intervals: Intervals<S>,
    start: Timestamp,
    /// The end of the last interval.
    taken: Timestamp,
    /// The number of lines so far.
    printed: u64,
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
    /// The beginning of the interval, since the run began.
    from_s: f64,
    to_s: f64,
    interval: F,
    total: F,
}

impl<S: Stats> Writer<S> {
    fn run<C: ?Sized>(mut self, over: &Receiver<()>, stop: &StopHandle) -> Result<(), Failure>
    where
        S: Seconds<C>,
    {
        let mut next = self.start + SECOND;
        loop {
            let left = next.saturating_duration_since(Monotonic.now());
            let over = match over.recv_timeout(left) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                // The run did not begin.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            match self.line::<C>(over) {
                Ok(()) if over => return self.close(),
                Ok(()) => {}
                Err(error) => {
                    stop.end();
                    return if is_unread(&error) {
                        Ok(())
                    } else {
                        Err(Failure::broke_off("writing to stdout", &error))
                    };
                }
            }
            // Seconds spent waiting for a slow reader are part of the next interval.
            let now = Monotonic.now();
            while next <= now {
                next += SECOND;
            }
        }
    }

    /// Separates the lines of a terminal from later output.
    fn close(&self) -> Result<(), Failure> {
        let apart = matches!(self.form, Form::Lines(_)) && self.printed > 0;
        if apart { print("\n") } else { Ok(()) }
    }

    /// Prints the interval that ends now; the run's last one only if it is not empty.
    fn line<C: ?Sized>(&mut self, last: bool) -> io::Result<()>
    where
        S: Seconds<C>,
    {
        let Self { form, kept, intervals, start, taken, printed, machine, host } = self;
        let machine = machine.clone().during(host.so_far());
        let line = intervals.next(|interval, total| {
            let now = Monotonic.now();
            let since = |earlier| now.saturating_duration_since(earlier);
            // A fraction of a second would be misleading in a table of rates.
            let too_short = matches!(form, Form::Lines(_)) && since(*taken) < WORTH_A_LINE;
            if last && (interval.is_empty() || too_short) && *taken > *start {
                return Ok(None);
            }
            let (figures, to) = (interval.figures(since(*taken)), since(*start));
            let from_s = taken.saturating_duration_since(*start).as_secs_f64();
            if let Some(kept) = kept {
                let figures = serde_json::to_value(&figures).map_err(io::Error::other)?;
                kept.keep(Second { from_s, to_s: to.as_secs_f64(), figures });
            }
            let line = match form {
                Form::Silent => {
                    *taken = now;
                    return Ok(None);
                }
                Form::Lines(screen) => Ok(columns::<C, S>(*printed, to, &figures, screen)),
                Form::Json { schema, seed } => serde_json::to_string(&Line {
                    schema,
                    version: env!("CARGO_PKG_VERSION"),
                    seed: *seed,
                    machine: &machine,
                    from_s,
                    to_s: to.as_secs_f64(),
                    interval: figures,
                    total: total.figures(to),
                }),
            };
            *taken = now;
            *printed += 1;
            line.map(Some).map_err(io::Error::other)
        })?;
        line.map_or(Ok(()), |line| print_line(&line))
    }
}

/// Formats an interval as columns, below their header for the first one on a page.
pub fn columns<C: ?Sized, S: Seconds<C>>(
    printed: u64,
    to: Duration,
    figures: &S::Figures,
    screen: &Screen,
) -> String {
    let row = |cells: Vec<String>| line(S::COLUMNS, &cells, screen.width);
    let names = S::COLUMNS.iter().map(|(name, _)| (*name).to_owned());
    let row_now = row([vec![seconds(to)], S::cells(figures)].concat());
    if printed.is_multiple_of(PAGE) {
        format!("{}\n{row_now}", row([TIME.to_owned()].into_iter().chain(names).collect()))
    } else {
        row_now
    }
}

/// Formats a line of cells, the time first; columns without room are left out, from the last on.
pub fn line(columns: &[(&str, usize)], cells: &[String], width: usize) -> String {
    let mut line = String::new();
    for (cell, room) in
        cells.iter().zip([TIME_WIDTH].into_iter().chain(columns.iter().map(|&(_, room)| room)))
    {
        if line.chars().count() + 2 + room > width {
            break;
        }
        line += &format!("{}{cell:>room$}", if line.is_empty() { "" } else { "  " });
    }
    line
}

/// Formats the end of an interval since the run began.
pub fn seconds(to: Duration) -> String {
    format!("{:.0} s", to.as_secs_f64())
}

/// The name of the first column.
pub const TIME: &str = "time";
const TIME_WIDTH: usize = 6;
/// The number of lines after which the header is repeated.
const PAGE: u64 = 20;
const WORTH_A_LINE: Duration = Duration::from_millis(200);
const SECOND: Duration = Duration::from_secs(1);
/// An hour of them.
const MOST_KEPT: usize = 3_600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_seconds_from_all_of_it() {
        let kept = Kept::default();
        for second in 0..20_000_u32 {
            let from_s = f64::from(second);
            kept.keep(Second { from_s, to_s: from_s + 1.0, figures: serde_json::Value::Null });
        }
        let seconds = kept.taken();
        assert!((MOST_KEPT / 2..=MOST_KEPT).contains(&seconds.len()), "{}", seconds.len());
        let apart: Vec<f64> = seconds.windows(2).map(|pair| pair[1].from_s - pair[0].from_s).collect();
        assert!(apart.iter().all(|&step| step == apart[0]), "{apart:?}");
        assert!(seconds.last().unwrap().from_s > 19_000.0);
    }
}
