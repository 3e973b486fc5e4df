//! How a run is driven, whatever it sends: what `send` and `replay` have in common.

use std::fmt;
use std::time::Duration;

use clap::{Args, ValueEnum};
use softtimers::{Slice, TriggerState};
use softtimers_core::{CatchUp, Percent};

use crate::units;

/// The timer, the loop around it, and its surroundings.
#[derive(Args, Debug, Clone)]
pub struct EngineArgs {
    /// How far behind schedule the sender may fall before it gives datagrams up: a time, none or all
    #[arg(long, value_name = "TIME|none|all", default_value = "10ms", value_parser = catch_up)]
    pub catch_up: CatchUp,

    /// Who says when the next datagram is due
    #[arg(long, value_enum, value_name = "TIMER", default_value_t = Timer::Soft)]
    pub timer: Timer,

    /// What the loop reads the time from
    #[arg(long, value_enum, value_name = "CLOCK", default_value_t = ClockName::Monotonic)]
    pub clock: ClockName,

    /// How late a datagram may be before the backup timer is used (--timer soft only) [default: 0ns]
    ///
    /// What falls due within it leaves together, by one wake-up. Several flows have a 32nd of their interval
    /// unless given, at most 20 us.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub slack: Option<Duration>,

    /// What the loop does when nothing is due (--timer soft only) [default: park]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub idle: Option<IdlePolicy>,

    /// How much of one processor may be polled away, whatever --idle (--timer soft only) [default: 50%]
    ///
    /// When it is used up, the loop sleeps instead, and is late by a wake-up. A rate whose interval is shorter
    /// than a wake-up takes needs 100% to be held.
    #[arg(long, value_name = "PERCENT", value_parser = units::percent)]
    pub cpu_budget: Option<Percent>,

    /// The slice to ask the scheduler for: 100us to 100ms (Linux 6.12 or later)
    ///
    /// With a short one the loop runs as soon as it wakes, also beside a program that computes. It gets no
    /// larger share of the processor. Whatever the timer.
    #[arg(long, value_name = "TIME", value_parser = slice)]
    pub sched_slice: Option<Duration>,

    /// Work that the same loop does meanwhile
    #[arg(long, value_enum, value_name = "WORK", default_value_t = Busy::None)]
    pub busy: Busy,

    /// Datagrams the echo server takes in one go, 1 to 64 (--busy echo only) [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub echo_batch: Option<u16>,

    /// Do without the trigger states of one source: handler_exit, readiness, send or syscall_exit
    ///
    /// Shows what they are good for: the loop is the same, but does not look at the clock there (--timer soft
    /// only).
    #[arg(long, value_name = "SOURCE", value_parser = source)]
    pub disable_source: Option<TriggerState>,

    /// Keep this loop on processor N, and the echo server's clients off it
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,

    /// Send without asking a `softtimers recv`, and go on whether or not anybody is there
    ///
    /// A receiver then counts the traffic only with `recv --any`. To another machine at more than 1,000 packets/s type
    /// this only for a network and a host of your own.
    #[arg(long)]
    pub no_handshake: bool,
}

/// Who says when the next datagram is due.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Timer {
    /// softtimers: the clock is checked at every trigger state, one backup timer at the deadline
    Soft,
    /// The loop checks a heap of due times after each handler: what five lines do without softtimers
    Loop,
    /// The wait's own time-out, in nanoseconds (epoll_pwait2)
    Pwait2,
    /// The wait's own time-out, rounded up to whole milliseconds, as most event loops have it
    Ms,
    /// A kernel timer descriptor, armed for each datagram
    Timerfd,
    /// A POSIX timer, armed for each datagram: its signal interrupts the loop, and its handler sends
    Signal,
    /// A POSIX timer that goes off at every interval: each signal sends one datagram, a lost tick none
    Tick,
    /// A second thread that sleeps until each datagram is due and sends it (clock_nanosleep)
    Thread,
    /// The loop of --timer loop, which never sleeps
    Spin,
    /// The kernel, given each datagram up to 10 ms ahead of its time: needs the queue fq on the way (SO_TXTIME)
    Kernel,
    /// Nobody: a plain epoll loop does only the work, as a baseline for the other timers
    Off,
}

/// What the loop reads the time from.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockName {
    /// The kernel's CLOCK_MONOTONIC
    Monotonic,
    /// The processor's time stamp counter, compared with the former; not on every machine
    Tsc,
}

/// What a loop driven by softtimers does when nothing is due.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IdlePolicy {
    /// Sleep until just before the deadline, by what a wake-up takes at the least
    #[default]
    Park,
    /// Sleep until before the deadline, by what few wake-ups exceed, and poll the rest away
    Hybrid,
    /// Poll, within the budget
    Spin,
}

impl fmt::Display for IdlePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IdlePolicy::Park => "park",
            IdlePolicy::Hybrid => "hybrid",
            IdlePolicy::Spin => "spin",
        })
    }
}

/// Work that the sending loop does beside sending.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Busy {
    /// Nothing: the loop sleeps between datagrams
    None,
    /// Computation in small pieces, without system calls
    Compute,
    /// The same in pieces as long as a busy web server of 1999 was away: 31.6us on average, up to 1ms
    Web,
    /// A UDP echo server kept saturated by clients in another process
    Echo,
}

fn slice(text: &str) -> Result<Duration, String> {
    let slice = units::duration(text).map_err(|error| error.to_string())?;
    let allowed = Slice::ALLOWED;
    if allowed.contains(&slice) {
        return Ok(slice);
    }
    let [least, most] = [allowed.start(), allowed.end()].map(|&bound| units::show_duration(bound));
    Err(format!("the kernel grants slices from {least} to {most}"))
}

/// Not the two that end a loop's sleeps: without them it would not wake.
fn source(text: &str) -> Result<TriggerState, String> {
    use TriggerState::{HandlerExit, Readiness, Send, SyscallExit};
    let allowed = [HandlerExit, Readiness, Send, SyscallExit];
    allowed.into_iter().find(|source| source.name() == text).ok_or_else(|| {
        let names = allowed.map(TriggerState::name).join(", ");
        format!("one of {names} is allowed")
    })
}

fn catch_up(text: &str) -> Result<CatchUp, String> {
    match text {
        "none" => Ok(CatchUp::NONE),
        "all" => Ok(CatchUp::ALL),
        time => match units::duration(time) {
            Ok(time) => Ok(CatchUp::within(time)),
            Err(error) => Err(format!("{error}; none and all are allowed too")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catch_up_is_a_time_or_a_word() {
        assert_eq!(catch_up("none"), Ok(CatchUp::NONE));
        assert_eq!(catch_up("all"), Ok(CatchUp::ALL));
        assert_eq!(catch_up("5ms"), Ok(CatchUp::within(Duration::from_millis(5))));
        assert!(catch_up("some").unwrap_err().ends_with("none and all are allowed too"));
    }

    #[test]
    fn sources_that_can_be_done_without_have_names() {
        assert_eq!(source("syscall_exit"), Ok(TriggerState::SyscallExit));
        for text in ["idle", "backup", "protocol_timer", "Send", ""] {
            let refused = source(text).unwrap_err();
            assert_eq!(refused, "one of handler_exit, readiness, send, syscall_exit is allowed", "{text}");
        }
    }

    #[test]
    fn slices_are_what_the_kernel_grants() {
        assert_eq!(slice("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(slice("100ms"), Ok(Duration::from_millis(100)));
        for text in ["99us", "101ms", "0s"] {
            assert_eq!(slice(text).unwrap_err(), "the kernel grants slices from 100us to 100ms", "{text}");
        }
    }
}
