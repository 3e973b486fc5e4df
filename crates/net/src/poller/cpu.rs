//! [`Cpu`]: the limit on the CPU time of packets, and when to lift it.
//!
//! A round is charged with the thread's whole CPU time since the last one: its turns, sleeping and waking,
//! and other system calls. If another loop sleeps, only with its own.

use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_poll::{CpuLimit, CpuLimitConfig, GateId, Input, Policy, Rounds};

use super::device::Device;
use super::host::Host;

/// The limit, the gate it shuts, and when the host was last asked whether it is idle.
#[derive(Debug)]
pub(super) struct Cpu {
    limit: CpuLimit,
    pub(super) gate: GateId,
    /// The counter's value when it was read last, and the sum that was charged so far.
    read: Duration,
    used: Duration,
    /// Time of timers' interrupts, to be charged.
    interrupts: Duration,
    /// The round under way, if interrupts are left out of its CPU time.
    round: Option<Round>,
    asked: Timestamp,
}

/// The start of a round: the counter, the clock, and how often the thread had lost its CPU.
#[derive(Debug)]
struct Round {
    cpu: Duration,
    at: Timestamp,
    switches: u64,
}

impl Cpu {
    pub(super) fn new(config: CpuLimitConfig, gate: GateId, cpu: Duration) -> Self {
        Cpu {
            limit: CpuLimit::new(config),
            gate,
            read: cpu,
            used: Duration::ZERO,
            interrupts: Duration::ZERO,
            round: None,
            asked: Timestamp::ZERO,
        }
    }

    /// Restarts the account: CPU time used before does not count.
    pub(super) fn forget<D: Device>(&mut self, host: &impl Host<D>) {
        self.read = host.cpu_time();
    }

    /// Notes that a sleep timed out.
    pub(super) fn timed_out<D: Device>(&mut self, host: &mut impl Host<D>) {
        self.interrupts += host.timer_cost();
    }

    /// Notes the start of a round.
    pub(super) fn begin<D: Device>(&mut self, host: &impl Host<D>) {
        self.round = host.switches().map(|switches| Round { cpu: host.cpu_time(), at: host.now(), switches });
    }

    /// Charges a round that is over.
    pub(super) fn charge<D: Device, P: Policy>(&mut self, rounds: &mut Rounds<P>, host: &impl Host<D>) {
        let (now, cpu) = (host.now(), host.cpu_time());
        let mut spent = cpu.saturating_sub(std::mem::replace(&mut self.read, cpu));
        if let Some(round) = self.round.take() {
            // A thread that never lost the CPU has used all of the time.
            let left_out =
                now.saturating_duration_since(round.at).saturating_sub(cpu.saturating_sub(round.cpu));
            if !left_out.is_zero() && host.switches() == Some(round.switches) {
                spent += left_out;
            }
        }
        spent += std::mem::take(&mut self.interrupts);
        self.used += spent;
        rounds.set(self.gate, self.limit.charge(now, spent, rounds.any_unfinished()));
    }

    /// Opens the gate when the period is over.
    pub(super) fn check<P: Policy>(&mut self, rounds: &mut Rounds<P>, now: Timestamp) {
        rounds.set(self.gate, self.limit.input(now));
    }

    /// Resets the account: no other program needs the CPU.
    pub(super) fn idle<P: Policy>(&mut self, rounds: &mut Rounds<P>) {
        rounds.set(self.gate, self.limit.idle());
    }

    /// Called before a sleep, with input shut or open.
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

    /// The CPU time that was charged.
    pub(super) fn used(&self) -> Duration {
        self.used
    }

    /// The limit itself.
    pub(super) fn limit(&self) -> &CpuLimit {
        &self.limit
    }
}

/// Asking costs some microseconds, and a loop with its own timers may sleep every few.
const BETWEEN_ASKING: Duration = Duration::from_millis(1);
