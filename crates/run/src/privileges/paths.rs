//! Restricts the paths that a run may open once it has begun, by Landlock: the kernel's reports, and the run's own
//! needs.
//!
//! A process without privileges can still reach its user's files, most of which it does not need. Open files stay open.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, PathFdError, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus,
};
use softtimers_linux::optional::Optional;

/// Paths that a run opens after it has dropped its privileges.
#[derive(Clone, Debug, Default)]
pub struct Opens {
    /// Directories in which it reads files.
    pub reads: Vec<PathBuf>,
    /// A directory in which it creates files.
    pub writes: Option<PathBuf>,
    /// A directory in which it removes its own files.
    pub removes: Option<PathBuf>,
    /// TCP connections.
    pub connects: bool,
    /// TCP ports that it listens on.
    pub listens: bool,
}

/// Returns the directory of a file.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Restricts this thread, and those it starts, to these paths; returns whether completely.
///
/// # Errors
/// Why the kernel refuses.
pub(crate) fn keep_to(opens: &Opens) -> Result<Held, String> {
    Optional::Landlock.check().map_err(|error| error.to_string())?;
    match restrict(opens)? {
        RulesetStatus::FullyEnforced => Ok(Held::Fully),
        // Linux 5.13 to 6.6.
        RulesetStatus::PartiallyEnforced => Ok(Held::Partly),
        RulesetStatus::NotEnforced => Err("this kernel has no Landlock, or it is off".to_owned()),
    }
}

/// How far the kernel enforces the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Held {
    Fully,
    /// It knows only older rules.
    Partly,
}

fn restrict(opens: &Opens) -> Result<RulesetStatus, String> {
    let refused = |error: RulesetError| error.to_string();
    let all = AccessFs::from_all(KNOWN);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let mut tcp: BitFlags<AccessNet> = BitFlags::empty();
    if !opens.listens {
        tcp |= AccessNet::BindTcp;
    }
    if !opens.connects {
        tcp |= AccessNet::ConnectTcp;
    }
    let mut ruleset = Ruleset::default().handle_access(all).map_err(refused)?;
    if !tcp.is_empty() {
        ruleset = ruleset.handle_access(tcp).map_err(refused)?;
    }
    let mut ruleset = ruleset.create().map_err(refused)?;
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
    Ok(ruleset.restrict_self().map_err(refused)?.ruleset)
}

/// Adds a rule for a path. A path that is missing or inaccessible to this user needs no rule; without a free descriptor
/// neither case can be told.
fn allow(ruleset: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, String> {
    match PathFd::new(path) {
        Ok(opened) => ruleset
            .add_rule(PathBeneath::new(opened, access))
            .map_err(|error: RulesetError| error.to_string()),
        Err(PathFdError::OpenCall { source, .. })
            if matches!(source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) =>
        {
            Err(format!("opening '{}': {source}", path.display()))
        }
        Err(_) => Ok(ruleset),
    }
}

/// Linux 6.7: files and TCP.
const KNOWN: ABI = ABI::V4;
