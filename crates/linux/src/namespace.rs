//! Namespaces of a thread's own.

use std::io;

use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::optional::Optional;

/// Gives the calling thread an empty network; it ends with the last thread and descriptor in it.
pub fn unshare_network() -> io::Result<()> {
    Optional::Unshare.check()?;
    // SAFETY: the descriptor table stays shared.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Gives the calling process, which must have one thread only, all privileges over namespaces that it
/// makes from now on, and takes those over the machine.
pub fn unshare_user() -> io::Result<()> {
    Optional::Unshare.check()?;
    // SAFETY: the descriptor table stays shared.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }?)
}
