//! `replay`: a recording, sent as one paced flow.
//!
//! It is `send` with other scheduled times and lengths: the same session, engines and counts. In addition it summarizes
//! the recording before it is sent, so that its own bursts are not attributed to the sender.

use std::time::Duration;

use serde::Serialize;
use softtimers_core::{Timestamp, Trace};
use softtimers_measure::units::show_duration;

use crate::gaps::{GapReport, Gaps, Train};
use crate::recording::{Changed, Format, Recording};

/// A recording at its replay's speed.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// The format of the file.
    pub format: Format,
    /// Packets in the file.
    pub packets: u64,
    /// From the first to the last.
    pub span_s: f64,
    /// Payload of all datagrams.
    pub bytes: u64,
    /// The most packets within any second.
    pub peak_pps: u64,
    /// The recording's own gaps, and bursts judged by their mean.
    #[serde(flatten)]
    pub gaps: GapReport,
    /// The necessary changes.
    #[serde(flatten)]
    pub changed: Changed,
}

impl Summary {
    /// Summarizes a recording that is replayed as `trace`.
    pub fn new(recording: &Recording, trace: &Trace) -> Self {
        let mut gaps = Gaps::new(Some(trace.mean_rate().interval()));
        let mut train = Train::default();
        let mut bytes = 0;
        for (time, length) in trace.iter() {
            gaps.record(&mut train, Timestamp::ZERO + time);
            bytes += u64::from(length);
        }
        Summary {
            format: recording.format,
            packets: trace.packets() as u64,
            span_s: trace.span().as_secs_f64(),
            bytes,
            peak_pps: trace.peak(Duration::from_secs(1)) as u64,
            gaps: gaps.report(),
            changed: recording.changed,
        }
    }
}

/// Returns a sentence for the report if the last datagram of a replay was late by `skew`, and not only by a wake-up.
pub fn late_at_the_end(skew: Duration) -> Option<String> {
    (skew > MOST_AT_THE_END).then(|| {
        let skew = show_duration(Duration::from_micros(skew.as_micros() as u64));
        format!("the last datagram left {skew} late: the run ended before the delay was made up")
    })
}

/// The lateness that a single wake-up may cause.
const MOST_AT_THE_END: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_delay_that_was_not_made_up_is_told() {
        let told = |micros| late_at_the_end(Duration::from_micros(micros));
        assert_eq!(told(2_000), None);
        assert_eq!(
            told(252_300).unwrap(),
            "the last datagram left 252.3ms late: the run ended before the delay was made up"
        );
    }
}
