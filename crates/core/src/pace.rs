//! Rate-based clocking of one flow: [`RateClock`] says when the next packet may leave.
//!
//! A soft event runs a little late, so the time of the next departure is decided in the handler of
//! the last one, against the schedule of the whole train (soft timers §4.1). A flow therefore has at
//! most one event outstanding, and what a stall delayed is made up in small steps, not in one burst:
//!
//! ```text
//!   target T    │     │     │     │     │     │     │     │     the schedule
//!   sent        ●     ●     ●────── stall ──────●───●───●──●    gaps of the burst interval until
//!                                               │ behind   │    the schedule is reached again
//!                                                          on schedule
//! ```
//!
//! How far a flow may fall behind before places are given up is bounded in time and in packets
//! ([`CatchUp`]); what is given up is counted. Where trigger states are so seldom that a burst interval and the wait for one
//! take as long as the target interval, nothing would ever be made up: then [`Recovery`] lets short trains leave.
//!
//! # Schedules with gaps of their own
//!
//! A [`Schedule`] is a walk along absolute times: evenly spaced, after another [`Pattern`], or those of a
//! recording ([`Trace`]). One rule serves all: a packet is due at its place, but no sooner after the one before it than the burst
//! interval **or the gap between their places, if that is shorter**. So on schedule every gap is the
//! schedule's own, and a short one that follows a late departure is kept, neither stretched to the
//! burst interval nor squeezed; what is behind is made up in the longer ones. For even places that is
//! the paper's rule, since no gap of theirs is shorter than the burst interval.
//!
//! ```text
//!   places   │  ││     │        │ │      a Poisson schedule
//!   sent       ●●●   ●        ●  ●
//!              late  the gap, less what was behind; then its own
//! ```
//!
//! An off period is a gap like any other: nothing falls due in it, so nothing is behind because of it,
//! and what a stall left over is made up in it at the burst interval.
//!
//! # Many flows
//!
//! A [`DepartureQueue`] holds the packets of as many flows as there are and hands out those whose time has
//! come, each flow by a `RateClock` of its own. After a stall that is all of them; who sends them keeps them
//! from leaving in one burst.
//!
//! # When a kernel keeps release times
//!
//! Then packets are handed to it before they are due: [`Ahead`] says how far before, and when to look again.
//!
//! # Where the rate comes from
//!
//! From you, if you know it; soft timers §5.7 takes it as known. Else [`PacketPairs`] estimates the
//! capacity of a path and says how far to trust that, [`AckRate`] measures what a receiver really
//! acknowledges, and [`StartRate`] says at what rate a train begins: a share of the capacity at first, and
//! after an idle time the rate that the last busy period proved. A sender that is clocked by ACKs keeps
//! its protocol and lets an [`AckPacer`] spread only what arrives in lumps.

mod ack;
mod ack_rate;
mod ahead;
mod capacity;
mod clock;
mod error;
mod even;
mod lane;
mod on_off;
mod pattern;
mod poisson;
pub mod queue;
mod recorded;
mod recovery;
mod schedule;
mod start;
mod trace;

use core::time::Duration;

use crate::time::saturating_nanos;
use crate::{Rate, RateError};

pub use ack::AckPacer;
pub use ack_rate::AckRate;
pub use ahead::Ahead;
pub use capacity::{Capacity, PacketPairs};
pub use clock::RateClock;
pub use error::PaceError;
pub use pattern::{OnOff, Pattern};
#[doc(inline)]
pub use queue::DepartureQueue;
pub use recovery::Recovery;
pub use schedule::Schedule;
pub use start::StartRate;
pub use trace::{Speed, Trace, TraceBuilder};

/// The unit that a rate counts, which decides the gap that follows a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Counts {
    /// Packets, whatever their length: one interval each.
    #[default]
    Packets,
    /// Bytes: a packet is followed by the time that its bytes take at the rate ([`Rate::bytes`]).
    /// For even departures only.
    Bytes,
}

