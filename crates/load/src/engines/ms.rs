//! A loop that notices a due time when its wait returns, whose time-out is in milliseconds.

use std::io;
use std::time::Duration;

use softtimers_core::Timestamp;

use super::engine::Engine;
use super::plain_loop::{self, Wait};
use crate::session::Session;

/// A time-out in milliseconds.
pub(super) struct Ms;

impl Engine for Ms {
    fn name(&self) -> &'static str {
        "ms"
    }

    fn about(&self) -> &'static str {
        "The wait's own time-out, rounded up to whole milliseconds, as most event loops have it"
    }

    fn drive(&self, session: &mut Session) -> io::Result<()> {
        plain_loop::run(session, |_| Ok(Ms))
    }
}

impl Wait for Ms {
    fn timeout(&mut self, left: Duration, _: Timestamp) -> io::Result<Option<Duration>> {
        Ok(Some(Duration::from_millis(left.as_nanos().div_ceil(1_000_000) as u64)))
    }
}
