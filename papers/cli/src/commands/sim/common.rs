//! The arguments that every experiment of `sim` has, and the names that none of them may take.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use softtimers_run::args::OutputArgs;
use softtimers_sim::{Part, Precision};

/// The options that every experiment has.
#[derive(Args, Debug, Clone)]
pub(crate) struct SimCommonArgs {
    /// Run once per value; with several parameters, all combinations; repeatable
    ///
    /// A..B:STEP is a range, such as rate=2000..14000:2000, quota=1..9 or target=20us..60us:10us. The last one varies fastest. Recordings are swept by their files, seeds by the name seed. Without it the table of the paper is made. Other flags hold for all points.
    #[arg(long = "sweep", value_name = "NAME=A,B,…", help_heading = "Runs")]
    pub(crate) sweeps: Vec<String>,

    /// Seed: the same seed, the same rows
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Runs")]
    pub(crate) seed: u64,

    /// Run each point with N seeds: means, their deviation and 95% interval
    ///
    /// The seeds are --seed and those after it. Cells are the mean ± half the interval's length; JSON and CSV have the mean,
    /// and the keys with _sd, _ci95 and _n after it: the standard deviation of one run, half the interval's length, and the
    /// seeds that had a value.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1_000), help_heading = "Runs")]
    pub(crate) seeds: u32,

    /// End a point, before its last seed, when a column's mean is so certain: delay_us=2%
    ///
    /// When half the length of the 95% interval is at most that share of the mean, in every row; asked after ten seeds and then
    /// after every five.
    #[arg(
        long,
        value_name = "COLUMN=SHARE",
        requires = "seeds",
        help_heading = "Runs",
        hide_short_help = true
    )]
    pub(crate) precision: Option<Precision>,

    /// Skip points that are not possible, with a column that says why
    #[arg(long, help_heading = "Runs", hide_short_help = true)]
    pub(crate) skip_infeasible: bool,

    /// Go on after the points that the file of --out has; prints CSV
    #[arg(long, requires = "out", conflicts_with_all = ["json", "assertions", "force"], help_heading = "Runs", hide_short_help = true)]
    pub(crate) resume: bool,

    /// Simulate another machine: alpha-3000, pentium-ii, here, or a file (see 'sim machine')
    ///
    /// Costs, wire, rings, queues and priorities of the livelock experiments, costs and the ring of hip, and the costs of polling. A file of
    /// TOML describes one. This machine is what `softtimers doctor --json > here.json` writes, for hip alone: `here` reads here.json of the working directory. Parameters that
    /// are given hold instead of the machine's.
    #[arg(long, value_name = "NAME|FILE", help_heading = "Runs", hide_short_help = true)]
    pub(crate) machine: Option<String>,

    /// Run part I of N of the points, for `sim merge`; prints CSV
    #[arg(long, value_name = "I/N", conflicts_with_all = ["json", "assertions"], help_heading = "Runs", hide_short_help = true)]
    pub(crate) part: Option<Part>,

    /// CPUs to use: 1 to 1024 [default: all]
    #[arg(long, value_name = "N", value_parser = threads, help_heading = "Runs", hide_short_help = true)]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Print CSV, each line as soon as its point is finished
    #[arg(long, conflicts_with_all = ["json", "assertions"], help_heading = "Output")]
    pub(crate) csv: bool,

    /// Write CSV to this file too, which must not exist
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,

    /// Overwrite the file of --out
    #[arg(long, requires = "out", help_heading = "Output")]
    pub(crate) force: bool,

    /// The form of the output.
    #[command(flatten, next_help_heading = "Output")]
    pub(crate) output: OutputArgs,
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let threads = text.parse().ok().filter(|&threads| threads <= MOST_THREADS);
    threads.ok_or_else(|| format!("a whole number from 1 to {MOST_THREADS}"))
}

/// More than any machine can use.
const MOST_THREADS: NonZeroUsize = NonZeroUsize::new(1_024).unwrap();
/// The axis that is not a parameter.
pub(super) const SEED: &str = "seed";
/// The subcommands that are not experiments.
pub(super) const MERGE: &str = "merge";
pub(super) const MACHINE: &str = "machine";