/// The rule that places the next departure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// At its place in the schedule, but no sooner than the burst interval after this departure, or the
    /// schedule's own gap if that is shorter.
    #[default]
    ExactDeadline,
    /// The paper's rule: one target interval (the schedule's own gap) from now while on schedule, one
    /// burst interval, if that is shorter, while behind. The mean is the same, the gaps vary more.
    TwoSpeed,
    /// At its place in the schedule, however close: the baseline that bursts after each stall.
    FixedSeries,
    /// One interval (the schedule's own gap) after this departure, whatever became of the schedule: the
    /// baseline that drifts. By how much each event is late is lost for good, so the mean gap is the
    /// target and the mean delay; what that costs is counted as behind and, beyond [`CatchUp`], as
    /// given up.
    Relative,
    /// At once: one departure at every trigger state, as in the overhead experiment of soft timers
    /// §5.5. The rate only counts what would have been given up.
    EveryTrigger,
}

/// The part of what a stall delayed that is made up. The tighter of the two bounds holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CatchUp {
    /// The longest delay that is made up: places further back are given up. At even places as many as
    /// there are whole intervals in it are kept.
    pub time: Duration,
    /// The most packets that are made up, the latest ones; where bytes are counted, as many times the
    /// length of the packet that leaves then. Places at random are not counted ahead:
    /// there it is the time in which that number comes on average.
    pub packets: u64,
}

impl CatchUp {
    /// Missed places are given up at once: the next departure takes the next place of the schedule.
    pub const NONE: CatchUp = CatchUp { time: Duration::ZERO, packets: 0 };
    /// Everything is made up, however long that takes.
    pub const ALL: CatchUp = CatchUp { time: Duration::MAX, packets: u64::MAX };

    /// Makes up at most `time`, however many packets that is.
    pub const fn within(time: Duration) -> Self {
        CatchUp { time, packets: u64::MAX }
    }
}

impl Default for CatchUp {
    /// 10 ms: longer than the pauses a virtual machine's host inserts, shorter than a receiver's
    /// play-out buffer.
    fn default() -> Self {
        CatchUp::within(Duration::from_millis(10))
    }
}

/// The parameters of a [`RateClock`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaceConfig {
    /// The rate to hold on average over a train; for [`Pattern::OnOff`] the rate while on.
    pub rate: Rate,
    /// The unit of the rate.
    pub counts: Counts,
    /// The distribution of departures over time.
    pub pattern: Pattern,
    /// The shortest gap when catching up; `None` is nine sixteenths of the target interval: as fast as
    /// it can be without a receiver seeing two packets back to back. Trigger states come some time
    /// after that, so a longer one may hardly catch up at all.
    pub burst_interval: Option<Duration>,
    /// The part that is made up after a stall.
    pub catch_up: CatchUp,
    /// The rule that places the next departure.
    pub strategy: Strategy,
    /// The trains that end a catch-up where burst intervals alone would not. None by default.
    pub recovery: Recovery,
}

impl PaceConfig {
    /// The defaults at this rate: even departures.
    pub fn new(rate: Rate) -> Self {
        PaceConfig {
            rate,
            counts: Counts::default(),
            pattern: Pattern::default(),
            burst_interval: None,
            catch_up: CatchUp::default(),
            strategy: Strategy::default(),
            recovery: Recovery::default(),
        }
    }

    /// Returns the defaults for packets of any length that share `bits` a second.
    ///
    /// # Errors
    /// [`RateError`] for zero.
    pub fn bits_per_second(bits: u64) -> Result<Self, RateError> {
        Ok(PaceConfig { counts: Counts::Bytes, ..PaceConfig::new(Rate::bytes(bits)?) })
    }

    /// The rate over the whole pattern, off periods included.
    pub fn mean_rate(&self) -> Rate {
        self.pattern.mean_rate(self.rate)
    }

    /// The burst interval in effect: the one that was set, or the default. Where bytes are counted, the
    /// default is that of one byte.
    pub fn shortest_gap(&self) -> Duration {
        let default = nine_sixteenths(saturating_nanos(self.rate.interval()));
        self.burst_interval.unwrap_or(Duration::from_nanos(default))
    }
}

#[inline]
fn nine_sixteenths(nanos: u64) -> u64 {
    nanos / 16 * 9 + nanos % 16 * 9 / 16
}
