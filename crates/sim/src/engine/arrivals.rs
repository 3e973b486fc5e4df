//! Packets that come to a machine: [`Arrival`], and where they come from.
//!
//! ```text
//!   constant       │   │   │   │   │   │   │   │   │   │   │    core's Schedule
//!   Poisson        ││    │  │       │ │││     │   │  │       │    the same
//!   on and off     │││││││││            │││││││││               the same
//!   self-similar   ││ │││││ │      ││ │        │││││││││││ │    SelfSimilar: bursts at every scale of time
//!   a LAN's        ││││  │││   ││                 │      ││││   Lan: sessions of trains, and single packets
//!   recorded       times and lengths of a Trace
//! ```
//!
//! A source is an iterator of arrivals in order of time, and one of the same seed is the same on every machine:
//! numbers at random are core's, in whole numbers, and what needs more than those uses no function of a library that
//! may round as it likes.

mod lan;
mod self_similar;

use softtimers_core::pace::{Pattern, Schedule};
use softtimers_core::{Rate, Timestamp, Trace};

pub use lan::{Bursts, Lan, LanError, Lengths};
pub use self_similar::{SelfSimilar, SelfSimilarConfig};

/// One packet. A source of packets is an iterator of these, in order of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When its last bit is there.
    pub at: Timestamp,
    /// How long it is.
    pub bytes: u32,
}

/// The packets of a recording, the first at time zero.
pub fn of_trace(trace: &Trace) -> impl Iterator<Item = Arrival> + '_ {
    trace.iter().map(|(since, length)| Arrival { at: Timestamp::ZERO + since, bytes: length.into() })
}

/// Packets of so many bytes at the places of a pattern, without end; `rate` is the mean, or the rate while on.
///
/// ```
/// use softtimers_core::pace::Pattern;
/// use softtimers_core::{Rate, Timestamp};
/// use softtimers_sim::arrivals::of_pattern;
///
/// let arrivals = of_pattern(Rate::per_second(1_000)?, Pattern::Constant, 1_500);
/// assert!(arrivals.take(3).map(|packet| packet.at).eq([0, 1_000, 2_000].map(Timestamp::from_micros)));
/// # Ok::<(), softtimers_core::RateError>(())
/// ```
pub fn of_pattern(rate: Rate, pattern: Pattern, bytes: u32) -> impl Iterator<Item = Arrival> {
    let mut schedule = Schedule::new(rate, pattern, Timestamp::ZERO);
    std::iter::repeat_with(move || {
        let at = schedule.place();
        schedule.advance();
        Arrival { at, bytes }
    })
}
