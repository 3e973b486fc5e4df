//! `wan … -- CMD`: a command in a network of its own, behind the path.
//!
//! ```text
//!   this process                        what it starts
//!   ├─ before its user namespace ─────▶ gateway: waits for the order to run pasta or slirp4netns      no --peer
//!   ├─ user namespace, networks
//!   ├─ with the right to mount ───────▶ keeper ─▶ init of the processes inside: reaps, ends with its stdin
//!   │                          ├──────▶ far:  names ─exec▶ CMD2                                      --peer
//!   │                          └──────▶ near: names ─exec▶ CMD
//!   └─ sandbox; carries frames until CMD ends, then closes the init's stdin
//! ```
//!
//! However this process ends, the kernel closes those pipes: then the init ends, and with it everything inside, and the
//! gateway. So a SIGKILL leaves nothing behind, and no process has to be searched for.
//!
//! CMD gets the terminal, stdin and stdout unchanged. It is in this process's group, so keys reach it directly.

mod gateway;
pub(crate) mod roles;
mod session;

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

pub(super) use session::Session;

use super::plan::InsidePlan;

/// Returns this program in one of its [roles], even if its file was moved.
fn myself(role: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["wan-inside", role]);
    command
}

/// Waits until one of these is readable or closed, and returns which.
fn wait_for(sources: &[BorrowedFd<'_>]) -> io::Result<Vec<bool>> {
    let mut waited: Vec<PollFd<'_>> =
        sources.iter().map(|source| PollFd::new(source, PollFlags::IN)).collect();
    loop {
        match poll(&mut waited, None) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(waited.iter().map(|source| !source.revents().is_empty()).collect()),
        }
    }
}

/// Returns the names known to programs inside, besides this machine's.
fn names(plan: &InsidePlan) -> Vec<(&'static str, IpAddr)> {
    use softtimers_wan::inside::{FAR, FAR_V6, NEAR, NEAR_V6};
    match plan.peer {
        // A server may listen to one family only, and not each client tries a second address: two names.
        Some(_) => vec![
            ("peer", FAR.into()),
            ("near", NEAR.into()),
            ("peer6", FAR_V6.into()),
            ("near6", NEAR_V6.into()),
        ],
        None if plan.host_loopback => vec![("host", FAR.into())],
        None => vec![],
    }
}
