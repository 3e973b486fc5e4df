//! The commands, a folder each: `args` defines and interprets the arguments, `run` does the work, `show` prints the
//! report.

pub(crate) mod bench;
pub(crate) mod capture;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod echo;
pub(crate) mod forward;
#[cfg(test)]
mod output_tests;
pub(crate) mod pace;
mod papers;
mod receiving;
pub(crate) mod recv;
pub(crate) mod replay;
pub(crate) mod send;
mod traffic_page;
pub(crate) mod wan;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use softtimers_measure::child;
use softtimers_measure::failure::{Exit, Failure};
use softtimers_run::documents::{self, CompletionsArgs, ManArgs};
use softtimers_run::output::{Output, print};
use softtimers_run::{Command as _, carry_out, program};

use crate::args::lay_out;
use crate::descriptors;

use bench::args::{BenchArgs, BenchPlan};
use bench::run::Overload;
use capture::args::{Capture, CaptureArgs};
use compare::Compare;
use compare::args::CompareArgs;
use doctor::args::{Doctor, DoctorArgs};
use doctor::features;
use doctor::features::ProbeFeatureArgs;
use doctor::receive::Receive;
use echo::args::{Echo, EchoClientArgs};
use forward::args::{ForwardArgs, ForwardPlan};
use pace::args::PaceArgs;
use pace::guard::{self, GuardArgs};
use pace::run::Paced;
use papers::PapersArgs;
use recv::args::{Recv, RecvArgs};
use replay::args::{Replay, ReplayArgs};
use send::args::{Send, SendArgs};
use send::rounds::Rounds;
use wan::args::WanArgs;
use wan::inside::roles;
use wan::inside::roles::Role;
use wan::plan::WanPlan;
use wan::proxies::plan::ProxiesPlan;
use wan::proxies::run::Proxies;
use wan::run::{Emulator, run_behind};
use wan::self_test::SelfTest;

/// Paced UDP traffic from an ordinary process, and what timers cost on this machine.
///
/// softtimers releases packets at microsecond times by checking a clock where a program already
/// passes, and wakes the kernel only when it must. `send` shows it; `recv` measures it from outside.
#[derive(Parser, Debug)]
#[command(name = "softtimers", version, propagate_version = true, after_help = Exit::HELP, max_term_width = 100)]
#[command(mut_subcommands(|command| lay_out(command, "softtimers", fields)))]
pub(crate) struct Cli {
    /// End with this process, which must be the parent
    #[arg(long, value_name = "PID", hide = true)]
    pub(crate) with_parent: Option<u32>,

