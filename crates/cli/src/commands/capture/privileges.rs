//! What a capture may do once its interface and its file are open: nothing that its user may not.
//!
//! A capture looks at what strangers send for as long as it runs. So the rights that it took to open an interface are
//! given away before the first frame is looked at: the process becomes the user that called `sudo`, or nobody, or
//! whom `--user` names; one that was no root, but had capabilities, loses them.

use std::io;

use rustix::process::geteuid;
use rustix::thread::set_no_new_privs;
use softtimers_measure::failure::Failure;

use crate::user::{User, become_for_good, without_capabilities};

/// Whom to become: `named` if there is one, or if this is root the caller of `sudo`, or nobody. `None`: stay.
///
/// # Errors
/// A usage failure if there is no such user, or another one is wanted by who is not root.
pub(crate) fn to_become(named: Option<&str>) -> Result<Option<User>, Failure> {
    let is_root = geteuid().is_root();
    match named {
        Some(name) if !is_root => {
            Err(Failure::usage(format_args!("--user {name}: only root can become somebody else")))
        }
        Some(name) => {
            let unknown =
                || Failure::usage(format_args!("--user {name}: neither a user of this system nor a number"));
            User::named(name).ok_or_else(unknown).map(Some)
        }
        None if !is_root => Ok(None),
        None => {
            let caller = User::caller().map_err(Failure::usage)?;
            Ok(Some(if caller.is_root() { User::NOBODY } else { caller }))
        }
    }
}

/// Becomes this user, with all groups of the caller and none of another, and without capabilities. Threads that are
/// started from now on are the same, so call it before there are others. Root stays root only where `--user root` said so.
///
/// # Errors
/// What the system refuses.
pub(crate) fn drop_to(user: Option<User>) -> Result<(), Failure> {
    let dropped = || -> io::Result<()> {
        // Whatever is executed later gains none.
        set_no_new_privs(true)?;
        match user {
            Some(user) if user.is_root() => return Ok(()),
            Some(user) => become_for_good(user)?,
            None => {}
        }
        // Also those that a service may keep while it opens a path.
        Ok(without_capabilities()?)
    };
    dropped().map_err(|error| Failure::broke_off("giving up privileges", &error))
}
