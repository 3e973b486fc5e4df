//! Why a flow cannot be paced as asked: [`PaceError`].

use core::fmt;
use core::time::Duration;

use crate::RateError;

/// Why a flow's parameters were refused, those of its rate included.
///
/// ```
/// use softtimers_core::{PaceConfig, PaceError, Rate, RateClock, RateError};
///
/// fn flow(packets_per_second: u64) -> Result<RateClock, PaceError> {
///     RateClock::new(PaceConfig::new(Rate::per_second(packets_per_second)?))
/// }
///
/// assert_eq!(flow(0), Err(PaceError::Rate(RateError::Zero)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PaceError {
    /// The rate is invalid. Included so that one error type serves a flow and its rate.
    Rate(RateError),
    /// The target could never be held.
    LongBurstInterval {
        /// The burst interval that was asked for.
        burst_interval: Duration,
        /// The longest that is allowed.
        target: Duration,
    },
    /// Only packets can be placed at random or in trains; bytes are paced evenly.
    BytesOfPackets,
    /// An on period of zero: nothing would ever leave.
    NeverOn,
    /// An off period of zero: that is [`Pattern::Constant`](super::Pattern::Constant).
    NeverOff,
    /// On and off periods that are together beyond 64 bits of nanoseconds.
    LongPeriod,
}

impl fmt::Display for PaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PaceError::Rate(error) => error.fmt(f),
            PaceError::LongBurstInterval { burst_interval, target } => {
                write!(f, "burst interval {burst_interval:?}: at most the target interval, {target:?}")
            }
            PaceError::BytesOfPackets => {
                f.write_str("a rate of bytes: only constant; other patterns place packets")
            }
            PaceError::NeverOn => f.write_str("the on period must be above zero"),
            PaceError::NeverOff => {
                f.write_str("the off period must be above zero; without one the pattern is constant")
            }
            PaceError::LongPeriod => f.write_str("on and off together are at most 584 years"),
        }
    }
}

impl core::error::Error for PaceError {}

impl From<RateError> for PaceError {
    fn from(error: RateError) -> Self {
        PaceError::Rate(error)
    }
}
