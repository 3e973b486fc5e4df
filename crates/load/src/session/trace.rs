//! A trace of a run: [`SendTrace`], readable by Chrome's and Perfetto's trace viewers.
//!
//! A percentile says that some datagrams were late; a trace says why. It has three rows; the second shows the causes of
//! the first. It is empty for engines without clock checks: a thread, and a signal's handler.
//!
//! ```text
//!   datagrams    ▮▮ ▮▮ ▮▮      ▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮▮       each from its scheduled time until it left
//!   clock             ▮ gap  ▮▮▮▮ stall ▮▮▮▮            no clock check in this time, although something was due
//!   catch-ups                           ▮▮▮▮▮▮▮         from the first late one to the first on schedule
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use softtimers_core::{Timestamp, TriggerState};
use softtimers_linux::signal_timer::Departure;

use crate::traffic::nanos;

/// The latest departures of a run, up to the room for them.
#[derive(Clone, Debug)]
pub struct SendTrace {
    left: VecDeque<Left>,
    room: usize,
    forgotten: u64,
    interval: Duration,
    /// Gaps between clock checks longer than this are shown.
    gap_from: Duration,
    /// The time without a clock check before the next departure.
    unchecked: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Left {
    departure: Departure,
    flow: u32,
    source: TriggerState,
    unchecked: Duration,
}

impl Left {
    /// Returns how long it was due without a clock check.
    fn waited(&self) -> Duration {
        self.unchecked.min(self.departure.sent.saturating_duration_since(self.departure.due))
    }
}

impl SendTrace {
    /// The number of departures that a trace keeps, the latest ones; they take 12 MB.
    pub const ROOM: usize = 250_000;

    pub(super) fn new(room: usize, interval: Duration, burst_interval: Duration) -> Self {
        let (left, gap_from) = (VecDeque::with_capacity(room), burst_interval);
        SendTrace { left, room, forgotten: 0, interval, gap_from, unchecked: Duration::ZERO }
    }

    /// Records a clock check that found the next departure, and the time since the previous check.
    pub(super) fn checked(&mut self, unchecked: Duration) {
        self.unchecked = unchecked;
    }

    pub(super) fn left(&mut self, flow: u32, departure: Departure, source: TriggerState) {
        if self.left.len() == self.room {
            self.left.pop_front();
            self.forgotten += 1;
        }
        // Further datagrams sent after the same check did not wait for one.
        let unchecked = std::mem::take(&mut self.unchecked);
        self.left.push_back(Left { departure, flow, source, unchecked });
    }

    /// Returns the number of departures without room.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Writes Chrome's trace format, a JSON array with times in microseconds.
    ///
    /// # Errors
    /// The error of `out`.
    pub fn write_chrome(&self, out: &mut impl fmt::Write) -> fmt::Result {
        out.write_str("[")?;
        for (row, name) in ["datagrams", "clock", "catch-ups"].into_iter().enumerate() {
            let separator = if row == 0 { "\n" } else { ",\n" };
            write!(
                out,
                "{separator}{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{row},\"args\":{{\"name\":\"{name}\"}}}}"
            )?;
        }
        let (mut last_check, mut late) = (None, BTreeMap::new());
        for left in &self.left {
            self.write_datagram(out, left)?;
            let waited = left.waited();
            if waited > self.gap_from && last_check.replace(left.departure.sent) != Some(left.departure.sent)
            {
                write_gap(out, waited, left.departure.sent)?;
            }
            self.write_catch_up(out, &mut late, left)?;
        }
        // A catch-up that never ends matters most.
        for (flow, found) in late {
            let end = self.left.back().map_or(found.0, |last| last.departure.sent);
            write_spell(out, flow, found, end)?;
        }
        out.write_str("\n]\n")
    }

    fn write_datagram(&self, out: &mut impl fmt::Write, left: &Left) -> fmt::Result {
        let Departure { sent, due, place } = left.departure;
        write_span(out, "datagram", 0, (place, sent))?;
        write!(
            out,
            ",\"args\":{{\"flow\":{},\"due_us\":{},\"after_due_us\":{},\"fired_by\":\"{}\"}}}}",
            left.flow,
            Micros(due.as_nanos()),
            Micros(nanos(sent.saturating_duration_since(due))),
            left.source.name()
        )
    }

