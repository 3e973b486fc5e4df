//! What a poll looks for, and when the next one is due: [`Steering`], of sockets or of the interfaces themselves.

use std::io;
use std::mem::take;
use std::time::Duration;

use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_net::napi::{BACKUP, Steered};
use softtimers_poll::{Aggregation, AggregationConfig, Look, Next, Policy};

use super::Engine;

/// Steers polls to a quota.
#[derive(Debug)]
pub(super) enum Steering {
    /// Connections that are ready; the last time that any was.
    Sockets(Aggregation, Timestamp),
    /// Packets of the interfaces.
    Interfaces(Vec<Steered>),
}

impl Steering {
    /// Makes a steering of polls that find `quota` connections on average.
    pub(super) fn sockets(quota: u32) -> Self {
        Steering::Sockets(aggregation(quota), Monotonic.now())
    }

    /// Makes a steering of polls that find as many of each port, by its interface.
    pub(super) fn interfaces(quota: u32, ports: usize) -> Self {
        Steering::Interfaces((0..ports).map(|_| Steered::new(aggregation(quota), BACKUP)).collect())
    }

    /// Polls, because that `is_due` or nothing is left to answer; sleeps if that is better. Returns when the next one is due.
    pub(super) fn poll(
        &mut self,
        engine: &mut Engine<'_>,
        now: Timestamp,
        is_due: bool,
    ) -> io::Result<Option<Timestamp>> {
        let is_idle = engine.turns.waiting() == 0;
        match self {
            Steering::Sockets(policy, found_at) => {
                if !is_due {
                    policy.idle(now);
                }
                let gone = is_idle && now.saturating_duration_since(*found_at) > LONGEST_IN_VAIN;
                let found = engine.look(if gone { None } else { Some(Duration::ZERO) })?;
                engine.count(found);
                let ended = Monotonic.now();
                *found_at = if found > 0 || gone { ended } else { *found_at };
                Ok(match policy.looked(&Look { began: now, ended, found }) {
                    Next::At(time) => Some(time),
                    _ => Some(ended),
                })
            }
            Steering::Interfaces(queues) => {
                for (port, queue) in queues.iter_mut().enumerate() {
                    if is_idle || queue.poll_at().is_none_or(|at| at <= now) {
                        // At the limit as many come as are answered.
                        let found = take(&mut engine.handled[port]);
                        let Some(stream) = engine.through(port)? else { continue };
                        let polled = queue.poll(now, stream, found);
                        if polled {
                            engine.stats.looks += 1;
                            engine.stats.found += u64::from(found);
                        } else if queue.is_polled() {
                            // It may have something to be received: the one that was answered last hardly has.
                            engine.through[port] = engine.last[port];
                        }
                    }
                }
                // What the kernel has received waits in its sockets, and costs a system call for all of it.
                let found = if is_idle { engine.look(Some(Duration::ZERO))? } else { 0 };
                let ended = Monotonic.now();
                // All of them count the time in vain.
                let all_may_sleep = |queues: &mut [Steered]| {
                    queues.iter_mut().map(|queue| queue.may_sleep(ended)).filter(|may| !may).count() == 0
                };
                if is_idle && found == 0 && all_may_sleep(queues) {
                    for (port, queue) in queues.iter_mut().enumerate() {
                        if let Some(stream) = engine.through(port)? {
                            queue.idle(ended, stream);
                        }
                    }
                    let wake = due(queues).map(|at| at.saturating_duration_since(ended));
                    engine.look(wake)?;
                }
                Ok(due(queues))
            }
        }
    }
}

/// Returns when the first of the queues is to be polled.
fn due(queues: &[Steered]) -> Option<Timestamp> {
    queues.iter().filter_map(Steered::poll_at).min()
}

fn aggregation(quota: u32) -> Aggregation {
    Aggregation::new(AggregationConfig { quota, ..AggregationConfig::default() })
}

/// Sockets are polled no longer after this time without finding anything, which is also the longest interval between two
/// polls. It is many times the cost of a wake-up, and short compared with people's pauses.
const LONGEST_IN_VAIN: Duration = Duration::from_millis(1);
