//! A loop that reads the clock after every handler, and never sleeps.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_measure::class::Class;
use softtimers_measure::failure::Failure;

use super::engine::Engine;
use super::plain_loop::{self, Wait};
use crate::session::Session;

/// A busy loop that reads the clock until a datagram is due.
pub(super) struct Spin;

impl Engine for Spin {
    fn name(&self) -> &'static str {
        "spin"
    }

    fn about(&self) -> &'static str {
        "The loop of --timer loop, which never sleeps"
    }

    fn check(&self, _: SocketAddr) -> Result<(), Failure> {
        let class = Class::current();
        if class.may_spin() {
            return Ok(());
        }
        Err(Failure::not_possible(format_args!("--timer spin: {class}, so it must not spin")))
    }

    fn drive(&self, session: &mut Session) -> io::Result<()> {
        plain_loop::run(session, |_| Ok(Spin))
    }
}

impl Wait for Spin {
    const CHECKS_AFTER_HANDLERS: bool = true;

    fn timeout(&mut self, _: Duration, _: Timestamp) -> io::Result<Option<Duration>> {
        Ok(Some(Duration::ZERO))
    }
}
