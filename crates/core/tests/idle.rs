//! Idle policies on a simulated machine whose wake-ups are late and whose looks take time: what is
//! busy-polled stays within the budget, over any stretch of time, and what is not due is never run.

mod machine;

use core::time::Duration;

use machine::Random;
use proptest::prelude::*;
use softtimers_core::{Config, Idle, Percent, PollBudget, Slack, SoftTimers, Timestamp, TriggerState, Wait};

/// One flow on an idle machine, driven as a loop drives it.
struct Player {
    idle: Idle,
    now: Timestamp,
    random: Random,
    /// Beginning and end of each stretch of polling.
    polls: Vec<(Timestamp, Timestamp)>,
    sleeps: u64,
    longest_look: Duration,
    /// The time that the host took in the middle of polls.
    stolen: Duration,
    latest: Duration,
}

impl Player {
    fn new(idle: Idle, seed: u64) -> Self {
        let (polls, random) = (Vec::new(), Random::new(seed));
        Player {
            idle,
            now: Timestamp::ZERO,
            random,
            polls,
            sleeps: 0,
            longest_look: Duration::ZERO,
            stolen: Duration::ZERO,
            latest: Duration::ZERO,
        }
    }

    /// Plays events that are `interval` apart, each a few microseconds of work; returns how many.
    fn play(&mut self, interval: Duration, until: Timestamp) -> u64 {
        let mut due = self.now + interval;
        let mut events = 0;
        while self.now < until {
            self.idle_until(due);
            self.latest = self.latest.max(self.now.saturating_duration_since(due));
            self.idle.busy(self.now);
            self.now += Duration::from_nanos(1_000 + self.random.below(3_000));
            due = (due + interval).max(self.now);
            events += 1;
        }
        events
    }

    fn idle_until(&mut self, due: Timestamp) {
        while self.now < due {
            let begin = self.now;
            match self.idle.wait(begin, Some(due)) {
                Wait::Poll => {
                    // Now and then the host takes the core away in the middle of a look.
                    let stolen = if self.random.below(200_000) == 0 { 2_000 } else { 0 };
                    let stolen = Duration::from_micros(stolen);
                    let look = Duration::from_nanos(200 + self.random.below(400)) + stolen;
                    self.stolen += stolen;
                    self.longest_look = self.longest_look.max(look);
                    self.now += look;
                    self.polls.push((begin, self.now));
                }
                Wait::Until(wake) => {
                    assert!(wake > begin && wake <= due, "asleep past the deadline");
                    self.now = wake + Duration::from_nanos(10_000 + self.random.below(20_000));
                    self.idle.woke(wake, self.now);
                    self.sleeps += 1;
                }
                Wait::Forever => panic!("an event is pending"),
            }
        }
    }

    /// The most that was busy-polled in any stretch of time, beyond `percent` of that stretch.
    fn most_beyond(&self, percent: u32) -> Duration {
        let share = i128::from(percent);
        let (mut level, mut least, mut most, mut before) = (0i128, 0i128, 0i128, Timestamp::ZERO);
        for &(begin, end) in &self.polls {
            level -= share * begin.saturating_duration_since(before).as_nanos() as i128;
            least = least.min(level);
            level += (100 - share) * end.saturating_duration_since(begin).as_nanos() as i128;
            most = most.max(level - least);
            before = end;
        }
        Duration::from_nanos((most / 100) as u64)
    }

    fn polled(&self) -> Duration {
        self.polls.iter().map(|(begin, end)| end.saturating_duration_since(*begin)).sum()
    }
}

const SPAN: Timestamp = Timestamp::from_micros(if cfg!(miri) { 4_000 } else { 400_000 });

