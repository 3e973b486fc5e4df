//! `softtimers sim merge`: reads the parts of a sweep and prints the whole.

use std::io::read_to_string;

use softtimers_measure::failure::Failure;
use softtimers_sim::csv::Merge;

use super::args::SimMergeArgs;
use softtimers_run::file;
use softtimers_run::output::print;

/// Merges the files and prints the result.
///
/// # Errors
/// A usage failure that names the file and the line that is wrong or of another sweep, or the missing points.
pub(crate) fn run(args: &SimMergeArgs) -> Result<(), Failure> {
    let mut merge = Merge::default();
    for path in &args.files {
        let name = path.display().to_string();
        let text = file::open(path)
            .and_then(read_to_string)
            .map_err(|error| Failure::usage(format_args!("file '{name}': {error}")))?;
        merge.add(&name, &text).map_err(Failure::usage)?;
    }
    print(&merge.finish().map_err(Failure::usage)?)
}
