//! Private networks of this process, joined by a path: they need no privilege, only user namespaces.
//!
//! ```text
//!   network near                middle: this thread               far, or a gateway's interface
//!   ┌──────────────────┐   ┌───────────────────────────┐   ┌──────────────────┐
//!   │ eth0 10.0.2.100 ═╪═══╪═ near ◀── Relay ───▶ far ═╪═══╪═ eth0 10.0.2.2   │
//!   └──────────────────┘   └───────────────────────────┘   └──────────────────┘
//! ```
//!
//! A process in `near` and one in `far` see a cable between them, and get the path. The user namespace maps only the
//! process's own user and group, onto themselves, so files keep their owner, and a program inside has no right that it
//! lacks outside. The networks end with the last process inside.
//!
//! TCP has the settings (sysctls) of the network in which this process was started.
//!
//! Only a single-threaded process can do this, and it cannot leave again.

mod sysctls;

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::thread;

use rustix::process::{DumpableBehavior, getegid, geteuid, set_dumpable_behavior};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use softtimers_linux::namespace::{unshare_network, unshare_user};
use softtimers_net::packet::lay;

use sysctls::TcpSettings;

/// The address of the near end.
pub const NEAR: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);
/// The address of the far end: a second network's, or a gateway's.
pub const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// The near end's address of IPv6.
pub const NEAR_V6: Ipv6Addr = Ipv6Addr::new(0xfd53, 0x54, 0, 0, 0, 0, 0, 0x100);
/// The far end's, or a gateway's.
pub const FAR_V6: Ipv6Addr = Ipv6Addr::new(0xfd53, 0x54, 0, 0, 0, 0, 0, 2);
/// The address at which a gateway offers name service.
pub const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);
/// The interfaces in the middle, between which the path lies.
pub const ENDS: [&str; 2] = ["near", "far"];

/// The networks. This thread is in the middle one.
#[derive(Debug)]
pub struct Networks {
    near: OwnedFd,
    far: Option<OwnedFd>,
    settings: TcpSettings,
}

/// Moves this process into a user namespace of its own, with all capabilities over what it creates there.
///
/// # Errors
/// A sentence that names the setting that forbids it.
pub fn enter_user_namespace() -> Result<(), String> {
    let (user, group) = (geteuid(), getegid());
    // Otherwise a process that has changed its user may not write the maps.
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    let map = |what: &str, text: String| fs::write(format!("/proc/self/{what}"), text);
    unshare_user()
        .and_then(|()| map("setgroups", "deny".to_owned()))
        .and_then(|()| map("uid_map", format!("{user} {user} 1")))
        .and_then(|()| map("gid_map", format!("{group} {group} 1")))
        .map_err(|error| forbidden(&error, |name| fs::read_to_string(format!("/proc/sys/{name}")).ok()))
}

/// Returns a message that names the setting that forbids user namespaces, if one does.
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
    /// Creates the networks, still without cables; without `far`, with an interface for a gateway to attach to, or to make.
    ///
    /// # Errors
    /// The system's error, and the step that failed.
    pub fn make(far: bool) -> io::Result<Self> {
        let new = || unshare_network().and_then(|()| own()).map_err(doing("making a network"));
        let settings = TcpSettings::read();
        let (near, far) = (new()?, far.then(new).transpose()?);
        unshare_network().and_then(|()| tune()).map_err(doing("setting up the middle"))?;
        // Without it, the gateway makes one, which is off, or says why it cannot.
        if far.is_none() && lay::tap(ENDS[1]).is_ok() {
            lay::switch_on(ENDS[1]).map_err(doing("setting up the gateway's interface"))?;
        }
        Ok(Networks { near, far, settings })
    }

    /// Lays cables, with addresses and routes.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    pub fn lay(&self) -> io::Result<()> {
        let Networks { near, far, settings } = self;
        join(ENDS[0], near, NEAR, FAR, settings).map_err(doing("setting up the near end"))?;
        if let Some(far) = far {
            join(ENDS[1], far, FAR, NEAR, settings).map_err(doing("setting up the far end"))?;
            // A kernel without IPv6 has no such addresses, and needs none.
            let _ = within(far, None, || speak_v6(FAR_V6, NEAR_V6))
                .and_then(|()| within(near, None, || speak_v6(NEAR_V6, FAR_V6)));
        }
        Ok(())
    }

    /// Gives the near end IPv6, for a gateway that carries it outside.
    ///
    /// # Errors
    /// The system's error, as where a kernel has no IPv6.
    pub fn add_v6(&self) -> io::Result<()> {
        within(&self.near, None, || speak_v6(NEAR_V6, FAR_V6))
    }

    /// Runs `act` in the near network, for instance to start a program there; with `processes`, also in that PID
    /// namespace.
    ///
    /// # Errors
    /// The errors of `act`, and the system's.
    pub fn near<T: Send>(
        &self,
        processes: Option<BorrowedFd<'_>>,
        act: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        within(&self.near, processes, act)
    }

    /// Runs `act` in the far network.
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

/// Names the step in which an error has come.
fn doing(what: &'static str) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Creates a cable to another network, with an address at its end and TCP's settings.
fn join(
    end: &str,
    network: &OwnedFd,
    address: Ipv4Addr,
    other: Ipv4Addr,
    settings: &TcpSettings,
) -> io::Result<()> {
    // Before there is an interface, so that the kernel sends nothing unasked.
    within(network, None, || {
        settings.write();
        tune()
    })?;
    lay::cable(end, "eth0", network.as_fd())?;
    lay::switch_on(end)?;
    within(network, None, || {
        lay::switch_on("lo")?;
        lay::give_address("eth0", address.into(), 24)?;
        lay::switch_on("eth0")?;
        lay::default_route(other.into())
    })
}

/// Gives this network's end of the cable an address of IPv6, and nothing that speaks without being asked.
fn speak_v6(address: Ipv6Addr, other: Ipv6Addr) -> io::Result<()> {
    for (name, value) in [("accept_ra", "0"), ("addr_gen_mode", "1"), ("disable_ipv6", "0")] {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/eth0/{name}"), value);
    }
    let _ = fs::write("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "0");
    lay::give_address("eth0", address.into(), 64)?;
    lay::default_route(other.into())
}

/// Runs `act` in another network, and starts processes in another PID namespace, on a thread of its own, since a thread
/// cannot return from there.
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

/// Returns this thread's network.
fn own() -> io::Result<OwnedFd> {
    File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
}

/// Sets up this network. IPv6 is off until the interface has an address: its own packets would be counted. `ping` works
/// without a capability. Settings that a kernel lacks are skipped.
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
