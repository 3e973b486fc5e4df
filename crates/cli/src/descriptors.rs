//! The limit on open descriptors, for commands that open some for each client.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one. The soft one of most systems, 1,024, is kept low for programs that use
/// `select`; none of ours does, and commands that start programs of others do not call this.
pub(crate) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, the old one holds, and what lacks a descriptor says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
