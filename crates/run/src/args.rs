//! The options that every command has.

use std::hash::{DefaultHasher, Hash, Hasher};

use clap::Args;
use softtimers::{Clock, Monotonic};
use softtimers_measure::assertion::Assertion;

use crate::help::OTHER;
use crate::output::Output;

/// The output options of every command that reports.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,

    /// Exit with 1 unless COND, such as 'gap_ns.p99<60000'
    ///
    /// A key of the JSON object, with dots for nesting; one of < <= > >= ==; and a number in the key's unit. Repeatable.
    #[arg(long = "assert", value_name = "COND")]
    pub assertions: Vec<Assertion>,

    /// Run without the sandbox (Landlock and a system call filter)
    ///
    /// The sandbox confines the code that handles packets from strangers. User, capabilities and no_new_privs are given
    /// up all the same.
    #[arg(long, help_heading = OTHER, hide_short_help = true)]
    pub no_sandbox: bool,
}

/// The output options of a command that runs for long.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Output")]
pub struct StreamArgs {
    /// The options that every report has.
    #[command(flatten)]
    pub output: OutputArgs,

    /// Print a line of JSON a second, then the --json object
    ///
    /// Each line has the figures of its second and those of the run so far. A reader that closes the pipe ends the run.
    #[arg(long, conflicts_with = "json")]
    pub json_stream: bool,
}

impl From<&OutputArgs> for Output {
    fn from(args: &OutputArgs) -> Self {
        let OutputArgs { json, ref assertions, no_sandbox } = *args;
        Output { json, stream: false, assertions: assertions.clone(), unconfined: no_sandbox }
    }
}

impl From<&StreamArgs> for Output {
    fn from(args: &StreamArgs) -> Self {
        Output { stream: args.json_stream, ..Output::from(&args.output) }
    }
}

/// Returns a random seed, short enough to be typed.
pub fn any_seed() -> u64 {
    // Not the system's random numbers, which a filter of system calls may refuse: nothing here is secret.
    let mut hasher = DefaultHasher::new();
    (Monotonic.now().as_nanos(), std::process::id()).hash(&mut hasher);
    hasher.finish() >> 32
}
