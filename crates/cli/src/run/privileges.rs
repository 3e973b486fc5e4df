//! Gives up rights once everything that takes them is open: a run may then do no more than its user, and only what it needs.
//!
//! ```text
//!   with rights         interfaces, ports, programs in the kernel; files, as the caller; somebody's command, as the caller
//!   drop_privileges     user and groups ─▶ capabilities ─▶ no_new_privs ─▶ paths (Landlock) ─▶ system calls (seccomp)
//!   without             threads, strangers' packets, changed rules, metrics, the report
//! ```
//!
//! The kernel keeps all of this for each thread. So it is given up while there is one, and those that are started later
//! inherit; another thread that lives at that moment is a reason not to go on.
//!
//! Nothing takes rights again: programs in the kernel are loaded once, what changes goes through held descriptors, and an
//! interface that was removed ends the run, also if another one has its name by then.

mod calls;
pub(crate) mod paths;
pub(crate) mod user;

use std::thread;
use std::time::Duration;
use std::{fs, io};

use rustix::process::{
    getegid, geteuid, getppid, parent_process_death_signal, set_parent_process_death_signal,
};
use rustix::thread::{
    CapabilitySet, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set, no_new_privs,
    remove_capability_from_bounding_set, set_no_new_privs,
};
use serde::Serialize;

use paths::{Held, Opens};
use user::{User, become_for_good};

/// The fate of the rights that a command began with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rights {
    /// Nothing takes any: they are given up before the run.
    Unneeded,
    /// Something has to be opened with them: the run gives them up by [`Run::drop_privileges`](super::Run::drop_privileges).
    ToOpen,
    /// They are for its children, commands of this program, which give up their own.
    OfChildren,
}

/// The needs of a run after it has opened what takes rights.
#[derive(Clone, Debug)]
pub(crate) struct Needs {
    /// Whom to become; `None`: the caller.
    pub(crate) user: Option<User>,
    /// Capabilities for what is done again and again, as far as there are any.
    pub(crate) kept: CapabilitySet,
    /// The files and calls that it needs afterwards; `None`: it is not confined, for it takes nothing from strangers.
    pub(crate) confined: Option<Confined>,
}

impl Needs {
    /// Nothing but what it is kept to.
    pub(crate) fn confined(to: Confined) -> Self {
        Needs { confined: Some(to), ..Needs::default() }
    }

    /// Nothing but programs that it has loaded into the kernel.
    pub(crate) fn with_bpf() -> Self {
        let text = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        let kept = to_use_bpf(&text("osrelease"), &text("unprivileged_bpf_disabled"));
        Needs { kept, ..Needs::confined(Confined { uses_bpf: true, ..Confined::default() }) }
    }
}

/// The bounds of a run that takes strangers' packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Confined {
    /// The paths and connections that it opens.
    pub(crate) opens: Opens,
    /// Whether it reads what programs in the kernel write.
    pub(crate) uses_bpf: bool,
}

impl Default for Needs {
    /// Allows nothing.
    fn default() -> Self {
        Needs { user: None, kept: CapabilitySet::empty(), confined: None }
    }
}

/// The `machine.sandbox` object: what holds from the moment on at which privileges were given up.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Sandbox {
    /// The user that it runs as.
    pub(crate) uid: u32,
    /// The group's number.
    pub(crate) gid: u32,
    /// Capabilities that it has kept.
    pub(crate) capabilities: Vec<String>,
    /// Whether no program that it starts can have more of them.
    pub(crate) bounding_set_empty: bool,
    /// Whether neither such a program's owner nor its capabilities count.
    pub(crate) no_new_privs: bool,
    /// Whether it can open only what it needs (Landlock), or `lacking` says what of that a kernel before Linux 6.7 does not know.
    pub(crate) landlock: bool,
    /// Whether it can make only system calls of a list (seccomp).
    pub(crate) seccomp: bool,
    /// The rights that could not be given up, and why, one sentence each.
    pub(crate) lacking: Vec<String>,
    /// Whether people want to know.
    #[serde(skip)]
    told: bool,
}

impl Sandbox {
    /// One as it is most often.
    #[cfg(test)]
    pub(crate) fn shown() -> Self {
        Sandbox { uid: 1_000, landlock: true, seccomp: true, told: true, ..Sandbox::default() }
    }

    /// Takes away what nobody has to give up: paths first, for the list of system calls has none that does it.
    fn confine(&mut self, to: &Confined) {
        match paths::keep_to(&to.opens) {
            Ok(held) => self.landlock = self.holds(held),
            Err(why) => self.lacking.push(format!("no Landlock: {why}")),
        }
        match calls::keep_to_list(to.uses_bpf) {
            Ok(()) => self.seccomp = true,
            Err(why) => self.lacking.push(format!("no seccomp: {why}")),
        }
    }

    /// Landlock does, if only in part.
    fn holds(&mut self, held: Held) -> bool {
        if held == Held::Partly {
            self.lacking.push(PARTLY.to_owned());
        }
        true
    }

