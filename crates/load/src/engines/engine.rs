//! The interface of an engine: [`Engine`].

use std::io;
use std::net::SocketAddr;

use softtimers_core::PaceConfig;
use softtimers_measure::failure::Failure;

use crate::session::{Handling, Session};

/// Notices due datagrams and has them sent.
pub(crate) trait Engine: Sync {
    /// Returns the name as typed.
    fn name(&self) -> &'static str;

    /// Returns a line about the engine.
    fn about(&self) -> &'static str;

    /// Runs until the session is over.
    ///
    /// # Errors
    /// The failure that ended the run.
    fn drive(&self, session: &mut Session) -> io::Result<()>;

    /// Checks that it can work on this thread and on the route to the destination.
    ///
    /// # Errors
    /// The reason why it cannot.
    fn check(&self, _destination: SocketAddr) -> Result<(), Failure> {
        Ok(())
    }

    /// Returns the pace that it keeps for this one.
    fn pace(&self, pace: PaceConfig) -> PaceConfig {
        pace
    }

    /// Returns how it wants the flow to be handled.
    fn handling(&self) -> Handling {
        Handling::default()
    }

    /// Says whether it sends at all.
    fn sends(&self) -> bool {
        true
    }

    /// Says whether it can drive several flows, or a flow of which several datagrams leave at once.
    fn drives_several(&self) -> bool {
        true
    }

    /// Says whether it needs equal gaps.
    fn needs_even_gaps(&self) -> bool {
        false
    }

    /// Says whether it has trigger states, and so a slack, an idle policy, and sources that can be disabled.
    fn has_trigger_states(&self) -> bool {
        false
    }
}
