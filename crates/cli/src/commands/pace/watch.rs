//! Waiting for the command, its signals and the control socket: [`Watch`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use softtimers_measure::interrupt::Interrupt;

use crate::control::Control;
use crate::user_command::Terminal;

/// The processes of a command.
pub(super) trait Members {
    /// Says whether there is a process.
    fn is_populated(&self) -> bool;

    /// Sends a signal to each of them.
    fn signal(&self, signal: Signal);

    /// Returns what to wait for: that there are none any more, or one wants to be served.
    fn events(&self) -> (BorrowedFd<'_>, PollFlags);

    /// Serves one that wants to be.
    fn serve(&self) {}
}

/// A command that runs with its children.
#[derive(Debug)]
pub(super) struct Watch {
    child: Child,
    /// Readable when it has ended.
    ended: OwnedFd,
    terminal: Terminal,
    status: Option<ExitStatus>,
    /// Whether a signal came before, which the command was sent.
    signalled: bool,
}

impl Watch {
    /// Watches a child of this process.
    ///
    /// # Errors
    /// Without a free descriptor.
    pub(super) fn new(child: Child, terminal: Terminal) -> io::Result<Self> {
        let ended = pidfd_open(id(&child)?, PidfdFlags::empty())?;
        Ok(Watch { child, ended, terminal, status: None, signalled: false })
    }

    /// Returns how the command has ended, if it has.
    pub(super) fn status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// Waits until the command and its children have ended, or a second signal comes. `answer` answers a line of the
    /// control socket.
    ///
    /// # Errors
    /// If the system refuses to wait.
    pub(super) fn wait(
        &mut self,
        members: &dyn Members,
        interrupt: &Interrupt,
        control: Option<&mut Control>,
        mut answer: impl FnMut(&str) -> String,
    ) -> io::Result<()> {
        let mut control = control;
        while self.status().is_none() || members.is_populated() {
            let ready = self.ready(members, interrupt, control.as_deref())?;
            // It is readable, so this does not block.
            if ready.signal && interrupt.wait(interrupt)? {
                let again = std::mem::replace(&mut self.signalled, true);
                if again {
                    return Ok(());
                }
                self.hand_on(members, interrupt.exit_code() - 128);
            }
            if ready.member {
                members.serve();
            }
            let Some(control) = control.as_deref_mut() else { continue };
            if ready.client {
                // Without a free descriptor it stays queued; the next look comes in a second.
                let _ = control.accept();
            }
            ready.connections.into_iter().for_each(|number| control.serve(number, &mut answer));
        }
        Ok(())
    }

    /// Passes a signal on: to the command, unless the terminal has sent it already; to its children once it has ended.
    fn hand_on(&mut self, members: &dyn Members, signal: i32) {
        let Some(signal) = Signal::from_named_raw(signal) else { return };
        let by_key = signal == Signal::INT && self.terminal.has_keys();
        match self.status() {
            Some(_) => members.signal(signal),
            None if by_key => {}
            None => {
                // It may have ended meanwhile.
                let _ = id(&self.child).map(|id| kill_process(id, signal));
            }
        }
    }

    fn ready(
        &self,
        members: &dyn Members,
        interrupt: &Interrupt,
        control: Option<&Control>,
    ) -> io::Result<Ready> {
        let connections: Vec<(usize, BorrowedFd<'_>)> =
            control.into_iter().flat_map(Control::connections).collect();
        let (members, wanted) = members.events();
        let mut sources =
            vec![PollFd::new(interrupt, PollFlags::IN), PollFd::from_borrowed_fd(members, wanted)];
        // An ended command is readable for ever.
        sources.extend(self.status.is_none().then(|| PollFd::new(&self.ended, PollFlags::IN)));
        let listener = control.map(|control| (sources.len(), control.as_fd()));
        sources.extend(listener.map(|(_, fd)| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let first = sources.len();
        sources.extend(connections.iter().map(|&(_, fd)| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut sources, Some(&Timespec { tv_sec: LONGEST_WAIT.as_secs() as i64, tv_nsec: 0 })) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready::default()),
            Err(error) => return Err(error.into()),
        }
        let is_ready = |at: usize| !sources[at].revents().is_empty();
        Ok(Ready {
            signal: is_ready(0),
            member: sources[1].revents().contains(wanted),
            client: listener.is_some_and(|(at, _)| is_ready(at)),
            connections: (first..sources.len())
                .filter(|&at| is_ready(at))
                .map(|at| connections[at - first].0)
                .collect(),
        })
    }
}

/// Events that are ready.
#[derive(Debug, Default)]
struct Ready {
    signal: bool,
    /// A process of the command is to be served.
    member: bool,
    /// Somebody connects to the control socket.
    client: bool,
    connections: Vec<usize>,
}

fn id(child: &Child) -> io::Result<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Events of a cgroup are told at most once in 10 ms, and ended orphans of a supervised command not at all; what is missed
/// is noticed by then.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
