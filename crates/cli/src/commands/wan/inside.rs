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

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::process::{Command, ExitCode};

use softtimers_measure::failure::Failure;

pub(super) use session::Session;

use super::args::{WanArgs, WanPlan};
use super::run::Emulator;
use crate::run::carry_out;
use crate::run::output::say;
use crate::user_command::pass_on;

/// The plan of a run inside.
#[derive(Clone, Debug)]
pub(crate) struct InsidePlan {
    /// The command and its arguments; at least one word.
    pub(crate) words: Vec<OsString>,
    /// The shell command at the other end; without it the outside network is there.
    pub(crate) peer: Option<OsString>,
    /// Whether this machine's loopback is reachable under the name `host`.
    pub(crate) host_loopback: bool,
}

/// Runs a command behind the path, and returns its exit code.
///
/// # Errors
/// If it could not be started, or the run broke off.
pub(crate) fn run(args: &WanArgs) -> Result<ExitCode, Failure> {
    let mut emulator = Emulator::new(WanPlan::new(args)?)?;
    let done = carry_out(&mut emulator);
    match emulator.ended() {
        Some(status) if !status.success() => {
            if let Err(failure) = done {
                say(format_args!("softtimers: {failure}"));
            }
            Ok(pass_on(status))
        }
        _ => done.map(|()| ExitCode::SUCCESS),
    }
}

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
