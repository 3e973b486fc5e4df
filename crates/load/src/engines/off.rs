//! Sends nothing: a plain loop that only works, the baseline for the throughput that the others retain.

use std::io;

use super::engine::Engine;
use super::work_loop::{self, Descriptors};
use crate::session::Session;

/// Sends nothing.
pub(super) struct Off;

impl Engine for Off {
    fn name(&self) -> &'static str {
        "off"
    }

    fn about(&self) -> &'static str {
        "No timer: a plain epoll loop does only the work, as a baseline for the other timers"
    }

    fn sends(&self) -> bool {
        false
    }

    fn drives_several(&self) -> bool {
        false
    }

    fn drive(&self, session: &mut Session) -> io::Result<()> {
        work_loop::run(session, Descriptors::Unseen)
    }
}
