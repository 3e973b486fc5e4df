//! The program that makes a result, by its SHA-256: whoever has the same file can ask it again.

use std::fs::File;

use softtimers_sim::{Hashed, Sha256};

/// Hashes the file that this process runs from; none if it cannot be read.
///
/// # Cost
/// Some ten milliseconds for what is installed.
pub(super) fn sha256() -> Option<Sha256> {
    let (sha256, read) = Hashed::new(File::open("/proc/self/exe").ok()?).finish();
    read.ok().map(|()| sha256)
}
