//! Packets that arrive at a machine: [`Arrival`] and its sources.
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
//! A source is an iterator of arrivals in order of time. With the same seed it is the same on every machine:
//! random numbers are core's, in integers, and other arithmetic avoids library functions whose rounding
//! differs between machines.

mod lan;
mod self_similar;

use softtimers_core::{Pattern, Schedule};
use softtimers_core::{Rate, Timestamp, Trace};

pub(crate) use lan::{Bursts, Lan, LanError, Lengths};
pub(crate) use self_similar::{SelfSimilar, SelfSimilarConfig};

/// One packet. A source of packets is an iterator of these, in order of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arrival {
    /// The time at which its last bit arrives.
    pub(crate) at: Timestamp,
    /// The length of the packet.
    pub(crate) bytes: u32,
}

/// The packets of a recording, the first at time zero.
pub(crate) fn of_trace(trace: &Trace) -> impl Iterator<Item = Arrival> + '_ {
    trace.iter().map(|(since, length)| Arrival { at: Timestamp::ZERO + since, bytes: length.into() })
}

/// Packets of `bytes` at the scheduled times of a pattern, without end; `rate` is the mean, or the rate while on.
pub(crate) fn of_pattern(rate: Rate, pattern: Pattern, bytes: u32) -> impl Iterator<Item = Arrival> {
    let mut schedule = Schedule::new(rate, pattern, Timestamp::ZERO);
    std::iter::repeat_with(move || {
        let at = schedule.place();
        schedule.advance();
        Arrival { at, bytes }
    })
}
