//! Properties of a machine beside its parameters: the constants, the priorities of the router's tasks, the
//! room in HIP's device.

use std::time::Duration;

use crate::constants::{Livelock, Machine};
use crate::experiment::RunError;

/// The machine of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Hardware {
    pub(crate) constants: Machine,
    pub(crate) priorities: Priorities,
    /// Packets that HIP's device holds; unlimited if none.
    pub(crate) hip_ring: Option<u32>,
}

/// The papers' machines.
impl Default for Hardware {
    fn default() -> Self {
        Hardware::PAPERS
    }
}

impl Hardware {
    pub(crate) const PAPERS: Hardware =
        Hardware { constants: Machine::PAPERS, priorities: Priorities::PAPERS, hip_ring: None };

    /// The machine of the soft timers paper, and values scaled to it.
    pub(super) fn pentium_ii() -> Self {
        let papers = Hardware::PAPERS;
        let interrupt = papers.constants.polling.interrupt;
        let mut constants = papers.constants;
        constants.hip.interrupt = interrupt;
        constants.livelock = scaled(in_nanos(papers.constants.livelock), interrupt);
        Hardware { constants, ..papers }
    }

    /// Converts steps to nanoseconds, whatever their unit.
    pub(super) fn in_nanos(self) -> Self {
        let constants = Machine { livelock: in_nanos(self.constants.livelock), ..self.constants };
        Hardware { constants, ..self }
    }

    /// Checks that the values can be combined.
    pub(super) fn check(&self) -> Result<(), RunError> {
        let Priorities { clock, device, network, process, background, user } = self.priorities;
        if clock <= device {
            return Err(RunError::new(format_args!(
                "router.priorities.device {device}: clock {clock} must be above it"
            )));
        }
        for (name, level) in
            [("network", network), ("process", process), ("background", background), ("user", user)]
        {
            if device <= level {
                return Err(RunError::new(format_args!(
                    "router.priorities.{name} {level}: device {device} must be above it, which interrupts"
                )));
            }
        }
        let Livelock { tick, ticks, background, background_period, .. } = self.constants.livelock;
        for (name, work, of, period) in [
            ("tick", tick, "tick-period", ticks),
            ("background", background, "background-period", background_period),
        ] {
            if work >= period {
                return Err(RunError::new(format_args!(
                    "router.{name} {work:?}: {of} {period:?} must be longer, or nothing else would run"
                )));
            }
        }
        Ok(())
    }
}

/// The router's priorities: a larger number interrupts a smaller one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Priorities {
    pub(crate) clock: u8,
    /// Both devices in the paper (SPLIMP).
    pub(crate) device: u8,
    /// Above all consumers of packets (§8.2.1).
    pub(crate) network: u8,
    pub(crate) process: u8,
    pub(crate) background: u8,
    pub(crate) user: u8,
}

impl Priorities {
    pub(crate) const PAPERS: Priorities =
        Priorities { clock: 10, device: 8, network: 4, process: 3, background: 2, user: 1 };
}

/// The same router with its traced steps as true times, in nanoseconds.
fn in_nanos(of: Livelock) -> Livelock {
    let untraced = Livelock { trace: 1, handlers: 1, ..of };
    each_step(untraced, |micros| micros * of.trace, |micros| micros * of.handlers)
}

/// A router with each step scaled like its interrupt, on 100 Mbit/s with a clock of 100 Hz.
fn scaled(of: Livelock, interrupt: Duration) -> Livelock {
    let was = of.interrupt * of.handlers;
    let is = interrupt.as_nanos() as u64;
    let time = |time: Duration| Duration::from_nanos(time.as_nanos() as u64 * is / was);
    let router = each_step(of, |nanos| nanos * is / was, |nanos| nanos * is / was);
    Livelock {
        pollution: time(of.pollution),
        user: time(of.user),
        cold: time(of.cold),
        queue: time(of.queue),
        screend: time(of.screend),
        background: time(of.background),
        tick: interrupt,
        ticks: Duration::from_millis(10),
        wire: of.wire / 10,
        ..router
    }
}

/// Interrupt handlers of kernels without polling are converted in one way, all other steps in another.
fn each_step(of: Livelock, change: impl Fn(u64) -> u64, handled: impl Fn(u64) -> u64) -> Livelock {
    Livelock {
        polling_interrupt: change(of.polling_interrupt),
        polling_transmit_interrupt: change(of.polling_transmit_interrupt),
        polling_switch: change(of.polling_switch),
        polling_receive: change(of.polling_receive),
        polling_input: change(of.polling_input),
        polling_output: change(of.polling_output),
        polling_finish: change(of.polling_finish),
        polling_transmit: change(of.polling_transmit),
        polling_turn: change(of.polling_turn),
        polling_transmit_turn: change(of.polling_transmit_turn),
        polling_arm: change(of.polling_arm),
        interrupt: handled(of.interrupt),
        transmit_interrupt: handled(of.transmit_interrupt),
        switch: change(of.switch),
        receive: handled(of.receive),
        input: change(of.input),
        output: change(of.output),
        finish: change(of.finish),
        transmit: handled(of.transmit),
        ..of
    }
}
