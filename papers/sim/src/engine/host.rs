//! A program with soft timers, its trigger states, and the hardware behind them: [`Host`].
//!
//! ```text
//!   trigger states   '   ''    '         '  '      the program's own activity
//!   due                 |              |
//!   fires               '┘             └───▲       at the first state after its time, or by the hardware
//!   hardware                               ▲       a one-shot at the deadline, or a tick
//! ```
//!
//! The timers are [`SoftTimers`], and [`Alarm`] decides when the one-shot is set; this module only advances
//! the time.

use std::time::Duration;

use softtimers_core::{
    Alarm, Clock, Command, Fired, ManualClock, SoftTimers, Timestamp, Trace, TriggerState,
};
use softtimers_core::{Random, WebServer};

use super::watch::Steps;

/// The times between trigger states.
#[derive(Clone, Debug)]
pub(crate) enum States {
    /// None: the program sleeps, or computes and never calls the kernel.
    None,
    /// The states of the paper's busy web server: their own mean and the target mean.
    Model(WebServer, Duration, Duration),
    /// As recorded; the recording repeats at its end.
    Recorded(Vec<Duration>, usize),
}

impl States {
    /// Returns the model's states, whose mean interval is `own`, scaled to the target mean.
    pub(crate) fn model(own: Duration, mean: Duration, random: &mut Random) -> Self {
        States::Model(WebServer::new(random.next_u64()), own, mean)
    }

    /// Returns a recording's states; `None` if it has no interval, or no time passes in it.
    pub(crate) fn recorded(trace: &Trace) -> Option<Self> {
        let times = || trace.iter().map(|(time, _)| time);
        let gaps: Vec<_> = times().skip(1).zip(times()).map(|(end, begin)| end - begin).collect();
        gaps.iter().any(|gap| !gap.is_zero()).then_some(States::Recorded(gaps, 0))
    }
}

impl Iterator for States {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        match self {
            States::None => None,
            States::Model(server, own, mean) => {
                let nanos = u128::from(server.next()?.as_nanos() as u64) * mean.as_nanos();
                Some(Duration::from_nanos((nanos / own.as_nanos()) as u64))
            }
            States::Recorded(gaps, at) => {
                let gap = gaps.get(*at).copied();
                *at = (*at + 1) % gaps.len().max(1);
                gap
            }
        }
    }
}

/// The hardware behind the trigger states.
#[derive(Clone, Debug)]
pub(crate) enum Hardware {
    /// A one-shot, set only when necessary: see [`Alarm`].
    OneShot(Alarm),
    /// A one-shot that costs nothing to set, and so always is at the earliest deadline (§5.9).
    Register(Option<Timestamp>),
    /// A periodic interrupt: the next one, and the period.
    Tick(Timestamp, Duration),
}

/// The program, its timers, and the hardware.
#[derive(Debug)]
pub(crate) struct Host<E> {
    pub(crate) timers: SoftTimers<E>,
    states: States,
    hardware: Hardware,
    clock: ManualClock,
    counts: Counts,
}

/// Counts of what a [`Host`] did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counts {
    /// Trigger states passed.
    pub(crate) states: u64,
    /// How often the hardware fired.
    pub(crate) expirations: u64,
    /// How often it was set or cleared.
    pub(crate) settings: u64,
    /// Checks, at a trigger state or by the hardware, that found a timer due.
    pub(crate) fruitful: u64,
}

impl<E> Host<E> {
    /// A host at time zero.
    pub(crate) fn new(timers: SoftTimers<E>, states: States, hardware: Hardware) -> Self {
        Host { timers, states, hardware, clock: ManualClock::default(), counts: Counts::default() }
    }

