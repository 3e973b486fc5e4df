//! Errors as C has them: [`Errno`].

use std::ffi::c_int;

/// An `errno` as a positive number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errno(pub(crate) c_int);

impl Errno {
    /// An argument that is wrong.
    pub(crate) const INVALID: Errno = Errno(libc::EINVAL);
    /// A panic, now or before.
    pub(crate) const PANICKED: Errno = Errno(libc::ENOTRECOVERABLE);
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        let known = match error.kind() {
            std::io::ErrorKind::InvalidInput => libc::EINVAL,
            std::io::ErrorKind::WouldBlock => libc::EAGAIN,
            _ => libc::EIO,
        };
        Errno(error.raw_os_error().unwrap_or(known))
    }
}
