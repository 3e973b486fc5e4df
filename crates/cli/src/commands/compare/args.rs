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
    /// Files with objects of --json, all of one command: two or more
    ///
    /// A file may hold several runs, one after the other, as `>>` appends them: it then counts with their median and the interval
    /// in which the true one lies with a confidence of 95%, from six runs on. The ratio is of pairs: repeat the runs in turn.
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
        let (mut files, mut schema): (Vec<Vec<Value>>, Option<String>) = (vec![], None);
        for path in &args.files {
            let mut text = String::new();
            let file = file::open(path).map_err(|error| refused(path, &error.to_string()))?;
            let read = file.take(LONGEST + 1).read_to_string(&mut text);
            read.map_err(|error| refused(path, &error.to_string()))?;
            if text.len() as u64 > LONGEST {
                return Err(refused(path, "more than 8 MiB of runs"));
            }
            let runs: Vec<Value> = serde_json::Deserializer::from_str(&text)
                .into_iter()
                .collect::<Result<_, _>>()
                .map_err(|error| refused(path, &format!("no object of --json: {error}")))?;
            if runs.is_empty() {
                return Err(refused(path, "empty; an object of --json is wanted"));
            }
            for run in &runs {
                let Some(own) = run["schema"].as_str() else {
                    return Err(refused(path, "has no schema; an object of --json is wanted"));
                };
                let first = schema.get_or_insert_with(|| own.to_owned());
                if first != own {
                    let why = format!("is of {own}, and the first file of {first}; one command is wanted");
                    return Err(refused(path, &why));
                }
            }
            files.push(runs);
        }
        let names = args.files.iter().map(|path| path.display().to_string()).collect();
        Ok(Compare {
            files: names,
            schema: schema.unwrap_or_default(),
            only: args.only.clone(),
            runs: files,
            output: Output::from(&args.output),
        })
    }
}

/// The largest object of a run is some hundred kilobytes, and there may be some tens of runs.
const LONGEST: u64 = 8 << 20;

const EXAMPLES: &str = "\
Examples:
  softtimers compare soft.json loop.json
  softtimers compare before.json after.json --only late_ns --only cpu_share
  softtimers compare a.json b.json --json --assert 'rows.0.ratio<1.05'
  for i in 1 2 3 4 5 6; do     # in turn, six times: with intervals
    softtimers send 127.0.0.1:9000 -i 1ms -t 1 --json >> a.json
    softtimers send 127.0.0.1:9000 -i 1ms -t 1 --size 64 --json >> b.json
  done; softtimers compare a.json b.json --only gap_ns

Exit codes:
   0  done; every --assert held
   1  an --assert did not hold
   2  bad usage, or a file that is no object of --json";
