//! A loop that notices a due time when its wait returns, whose time-out is in nanoseconds.

use std::io;
use std::time::Duration;

use softtimers_core::Timestamp;

use super::engine::Engine;
use super::plain_loop::{self, Wait};
use crate::session::Session;

/// A time-out in nanoseconds.
pub(super) struct Pwait2;

impl Engine for Pwait2 {
    fn name(&self) -> &'static str {
        "pwait2"
    }

    fn about(&self) -> &'static str {
        "The wait's own time-out, in nanoseconds (epoll_pwait2)"
    }

    fn drive(&self, session: &mut Session) -> io::Result<()> {
        plain_loop::run(session, |_| Ok(Pwait2))
    }
}

impl Wait for Pwait2 {
    fn timeout(&mut self, left: Duration, _: Timestamp) -> io::Result<Option<Duration>> {
        Ok(Some(left))
    }
}
