//! The commands, a folder each: `args` is what is typed and what it means, `run` what is done, `show` what is told.

pub(crate) mod bench;
pub(crate) mod capture;
pub(crate) mod doctor;
pub(crate) mod documents;
pub(crate) mod echo;
pub(crate) mod forward;
pub(crate) mod noise;
pub(crate) mod probe;
mod receiving;
pub(crate) mod recv;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod send;
pub(crate) mod sim;
pub(crate) mod wan;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use softtimers_measure::child;
use softtimers_measure::failure::{Exit, Failure, one_line};

use crate::run::carry_out;
use crate::run::output::{Output, print, say};

use bench::args::{BenchArgs, BenchPlan};
use bench::run::Overload;
use capture::args::{Capture, CaptureArgs};
use doctor::args::{Doctor, DoctorArgs};
use doctor::features;
use doctor::features::ProbeFeatureArgs;
use documents::{CompletionsArgs, ManArgs};
use echo::args::{Echo, EchoClientArgs};
use forward::args::{ForwardArgs, ForwardPlan};
use noise::args::{Noise, NoiseArgs, Rates};
use probe::args::{KernelProbe, ProbeArgs};
use recv::args::{Recv, RecvArgs};
use replay::args::{Replay, ReplayArgs};
use report::args::{ReportArgs, WrittenReport};
use send::args::{Send, SendArgs};
use send::generate::Generate;
use sim::SimArgs;
use wan::args::{WanArgs, WanPlan};
use wan::run::Emulator;
use wan::self_test::SelfTest;

/// Paced UDP traffic from an ordinary process, and what timers cost on this machine.
///
/// softtimers releases packets at microsecond times by checking a clock where a program already
/// passes, and wakes the kernel only when it must. `send` shows it; `recv` measures it from outside.
#[derive(Parser, Debug)]
#[command(name = "softtimers", version, propagate_version = true, after_help = Exit::HELP, max_term_width = 100)]
pub(crate) struct Cli {
    /// End with this process, which must be the parent
    #[arg(long, value_name = "PID", hide = true)]
    pub(crate) with_parent: Option<u32>,

    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Send UDP datagrams at an even rate, or after a pattern
    Send(SendArgs),
    /// Receive such traffic and tell how evenly it came
    Recv(RecvArgs),
    /// Send with the times and lengths of a recording: pcap, pcapng or lines of t_us,len
    Replay(ReplayArgs),
    /// Emulate a network path between two addresses: delay, rate, queue, loss; no root
    Wan(Box<WanArgs>),
    /// Forward between two interfaces, or relay UDP datagrams without root, so that overload is survived
    Forward(Box<ForwardArgs>),
    /// Write what passes an interface to a file of pcapng, no later than asked for
    Capture(Box<CaptureArgs>),
    /// Measure how often the kernel passes trigger states, by eBPF
    Probe(ProbeArgs),
    /// Run the papers' experiments on a simulated machine
    #[command(subcommand)]
    Sim(SimArgs),
    /// Measure what timers cost on this machine, and whether softtimers would help
    Doctor(DoctorArgs),
    /// Find a receiver's loss-free rate, and what becomes of it beyond; no root
    Bench(Box<BenchArgs>),
    /// Measure what holds a computation up on this machine, and what it does to a job of many nodes
    Noise(NoiseArgs),
    /// Make a report of everything: this machine and the papers, in one file of HTML
    Report(ReportArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page of this command, or of a subcommand
    Man(ManArgs),
    /// The load side of `send --busy echo`
    #[command(hide = true)]
    EchoClient(EchoClientArgs),
    /// One of the probes of `doctor`
    #[command(hide = true)]
    ProbeFeature(ProbeFeatureArgs),
}

/// Does what `line` asks for, the program's name first, and says what to answer the caller.
///
/// A failure is one line on stderr; stdout then has only what a run that was finished found.
pub(crate) fn run(line: impl IntoIterator<Item = OsString>) -> Exit {
    let cli = match Cli::try_parse_from(line) {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    match cli.with_parent.map_or(Ok(()), child::end_with).and_then(|()| dispatch(&cli.command)) {
        Ok(()) => Exit::Ok,
        Err(failure) => {
            say(format_args!("softtimers: {failure}"));
            failure.exit()
        }
    }
}

fn dispatch(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Send(args) => match Generate::of(args)? {
            Some(mut command) => carry_out(&mut command),
            None => carry_out(&mut Send::new(args)?),
        },
        Command::Recv(args) => carry_out(&mut Recv::new(args)?),
        Command::Replay(args) => carry_out(&mut Replay::new(args)?),
        Command::Wan(args) if args.self_test => {
            carry_out(&mut SelfTest { output: Output::from(&args.output) })
        }
        Command::Wan(args) => carry_out(&mut Emulator::new(WanPlan::new(args)?)?),
        Command::Forward(args) => carry_out(&mut ForwardPlan::new(args)?),
        Command::Capture(args) => carry_out(&mut Capture::new(args)?),
        Command::Probe(args) => carry_out(&mut KernelProbe::new(args)?),
        Command::Sim(args) => sim::run(args),
        Command::Doctor(args) => carry_out(&mut Doctor::from(args)),
        Command::Bench(args) => carry_out(&mut Overload::new(BenchPlan::new(args)?)?),
        Command::Noise(args) => match &args.rates {
            Some(rates) => carry_out(&mut Rates::new(rates, args)?),
            None => carry_out(&mut Noise::new(args)?),
        },
        Command::Report(args) => carry_out(&mut WrittenReport::from(args)),
        Command::Completions(args) => print(&documents::completions(args)),
        Command::Man(args) => print(&documents::man(args)?),
        Command::EchoClient(args) => carry_out(&mut Echo::new(args)?),
        Command::ProbeFeature(args) => features::run(args),
    }
}

/// Help goes out whole; a mistake becomes one line, as every other failure.
fn refused(error: &clap::Error) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Only a closed pipe is likely to go wrong here, and that is success.
            let _ = error.print();
            Exit::Ok
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Exit::Usage
        }
        _ => {
            say(format_args!("softtimers: {}", shortened(&error.to_string())));
            Exit::Usage
        }
    }
}

