//! [`Generator`]: sends frames at a rate beyond any socket, out of one end of a virtual cable.
//!
//! A program in the kernel sends them, so a frame needs no system call: the kernel runs an XDP program over
//! the same few frames again and again (`BPF_PROG_TEST_RUN` with live frames), and it sends each out of the
//! interface. One call lasts for the whole run, because a call takes longer than sending some hundred frames;
//! the program itself keeps the pace, by reading the clock until the next frame's scheduled time:
//!
//! ```text
//!   run ─▶ ┌ program ────────────────────────────────────────┐
//!          │ all sent?            ── yes ─▶ nothing           │   the words that both sides share:
//!          │ in a burst?          ── yes ─▶ send              │   next place, burst, sent, forfeited, lateness
//!          │ its time has come?   ── no ──▶ nothing (50 µs)   │
//!          │   too far behind: give places up                 │
//!          └─ write the frame's head anew, number it, send ───┘ ─▶ cable ─▶ the other end
//! ```
//!
//! It uses a whole CPU while it runs, also at a low rate. That suits overloading a forwarder; to send evenly
//! beside other work, use `softtimers send`.
//!
//! Only on virtual cables (veth), to spare a real network's switches and hosts. The other end must accept
//! redirected frames: with an XDP program attached there, or `ethtool -K PEER gro on`.

mod config;
mod program;

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use softtimers::Monotonic;
use softtimers_core::{Clock, Timestamp};
use softtimers_linux::bpf::{self, Program, SharedWords};
use softtimers_linux::optional::is_killed;
use softtimers_linux::signal_timer::SignalTimer;

use softtimers_net::packet::Interface;
use softtimers_trials::command;

use config::{FRACTION, LONGEST_GAP, invalid};
use program::Word;

pub(super) use config::GeneratorConfig;

/// Sends frames as fast as a CPU can, evenly.
#[derive(Debug)]
pub(super) struct Generator {
    interface: Interface,
    program: OwnedFd,
    words: SharedWords,
    config: GeneratorConfig,
    /// The cable's counts before.
    before: CableCounts,
    begin: Option<Timestamp>,
}

/// Counts of a [`Generator`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Generated {
    /// Frames that the cable took.
    pub(super) sent: u64,
    /// Frames for which the other end, which is slower, had no room. Not sent again.
    pub(super) refused: u64,
    /// Skipped frames.
    pub(super) forfeited: u64,
    /// From the first burst to the last one.
    pub(super) span: Duration,
    /// Bursts that have left.
    pub(super) bursts: u64,
    /// The sum of all bursts' lateness, against their scheduled times.
    pub(super) late: Duration,
    /// The lateness of the latest burst.
    pub(super) latest: Duration,
}

