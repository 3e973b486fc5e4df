//! The part that `send` and `replay` share: the end of a run, its engine, and its report.

use std::net::SocketAddr;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use softtimers::Slice;
use softtimers_core::{CatchUp, Idle, Percent, PollBudget, TriggerState};
use softtimers_load::dscp::Dscp;
use softtimers_load::engines::Timer;
use softtimers_load::plan::SendPlan;
use softtimers_load::traffic::Traffic;
use softtimers_load::work::Work;
use softtimers_measure::failure::Failure;
use softtimers_measure::processor::Processor;
use softtimers_measure::units::{self, show_duration};

use crate::args::{EndArgs, StreamArgs};

/// The timer, the loop around it, and its surroundings.
#[derive(Args, Debug, Clone)]
pub(crate) struct EngineArgs {
    /// When it ends.
    #[command(flatten, next_help_heading = TRAFFIC)]
    pub(crate) end: EndArgs,

    /// Do not ask for a softtimers receiver first
    ///
    /// For other programs, which never answer: only the datagrams are sent, without a question before them or a goodbye
    /// behind them. It is no failure then if nobody receives: a refusal is reported once, and the exit code is 0. A receiver
    /// counts such traffic only with `recv --any`, until --count, --duration or a silence. Faster than 1,000 packets/s to
    /// another machine, use it only on a network and a host of your own.
    #[arg(long, help_heading = TRAFFIC, display_order = 9)]
    pub(crate) no_handshake: bool,

    /// Class to ask the network for: 0 to 63, or ef, af11 to af43, cs0 to cs7, va, le
    ///
    /// The differentiated services code point, which every datagram carries in the upper six bits of IPv4's type of service or
    /// IPv6's traffic class, whatever sends it. Networks may change or ignore it.
    #[arg(long, value_name = "CLASS", default_value_t, help_heading = TRAFFIC, hide_short_help = true, display_order = 10)]
    pub(crate) dscp: Dscp,

    /// Skip datagrams later than TIME; none skips all late ones, all skips nothing
    ///
    /// A sender that fell behind sends the datagrams that are late by at most this much, and skips the others. none:
    /// skip everything late. all: send everything, however late.
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = catch_up, help_heading = PACING)]
    pub(crate) catch_up: CatchUp,

    /// How the loop learns that a datagram is due [default: soft]
    ///
    /// `send` compares several, as in soft,loop,timerfd: each sends for a second (-t) in each of --rounds, and a figure's best is said where the
    /// rounds prove it. The receiver must be there for all of them: recv without --once.
    #[arg(long, value_name = "TIMER", value_delimiter = ',', value_parser = timers(), help_heading = LOOP)]
    pub(crate) timer: Vec<Timer>,

    /// How the loop waits when idle (--timer soft) [default: park]
    #[arg(long, value_name = "POLICY", value_parser = policies(), help_heading = LOOP, hide_short_help = true)]
    pub(crate) idle: Option<Idle>,

    /// CPU share for busy-polling (--timer soft) [default: 50%]
    ///
    /// When it is used up, the loop sleeps instead and is late by a wake-up. A rate whose interval is shorter than a
    /// wake-up takes needs 100%.
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, help_heading = LOOP, hide_short_help = true)]
    pub(crate) cpu_budget: Option<Percent>,

    /// Run the loop on CPU N, and the echo server's clients elsewhere
    #[arg(long, value_name = "N", help_heading = LOOP, hide_short_help = true)]
    pub(crate) cpu: Option<usize>,

    /// How late a datagram may be before the backup timer fires (--timer soft) [default: 0ns]
    ///
    /// Datagrams that fall due within the slack leave together, by one wake-up. With several flows the default is 1/32 of their
    /// interval, at most 20 us.
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = LOOP, hide_short_help = true)]
    pub(crate) slack: Option<Duration>,

    /// Scheduler slice to ask for: 100us to 100ms; Linux 6.12 or later
    ///
    /// With a short slice the loop runs as soon as it wakes, also beside a program that computes. It gets no larger share
    /// of the CPU. For every --timer.
    #[arg(long, value_name = "TIME", value_parser = slice, help_heading = LOOP, hide_short_help = true)]
    pub(crate) sched_slice: Option<Duration>,

    /// Other work of the same loop
    #[arg(long, value_enum, value_name = "WORK", default_value_t = Busy::None, help_heading = LOOP)]
    pub(crate) busy: Busy,

    /// Datagrams the echo server handles in a row: 1 to 64 (--busy echo) [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), help_heading = LOOP, hide_short_help = true)]
    pub(crate) echo_batch: Option<u16>,

    /// Do without one trigger state (--timer soft): handler_exit, readiness, send or syscall_exit
    ///
    /// Shows what that trigger state is good for: the loop is the same, but does not check the clock there.
    #[arg(long, value_name = "SOURCE", value_parser = source, help_heading = LOOP, hide_short_help = true)]
    pub(crate) disable_source: Option<TriggerState>,

    #[command(flatten)]
    pub(crate) output: StreamArgs,
}

