//! The traffic of a [`Generator`](super::Generator): [`GeneratorConfig`].

use std::io;
use std::time::Duration;

use softtimers_core::Rate;

/// The frames to send, and their rate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::generate) struct GeneratorConfig {
    /// The frame, from the destination's address on and without a check sequence: 14 to 3,400 bytes.
    pub(in crate::generate) frame: Vec<u8>,
    /// The number of first bytes that are rewritten for each frame, because receivers may change it: at most
    /// 128. The headers at least.
    pub(in crate::generate) head: usize,
    /// The offset in the head at which each frame's number is put, eight bytes in the network's order, from zero on.
    pub(in crate::generate) number_at: Option<usize>,
    /// The offset in the head at which the frame's due time is put, in nanoseconds on the clock of
    /// [`Monotonic`](softtimers::Monotonic), likewise.
    pub(in crate::generate) due_at: Option<usize>,
    /// The rate in frames a second.
    pub(in crate::generate) rate: Rate,
    /// The number of frames that leave back to back, 1 to 64, at the scheduled time of the first. Beyond
    /// 500,000 bursts a second, those that are due within 2 µs also leave together.
    pub(in crate::generate) burst: u32,
    /// The time by which it may fall behind before it skips scheduled times.
    pub(in crate::generate) catch_up: Duration,
    /// The number of frames to send; `None` for no end.
    pub(in crate::generate) count: Option<u64>,
    /// How long to send; at most a day.
    pub(in crate::generate) duration: Option<Duration>,
}

impl GeneratorConfig {
    pub(super) fn check(&self) -> io::Result<()> {
        let Self { frame, head, number_at, due_at, burst, duration, .. } = self;
        if !(14..=3_400).contains(&frame.len()) {
            return Err(invalid(format!("a frame of {} bytes; 14 to 3400 are allowed", frame.len())));
        }
        if *head > frame.len().min(128) {
            return Err(invalid(format!(
                "a head of {head} bytes; at most {} are there",
                frame.len().min(128)
            )));
        }
        for at in [number_at, due_at].into_iter().flatten() {
            if at.saturating_add(8) > *head {
                return Err(invalid(format!("eight bytes at {at} of a head of {head}")));
            }
        }
        if !(1..=64).contains(burst) {
            return Err(invalid(format!("bursts of {burst}; 1 to 64 frames are allowed")));
        }
        if duration.is_some_and(|duration| duration > LONGEST_GAP) {
            return Err(invalid("more than a day".to_owned()));
        }
        Ok(())
    }

    /// The number of runs of the program that make up a batch, which leaves together: a burst, or those that
    /// are due within [`TOGETHER`]. Beginning a batch costs more than a frame.
    pub(super) fn batch(&self) -> u32 {
        let bursts = ((TOGETHER.as_nanos() as u64) << FRACTION) / self.gap();
        self.burst.max(u32::try_from(bursts * u64::from(self.burst)).unwrap_or(u32::MAX).min(64))
    }

    /// From one burst to the next, in fractions of nanoseconds.
    pub(super) fn gap(&self) -> u64 {
        let nanos = f64::from(self.burst) * 1e9 / self.rate.packets_per_second();
        (nanos * f64::from(1 << FRACTION)).round().max(1.0) as u64
    }
}

pub(super) fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// Times in the program count fractions of 1/2¹⁶ ns from its start, so that any rate is kept to the millionth.
pub(super) const FRACTION: u32 = 16;
/// Three of them fit into 64 bits.
pub(super) const LONGEST_GAP: Duration = Duration::from_secs(86_400);
/// No receiver distinguishes frames that are this close.
const TOGETHER: Duration = Duration::from_micros(2);
