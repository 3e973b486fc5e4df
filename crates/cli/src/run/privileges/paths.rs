//! Paths that a run may open once it has begun, by Landlock: the kernel's own reports, and what the run says that it needs.
//!
//! A user's files are all that is left to a process without rights, and most of them are none of its business. Files that
//! are open stay open.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus,
};

/// What a run opens after it has given up its rights.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opens {
    /// Directories in which it reads files.
    pub(crate) reads: Vec<PathBuf>,
    /// A directory in which it makes files.
    pub(crate) writes: Option<PathBuf>,
    /// One in which it removes what it has made.
    pub(crate) removes: Option<PathBuf>,
    /// TCP connections.
    pub(crate) connects: bool,
}

/// The directory that a file is in.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Keeps this thread, and those it starts, to these paths.
///
/// # Errors
/// Why the kernel does not, or not in full.
pub(super) fn keep_to(opens: &Opens) -> Result<(), String> {
    match restrict(opens).map_err(|error| error.to_string())? {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced => {
            Err("this kernel's Landlock knows some of the rules only".to_owned())
        }
        RulesetStatus::NotEnforced => Err("this kernel has no Landlock, or it is off".to_owned()),
    }
}

fn restrict(opens: &Opens) -> Result<RulesetStatus, RulesetError> {
    let all = AccessFs::from_all(KNOWN);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let mut tcp: BitFlags<AccessNet> = AccessNet::BindTcp.into();
    if !opens.connects {
        tcp |= AccessNet::ConnectTcp;
    }
    let ruleset = Ruleset::default().handle_access(all)?.handle_access(tcp)?.create()?;
    let mut ruleset = ruleset;
    for directory in
        ["/proc", "/sys"].map(Path::new).into_iter().chain(opens.reads.iter().map(PathBuf::as_path))
    {
        ruleset = allow(ruleset, directory, read)?;
    }
    if let Some(directory) = &opens.writes {
        ruleset = allow(ruleset, directory, all & !AccessFs::Execute)?;
    }
    if let Some(directory) = &opens.removes {
        ruleset = allow(ruleset, directory, AccessFs::RemoveFile.into())?;
    }
    Ok(ruleset.restrict_self()?.ruleset)
}

/// What cannot be opened now, needs no rule.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    match PathFd::new(path) {
        Ok(opened) => ruleset.add_rule(PathBeneath::new(opened, access)),
        Err(_) => Ok(ruleset),
    }
}

/// Linux 6.7: files and TCP.
const KNOWN: ABI = ABI::V4;
