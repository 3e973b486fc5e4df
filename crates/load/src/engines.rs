//! Engines decide when the next datagram is due: softtimers, or what programs do today, in one list.
//!
//! They drive the same session, and differ only in how they notice that a datagram is due:
//!
//! ```text
//!   --timer    the due time is noticed                          a sleep is bounded by
//!   soft       after every handler, and in the middle of        epoll_pwait2, to the deadline
//!              answering more than 8 requests, by SoftTimers
//!   loop       after every handler, by a heap and a clock       epoll_pwait2, to the next due time
//!   loop-inside  the same, and in the middle of answering many  epoll_pwait2, to the next due time
//!   pwait2     when the wait returns                            epoll_pwait2, to the next due time
//!   ms         when the wait returns                            the same, rounded up to whole ms
//!   timerfd    when its descriptor is reported ready            the descriptor
//!   signal     wherever its signal interrupts the loop          the signal
//!   tick       wherever a periodic signal interrupts            the signal
//!   thread     when a second thread wakes up                    clock_nanosleep, to the due time
//!   spin       after every handler, by a heap and a clock       – it never sleeps
//!   kernel     by the kernel's queue; the loop hands over ahead epoll_pwait2, to the next hand-over
//!   off        never: a plain epoll loop does only the work     –
//! ```
//!
//! `soft` is softtimers; `loop` is what five lines achieve without it on one flow; the others are what programs do
//! today. Each is used at its best: absolute times, 1 ns of timer slack, the same catch-up rule. A signal's handler
//! sends where it interrupts, because a handler that only sets a flag is noticed no sooner than a clock is read.
//! (`tick` is the exception: the paper's hardware timer, which makes up nothing.) Only softtimers' own engines, `soft`
//! and `signal`, wake early by the wake-up time; the others aim at the due time itself, as programs do.
//!
//! `off` is the loop without pacing, and throughput retained is relative to it: softtimers' own cost at each trigger
//! state counts, as do the clock readings of `loop`.

mod engine;
mod kernel;
mod plain_loop;
mod signal;
pub(crate) mod soft;
mod thread;
mod time_outs;
mod timerfd;
pub(crate) mod work_loop;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use softtimers_core::PaceConfig;
use softtimers_measure::failure::Failure;

use crate::session::{Handling, Session};

use engine::Engine;

/// The engines, in the order of `--help`; the first is the default.
static ALL: [Engine; 12] = [
    soft::SOFT,
    time_outs::LOOP,
    time_outs::LOOP_INSIDE,
    time_outs::PWAIT2,
    time_outs::MS,
    timerfd::TIMERFD,
    signal::SIGNAL,
    signal::TICK,
    thread::THREAD,
    time_outs::SPIN,
    kernel::KERNEL,
    time_outs::OFF,
];

/// The engine that decides when the next datagram is due: one of a list, by name.
///
/// ```
/// use softtimers_load::engines::Timer;
///
/// let timer: Timer = "timerfd".parse()?;
/// assert_eq!(timer.to_string(), "timerfd");
/// assert_eq!(Timer::default().to_string(), "soft");
/// assert!("hourglass".parse::<Timer>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy)]
pub struct Timer(&'static Engine);

impl Timer {
    /// Returns all engines, in the order of `--help`.
    pub fn all() -> impl Iterator<Item = Timer> {
        ALL.iter().map(Timer)
    }

    /// Returns the name as typed.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns a line about the engine.
    pub fn about(self) -> &'static str {
        self.0.about
    }

    /// Returns the pace that the engine keeps for this one: a periodic timer makes up nothing.
    #[must_use]
    pub fn pace(self, pace: PaceConfig) -> PaceConfig {
        (self.0.pace)(pace)
    }

    /// Returns whether the engine sends at all.
    pub fn sends(self) -> bool {
        self.0.sends
    }

    /// Returns whether the engine can drive several flows, or a flow of which several datagrams leave at once.
    pub fn drives_several(self) -> bool {
        self.0.drives_several
    }

    /// Returns whether the engine needs equal gaps.
    pub fn needs_even_gaps(self) -> bool {
        self.0.needs_even_gaps
    }

    /// Returns whether the engine has trigger states, and so a slack, an idle policy, and sources that can be disabled.
    pub fn has_trigger_states(self) -> bool {
        self.0.has_trigger_states
    }

    /// Returns whether the engine hands datagrams to the kernel ahead of their times.
    pub fn hands_over_ahead(self) -> bool {
        self.0.handling.ahead
    }

    pub(crate) fn handling(self) -> Handling {
        self.0.handling
    }

    pub(crate) fn check(self, destination: SocketAddr) -> Result<(), Failure> {
        (self.0.check)(destination)
    }

    pub(crate) fn drive(self, session: &mut Session) -> io::Result<()> {
        (self.0.drive)(session)
    }
}

impl Default for Timer {
    fn default() -> Self {
        Timer(&ALL[0])
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Timer {}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timer({})", self.name())
    }
}

/// Prints the name as typed.
impl fmt::Display for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Timer {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = || Timer::all().map(Timer::name).collect::<Vec<_>>().join(", ");
        Timer::all()
            .find(|timer| timer.name() == name)
            .ok_or_else(|| format!("one of {} is allowed", names()))
    }
}

impl Serialize for Timer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_are_different() {
        let names: Vec<&str> = Timer::all().map(Timer::name).collect();
        assert_eq!(names.len(), ALL.len());
        for (place, name) in names.iter().enumerate() {
            assert_eq!(name.parse::<Timer>().map(Timer::name), Ok(*name));
            assert!(!names[..place].contains(name), "{name}");
        }
        assert!("hourglass".parse::<Timer>().unwrap_err().starts_with("one of soft, loop, "));
    }
}
