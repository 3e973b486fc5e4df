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

use std::net::Ipv4Addr;
use std::process::Command;

pub(super) use session::Session;

use super::plan::InsidePlan;

/// Returns this program in one of its [roles], even if its file was moved.
fn myself(role: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["wan-inside", role]);
    command
}

/// Returns the names known to programs inside, besides this machine's.
fn names(plan: &InsidePlan) -> Vec<(&'static str, Ipv4Addr)> {
    use softtimers_wan::inside::{FAR, NEAR};
    match plan.peer {
        Some(_) => vec![("peer", FAR), ("near", NEAR)],
        None if plan.host_loopback => vec![("host", FAR)],
        None => vec![],
    }
}
