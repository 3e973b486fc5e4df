//! Opens paths of the command line with the caller's rights, also in a process that has more.
//!
//! `sudo softtimers capture … -w FILE` is root because an interface requires it. The file does not: opened by root, it
//! could be created where the caller may not write, or another user's file could be read. So each path of the command
//! line is opened by a thread that has become the caller for good, and that ends with the descriptor opened. The kernel
//! then checks the whole path, its links included, as for every program of the caller; nothing is checked here first.
//!
//! ```text
//!   real user                     the caller                        how its rights are used
//!   root, SUDO_UID set            SUDO_UID, SUDO_GID, their groups  in a thread of its own
//!   root, without                 root                              unchanged
//!   others, more by the file      the real user                     in a thread of its own
//!   others                        the real user                     unchanged
//! ```
//!
//! `SUDO_UID` is used only if the real user is root, so it can only reduce rights.

use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;

use nix::unistd;
use rustix::io::Errno;
use rustix::process::{Gid, Uid, getegid, geteuid, getgid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

/// A user, and their primary group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct User {
    /// Its number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
}

impl User {
    /// The user who owns no files.
    pub const NOBODY: User = User { uid: 65_534, gid: 65_534 };

    /// Returns the user of this name or number; `None` for an unknown name.
    pub fn named(name: &str) -> Option<User> {
        let number: Option<u32> = name.parse().ok().filter(|&number| number != u32::MAX);
        let known = match number {
            Some(number) => unistd::User::from_uid(number.into()),
            None => unistd::User::from_name(name),
        };
        let known = known.ok().flatten().map(|user| User { uid: user.uid.as_raw(), gid: user.gid.as_raw() });
        known.or(number.map(|uid| User { uid, gid: uid }))
    }

    /// Returns the caller: the user who asked for this run.
    ///
    /// # Errors
    /// For root with a `SUDO_UID` or `SUDO_GID` that is not a number.
    pub fn caller() -> io::Result<User> {
        caller().map(|caller| caller.user)
    }

    /// Returns the caller, or nobody if that is root: for work that needs no rights at all.
    ///
    /// # Errors
    /// As [`caller`](Self::caller).
    pub fn invoking() -> io::Result<User> {
        let caller = User::caller()?;
        Ok(if caller.is_root() { User::NOBODY } else { caller })
    }

    /// Says whether this is the system's own user.
    pub fn is_root(self) -> bool {
        self.uid == 0
    }
}

/// Runs `act`, such as opening a path, with the rights of [the caller](User::caller) and no more.
///
/// # Errors
/// Those of `act`; or if these rights cannot be taken on, in which case `act` does not run.
///
/// # Cost
/// None if this process has no more rights; otherwise a thread.
pub fn as_caller<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let caller = caller()?;
    if !caller.has_fewer_rights()? {
        return act();
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("as the caller".to_owned());
        let thread = thread.spawn_scoped(scope, || caller.become_for_good().and_then(|()| act()))?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Takes on the rights of [the caller](User::caller) for the lifetime of this thread, for a thread that opens paths
/// repeatedly. Threads that it starts inherit them.
///
/// # Errors
/// The system's refusal.
pub fn stay_caller() -> io::Result<()> {
    let caller = caller()?;
    if caller.has_fewer_rights()? { caller.become_for_good() } else { Ok(()) }
}

/// Becomes this user for the lifetime of this thread, with their groups if it is [the caller](User::caller), otherwise
/// without groups, and with no capabilities but `kept`. The caller is recognized by user id; their own groups are used.
///
/// # Errors
/// The system's refusal.
pub(crate) fn become_for_good(user: User, kept: CapabilitySet) -> io::Result<()> {
    let caller = caller()?;
    if user.uid != caller.user.uid {
        return take_on(user, Some(&[]), kept);
    }
    // A thread that already is the caller has the groups, and in a user namespace may not set them again.
    let groups = caller.groups.as_deref().filter(|_| !IS_CALLER.get());
    take_on(caller.user, groups, kept)?;
    IS_CALLER.set(true);
    Ok(())
}

/// Says whether this process began with more rights than the caller has. Then no message quotes from a file.
pub fn exceeds_caller() -> bool {
    caller().map_or(true, |caller| caller.had_fewer_rights)
}

/// The user who asked for the run.
#[derive(Debug)]
struct Caller {
    user: User,
    /// All groups, if this process has others.
    groups: Option<Vec<Gid>>,
    /// Whether they had fewer rights than the process when it began.
    had_fewer_rights: bool,
}

/// Returns the caller, as found by the first call, since a process that drops privileges keeps it.
fn caller() -> io::Result<&'static Caller> {
    static CALLER: OnceLock<Result<Caller, String>> = OnceLock::new();
    CALLER
        .get_or_init(|| Caller::find(|name| Some(std::env::var_os(name)?.to_string_lossy().into_owned())))
        .as_ref()
        .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why.clone()))
}

impl Caller {
    fn find(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let real = User { uid: getuid().as_raw(), gid: getgid().as_raw() };
        let sudo = if real.is_root() { sudo(variable)? } else { None };
        let user = sudo.unwrap_or(real);
        let mut caller = Caller { user, groups: sudo.map(groups), had_fewer_rights: true };
        caller.had_fewer_rights = caller.has_fewer_rights().unwrap_or(true);
        Ok(caller)
    }