    /// Returns the counts so far.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Advances the time to `end`; passes each due event to `handle`. A trigger state comes before an
    /// interrupt at the same time.
    pub(crate) fn run(
        &mut self,
        end: Timestamp,
        steps: &Steps,
        mut handle: impl FnMut(&mut SoftTimers<E>, Timestamp, Fired<E>),
    ) {
        let mut state = self.next_state();
        loop {
            let hardware = self.arm();
            let next = [state, hardware].into_iter().flatten().min();
            let Some(now) = next.filter(|&next| next <= end) else { break };
            if !steps.go_on(now.as_nanos(), end.as_nanos()) {
                break;
            }
            self.clock.advance_to(now);
            let source = if state == Some(now) {
                self.counts.states += 1;
                state = self.next_state();
                TriggerState::SyscallExit
            } else {
                self.expire();
                TriggerState::Backup
            };
            let turn = self.timers.trigger(source, now);
            let mut found = false;
            while let Some(fired) = self.timers.next(&turn) {
                found = true;
                handle(&mut self.timers, now, fired);
            }
            self.counts.fruitful += u64::from(found);
        }
        self.clock.advance_to(end);
    }

    fn next_state(&mut self) -> Option<Timestamp> {
        let now = self.clock.now();
        // Intervals of a nanosecond or less: time must pass.
        self.states.next().map(|gap| now + gap.max(Duration::from_nanos(1)))
    }

    /// Returns when the hardware fires next.
    fn arm(&mut self) -> Option<Timestamp> {
        let (now, wanted) = (self.clock.now(), self.timers.poll_at());
        match &mut self.hardware {
            Hardware::Tick(next, _) => Some(*next),
            Hardware::Register(set) => {
                self.counts.settings += u64::from(*set != wanted);
                *set = wanted;
                wanted.map(|at| at.max(now))
            }
            Hardware::OneShot(alarm) => {
                self.counts.settings += u64::from(alarm.want(now, wanted) != Command::Keep);
                alarm.armed().map(|at| at.max(now))
            }
        }
    }

    fn expire(&mut self) {
        self.counts.expirations += 1;
        match &mut self.hardware {
            Hardware::Tick(next, period) => *next += *period,
            Hardware::Register(set) => *set = None,
            Hardware::OneShot(alarm) => alarm.expired(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_core::{Config, Slack};

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// States every 10 µs for an event each 25: `fires` are (µs, by what).
    fn fires(states: States, hardware: Hardware, slack: Slack) -> Vec<(u64, TriggerState)> {
        let mut host = Host::new(SoftTimers::new(Config::default()), states, hardware);
        host.timers.schedule(Timestamp::ZERO, micros(25), slack, ());
        let mut fires = vec![];
        host.run(Timestamp::from_micros(100), &Steps::unwatched(), |timers, now, fired| {
            fires.push((now.as_nanos() / 1_000, fired.source));
            timers.schedule(now, micros(25), slack, ());
        });
        fires
    }

    fn every(micros_between: u64) -> States {
        States::Recorded(vec![micros(micros_between)], 0)
    }

    #[test]
    fn events_fire_at_the_first_state_or_at_their_deadline() {
        use TriggerState::{Backup, SyscallExit};
        let register = || Hardware::Register(None);
        assert_eq!(
            fires(every(10), register(), Slack::micros(5)),
            [(30, SyscallExit), (60, SyscallExit), (90, SyscallExit)]
        );
        assert_eq!(
            fires(every(10), register(), Slack::micros(2)),
            [(27, Backup), (54, Backup), (80, SyscallExit)]
        );
        let alarm = Hardware::OneShot(Alarm::new());
        assert_eq!(fires(States::None, alarm, Slack::EXACT), [25, 50, 75, 100].map(|at| (at, Backup)));
        let tick = Hardware::Tick(Timestamp::from_micros(30), micros(30));
        assert_eq!(fires(States::None, tick, Slack::DEFERRABLE), [30, 60, 90].map(|at| (at, Backup)));
    }

    #[test]
    fn the_model_has_the_mean_that_is_asked_for() {
        for mean in [12_450, 31_600, 100_000] {
            let mut random = Random::stream(1, 0);
            let states = States::model(
                crate::constants::Machine::PAPERS.pacing.web_server,
                Duration::from_nanos(mean),
                &mut random,
            );
            let sum: Duration = states.take(20_000).sum();
            let found = sum.as_nanos() as f64 / 20_000.0;
            assert!((found / mean as f64 - 1.0).abs() < 0.03, "{found} for {mean}");
        }
    }
}
