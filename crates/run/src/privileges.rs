//! Drops privileges once everything that takes them is open: from then on a run may do only what its user may, and what
//! it needs.
//!
//! ```text
//!   with privileges     interfaces, ports, programs in the kernel; files, as the caller; the user's command, as the caller
//!   drop_privileges     user and groups ─▶ capabilities ─▶ no_new_privs ─▶ paths (Landlock) ─▶ system calls (seccomp)
//!   without             threads, strangers' packets, changed rules, metrics, the report
//! ```
//!
//! The kernel keeps all of this per thread. So privileges are dropped while there is one thread, and threads started
//! later inherit the restrictions; if another thread lives at that moment, the run ends.
//!
//! Privileges are never needed again: programs in the kernel are loaded once and changed through open descriptors, and
//! the removal of an interface ends the run, even if another one has its name by then.

mod calls;
pub mod paths;
pub mod user;

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

/// What a command does with the privileges that it began with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rights {
    /// It needs none: they are dropped before the run.
    Unneeded,
    /// It opens something with them: the run drops them by [`Run::drop_privileges`](super::Run::drop_privileges).
    ToOpen,
    /// They are for its children, commands of this program, which drop their own.
    OfChildren,
}

/// The needs of a run after it has opened everything that takes privileges.
#[derive(Clone, Debug)]
pub struct Needs {
    /// The user to become; `None` for the caller.
    pub user: Option<User>,
    /// Capabilities that are needed repeatedly, as far as the process has them.
    pub kept: CapabilitySet,
    /// The files and calls needed afterwards; `None` without a sandbox, for a run that handles no input from strangers.
    pub confined: Option<Confined>,
}

impl Needs {
    /// Needs only what the sandbox allows.
    pub fn confined(to: Confined) -> Self {
        Needs { confined: Some(to), ..Needs::default() }
    }

    /// Needs only the programs that it has loaded into the kernel.
    pub fn with_bpf() -> Self {
        let text = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        let kept = to_use_bpf(&text("osrelease"), &text("unprivileged_bpf_disabled"));
        Needs { kept, ..Needs::confined(Confined { uses_bpf: true, ..Confined::default() }) }
    }
}

/// The limits of a run that handles strangers' packets.
#[derive(Clone, Debug, Default)]
pub struct Confined {
    /// The paths and connections that it opens.
    pub opens: Opens,
    /// Whether it reads the output of programs in the kernel.
    pub uses_bpf: bool,
}

impl Default for Needs {
    /// Allows nothing.
    fn default() -> Self {
        Needs { user: None, kept: CapabilitySet::empty(), confined: None }
    }
}

/// The `machine.sandbox` object: the restrictions since privileges were dropped.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Sandbox {
    /// The user that it runs as.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// The capabilities that it has kept.
    pub capabilities: Vec<String>,
    /// Whether no program that it starts can have more of them.
    pub bounding_set_empty: bool,
    /// Whether a set-user-id bit or file capabilities have no effect on programs that it starts.
    pub no_new_privs: bool,
    /// Whether it can open only what it needs (Landlock); `lacking` names the protections that a kernel before Linux
    /// 6.7 lacks.
    pub landlock: bool,
    /// Whether it can make only listed system calls (seccomp).
    pub seccomp: bool,
    /// The restrictions that failed, and why, one sentence each.
    pub lacking: Vec<String>,
    /// Whether to show it to people.
    #[serde(skip)]
    told: bool,
}

impl Sandbox {
    /// The most common restrictions.
    #[cfg(any(test, feature = "checks"))]
    pub fn shown() -> Self {
        Sandbox { uid: 1_000, landlock: true, seccomp: true, told: true, ..Sandbox::default() }
    }

    /// Applies the sandbox: paths first, since the listed system calls do not include Landlock's.
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

    /// Says whether Landlock holds, if only in part.
    fn holds(&mut self, held: Held) -> bool {
        if held == Held::Partly {
            self.lacking.push(PARTLY.to_owned());
        }
        true
    }

    /// Returns one line for people, for a run that began with more privileges.
    pub fn line(&self) -> Option<String> {
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

/// Drops all privileges that `needs` do not name. Threads started from now on inherit the restrictions.
///
/// # Errors
/// The system's refusal; an error if there is another thread, which would keep its privileges.
pub(crate) fn give_up(needs: &Needs) -> io::Result<Sandbox> {
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
        // Changing credentials clears it, and the parent may have ended in between.
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

/// Waits until this thread is the only one: joined threads may still be exiting.
fn alone() -> io::Result<()> {
    for _ in 0..LOOKS {
        // Without this information, assume there is only this thread.
        if fs::read_dir("/proc/self/task").map_or(1, Iterator::count) <= 1 {
            return Ok(());
        }
        thread::park_timeout(BETWEEN_LOOKS);
    }
    Err(io::Error::other("another thread of this process would keep them"))
}

/// Says whether the bounding set is empty; without `CAP_SETPCAP` it stays unchanged.
fn empty_bounding_set() -> bool {
    // Including those unknown to this program; those unknown to the kernel are in no set.
    let each = || (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
    for capability in each() {
        let _ = remove_capability_from_bounding_set(capability);
    }
    !each().any(|capability| capability_is_in_bounding_set(capability).unwrap_or(false))
}

/// Returns the capability that reading counters of loaded programs takes before Linux 5.19 where users may not load
/// any.
fn to_use_bpf(release: &str, disabled: &str) -> CapabilitySet {
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    let is_old = (numbers.next(), numbers.next()) < (Some(5), Some(19));
    if is_old && disabled.trim() != "0" { CapabilitySet::BPF } else { CapabilitySet::empty() }
}

fn names(capabilities: CapabilitySet) -> Vec<String> {
    capabilities.iter_names().map(|(name, _)| format!("CAP_{name}")).collect()
}

/// Protections that some of Linux 5.13 to 6.6 lack.
const PARTLY: &str =
    "Landlock holds partly: this kernel does not know all of its rules, which cover files and TCP";

/// The number of checks: one second in all.
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
