//! Networks of this process's own, joined by a path: no privilege is needed, only user namespaces.
//!
//! ```text
//!   network near                middle: this thread               far, or a gateway's interface
//!   ┌──────────────────┐   ┌───────────────────────────┐   ┌──────────────────┐
//!   │ eth0 10.0.2.100 ═╪═══╪═ near ◀── Bridge ──▶ far ═╪═══╪═ eth0 10.0.2.2   │
//!   └──────────────────┘   └───────────────────────────┘   └──────────────────┘
//! ```
//!
//! A process in `near` and one in `far` think that they share a cable, and meet the path. The user namespace maps the
//! process's user and group onto themselves and nobody else, so files stay those of the same user, and a program in there
//! has no right that it lacks outside. Everything ends with the last process inside.
//!
//! Only a process with one thread can do this, and it cannot go back.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::thread;

use rustix::process::{DumpableBehavior, getegid, geteuid, set_dumpable_behavior};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use softtimers_linux::namespace::{unshare_network, unshare_user};
use softtimers_net::packet::lay;

/// The address of the near end.
pub const NEAR: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);
/// The address of the far end: a second network's, or a gateway's.
pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// Where a gateway answers for name servers.
pub const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);
/// The interfaces of the middle, which the path lies between.
pub const ENDS: [&str; 2] = ["near", "far"];

/// The networks. This thread is in the middle one.
#[derive(Debug)]
pub struct Networks {
    near: OwnedFd,
    far: Option<OwnedFd>,
}

/// Gives this process a user namespace of its own, with all capabilities over what it makes there.
///
/// # Errors
/// A sentence that says what forbids it.
pub fn enter_user_namespace() -> Result<(), String> {
    let (user, group) = (geteuid(), getegid());
    // Who has become another user may not write the maps otherwise.
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    let map = |what: &str, text: String| fs::write(format!("/proc/self/{what}"), text);
    unshare_user()
        .and_then(|()| map("setgroups", "deny".to_owned()))
        .and_then(|()| map("uid_map", format!("{user} {user} 1")))
        .and_then(|()| map("gid_map", format!("{group} {group} 1")))
        .map_err(|error| forbidden(&error, |name| fs::read_to_string(format!("/proc/sys/{name}")).ok()))
}

/// Names the setting that forbids user namespaces, if it is one.
fn forbidden(error: &io::Error, setting: impl Fn(&str) -> Option<String>) -> String {
    let by = SETTINGS.iter().find(|(name, value, _)| setting(name).is_some_and(|is| is.trim() == *value));
    match by {
        Some((name, value, allowed)) => {
            let name = name.replace('/', ".");
            format!(
                "user namespaces are forbidden here: {name} is {value}; sysctl -w {name}={allowed} allows them"
            )
        }
        None => {
            format!("user namespaces are forbidden here, as by a container's filter of system calls: {error}")
        }
    }
}

/// Settings, values that forbid user namespaces, and values that allow them.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("user/max_user_namespaces", "0", "10000"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
];

impl Networks {
    /// Makes the networks, with cables, addresses and routes; without `far`, who is there has to bring its interface.
    ///
    /// # Errors
    /// The system's error, and what it is about.
    pub fn make(far: bool) -> io::Result<Self> {
        let doing = |what: &'static str| {
            move |error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"))
        };
        let new = || unshare_network().and_then(|()| own()).map_err(doing("making a network"));
        let (near, far) = (new()?, far.then(new).transpose()?);
        unshare_network().and_then(|()| tune()).map_err(doing("setting up the middle"))?;
        join(ENDS[0], &near, NEAR, FAR).map_err(doing("setting up the near end"))?;
        if let Some(far) = &far {
            join(ENDS[1], far, FAR, NEAR).map_err(doing("setting up the far end"))?;
        }
        Ok(Networks { near, far })
    }

    /// Does something in the near network, such as starting a program, which is then there; with `processes`, in that space
    /// of processes.
    ///
    /// # Errors
    /// Those of `act`, and what the system says.
    pub fn near<T: Send>(
        &self,
        processes: Option<BorrowedFd<'_>>,
        act: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        within(&self.near, processes, act)
    }

    /// Does something in the far network.
    ///
    /// # Errors
    /// As [`near`](Self::near); `NotFound` if there is no such network.
    pub fn far<T: Send>(
        &self,
        processes: Option<BorrowedFd<'_>>,
        act: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let far = self.far.as_ref().ok_or_else(|| io::Error::from(ErrorKind::NotFound))?;
        within(far, processes, act)
    }
}

/// Lays a cable to another network, which gets an address at its end.
fn join(end: &str, network: &OwnedFd, address: Ipv4Addr, other: Ipv4Addr) -> io::Result<()> {
    // Before there is an interface, so that none sends what nobody asked for.
    within(network, None, tune)?;
    lay::cable(end, "eth0", network.as_fd())?;
    lay::switch_on(end)?;
    within(network, None, || {
        lay::switch_on("lo")?;
        lay::give_address("eth0", address, 24)?;
        lay::switch_on("eth0")?;
        lay::default_route(other)
    })
}

/// Does something in another network, and starts processes in another space: by a thread of its own, for nobody comes back
/// from there.
fn within<T: Send>(
    network: &OwnedFd,
    processes: Option<BorrowedFd<'_>>,
    act: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let act = || {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
        if let Some(processes) = processes {
            move_into_link_name_space(processes, Some(LinkNameSpaceType::ProcessID))?;
        }
        act()
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("within".to_owned()).spawn_scoped(scope, act)?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// The network that this thread is in.
fn own() -> io::Result<OwnedFd> {
    File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
}

/// Settings of this network. IPv6 is off, for nobody out there speaks it, and its own packets would count; `ping` works
/// without a capability. What a kernel does not have, it need not be told.
fn tune() -> io::Result<()> {
    let group = getegid();
    for (name, value) in [
        ("net/ipv6/conf/all/disable_ipv6", "1".to_owned()),
        ("net/ipv6/conf/default/disable_ipv6", "1".to_owned()),
        ("net/ipv4/ping_group_range", format!("{group} {group}")),
    ] {
        let _ = fs::write(format!("/proc/sys/{name}"), value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_forbids_user_namespaces_is_named_with_its_remedy() {
        let refused = io::Error::from(ErrorKind::PermissionDenied);
        for (name, value, allowed) in SETTINGS {
            let said = forbidden(&refused, |asked| (asked == name).then(|| format!("{value}\n")));
            let name = name.replace('/', ".");
            assert!(said.contains(&format!("{name} is {value}; sysctl -w {name}={allowed}")), "{said}");
        }
        let said = forbidden(&refused, |_| None);
        assert!(said.contains("container") && said.contains("permission denied"), "{said}");
    }
}
