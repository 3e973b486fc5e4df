//! The other work of a sending loop: nothing, computation, or an echo server that clients in another process keep
//! saturated.

mod computation;
mod echo;

use std::io;
use std::ops::Range;
use std::path::Path;

use softtimers_core::TriggerState;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::processor::Processor;

use computation::Computation;
use echo::EchoServer;

/// The other work of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Work {
    /// None: the loop sleeps between departures.
    None,
    /// Computation without system calls.
    Compute,
    /// Computation with trigger states as rare as those of a [`WebServer`](softtimers_core::WebServer).
    Web,
    /// A saturated UDP echo server that receives up to `batch` (1 to 64) datagrams at once.
    Echo {
        /// Datagrams per receive call.
        batch: usize,
    },
}

impl Work {
    /// Returns the name as typed.
    pub fn name(self) -> &'static str {
        match self {
            Work::None => "none",
            Work::Compute => "compute",
            Work::Web => "web",
            Work::Echo { .. } => "echo",
        }
    }

    /// Returns whether the loop computes all the time, and never waits.
    pub fn computes(self) -> bool {
        matches!(self, Work::Compute | Work::Web)
    }

    /// Returns whether softtimers' loop still passes trigger states regularly, in its work or when it is idle, without
    /// those of this source.
    pub fn can_do_without(self, source: TriggerState) -> bool {
        match source {
            TriggerState::Idle | TriggerState::Backup => false,
            TriggerState::HandlerExit => !self.computes(),
            _ => true,
        }
    }
}

/// Work in progress, with a count of the work done.
#[derive(Debug)]
pub(crate) enum Workload {
    None,
    Compute(Computation),
    Echo(Box<EchoServer>),
}

impl Workload {
    /// Starts it; clients are kept off `cpu`.
    pub(crate) fn start(
        work: Work,
        program: Option<&Path>,
        cpu: Option<Processor>,
        interrupt: &Interrupt,
    ) -> io::Result<Self> {
        Ok(match work {
            Work::None => Workload::None,
            Work::Compute => Workload::Compute(Computation::even()),
            Work::Web => Workload::Compute(Computation::web()),
            Work::Echo { batch } => {
                Workload::Echo(Box::new(EchoServer::start(batch, program, cpu, interrupt)?))
            }
        })
    }

    /// Serves one group of requests out of a visit's allowance; returns whether to go on with the visit.
    #[inline]
    pub(crate) fn serve_group(&mut self, left: &mut usize) -> io::Result<bool> {
        let taken = self.take_group()?;
        self.answer(0..taken);
        Ok(self.more(taken, left))
    }

    /// The first half of serving a group: returns how many requests were received.
    #[inline]
    pub(crate) fn take_group(&mut self) -> io::Result<usize> {
        if let Workload::Echo(echo) = self { echo.take_group() } else { Ok(0) }
    }

    /// The second half, for some of them.
    #[inline]
    pub(crate) fn answer(&mut self, some: Range<usize>) {
        if let Workload::Echo(echo) = self {
            echo.answer(some);
        }
    }

    /// Charges a group to a visit's allowance; returns whether to go on with the visit.
    #[inline]
    pub(crate) fn more(&self, taken: usize, left: &mut usize) -> bool {
        let Workload::Echo(echo) = self else { return false };
        *left = left.saturating_sub(taken.max(1));
        taken == echo.requests.capacity() && *left > 0
    }

    #[inline]
    pub(crate) fn compute_piece(&mut self) {
        if let Workload::Compute(computation) = self {
            computation.piece();
        }
    }

    /// Returns the requests answered, or pieces computed.
    pub(crate) fn done(&self) -> Option<u64> {
        match self {
            Workload::None => None,
            Workload::Compute(computation) => Some(computation.pieces()),
            Workload::Echo(echo) => Some(echo.answered),
        }
    }

    /// Returns the answers that the kernel had no room for.
    pub(crate) fn answers_dropped(&self) -> u64 {
        if let Workload::Echo(echo) = self { echo.dropped } else { 0 }
    }

    /// Ends the clients. Returns their failure, if any, for the report.
    pub(crate) fn stop(&mut self, interrupt: &Interrupt) -> Option<String> {
        let Workload::Echo(echo) = self else { return None };
        echo.stop(interrupt)
    }
}

/// Requests served per readiness report before the loop checks its other sources: enough to share the cost of the wait,
/// few enough to be fair.
pub(crate) const VISIT: usize = 16;

/// Requests answered in one send, by a loop that checks its clock in between: some 25 µs of the kernel's time on
/// loopback, compared with which one more system call is cheap.
pub(crate) const MOST_PER_SEND: usize = 8;
