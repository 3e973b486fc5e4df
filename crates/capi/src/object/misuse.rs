//! Ends a program that misuses an object: one line on standard error, and `abort`.
//!
//! ```text
//!   softtimers: softtimers_timers_cancel: softtimers_timers 0x55d0c8a3f2c0 was freed
//! ```
//!
//! An `errno` would not suffice: a program that uses a freed object hardly checks results either, and the
//! next call may find another object in its place.

use std::fmt;
use std::io::Write;

/// A fault of using an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wrong {
    /// The type that the function takes.
    pub(super) wanted: &'static str,
    /// The address that was given.
    pub(super) at: *const (),
    pub(super) found: Found,
}

/// What is there instead.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found {
    Null,
    Freed,
    /// Freed already, in a free.
    FreedTwice,
    /// An object of another kind.
    Kind(&'static str),
    /// Another thread's, by the kernel's numbers.
    Thread {
        owner: u64,
        here: u64,
    },
    /// No object, now or ever.
    Nothing,
}

impl Wrong {
    pub(super) fn null(wanted: &'static str) -> Self {
        Wrong { wanted, at: std::ptr::null(), found: Found::Null }
    }

    pub(super) fn at_free(self) -> Self {
        match self.found {
            Found::Freed => Wrong { found: Found::FreedTwice, ..self },
            _ => self,
        }
    }

    /// Prints the fault, and ends the process.
    pub(super) fn end(self, function: &dyn fmt::Display) -> ! {
        let line = format!("softtimers: {function}: {self}\n");
        // An error on standard error cannot be reported.
        let _ = std::io::stderr().write_all(line.as_bytes());
        std::process::abort()
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wrong { wanted, at, found } = *self;
        match found {
            Found::Null => write!(f, "the {wanted} is NULL"),
            Found::Freed => write!(f, "{wanted} {at:p} was freed"),
            Found::FreedTwice => write!(f, "{wanted} {at:p} is freed twice"),
            Found::Kind(kind) => write!(f, "{at:p} is a {kind}, not a {wanted}"),
            Found::Thread { owner, here } => write!(
                f,
                "{wanted} {at:p} belongs to thread {owner} and is used by thread {here}; softtimers_adopt hands it over"
            ),
            Found::Nothing => write!(f, "{at:p} is no object of softtimers, where a {wanted} belongs"),
        }
    }
}

/// Returns the C function that contains a closure, from the closure's type:
/// `softtimers_capi::border::timers::softtimers_timers_cancel::{{closure}}`.
pub(super) fn function(closure: &'static str) -> &'static str {
    let mut names = closure.split("::").skip(1);
    names.find(|name| name.starts_with("softtimers_")).unwrap_or(closure)
}
