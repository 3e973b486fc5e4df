//! From the command line to an exit code.

use std::ffi::OsString;

use clap::Parser;
use clap::error::ErrorKind;
use softtimers_measure::child;
use softtimers_measure::failure::{Exit, Failure, one_line};

use crate::args::{Cli, Command};
use crate::commands::bench::args::BenchPlan;
use crate::commands::bench::run::Overload;
use crate::commands::capture::args::Capture;
use crate::commands::doctor::args::Doctor;
use crate::commands::doctor::features;
use crate::commands::documents;
use crate::commands::echo::args::Echo;
use crate::commands::forward::args::ForwardPlan;
use crate::commands::noise::args::{Noise, Rates};
use crate::commands::probe::args::KernelProbe;
use crate::commands::recv::args::Recv;
use crate::commands::replay::args::Replay;
use crate::commands::report::args::WrittenReport;
use crate::commands::send::args::Send;
use crate::commands::send::generate::Generate;
use crate::commands::sim;
use crate::commands::wan::args::WanPlan;
use crate::commands::wan::run::Emulator;
use crate::commands::wan::self_test::SelfTest;
use crate::run::carry_out;
use crate::run::output::{Output, print, say};

/// Does what `line` asks for, the program's name first, and says what to answer the caller.
///
/// A failure is one line on stderr; stdout then has only what a run that was finished found.
pub fn run(line: impl IntoIterator<Item = OsString>) -> Exit {
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
    use super::*;

    fn message(line: &[&str]) -> String {
        shortened(&Cli::try_parse_from(line).unwrap_err().to_string())
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
