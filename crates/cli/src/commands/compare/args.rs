//! The arguments of `compare`, and the files that they name.

use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use softtimers_measure::failure::Failure;

use super::Compare;
use crate::args::OutputArgs;
use crate::file;
use crate::run::output::Output;

/// `softtimers compare`.
#[derive(Args, Debug, Clone)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// Files with an object of --json each, all of one command: two or more
    #[arg(value_name = "FILE", num_args = 2.., required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Compare only keys that begin so: late_ns, gap_ns.p99; repeatable
    #[arg(long, value_name = "KEY")]
    pub(crate) only: Vec<String>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl Compare {
    /// Reads the files.
    ///
    /// # Errors
    /// A usage failure for a file that cannot be read, is no object of this program, or is of another command.
    pub(crate) fn new(args: &CompareArgs) -> Result<Self, Failure> {
        let refused = |path: &PathBuf, why: &str| Failure::usage(format_args!("'{}': {why}", path.display()));
        let (mut objects, mut schema): (Vec<Value>, Option<String>) = (vec![], None);
        for path in &args.files {
            let mut text = String::new();
            let file = file::open(path).map_err(|error| refused(path, &error.to_string()))?;
            let read = file.take(LONGEST + 1).read_to_string(&mut text);
            read.map_err(|error| refused(path, &error.to_string()))?;
            if text.len() as u64 > LONGEST {
                return Err(refused(path, "longer than 8 MiB, so not an object of --json"));
            }
            let object: Value = serde_json::from_str(&text)
                .map_err(|error| refused(path, &format!("no object of --json: {error}")))?;
            let Some(own) = object["schema"].as_str() else {
                return Err(refused(path, "has no schema; an object of --json is wanted"));
            };
            match &schema {
                Some(first) if first != own => {
                    return Err(refused(
                        path,
                        &format!("is of {own}, and the first file of {first}; one command is wanted"),
                    ));
                }
                _ => schema = Some(own.to_owned()),
            }
            objects.push(object);
        }
        let files = args.files.iter().map(|path| path.display().to_string()).collect();
        let output = Output::from(&args.output);
        Ok(Compare { files, schema: schema.unwrap_or_default(), only: args.only.clone(), objects, output })
    }
}

/// The largest object of a run is some hundred kilobytes.
const LONGEST: u64 = 8 << 20;

const EXAMPLES: &str = "\
Examples:
  softtimers compare soft.json loop.json
  softtimers compare before.json after.json --only late_ns --only cpu_share
  softtimers compare a.json b.json --json --assert 'rows.0.ratio<1.05'

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold
   2  bad usage, or a file that is no object of --json";
