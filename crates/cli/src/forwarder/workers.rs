//! Several pollers between the same interfaces, each with a share of the frames and a thread of its own: [`Workers`].
//!
//! ```text
//!   A: queues, or hashes of flows ─┬─▶ engine ─▶ B      the first: on the caller's thread
//!                                  ├─▶ engine ─▶ B ─┐
//!                                  └─▶ engine ─▶ B ─┴─▶ the run's stats, four times a second, or each round of a stream
//! ```
//!
//! They share no packet. The first one counts directly in the sum, under a lock that others take only for the moments
//! in which they hand over their counts or read the sum. It waits for the others at the end, so the sum is then
//! complete.

use std::thread::{Builder, JoinHandle};

use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::StopHandle;

/// The other workers, as the first one sees them; none with one poller.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    threads: Vec<JoinHandle<Result<(), Failure>>>,
    stop: Option<StopHandle>,
}

/// Stops all workers when one cannot go on, even if it panicked.
#[derive(Debug)]
struct Last(StopHandle);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Workers {
    /// Creates an empty set, whose workers end when `stop` is called.
    pub(crate) fn ended_by(stop: StopHandle) -> Self {
        Workers { threads: Vec::new(), stop: Some(stop) }
    }

    /// Starts another worker.
    ///
    /// # Errors
    /// A check failure if the system has no thread left.
    pub(crate) fn start(
        &mut self,
        stop: StopHandle,
        run: impl FnOnce() -> Result<(), Failure> + Send + 'static,
    ) -> Result<(), Failure> {
        let last = Last(stop);
        let run = move || {
            let _last = last;
            run()
        };
        let thread = Builder::new().name(format!("poller {}", self.threads.len() + 2)).spawn(run);
        self.threads.push(thread.map_err(|error| Failure::broke_off("starting a thread", &error))?);
        Ok(())
    }

    /// Stops them, and waits until they have counted everything.
    ///
    /// # Errors
    /// The error that stopped one of them.
    pub(crate) fn end(&mut self) -> Result<(), Failure> {
        self.stop.iter().for_each(StopHandle::end);
        let outcomes = self.threads.drain(..).map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Failure::check("a thread that forwards panicked")))
        });
        // Wait for all of them, even if one has failed.
        outcomes.fold(Ok(()), Result::and)
    }
}

/// Stops the workers, however the first one ends.
impl Drop for Workers {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use softtimers_measure::interrupt::Interrupt;

    use super::*;

    #[test]
    fn one_that_fails_ends_all_and_its_reason_is_told() {
        let interrupt = Interrupt::deaf().unwrap();
        let mut workers = Workers::ended_by(interrupt.stop_handle().unwrap());
        workers.start(interrupt.stop_handle().unwrap(), || Err(Failure::check("broken"))).unwrap();
        assert_eq!(workers.end(), Err(Failure::check("broken")));
        assert!(interrupt.arrived());
    }

    #[test]
    fn one_that_panics_ends_all() {
        let [interrupt, other] = [(); 2].map(|()| Interrupt::deaf().unwrap());
        // The workers themselves stop another run.
        let mut workers = Workers::ended_by(other.stop_handle().unwrap());
        workers.start(interrupt.stop_handle().unwrap(), || panic!("on purpose")).unwrap();
        assert_eq!(workers.end(), Err(Failure::check("a thread that forwards panicked")));
        assert!(interrupt.arrived());
    }
}
