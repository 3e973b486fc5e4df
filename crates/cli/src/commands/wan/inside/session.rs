//! The processes of a run with a command: [`Session`].

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::iter;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use rustix::thread::{CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_wan::inside::{NAME_SERVER, Networks, enter_user_namespace};

use super::super::plan::InsidePlan;
use super::gateway::Gateway;
use super::roles::READY;
use super::{myself, names};
use crate::run::output::say;
use crate::run::privileges::user::stay_caller;
use crate::user_command::Terminal;

/// Networks, and the processes in them. Dropping it ends them all.
#[derive(Debug)]
pub(crate) struct Session {
    plan: InsidePlan,
    networks: Option<Networks>,
    keeper: Keeper,
    gateway: Option<Gateway>,
    other_end: &'static str,
    peer: Option<Child>,
    command: Option<Child>,
    /// Readable when the command has ended.
    command_ends: Option<OwnedFd>,
    terminal: Terminal,
    /// How the command has ended.
    status: Option<ExitStatus>,
}

/// The init of the processes inside.
#[derive(Debug)]
struct Keeper {
    child: Child,
    stdin: Option<ChildStdin>,
    processes: OwnedFd,
}

impl Session {
    /// Leaves this machine's networks for new ones, in which nothing runs yet.
    ///
    /// # Errors
    /// Not-possible, with the setting that forbids it or what is missing.
    pub(crate) fn enter(plan: InsidePlan) -> Result<Self, Failure> {
        // The command runs as the user who asked for it, also under `sudo`; so the user namespace must be theirs.
        stay_caller().map_err(|error| Failure::broke_off("giving up privileges", &error))?;
        let terminal = Terminal::of_this_process();
        let mut gateway = plan.peer.is_none().then(Gateway::helper).transpose()?;
        enter_user_namespace().map_err(|why| Failure::not_possible(format_args!("-- CMD: {why}")))?;
        let refused = |error: io::Error| Failure::not_possible(format_args!("-- CMD: {error}"));
        let networks = Networks::make(plan.peer.is_some()).map_err(refused)?;
        // Gateway and init begin while the networks are set up.
        let ordered = gateway.as_mut().map(|gateway| gateway.order(plan.host_loopback));
        let not_started = |error| Failure::broke_off("starting the init of the processes inside", &error);
        let keeper = pass_right_to_mount().and_then(|()| Keeper::start()).map_err(not_started)?;
        networks.lay().map_err(refused)?;
        let has_v6 = gateway
            .as_mut()
            .zip(ordered)
            .map(|(gateway, ordered)| gateway.bring_up(ordered, plan.host_loopback));
        if has_v6.transpose()? == Some(true) {
            // Without it, IPv4 remains.
            let _ = networks.add_v6();
        }
        let keeper = Keeper::ready(keeper).map_err(not_started)?;
        let networks = Some(networks);
        let other_end = gateway.as_ref().map_or("peer", |gateway| gateway.name);
        Ok(Session {
            plan,
            networks,
            keeper,
            gateway,
            other_end,
            peer: None,
            command: None,
            command_ends: None,
            terminal,
            status: None,
        })
    }

    /// Names the other end.
    pub(crate) fn other_end(&self) -> &'static str {
        self.other_end
    }

    /// Says whether a command runs at the other end.
    pub(crate) fn has_peer(&self) -> bool {
        self.plan.peer.is_some()
    }

    /// Returns the command in words.
    pub(crate) fn command(&self) -> String {
        let words: Vec<_> = self.plan.words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    /// Starts the peer, waits until it listens, and starts the command. A signal before that ends the run as it would
    /// end the command.
    ///
    /// # Errors
    /// If the system refuses, or the peer has failed.
    pub(crate) fn start(&mut self, interrupt: &Interrupt) -> Result<(), Failure> {
        let Some(networks) = self.networks.take() else { return Ok(()) };
        let broke_off = |what: &'static str| move |error: io::Error| Failure::broke_off(what, &error);
        let processes = Some(self.keeper.processes.as_fd());
        if let Some(line) = &self.plan.peer {
            let words = ["sh", "-c"].map(OsString::from).into_iter().chain([line.clone()]).collect();
            let mut peer = self.helper(&words);
            // stdin and stdout are the command's.
            let out = io::stderr().as_fd().try_clone_to_owned();
            // Keys of the terminal are for the command.
            peer.process_group(0).stdin(Stdio::null()).stdout(out.map_err(broke_off("starting the peer"))?);
            let peer = networks.far(processes, || peer.spawn()).map_err(broke_off("starting the peer"))?;
            await_listener(&networks, self.peer.insert(peer), interrupt)?;
        }
        if interrupt.arrived() {
            self.status = Some(ExitStatus::from_raw(interrupt.exit_code() - 128));
            return Ok(());
        }
        // Keys reach this process, too; a handler that does nothing is not inherited by the command, unlike an ignored
        // signal.
        let ignored = signal_hook::flag::register(signal_hook::consts::SIGQUIT, Arc::default());
        ignored.map_err(broke_off("listening for signals"))?;
        let mut command = self.helper(&self.plan.words);
        let child =
            networks.near(processes, || command.spawn()).map_err(broke_off("starting the command"))?;
        // From here on it is ended and reaped, whatever fails: the init waits for whoever was not.
        let child = self.command.insert(child);
        let ends = id(child).and_then(|id| Ok(pidfd_open(id, PidfdFlags::empty())?));
        self.command_ends = Some(ends.map_err(broke_off("watching the command"))?);
        Ok(())
    }

    /// Returns the process that becomes this command once its names are set up.
    fn helper(&self, words: &Vec<OsString>) -> Command {
        let mut helper = myself("command");
        helper.args(names(&self.plan).iter().map(|(name, address)| format!("--name={name}={address}")));
        helper.args(self.plan.peer.is_none().then(|| format!("--dns={NAME_SERVER}")));
        helper.arg("--").args(words);
        helper
    }

    /// Readable when the command has ended.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.command_ends.as_ref().map(AsFd::as_fd)
    }

    /// Readable when the gateway has ended, once.
    pub(crate) fn gateway(&self) -> Option<BorrowedFd<'_>> {
        self.gateway.as_ref().map(Gateway::descriptor)
    }

    /// Returns how the gateway has ended.
    pub(crate) fn gateway_ended(&mut self) -> String {
        self.gateway.as_mut().map(Gateway::last_words).unwrap_or_default()
    }

    /// Returns how the command has ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none()
            && let Some(child) = &mut self.command
        {
            self.status = child.try_wait().unwrap_or_else(|error| {
                say(format_args!("softtimers: -- CMD: its exit code cannot be read: {error}"));
                Some(ExitStatus::from_raw(UNKNOWN))
            });
        }
        self.status
    }

    /// Passes a signal on, unless the terminal has sent it to the command as well.
    pub(crate) fn hand_on(&self, signal: i32) {
        let by_key = signal == Signal::INT.as_raw() && self.terminal.has_keys();
        let Some(child) = self.command.as_ref().filter(|_| !by_key && self.status.is_none()) else {
            return;
        };
        if let (Some(signal), Ok(id)) = (Signal::from_named_raw(signal), id(child)) {
            // It may have ended meanwhile.
            let _ = kill_process(id, signal);
        }
    }

    /// Asks the peer to end, and ends everything inside.
    pub(crate) fn end(&mut self) {
        // A command that has to be killed now has no exit code of its own.
        self.ended();
        if let Some(gateway) = &mut self.gateway {
            gateway.dismiss();
        }
        let mut children: Vec<Child> = self.command.take().into_iter().collect();
        if let Some(mut peer) = self.peer.take() {
            if matches!(peer.try_wait(), Ok(None)) {
                let _ = id(&peer).map(|id| kill_process_group(id, Signal::TERM));
            }
            for pause in pauses(FAREWELL) {
                if !matches!(peer.try_wait(), Ok(None)) {
                    break;
                }
                thread::park_timeout(pause);
            }
            children.push(peer);
        }
        // The init exists until all inside have ended and been reaped.
        drop(self.keeper.stdin.take());
        for mut child in children {
            let _ = child.wait();
        }
        self.keeper.end();
        self.gateway = None;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

impl Keeper {
    /// Starts its process, which ends with its stdin.
    fn start() -> io::Result<Child> {
        myself("keeper").process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    }

    fn ready(mut child: Child) -> io::Result<Self> {
        let stdin = child.stdin.take();
        match Keeper::processes(&mut child) {
            Ok(processes) => Ok(Keeper { child, stdin, processes }),
            Err(error) => {
                drop(stdin);
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Waits until there is an init, and returns its PID namespace.
    fn processes(child: &mut Child) -> io::Result<OwnedFd> {
        let mut said = [0; READY.len()];
        if let Some(mut stdout) = child.stdout.take() {
            stdout.read_exact(&mut said)?;
        }
        Ok(File::open(format!("/proc/{}/ns/pid_for_children", child.id()))?.into())
    }

    /// Ends all processes inside, and waits for them.
    fn end(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// Lets helpers mount whose user is not root inside.
fn pass_right_to_mount() -> io::Result<()> {
    let held = capabilities(None)?;
    let inheritable = held.inheritable | CapabilitySet::SYS_ADMIN;
    set_capabilities(None, rustix::thread::CapabilitySets { inheritable, ..held })?;
    Ok(configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)?)
}

/// Waits until the peer listens: a server takes a moment, and an earlier client is refused. Its network has no other
/// program, so any listening socket is its own. A peer that goes into the background exits, but listens.
fn await_listener(networks: &Networks, peer: &mut Child, interrupt: &Interrupt) -> Result<(), Failure> {
    let asked = |error: io::Error| Failure::broke_off("waiting for the peer to listen", &error);
    for pause in pauses(PEERS_PATIENCE) {
        if let Some(status) = peer.try_wait().map_err(asked)?.filter(|status| !status.success()) {
            return Err(Failure::check(format_args!("--peer: the command ended before CMD began: {status}")));
        }
        if interrupt.arrived() || networks.far(None, listens).map_err(asked)? {
            return Ok(());
        }
        thread::park_timeout(pause);
    }
    let waited = PEERS_PATIENCE.as_secs();
    say(format_args!("softtimers: --peer: nobody listens there after {waited} s; CMD begins all the same"));
    Ok(())
}

/// Says whether any socket in this thread's network waits for datagrams or connections.
fn listens() -> io::Result<bool> {
    const LISTENS: &str = "0A";
    let has = |table: &str, state: Option<&str>| {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
        text.lines()
            .skip(1)
            .any(|line| state.is_none_or(|state| line.split_ascii_whitespace().nth(3) == Some(state)))
    };
    Ok(has("tcp", Some(LISTENS)) || has("tcp6", Some(LISTENS)) || has("udp", None) || has("udp6", None))
}

fn id(child: &Child) -> io::Result<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// How a command has ended that cannot be asked, as `wait` would say it: with exit code 1.
const UNKNOWN: i32 = 1 << 8;
/// Returns the pauses between checks, of this time in all: an eighth of those before, and at most 50 ms.
fn pauses(most: Duration) -> impl Iterator<Item = Duration> {
    let [first, longest] = [1, 50].map(Duration::from_millis);
    let mut past = Duration::ZERO;
    iter::from_fn(move || {
        let pause = (past / 8).clamp(first, longest).min(most - past);
        past += pause;
        (!pause.is_zero()).then_some(pause)
    })
}

/// A server may have much to load.
const PEERS_PATIENCE: Duration = Duration::from_secs(10);
/// The time in which a peer may end by itself.
const FAREWELL: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_short_and_add_up() {
        for most in [FAREWELL, PEERS_PATIENCE] {
            let pauses: Vec<Duration> = pauses(most).collect();
            assert_eq!(pauses.iter().sum::<Duration>(), most);
            assert!(pauses.iter().all(|pause| *pause <= Duration::from_millis(50)), "{pauses:?}");
        }
    }
}
