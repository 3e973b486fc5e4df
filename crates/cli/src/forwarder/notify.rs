//! Events that a user may want to know of while a forwarder runs: [`Notify`].

use std::fmt;

/// Called with news for the user, such as that a loop was found; one line, without its end.
pub(crate) type Notify = fn(fmt::Arguments<'_>);