    /// The subcommand to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Send UDP datagrams at an even rate or in a pattern
    ///
    /// Reports how late each datagram left against its scheduled time, and how even the gaps between them were. Run
    /// `softtimers recv` at the other end to see how they arrive.
    Send(SendArgs),
    /// Receive UDP datagrams from `send` and report jitter, loss and reordering
    ///
    /// Gaps are measured with the kernel's receive timestamps, so the receiver can sleep between batches. No root is
    /// needed. Without --duration, --count or --once it runs until Ctrl-C.
    Recv(RecvArgs),
    /// Send with the times and sizes of a recording: pcap, pcapng or lines of t_us,len
    ///
    /// Sends one UDP flow whose datagrams leave at the times of the recorded packets and are as long on the wire. The
    /// recorded addresses, ports and contents are not read.
    Replay(ReplayArgs),
    /// Emulate a network path: delay, rate, queue, loss; no root
    ///
    /// Traffic that comes in at --listen goes out to --to after the delay, rate, queue and loss of the path, and answers come back
    /// the same way. Each setting of both ways also exists for one, and prevails there: --up-loss from the clients (or CMD) to the
    /// other end, --down-loss back. Without settings the path is a perfect wire.
    Wan(Box<WanArgs>),
    /// Pace a command's TCP from its first packet, at the rate that is known of the path
    ///
    /// Where you know what a path carries, its connections need not probe for it: each begins with the window that the path
    /// holds, at its share of the rate, and begins so again after a pause. The command is unmodified. Needs CAP_BPF,
    /// CAP_PERFMON and CAP_NET_ADMIN (root has them), a cgroup, and Linux 5.10; for pauses Linux 6.4 with BTF.
    Pace(Box<PaceArgs>),
    /// Forward between two interfaces, or relay UDP without root; stable under overload
    ///
    /// Between two interfaces it is a cable, or with --routed a router for IPv4 and IPv6. With --udp it relays datagrams
    /// to --to, and answers go back to the client. In overload a quota bounds each turn, and packets are dropped in the
    /// ring or receive buffer before any work was spent on them.
    Forward(Box<ForwardArgs>),
    /// Capture an interface to pcapng with a bounded delay
    ///
    /// Records the frames that an interface receives and sends, with the kernel's timestamps in nanoseconds. Drops are
    /// counted where they happen and written into the file. Needs CAP_NET_RAW to open the interface, and gives up all
    /// privileges then. Without --duration or --count it runs until Ctrl-C.
    Capture(Box<CaptureArgs>),
    /// Measure what timers cost on this machine, and whether softtimers would help
    ///
    /// Sends the same paced stream by eight methods, from a busy loop and from an idle one, has an independent receiver on
    /// loopback judge them, and says which kinds of programs gain. Takes half a minute and no root. It may tell you that
    /// you don't need softtimers. --receive says whether the machine loses packets now.
    Doctor(DoctorArgs),
    /// Find a receiver's loss-free rate, then push past it; no root
    ///
    /// Finds the highest rate at which a receiver loses nothing, offers up to five times as much, and reports the behaviour
    /// under overload: ideal, stable or livelock. Sender and receiver are processes of this machine, on two CPUs and over
    /// loopback. Takes about 20 s.
    Bench(Box<BenchArgs>),
    /// Compare the figures of several runs, from their objects of --json
    ///
    /// All files are of one command. A line for each figure in which they differ, and the last file's by the first one's.
    Compare(CompareArgs),
    /// Measure how often the kernel passes trigger states, with eBPF
    #[command(after_long_help = papers::HELP)]
    Probe(PapersArgs),
    /// Run the papers' experiments on a simulated machine
    #[command(after_long_help = papers::HELP)]
    Sim(PapersArgs),
    /// Measure what delays a computation on this machine, and what that costs a job of many nodes
    #[command(after_long_help = papers::HELP)]
    Noise(PapersArgs),
    /// Write a report of this machine beside the papers: one HTML file
    #[command(after_long_help = papers::HELP)]
    Report(PapersArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page of a command
    Man(ManArgs),
    /// The load side of `send --busy echo`
    #[command(hide = true)]
    EchoClient(EchoClientArgs),
    /// One of the probes of `doctor`
    #[command(hide = true)]
    ProbeFeature(ProbeFeatureArgs),
    /// A helper of `pace`
    #[command(hide = true)]
    PaceGuard(GuardArgs),
    /// A helper of `wan -- CMD`
    #[command(hide = true, subcommand)]
    WanInside(Role),
}

/// Runs the command in `line`, the program's name first, and returns the exit code.
pub(crate) fn run(line: impl IntoIterator<Item = OsString>) -> ExitCode {
    let line: Vec<OsString> = line.into_iter().collect();
    if let Some(words) = papers::words(&line) {
        return program::failed(&papers::run(words));
    }
    program::run(line, |cli: &Cli| {
        cli.with_parent.map_or(Ok(()), child::end_with).and_then(|()| dispatch(&cli.command))
    })
}

/// Runs the command; that of `wan -- CMD` has an exit code of its own.
fn dispatch(command: &Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Wan(args) if !args.command.is_empty() => run_behind(WanPlan::new(args)?),
        Command::WanInside(role) => roles::run(role),
        // Words before the command's name are not among those of `papers::words`.
        Command::Probe(args) | Command::Sim(args) | Command::Noise(args) | Command::Report(args) => {
            Err(papers::run(&args.words))
        }
        Command::Pace(args) => pace::run::run(args),
        Command::PaceGuard(args) => Ok(guard::run(args)),
        ours => dispatch_ours(ours).map(|()| Exit::Ok.into()),
    }
}

