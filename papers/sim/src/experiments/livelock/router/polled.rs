//! The modified kernel: interrupts start polling, and polling does the work (§6.4).
//!
//! [`Rounds`], [`Feedback`], [`CpuLimit`] and [`AutoQuota`], the same that programs on Linux use, decide
//! whose turn it is and for how many packets, when the interrupt is enabled again, whether input is closed,
//! and the quota. This module only adds the costs of their actions on this machine:
//!
//! ```text
//!   interrupt ─▶ wakes the thread ─▶ rounds.action() ─▶ Receive: turn, then packet by packet through IP
//!   of either device, then masked    ▲        │          Transmit: turn, reclaim each, load, enable
//!                                    └────────┘          Arm: enable    Rest: sleep, or the next round
//! ```

use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_poll::{
    Action, AnyPolicy, AutoQuota, AutoQuotaConfig, ConstantPeriod, CpuLimit, CpuLimitConfig, Feedback,
    GateId, Input, Interrupts, Quota, Rounds, SourceConfig, SourceId, SourceStats,
};

use super::super::config::{Config, Consumer, Kernel};
use super::{Packet, Router, RouterEvent};

#[derive(Debug)]
pub(super) struct Polled {
    rounds: Rounds<AnyPolicy>,
    input: SourceId,
    output: SourceId,
    step: Step,
    /// Interrupts that are not masked.
    receive_armed: bool,
    transmit_armed: bool,
    feedback: Option<(Feedback, GateId)>,
    limit: Option<(CpuLimit, GateId)>,
    auto: Option<AutoQuota>,
    /// At the beginning of the window.
    window: (u64, u64),
}

/// The thread's current step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Asleep,
    /// A turn of receiving: how many packets it may take, and has taken.
    Turn(u32, u32),
    /// One of its packets, and its current step.
    Packet(u32, u32, Packet, Stage),
    Arm,
    /// A turn of transmitting, likewise.
    Transmit(u32, u32),
    Reclaim(u32, u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Input,
    Queue,
    Output,
    Finish,
}

impl Polled {
    pub(super) fn new(config: &Config) -> Self {
        let when = match config.kernel {
            Kernel::Clocked => ConstantPeriod::new(config.period).into(),
            _ => AnyPolicy::from(Interrupts),
        };
        let mut rounds = Rounds::new();
        let input = rounds.add(SourceConfig::new(when).with_quota(config.quota));
        let output = rounds.add(SourceConfig::new(Interrupts.into()).with_quota(config.quota));
        let mut gate = || {
            let gate = rounds.add_gate();
            rounds.attach(gate, input);
            gate
        };
        let feedback = config.feedback.map(|feedback| (Feedback::new(feedback), gate()));
        // A timer function resets the total, so its period is whole ticks: ten of the paper's are 9.77 ms
        // (§7).
        let ticks = config.machine.ticks;
        let in_period =
            |period: Duration| (period.as_secs_f64() / ticks.as_secs_f64()).round().max(1.0) as u32;
        let limit = config.limit.map(|limit| {
            let period = ticks.saturating_mul(in_period(limit.period));
            (CpuLimit::new(CpuLimitConfig { period, ..limit }), gate())
        });
        let first = config.quota.receive().min(LARGEST_QUOTA);
        let climb = AutoQuotaConfig { first, largest: LARGEST_QUOTA, ..AutoQuotaConfig::default() };
        Polled {
            rounds,
            input,
            output,
            step: Step::Asleep,
            receive_armed: false,
            transmit_armed: true,
            feedback,
            limit,
            auto: config.auto_quota.then(|| AutoQuota::new(climb)),
            window: (0, 0),
        }
    }

    /// The counts of the interface's source.
    pub(super) fn stats(&self) -> SourceStats {
        self.rounds.stats(self.input)
    }

    /// The quota in use, if it is found while running.
    pub(super) fn auto_quota(&self) -> Option<u32> {
        self.auto.map(|auto| auto.quota())
    }

    /// The number of packets in hand.
    #[cfg(test)]
    pub(super) fn in_hand(&self) -> u64 {
        u64::from(matches!(self.step, Step::Packet(_, _, _, Stage::Input | Stage::Queue | Stage::Output)))
    }

    fn open(&mut self, now: Timestamp) -> bool {
        let feedback = self.feedback.as_mut().is_none_or(|(feedback, _)| feedback.input(now).is_open(now));
        feedback && self.limit.as_mut().is_none_or(|(limit, _)| limit.input(now).is_open(now))
    }
}

