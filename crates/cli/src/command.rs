//! From the command line to an exit code.

use std::ffi::OsString;

use clap::Parser;
use clap::error::ErrorKind;
use softtimers_measure::child;
use softtimers_measure::failure::{Exit, Failure, one_line};

use crate::args::{Cli, Command};
use crate::doctor::DoctorPlan;
use crate::noise::NoisePlan;
use crate::noise::rates::RatesPlan;
use crate::output::{Output, print, say};
use crate::plan::{
    BenchPlan, CapturePlan, EchoClientPlan, ForwardPlan, GeneratePlan, ProbePlan, RecvPlan, ReplayPlan,
    SendPlan, WanPlan,
};
use crate::report::ReportPlan;
use crate::{
    bench, capture, doctor, documents, echo, forward, noise, probe, recv, replay, report, send, sim, wan,
};

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
        Command::Send(args) => match GeneratePlan::of(args)? {
            Some(plan) => send::generate::run(&plan),
            None => send::run(&SendPlan::new(args)?),
        },
        Command::Recv(args) => recv::run(&RecvPlan::new(args)?),
        Command::Replay(args) => replay::run(&ReplayPlan::new(args)?),
        Command::Wan(args) if args.self_test => wan::self_test::run(&Output::from(&args.output)),
        Command::Wan(args) => wan::run(&WanPlan::new(args)?),
        Command::Forward(args) => forward::run(&ForwardPlan::new(args)?),
        Command::Capture(args) => capture::run(&CapturePlan::new(args)?),
        Command::Probe(args) => probe::run(&ProbePlan::new(args)?),
        Command::Sim(args) => sim::run(args),
        Command::Doctor(args) => doctor::run(&DoctorPlan::from(args)),
        Command::Bench(args) => bench::run(&BenchPlan::new(args)?),
        Command::Noise(args) => match &args.rates {
            Some(rates) => noise::rates::run(&RatesPlan::new(rates, args)?),
            None => noise::run(&NoisePlan::new(args)?),
        },
        Command::Report(args) => report::run(&ReportPlan::from(args)),
        Command::Completions(args) => print(&documents::completions(args)),
        Command::Man(args) => print(&documents::man(args)?),
        Command::EchoClient(args) => echo::run(&EchoClientPlan::new(args)?),
        Command::ProbeFeature(args) => doctor::features::run(args),
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
