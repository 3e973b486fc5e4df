//! Invariants 1–7 as properties: random schedules, cancels, re-arms, slack, jumps, handlers that
//! schedule, cancel and panic, and slots near the end of their generations, all against the model.

mod model;

use core::num::NonZeroU32;
use core::time::Duration;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use model::{Model, ModelSlack, ModelTurn};
use proptest::prelude::*;
use softtimers_core::{Config, Slack, SoftTimers, Step, TimerId, Timestamp, TriggerState, Turn};

/// One operation of a random program.
#[derive(Clone, Debug)]
enum Op {
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
    /// A turn of which at most `take` events are taken; each runs the next of the handlers.
    Turn {
        take: usize,
        handlers: Vec<Handler>,
        stepwise: bool,
    },
}

/// What a handler does with the timers before it returns.
#[derive(Clone, Debug)]
enum Handler {
    Nothing,
    ScheduleNow,
    ScheduleAgain { delay: u64, slack: ModelSlack },
    CancelOther(usize),
    RearmOther { pick: usize, delay: u64, slack: ModelSlack },
    Panic,
}

fn delays() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1u64..50, 0u64..5_000, 0u64..2_000_000, Just(u64::MAX - 7)]
}

fn slacks() -> impl Strategy<Value = ModelSlack> {
    prop_oneof![
        Just(ModelSlack::Exact),
        (0u64..5_000).prop_map(ModelSlack::Within),
        (0u64..20_000).prop_map(ModelSlack::Rounded),
        Just(ModelSlack::Default),
        Just(ModelSlack::Deferrable),
    ]
}

fn handlers() -> impl Strategy<Value = Handler> {
    prop_oneof![
        3 => Just(Handler::Nothing),
        2 => Just(Handler::ScheduleNow),
        3 => (delays(), slacks()).prop_map(|(delay, slack)| Handler::ScheduleAgain { delay, slack }),
        2 => any::<usize>().prop_map(Handler::CancelOther),
        2 => (any::<usize>(), delays(), slacks())
            .prop_map(|(pick, delay, slack)| Handler::RearmOther { pick, delay, slack }),
        1 => Just(Handler::Panic),
    ]
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => prop_oneof![0u64..3, 0u64..3_000, 0u64..5_000_000, Just(1_000_000_000)].prop_map(Op::Advance),
        6 => (delays(), slacks()).prop_map(|(delay, slack)| Op::Schedule { delay, slack }),
        2 => (-10_000i64..10_000, slacks()).prop_map(|(offset, slack)| Op::ScheduleAt { offset, slack }),
        2 => any::<usize>().prop_map(Op::Cancel),
        3 => (any::<usize>(), delays(), slacks()).prop_map(|(pick, delay, slack)| Op::Rearm { pick, delay, slack }),
        4 => (prop_oneof![Just(usize::MAX), 0usize..4], prop::collection::vec(handlers(), 0..6), any::<bool>())
            .prop_map(|(take, handlers, stepwise)| Op::Turn { take, handlers, stepwise }),
    ]
}

/// The real timers and the model, driven in lockstep.
struct Pair {
    real: SoftTimers<u32>,
    model: Model,
    now: Timestamp,
    ids: HashMap<u32, TimerId>,
    next_event: u32,
    outcomes: HashMap<u32, &'static str>,
}

