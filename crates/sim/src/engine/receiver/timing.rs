//! The ways in which a CPU comes to look when a policy wants it to: [`Timing`].

use std::time::Duration;

use softtimers_core::{Config, Random, Slack, SoftTimers, TimerId, Timestamp, TriggerState, WebServer};

/// A way in which polls come about.
///
/// ```text
///   wanted        |              |
///   Clock         P              P              by the interrupt of a clock that comes anyway: at the very time
///   Always     PPPPPPPPPPPPPPPPPPPPPPPP         by a loop that does nothing else
///   Passing    P    P P      P  P     P         whenever the CPU passes: only packets that wait matter
///   Soft       ' ' ' 'P  '  '    'P   '         at the first trigger state from the time on, by soft timers
/// ```
#[derive(Debug)]
pub(crate) enum Timing {
    /// Polls are at their times: the clock's handler counts ticks, which costs no switch of context (HIP §3).
    Clock,
    /// Polls follow each other, by a policy that never changes its mind.
    Always,
    /// Polls are wherever the CPU passes.
    Passing(Passing),
    /// Polls are soft events (HIP §5, last but one paragraph).
    Soft(Box<Soft>),
}

impl Timing {
    /// Trigger states at random, on average so far apart: context switches, about every 50 µs in HIP §5.
    pub(crate) fn passing(mean: Duration, seed: u64) -> Self {
        Timing::Passing(Passing { mean, random: Random::stream(seed, PASSING), next: None })
    }

    /// Soft timers, whose trigger states are those of the paper's busy web server.
    pub(crate) fn soft(seed: u64) -> Self {
        let mut states = WebServer::new(seed);
        let at = Timestamp::ZERO + states.next().unwrap_or_default();
        Timing::Soft(Box::new(Soft { timers: SoftTimers::new(Config::default()), states, at, wanted: None }))
    }

    /// Says whether the CPU has nothing else to do between polls. Where there are trigger states it is saturated.
    pub(super) fn is_idle_between(&self) -> bool {
        !matches!(self, Timing::Soft(_) | Timing::Passing(_))
    }

    pub(super) fn is_always(&self) -> bool {
        matches!(self, Timing::Always)
    }

    /// Returns when the next look can be, for a poll that is wanted at `time`, unless the packet that comes next
    /// changes that.
    pub(super) fn poll(&mut self, now: Timestamp, time: Timestamp, arrival: Option<Timestamp>) -> Timestamp {
        match self {
            Timing::Soft(soft) => soft.want(now, time, arrival),
            _ => time.max(now),
        }
    }

    /// Says whether there is a poll when that time has come.
    pub(super) fn is_look(&mut self, time: Timestamp) -> bool {
        match self {
            Timing::Soft(soft) => soft.trigger(time),
            _ => true,
        }
    }

    /// Returns when the CPU passes next after a packet that arrived at `oldest`.
    pub(super) fn passing_after(&mut self, oldest: Timestamp) -> Timestamp {
        match self {
            Timing::Passing(passing) => passing.after(oldest),
            _ => oldest,
        }
    }

    /// The mean number of passages from `from` to `to`.
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

/// Exponentially distributed intervals, so the time from any moment to the next trigger state is, too. How many
/// there were since the last look, which only the count of empty polls needs, is taken to be the mean number.
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

/// The real [`SoftTimers`], triggered on the states of [`WebServer`] while a poll is wanted.
#[derive(Debug)]
pub(crate) struct Soft {
    timers: SoftTimers<()>,
    states: WebServer,
    /// The next trigger state.
    at: Timestamp,
    wanted: Option<(TimerId, Timestamp)>,
}

impl Soft {
    /// Passes by the trigger states at which nothing can be due: before that time, and before an arrival that may change it.
    /// They are nine tenths of all, and need not be asked one by one.
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

    /// The end of a look is a trigger state itself.
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

/// The stream of random numbers that the trigger states have to themselves.
const PASSING: u64 = 0x7061_7373;
