//! Namespaces for a thread, and for a process.

use std::io;

use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::optional::Optional;

/// Gives the calling thread an empty network namespace, which ends with its last thread and descriptor.
pub fn unshare_network() -> io::Result<()> {
    unshare(UnshareFlags::NEWNET)
}

/// Gives the calling process, which must have only one thread, all privileges over namespaces that it makes
/// from now on, and takes away those over the machine.
pub fn unshare_user() -> io::Result<()> {
    unshare(UnshareFlags::NEWUSER)
}

/// Starts later child processes in a PID namespace of their own. The first one is its init: with it all
/// others end.
pub fn unshare_processes() -> io::Result<()> {
    unshare(UnshareFlags::NEWPID)
}

/// Gives the calling thread its own mounts, root and working directory.
pub fn unshare_mounts() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS)
}

fn unshare(what: UnshareFlags) -> io::Result<()> {
    Optional::Unshare.check()?;
    // SAFETY: no flag above is FILES, so the descriptor table stays shared.
    Ok(unsafe { unshare_unsafe(what) }?)
}
