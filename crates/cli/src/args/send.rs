//! What `send` is asked for.

use std::fmt;
use std::time::Duration;

use clap::{Args, ValueEnum};
use softtimers::Slice;
use softtimers_core::{CatchUp, Percent};

use super::{OutputArgs, datagram_size};
use crate::pattern::SendPattern;
use crate::units::{self, SendRate};

/// `softtimers send`.
///
/// The sender's own timestamps tell how late each datagram was against its place in the schedule;
/// run `softtimers recv` at the other end to see what really arrived.
#[derive(Args, Debug, Clone)]
#[command(after_help = SEND_EXAMPLES)]
#[command(group(clap::ArgGroup::new("pace").required(true).args(["rate", "interval"])))]
pub struct SendArgs {
    /// Where to send: IP:PORT or NAME:PORT of one host
    ///
    /// An IPv6 address stands in brackets. Broadcast and multicast addresses are refused. Beyond 1,000 packets/s to another machine, a
    /// `softtimers recv` there must agree first.
    #[arg(value_name = "ADDR")]
    pub address: String,

    /// Datagrams or bits of payload a second: 25kpps, 83333pps, 100Mbit
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub rate: Option<SendRate>,

    /// Time between datagrams instead of a rate: 40us, 1ms
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub interval: Option<Duration>,

    /// How datagrams are spread over time: constant, poisson or onoff:ON/OFF
    ///
    /// poisson has random gaps with the interval as their mean; --seed decides them. onoff:10ms/90ms sends at
    /// the rate for 10 ms, is silent for 90 ms, and so on; --rate and --interval are those while it sends.
    #[arg(long, value_name = "PATTERN", default_value = "constant")]
    pub pattern: SendPattern,

    /// Repeat a random pattern: the same number, the same schedule (--pattern poisson only)
    ///
    /// Without it a number is chosen and printed.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// The shortest time between datagrams when catching up [default: 9/16 of the interval]
    ///
    /// At most the interval itself, which means never to catch up. Gaps of a pattern that are shorter are
    /// kept as they are.
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub burst_interval: Option<Duration>,

    /// Bytes of UDP payload in each datagram: 32 to 65507
    #[arg(long, value_name = "BYTES", default_value = "1200", value_parser = datagram_size)]
    pub size: u32,

    /// Flows sent side by side from one socket, each at the rate: 1 to 10000
    ///
    /// Their starts are spread over one interval; --count is that of all together. Datagrams of several flows
    /// that are due leave in one turn (not with --timer signal or off).
    #[arg(long, value_name = "N", default_value = "1", value_parser = flow_count)]
    pub flows: u32,

    /// End after this time [default: 10s, unless --count is given]
    #[arg(long, value_name = "TIME", value_parser = units::positive_duration)]
    pub duration: Option<Duration>,

    /// End after this many datagrams
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// How far behind schedule the sender may fall before it gives datagrams up: a time, none or all
    #[arg(long, value_name = "TIME|none|all", default_value = "10ms", value_parser = catch_up)]
    pub catch_up: CatchUp,

    /// Who says when the next datagram is due
    #[arg(long, value_enum, value_name = "TIMER", default_value_t = Timer::Soft)]
    pub timer: Timer,

    /// What the loop reads the time from
    #[arg(long, value_enum, value_name = "CLOCK", default_value_t = ClockName::Monotonic)]
    pub clock: ClockName,

    /// How late a datagram may be before the backup timer is used (--timer soft only)
    #[arg(long, value_name = "TIME", default_value = "0ns", value_parser = units::duration)]
    pub slack: Duration,

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

    /// Keep this loop on processor N, and the echo server's clients off it
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,

    /// Send fast to another machine without asking a `softtimers recv` there
    ///
    /// Type this only for a network and a host of your own.
    #[arg(long)]
    pub no_handshake: bool,

    /// How to print.
    #[command(flatten)]
    pub output: OutputArgs,
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
    /// A second thread that sleeps until each datagram is due and sends it (clock_nanosleep)
    Thread,
    /// The loop of --timer loop, which never sleeps
    Spin,
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
    /// A UDP echo server kept saturated by clients in another process
    Echo,
}

fn flow_count(text: &str) -> Result<u32, String> {
    let flows = text.parse().ok().filter(|flows| (1..=MOST_FLOWS).contains(flows));
    flows.ok_or_else(|| format!("a number of flows from 1 to {MOST_FLOWS} is allowed"))
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

/// `recv` tells as many apart.
const MOST_FLOWS: u32 = 10_000;

const SEND_EXAMPLES: &str = "\
Examples:
  softtimers recv 127.0.0.1:9000 --once &
  softtimers send 127.0.0.1:9000 --interval 40us --duration 5s
  softtimers send 127.0.0.1:9000 --rate 100Mbit --size 1500 --busy echo
  softtimers send 127.0.0.1:9000 --rate 25kpps --json --assert 'back_to_back<0.01'
  softtimers send 127.0.0.1:9000 --interval 12us --idle spin --cpu-budget 100%
  softtimers send 127.0.0.1:9000 --rate 10kpps --pattern poisson --seed 7
  softtimers send 127.0.0.1:9000 --rate 10kpps --pattern onoff:10ms/90ms
  softtimers send 127.0.0.1:9000 --rate 100pps --flows 1000 --size 200
  softtimers send 192.0.2.7:9000 --rate 10kpps   # asks a `softtimers recv` there first

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold, or the run broke off
   2  bad usage or input; nothing was sent
  77  not possible on this machine; the message says what is missing";

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
    fn slices_are_what_the_kernel_grants() {
        assert_eq!(slice("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(slice("100ms"), Ok(Duration::from_millis(100)));
        for text in ["99us", "101ms", "0s"] {
            assert_eq!(slice(text).unwrap_err(), "the kernel grants slices from 100us to 100ms", "{text}");
        }
    }

    #[test]
    fn flows_are_counted() {
        assert_eq!((flow_count("1"), flow_count("10000")), (Ok(1), Ok(10_000)));
        for text in ["0", "10001", "-1", "many", "1.5", ""] {
            assert_eq!(
                flow_count(text).unwrap_err(),
                "a number of flows from 1 to 10000 is allowed",
                "{text}"
            );
        }
    }
}
