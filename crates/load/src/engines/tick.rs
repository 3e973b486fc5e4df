//! A periodic POSIX timer, like the paper's hardware timer. Datagrams of lost ticks are not made up.

use std::io;

use softtimers_core::{CatchUp, PaceConfig, Recovery, Strategy};
use softtimers_linux::signal_timer::Ticks;

use super::engine::Engine;
use super::signal;
use crate::session::Session;

/// A timer that expires at every interval.
pub(super) struct Tick;

impl Engine for Tick {
    fn name(&self) -> &'static str {
        "tick"
    }

    fn about(&self) -> &'static str {
        "A POSIX timer that expires at every interval: each signal sends one datagram, lost ticks send nothing"
    }

    /// Its scheduled times are the ticks, and lost ticks are skipped.
    fn pace(&self, pace: PaceConfig) -> PaceConfig {
        PaceConfig {
            strategy: Strategy::FixedSeries,
            catch_up: CatchUp::NONE,
            recovery: Recovery::NONE,
            ..pace
        }
    }

    fn needs_even_gaps(&self) -> bool {
        true
    }

    fn drives_several(&self) -> bool {
        false
    }

    fn drive(&self, session: &mut Session) -> io::Result<()> {
        signal::run(session, Ticks::Periodic)
    }
}