    /// One line for people, of a run that began with more.
    pub(crate) fn line(&self) -> Option<String> {
        let kept = match self.capabilities.join(", ") {
            kept if kept.is_empty() => "no capabilities".to_owned(),
            kept => kept,
        };
        let held = [(self.landlock, ", Landlock"), (self.seccomp, ", seccomp")];
        let held: String = held.into_iter().filter_map(|(holds, what)| holds.then_some(what)).collect();
        let lacking: String = self.lacking.iter().map(|what| format!("; {what}")).collect();
        self.told.then(|| format!("sandbox: user {}, {kept}{held}{lacking}", self.uid))
    }
}

/// Gives up all that `needs` do not name. Threads that are started from now on are the same.
///
/// # Errors
/// The system's refusal; if there is another thread, which would keep its rights.
pub(super) fn give_up(needs: &Needs) -> io::Result<Sandbox> {
    alone()?;
    let caller = User::caller()?;
    let user = needs.user.unwrap_or(caller);
    let before = (geteuid().as_raw(), capabilities(None)?.effective);
    let (ends_with_parent, parent) = (parent_process_death_signal()?, getppid());
    set_no_new_privs(true)?;
    let bounding_set_empty = empty_bounding_set();
    // A kernel without them has none to clear.
    let _ = clear_ambient_capability_set();
    become_for_good(user, needs.kept)?;
    if ends_with_parent.is_some() {
        // Another user's credentials take it away, and the parent may have ended in between.
        set_parent_process_death_signal(ends_with_parent)?;
        if getppid() != parent {
            return Err(io::Error::other("the parent has ended"));
        }
    }
    let held = capabilities(None)?.permitted;
    let mut sandbox = Sandbox {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
        capabilities: names(held),
        bounding_set_empty,
        no_new_privs: no_new_privs()?,
        landlock: false,
        seccomp: false,
        lacking: vec![],
        told: before != (geteuid().as_raw(), held) || !held.is_empty(),
    };
    if !needs.kept.contains(held) {
        let beyond = names(held - needs.kept).join(", ");
        sandbox.lacking.push(format!("a filter of system calls forbids to give up {beyond}"));
    }
    if let Some(confined) = &needs.confined {
        sandbox.confine(confined);
    }
    Ok(sandbox)
}

/// Waits until this thread is the only one: those that were joined may be on their way out still.
fn alone() -> io::Result<()> {
    for _ in 0..LOOKS {
        // Who is not told counts on itself.
        if fs::read_dir("/proc/self/task").map_or(1, Iterator::count) <= 1 {
            return Ok(());
        }
        thread::park_timeout(BETWEEN_LOOKS);
    }
    Err(io::Error::other("another thread of this process would keep them"))
}

/// Says whether no capability is left in it; without `CAP_SETPCAP` it stays as it is.
fn empty_bounding_set() -> bool {
    // Also those that this program does not know; what the kernel does not know is in no set.
    let each = || (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
    for capability in each() {
        let _ = remove_capability_from_bounding_set(capability);
    }
    !each().any(|capability| capability_is_in_bounding_set(capability).unwrap_or(false))
}

/// Before Linux 5.19, where users may not load programs, they may not read the counters of loaded ones either.
fn to_use_bpf(release: &str, disabled: &str) -> CapabilitySet {
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    let is_old = (numbers.next(), numbers.next()) < (Some(5), Some(19));
    if is_old && disabled.trim() != "0" { CapabilitySet::BPF } else { CapabilitySet::empty() }
}

fn names(capabilities: CapabilitySet) -> Vec<String> {
    capabilities.iter_names().map(|(name, _)| format!("CAP_{name}")).collect()
}

/// Protections that Linux 5.13 to 6.6 lack, some more and some fewer.
const PARTLY: &str =
    "Landlock holds partly: this kernel does not know all of its rules, which cover files and TCP";

/// A second in all.
const LOOKS: u32 = 1_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_kernels_want_a_capability_for_loaded_programs() {
        for (release, disabled, kept) in [
            ("5.15.0-91-generic", "2\n", CapabilitySet::BPF),
            ("5.8.0", "", CapabilitySet::BPF),
            ("5.15.0", "0\n", CapabilitySet::empty()),
            ("5.19.0", "2\n", CapabilitySet::empty()),
            ("6.1.0", "2\n", CapabilitySet::empty()),
            ("6.18.44-fc", "2\n", CapabilitySet::empty()),
        ] {
            assert_eq!(to_use_bpf(release, disabled), kept, "{release} {disabled}");
        }
    }

    #[test]
    fn people_are_told_what_holds_and_what_does_not() {
        let sandbox = Sandbox { uid: 7, landlock: true, told: true, ..Sandbox::default() };
        assert_eq!(sandbox.line().unwrap(), "sandbox: user 7, no capabilities, Landlock");
        let lacking = vec!["no seccomp: why".to_owned()];
        let sandbox = Sandbox { capabilities: vec!["CAP_BPF".to_owned()], lacking, ..sandbox };
        assert_eq!(sandbox.line().unwrap(), "sandbox: user 7, CAP_BPF, Landlock; no seccomp: why");
        assert_eq!(Sandbox { told: false, ..sandbox }.line(), None);
        let mut old = Sandbox { uid: 7, told: true, ..Sandbox::default() };
        old.landlock = old.holds(Held::Partly);
        let line = old.line().unwrap();
        assert!(old.landlock && line.contains("Landlock; Landlock holds partly: "), "{line}");
    }
}