impl Router {
    /// A packet is in the ring.
    pub(super) fn receive_interrupt(&mut self) {
        if std::mem::take(&mut self.polled.receive_armed) {
            self.counters.interrupts += 1;
            self.cpu.give(self.tasks.receive, self.costs.interrupt);
        }
    }

    /// A packet was sent.
    pub(super) fn transmit_interrupt(&mut self) {
        if std::mem::take(&mut self.polled.transmit_armed) {
            self.counters.interrupts += 1;
            self.cpu.give(self.tasks.transmit, self.costs.transmit_interrupt);
        }
    }

    /// The receive interrupt is over.
    pub(super) fn polling_wanted(&mut self) {
        self.polled.rounds.woken(self.polled.input, self.engine.now());
        self.wake_polling();
    }

    /// The transmit interrupt is over.
    pub(super) fn transmit_wanted(&mut self) {
        self.polled.rounds.transmit_wanted(self.polled.output);
        self.wake_polling();
    }

    /// Begins a round, unless the thread is in one.
    pub(super) fn wake_polling(&mut self) {
        if self.polled.step == Step::Asleep {
            // The thread reads the cycle counter itself, so the switch to it is not counted (§7).
            let switch = match self.config.kernel {
                Kernel::HighIpl => Duration::ZERO,
                _ => super::switch_network(&self.config, &self.costs),
            };
            self.begin_round(self.engine.now() + switch);
            self.next_action();
        }
    }

    /// The time of the thread's next poll has come.
    pub(super) fn polling_looks(&mut self) {
        let now = self.engine.now();
        if self.polled.rounds.poll_at(now).is_some_and(|time| time <= now) {
            self.wake_polling();
        }
    }

    /// The CPU is idle (§7: the idle thread re-enables input and clears the total).
    pub(super) fn polling_idles(&mut self) {
        let now = self.engine.now();
        if let Some((limit, gate)) = &mut self.polled.limit {
            let input = limit.idle();
            self.polled.rounds.set(*gate, input);
        }
        self.polled.rounds.idle(now);
        self.polling_looks();
    }

    /// The process has taken a packet from its queue.
    pub(super) fn queue_drained(&mut self) {
        let now = self.engine.now();
        let depth = self.queue.len();
        if let Some((feedback, gate)) = &mut self.polled.feedback {
            let input = feedback.drained(now, depth);
            self.polled.rounds.set(*gate, input);
            if input == Input::Open {
                self.polling_looks();
            }
        }
    }

    /// A piece of the thread's work is done.
    pub(super) fn polling_goes_on(&mut self) {
        match self.polled.step {
            Step::Asleep => {}
            Step::Turn(quota, taken) => self.next_packet(quota, taken),
            Step::Packet(quota, taken, packet, stage) => self.packet_goes_on(quota, taken, packet, stage),
            Step::Arm => {
                let now = self.engine.now();
                let empty = self.ring.is_empty();
                self.polled.receive_armed = empty;
                self.polled.rounds.armed(self.polled.input, now, empty);
                self.next_action();
            }
            Step::Transmit(quota, done) => self.next_reclaim(quota, done),
            Step::Reclaim(quota, done) => {
                self.output.reclaim(1);
                self.next_reclaim(quota, done + 1);
            }
        }
    }

    /// Begins a round, whose CPU time is counted from `counted_from`.
    fn begin_round(&mut self, counted_from: Timestamp) {
        let now = self.engine.now();
        let Polled { rounds, feedback, limit, .. } = &mut self.polled;
        if let Some((feedback, gate)) = feedback {
            rounds.set(*gate, feedback.input(now));
        }
        if let Some((limit, gate)) = limit {
            rounds.set(*gate, limit.input(now));
            limit.begin(cycles(counted_from));
        }
    }