/// The message of a clap error without the usage and the hints that follow it.
fn shortened(message: &str) -> String {
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let end = ["\n\nUsage:", "\n\nFor more"].iter().filter_map(|hint| message.find(hint)).min();
    let lines =
        message[..end.unwrap_or(message.len())].lines().map(str::trim).filter(|line| !line.is_empty());
    one_line(&lines.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn message(line: &[&str]) -> String {
        shortened(&Cli::try_parse_from(line).unwrap_err().to_string())
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Each with what is to be added to it for more.
    #[test]
    fn the_command_lines_of_the_units_in_docs_are_understood() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for name in ["softtimers-forward.service", "softtimers-wan.service"] {
            let unit = std::fs::read_to_string(docs.join(name)).unwrap();
            let lines = unit.lines().map(|line| line.trim_start_matches(['#', ' ']));
            let lines: Vec<&str> = lines.filter_map(|line| line.strip_prefix("ExecStart=/")).collect();
            assert_eq!(lines.len(), 2, "{name}");
            lines.into_iter().for_each(|line| drop(Cli::try_parse_from(line.split(' ')).unwrap()));
        }
    }

    #[test]
    fn mistakes_become_one_line() {
        let zero = message(&["softtimers", "send", "127.0.0.1:9", "--rate", "0pps"]);
        assert_eq!(
            zero,
            "invalid value '0pps' for '--rate <RATE>': must be above zero, such as 10kpps or 100Mbit"
        );
        let missing = message(&["softtimers", "send", "127.0.0.1:9"]);
        assert!(
            missing.starts_with("the following required arguments were not provided: <--rate"),
            "{missing}"
        );
        let timer = message(&["softtimers", "send", "127.0.0.1:9", "--rate", "1pps", "--timer", "hourglass"]);
        assert_eq!(
            timer,
            "invalid value 'hourglass' for '--timer <TIMER>' [possible values: soft, loop, pwait2, ms, timerfd, signal, tick, thread, spin, kernel, off]"
        );
        let newline = message(&["softtimers", "recv", "127.0.0.1:9", "--duration", "1\n2"]);
        assert!(!newline.contains('\n'));
    }
}
