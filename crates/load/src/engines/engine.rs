//! An engine: [`Engine`].

use std::io;
use std::net::SocketAddr;

use softtimers_core::PaceConfig;
use softtimers_measure::failure::Failure;

use crate::session::{Handling, Session};

/// Notices due datagrams and has them sent.
pub(crate) struct Engine {
    /// The name as typed.
    pub(super) name: &'static str,
    /// A line about it.
    pub(super) about: &'static str,
    /// Runs until the session is over.
    pub(super) drive: fn(&mut Session) -> io::Result<()>,
    /// Says why it cannot work on this thread or on the route to the destination.
    pub(super) check: fn(SocketAddr) -> Result<(), Failure>,
    /// Returns the pace that it keeps for this one.
    pub(super) pace: fn(PaceConfig) -> PaceConfig,
    /// How it wants the flow to be handled.
    pub(super) handling: Handling,
    /// Whether it sends at all.
    pub(super) sends: bool,
    /// Whether it can drive several flows, or a flow of which several datagrams leave at once.
    pub(super) drives_several: bool,
    /// Whether it needs equal gaps.
    pub(super) needs_even_gaps: bool,
    /// Whether it has trigger states, and so a slack, an idle policy, and sources that can be disabled.
    pub(super) has_trigger_states: bool,
}

impl Engine {
    /// Makes an engine that drives any traffic to any destination.
    pub(super) const fn new(
        name: &'static str,
        about: &'static str,
        drive: fn(&mut Session) -> io::Result<()>,
    ) -> Self {
        Engine {
            name,
            about,
            drive,
            check: |_| Ok(()),
            pace: |pace| pace,
            handling: Handling { ahead: false, queued: false },
            sends: true,
            drives_several: true,
            needs_even_gaps: false,
            has_trigger_states: false,
        }
    }
}
