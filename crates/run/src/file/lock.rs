//! Locks a file, so that one run at a time appends to it: [`locked`].
//!
//! A run that resumes a file reads it, and then truncates and appends to it. A second one at the same time would
//! corrupt the result of both. The lock is advisory (`flock`) and ends with the process.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock, major, minor};
use rustix::io::Errno;
use softtimers_measure::failure::Failure;

/// Locks a file for as long as it is open. On a file system without locks, it stays unlocked.
///
/// # Errors
/// A usage failure that names the process that has locked it.
pub(super) fn locked(file: &File, path: &Path, flag: &str) -> Result<(), Failure> {
    if flock(file, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK) {
        return Ok(());
    }
    let who = fs::read_to_string("/proc/locks").ok().and_then(|locks| holder(&locks, file));
    let who = who.map_or_else(|| "another process".to_owned(), |process| format!("process {process}"));
    Err(Failure::usage(format_args!(
        "{flag} '{}': {who} is writing it; wait until that has ended, or give another file",
        path.display()
    )))
}

/// The process that has locked a file, from the text of `/proc/locks`: `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`.
fn holder(locks: &str, file: &File) -> Option<u32> {
    let metadata = file.metadata().ok()?;
    let (device, number) = (metadata.dev(), metadata.ino());
    let wanted = format!("{:02x}:{:02x}:{number}", major(device), minor(device));
    let process = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, process, of, ..] = fields[..] else { return None };
        (of == wanted).then(|| process.parse().ok())?
    };
    // A process of another namespace has no number here.
    locks.lines().find_map(process).filter(|&process| process > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_in_the_list_of_locks() {
        let path = std::env::temp_dir().join(format!("softtimers-lock-{}", std::process::id()));
        let (one, other) = (File::create(&path).unwrap(), File::open(&path).unwrap());
        let metadata = one.metadata().unwrap();
        let (device, number) = (metadata.dev(), metadata.ino());
        let line = |process: &str, number: u64| {
            let (major, minor) = (major(device), minor(device));
            format!("1: FLOCK  ADVISORY  WRITE {process} {major:02x}:{minor:02x}:{number} 0 EOF\n")
        };
        let locks = format!(
            "2: POSIX  ADVISORY  READ 7 00:01:9 0 EOF\n{}{}",
            line("8", number + 1),
            line("9", number)
        );
        assert_eq!(holder(&locks, &one), Some(9));
        for none in ["", "x", &line("0", number), &line("-1", number), &line("8", number + 1)] {
            assert_eq!(holder(none, &one), None, "{none}");
        }
        assert!(locked(&one, &path, "--out").is_ok());
        let refused = locked(&other, &path, "--out").unwrap_err().to_string();
        assert!(refused.contains("is writing it; wait until that has ended"), "{refused}");
        drop(one);
        assert!(locked(&other, &path, "--out").is_ok());
        fs::remove_file(path).unwrap();
    }
}