impl Pair {
    fn new(tick: u64, clock_step: u64, first_generation: u32) -> Self {
        let config = Config::default()
            .tick(Duration::from_nanos(tick))
            .clock_step(Duration::from_nanos(clock_step))
            .first_generation(NonZeroU32::new(first_generation).unwrap());
        Pair {
            real: SoftTimers::new(config),
            model: Model::new(tick, clock_step),
            now: Timestamp::from_micros(50),
            ids: HashMap::new(),
            next_event: 0,
            outcomes: HashMap::new(),
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Advance(nanos) => self.now += Duration::from_nanos(nanos),
            Op::Schedule { delay, slack } => self.schedule(delay, slack),
            Op::ScheduleAt { offset, slack } => {
                let due = self.now.as_nanos().saturating_add_signed(offset);
                let event = self.new_event();
                let id = self.real.schedule_at(Timestamp::from_nanos(due), slack_of(slack), event);
                self.model.schedule_at(due, slack, event);
                self.ids.insert(event, id);
            }
            Op::Cancel(pick) => self.cancel(pick),
            Op::Rearm { pick, delay, slack } => self.rearm(pick, delay, slack),
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

    fn compare(&self) {
        assert_eq!(self.real.len(), self.model.len());
        assert_eq!(self.real.poll_at(), self.model.poll_at());
        assert_eq!(self.real.next_due(), self.model.next_due());
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

fn slack_of(slack: ModelSlack) -> Slack {
    match slack {
        ModelSlack::Exact => Slack::EXACT,
        ModelSlack::Within(window) => Slack::within(Duration::from_nanos(window)),
        ModelSlack::Rounded(window) => Slack::rounded(Duration::from_nanos(window)),
        ModelSlack::Default => Slack::DEFAULT,
        ModelSlack::Deferrable => Slack::DEFERRABLE,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 8 } else { 2_000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Never early, in order, FIFO among equal ones, exactly once, turns that end, handles that never
    /// alias, panics that lose nothing, and the exact `poll_at`, after every operation.
    #[test]
    fn every_invariant_holds_against_the_model(
        tick in prop_oneof![Just(1u64), Just(1_000), 1u64..5_000],
        clock_step in prop_oneof![Just(0u64), Just(1_000)],
        first_generation in prop_oneof![Just(1u32), u32::MAX - 3..=u32::MAX],
        program in prop::collection::vec(ops(), 1..80),
    ) {
        let mut pair = Pair::new(tick, clock_step, first_generation);
        for op in &program {
            pair.apply(op);
        }
        pair.drain();
    }
}

/// A handler that always schedules for "now" cannot keep a turn going.
#[test]
fn a_turn_ends_although_its_handlers_schedule_at_now() {
    let mut timers = SoftTimers::new(Config::default());
    let now = Timestamp::from_micros(10);
    for event in 0..5u32 {
        timers.schedule(now, Duration::ZERO, Slack::EXACT, event);
    }
    for turn_number in 0..100u32 {
        let turn = timers.trigger(TriggerState::HandlerExit, now);
        let mut handed_out = Vec::new();
        while let Some(fired) = timers.next(&turn) {
            timers.schedule(now, Duration::ZERO, Slack::EXACT, fired.event);
            handed_out.push(fired.event);
        }
        assert_eq!(handed_out, [0, 1, 2, 3, 4], "turn {turn_number}");
    }
}

/// "Maximum frequency" (soft timers §5.1): an event that re-arms itself with T = 0 runs at every
/// trigger state exactly once, whether or not the clock has moved in between.
#[test]
fn an_event_with_t_zero_fires_once_per_turn() {
    let mut timers = SoftTimers::new(Config::default());
    let mut now = Timestamp::from_nanos(123);
    timers.schedule(now, Duration::ZERO, Slack::EXACT, ());
    for step in [0u64, 1, 0, 999, 3, 1_000_000, 0].repeat(50) {
        now += Duration::from_nanos(step);
        let turn = timers.trigger(TriggerState::SyscallExit, now);
        assert!(timers.next(&turn).is_some());
        timers.schedule(now, Duration::ZERO, Slack::EXACT, ());
        assert!(timers.next(&turn).is_none());
    }
    let stats = timers.stats();
    assert_eq!(stats.fired.total(), stats.triggers.total());
    assert_eq!(stats.fired[TriggerState::SyscallExit], 350);
}

/// Time that runs backwards is taken as standing still: nothing comes early by the latest time seen.
#[test]
fn a_clock_that_goes_back_makes_nothing_early() {
    let mut timers = SoftTimers::new(Config::default());
    timers.schedule(Timestamp::from_micros(100), Duration::from_micros(10), Slack::EXACT, 'a');
    let turn = timers.trigger(TriggerState::Idle, Timestamp::from_micros(50));
    assert_eq!(timers.next(&turn), None);
    timers.schedule(Timestamp::from_micros(50), Duration::from_micros(10), Slack::EXACT, 'b');
    let turn = timers.trigger(TriggerState::Idle, Timestamp::from_micros(105));
    assert_eq!(timers.next(&turn).map(|fired| fired.event), Some('b'));
    assert_eq!(timers.next(&turn), None);
}

/// The interval statistics do not change what fires.
#[test]
fn interval_statistics_are_kept_only_when_asked_for() {
    for keep in [false, true] {
        let mut timers = SoftTimers::new(Config::default().intervals(keep));
        timers.schedule(Timestamp::ZERO, Duration::from_micros(5), Slack::EXACT, ());
        let mut fired = 0;
        for micros in [2, 4, 7, 9] {
            let turn = timers.trigger(TriggerState::Readiness, Timestamp::from_micros(micros));
            while timers.next(&turn).is_some() {
                fired += 1;
            }
        }
        assert_eq!(fired, 1);
        let count = timers.intervals().map(|intervals| intervals.ended_by(TriggerState::Readiness).count());
        assert_eq!(count, keep.then_some(3));
    }
}