impl Generator {
    /// Makes a generator at this end of a cable.
    ///
    /// # Errors
    /// `InvalidInput` for a configuration that is not allowed, and for an interface that is not a virtual
    /// cable or is down; `PermissionDenied` without `CAP_BPF` and `CAP_NET_ADMIN`; `Unsupported` before Linux
    /// 5.18.
    pub(super) fn new(interface: Interface, config: GeneratorConfig) -> io::Result<Self> {
        config.check()?;
        Self::check(&interface)?;
        let needs = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied if !is_killed(&error) => {
                io::Error::new(error.kind(), "a program in the kernel needs CAP_BPF and CAP_NET_ADMIN")
            }
            _ => error,
        };
        let words = SharedWords::new(Word::COUNT).map_err(needs)?;
        let code = program::program(&config, interface.index(), words.as_raw_fd());
        let program = bpf::load(Program::Xdp, &code).map_err(needs)?;
        let before = CableCounts::read(&interface)?;
        Ok(Generator { interface, program, words, config, before, begin: None })
    }

    /// Checks whether a generator may send out of this interface, as [`Generator::new`] does.
    ///
    /// # Errors
    /// `InvalidInput` for an interface that is not an end of a virtual cable (veth), or is down.
    pub(super) fn check(interface: &Interface) -> io::Result<()> {
        let mut link = Command::new("ip");
        link.args(["-d", "link", "show", "dev", interface.name()]);
        let described = command::output(&mut link).map_err(io::Error::other)?;
        if !described.split_whitespace().any(|word| word == "veth") {
            return Err(invalid(format!("{} is no virtual cable (veth)", interface.name())));
        }
        if !interface.is_up() {
            return Err(invalid(format!("{} is down", interface.name())));
        }
        Ok(())
    }

    /// Sends until all frames are sent, or a signal comes; then call it again. The first call starts the
    /// clock.
    ///
    /// # Errors
    /// `Unsupported` if the other end does not accept redirected frames, or the kernel lacks live frames; as
    /// [`SignalTimer::new`], which interrupts the run at its end.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let timer = SignalTimer::new()?;
        let batch = self.config.batch();
        let begin = self.begin.unwrap_or_else(|| self.start());
        self.begin = Some(begin);
        let mut until = begin + self.expected() + SLACK;
        let mut behind = BEHIND;
        loop {
            timer.arm_at(until)?;
            let outcome = bpf::run_live(self.program.as_fd(), &self.config.frame, self.most_runs(), batch);
            timer.disarm()?;
            match outcome {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    let message = "this kernel does not run programs over live frames; Linux 5.18 does";
                    return Err(io::Error::new(io::ErrorKind::Unsupported, message));
                }
                Err(error) => return Err(error),
            }
            self.see_some_leave()?;
            let now = Monotonic.now();
            if self.is_done() || now < until {
                // Or it was another signal.
                return Ok(());
            }
            // Behind schedule: end a little later, and increasingly later on a machine with slow calls, or no
            // call would get beyond its own beginning.
            until = now + behind;
            behind = behind.saturating_mul(2).min(LONGEST_GAP);
        }
    }

    /// Returns whether all frames are sent.
    pub(super) fn is_done(&self) -> bool {
        let ended = self.words.get(Word::NEXT) >= self.words.get(Word::END);
        let between = self.words.get(Word::IN_BURST) >= u64::from(self.config.burst);
        let all = self.words.get(Word::SENT) >= self.words.get(Word::MOST_FRAMES);
        self.begin.is_some() && (all || ended && between)
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    /// If the system does not report how many the cable refused.
    pub(super) fn generated(&self) -> io::Result<Generated> {
        let get = |word| self.words.get(word);
        let refused = CableCounts::read(&self.interface)?.refused.saturating_sub(self.before.refused);
        let nanos = |word| Duration::from_nanos(get(word) >> FRACTION);
        Ok(Generated {
            sent: get(Word::SENT).saturating_sub(refused),
            refused,
            forfeited: get(Word::FORFEITED) * u64::from(self.config.burst),
            span: nanos(Word::LAST).saturating_sub(nanos(Word::FIRST)),
            bursts: get(Word::BURSTS),
            late: nanos(Word::LATE),
            latest: nanos(Word::LATEST),
        })
    }

    fn start(&self) -> Timestamp {
        let config = &self.config;
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let fixed = |time: Duration| nanos(time.min(LONGEST_GAP)) << FRACTION;
        let begin = Monotonic.now();
        self.words.set(Word::START, begin.as_nanos());
        self.words.set(Word::NEXT, fixed(HEAD_START));
        self.words.set(Word::END, fixed(config.duration.unwrap_or(LONGEST_GAP)) + fixed(HEAD_START));
        self.words.set(Word::GAP, config.gap());
        self.words.set(Word::IN_BURST, config.burst.into());
        self.words.set(Word::MOST_FRAMES, config.count.unwrap_or(u64::MAX));
        self.words.set(Word::CATCH_UP, fixed(config.catch_up));
        begin
    }

    /// The time that it will take.
    fn expected(&self) -> Duration {
        let by_count = self.config.count.map(|count| {
            let bursts = count.div_ceil(self.config.burst.into());
            let nanos = (u128::from(bursts) * u128::from(self.config.gap())) >> FRACTION;
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        });
        let times = [by_count, self.config.duration, Some(LONGEST_GAP)];
        times.into_iter().flatten().min().unwrap_or(LONGEST_GAP) + HEAD_START
    }

    /// Returns an upper bound of the program's runs in a call: for each frame, and while it waits. It ends
    /// the call if the timer expires before the call has begun.
    fn most_runs(&self) -> u32 {
        let expected = self.expected().as_nanos();
        let bursts = (expected << FRACTION) / u128::from(self.config.gap()) + 1;
        let frames = bursts * u128::from(self.config.burst);
        let runs = 2 * (frames + expected / SHORTEST_WAIT.as_nanos()) + 10_000;
        u32::try_from(runs).unwrap_or(u32::MAX).min(i32::MAX as u32)
    }

    /// Checks that frames leave: an end that does not accept redirected frames drops them silently.
    fn see_some_leave(&self) -> io::Result<()> {
        // Other programs may send there, and our last frames may still be under way.
        let taken = CableCounts::read(&self.interface)?.taken.saturating_sub(self.before.taken);
        if taken < self.generated()?.sent / 2 {
            let message = format!(
                "nothing left {}: its other end must be up and take frames of programs; there, ethtool -K PEER gro on",
                self.interface.name()
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        Ok(())
    }
}

/// An interface's counts of frames.
#[derive(Clone, Copy, Debug)]
struct CableCounts {
    taken: u64,
    refused: u64,
}

impl CableCounts {
    /// Reads them in the network of this thread.
    fn read(interface: &Interface) -> io::Result<Self> {
        let text = fs::read_to_string("/proc/thread-self/net/dev")?;
        let line =
            text.lines().find_map(|line| line.trim().strip_prefix(interface.name())?.strip_prefix(':'));
        let columns: Vec<u64> =
            line.unwrap_or_default().split_whitespace().map_while(|word| word.parse().ok()).collect();
        match columns[..] {
            [.., taken, _, refused, _, _, _, _] if columns.len() == 16 => Ok(CableCounts { taken, refused }),
            _ => Err(io::Error::other(format!("no counts of {}", interface.name()))),
        }
    }
}

/// The time allowed for the beginning.
const HEAD_START: Duration = Duration::from_millis(1);
/// The shortest wait of a run of the program if nothing is due.
const SHORTEST_WAIT: Duration = Duration::from_micros(10);
/// The time by which the last frame within the first call may leave later than planned: to be interrupted before it
/// has, and to begin another call, would make a hole in the schedule.
const SLACK: Duration = Duration::from_millis(20);
/// The allowed lateness of a generator. A call is short compared with it, on an unloaded machine.
const BEHIND: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use softtimers_core::Rate;

    use super::*;

    fn config() -> GeneratorConfig {
        GeneratorConfig {
            frame: vec![0; 60],
            head: 42,
            number_at: Some(34),
            due_at: None,
            rate: Rate::per_second(1_000_000).unwrap(),
            burst: 1,
            catch_up: Duration::from_millis(1),
            count: None,
            duration: None,
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(config().check().is_ok());
        let refused = [
            (GeneratorConfig { frame: vec![0; 13], ..config() }, "13 bytes"),
            (GeneratorConfig { frame: vec![0; 3_401], ..config() }, "3401"),
            (GeneratorConfig { head: 61, ..config() }, "head of 61"),
            (GeneratorConfig { number_at: Some(35), ..config() }, "at 35"),
            (GeneratorConfig { due_at: Some(usize::MAX), ..config() }, "head of 42"),
            (GeneratorConfig { burst: 0, ..config() }, "bursts of 0"),
            (GeneratorConfig { burst: 65, ..config() }, "bursts of 65"),
            (GeneratorConfig { duration: Some(LONGEST_GAP * 2), ..config() }, "a day"),
        ];
        for (config, part) in refused {
            let error = config.check().unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn gaps_are_exact_to_a_millionth() {
        let gap =
            |pps, burst| GeneratorConfig { rate: Rate::per_second(pps).unwrap(), burst, ..config() }.gap();
        assert_eq!((gap(1_000_000, 1), gap(1_000_000, 4)), (1_000 << 16, 4_000 << 16));
        let error = gap(1_227_000, 1) as f64 / 65_536.0 * 1_227_000.0 / 1e9 - 1.0;
        assert!(error.abs() < 1e-6, "{error}");
    }

    #[test]
    fn batches_are_bursts_until_they_are_too_close() {
        let batch =
            |pps, burst| GeneratorConfig { rate: Rate::per_second(pps).unwrap(), burst, ..config() }.batch();
        assert_eq!(
            [batch(1, 1), batch(500_000, 1), batch(1_000_000, 1), batch(100_000_000, 1)],
            [1, 1, 2, 64]
        );
        assert_eq!([batch(1_000, 4), batch(4_000_000, 4), batch(10_000_000, 64)], [4, 8, 64]);
    }
}
