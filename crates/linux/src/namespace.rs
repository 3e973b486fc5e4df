//! Namespaces of a thread's own, and of a process's.

use std::io;

use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::optional::Optional;

/// Gives the calling thread an empty network; it ends with the last thread and descriptor in it.
pub fn unshare_network() -> io::Result<()> {
    unshare(UnshareFlags::NEWNET)
}

/// Gives the calling process, which must have one thread only, all privileges over namespaces that it
/// makes from now on, and takes those over the machine.
pub fn unshare_user() -> io::Result<()> {
    unshare(UnshareFlags::NEWUSER)
}

/// Starts processes of the calling one in a space of their own from now on. The first is its init: with it all others end.
pub fn unshare_processes() -> io::Result<()> {
    unshare(UnshareFlags::NEWPID)
}

/// Gives the calling thread mounts of its own, and with them a root and a working directory apart from other threads'.
pub fn unshare_mounts() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS)
}

fn unshare(what: UnshareFlags) -> io::Result<()> {
    Optional::Unshare.check()?;
    // SAFETY: no flag above is FILES, so the descriptor table stays shared.
    Ok(unsafe { unshare_unsafe(what) }?)
}
