//! The interface of an engine: [`Engine`].

use std::io;
use std::net::SocketAddr;

use softtimers::{LoopClock, Monotonic, Tsc};
use softtimers_core::{Clock, PaceConfig, Timestamp};
use softtimers_measure::failure::Failure;

use crate::session::{Handling, Session};

/// An engine: it notices what is due, and has it sent.
pub(crate) trait Engine: Sync {
    /// As it is typed.
    fn name(&self) -> &'static str;

    /// A line about the engine.
    fn about(&self) -> &'static str;

    /// Goes on until the session is over.
    ///
    /// # Errors
    /// The failure that ended the run.
    fn drive(&self, session: &mut Session, clock: ReadBy<'_>) -> io::Result<()>;

    /// Sees whether this thread, and the way there, are such that it can work.
    ///
    /// # Errors
    /// That they are not, and why.
    fn check(&self, _destination: SocketAddr) -> Result<(), Failure> {
        Ok(())
    }

    /// The pace that it keeps when it is given this one.
    fn pace(&self, pace: PaceConfig) -> PaceConfig {
        pace
    }

    /// The handling that it wants of the flow.
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

    /// Says whether it can read another clock than the kernel's.
    fn reads_any_clock(&self) -> bool {
        true
    }

    /// Says whether it has trigger states, and with them slack, an idle policy, and sources to do without.
    fn has_trigger_states(&self) -> bool {
        false
    }
}

/// The clock that a loop reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadBy<'a> {
    Monotonic,
    Tsc(&'a Tsc),
}

impl Clock for ReadBy<'_> {
    #[inline]
    fn now(&self) -> Timestamp {
        match self {
            ReadBy::Monotonic => Monotonic.now(),
            ReadBy::Tsc(tsc) => tsc.now(),
        }
    }
}

impl LoopClock for ReadBy<'_> {
    fn woke(&self) -> Timestamp {
        match self {
            ReadBy::Monotonic => Monotonic.woke(),
            ReadBy::Tsc(tsc) => tsc.woke(),
        }
    }
}