    /// Executes actions until one takes time.
    fn next_action(&mut self) {
        let now = self.engine.now();
        loop {
            let Polled { rounds, input, .. } = &mut self.polled;
            let (step, work) = match rounds.action(now) {
                Action::Receive { source, quota } if source == *input => {
                    (Step::Turn(quota, 0), self.costs.turn)
                }
                // No packets ever come from there.
                Action::Receive { source, .. } => {
                    rounds.received(source, now, 0, false);
                    continue;
                }
                Action::Transmit { quota, .. } => (Step::Transmit(quota, 0), self.costs.transmit_turn),
                Action::Arm { source } if source == *input => (Step::Arm, self.costs.arm),
                Action::Arm { source } => {
                    rounds.armed(source, now, true);
                    continue;
                }
                Action::Disarm { source } => {
                    self.polled.receive_armed &= source != self.polled.input;
                    continue;
                }
                Action::Rest(_) => {
                    if self.rests() {
                        return;
                    }
                    self.begin_round(now);
                    continue;
                }
            };
            self.polled.step = step;
            return self.cpu.give(self.tasks.network, work);
        }
    }

    /// Ends a round; returns whether the thread sleeps now.
    fn rests(&mut self) -> bool {
        let now = self.engine.now();
        let Polled { rounds, limit, step, .. } = &mut self.polled;
        if let Some((limit, gate)) = limit {
            rounds.set(*gate, limit.end(now, cycles(now)));
        }
        let next = rounds.poll_at(now);
        if next.is_some_and(|time| time <= now) {
            return false;
        }
        *step = Step::Asleep;
        if let Some(time) = next {
            self.engine.at(time, RouterEvent::Look);
        }
        true
    }

    fn next_packet(&mut self, quota: u32, taken: u32) {
        let now = self.engine.now();
        let goes_on = taken < quota && (self.config.runs_on || self.polled.open(now));
        let packet = if goes_on { self.ring.pop() } else { None };
        if let Some(packet) = packet {
            self.polled.step = Step::Packet(quota, taken + 1, packet, Stage::Input);
            let monitor = self.config.consumer == Consumer::Monitor;
            let input = if monitor { Duration::ZERO } else { self.costs.input };
            self.cpu.give(self.tasks.network, self.costs.receive + input);
        } else {
            self.polled.rounds.received(self.polled.input, now, taken, !self.ring.is_empty());
            self.next_action();
        }
    }

    fn packet_goes_on(&mut self, quota: u32, taken: u32, packet: Packet, stage: Stage) {
        let through_process = self.config.consumer != Consumer::Kernel;
        let (stage, work) = match stage {
            Stage::Input if through_process => (Stage::Queue, self.costs.queue),
            Stage::Input => (Stage::Output, self.costs.output),
            Stage::Output => {
                self.transmit(packet);
                (Stage::Finish, self.costs.finish)
            }
            Stage::Queue => {
                self.queued(packet);
                self.queue_offered();
                return self.next_packet(quota, taken);
            }
            Stage::Finish => return self.next_packet(quota, taken),
        };
        self.polled.step = Step::Packet(quota, taken, packet, stage);
        self.cpu.give(self.tasks.network, work);
    }

    fn queue_offered(&mut self) {
        let now = self.engine.now();
        if let Some((feedback, gate)) = &mut self.polled.feedback {
            let input = feedback.offered(now, self.queue.len());
            self.polled.rounds.set(*gate, input);
        }
    }

    fn next_reclaim(&mut self, quota: u32, done: u32) {
        if done < quota && self.output.reclaimable() > 0 {
            self.polled.step = Step::Reclaim(quota, done);
            return self.cpu.give(self.tasks.network, self.costs.transmit);
        }
        self.restart_output();
        let more = self.output.reclaimable() > 0;
        self.polled.transmit_armed = !more;
        self.polled.rounds.transmitted(self.polled.output, more.then_some(self.engine.now()));
        self.next_action();
    }

    /// A window of the automatic quota is over; it counts if the ring overflowed in it.
    pub(super) fn window_ends(&mut self) {
        self.engine.after(WINDOW, RouterEvent::Window);
        let now = (self.output.counts(self.engine.now()).packets, self.ring.dropped());
        let Polled { rounds, input, output, auto, window, .. } = &mut self.polled;
        let Some(auto) = auto else { return };
        let quota = auto.window(now.0 - window.0, now.1 > window.1);
        for source in [*input, *output] {
            rounds.set_quota(source, Quota::new(quota, quota));
        }
        *window = now;
    }
}

/// The CPU's cycle counter.
fn cycles(now: Timestamp) -> Duration {
    now.saturating_duration_since(Timestamp::ZERO)
}

/// Long enough that one turn's packets are less than the difference between neighbouring quotas.
pub(super) const WINDOW: Duration = Duration::from_millis(500);
/// With a larger one, input starves output completely.
const LARGEST_QUOTA: u32 = 64;