/// The groups of flags that `send` and `replay` have.
pub(crate) const TRAFFIC: &str = "Traffic";
pub(crate) const PACING: &str = "Pacing";
const LOOP: &str = "Loop and its other work";

impl EngineArgs {
    /// Returns the requested timer, or the default.
    pub(crate) fn timer(&self) -> Timer {
        self.timer.first().copied().unwrap_or_default()
    }

    /// Plans this traffic with this engine. Flags that the engine would silently ignore are refused, so that no result
    /// is misattributed.
    ///
    /// # Errors
    /// A usage failure that names the value and what is allowed.
    pub(crate) fn plan(&self, traffic: Traffic, destination: SocketAddr) -> Result<SendPlan, Failure> {
        // In full: a new flag is used here, or named as one that another function uses.
        let &EngineArgs {
            no_handshake,
            dscp,
            cpu,
            sched_slice,
            disable_source,
            // Of the traffic, which the commands make.
            end: _,
            catch_up: _,
            // By `timer`, `idle`, `slack` and `work`.
            timer: _,
            idle: _,
            cpu_budget: _,
            slack: _,
            busy: _,
            echo_batch: _,
            output: _,
        } = self;
        if let [first, second, ..] = self.timer[..] {
            return Err(Failure::usage(format_args!("--timer {first},{second}: one is allowed here")));
        }
        let plan = SendPlan::new(destination, traffic, self.timer());
        let slack = self.slack(plan.slack)?;
        self.check_timer(&plan.traffic)?;
        let plan = SendPlan {
            slack,
            idle: self.idle(plan.idle)?,
            sched_slice,
            work: self.work()?,
            disabled_source: disable_source,
            cpu: cpu.map(Processor::new).transpose()?,
            no_handshake,
            dscp,
            ..plan
        };
        check_source(&plan)?;
        Ok(plan)
    }

    /// Refuses an engine that cannot drive this traffic.
    fn check_timer(&self, traffic: &Traffic) -> Result<(), Failure> {
        let (timer, flows) = (self.timer(), traffic.flows);
        if timer.needs_even_gaps() && traffic.pattern() != "constant" {
            let given = match &traffic.trace {
                Some(_) => "a recording".to_owned(),
                None => format!("--pattern {}", traffic.pattern()),
            };
            return Err(Failure::usage(format_args!(
                "--timer {timer}: it goes off evenly, {given} does not"
            )));
        }
        if let Err(error) = traffic.clock() {
            let (given, most) =
                (traffic.pace.burst_interval.unwrap_or_default(), traffic.pace.rate.interval());
            return Err(Failure::usage(format_args!(
                "--burst-interval {}: {error}; at most {} is allowed here",
                show_duration(given),
                show_duration(most)
            )));
        }
        if flows > 1 && !timer.drives_several() {
            return Err(Failure::usage(format_args!(
                "--flows {flows}: only --flows 1 is allowed with --timer {timer}"
            )));
        }
        match traffic.end.count {
            Some(count) if !timer.sends() => Err(Failure::usage(format_args!(
                "--count {count}: --timer {timer} sends nothing to count; only --duration ends it"
            ))),
            _ => Ok(()),
        }
    }

    fn slack(&self, usual: Duration) -> Result<Duration, Failure> {
        match self.slack {
            Some(slack) if slack > Duration::ZERO && !self.timer().has_trigger_states() => {
                Err(Failure::usage(format_args!(
                    "--slack {}: only --timer soft has slack; the other timers aim at the due time",
                    show_duration(slack)
                )))
            }
            given => Ok(given.unwrap_or(usual)),
        }
    }

    fn idle(&self, usual: Option<Idle>) -> Result<Option<Idle>, Failure> {
        let given = self.idle.map(|policy| format!("--idle {policy}"));
        let given = given.or_else(|| self.cpu_budget.map(|share| format!("--cpu-budget {share}")));
        if let Some(given) = given {
            if usual.is_none() {
                return Err(Failure::usage(format_args!("{given}: only --timer soft has an idle policy")));
            }
            if let Busy::Compute | Busy::Web = self.busy {
                let work = if self.busy == Busy::Web { "web" } else { "compute" };
                return Err(Failure::usage(format_args!("{given}: a loop with --busy {work} is never idle")));
            }
        }
        Ok(usual.map(|usual| {
            let idle = self.idle.unwrap_or(usual);
            self.cpu_budget.map_or(idle, |share| idle.within(PollBudget::new(share)))
        }))
    }

