//! The arguments of `report`, and its plan.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::Serialize;

use crate::report::catalogue::{SECTIONS, Section};
use softtimers_run::args::OutputArgs;
use softtimers_run::file::OutputFile;
use softtimers_run::output::Output;

/// `softtimers report`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = EXAMPLES, next_help_heading = "Report")]
pub(crate) struct ReportArgs {
    /// HTML file to write; the same as .md and .json lies beside it
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub(crate) out: PathBuf,

    /// Only this section; repeatable
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(SECTIONS.iter().map(|section| section.name)), hide_possible_values = true, long_help = only_help())]
    pub(crate) only: Vec<String>,

    /// Short runs, less than a minute in all: to see what there is, not to rely on
    #[arg(long, conflicts_with = "from")]
    pub(crate) quick: bool,

    /// Save the output of each run in this directory, for --from
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pub(crate) run: Option<PathBuf>,

    /// Report on the runs saved in this directory, instead of new ones
    #[arg(long, value_name = "DIR")]
    pub(crate) from: Option<PathBuf>,

    /// Overwrite files that exist
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The plan of `report`.
#[derive(Debug)]
pub(crate) struct WrittenReport {
    pub(super) config: ReportConfig,
    pub(super) out: PathBuf,
    pub(super) force: bool,
    pub(super) output: Output,
    /// The HTML, Markdown and JSON files, once they are open.
    pub(super) files: Option<[OutputFile; 3]>,
}

/// The `config` object of `report`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct ReportConfig {
    /// The sections by name, in the order of the report.
    pub(crate) sections: Vec<&'static str>,
    /// Whether runs are short.
    pub(crate) quick: bool,
    /// The directory of saved runs; `null` if new runs are made.
    pub(crate) from: Option<PathBuf>,
    /// The directory to save runs in; `null` if they are not saved.
    pub(crate) run: Option<PathBuf>,
}

impl From<&ReportArgs> for WrittenReport {
    fn from(args: &ReportArgs) -> Self {
        let wanted =
            |section: &&Section| args.only.is_empty() || args.only.iter().any(|name| name == section.name);
        let config = ReportConfig {
            sections: SECTIONS.iter().filter(wanted).map(|section| section.name).collect(),
            quick: args.quick,
            from: args.from.clone(),
            run: args.run.clone(),
        };
        let (out, force, output) = (args.out.clone(), args.force, Output::from(&args.output));
        WrittenReport { config, out, force, output, files: None }
    }
}

fn only_help() -> String {
    let names: Vec<&str> = SECTIONS.iter().map(|section| section.name).collect();
    format!("Only this section, and the runs it needs; repeatable\n\nThere are {}.", names.join(", "))
}

const EXAMPLES: &str = "\
Examples:
  softtimers report --quick
  softtimers report --run runs --out today.html
  softtimers report --from runs --only goodput --only livelock --force
  softtimers report --quick --assert 'missing<=1'

Each section says what to see, which paper it stands beside, and what it lacks.
More of it is in papers/docs/report.md.

Exit codes:
   0  done, also where the report says that a run failed; every --assert held
   1  an --assert did not hold, or a file could not be written
   2  bad usage or input; nothing was measured";
