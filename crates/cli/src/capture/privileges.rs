//! What a capture may do once its interface and its file are open: nothing that its user may not.
//!
//! A capture looks at what strangers send for as long as it runs. So the rights that it took to open an interface are
//! given away before the first frame is looked at: the process becomes the user that called `sudo`, or nobody, or
//! whom `--user` names; one that was no root, but had capabilities, loses them.

use std::fs;

use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use crate::failure::Failure;

/// A user, and the group that goes with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct User {
    /// The user's number.
    pub uid: u32,
    /// The group's.
    pub gid: u32,
}

impl User {
    /// Whom to become: `named` if there is one, or if this is root the caller of `sudo`, or nobody. `None`: stay.
    ///
    /// # Errors
    /// A usage failure if there is no such user, or another one is wanted by who is not root.
    pub fn to_become(named: Option<&str>) -> Result<Option<User>, Failure> {
        let is_root = geteuid().is_root();
        match named {
            Some(name) if !is_root => {
                Err(Failure::usage(format_args!("--user {name}: only root can become somebody else")))
            }
            Some(name) => {
                let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
                let user = User::found(&users, name).ok_or_else(|| {
                    Failure::usage(format_args!("--user {name}: neither a user of /etc/passwd nor a number"))
                })?;
                Ok(Some(user))
            }
            None if !is_root => Ok(None),
            None => {
                let number =
                    |name| std::env::var(name).ok()?.parse().ok().filter(|&id| id != u32::MAX && id != 0);
                let caller = number("SUDO_UID").zip(number("SUDO_GID"));
                Ok(Some(caller.map_or(User::NOBODY, |(uid, gid)| User { uid, gid })))
            }
        }
    }

    /// Of these lines of `/etc/passwd`, or of a number.
    fn found(users: &str, name: &str) -> Option<User> {
        let lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let entries = lines.filter_map(|fields| {
            Some((
                *fields.first()?,
                User { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? },
            ))
        });
        let number: Option<u32> = name.parse().ok().filter(|&number| number != u32::MAX);
        let mut entries = entries.filter(|(known, user)| *known == name || Some(user.uid) == number);
        entries.next().map(|(_, user)| user).or(number.map(|uid| User { uid, gid: uid }))
    }

    const NOBODY: User = User { uid: 65_534, gid: 65_534 };
}

/// Becomes this user, with no other group and no capability; threads that are started from now on are the same. To be
/// called before there are others. Root stays root only where `--user root` said so.
///
/// # Errors
/// What the system refuses.
pub fn drop_to(user: Option<User>) -> Result<(), Failure> {
    let failed = |error: Errno| Failure::broke_off("giving up privileges", &error.into());
    // Whatever is executed later gains none.
    set_no_new_privs(true).map_err(failed)?;
    match user {
        Some(User { uid: 0, .. }) => Ok(()),
        Some(User { uid, gid }) => {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            set_thread_groups(&[]).map_err(failed)?;
            set_thread_res_gid(gid, gid, gid).map_err(failed)?;
            set_thread_res_uid(uid, uid, uid).map_err(failed)?;
            without_capabilities().map_err(failed)
        }
        None => without_capabilities().map_err(failed),
    }
}

fn without_capabilities() -> Result<(), Errno> {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_or_number() {
        let users = "root:x:0:0:root:/:/bin/sh\nbroken\nann:x:1000:100::/srv/ann:/bin/sh\n";
        assert_eq!(User::found(users, "ann"), Some(User { uid: 1000, gid: 100 }));
        assert_eq!(User::found(users, "1000"), Some(User { uid: 1000, gid: 100 }));
        assert_eq!(User::found(users, "77"), Some(User { uid: 77, gid: 77 }));
        assert_eq!(User::found(users, "root"), Some(User { uid: 0, gid: 0 }));
        for nobody in ["", "bob", "-1", "4294967295", "broken"] {
            assert_eq!(User::found(users, nobody), None, "{nobody}");
        }
    }
}
