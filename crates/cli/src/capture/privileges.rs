//! What a capture may do once its interface and its file are open: nothing that its user may not.
//!
//! A capture looks at what strangers send for as long as it runs. So the rights that it took to open an interface are
//! given away before the first frame is looked at: the process becomes the user that called `sudo`, or nobody, or
//! whom `--user` names; one that was no root, but had capabilities, loses them.

use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::failure::Failure;
use crate::user::{User, without_capabilities};

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
