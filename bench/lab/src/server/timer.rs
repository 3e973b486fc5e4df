//! Interrupts that come for several packets at once, for a server that knows nothing of it: [`Timer`].
//!
//! The kernel polls a queue that defers its interrupts by a timer of its own. Its time is set beside the server, each
//! few milliseconds, to that in which as many packets come as are wanted:
//!
//! ```text
//!   packets ─▶ queue ─▶ timer: interrupt ─▶ kernel ─▶ server
//!                         ▲
//!   packets a second ─────┘
//! ```
//!
//! So it is the soft event's steering without soft events: each poll is an interrupt.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_measure::processor::Processor;
use softtimers_net::napi::{Deferral, Napi};
use softtimers_trials::command::pause;

use super::cable::Cable;

/// The steered timers of a server's queues, until it is dropped.
#[derive(Debug)]
pub struct Timer {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Timer {
    /// Steers so that `quota` packets are found on average, from the CPU `on`.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn steer(cable: &Cable, quota: u32, on: Processor) -> io::Result<Self> {
        let (enter, over) = (cable.entrance_of_server()?, Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&over);
        let steer = move || {
            let _kept = on.keep()?;
            enter()?;
            let (mut came, mut since) = (packets()?, Monotonic.now());
            while !ended.load(Ordering::Relaxed) {
                pause(EACH);
                let (all, now) = (packets()?, Monotonic.now());
                let passed = now.saturating_duration_since(since);
                let flush =
                    passed.saturating_mul(quota) / u32::try_from(all - came).unwrap_or(u32::MAX).max(1);
                let flush = flush.clamp(SHORTEST, EACH);
                let deferral = Deferral { polls: 2, flush, suspend: Duration::ZERO };
                Napi::all()?.iter().try_for_each(|queue| queue.defer(&deferral))?;
                (came, since) = (all, now);
            }
            io::Result::Ok(())
        };
        // A failure shows in the figures: each poll is an interrupt for each packet then.
        let thread = thread::spawn(move || drop(steer()));
        Ok(Timer { over, thread: Some(thread) })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Returns the packets that have come to the interfaces of this thread's host.
fn packets() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let of = |line: &str| line.split_once(':')?.1.split_whitespace().nth(1)?.parse::<u64>().ok();
    Ok(text.lines().filter_map(of).sum())
}

/// Between two settings.
const EACH: Duration = Duration::from_millis(5);
const SHORTEST: Duration = Duration::from_micros(5);
