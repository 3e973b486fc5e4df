//! Rate-based clocking of one flow: [`RateClock`] says when the next packet may leave.
//!
//! A soft event runs a little late, so the time of the next departure is decided in the handler of
//! the last one, against the schedule of the whole train (soft timers §4.1). A flow therefore has at most one
//! event outstanding, and it catches up after a stall in small steps, not in one burst:
//!
//! ```text
//!   target T    │     │     │     │     │     │     │     │     the schedule
//!   sent        ●     ●     ●────── stall ──────●───●───●──●    gaps of the burst interval until
//!                                               │ behind   │    the schedule is reached again
//!                                                          on schedule
//! ```
//!
//! [`CatchUp`] bounds, in time and in packets, how far a flow may fall behind before it skips scheduled
//! times; skipped ones are counted. Where trigger states are so rare that a burst interval and the wait for
//! one take as long as the target interval, the flow would never catch up: then [`Recovery`] lets short
//! trains leave.
//!
//! # Schedules with gaps of their own
//!
//! A [`Schedule`] is a sequence of absolute times: evenly spaced, after another [`Pattern`], or those of a
//! recording ([`Trace`]). One rule serves all: a packet is due at its scheduled time, but no sooner after the
//! one before it than the burst interval **or the gap between their scheduled times, if that is shorter**. So
//! on schedule every gap is the schedule's own, and a short one that follows a late departure is kept,
//! neither stretched to the burst interval nor squeezed; the flow catches up in the longer ones. For an even
//! schedule that is the paper's rule, since none of its gaps is shorter than the burst interval.
//!
//! ```text
//!   places   │  ││     │        │ │      a Poisson schedule
//!   sent       ●●●   ●        ●  ●
//!              late  the gap, less what was behind; then its own
//! ```
//!
//! An off period is a gap like any other: nothing falls due in it, so the flow does not fall behind in it,
//! and may catch up in it at the burst interval.
//!
//! # Many flows
//!
//! A [`DepartureQueue`] holds the packets of any number of flows and hands out those whose time has come,
//! each flow by a `RateClock` of its own. After a stall all flows are due; the sender must keep them from
//! leaving in one burst.
//!
//! # Kernels that keep release times
//!
//! Such a kernel is handed packets before they are due: [`Ahead`] says how long before, and when to wake up
//! for more.
//!
//! # Where the rate comes from
//!
//! From you, if you know it; soft timers §5.7 takes it as known. Otherwise [`AckRate`] measures the rate that a
//! receiver really acknowledges, and [`StartRate`] says at what rate a train begins: a share of the capacity at
//! first, and after an idle time the rate that the last busy period proved. A sender that is clocked by ACKs keeps its
//! protocol and lets an [`AckPacer`] spread only what arrives in lumps.

mod ack;
mod ack_rate;
mod ahead;
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
pub use clock::RateClock;
pub use error::PaceError;
pub use pattern::{OnOff, Pattern};
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
    /// At its scheduled time, but no sooner than the burst interval after this departure, or the schedule's
    /// own gap if that is shorter.
    #[default]
    ExactDeadline,
    /// The paper's rule: one target interval (the schedule's own gap) from now while on schedule, one
    /// burst interval, if that is shorter, while behind. The mean is the same, the gaps vary more.
    TwoSpeed,
    /// At its scheduled time, however close: the baseline that bursts after each stall.
    FixedSeries,
    /// One interval (the schedule's own gap) after this departure, regardless of the schedule: the baseline
    /// that drifts. The lateness of each event is never made up, so the mean gap is the target plus the mean
    /// delay; the loss is counted as behind and, beyond [`CatchUp`], as skipped.
    Relative,
    /// At once: one departure at every trigger state, as in the overhead experiment of soft timers
    /// §5.5. The rate only counts what would have been skipped.
    EveryTrigger,
}

/// How much of a stall's delay a flow makes up. The tighter of the two bounds holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CatchUp {
    /// The longest delay that is made up: scheduled times further back are skipped. Of an even schedule, it
    /// keeps as many as it has whole intervals.
    pub time: Duration,
    /// The most packets that are made up, the latest ones; where bytes are counted, that many times the
    /// length of the packet that leaves then. Random scheduled times are not counted ahead: for them it is
    /// the time in which that number comes on average.
    pub packets: u64,
}

impl CatchUp {
    /// Skips missed scheduled times at once: the next departure takes the next one.
    pub const NONE: CatchUp = CatchUp { time: Duration::ZERO, packets: 0 };
    /// Makes up everything, however long that takes.
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
    /// The shortest gap when catching up; `None` is nine sixteenths of the target interval, along a recording of the
    /// gaps there ([`RateClock::replay`]): as fast as it can be without a receiver seeing two packets back to back. Trigger states come some time
    /// after that, so a longer one may hardly catch up at all.
    pub burst_interval: Option<Duration>,
    /// How much is made up after a stall.
    pub catch_up: CatchUp,
    /// The rule that places the next departure.
    pub strategy: Strategy,
    /// The trains that end a catch-up where burst intervals alone would not; off by default.
    pub recovery: Recovery,
}

impl PaceConfig {
    /// Returns the defaults at this rate: even departures.
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

    /// Returns the rate over the whole pattern, off periods included.
    pub fn mean_rate(&self) -> Rate {
        self.pattern.mean_rate(self.rate)
    }

    /// Returns the burst interval in effect: the one that was set, or the default. Where bytes are counted,
    /// the default is that of one byte.
    pub fn shortest_gap(&self) -> Duration {
        let default = nine_sixteenths(saturating_nanos(self.rate.interval()));
        self.burst_interval.unwrap_or(Duration::from_nanos(default))
    }
}

#[inline]
fn nine_sixteenths(nanos: u64) -> u64 {
    nanos / 16 * 9 + nanos % 16 * 9 / 16
}
