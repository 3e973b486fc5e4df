//! A log of packets, stage by stage: [`StageLog`], readable by Chrome's and Perfetto's trace viewers.
//!
//! The livelock paper (§8.1) explains its latencies by such lists of one packet's path through the kernel:
//!
//! ```text
//!   Arrival ─▶ WakeUp ─▶ Receive ─▶ Transmit ─▶ Arm
//! ```

use alloc::collections::VecDeque;
use core::fmt;

use super::SourceId;
use crate::nanos::Nanos;
use softtimers_core::Timestamp;

/// A stage of a packet's path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// It arrived at the device.
    Arrival,
    /// The source's wake-up came.
    WakeUp,
    /// A turn of receiving, in which each packet is processed to completion.
    Receive,
    /// A turn of transmitting.
    Transmit,
    /// The wake-up was enabled again.
    Arm,
    /// The wake-up was disabled because input was shut.
    Shut,
}

/// A stage that some packets went through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StageEvent {
    /// The stage that they went through.
    pub stage: Stage,
    /// The source whose packets they are.
    pub source: SourceId,
    /// The time at which the stage began.
    pub begin: Timestamp,
    /// When it ended; equal to `begin` if it takes no time.
    pub end: Timestamp,
    /// Number of packets that went through it.
    pub packets: u32,
}

/// The latest events, as many as there is room for.
///
/// ```
/// use softtimers_core::Timestamp;
/// use softtimers_poll::{SourceId, Stage, StageEvent, StageLog};
///
/// let mut log = StageLog::new(100);
/// let (begin, end) = (Timestamp::from_nanos(12_300), Timestamp::from_micros(15));
/// let source = SourceId::from_index(0);
/// log.record(StageEvent { stage: Stage::Receive, source, begin, end, packets: 3 });
/// let mut json = String::new();
/// log.write_chrome(&mut json)?;
/// assert_eq!(json, "[\n{\"name\":\"receive\",\"ph\":\"X\",\"pid\":1,\"tid\":0,\"ts\":12.300,\"dur\":2.700,\
///     \"args\":{\"packets\":3}}\n]\n");
/// # Ok::<(), core::fmt::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct StageLog {
    events: VecDeque<StageEvent>,
    room: usize,
    forgotten: u64,
}

impl StageLog {
    /// Creates a log with room for `room` events, at least one. They take 40 bytes each.
    pub fn new(room: usize) -> Self {
        let room = room.max(1);
        StageLog { events: VecDeque::with_capacity(room), room, forgotten: 0 }
    }

    /// Records an event, and drops the oldest one if there is no room.
    pub fn record(&mut self, event: StageEvent) {
        if self.events.len() == self.room {
            self.events.pop_front();
            self.forgotten += 1;
        }
        self.events.push_back(event);
    }

    /// Iterates over the events in the order they were recorded.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &StageEvent> {
        self.events.iter()
    }

    /// Returns the number of events dropped for want of room.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Writes them in Chrome's trace format, a JSON array: a row for each source, times in microseconds.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write_chrome(&self, out: &mut impl fmt::Write) -> fmt::Result {
        out.write_str("[")?;
        for (at, event) in self.events.iter().enumerate() {
            let StageEvent { stage, source, begin, end, packets } = event;
            let separator = if at == 0 { "\n" } else { ",\n" };
            write!(out, "{separator}{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":1", stage.name())?;
            write!(out, ",\"tid\":{},\"ts\":{}", source.index(), Micros(begin.as_nanos()))?;
            write!(out, ",\"dur\":{},\"args\":{{\"packets\":{packets}}}}}", Micros(end.nanos_since(*begin)))?;
        }
        out.write_str("\n]\n")
    }
}

impl Stage {
    /// Returns the name as it is written, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Arrival => "arrival",
            Stage::WakeUp => "wake-up",
            Stage::Receive => "receive",
            Stage::Transmit => "transmit",
            Stage::Arm => "arm",
            Stage::Shut => "shut",
        }
    }
}

/// Nanoseconds, written as microseconds.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000, self.0 % 1_000)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn events_are_rows_of_their_source_in_chromes_format() {
        let mut log = StageLog::new(9);
        for (at, stage) in
            [Stage::Arrival, Stage::WakeUp, Stage::Receive, Stage::Transmit, Stage::Arm, Stage::Shut]
                .into_iter()
                .enumerate()
        {
            let (begin, source) = (Timestamp::from_nanos(1_500 + at as u64), SourceId::from_index(7));
            let end = begin + Duration::from_nanos(2_050);
            log.record(StageEvent { stage, source, begin, end, packets: 3 });
        }
        let mut text = alloc::string::String::new();
        log.write_chrome(&mut text).unwrap();
        let lines: alloc::vec::Vec<_> = text.lines().collect();
        let first = "{\"name\":\"arrival\",\"ph\":\"X\",\"pid\":1,\"tid\":7,\"ts\":1.500,\"dur\":2.050,\"args\":{\"packets\":3}},";
        assert_eq!((lines[0], lines[1], lines[7]), ("[", first, "]"));
        for (line, name) in
            lines[1..7].iter().zip(["arrival", "wake-up", "receive", "transmit", "arm", "shut"])
        {
            assert!(line.starts_with(&alloc::format!("{{\"name\":\"{name}\"")), "{line}");
        }
        assert!(lines[6].ends_with("}}"), "no comma after the last");
    }

    #[test]
    fn the_oldest_events_are_forgotten() {
        let mut log = StageLog::new(2);
        for at in 0..5 {
            let (begin, source) = (Timestamp::from_nanos(at), SourceId::from_index(0));
            log.record(StageEvent { stage: Stage::Arm, source, begin, end: begin, packets: 0 });
        }
        assert!(log.iter().map(|event| event.begin.as_nanos()).eq([3, 4]));
        assert_eq!(log.forgotten(), 3);
    }
}