    fn work(&self) -> Result<Work, Failure> {
        match (self.busy, self.echo_batch) {
            (Busy::Echo, batch) => Ok(Work::Echo { batch: batch.map_or(DEFAULT_ECHO_BATCH, usize::from) }),
            (_, Some(batch)) => {
                Err(Failure::usage(format_args!("--echo-batch {batch}: allowed with --busy echo only")))
            }
            (Busy::None, None) => Ok(Work::None),
            (Busy::Compute, None) => Ok(Work::Compute),
            (Busy::Web, None) => Ok(Work::Web),
        }
    }
}

/// Refuses to disable a source that the loop lacks, or its only one.
fn check_source(plan: &SendPlan) -> Result<(), Failure> {
    let Some(source) = plan.disabled_source else { return Ok(()) };
    let refuse = |why: &str| Err(Failure::usage(format_args!("--disable-source {}: {why}", source.name())));
    if !plan.timer.has_trigger_states() {
        return refuse("only --timer soft has trigger states to do without");
    }
    if !plan.work.can_do_without(source) {
        return refuse("it is the only one of a loop that computes; --busy echo has others");
    }
    Ok(())
}

/// Work that the sending loop does besides sending.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Busy {
    /// Nothing: the loop sleeps between datagrams
    None,
    /// Computation in small pieces, without system calls
    Compute,
    /// The same in pieces as long as the trigger intervals of a busy web server of 1999: 31.6us on average, up to 1ms
    Web,
    /// A UDP echo server kept saturated by clients in another process
    Echo,
}

fn timers() -> impl TypedValueParser<Value = Timer> {
    // A periodic tick is there to be compared with.
    let is_hidden = |timer: &Timer| timer.name() == "tick";
    let names = Timer::all()
        .map(|timer| PossibleValue::new(timer.name()).help(timer.about()).hide(is_hidden(&timer)));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Timer>())
}

fn policies() -> impl TypedValueParser<Value = Idle> {
    let names = Idle::ALL.map(|(name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(names).map(|name| Idle::find(&name).unwrap_or_default())
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

/// Parses a source, except the two that end a loop's sleeps: without them it would not wake.
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

/// Servers that batch at all take a few datagrams; 1 and 16 are the extremes worth comparing.
const DEFAULT_ECHO_BATCH: usize = 4;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::commands::{Cli, Command};

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

    fn idle(flags: &str) -> Result<Option<Idle>, String> {
        let words = ["softtimers", "send", "127.0.0.1:9", "--interval", "1ms"];
        let flags = flags.split(' ').filter(|flag| !flag.is_empty());
        match Cli::try_parse_from(words.into_iter().chain(flags)).map_err(|error| error.to_string())?.command
        {
            Command::Send(args) => args
                .engine
                .idle(Some(Idle::default()).filter(|_| args.engine.timer().has_trigger_states()))
                .map_err(|failure| failure.to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn parking_is_the_default_and_every_policy_has_half_a_processor_unasked() {
        assert_eq!(idle(""), Ok(Some(Idle::default())));
        let share = |flags: &str| f64::from(idle(flags).unwrap().unwrap().budget().share().get()) / 100.0;
        for policy in ["park", "hybrid", "spin"] {
            assert_eq!(share(&format!("--idle {policy}")), 0.5, "{policy}");
            assert_eq!(share(&format!("--idle {policy} --cpu-budget 3%")), 0.03, "{policy}");
        }
        assert_eq!((share(""), share("--cpu-budget 100%")), (0.5, 1.0));
        assert_eq!(idle("--timer loop"), Ok(None));
    }

    #[test]
    fn flags_that_would_do_nothing_are_refused() {
        for (flags, words) in [
            ("--idle spin --timer pwait2", "--idle spin: only --timer soft has an idle policy"),
            ("--idle hybrid --busy compute", "--idle hybrid: a loop with --busy compute is never idle"),
            ("--cpu-budget 50% --timer ms", "--cpu-budget 50%: only --timer soft has an idle policy"),
            ("--cpu-budget 50% --busy compute", "--cpu-budget 50%: a loop with --busy compute is never"),
            ("--cpu-budget 101% --idle spin", "101%"),
            ("--cpu-budget half --idle spin", "half"),
            ("--idle sleep", "possible values: park, hybrid, spin"),
        ] {
            let message = idle(flags).unwrap_err();
            assert!(message.contains(words), "{flags}: {message}");
        }
    }
}
