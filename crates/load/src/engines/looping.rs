//! A loop that keeps due times in a heap and reads the clock after every handler.

use std::io;
use std::time::Duration;

use softtimers_core::Timestamp;

use super::engine::Engine;
use super::plain_loop::{self, Wait};
use crate::session::Session;

/// The five-line loop of programs without a timer library.
pub(super) struct Loop;

impl Engine for Loop {
    fn name(&self) -> &'static str {
        "loop"
    }

    fn about(&self) -> &'static str {
        "The loop checks a heap of due times after each handler: what five lines do without softtimers"
    }

    fn drive(&self, session: &mut Session) -> io::Result<()> {
        plain_loop::run(session, |_| Ok(Loop))
    }
}

impl Wait for Loop {
    const CHECKS_AFTER_HANDLERS: bool = true;

    fn timeout(&mut self, left: Duration, _: Timestamp) -> io::Result<Option<Duration>> {
        Ok(Some(left))
    }
}

/// The same loop, with a clock check in the middle of answering more than 8 requests, as in softtimers' loop.
pub(super) struct LoopInside;

impl Engine for LoopInside {
    fn name(&self) -> &'static str {
        "loop-inside"
    }

    fn about(&self) -> &'static str {
        "As loop, and it checks in the middle of answering more than 8 requests, too"
    }

    fn drive(&self, session: &mut Session) -> io::Result<()> {
        plain_loop::run(session, |_| Ok(LoopInside))
    }
}

impl Wait for LoopInside {
    const CHECKS_AFTER_HANDLERS: bool = true;
    const CHECKS_INSIDE: bool = true;

    fn timeout(&mut self, left: Duration, _: Timestamp) -> io::Result<Option<Duration>> {
        Ok(Some(left))
    }
}