#[test]
fn no_policy_polls_more_than_its_budget_in_any_stretch_of_time() {
    let period = Duration::from_millis(3);
    let (percents, intervals): (&[u32], &[u64]) =
        if cfg!(miri) { (&[10], &[40]) } else { (&[0, 1, 10, 50, 90], &[7, 40, 120, 1_300]) };
    for (seed, &percent) in percents.iter().enumerate() {
        let share = Percent::new(percent).unwrap();
        for policy in [Idle::park(), Idle::hybrid(), Idle::spin()] {
            for &micros in intervals {
                let mut player = Player::new(policy.within(PollBudget::new(share).over(period)), seed as u64);
                player.play(Duration::from_micros(micros), SPAN);
                let allowed = share.share_of(period) + player.longest_look;
                let beyond = player.most_beyond(percent);
                assert!(beyond <= allowed, "{policy:?} at {micros} µs: {beyond:?} beyond {percent}%");
                assert_eq!(player.idle.polling().time, player.polled(), "the account is exact");
                assert!(percent > 0 || player.polls.is_empty());
            }
        }
    }
}

/// The budget is not only kept but used: a spinner with something to wait for polls nearly its share.
#[test]
#[cfg_attr(miri, ignore = "a budget's long run takes minutes under Miri")]
fn a_spinner_uses_what_it_may() {
    for percent in [10, 50, 90] {
        let budget = PollBudget::new(Percent::new(percent).unwrap());
        let mut player = Player::new(Idle::spin().within(budget), 3);
        player.play(Duration::from_micros(500), SPAN);
        let share = player.polled().as_nanos() as f64 * 100.0 / SPAN.as_nanos() as f64;
        let most = f64::from(percent);
        assert!(share > 0.8 * most && share < 1.2 * most + 1.0, "{share}% of {percent}%");
        assert!(player.idle.polling().forced_sleeps > 0);
    }
}

/// Beyond the budget an event is late by a wake-up, and not lost; within it, by a look.
#[test]
fn beyond_the_budget_events_are_late_and_not_lost() {
    let interval = Duration::from_micros(200);
    let events = |idle: Idle| {
        let mut player = Player::new(idle, 1);
        (player.play(interval, SPAN), player)
    };
    let (all, spinner) = events(Idle::spin().within(PollBudget::UNLIMITED));
    assert_eq!((spinner.sleeps, spinner.idle.polling().forced_sleeps), (0, 0));
    assert!(spinner.latest <= spinner.longest_look);
    let (within, sleeper) = events(Idle::spin().within(PollBudget::new(Percent::new(5).unwrap())));
    // Some are not played while the host has the core.
    let nominal = SPAN.as_nanos() / interval.as_nanos() as u64;
    assert!(all * 100 > nominal * 90 && within * 100 > nominal * 90, "{all} and {within} of {nominal}");
    assert!(sleeper.sleeps > 0);
    assert!(sleeper.latest <= Duration::from_micros(31) + sleeper.longest_look, "{:?}", sleeper.latest);
}

/// The default polls for less than a wake-up takes before each event, and its budget never forces a
/// sleep, as long as a wake-up fits between two events.
#[test]
fn parking_polls_for_less_than_a_wake_up_takes() {
    for micros in [40, 120, 1_300] {
        let mut player = Player::new(Idle::park(), 9);
        let events = player.play(Duration::from_micros(micros), SPAN);
        assert_eq!(player.idle.polling().forced_sleeps, 0);
        assert!(player.polled() < Duration::from_micros(20) * events as u32 + player.stolen);
    }
}

/// A flow faster than wake-ups takes all of a CPU to hold. No policy takes more than half of it
/// unasked.
#[test]
#[cfg_attr(miri, ignore = "a budget's long run takes minutes under Miri")]
fn a_flow_faster_than_wake_ups_needs_a_budget_to_be_held() {
    let interval = Duration::from_micros(12);
    let nominal = SPAN.as_nanos() / interval.as_nanos() as u64;
    for policy in [Idle::park(), Idle::hybrid(), Idle::spin()] {
        assert_eq!(policy.budget(), PollBudget::HALF);
        let mut modest = Player::new(policy, 4);
        let some = modest.play(interval, SPAN);
        let allowed = PollBudget::HALF.share().share_of(PollBudget::HALF.period()) + modest.longest_look;
        assert!(modest.most_beyond(50) <= allowed, "{policy:?}");
        let mut held = Player::new(policy.within(PollBudget::UNLIMITED), 4);
        let all = held.play(interval, SPAN);
        assert_eq!(held.idle.polling().forced_sleeps, 0);
        assert!(all * 100 > nominal * 80, "{policy:?}: {all} of {nominal}");
        // Parking forgets a lead that no sleep confirms, and so sleeps now and then by itself.
        let forced = modest.idle.polling().forced_sleeps;
        assert!(cfg!(miri) || policy == Idle::park() || forced > 0, "{policy:?}: {some} of {all}");
    }
}

