//! The share of a processor that packets may have, and whether anybody wants the rest: [`Cpu`].

use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_core::poll::{CpuLimit, CpuLimitConfig, GateId, Input, Policy, Rounds};

use super::device::Device;
use super::host::Host;

/// The limit, the gate it shuts, and when the machine was asked whether it is idle.
#[derive(Debug)]
pub(super) struct Cpu {
    limit: CpuLimit,
    pub(super) gate: GateId,
    asked: Timestamp,
}

impl Cpu {
    pub(super) fn new(config: CpuLimitConfig, gate: GateId) -> Self {
        Cpu { limit: CpuLimit::new(config), gate, asked: Timestamp::ZERO }
    }

    /// A turn begins.
    pub(super) fn begin<D: Device>(&mut self, host: &impl Host<D>) {
        self.limit.begin(host.cpu_time());
    }

    /// It is over.
    pub(super) fn end<D: Device, P: Policy>(&mut self, rounds: &mut Rounds<P>, host: &impl Host<D>) {
        let (now, cpu) = (host.now(), host.cpu_time());
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

    /// In how many periods input was shut.
    pub(super) fn inhibited(&self) -> u64 {
        self.limit.inhibited()
    }
}

/// To ask costs some microseconds, and a loop with timers of its own may be about to sleep every few.
const BETWEEN_ASKING: Duration = Duration::from_millis(1);
