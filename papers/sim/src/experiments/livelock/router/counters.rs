//! The counts of a run and its results: [`RouterStats`].

use std::time::Duration;

use softtimers_core::{Histogram, Timestamp};
use softtimers_poll::{Progress, ProgressConfig, SourceStats};

use super::{Packet, Router};

/// Counts since the warm-up.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) arrived: u64,
    pub(super) interrupts: u64,
    delivered: u64,
    latency: Histogram,
    /// When each packet was delivered, if requested.
    pub(super) times: Option<Vec<Timestamp>>,
    ticks: u64,
    livelocked: u64,
    progress: Progress,
    before: Before,
}

/// The counts at the end of the warm-up.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    at: Timestamp,
    user: Duration,
    starved: Duration,
    starts: u64,
    drops: Drops,
    polling: SourceStats,
    #[cfg(test)]
    underway: u64,
}

/// Packets that were dropped, by where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Drops {
    /// By the interface, at no cost.
    pub(crate) ring: u64,
    /// At the queue between driver and IP.
    pub(crate) ipintrq: u64,
    /// At the queue to a process.
    pub(crate) process: u64,
    /// At the output queue.
    pub(crate) output: u64,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub(crate) struct RouterStats {
    /// The measured time.
    pub(crate) time: Duration,
    pub(crate) arrived: u64,
    /// Packets that left, or were finished by the process.
    pub(crate) delivered: u64,
    /// Packets that did neither.
    pub(crate) drops: Drops,
    /// Time from a packet's arrival until then, in nanoseconds.
    pub(crate) latency: Histogram,
    /// Interrupts of both devices.
    pub(crate) interrupts: u64,
    /// How often packets were handed to the transmitter.
    pub(crate) starts: u64,
    /// Time in which packets waited for an idle transmitter.
    pub(crate) starved: Duration,
    /// CPU time of the computing process.
    pub(crate) user: Duration,
    /// Time without progress for 10 ms in spite of input.
    pub(crate) livelocked: f64,
    /// The counts of polling.
    pub(crate) polling: SourceStats,
    /// When output became steady, if that is known and the run had a warm-up.
    pub(crate) settled: Option<Duration>,
    /// The quota found, if it was automatic.
    pub(crate) quota: Option<u32>,
    /// Packets in queues or in processing at the end.
    #[cfg(test)]
    pub(crate) underway: u64,
    /// Packets in queues or in processing when the warm-up ended.
    #[cfg(test)]
    pub(crate) underway_before: u64,
}

impl RouterStats {
    /// Converts `count` to events a second.
    pub(crate) fn rate(&self, count: u64) -> f64 {
        count as f64 / self.time.as_secs_f64()
    }

    /// Converts `time` to a share of the measured time.
    pub(crate) fn share(&self, time: Duration) -> f64 {
        time.as_secs_f64() / self.time.as_secs_f64()
    }
}

impl Counters {
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) fn new() -> Self {
        Counters {
            arrived: 0,
            interrupts: 0,
            delivered: 0,
            latency: Histogram::new(),
            times: None,
            ticks: 0,
            livelocked: 0,
            progress: Progress::new(ProgressConfig::detector(LIVELOCK)),
            before: Before::default(),
        }
    }
}

impl Router {
    /// A packet has left.
    pub(super) fn delivered(&mut self, packet: Packet) {
        let now = self.engine.now();
        if let Some(times) = &mut self.counters.times {
            times.push(now);
        }
        let latency = now.saturating_duration_since(packet).as_nanos();
        self.counters.delivered += 1;
        self.counters.latency.record(u64::try_from(latency).unwrap_or(u64::MAX));
    }

    /// Packets that were delivered since the warm-up.
    #[cfg(test)]
    pub(crate) fn delivered_so_far(&self) -> u64 {
        self.counters.delivered
    }

    /// Returns whether there is no progress now, according to [`Progress`].
    #[cfg(test)]
    pub(crate) fn is_livelocked(&self) -> bool {
        self.counters.progress.is_stalled()
    }

    /// Starts counting.
    pub(super) fn counting_begins(&mut self) {
        let now = self.engine.now();
        let sent = self.output.counts(now);
        let before = Before {
            at: now,
            user: self.cpu.worked(self.tasks.user, now),
            starved: sent.starved,
            starts: sent.starts,
            drops: self.drops(),
            polling: self.polled.stats(),
            #[cfg(test)]
            underway: self.underway(),
        };
        self.counters = Counters { before, progress: self.counters.progress, ..Counters::new() };
    }

    /// A tick of the clock.
    pub(super) fn observe_progress(&mut self) {
        let now = self.engine.now();
        let came = self.ring.taken() + self.ring.dropped();
        let Counters { progress, delivered, ticks, livelocked, .. } = &mut self.counters;
        progress.observe(now, came, *delivered);
        *ticks += 1;
        *livelocked += u64::from(progress.is_stalled());
    }

    pub(super) fn into_stats(self) -> RouterStats {
        let now = self.engine.now();
        let (sent, drops, polling) = (self.output.counts(now), self.drops(), self.polled.stats());
        #[cfg(test)]
        let underway = self.underway();
        let Counters { arrived, interrupts, delivered, latency, ticks, livelocked, before, .. } =
            self.counters;
        RouterStats {
            time: now.saturating_duration_since(before.at),
            arrived,
            delivered,
            drops: Drops {
                ring: drops.ring - before.drops.ring,
                ipintrq: drops.ipintrq - before.drops.ipintrq,
                process: drops.process - before.drops.process,
                output: drops.output - before.drops.output,
            },
            latency,
            interrupts,
            starts: sent.starts - before.starts,
            starved: sent.starved - before.starved,
            // A switch is charged when it begins: a process that only switches has negative work.
            user: self.cpu.worked(self.tasks.user, now).saturating_sub(before.user),
            livelocked: livelocked as f64 / ticks.max(1) as f64,
            polling: SourceStats {
                packets: polling.packets - before.polling.packets,
                turns: polling.turns - before.polling.turns,
                looks: polling.looks - before.polling.looks,
                empty_looks: polling.empty_looks - before.polling.empty_looks,
                armed: polling.armed - before.polling.armed,
                raced: polling.raced - before.polling.raced,
                woken: polling.woken - before.polling.woken,
                shut: polling.shut - before.polling.shut,
                shut_time: polling.shut_time - before.polling.shut_time,
            },
            settled: None,
            quota: self.polled.auto_quota(),
            #[cfg(test)]
            underway,
            #[cfg(test)]
            underway_before: before.underway,
        }
    }

    /// Packets in queues, at the transmitter, and in processing by a task.
    #[cfg(test)]
    pub(super) fn underway(&self) -> u64 {
        let queues = [&self.ring, &self.interrupts.ipintrq, &self.queue].map(|queue| u64::from(queue.len()));
        let in_hand = self.in_process() + self.interrupts.in_hand() + self.polled.in_hand();
        queues.iter().sum::<u64>() + in_hand + self.output.pending()
    }

    fn drops(&self) -> Drops {
        Drops {
            ring: self.ring.dropped(),
            ipintrq: self.interrupts.ipintrq.dropped(),
            process: self.queue.dropped(),
            output: self.output.queue.dropped(),
        }
    }
}

/// No progress for this long, with input, is livelock (§4.2).
const LIVELOCK: Duration = Duration::from_millis(10);