/// Sleeps to the timers' deadlines on a machine whose wake-ups take `late`, from wake-ups learnt; returns when each event ran,
/// and how often it slept.
fn sleeping(late: Duration, events: &[(u64, Slack)]) -> (Vec<(u64, u64)>, u32) {
    let (mut idle, mut timers) = (Idle::park(), SoftTimers::new(Config::default()));
    let (start, mut now) = (Timestamp::from_micros(1_000), Timestamp::from_micros(1_000));
    (0..500).for_each(|_| idle.woke(start, start + late));
    for &(due, slack) in events {
        timers.schedule_at(now, start + Duration::from_micros(due), slack, due);
    }
    let (mut ran, mut sleeps) = (Vec::new(), 0);
    while let Some(deadline) = timers.poll_at() {
        let slack = timers.slack_left(idle.lead());
        match idle.wait_within(now, Some(deadline), slack) {
            Wait::Until(wake) => {
                now = wake + late;
                idle.woke(wake, now);
                sleeps += 1;
            }
            _ => now += Duration::from_nanos(500),
        }
        let turn = timers.trigger(TriggerState::Backup, now);
        while let Some(fired) = timers.next(&turn) {
            ran.push((fired.event, fired.lateness.as_nanos() as u64 / 1_000));
        }
    }
    (ran, sleeps)
}

/// Sixteen events 10 µs apart with 20 µs of slack: with the lead taken off it, a sleep would end for each second one.
#[test]
fn a_sleep_serves_what_falls_into_the_slack_and_the_wake_up() {
    let late = Duration::from_micros(20);
    let events: Vec<_> = (0..16).map(|event| (100 + 10 * event, Slack::micros(20))).collect();
    let (ran, sleeps) = sleeping(late, &events);
    assert_eq!((ran.len(), sleeps), (16, 4));
    assert!(ran.iter().all(|&(_, late)| late <= 41), "{ran:?}");
}

/// An event without slack is met as if it were alone, just behind one with slack as well.
#[test]
fn an_exact_deadline_just_behind_one_with_slack_is_met_as_before() {
    let late = Duration::from_micros(20);
    for behind in 95..150 {
        let exact = (behind, Slack::EXACT);
        let (alone, _) = sleeping(late, &[exact]);
        let (both, _) = sleeping(late, &[(100, Slack::micros(20)), exact]);
        let found = both.iter().find(|(event, _)| *event == behind);
        let (with, without) = (found.map(|&(_, late)| late), alone[0].1);
        assert!(with <= Some(without), "{behind}: {with:?} instead of {without}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// The slack left ends where the slack of some event does, at most as long again, with and without a wheel.
    #[test]
    fn slack_is_left_until_that_of_any_event_ends(
        most in 0u64..60,
        events in prop::collection::vec((100u64..400, 0u64..80), 1..40),
        few in prop_oneof![Just(1_024usize), Just(0)],
    ) {
        let mut timers = SoftTimers::new(Config::default().few(few));
        for &(due, slack) in &events {
            timers.schedule_at(Timestamp::ZERO, Timestamp::from_micros(due), Slack::micros(slack), ());
        }
        let earliest = events.iter().map(|(due, slack)| due + slack).min().unwrap();
        let last = events.iter().map(|(due, slack)| due + slack + most.min(*slack)).min().unwrap();
        prop_assert_eq!(timers.poll_at(), Some(Timestamp::from_micros(earliest)));
        prop_assert_eq!(timers.slack_left(Duration::from_micros(most)), Duration::from_micros(last - earliest));
    }
}