    /// Says whether they have fewer rights than this thread.
    fn has_fewer_rights(&self) -> io::Result<bool> {
        let User { uid, gid } = self.user;
        if uid == 0 || IS_CALLER.get() {
            return Ok(false);
        }
        let other = geteuid().as_raw() != uid || getegid().as_raw() != gid;
        Ok(other || !capabilities(None)?.effective.is_empty())
    }

    /// Changes this thread only, as the kernel's calls do; the C library's would change all threads.
    fn become_for_good(&self) -> io::Result<()> {
        take_on(self.user, self.groups.as_deref(), CapabilitySet::empty())?;
        IS_CALLER.set(true);
        Ok(())
    }
}

/// Makes this thread run as `user`, with these groups, or with its current ones, and with no capabilities but `kept`.
fn take_on(user: User, groups: Option<&[Gid]>, kept: CapabilitySet) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let refused = |error: Errno| {
        let error = io::Error::from(error);
        io::Error::other(format!(
            "the rights of user {uid} cannot be taken on, for want of CAP_SETUID or CAP_SETGID: {error}"
        ))
    };
    if let Some(groups) = groups {
        set_thread_groups(groups).map_err(refused)?;
    }
    if getegid() != gid || getgid() != gid {
        set_thread_res_gid(gid, gid, gid).map_err(refused)?;
    }
    if geteuid() != uid || getuid() != uid {
        // Otherwise leaving root clears them.
        set_keep_capabilities(!kept.is_empty()).map_err(refused)?;
        set_thread_res_uid(uid, uid, uid).map_err(refused)?;
    }
    let held = capabilities(None).map_err(refused)?;
    match only(held.permitted & kept) {
        // A service that may not change groups (systemd's @privileged) keeps the ones it was given.
        Err(Errno::PERM) if OF_A_SERVICE.contains(held.effective) => Ok(()),
        done => done.map_err(refused),
    }
}

/// Reduces this thread's capabilities to these.
fn only(kept: CapabilitySet) -> Result<(), Errno> {
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets)
}

thread_local! {
    /// Whether this thread has taken the caller's rights on.
    static IS_CALLER: Cell<bool> = const { Cell::new(false) };
}

/// Returns the user who called `sudo`; `None` without sudo, or if that is root.
fn sudo(variable: impl Fn(&str) -> Option<String>) -> Result<Option<User>, String> {
    if variable("SUDO_UID").is_none() {
        return Ok(None);
    }
    let number = |name: &str| {
        let number = variable(name).and_then(|text| text.parse().ok()).filter(|&number| number != u32::MAX);
        number.ok_or_else(|| format!("{name} is no number, so it is not known whose file this is to be"))
    };
    let user = User { uid: number("SUDO_UID")?, gid: number("SUDO_GID")? };
    Ok((!user.is_root()).then_some(user))
}

/// Returns all groups of a user; for an unknown user, the known one.
fn groups(user: User) -> Vec<Gid> {
    let known = unistd::User::from_uid(user.uid.into()).ok().flatten();
    let name = known.and_then(|known| CString::new(known.name).ok());
    let groups = name.and_then(|name| unistd::getgrouplist(&name, user.gid.into()).ok());
    groups.map_or_else(
        || vec![Gid::from_raw(user.gid)],
        |groups| groups.into_iter().map(|group| Gid::from_raw(group.as_raw())).collect(),
    )
}

/// The capabilities that a service of this command is given, none of which opens other users' files.
const OF_A_SERVICE: CapabilitySet = CapabilitySet::NET_RAW
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_NICE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_or_number() {
        let named = User::named;
        assert_eq!(named("root"), Some(User { uid: 0, gid: 0 }));
        assert_eq!(named("0"), Some(User { uid: 0, gid: 0 }));
        assert_eq!(named("4000000001"), Some(User { uid: 4_000_000_001, gid: 4_000_000_001 }));
        for nobody in ["", "no such user", "-1", "4294967295"] {
            assert_eq!(named(nobody), None, "{nobody}");
        }
    }

    #[test]
    fn sudo_names_both_numbers_or_is_refused() {
        let sudo = |uid: Option<&'static str>, gid: Option<&'static str>| {
            sudo(|name| if name == "SUDO_UID" { uid } else { gid }.map(str::to_owned))
        };
        assert_eq!((sudo(None, None), sudo(None, Some("5"))), (Ok(None), Ok(None)));
        assert_eq!(sudo(Some("0"), Some("0")), Ok(None));
        assert_eq!(sudo(Some("7"), Some("8")), Ok(Some(User { uid: 7, gid: 8 })));
        for (uid, gid) in
            [(Some("x"), Some("8")), (Some(""), Some("8")), (Some("7"), None), (Some("-1"), Some("8"))]
        {
            assert!(sudo(uid, gid).unwrap_err().contains("is no number"), "{uid:?} {gid:?}");
        }
        assert!(sudo(Some("4294967295"), Some("8")).is_err());
    }

    #[test]
    fn variables_are_read_for_root_alone() {
        let caller = Caller::find(|_| Some("12345".to_owned())).unwrap();
        let real = getuid().as_raw();
        assert_eq!(caller.user.uid, if real == 0 { 12_345 } else { real });
    }

    #[test]
    fn what_is_done_as_the_caller_leaves_this_thread_as_it_was() {
        let before = geteuid();
        assert_eq!(as_caller(|| Ok(geteuid().as_raw())).unwrap(), User::caller().unwrap().uid);
        assert_eq!(geteuid(), before);
        let kind = as_caller(|| Err::<(), _>(io::ErrorKind::NotFound.into())).unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::NotFound);
    }
}
