use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::Random;

const MS: Duration = Duration::from_millis(1);

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// Figures 6 and 7 of the paper, in the plainest data.
#[derive(Default)]
struct Model {
    /// Handle, label, interval, expiry, number of the setting: those that run.
    running: Vec<(Handle, u32, u64, u64, u64)>,
    expired: Vec<(Handle, u32, u64, u64)>,
    settings: u64,
}

impl Model {
    fn expire(&mut self, now: u64) {
        // Timers that expired before they were set are ordered by the time they were set.
        self.running.sort_by_key(|&(.., expiry, number)| (expiry, number));
        while let Some(&(handle, label, interval, expiry, _)) = self.running.first().filter(|t| t.3 <= now) {
            self.running.remove(0);
            self.expired.push((handle, label, interval, expiry));
        }
    }

    fn run(&mut self, handle: Handle, label: u32, interval: u64, expiry: u64) {
        self.settings += 1;
        self.running.push((handle, label, interval, expiry, self.settings));
    }

    fn find(&self, now: u64, handle: Handle) -> Option<Setting> {
        let running = self.running.iter().find(|t| t.0 == handle).map(|t| (t.3.saturating_sub(now), t.2));
        let expired = || self.expired.iter().find(|t| t.0 == handle).map(|t| (0, t.2));
        let (value, interval) = running.or_else(expired)?;
        Some(Setting { value: Duration::from_nanos(value), interval: Duration::from_nanos(interval) })
    }

