//! Queues that drop, or mark, before they are full: [`Aqm`].
//!
//! A sender that fills a deep drop-tail queue makes every packet late. Active queue management keeps the wait short
//! whatever the depth; the limit of [`Queue`](crate::Queue) still applies.

mod codel;
mod fq_codel;
mod pie;
#[cfg(test)]
mod pseudocode;

pub use codel::CodelConfig;
pub use fq_codel::FqCodelConfig;
pub use pie::PieConfig;

pub(crate) use codel::{Codel, Store};
pub(crate) use fq_codel::{Accounts, FqCodel};
pub(crate) use pie::{Pie, Verdict};

/// How the queue in front of the bottleneck is managed.
///
/// ```
/// use softtimers_core::Timestamp;
/// use softtimers_wan::{Aqm, Bottleneck, CodelConfig, Direction, PathConfig};
/// use std::time::Duration;
///
/// // Twice what the link carries, for four seconds.
/// let path = PathConfig::default()
///     .bottleneck(Bottleneck::bits_per_second(12_000_000)?)
///     .aqm(Aqm::Codel(CodelConfig::default()));
/// let mut direction = Direction::new(path, 1)?;
/// for packet in 0..8_000 {
///     let now = Timestamp::ZERO + Duration::from_micros(500) * packet;
///     direction.offer(now, 1_500, packet);
///     while direction.pop_due(now).is_some() {}
/// }
/// let counters = direction.counters();
/// assert!(counters.aqm_drops > 20 && counters.aqm_drops <= counters.queue_drops);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Aqm {
    /// Drops the newest packet when the queue is full, and none before.
    #[default]
    DropTail,
    /// Drops packets as they leave the queue, once the wait has been too long for a while (RFC 8289).
    Codel(CodelConfig),
    /// Serves flows in turn, each with its own CoDel (RFC 8290). The caller names the flow of each packet
    /// [offered](crate::Direction::offer_of).
    FqCodel(FqCodelConfig),
    /// Drops packets as they come, with a probability that a controller of the wait sets (RFC 8033).
    Pie(PieConfig),
}

impl Aqm {
    /// The name, as in `--aqm`.
    pub const fn name(self) -> &'static str {
        match self {
            Aqm::DropTail => "droptail",
            Aqm::Codel(_) => "codel",
            Aqm::FqCodel(_) => "fq_codel",
            Aqm::Pie(_) => "pie",
        }
    }
}
