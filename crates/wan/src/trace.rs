//! Recorded capacity: [`DeliveryTrace`], in the format of mahimahi.
//!
//! Each line is a packet that the recorded link could have carried, with the millisecond in which it could:
//!
//! ```text
//!   file      0 3 3 7                     milliseconds; never decreasing; the last is the period
//!   chances   │  ┃   │   │  ┃   │   …     of 1,500 bytes each, over and over
//!   time      0  3   7   10     14        (the chance at 0 of the second time falls on 7, too)
//! ```
//!
//! Small packets share a chance, a long one takes several, and an unused chance is gone. Netravali et al.,
//! *Mahimahi: accurate record-and-replay for HTTP*, USENIX ATC 2015, §4.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use softtimers_core::Timestamp;

/// The times at which a recorded link could send, repeated for ever. Clones share the recording.
///
/// ```
/// use softtimers_wan::DeliveryTrace;
///
/// // A packet each millisecond: 12 Mbit/s.
/// assert_eq!(DeliveryTrace::parse(b"1\n")?.mean_bps(), 12_000_000);
/// let problem = DeliveryTrace::parse(b"5\n4\n").unwrap_err();
/// assert_eq!(problem.to_string(), "line 2: 4 comes after 5; times may not decrease");
/// # Ok::<(), softtimers_wan::TraceError>(())
/// ```
///
/// # Cost
/// Four bytes a line.
#[derive(Clone, PartialEq, Eq)]
pub struct DeliveryTrace {
    /// In milliseconds, not decreasing. At least one, and the last is above zero.
    times: Arc<[u32]>,
    period: u32,
}

impl DeliveryTrace {
    /// The bytes that a chance carries.
    pub const CHANCE_BYTES: u32 = 1_500;

    /// The most lines: a day at 2 Mbit/s, a minute at 3.3 Gbit/s.
    pub const MOST_CHANCES: usize = 1 << 24;

    /// Parses a file: a whole number of milliseconds on each line, below 2³² (49 days).
    ///
    /// # Errors
    /// [`TraceError`], which names the line.
    pub fn parse(file: &[u8]) -> Result<Self, TraceError> {
        let file = file.strip_suffix(b"\n").unwrap_or(file);
        let mut times = Vec::new();
        let mut latest = 0;
        for (line, number) in file.split(|&byte| byte == b'\n').zip(1..) {
            let error = |problem| TraceError { line: number, problem };
            let time = milliseconds(line.strip_suffix(b"\r").unwrap_or(line)).map_err(error)?;
            if time < latest {
                return Err(error(Problem::Decreases { time, latest }));
            }
            if times.len() == Self::MOST_CHANCES {
                return Err(error(Problem::TooMany));
            }
            latest = time;
            times.push(time);
        }
        if latest == 0 {
            return Err(TraceError { line: times.len() as u64, problem: Problem::NoTime });
        }
        Ok(DeliveryTrace { times: times.into(), period: latest })
    }

    /// Returns the chances in a period: at least one.
    pub fn chances(&self) -> usize {
        self.times.len()
    }

    /// Returns the period after which it repeats.
    pub fn period(&self) -> Duration {
        Duration::from_millis(u64::from(self.period))
    }

    /// Returns the mean rate in bits a second, rounded down.
    pub fn mean_bps(&self) -> u64 {
        let bits = self.times.len() as u64 * u64::from(Self::CHANCE_BYTES) * 8;
        // At most 2²⁴ chances, so this fits.
        bits * 1_000 / u64::from(self.period)
    }

    /// Returns the time of a chance, counted from the beginning over all repetitions; saturates.
    fn time(&self, chance: u64) -> Duration {
        let chances = self.times.len() as u64;
        let within = self.times[(chance % chances) as usize];
        let before = (chance / chances).saturating_mul(u64::from(self.period));
        Duration::from_millis(before.saturating_add(u64::from(within)))
    }

    /// Returns the first chance at or after a time.
    fn at_or_after(&self, elapsed: Duration) -> u64 {
        let millis = elapsed.as_nanos().div_ceil(1_000_000) as u64;
        let period = u64::from(self.period);
        let (mut round, mut within) = (millis / period, millis % period);
        // The end of a round is the beginning of the next, and its chances come first.
        if within == 0 && round > 0 {
            (round, within) = (round - 1, period);
        }
        let index = self.times.partition_point(|&time| u64::from(time) < within);
        round.saturating_mul(self.times.len() as u64).saturating_add(index as u64)
    }
}

/// Prints a summary, not a million lines.
impl fmt::Debug for DeliveryTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeliveryTrace")
            .field("chances", &self.chances())
            .field("period", &self.period())
            .finish()
    }
}

fn milliseconds(line: &[u8]) -> Result<u32, Problem> {
    if line.is_empty() {
        return Err(Problem::Empty);
    }
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u32::from(byte - b'0'));
    let mut value = 0u32;
    for byte in line {
        let digit = digit(byte).ok_or(Problem::NoNumber)?;
        value = value.checked_mul(10).and_then(|value| value.checked_add(digit)).ok_or(Problem::TooLate)?;
    }
    Ok(value)
}

/// Why a file is not a valid [`DeliveryTrace`], and in which line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceError {
    line: u64,
    problem: Problem,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Problem {
    Empty,
    NoNumber,
    TooLate,
    Decreases { time: u32, latest: u32 },
    TooMany,
    NoTime,
}

