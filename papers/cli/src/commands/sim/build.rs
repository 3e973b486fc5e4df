//! The SHA-256 of the program that makes a result: with the same file the result can be reproduced.

use std::fs::File;

use softtimers_sim::{Hashed, Sha256};

/// Hashes the file that this process runs from; `None` if it cannot be read.
///
/// # Cost
/// Some ten milliseconds for an installed program.
pub(super) fn sha256() -> Option<Sha256> {
    let (sha256, read) = Hashed::new(File::open("/proc/self/exe").ok()?).finish();
    read.ok().map(|()| sha256)
}
