//! The real timers and the model, driven through the same program. The property tests make programs
//! at random, the fuzz target from bytes; both end in [`Pair::run`].

use core::num::NonZeroU32;
use core::time::Duration;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use softtimers_core::{Config, Slack, SoftTimers, Step, TimerId, Timestamp, TriggerState, Turn};

use super::{Model, ModelSlack, ModelTurn};

/// One operation of a random program.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Advance(u64),
    Schedule {
        delay: u64,
        slack: ModelSlack,
    },
    ScheduleAt {
        offset: i64,
        slack: ModelSlack,
    },
    Cancel(usize),
    Rearm {
        pick: usize,
        delay: u64,
        slack: ModelSlack,
    },
    RearmAt {
        pick: usize,
        offset: i64,
        slack: ModelSlack,
    },
    /// A turn of which at most `take` events are taken; each runs the next of the handlers.
    Turn {
        take: usize,
        handlers: Vec<Handler>,
        stepwise: bool,
    },
}

/// A handler's use of the timers before it returns.
#[derive(Clone, Debug)]
pub(crate) enum Handler {
    Nothing,
    ScheduleNow,
    ScheduleAgain { delay: u64, slack: ModelSlack },
    CancelOther(usize),
    RearmOther { pick: usize, delay: u64, slack: ModelSlack },
    Panic,
}

/// The real timers and the model, driven in lockstep.
pub(crate) struct Pair {
    real: SoftTimers<u32>,
    model: Model,
    now: Timestamp,
    ids: HashMap<u32, TimerId>,
    next_event: u32,
    outcomes: HashMap<u32, &'static str>,
    /// Up to this number of timers all times are exact; beyond, they are lower bounds.
    few: usize,
    exact: bool,
    /// The number of operations before anybody asks for the earliest deadline.
    unasked: usize,
}

impl Pair {
    pub(crate) fn new(tick: u64, clock_step: u64, first_generation: u32, few: usize) -> Self {
        let config = Config::default()
            .tick(Duration::from_nanos(tick))
            .clock_step(Duration::from_nanos(clock_step))
            .first_generation(NonZeroU32::new(first_generation).unwrap())
            .first_sequence(NonZeroU32::new(u32::MAX - 10).unwrap())
            .few(few);
        Pair {
            real: SoftTimers::new(config),
            model: Model::new(tick, clock_step),
            now: Timestamp::from_micros(50),
            ids: HashMap::new(),
            next_event: 0,
            outcomes: HashMap::new(),
            few,
            exact: true,
            unasked: 0,
        }
    }

    /// Asks for the earliest deadline only after `unasked` operations: from then on it is looked for anew.
    pub(crate) fn asking_after(self, unasked: usize) -> Self {
        Pair { unasked, ..self }
    }

    /// Begins at the time `now`, in nanoseconds.
    pub(crate) fn beginning_at(self, now: u64) -> Self {
        Pair { now: Timestamp::from_nanos(now), ..self }
    }

