//! What `report` is asked for, and will do.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::Serialize;

use crate::args::OutputArgs;
use crate::file::OutputFile;
use crate::report::catalogue::{SECTIONS, Section};
use crate::run::output::Output;

/// `softtimers report`.
///
/// Measures this machine by the other commands, simulates the papers' experiments, and shows both beside the papers' own
/// figures: one file of HTML that needs no network and no scripts, with the same as Markdown and as JSON beside it. No
/// privilege is needed; what takes one is left out with its reason. It takes five to ten minutes and the whole machine;
/// --quick takes less than one.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// The file of HTML; beside it one of .md and one of .json
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub(crate) out: PathBuf,

    /// Only this section; may be repeated
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(SECTIONS.iter().map(|section| section.name)), hide_possible_values = true, long_help = only_help())]
    pub(crate) only: Vec<String>,

    /// Short runs, under a minute in all: to see what there is, not to rely on
    #[arg(long, conflicts_with = "from")]
    pub(crate) quick: bool,

    /// Keep what each run printed in this directory, for --from
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pub(crate) run: Option<PathBuf>,

    /// Show the runs that are kept in this directory, and make none
    #[arg(long, value_name = "DIR")]
    pub(crate) from: Option<PathBuf>,

    /// Overwrite files that exist
    #[arg(long)]
    pub(crate) force: bool,

    /// How to print.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `report` will do.
#[derive(Debug)]
pub(crate) struct WrittenReport {
    pub(super) config: ReportConfig,
    pub(super) out: PathBuf,
    pub(super) force: bool,
    pub(super) output: Output,
    /// HTML, Markdown and JSON, once they are open.
    pub(super) files: Option<[OutputFile; 3]>,
}

/// The `config` object of `report`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct ReportConfig {
    /// The sections by name, in the order of the report.
    pub(crate) sections: Vec<&'static str>,
    /// Whether runs are short.
    pub(crate) quick: bool,
    /// Where the runs come from; `null` if they are made now.
    pub(crate) from: Option<PathBuf>,
    /// Where they are kept; `null` if they are not.
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
    format!("Only this section, and the runs it needs; may be repeated\n\nThere are {}.", names.join(", "))
}

const EXAMPLES: &str = "\
Examples:
  softtimers report --quick
  softtimers report --run runs --out today.html
  softtimers report --from runs --only goodput --only livelock --force
  softtimers report --quick --assert 'missing<=1'

Each section says what to see, which paper it stands beside, and what it lacks. More of it is in
docs/report.md of the project's sources.

Exit codes:
   0  done, also where single runs failed, which the report says; every --assert held
   1  an --assert did not hold, or a file could not be written
   2  bad usage or input; nothing was measured";
