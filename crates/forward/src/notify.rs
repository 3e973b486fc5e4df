//! Events that somebody may want to know of while a forwarder runs: [`Notify`].

use std::fmt;

/// Called with what somebody may want to know at once, such as that a loop was found; one line, without its end.
pub type Notify = fn(fmt::Arguments<'_>);