    /// Runs the program, comparing after every operation, and then drains what is left.
    pub(crate) fn run(&mut self, program: &[Op]) {
        for op in program {
            self.apply(op);
        }
        self.drain();
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Advance(nanos) => self.now += Duration::from_nanos(nanos),
            Op::Schedule { delay, slack } => self.schedule(delay, slack),
            Op::ScheduleAt { offset, slack } => {
                let due = self.now.as_nanos().saturating_add_signed(offset);
                let event = self.new_event();
                let id = self.real.schedule_at(self.now, Timestamp::from_nanos(due), slack_of(slack), event);
                self.model.schedule_at(self.now, due, slack, event);
                self.ids.insert(event, id);
            }
            Op::Cancel(pick) => self.cancel(pick),
            Op::Rearm { pick, delay, slack } => self.rearm(pick, delay, slack),
            Op::RearmAt { pick, offset, slack } => self.rearm_at(pick, offset, slack),
            Op::Turn { take, ref handlers, stepwise } => self.turn(take, handlers, stepwise),
        }
        self.compare();
    }

    fn new_event(&mut self) -> u32 {
        self.next_event += 1;
        self.next_event
    }

    /// Any event ever scheduled, so that dead handles are used too.
    fn pick(&self, pick: usize) -> Option<u32> {
        (self.next_event > 0).then(|| 1 + (pick % self.next_event as usize) as u32)
    }

    fn schedule(&mut self, delay: u64, slack: ModelSlack) {
        let event = self.new_event();
        let id = self.real.schedule(self.now, Duration::from_nanos(delay), slack_of(slack), event);
        self.model.schedule(self.now, delay, slack, event);
        assert!(self.ids.values().all(|&other| other != id), "a handle was given out twice");
        self.ids.insert(event, id);
    }

    fn cancel(&mut self, pick: usize) {
        let Some(event) = self.pick(pick) else { return };
        let returned = self.real.cancel(self.ids[&event]);
        assert_eq!(returned, self.model.cancel(event));
        if returned.is_some() {
            self.ends(event, "cancelled");
        }
    }

    fn rearm(&mut self, pick: usize, delay: u64, slack: ModelSlack) {
        let Some(event) = self.pick(pick) else { return };
        let id = self.ids[&event];
        let real = self.real.reschedule(self.now, id, Duration::from_nanos(delay), slack_of(slack));
        assert_eq!(real.is_ok(), self.model.reschedule(self.now, event, delay, slack));
    }

    fn rearm_at(&mut self, pick: usize, offset: i64, slack: ModelSlack) {
        let Some(event) = self.pick(pick) else { return };
        let due = self.now.as_nanos().saturating_add_signed(offset);
        let id = self.ids[&event];
        let real = self.real.reschedule_at(self.now, id, Timestamp::from_nanos(due), slack_of(slack));
        assert_eq!(real.is_ok(), self.model.reschedule_at(self.now, event, due, slack));
    }

    fn ends(&mut self, event: u32, how: &'static str) {
        assert_eq!(self.outcomes.insert(event, how), None, "event {event} came back twice");
    }

    fn turn(&mut self, take: usize, handlers: &[Handler], stepwise: bool) {
        let turn = self.real.trigger(TriggerState::SyscallExit, self.now);
        let model_turn = self.model.trigger(self.now);
        let pending = self.real.len();
        for taken in 0..take {
            assert!(taken <= pending, "a turn handed out more than was pending when it began");
            let Some(event) = self.take_one(&turn, &model_turn, stepwise) else { break };
            let handler = handlers.get(taken % handlers.len().max(1)).cloned().unwrap_or(Handler::Nothing);
            let outcome = catch_unwind(AssertUnwindSafe(|| self.handle(event, &handler)));
            assert_eq!(outcome.is_err(), matches!(handler, Handler::Panic));
        }
    }

    fn take_one(&mut self, turn: &Turn, model_turn: &ModelTurn, stepwise: bool) -> Option<u32> {
        let fired = if stepwise {
            loop {
                match self.real.step(turn) {
                    Step::Fired(fired) => break Some(fired),
                    Step::MoreWork => {}
                    Step::Done => break None,
                }
            }
        } else {
            self.real.next(turn)
        };
        let expected = self.model.next(model_turn);
        assert_eq!(fired.as_ref().map(|fired| (fired.event, fired.due, fired.lateness)), expected);
        let fired = fired?;
        assert!(fired.due <= self.now, "early by {:?}", fired.due.saturating_duration_since(self.now));
        assert_eq!(fired.id, self.ids[&fired.event]);
        self.ends(fired.event, "fired");
        Some(fired.event)
    }

    fn handle(&mut self, event: u32, handler: &Handler) {
        match *handler {
            Handler::Nothing => {}
            Handler::ScheduleNow => self.schedule(0, ModelSlack::Exact),
            Handler::ScheduleAgain { delay, slack } => self.schedule(delay, slack),
            Handler::CancelOther(pick) => self.cancel(pick),
            Handler::RearmOther { pick, delay, slack } => self.rearm(pick, delay, slack),
            Handler::Panic => std::panic::resume_unwind(Box::new(event)),
        }
    }

    fn compare(&mut self) {
        assert_eq!(self.real.len(), self.model.len());
        self.exact &= self.model.len() <= self.few;
        self.unasked = self.unasked.saturating_sub(1);
        if self.unasked == 0 {
            compare_times(self.real.poll_at(), self.model.poll_at(), self.exact);
        }
        compare_times(self.real.next_due(), self.model.next_due(), self.exact);
        for (&event, &id) in &self.ids {
            assert_eq!(self.real.is_pending(id), self.model.is_pending(event));
        }
        let stats = self.real.stats();
        assert_eq!(stats.scheduled, stats.fired.total() + stats.cancelled + stats.pending);
        assert_eq!(self.real.lateness().count(), stats.fired.total());
    }

    /// After everything: jump past every due time; each event has come back exactly once.
    fn drain(&mut self) {
        self.now = Timestamp::MAX;
        self.turn(usize::MAX, &[], false);
        self.compare();
        assert!(self.real.is_empty());
        assert_eq!(self.outcomes.len(), self.next_event as usize);
    }
}

/// Looking earlier is harmless, looking later is late.
fn compare_times(real: Option<Timestamp>, model: Option<Timestamp>, exact: bool) {
    match (real, model) {
        (Some(real), Some(model)) if !exact => assert!(real <= model, "{real:?} is after {model:?}"),
        (Some(_), None) if !exact => {}
        (real, model) => assert_eq!(real, model),
    }
}

fn slack_of(slack: ModelSlack) -> Slack {
    match slack {
        ModelSlack::Exact => Slack::EXACT,
        ModelSlack::Within(window) => Slack::within(Duration::from_nanos(window)),
        ModelSlack::Rounded(window) => Slack::rounded(Duration::from_nanos(window)),
        ModelSlack::Default => Slack::DEFAULT,
        ModelSlack::Deferrable => Slack::DEFERRABLE,
    }
}