impl TraceError {
    /// Returns the line, from one on.
    pub fn line(&self) -> u64 {
        self.line
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match self.problem {
            Problem::Empty => f.write_str("empty; each line is a whole number of milliseconds"),
            Problem::NoNumber => f.write_str("not a whole number of milliseconds"),
            Problem::TooLate => f.write_str("more than 4294967295 ms"),
            Problem::Decreases { time, latest } => {
                write!(f, "{time} comes after {latest}; times may not decrease")
            }
            Problem::TooMany => write!(f, "more than {} lines", DeliveryTrace::MOST_CHANCES),
            Problem::NoTime => f.write_str("the last time is 0; it is the period, and must be above zero"),
        }
    }
}

impl std::error::Error for TraceError {}

/// A position in the chances of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chances {
    trace: DeliveryTrace,
    /// The trace begins with the first packet, so that a real-time run repeats one in virtual time.
    begin: Option<Timestamp>,
    /// The next unused chance.
    next: u64,
    /// The room left in the chance before it, and the time of that.
    room: u32,
    open: Timestamp,
}

impl Chances {
    pub(crate) fn new(trace: DeliveryTrace) -> Self {
        Chances { trace, begin: None, next: 0, room: 0, open: Timestamp::ZERO }
    }

    pub(crate) fn trace(&self) -> &DeliveryTrace {
        &self.trace
    }

    /// Returns when a packet is through whose turn comes at `at`. O(log n).
    pub(crate) fn serve(&mut self, at: Timestamp, bytes: u64) -> Timestamp {
        let begin = *self.begin.get_or_insert(at);
        if self.open < at {
            self.room = 0;
            self.next = self.next.max(self.trace.at_or_after(at.saturating_duration_since(begin)));
        }
        let bytes = bytes.max(1);
        let (last, room) = self.after(bytes);
        if let Some(last) = last {
            self.next = last.saturating_add(1);
            self.open = begin + self.trace.time(last);
        }
        self.room = room;
        self.open
    }

    /// Returns when `bytes` more would be through, if they are there in time. O(1).
    pub(crate) fn through(&self, bytes: u64) -> Timestamp {
        let begin = self.begin.unwrap_or(self.open);
        match self.after(bytes) {
            (Some(last), _) => begin + self.trace.time(last),
            (None, _) => self.open,
        }
    }

    /// Returns how many bytes of a packet that is through at `done` have not been sent by `now`. O(log n).
    pub(crate) fn left(&self, now: Timestamp, bytes: u64) -> u64 {
        let begin = self.begin.unwrap_or(now);
        let elapsed = now.saturating_duration_since(begin) + Duration::from_nanos(1);
        let chances = self.next.saturating_sub(self.trace.at_or_after(elapsed));
        let carried = chances.saturating_mul(u64::from(DeliveryTrace::CHANCE_BYTES));
        carried.saturating_sub(u64::from(self.room)).min(bytes)
    }

    /// Returns the last chance that `bytes` need beyond the current one, if any, and the room left in it.
    fn after(&self, bytes: u64) -> (Option<u64>, u32) {
        let each = u64::from(DeliveryTrace::CHANCE_BYTES);
        let Some(more) = bytes.checked_sub(u64::from(self.room)).filter(|&more| more > 0) else {
            return (None, self.room - bytes as u32);
        };
        let chances = more.div_ceil(each);
        (Some(self.next.saturating_add(chances - 1)), (chances * each - more) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(millis * 1_000)
    }

    #[test]
    fn every_problem_names_its_line() {
        let problem = |file: &[u8]| DeliveryTrace::parse(file).unwrap_err().to_string();
        assert!(problem(b"").starts_with("line 1: empty"));
        assert!(problem(b"1\n\n2\n").starts_with("line 2: empty"));
        assert!(problem(b"1\n2\n x\n").starts_with("line 3: not a whole number"));
        assert!(problem(b"1\n-2\n").starts_with("line 2: not a whole number"));
        assert!(problem(b"4294967296").starts_with("line 1: more than 4294967295 ms"));
        assert!(problem(b"0\n0\n").starts_with("line 2: the last time is 0"));
        assert!(problem(b"3\n3\n2\n").starts_with("line 3: 2 comes after 3"));
        assert_eq!(DeliveryTrace::parse(b"0\r\n4294967295\r\n").unwrap().chances(), 2);
    }

    /// The picture in the module's documentation.
    #[test]
    fn a_trace_repeats_after_its_last_line() {
        let trace = DeliveryTrace::parse(b"0\n3\n3\n7\n").unwrap();
        let times: Vec<u128> = (0..9).map(|chance| trace.time(chance).as_millis()).collect();
        assert_eq!(times, [0, 3, 3, 7, 7, 10, 10, 14, 14]);
        let first = |micros| trace.at_or_after(Duration::from_micros(micros));
        assert_eq!([first(0), first(1), first(3_000), first(3_001), first(7_000)], [0, 1, 1, 3, 3]);
        assert_eq!([first(7_001), first(14_000), first(14_001)], [5, 7, 9]);
    }

    #[test]
    fn small_packets_share_a_chance_and_long_ones_take_several() {
        let mut chances = Chances::new(DeliveryTrace::parse(b"1\n").unwrap());
        assert_eq!(chances.serve(at(100), 700), at(101));
        assert_eq!(chances.serve(at(101), 700), at(101));
        assert_eq!(chances.through(100), at(101));
        assert_eq!(chances.through(101), at(102));
        assert_eq!(chances.serve(at(101), 3_100), at(103));
        assert_eq!(chances.left(at(101), 3_100), 3_000);
        assert_eq!(chances.left(at(102), 3_100), 1_500);
        assert_eq!(chances.left(at(103), 3_100), 0);
        // The unused chance is gone.
        assert_eq!(chances.serve(Timestamp::from_micros(200_500), 1), at(201));
        assert_eq!(chances.serve(at(201), 1_499), at(201));
    }
}