    fn remove(&mut self, handle: Handle) {
        self.running.retain(|t| t.0 != handle);
        self.expired.retain(|t| t.0 != handle);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Create(u64, u64, u32),
    Reset(usize, u64, u64, u32),
    Cancel(usize),
    Query(usize),
    Reap,
    Invented(u64),
    Later(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let time = || prop_oneof![1 => Just(0u64), 6 => 1u64..2_000, 2 => 0u64..1_000_000, 1 => any::<u64>()];
    let op = prop_oneof![
        4 => (time(), time(), any::<u32>()).prop_map(|(v, i, l)| Op::Create(v, i, l)),
        2 => (0usize..20, time(), time(), any::<u32>()).prop_map(|(h, v, i, l)| Op::Reset(h, v, i, l)),
        2 => (0usize..20).prop_map(Op::Cancel),
        2 => (0usize..20).prop_map(Op::Query),
        5 => Just(Op::Reap),
        1 => any::<u64>().prop_map(Op::Invented),
        4 => (0u64..1_500).prop_map(Op::Later),
    ];
    prop::collection::vec(op, 1..crate::effort::operations(150) as usize)
}

const MOST_TIMERS: usize = 12;

/// The timers and the model in step.
struct Pair {
    timers: IntervalTimers<u32>,
    model: Model,
    handles: Vec<Handle>,
    now: u64,
}

impl Pair {
    /// Returns the handle that was given out `ago` creations ago, dead or alive.
    fn pick(&self, ago: usize) -> Handle {
        self.handles.len().checked_sub(ago + 1).map_or(Handle(1), |at| self.handles[at])
    }

    fn exist(&self) -> usize {
        self.model.running.len() + self.model.expired.len()
    }

    fn create(&mut self, setting: Setting, label: u32) -> Result<(), TestCaseError> {
        match self.timers.create(Timestamp::from_nanos(self.now), setting, label) {
            Ok(handle) => {
                prop_assert!(!setting.value.is_zero() && self.exist() < MOST_TIMERS);
                prop_assert!(!self.handles.contains(&handle), "a handle came twice");
                self.handles.push(handle);
                self.run(handle, setting, label);
            }
            Err(IntervalError::ZeroValue) => prop_assert!(setting.value.is_zero()),
            Err(error) => {
                prop_assert_eq!((error, self.exist()), (IntervalError::TooMany, MOST_TIMERS));
            }
        }
        Ok(())
    }

    fn reset(&mut self, ago: usize, setting: Setting, label: u32) -> Result<(), TestCaseError> {
        let (handle, before) = (self.pick(ago), self.model.find(self.now, self.pick(ago)));
        match self.timers.reset(Timestamp::from_nanos(self.now), handle, setting, label) {
            Ok(former) => {
                prop_assert_eq!(Some(former), before);
                self.model.remove(handle);
                self.run(handle, setting, label);
            }
            Err(IntervalError::ZeroValue) => prop_assert!(setting.value.is_zero()),
            Err(error) => prop_assert_eq!((error, before), (IntervalError::NoSuchTimer, None)),
        }
        Ok(())
    }

    fn run(&mut self, handle: Handle, setting: Setting, label: u32) {
        let [value, interval] = [setting.value, setting.interval].map(saturating_nanos);
        self.model.run(handle, label, interval, self.now.saturating_add(value));
    }

    fn reap(&mut self) -> Result<(), TestCaseError> {
        match self.timers.reap(Timestamp::from_nanos(self.now)) {
            Ok(expired) => {
                let (handle, label, interval, expiry) = self.model.expired.remove(0);
                let wanted = Expired { handle, label, at: Timestamp::from_nanos(expiry), runs: interval > 0 };
                prop_assert_eq!(expired, wanted);
                if interval > 0 {
                    self.model.run(handle, label, interval, expiry.saturating_add(interval));
                }
            }
            Err(error) => {
                prop_assert_eq!(error, IntervalError::NothingExpired);
                prop_assert!(self.model.expired.is_empty());
            }
        }
        Ok(())
    }

    fn step(&mut self, op: &Op) -> Result<(), TestCaseError> {
        let time = Timestamp::from_nanos(self.now);
        let set = |v, i| Setting { value: Duration::from_nanos(v), interval: Duration::from_nanos(i) };
        if let Op::Later(nanos) = op {
            self.now += nanos;
            return Ok(());
        }
        // The model checks expiries at the same moments, because the moment of the check decides the order of
        // late ones.
        self.timers.expire(time);
        self.model.expire(self.now);
        match *op {
            Op::Create(value, interval, label) => self.create(set(value, interval), label)?,
            Op::Reset(ago, value, interval, label) => self.reset(ago, set(value, interval), label)?,
            Op::Reap => self.reap()?,
            Op::Cancel(ago) => {
                let handle = self.pick(ago);
                prop_assert_eq!(self.timers.cancel(time, handle).ok(), self.model.find(self.now, handle));
                self.model.remove(handle);
            }
            Op::Query(ago) => {
                let handle = self.pick(ago);
                prop_assert_eq!(self.timers.query(time, handle).ok(), self.model.find(self.now, handle));
            }
            Op::Invented(bits) => {
                prop_assert_eq!(self.timers.query(time, Handle(bits)), Err(IntervalError::NoSuchTimer));
                prop_assert_eq!(self.timers.cancel(time, Handle(bits)), Err(IntervalError::NoSuchTimer));
            }
            Op::Later(_) => {}
        }
        prop_assert_eq!((self.timers.len(), self.timers.queued()), (self.exist(), self.model.expired.len()));
        // One that is late already when it runs again counts from then.
        let next = self.model.running.iter().map(|t| t.3.max(self.now)).min();
        let said = self.timers.poll_at().map(Timestamp::as_nanos);
        prop_assert!(said.is_some() == next.is_some() && said <= next, "{:?} for {:?}", said, next);
        Ok(())
    }
}

fn agree(ops: &[Op]) -> Result<(), TestCaseError> {
    let timers = IntervalTimers::new(1, MOST_TIMERS);
    let mut pair = Pair { timers, model: Model::default(), handles: Vec::new(), now: 1_000 };
    ops.iter().try_for_each(|op| pair.step(op))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    //= CV-041 to CV-049, CV-053 (BSD timers, figures 6 and 7)
    #[test]
    fn they_do_what_the_figures_say(ops in ops()) {
        agree(&ops)?;
    }
}

//= CV-047 (BSD timers, figure 7)
#[test]
fn a_thousand_periods_with_late_reaps_do_not_drift() {
    let mut random = Random::stream(3, 0);
    let mut timers = IntervalTimers::new(1, 8);
    let start = at(12_345);
    let period = Duration::from_nanos(333_333);
    timers.create(start, Setting::every(period), ()).unwrap();
    let (mut now, mut periods, mut late) = (start, 0, 0);
    while periods < 1_000 {
        // Between at once and five periods late.
        now += Duration::from_nanos(random.below(5 * 333_333));
        while let Ok(expired) = timers.reap(now) {
            periods += 1;
            assert_eq!(expired.at, start + period * periods, "the phase of period {periods}");
            assert!(expired.at <= now && expired.runs);
            late += u32::from(now.saturating_duration_since(expired.at) > period);
        }
        assert!(timers.poll_at() > Some(now), "it runs, and what was missed has been reaped");
    }
    assert!(late > 300, "{late} reaps were later than a period");
}

//= CV-042, CV-045 (BSD timers, figure 6)
#[test]
fn a_timer_in_the_queue_can_be_reset_and_cancelled() {
    let mut timers = IntervalTimers::new(1, 8);
    let ids: Vec<_> = (1..=4).map(|i| timers.create(at(0), Setting::once(MS * i), i).unwrap()).collect();
    assert_eq!((timers.expire(at(4_000)), timers.queued()), (4, 4));
    assert_eq!(timers.cancel(at(4_000), ids[1]), Ok(Setting::default()));
    let former = timers.reset(at(4_000), ids[0], Setting::every(MS), 100).unwrap();
    assert_eq!((former, timers.queued(), timers.len()), (Setting::default(), 2, 3));
    let reaped = |timers: &mut IntervalTimers<u32>, now| timers.reap(now).map(|expired| expired.label);
    assert_eq!([reaped(&mut timers, at(4_000)), reaped(&mut timers, at(4_000))], [Ok(3), Ok(4)]);
    assert_eq!(reaped(&mut timers, at(4_999)), Err(IntervalError::NothingExpired));
    assert_eq!(reaped(&mut timers, at(5_000)), Ok(100));
    for gone in &ids[1..] {
        assert_eq!(timers.query(at(5_000), *gone), Err(IntervalError::NoSuchTimer));
    }
}

//= CV-052 (BSD timers, "Multiple user-level timers")
#[test]
fn handles_of_another_owner_name_nothing() {
    let mut sets: Vec<_> =
        (0..crate::effort::operations(20)).map(|owner| IntervalTimers::new(owner, 1_000)).collect();
    let all: Vec<Vec<_>> = sets
        .iter_mut()
        .map(|set| (0..50).map(|i| set.create(at(0), Setting::once(MS), i).unwrap()).collect())
        .collect();
    for (owner, set) in sets.iter_mut().enumerate() {
        for (other, handles) in all.iter().enumerate() {
            for &handle in handles {
                assert_eq!(set.query(at(0), handle).is_ok(), owner == other);
                if owner != other {
                    assert_eq!(set.cancel(at(0), handle), Err(IntervalError::NoSuchTimer));
                }
            }
        }
        assert_eq!(set.len(), 50);
    }
}

//= CV-055 (BSD timers, "Performance")
#[test]
fn a_timer_takes_at_most_128_bytes() {
    // A slot, its generation and its free-list entry, and the wheel's memory for a key and for a pending
    // timer.
    let slot = size_of::<Option<Timer<[i64; 2]>>>() + 4 + 4;
    assert!(slot + 32 + 5 <= 128, "{slot} bytes a slot");
    assert!(size_of::<IntervalTimers<u64>>() <= 8_192, "{} bytes a set", size_of::<IntervalTimers<u64>>());
}