fn dispatch_ours(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Send(args) if args.engine.timer.len() > 1 => carry_out(&mut Rounds::new(args)?),
        Command::Send(args) => carry_out(&mut Send::new(args)?),
        Command::Recv(args) => carry_out(&mut Recv::new(args)?),
        Command::Replay(args) => carry_out(&mut Replay::new(args)?),
        Command::Wan(args) if args.self_test => {
            carry_out(&mut SelfTest { output: Output::from(&args.output) })
        }
        Command::Wan(args) if args.several.are_given() => {
            carry_out(&mut Proxies::new(ProxiesPlan::new(args)?))
        }
        Command::Wan(args) => carry_out(&mut Emulator::new(WanPlan::new(args)?)?),
        Command::Forward(args) => {
            if args.udp.is_some() {
                // Each client takes one.
                descriptors::raise();
            }
            carry_out(&mut ForwardPlan::new(args)?)
        }
        Command::Capture(args) => carry_out(&mut Capture::new(args)?),
        Command::Doctor(args) if args.receive => carry_out(&mut Receive::from(args)),
        Command::Doctor(args) => carry_out(&mut Doctor::from(args)),
        Command::Bench(args) => carry_out(&mut Overload::new(BenchPlan::new(args)?)?),
        Command::Compare(args) => carry_out(&mut Compare::new(args)?),
        Command::Completions(args) => print(&documents::completions(args, &Cli::command(), "softtimers")),
        Command::Man(args) if papers::are_named(&args.names) => Err(papers::man(&args.names)),
        Command::Man(args) => print(&documents::man(args, Cli::command(), fields)?),
        Command::EchoClient(args) => carry_out(&mut Echo::new(args)?),
        Command::ProbeFeature(args) => features::run(args),
        Command::WanInside(_)
        | Command::Pace(_)
        | Command::PaceGuard(_)
        | Command::Probe(_)
        | Command::Sim(_)
        | Command::Noise(_)
        | Command::Report(_) => Ok(()),
    }
}

/// Returns the text of the labels of a command's report; empty for one without labels of its own.
pub(crate) fn fields(command: &str) -> &'static str {
    match command {
        "send" => Rounds::FIELDS,
        "replay" => Replay::FIELDS,
        "recv" => Recv::FIELDS,
        "echo-client" => Echo::FIELDS,
        "wan" => Emulator::FIELDS,
        "pace" => Paced::FIELDS,
        "forward" => ForwardPlan::FIELDS,
        "capture" => Capture::FIELDS,
        "doctor" => Doctor::FIELDS,
        "bench" => Overload::FIELDS,
        "compare" => Compare::FIELDS,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use softtimers_run::help::checks;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn short_help_fits_a_screen() {
        checks::short_help_fits_a_screen(&Cli::command());
    }

    #[test]
    fn every_flag_stands_in_a_group_where_there_are_many() {
        checks::every_flag_stands_in_a_group_where_there_are_many(&Cli::command());
    }

    #[test]
    fn long_help_begins_with_examples() {
        checks::long_help_begins_with_examples(&Cli::command(), fields);
    }

    fn page(names: &[&str]) -> Result<String, Failure> {
        documents::man(
            &ManArgs { names: names.iter().map(ToString::to_string).collect() },
            Cli::command(),
            fields,
        )
    }

    #[test]
    fn each_command_has_its_page() {
        assert!(page(&[]).unwrap().contains(".TH softtimers 1"));
        let send = page(&["send"]).unwrap();
        assert!(send.contains(".TH softtimers-send 1") && send.contains("burst\\-interval"), "{send}");
        assert!(
            send.contains("\n.SH OUTPUT FIELDS\n")
                && send.contains("\\fBback to back\\fR (share)\n\\&Gaps shorter"),
            "{send}"
        );
        let wan = page(&["wan"]).unwrap();
        assert!(
            wan.contains("[\\-\\- \\fICMD\\fR]") && wan.contains("\n.SH EXAMPLES\n.nf\n\\&softtimers wan"),
            "{wan}"
        );
        let unknown = page(&["echo-client"]).unwrap_err().to_string();
        assert!(unknown.starts_with("no command 'echo-client'; there are send, recv"), "{unknown}");
        let none = page(&["send", "recv"]).unwrap_err().to_string();
        assert_eq!(none, "no command 'recv'; 'softtimers send' has no commands of its own");
    }

    #[test]
    fn completions_know_the_commands_but_not_the_hidden_ones() {
        let script = documents::completions(
            &CompletionsArgs { shell: clap_complete::Shell::Bash },
            &Cli::command(),
            "softtimers",
        );
        assert!(script.contains("--burst-interval") && script.contains("--version"));
        for hidden in Cli::command().get_subcommands().filter(|sub| sub.is_hide_set()) {
            assert!(!script.contains(hidden.get_name()), "{}", hidden.get_name());
        }
    }

    /// Each command, with the words to add for more.
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
}
