//! The sums of a run: the columns of HIP's Table 3 and their parts.

use std::time::Duration;

/// Counts and sums of one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ReceiveStats {
    /// From time zero to the end of the last look.
    pub(crate) span: Duration,
    /// Looks begun by an interrupt.
    pub(crate) interrupts: u64,
    /// Packets taken by interrupts.
    pub(crate) by_interrupt: u64,
    pub(crate) polls: u64,
    /// Packets taken by polls.
    pub(crate) by_poll: u64,
    /// Empty polls.
    pub(crate) unsuccessful: u64,
    /// Changes from interrupts to polls and back.
    pub(crate) switches: u64,
    /// Bytes of all packets.
    pub(crate) bytes: u64,
    pub(crate) longest_delay: Duration,
    /// Packets lost because the device was full.
    pub(crate) lost: u64,
    /// The time of all looks and changes.
    busy: u128,
    /// The sum over all packets, in nanoseconds.
    delay: u128,
}

impl ReceiveStats {
    /// Returns the number of packets taken.
    pub(crate) fn packets(&self) -> u64 {
        self.by_interrupt + self.by_poll
    }

    /// "Avg-Overhead": CPU time for each packet, in microseconds.
    pub(crate) fn overhead_us(&self) -> f64 {
        self.micros(self.busy)
    }

    /// "Avg-Delay": from arrival to the end of the look that took it, in microseconds.
    pub(crate) fn delay_us(&self) -> f64 {
        self.micros(self.delay)
    }

    /// "Avg. Packets per Interrupt"; zero without interrupts.
    pub(crate) fn packets_per_interrupt(&self) -> f64 {
        ratio(self.by_interrupt, self.interrupts)
    }

    /// "Avg. Packets per Poll", over all polls, as in the paper; zero without polls.
    pub(crate) fn packets_per_poll(&self) -> f64 {
        ratio(self.by_poll, self.polls)
    }

    /// The share of empty polls; zero without polls.
    #[cfg(test)]
    pub(crate) fn unsuccessful_share(&self) -> f64 {
        ratio(self.unsuccessful, self.polls)
    }

    /// The share of the CPU that receiving took.
    #[cfg(test)]
    pub(crate) fn cpu_share(&self) -> f64 {
        self.busy as f64 / (self.span.as_nanos() as f64).max(1.0)
    }

    /// CPU time in nanoseconds, changes of mode included.
    #[cfg(test)]
    pub(crate) fn busy_nanos(&self) -> u128 {
        self.busy
    }

    pub(super) fn look(&mut self, length: Duration, found: u32, polled: bool) {
        self.busy += length.as_nanos();
        if polled {
            self.polls += 1;
            self.by_poll += u64::from(found);
            self.unsuccessful += u64::from(found == 0);
        } else {
            self.interrupts += 1;
            self.by_interrupt += u64::from(found);
        }
    }

    pub(super) fn empty_polls(&mut self, count: u64, each: Duration) {
        self.polls += count;
        self.unsuccessful += count;
        self.busy += each.as_nanos() * u128::from(count);
    }

    pub(super) fn switch(&mut self, cost: Duration) {
        self.switches += 1;
        self.busy += cost.as_nanos();
    }

    pub(super) fn delay(&mut self, delay: Duration) {
        self.delay += delay.as_nanos();
        self.longest_delay = self.longest_delay.max(delay);
    }

    fn micros(&self, nanos: u128) -> f64 {
        nanos as f64 / self.packets().max(1) as f64 / 1_000.0
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
