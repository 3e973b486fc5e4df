//! How long a sender may be silent.

use std::time::Duration;

/// Returns the longest time for which a flow with this interval may be silent without having ended.
pub(super) fn silence(interval: Option<Duration>) -> Duration {
    interval.unwrap_or_default().saturating_mul(SILENT_INTERVALS).max(SILENCE)
}

/// After this long without traffic the goodbyes must have been lost: `send` sends them right at its end. A slow sender
/// gets [`SILENT_INTERVALS`] in addition.
const SILENCE: Duration = Duration::from_secs(10);
const SILENT_INTERVALS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_flows_may_be_silent_for_longer() {
        assert_eq!(silence(None), SILENCE);
        assert_eq!(silence(Some(Duration::from_micros(40))), SILENCE);
        assert_eq!(silence(Some(Duration::from_secs(60))), Duration::from_secs(180));
        assert_eq!(silence(Some(Duration::MAX)), Duration::MAX);
    }
}