    /// Writes a catch-up when it is over. `late` has the current ones: for each flow, the first departure and their
    /// number.
    fn write_catch_up(
        &self,
        out: &mut impl fmt::Write,
        late: &mut BTreeMap<u32, (Timestamp, u64, u64)>,
        left: &Left,
    ) -> fmt::Result {
        let Departure { sent, place, .. } = left.departure;
        let lateness = sent.saturating_duration_since(place);
        if lateness >= self.interval {
            let (_, packets, most) = late.entry(left.flow).or_insert((sent, 0, 0));
            *packets += 1;
            *most = nanos(lateness).max(*most);
            return Ok(());
        }
        late.remove(&left.flow).map_or(Ok(()), |found| write_spell(out, left.flow, found, sent))
    }
}

/// Writes a catch-up of a flow: its first departure, their number, and the greatest lateness.
fn write_spell(
    out: &mut impl fmt::Write,
    flow: u32,
    (began, packets, most): (Timestamp, u64, u64),
    end: Timestamp,
) -> fmt::Result {
    write_span(out, "catch-up", 2, (began, end))?;
    let most = Micros(most);
    write!(out, ",\"args\":{{\"flow\":{flow},\"packets\":{packets},\"latest_us\":{most}}}}}")
}

/// Writes the time in which no clock check could find the due datagram.
fn write_gap(out: &mut impl fmt::Write, waited: Duration, checked: Timestamp) -> fmt::Result {
    let name = if waited >= STALL { "stall" } else { "gap" };
    let begin = Timestamp::from_nanos(checked.as_nanos().saturating_sub(nanos(waited)));
    write_span(out, name, 1, (begin, checked))?;
    out.write_str(",\"args\":{}}")
}

/// Writes everything of an event except its arguments.
fn write_span(
    out: &mut impl fmt::Write,
    name: &str,
    row: u32,
    (begin, end): (Timestamp, Timestamp),
) -> fmt::Result {
    write!(out, ",\n{{\"name\":\"{name}\",\"ph\":\"X\",\"pid\":1,\"tid\":{row}")?;
    let took = nanos(end.saturating_duration_since(begin));
    write!(out, ",\"ts\":{},\"dur\":{}", Micros(begin.as_nanos()), Micros(took))
}

/// Nanoseconds, printed as microseconds.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000, self.0 % 1_000)
    }
}

/// No handler of a pacing loop takes this long, unless the loop lost its CPU.
const STALL: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_sees_datagrams_stalls_and_catch_ups() {
        let micros = Duration::from_micros;
        let at = Timestamp::from_micros;
        let mut trace = SendTrace::new(3, micros(40), micros(22));
        // In a gap of 35 µs the second datagram was due for 2; the last one leaves by the check of the one before.
        for (sent, place, unchecked) in
            [(0, 0, Some(5)), (42, 40, Some(35)), (2_000, 80, Some(1_950)), (2_010, 1_960, None)]
        {
            if let Some(unchecked) = unchecked {
                trace.checked(micros(unchecked));
            }
            let departure = Departure { sent: at(sent), due: at(place), place: at(place) };
            trace.left(0, departure, TriggerState::SyscallExit);
        }
        assert_eq!(trace.forgotten(), 1);
        let mut text = String::new();
        trace.write_chrome(&mut text).unwrap();
        let events: serde_json::Value = serde_json::from_str(&text).unwrap();
        let of = |name: &str| {
            let of_name = events.as_array().unwrap().iter().filter(|event| event["name"] == name);
            of_name.map(|event| (event["ts"].as_f64(), event["dur"].as_f64())).collect::<Vec<_>>()
        };
        assert_eq!(
            of("datagram"),
            [(40.0, 2.0), (80.0, 1_920.0), (1_960.0, 50.0)].map(|(at, took)| (Some(at), Some(took)))
        );
        assert_eq!(of("stall"), [(Some(80.0), Some(1_920.0))]);
        assert_eq!(of("catch-up"), [(Some(2_000.0), Some(10.0))]);
        assert_eq!(of("gap"), []);
    }

    #[test]
    fn a_catch_up_that_never_ends_is_shown() {
        let (micros, at) = (Duration::from_micros, Timestamp::from_micros);
        let mut trace = SendTrace::new(9, micros(40), micros(22));
        for sent in [100, 160, 220] {
            let departure = Departure { sent: at(sent), due: at(sent), place: at(sent - 90) };
            trace.left(0, departure, TriggerState::SyscallExit);
        }
        let mut text = String::new();
        trace.write_chrome(&mut text).unwrap();
        assert!(
            text.contains("\"catch-up\",\"ph\":\"X\",\"pid\":1,\"tid\":2,\"ts\":100.000,\"dur\":120.000"),
            "{text}"
        );
    }
}
