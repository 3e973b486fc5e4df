//! The processes of a command, found in `/proc`, and their sockets.
//!
//! Descriptors of another process are copied by `pidfd_getfd`, which takes no privilege for a process of the same user. A
//! copy keeps its socket open, so none is held for longer than a look.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use softtimers_linux::call_watch::WaitingCall;
use softtimers_linux::sockaddr;

/// Returns all processes below this one, but `except` and those below it.
pub(super) fn below_this(except: Option<Pid>) -> Vec<Pid> {
    let mut children = by_parent(except);
    let mut found = children.remove(&getpid()).unwrap_or_default();
    let mut at = 0;
    while let Some(&next) = found.get(at) {
        found.extend(children.remove(&next).unwrap_or_default());
        at += 1;
    }
    found
}

/// Returns the processes directly below this one.
pub(super) fn children() -> Vec<Pid> {
    by_parent(None).remove(&getpid()).unwrap_or_default()
}

/// Returns copies of the sockets of a process, one at a time.
pub(super) fn sockets_of(process: Pid) -> impl Iterator<Item = OwnedFd> {
    let handle = pidfd_open(process, PidfdFlags::empty()).ok();
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(move |entry| {
        let number: i32 = entry.file_name().to_str()?.parse().ok()?;
        let opened = fs::read_link(format!("/proc/{process}/fd/{number}")).ok()?;
        let handle = handle.as_ref().filter(|_| opened.to_string_lossy().starts_with("socket:"))?;
        pidfd_getfd(handle, number, PidfdGetfdFlags::empty()).ok()
    })
}

/// Returns a copy of the socket that a call names in its first argument.
///
/// # Errors
/// If there is none, or its process does not allow it.
pub(super) fn socket_of(call: &WaitingCall) -> io::Result<OwnedFd> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let thread = call.thread.ok_or_else(gone)?;
    let status = fs::read_to_string(format!("/proc/{thread}/status"))?;
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    let process = process.and_then(Pid::from_raw).ok_or_else(gone)?;
    let handle = pidfd_open(process, PidfdFlags::empty())?;
    Ok(pidfd_getfd(handle, call.arguments[0] as i32, PidfdGetfdFlags::empty())?)
}

/// Returns the address that a call names in its second argument; `None` for other kinds of addresses.
pub(super) fn address_of(call: &WaitingCall) -> Option<IpAddr> {
    let memory = File::open(format!("/proc/{}/mem", call.thread?)).ok()?;
    let mut bytes = [0; LONGEST_ADDRESS];
    let length = bytes.len().min(usize::try_from(call.arguments[2]).unwrap_or(0));
    memory.read_at(&mut bytes[..length], call.arguments[1]).ok()?;
    Some(sockaddr::decode(&bytes)?.ip().to_canonical())
}

/// Returns the processes below each, but `except`.
fn by_parent(except: Option<Pid>) -> HashMap<Pid, Vec<Pid>> {
    let mut children = HashMap::<Pid, Vec<Pid>>::new();
    let all = fs::read_dir("/proc/").into_iter().flatten().flatten();
    for id in all.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)) {
        if let Some(parent) = parent(id).filter(|_| Some(id) != except) {
            children.entry(parent).or_default().push(id);
        }
    }
    children
}

fn parent(process: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind its name, which may contain anything, and its state.
    let (_, behind) = stat.rsplit_once(") ")?;
    Pid::from_raw(behind.split(' ').nth(1)?.parse().ok()?)
}

/// `struct sockaddr_in6`.
const LONGEST_ADDRESS: usize = 28;
