//! The other program of the two: `softtimers` runs `softtimers-papers`, and `softtimers-papers` measures with `softtimers`.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use softtimers_measure::failure::Failure;

/// The program of the tools.
pub const TOOLS: &str = "softtimers";
/// The program of the papers' commands.
pub const PAPERS: &str = "softtimers-papers";

/// Finds one of the two: in the directory of this program, or else on PATH.
///
/// # Errors
/// A usage failure that says how to install it.
pub fn find(program: &str) -> Result<PathBuf, Failure> {
    let own = env::current_exe().ok();
    let own = own.iter().filter_map(|own| own.parent()).map(Path::to_owned);
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = own.chain(env::split_paths(&path).filter(|folder| folder.is_absolute()));
    folders.map(|folder| folder.join(program)).find(|path| is_program(path)).ok_or_else(|| missing(program))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn missing(program: &str) -> Failure {
    let from = if program == PAPERS { "papers/cli" } else { "crates/cli" };
    Failure::usage(format_args!(
        "{program} is neither beside this program nor on PATH; in the sources, 'cargo install --locked --path {from}' \
         installs it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_told_with_its_source() {
        let missing = find("softtimers-nowhere").unwrap_err().to_string();
        assert!(missing.starts_with("softtimers-nowhere is neither beside"), "{missing}");
        assert!(super::missing(PAPERS).to_string().contains("--path papers/cli'"));
    }
}
