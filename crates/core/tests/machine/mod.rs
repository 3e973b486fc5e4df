//! A machine in virtual time: a program that meets trigger states at given intervals, one hardware
//! timer behind them, and a seeded source of those intervals.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use core::time::Duration;

use softtimers_core::{
    Alarm, Clock, Command, Fired, ManualClock, SoftTimers, Timestamp, TriggerState, WebServer,
};

/// The hardware behind the trigger states.
pub(crate) enum Hardware {
    /// A one-shot timer, armed as `Alarm` says.
    OneShot(Alarm),
    /// A periodic interrupt: the next one, and the period.
    Tick(Timestamp, Duration),
}

pub(crate) struct Machine<E> {
    pub(crate) timers: SoftTimers<E>,
    pub(crate) clock: ManualClock,
    pub(crate) hardware: Hardware,
    /// Times the hardware timer went off.
    pub(crate) expirations: u64,
    /// Times it was set or cleared.
    pub(crate) settings: u64,
}

impl<E> Machine<E> {
    pub(crate) fn one_shot(timers: SoftTimers<E>) -> Self {
        let hardware = Hardware::OneShot(Alarm::new());
        Machine { timers, clock: ManualClock::default(), hardware, expirations: 0, settings: 0 }
    }

    pub(crate) fn tick(timers: SoftTimers<E>, first: Timestamp, period: Duration) -> Self {
        let hardware = Hardware::Tick(first, period);
        Machine { timers, clock: ManualClock::default(), hardware, expirations: 0, settings: 0 }
    }

    /// Lets the program run until `end`, meeting a trigger state after each of `gaps` (none: asleep);
    /// each due event is given to `handle`.
    pub(crate) fn run(
        &mut self,
        end: Timestamp,
        mut gaps: impl FnMut() -> Option<Duration>,
        mut handle: impl FnMut(&mut SoftTimers<E>, Timestamp, Fired<E>),
    ) {
        let mut trigger = gaps().map(|gap| self.clock.now() + gap);
        loop {
            let alarm = self.arm();
            let next = [trigger, alarm].into_iter().flatten().min();
            let Some(next) = next.filter(|&next| next <= end) else { break };
            self.clock.advance_to(next);
            let source = if alarm == Some(next) && trigger != Some(next) {
                self.expire();
                TriggerState::Backup
            } else {
                trigger = gaps().map(|gap| next + gap);
                TriggerState::SyscallExit
            };
            let turn = self.timers.trigger(source, next);
            while let Some(fired) = self.timers.next(&turn) {
                handle(&mut self.timers, next, fired);
            }
        }
        self.clock.advance_to(end);
    }

    /// The time at which the hardware goes off next.
    fn arm(&mut self) -> Option<Timestamp> {
        match &mut self.hardware {
            Hardware::Tick(next, _) => Some(*next),
            Hardware::OneShot(alarm) => {
                let command = alarm.want(self.clock.now(), self.timers.poll_at());
                self.settings += u64::from(command != Command::Keep);
                assert!(alarm.armed() <= self.timers.poll_at(), "armed later than the earliest deadline");
                alarm.armed().map(|at| at.max(self.clock.now()))
            }
        }
    }

    fn expire(&mut self) {
        self.expirations += 1;
        match &mut self.hardware {
            Hardware::Tick(next, period) => *next += *period,
            Hardware::OneShot(alarm) => alarm.expired(),
        }
    }
}

/// A program that meets no trigger states: only the hardware runs its events.
pub(crate) fn asleep() -> Option<Duration> {
    None
}

/// The distributions of a simulated machine, in floating point as nothing outside tests may be.
pub(crate) struct Random(softtimers_core::Random);

impl Random {
    /// A fixed sequence for a fixed seed.
    pub(crate) fn new(seed: u64) -> Self {
        Random(softtimers_core::Random::stream(seed, 0))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// Uniform in (0, 1].
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// A gamma variate of whole shape: the sum of that many exponentials.
    pub(crate) fn gamma(&mut self, shape: u32, mean: f64) -> f64 {
        (0..shape).map(|_| -self.unit().ln()).sum::<f64>() * mean / f64::from(shape)
    }

    /// The time between two trigger states of a busy web server, the paper's worst workload.
    pub(crate) fn web_server_gap(&mut self) -> Duration {
        WebServer::new(self.bits()).next().expect("it has no end")
    }
}
