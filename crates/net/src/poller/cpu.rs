//! The share of a processor that packets may have, and whether anybody wants the rest: [`Cpu`].

use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_poll::{CpuLimit, CpuLimitConfig, GateId, Input, Policy, Rounds};

use super::device::Device;
use super::host::Host;

/// The limit, the gate it shuts, and when the machine was asked whether it is idle.
#[derive(Debug)]
pub(super) struct Cpu {
    limit: CpuLimit,
    pub(super) gate: GateId,
    /// The counter's value when the turn under way began, and the sum that all turns so far have used.
    began: Duration,
    used: Duration,
    asked: Timestamp,
}

impl Cpu {
    pub(super) fn new(config: CpuLimitConfig, gate: GateId) -> Self {
        let limit = CpuLimit::new(config);
        Cpu { limit, gate, began: Duration::ZERO, used: Duration::ZERO, asked: Timestamp::ZERO }
    }

    pub(super) fn begin<D: Device>(&mut self, host: &impl Host<D>) {
        self.began = host.cpu_time();
        self.limit.begin(self.began);
    }

    pub(super) fn end<D: Device, P: Policy>(&mut self, rounds: &mut Rounds<P>, host: &impl Host<D>) {
        let (now, cpu) = (host.now(), host.cpu_time());
        self.used += cpu.saturating_sub(self.began);
        rounds.set(self.gate, self.limit.end(now, cpu));
    }

    /// Opens the gate when the period is over.
    pub(super) fn check<P: Policy>(&mut self, rounds: &mut Rounds<P>, now: Timestamp) {
        rounds.set(self.gate, self.limit.input(now));
    }

    /// Nothing else wants the processor.
    pub(super) fn idle<P: Policy>(&mut self, rounds: &mut Rounds<P>) {
        rounds.set(self.gate, self.limit.idle());
    }

    /// The caller is about to sleep, while input is shut or open.
    pub(super) fn before_sleep<D: Device, P: Policy>(
        &mut self,
        rounds: &mut Rounds<P>,
        host: &mut impl Host<D>,
    ) {
        let now = host.now();
        if self.limit.input(now) == Input::Open || now < self.asked + BETWEEN_ASKING {
            return;
        }
        self.asked = now;
        if host.is_idle() {
            self.idle(rounds);
        }
    }

    /// The CPU time that all turns have used.
    pub(super) fn used(&self) -> Duration {
        self.used
    }

    /// In how many periods input was shut.
    pub(super) fn inhibited(&self) -> u64 {
        self.limit.inhibited()
    }
}

/// To ask costs some microseconds, and a loop with timers of its own may be about to sleep every few.
const BETWEEN_ASKING: Duration = Duration::from_millis(1);
