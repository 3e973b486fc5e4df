//! The ways in which a CPU carries out the polls that a policy asks for: [`Timing`].

use std::time::Duration;

use softtimers_core::{Config, Random, Slack, SoftTimers, TimerId, Timestamp, TriggerState, WebServer};

/// A way to carry out polls.
///
/// ```text
///   wanted        |              |
///   Clock         P              P              by the interrupt of a clock that runs in any case: exactly on time
///   Always     PPPPPPPPPPPPPPPPPPPPPPPP         by a loop that only polls
///   Passing    P    P P      P  P     P         at trigger states: only waiting packets matter
///   Soft       ' ' ' 'P  '  '    'P   '         at the first trigger state from the time on, by soft timers
/// ```
#[derive(Debug)]
pub(crate) enum Timing {
    /// Polls happen exactly at their times: the clock's handler counts ticks, which costs no context switch
    /// (HIP §3).
    Clock,
    /// Polls follow each other without a pause, by a policy that never stops polling.
    Always,
    /// Polls happen at trigger states.
    Passing(Passing),
    /// Polls are soft events (HIP §5, last but one paragraph).
    Soft(Box<Soft>),
}

impl Timing {
    /// Random trigger states with this mean interval: context switches, about every 50 µs in HIP §5.
    pub(crate) fn passing(mean: Duration, seed: u64) -> Self {
        Timing::Passing(Passing { mean, random: Random::stream(seed, PASSING), next: None })
    }

    /// Soft timers, whose trigger states are those of the paper's busy web server.
    pub(crate) fn soft(seed: u64) -> Self {
        let mut states = WebServer::new(seed);
        let at = Timestamp::ZERO + states.next().unwrap_or_default();
        Timing::Soft(Box::new(Soft { timers: SoftTimers::new(Config::default()), states, at, wanted: None }))
    }

    /// Returns whether the CPU is idle between polls. With trigger states it is saturated.
    pub(super) fn is_idle_between(&self) -> bool {
        !matches!(self, Timing::Soft(_) | Timing::Passing(_))
    }

    pub(super) fn is_always(&self) -> bool {
        matches!(self, Timing::Always)
    }

    /// Returns when the next look can be, for a poll planned at `time`, unless the next packet changes that.
    pub(super) fn poll(&mut self, now: Timestamp, time: Timestamp, arrival: Option<Timestamp>) -> Timestamp {
        match self {
            Timing::Soft(soft) => soft.want(now, time, arrival),
            _ => time.max(now),
        }
    }

    /// Returns whether there is a poll at that time.
    pub(super) fn is_look(&mut self, time: Timestamp) -> bool {
        match self {
            Timing::Soft(soft) => soft.trigger(time),
            _ => true,
        }
    }

    /// Returns the next trigger state after a packet that arrived at `oldest`.
    pub(super) fn passing_after(&mut self, oldest: Timestamp) -> Timestamp {
        match self {
            Timing::Passing(passing) => passing.after(oldest),
            _ => oldest,
        }
    }

    /// Returns the mean number of trigger states from `from` to `to`.
    pub(super) fn passed(&self, from: Timestamp, to: Timestamp) -> u64 {
        match self {
            Timing::Passing(passing) => {
                let times = to.saturating_duration_since(from).as_nanos() / passing.mean.as_nanos().max(1);
                u64::try_from(times).unwrap_or(u64::MAX)
            }
            _ => 0,
        }
    }

    pub(super) fn looked(&mut self, end: Timestamp) {
        match self {
            Timing::Passing(passing) => passing.next = None,
            Timing::Soft(soft) => soft.looked(end),
            Timing::Clock | Timing::Always => {}
        }
    }
}

/// Exponentially distributed intervals, so the time from any moment to the next trigger state is exponential
/// too. The number since the last look, needed only for the count of empty polls, is taken to be the mean.
#[derive(Debug)]
pub(crate) struct Passing {
    mean: Duration,
    random: Random,
    next: Option<Timestamp>,
}

impl Passing {
    fn after(&mut self, oldest: Timestamp) -> Timestamp {
        let (mean, random) = (self.mean, &mut self.random);
        *self.next.get_or_insert_with(|| {
            let nanos = u128::from(random.exponential()) * mean.as_nanos() / u128::from(Random::ONE);
            oldest + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        })
    }
}

/// The real [`SoftTimers`], triggered at the states of [`WebServer`] while a poll is planned.
#[derive(Debug)]
pub(crate) struct Soft {
    timers: SoftTimers<()>,
    states: WebServer,
    /// The next trigger state.
    at: Timestamp,
    wanted: Option<(TimerId, Timestamp)>,
}

impl Soft {
    /// Skips the trigger states at which nothing can be due: before that time, and before an arrival that may
    /// change it. They are nine tenths of all, and need not be checked one by one.
    fn want(&mut self, now: Timestamp, time: Timestamp, arrival: Option<Timestamp>) -> Timestamp {
        if self.wanted.is_none_or(|(_, wanted)| wanted != time) {
            self.cancel();
            self.wanted = Some((self.timers.schedule_at(now, time, Slack::EXACT, ()), time));
        }
        while self.at < time && arrival.is_none_or(|arrival| self.at <= arrival) {
            self.at += self.states.next().unwrap_or_default();
        }
        self.at
    }

    fn trigger(&mut self, state: Timestamp) -> bool {
        self.at = state + self.states.next().unwrap_or_default();
        let turn = self.timers.trigger(TriggerState::SyscallExit, state);
        let fired = self.timers.next(&turn).is_some();
        if fired {
            self.wanted = None;
        }
        fired
    }

    /// The end of a look is itself a trigger state.
    fn looked(&mut self, end: Timestamp) {
        self.cancel();
        self.at = end + self.states.next().unwrap_or_default();
    }

    fn cancel(&mut self) {
        if let Some((id, _)) = self.wanted.take() {
            self.timers.cancel(id);
        }
    }
}

/// The random number stream of the trigger states.
const PASSING: u64 = 0x7061_7373;
