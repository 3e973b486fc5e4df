//! The order of turns, held against rings into which packets fall at the worst of times.

use std::time::Duration;

use proptest::prelude::*;
use softtimers_core::{Random, Timestamp, Wait};
use softtimers_poll::{
    Action, Aggregation, AggregationConfig, BusyWait, ConstantPeriod, DelayBound, DelayBoundConfig, GateId,
    Hip, HipConfig, Input, Interrupts, Look, Next, Policy, Preset, Quota, Rounds, SourceConfig, SourceId,
    SourceStats, SpinThenBlock, Watchdog,
};

/// A ring with a wake-up that comes once, for a packet that arrives while it is enabled.
#[derive(Clone, Default, Debug)]
struct Ring {
    waiting: u32,
    armed: bool,
    wakes: bool,
    arrived: u64,
    taken: u64,
}

impl Ring {
    fn arrive(&mut self, packets: u32) {
        self.waiting += packets;
        self.arrived += u64::from(packets);
        if packets > 0 && std::mem::take(&mut self.armed) {
            self.wakes = true;
        }
    }
}

const POLICIES: u64 = 8;

fn policy(kind: u64) -> Box<dyn Policy> {
    match kind % POLICIES {
        0 => Box::new(Interrupts),
        1 => Box::new(BusyWait),
        2 => Box::new(ConstantPeriod::new(Duration::from_micros(300))),
        3 => Box::new(SpinThenBlock::new(Duration::from_micros(50))),
        4 => Box::new(Watchdog::default()),
        5 => Box::new(Hip::new(HipConfig::default())),
        6 => Box::new(Aggregation::new(AggregationConfig::default())),
        _ => Box::new(DelayBound::new(DelayBoundConfig::default())),
    }
}

/// Rings, their rounds, and a chance that something happens between any two steps.
struct Machine {
    rounds: Rounds<Box<dyn Policy>>,
    rings: Vec<Ring>,
    ids: Vec<SourceId>,
    gate: GateId,
    quota: u32,
    now: Timestamp,
    random: Random,
    /// Packets still to come.
    coming: u32,
    /// Sources come and go.
    changes: bool,
    gone: Vec<SourceId>,
}

impl Machine {
    fn new(kinds: &[u64], quota: u32, coming: u32, seed: u64) -> Self {
        let mut rounds = Rounds::new();
        let gate = rounds.add_gate();
        let mut ids = Vec::new();
        for &kind in kinds {
            let id = rounds.add(SourceConfig::new(policy(kind)).with_quota(Quota::new(quota, quota + 1)));
            rounds.attach(gate, id);
            ids.push(id);
        }
        let rings = vec![Ring::default(); kinds.len()];
        let (now, random) = (Timestamp::from_micros(1_000_000), Random::stream(seed, 0));
        Machine { rounds, rings, ids, gate, quota, now, random, coming, changes: false, gone: Vec::new() }
    }

    /// The ring of a source that is there.
    fn ring(&mut self, source: SourceId) -> &mut Ring {
        let at =
            self.ids.iter().position(|&id| id == source).expect("an action for a source that was removed");
        &mut self.rings[at]
    }

    /// Between any two steps a source may be removed, with what is in its ring, and another one added.
    fn change(&mut self) {
        if self.ids.len() > 1 && self.random.below(30) == 0 {
            let at = self.random.below(self.ids.len() as u64) as usize;
            let id = self.ids.swap_remove(at);
            self.rings.swap_remove(at);
            assert!(self.rounds.remove(id).is_some());
            self.gone.push(id);
        }
        if self.ids.len() < 6 && self.random.below(30) == 0 {
            let kind = self.random.below(POLICIES);
            let quota = Quota::new(self.quota, self.quota + 1);
            let id = self.rounds.add(SourceConfig::new(policy(kind)).with_quota(quota));
            assert!(!self.gone.contains(&id), "{id:?} names something again");
            assert!(self.rounds.attach(self.gate, id));
            self.ids.push(id);
            self.rings.push(Ring::default());
        }
        self.use_what_is_gone();
    }

    /// Calls about a source that is gone do nothing to the others.
    fn use_what_is_gone(&mut self) {
        let Some(last) = self.gone.len().checked_sub(1) else { return };
        let id = self.gone[self.random.below(last as u64 + 1) as usize];
        let seen = |rounds: &Rounds<_>| {
            let of = |&id: &SourceId| (rounds.stats(id), rounds.is_armed(id), rounds.is_open(id));
            (self.ids.iter().map(of).collect::<Vec<_>>(), rounds.poll_at(self.now))
        };
        let before = seen(&self.rounds);
        let rounds = &mut self.rounds;
        rounds.woken(id, self.now);
        rounds.armed(id, self.now, false);
        rounds.arrived(id, self.now);
        rounds.received(id, self.now, 3, true);
        rounds.transmit_wanted(id);
        rounds.transmitted(id, Some(self.now));
        rounds.set_quota(id, Quota::NONE);
        assert!(!rounds.attach(self.gate, id) && rounds.remove(id).is_none());
        assert!(!rounds.contains(id) && !rounds.is_armed(id) && !rounds.is_open(id));
        assert_eq!(seen(&self.rounds), before, "{id:?} is gone");
    }

    /// Time passes, and in it packets may arrive.
    fn meanwhile(&mut self) {
        self.now += Duration::from_nanos(self.random.below(3_000));
        if self.coming > 0 && self.random.below(3) == 0 {
            let burst = (1 + self.random.below(6) as u32).min(self.coming);
            let ring = self.random.below(self.rings.len() as u64) as usize;
            self.coming -= burst;
            self.rings[ring].arrive(burst);
        }
    }

    /// One action; what the caller would wait for.
    fn step(&mut self) -> Option<Wait> {
        self.meanwhile();
        if self.changes {
            self.change();
        }
        match self.rounds.action(self.now) {
            Action::Receive { source, quota } => {
                assert_eq!(quota, self.quota);
                let ring = self.ring(source);
                let taken = ring.waiting.min(quota);
                ring.waiting -= taken;
                ring.taken += u64::from(taken);
                let more = ring.waiting > 0;
                // What arrives from here on is not in `more`.
                self.meanwhile();
                self.rounds.received(source, self.now, taken, more);
                if taken > 0 {
                    self.rounds.transmit_wanted(source);
                }
            }
            Action::Transmit { source, quota } => {
                assert_eq!(quota, self.quota + 1);
                self.rounds.transmitted(source, None);
            }
            Action::Arm { source } => {
                assert!(!self.rounds.is_armed(source));
                self.meanwhile();
                self.ring(source).armed = true;
                self.meanwhile();
                let ring = self.ring(source);
                let empty = ring.waiting == 0;
                ring.armed &= empty;
                self.rounds.armed(source, self.now, empty);
            }
            Action::Disarm { source } => self.ring(source).armed = false,
            Action::Rest(wait) => return Some(wait),
        }
        self.check();
        None
    }

    /// A wake-up is enabled exactly where the rounds think so, but for one that is on its way.
    fn check(&self) {
        for (ring, &id) in self.rings.iter().zip(&self.ids) {
            assert_eq!(ring.armed || ring.wakes, self.rounds.is_armed(id) || ring.wakes, "{ring:?}");
            assert!(!ring.armed || self.rounds.is_open(id), "armed although shut");
        }
    }

    fn wake(&mut self) -> bool {
        let mut any = false;
        for (ring, &id) in self.rings.iter_mut().zip(&self.ids) {
            if std::mem::take(&mut ring.wakes) {
                self.rounds.woken(id, self.now);
                any = true;
            }
        }
        any
    }

    /// Runs until nothing more can come; fails if a packet is left that nobody would look for.
    fn run(&mut self) {
        for _ in 0..200_000 {
            let Some(wait) = self.step() else { continue };
            if self.random.below(40) == 0 {
                let until = self.now + Duration::from_micros(self.random.below(200));
                self.rounds.set(self.gate, Input::Shut(until));
            }
            if self.wake() {
                continue;
            }
            self.rounds.idle(self.now);
            match wait {
                Wait::Poll => {}
                Wait::Until(time) => {
                    // Polls that find nothing may go on for ever: enough when all has come and is taken.
                    if self.coming == 0 && self.rings.iter().all(|ring| ring.waiting == 0) {
                        return;
                    }
                    self.now = self.now.max(time);
                }
                Wait::Forever => {
                    let stranded = self.rings.iter().any(|ring| ring.waiting > 0 && !ring.wakes);
                    assert!(!stranded, "{:?}", self.rings);
                    if self.coming == 0 {
                        return;
                    }
                }
            }
            if self.coming == 0 && self.rings.iter().all(|ring| ring.waiting == 0) {
                return;
            }
        }
        panic!("packets were never taken: {:?}", self.rings);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    /// With any policies and arrivals, each packet is taken, and wake-ups are enabled exactly while nobody polls.
    #[test]
    fn no_packet_is_stranded(
        kinds in prop::collection::vec(0..POLICIES, 1..5),
        quota in 1u32..9,
        coming in 0u32..300,
        seed: u64,
    ) {
        let mut machine = Machine::new(&kinds, quota, coming, seed);
        machine.run();
        for ring in &machine.rings {
            prop_assert_eq!(ring.arrived, ring.taken);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    /// The same while sources come and go, between any two steps and also in the middle of a round: no name reaches
    /// another source, and those that stay get all their packets.
    #[test]
    fn sources_come_and_go(
        kinds in prop::collection::vec(0..POLICIES, 1..5),
        quota in 1u32..9,
        coming in 0u32..300,
        seed: u64,
    ) {
        let mut machine = Machine::new(&kinds, quota, coming, seed);
        machine.changes = true;
        machine.run();
        for ring in &machine.rings {
            prop_assert_eq!(ring.arrived, ring.taken);
        }
        let mut there: Vec<_> = machine.rounds.sources().collect();
        there.sort();
        machine.ids.sort();
        prop_assert_eq!(there, machine.ids);
    }
}

/// A gate that is removed leaves open what it shut, and its name opens and shuts nothing any more.
/// Every counter of a source, over a life in which each has a number of its own.
#[test]
fn a_source_counts_its_turns_looks_wake_ups_and_the_time_for_which_it_was_shut() {
    let at = Timestamp::from_micros;
    let mut rounds = Rounds::new();
    let source = rounds.add(SourceConfig::new(Interrupts).with_quota(Quota::new(4, 4)));
    // Two looks: one takes two turns, the other finds nothing.
    assert_eq!(rounds.action(at(0)), Action::Arm { source });
    assert!(rounds.contains(source) && !rounds.any_armed());
    rounds.armed(source, at(0), false);
    assert_eq!(rounds.action(at(0)), Action::Rest(Wait::Poll));
    assert_eq!(rounds.action(at(0)), Action::Receive { source, quota: 4 });
    rounds.received(source, at(1), 4, true);
    assert!(rounds.any_unfinished());
    assert_eq!(rounds.action(at(1)), Action::Rest(Wait::Poll));
    assert_eq!(rounds.action(at(1)), Action::Receive { source, quota: 4 });
    rounds.received(source, at(2), 1, false);
    assert_eq!(rounds.action(at(2)), Action::Arm { source });
    rounds.armed(source, at(2), true);
    assert!(rounds.is_armed(source) && rounds.any_armed() && !rounds.any_unfinished());
    assert_eq!(rounds.action(at(2)), Action::Rest(Wait::Forever));
    for wake in [10, 20] {
        rounds.woken(source, at(wake));
        rounds.woken(source, at(wake));
        assert_eq!(rounds.action(at(wake)), Action::Receive { source, quota: 4 });
        rounds.received(source, at(wake), 0, false);
        assert_eq!(rounds.action(at(wake)), Action::Arm { source });
        rounds.armed(source, at(wake), true);
        assert_eq!(rounds.action(at(wake)), Action::Rest(Wait::Forever));
    }
    // Shut twice, for 30 µs together.
    let gate = rounds.add_gate();
    assert!(rounds.attach(gate, source));
    for (from, until) in [(30, 40), (50, 70)] {
        rounds.set(gate, Input::Shut(at(until)));
        assert_eq!(rounds.action(at(from)), Action::Disarm { source });
        assert_eq!(rounds.action(at(from)), Action::Rest(Wait::Until(at(until))));
        assert_eq!(rounds.action(at(until)), Action::Receive { source, quota: 4 });
        rounds.received(source, at(until), 0, false);
        assert_eq!(rounds.action(at(until)), Action::Arm { source });
        rounds.armed(source, at(until), true);
        assert_eq!(rounds.action(at(until)), Action::Rest(Wait::Forever));
    }
    let shut_time = Duration::from_micros(30);
    let expected = SourceStats {
        packets: 5,
        turns: 6,
        looks: 5,
        empty_looks: 4,
        armed: 6,
        raced: 1,
        woken: 2,
        shut: 2,
        shut_time,
    };
    assert_eq!(rounds.stats(source), expected);
}

#[test]
fn a_quota_that_is_set_and_a_turn_of_transmissions_that_is_over_hold_from_then_on() {
    let at = Timestamp::from_micros;
    let mut rounds = Rounds::new();
    let source = rounds.add(SourceConfig::new(BusyWait).with_quota(Quota::new(4, 5)));
    rounds.set_quota(source, Quota::new(6, 7));
    rounds.transmit_wanted(source);
    assert_eq!(rounds.action(at(0)), Action::Receive { source, quota: 6 });
    rounds.received(source, at(0), 0, false);
    assert_eq!(rounds.action(at(0)), Action::Transmit { source, quota: 7 });
    rounds.transmitted(source, Some(at(10)));
    assert_eq!(rounds.action(at(0)), Action::Rest(Wait::Poll));
    assert_eq!(rounds.action(at(9)), Action::Receive { source, quota: 6 });
    rounds.received(source, at(9), 0, false);
    assert_eq!(rounds.action(at(9)), Action::Rest(Wait::Poll));
    assert_eq!(rounds.action(at(10)), Action::Receive { source, quota: 6 });
    rounds.received(source, at(10), 0, false);
    assert_eq!(rounds.action(at(10)), Action::Transmit { source, quota: 7 });
    rounds.transmitted(source, None);
    assert_eq!(rounds.action(at(10)), Action::Rest(Wait::Poll));
    assert_eq!(rounds.action(at(11)), Action::Receive { source, quota: 6 });
    rounds.received(source, at(11), 0, false);
    assert_eq!(rounds.action(at(11)), Action::Rest(Wait::Poll));
}

#[test]
fn of_two_gates_the_one_that_stays_still_shuts() {
    let at = Timestamp::from_micros;
    let mut rounds = Rounds::new();
    let source = rounds.add(SourceConfig::new(BusyWait));
    let (first, second) = (rounds.add_gate(), rounds.add_gate());
    assert!(rounds.attach(first, source) && rounds.attach(second, source));
    rounds.set(first, Input::Shut(at(100)));
    rounds.set(second, Input::Shut(at(50)));
    assert_eq!(rounds.action(at(0)), Action::Rest(Wait::Until(at(100))), "until the later one opens");
    assert!(rounds.remove_gate(first) && !rounds.remove_gate(first));
    assert_eq!(rounds.action(at(0)), Action::Rest(Wait::Until(at(50))));
    assert!(!rounds.is_open(source));
    assert!(matches!(rounds.action(at(50)), Action::Receive { .. }));
    assert!(rounds.is_open(source));
}

#[test]
fn a_source_that_was_shut_is_polled_as_soon_as_its_gate_opens() {
    let at = Timestamp::from_micros;
    let mut rounds = Rounds::new();
    let source = rounds.add(SourceConfig::new(ConstantPeriod::new(Duration::from_micros(300))));
    let gate = rounds.add_gate();
    assert!(rounds.attach(gate, source));
    while let Action::Receive { source, .. } = rounds.action(at(0)) {
        rounds.received(source, at(0), 0, false);
    }
    rounds.set(gate, Input::Shut(at(1_000)));
    assert_eq!(rounds.action(at(1)), Action::Rest(Wait::Until(at(1_000))));
    rounds.set(gate, Input::Open);
    assert_eq!(rounds.poll_at(at(10)), Some(at(10)), "before its period is over");
    assert!(matches!(rounds.action(at(10)), Action::Receive { .. }));
}

/// A policy that counts how often it was told that the CPU is about to be idle.
struct CountsIdle {
    next: Next,
    idle: u32,
}

impl Policy for CountsIdle {
    fn looked(&mut self, _: &Look) -> Next {
        self.next
    }
    fn idle(&mut self, _: Timestamp) -> Next {
        self.idle += 1;
        self.next
    }
    fn next(&self) -> Next {
        self.next
    }
}

#[test]
fn a_policy_hears_of_idle_time_while_it_waits_for_its_poll_or_its_wake_up() {
    let at = Timestamp::from_micros;
    let mut rounds = Rounds::new();
    let polled = rounds.add(SourceConfig::new(CountsIdle { next: Next::At(at(10)), idle: 0 }));
    let woken = rounds.add(SourceConfig::new(CountsIdle { next: Next::Armed, idle: 0 }));
    for (now, heard) in [(9, 1), (10, 1), (11, 1)] {
        rounds.idle(at(now));
        assert_eq!(rounds.policy(polled).idle, heard, "at {now} µs: a poll that is due does not wait");
        assert_eq!(rounds.policy(woken).idle, 0, "its wake-up is still to be enabled");
    }
    rounds.armed(woken, at(12), true);
    rounds.idle(at(12));
    assert_eq!((rounds.policy(polled).idle, rounds.policy(woken).idle), (1, 1));
}

#[test]
fn an_id_is_a_number_in_order_and_a_token_beyond_32_bits() {
    let mut rounds = Rounds::new();
    let ids = [(); 3].map(|()| rounds.add(SourceConfig::new(Interrupts)));
    assert_eq!(ids.map(SourceId::index), [0, 1, 2]);
    assert_eq!(ids.map(SourceId::to_bits), [1 << 32, (1 << 32) + 1, (1 << 32) + 2]);
    assert_eq!(ids.map(|id| SourceId::from_bits(id.to_bits())), ids.map(Some));
    assert_eq!([0, u64::from(u32::MAX)].map(SourceId::from_bits), [None, None]);
}

#[test]
fn quotas_keep_their_directions_apart() {
    let quota = Quota::new(8, 3).with_first(2);
    assert_eq!((quota.receive(), quota.transmit()), (8, 3));
    assert_eq!([0, 1, 2, 5, 8, 9].map(|found| quota.receive_after(found)), [2, 2, 2, 5, 8, 8]);
    assert_eq!(Quota::new(8, 3).with_first(9), Quota::new(8, 3));
}

#[test]
fn a_gate_that_is_removed_shuts_nothing() {
    let at = Timestamp::from_micros;
    let mut rounds = Rounds::new();
    let source = rounds.add(SourceConfig::new(Interrupts));
    let [old, other] = [(); 2].map(|()| rounds.add_gate());
    assert!(rounds.attach(old, source) && rounds.attach(other, source));
    rounds.set(old, Input::Shut(Timestamp::MAX));
    assert_eq!(rounds.action(at(0)), Action::Rest(Wait::Until(Timestamp::MAX)));
    assert!(rounds.remove_gate(old) && !rounds.remove_gate(old));
    assert_eq!(rounds.action(at(1)), Action::Receive { source, quota: Quota::FIRST });
    rounds.received(source, at(1), 0, false);

    // It has the place of the first one, and not its name; and its source has to be attached.
    let new = rounds.add_gate();
    rounds.set(old, Input::Shut(Timestamp::MAX));
    rounds.set(new, Input::Shut(Timestamp::MAX));
    assert!(!rounds.attach(old, source));
    assert_eq!(rounds.action(at(2)), Action::Arm { source });
    rounds.armed(source, at(2), true);
    rounds.set(other, Input::Shut(at(9)));
    assert_eq!(rounds.action(at(3)), Action::Rest(Wait::Poll));
    assert_eq!(rounds.action(at(3)), Action::Disarm { source });
}

/// A round was broken off at a source, as by its device's error; who gets its place begins at the beginning.
#[test]
fn a_source_in_the_place_of_one_removed_meanwhile_has_its_gates_asked() {
    let at = Timestamp::from_micros;
    let mut rounds = Rounds::new();
    let old = rounds.add(SourceConfig::new(Interrupts));
    assert_eq!(rounds.action(at(0)), Action::Arm { source: old });
    rounds.armed(old, at(0), false);
    assert_eq!(rounds.action(at(1)), Action::Rest(Wait::Poll));
    assert_eq!(rounds.action(at(1)), Action::Receive { source: old, quota: Quota::FIRST });
    rounds.remove(old);
    let (new, gate) = (rounds.add(SourceConfig::new(Interrupts)), rounds.add_gate());
    assert_eq!(new.index(), old.index());
    rounds.attach(gate, new);
    rounds.set(gate, Input::Shut(at(100)));
    assert_eq!(rounds.action(at(1)), Action::Rest(Wait::Until(at(100))));
}

/// The polling watchdog: at every round, its wake-up off; by a timer after its delay; and when idle by a wake-up.
#[test]
fn a_watched_source_is_polled_at_rounds_and_after_its_delay() {
    let at = Timestamp::from_micros;
    let mut rounds = Rounds::new();
    let source = rounds.add(SourceConfig::new(Watchdog::default()));
    let receive = Action::Receive { source, quota: Quota::FIRST };
    for now in [10, 13, 40, 80] {
        assert_eq!(rounds.action(at(now)), receive);
        rounds.received(source, at(now), 0, false);
        assert_eq!(rounds.action(at(now)), Action::Rest(Wait::Until(at(now + 50))), "no round for 50 µs");
        assert!(!rounds.is_armed(source));
    }
    rounds.idle(at(90));
    assert_eq!(rounds.action(at(90)), Action::Arm { source });
    rounds.armed(source, at(90), true);
    assert_eq!(rounds.action(at(90)), Action::Rest(Wait::Forever));
    rounds.woken(source, at(300));
    assert_eq!(rounds.action(at(300)), receive);
    rounds.received(source, at(300), 1, false);
    assert_eq!(rounds.action(at(300)), Action::Rest(Wait::Until(at(350))));
}

/// Livelock §5.2: equal sources under overload share a thread equally, each a quota at a time.
#[test]
fn four_flooded_sources_share_equally() {
    let mut machine = Machine::new(&[0, 2, 5, 7], 8, 0, 1);
    for ring in &mut machine.rings {
        ring.arrive(1_000_000);
    }
    for _ in 0..10_000 {
        machine.step();
    }
    let taken: Vec<u64> = machine.rings.iter().map(|ring| ring.taken).collect();
    let (sum, squares) = taken.iter().fold((0, 0), |(sum, squares), &n| (sum + n, squares + n * n));
    assert!(sum > 10_000);
    // Jain's index, (Σn)² / (k · Σn²).
    assert!(sum * sum * 100 >= 99 * 4 * squares, "{taken:?}");
}

/// A turn forwards at its end, so the first turn of a burst is a short one (livelock §4.3).
#[test]
fn turns_of_a_burst_grow_from_a_short_one_and_those_of_an_overload_are_full() {
    let now = Timestamp::from_micros(1);
    let mut rounds = Rounds::new();
    let id = rounds.add(SourceConfig::new(Interrupts).with_quota(Quota::new(64, 64).with_first(4)));
    assert_eq!(rounds.action(now), Action::Arm { source: id });
    rounds.armed(id, now, false);
    for burst in [100u32, 3, 500] {
        let (mut left, mut turns) = (burst, Vec::new());
        while left > 0 {
            if let Action::Receive { quota, .. } = rounds.action(now) {
                let taken = quota.min(left);
                left -= taken;
                turns.push(taken);
                rounds.received(id, now, taken, left > 0);
            }
        }
        let wanted: &[u32] = match burst {
            100 => &[4, 4, 8, 16, 32, 36],
            3 => &[3],
            _ => &[4, 4, 8, 16, 32, 64, 64, 64, 64, 64, 64, 52],
        };
        assert_eq!(turns, wanted, "of {burst}");
        assert_eq!(rounds.action(now), Action::Arm { source: id });
        rounds.armed(id, now, false);
    }
}

/// Transmissions have a turn in each round, however much there is to receive.
#[test]
fn transmit_is_not_starved_by_receive() {
    let mut machine = Machine::new(&[0, 1], 8, 0, 1);
    for ring in &mut machine.rings {
        ring.arrive(1_000_000);
    }
    let (mut received, mut transmitted, mut armed) = (0, 0, 0);
    for _ in 0..1_000 {
        match machine.rounds.action(machine.now) {
            Action::Receive { source, quota } => {
                received += 1;
                machine.rounds.received(source, machine.now, quota, true);
                machine.rounds.transmit_wanted(source);
            }
            Action::Transmit { source, .. } => {
                transmitted += 1;
                machine.rounds.transmitted(source, Some(machine.now));
            }
            Action::Arm { source } => {
                armed += 1;
                machine.rounds.armed(source, machine.now, false);
            }
            Action::Rest(wait) => assert_eq!(wait, Wait::Poll),
            Action::Disarm { .. } => panic!("nothing is shut"),
        }
    }
    assert!(received > 300 && received - transmitted <= 1, "{received} {transmitted}");
    // The source with interrupts, to begin with: what was transmitted is taken back by polls, without another wake-up.
    assert_eq!(armed, 1);
}

/// A gate stops the sources that are attached to it, their wake-ups included, and no other.
#[test]
fn a_gate_shuts_its_own_sources_only() {
    let at = Timestamp::from_micros;
    let mut rounds = Rounds::new();
    let (a, b) = (rounds.add(SourceConfig::new(Interrupts)), rounds.add(SourceConfig::new(Interrupts)));
    let gate = rounds.add_gate();
    rounds.attach(gate, a);
    for source in [a, b] {
        assert_eq!(rounds.action(at(0)), Action::Arm { source });
        rounds.armed(source, at(0), true);
    }
    assert_eq!(rounds.action(at(0)), Action::Rest(Wait::Forever));

    rounds.set(gate, Input::Shut(at(100)));
    assert_eq!(rounds.action(at(1)), Action::Disarm { source: a });
    assert_eq!(rounds.action(at(1)), Action::Rest(Wait::Until(at(100))));
    rounds.woken(a, at(2)); // was on its way
    rounds.woken(b, at(2));
    assert_eq!(rounds.action(at(2)), Action::Receive { source: b, quota: Quota::FIRST });
    rounds.received(b, at(3), 1, false);
    assert_eq!(rounds.action(at(3)), Action::Arm { source: b });
    rounds.armed(b, at(3), true);
    assert_eq!(rounds.action(at(3)), Action::Rest(Wait::Until(at(100))));

    // Its time has come: looked at first, since packets may have arrived.
    assert_eq!(rounds.action(at(100)), Action::Receive { source: a, quota: Quota::FIRST });
    rounds.received(a, at(101), 0, false);
    assert_eq!(rounds.action(at(101)), Action::Arm { source: a });
    let stats = rounds.stats(a);
    assert_eq!((stats.shut, stats.shut_time, stats.empty_looks), (1, Duration::from_micros(99), 1));
}

/// A burst of any length ends with one look at an empty ring, after arming; if the quota divides its length, the last turn
/// used its quota up, and one more finds nothing (livelock §8.2).
#[test]
fn a_burst_costs_one_look_at_an_empty_ring() {
    const QUOTA: u32 = 8;
    let mut rounds = Rounds::new();
    let source = rounds.add(SourceConfig::new(Interrupts).with_quota(Quota::new(QUOTA, QUOTA)));
    let mut now = Timestamp::ZERO;
    assert_eq!(rounds.action(now), Action::Arm { source });
    rounds.armed(source, now, true);
    for burst in 1..=64 {
        now += Duration::from_millis(1);
        rounds.woken(source, now);
        let (mut waiting, mut found_nothing, mut armed) = (burst, 0, 0);
        loop {
            now += Duration::from_micros(1);
            match rounds.action(now) {
                Action::Receive { quota, .. } => {
                    let done = waiting.min(quota);
                    waiting -= done;
                    found_nothing += u32::from(done == 0);
                    rounds.received(source, now, done, done == quota);
                }
                Action::Arm { .. } => {
                    armed += 1;
                    rounds.armed(source, now, waiting == 0);
                }
                Action::Rest(Wait::Poll) => {}
                other => break assert_eq!(other, Action::Rest(Wait::Forever)),
            }
        }
        assert_eq!((waiting, armed, found_nothing), (0, 1, u32::from(burst % QUOTA == 0)), "{burst}");
    }
}

/// Records the arrivals that a policy gets.
#[derive(Default)]
struct Recorder(Vec<u64>);

impl Policy for Recorder {
    fn arrived(&mut self, at: Timestamp) {
        self.0.push(at.as_nanos() / 1_000);
    }
    fn looked(&mut self, _: &Look) -> Next {
        Next::Now
    }
    fn next(&self) -> Next {
        Next::Now
    }
}

/// Arrivals that a device does not tell count as having come evenly since the last look (HIP §7 leaves this open).
#[test]
fn arrivals_are_known_or_spread_over_the_time_since_the_last_look() {
    let at = Timestamp::from_micros;
    let mut rounds = Rounds::new();
    let source = rounds.add(SourceConfig::new(Recorder::default()));
    let mut look = |now, packets, stamps: &[u64]| {
        while rounds.action(at(now)) != (Action::Receive { source, quota: Quota::FIRST }) {}
        stamps.iter().for_each(|&stamp| rounds.arrived(source, at(stamp)));
        rounds.received(source, at(now), packets, false);
        rounds.policy(source).0.clone()
    };
    assert_eq!(look(100, 2, &[70, 80]), [70, 80]);
    assert_eq!(look(200, 4, &[])[2..], [125, 150, 175, 200]);
    assert_eq!(look(300, 1, &[])[6..], [300]);
}

/// HIP on arrival times that are known, and on poll times instead: what that moves is reported, and the polls
/// do not come more seldom than half as often.
#[test]
fn hip_works_with_known_and_with_approximate_arrivals() {
    let polls = [true, false].map(|known| {
        let mut rounds = Rounds::new();
        let source = rounds.add(SourceConfig::new(Hip::new(HipConfig::default())));
        let mut random = Random::stream(9, 0);
        let (mut now, mut next, mut armed) = (0u64, 1_000_000u64, false);
        while now < 1_000_000_000 {
            match rounds.action(Timestamp::from_nanos(now)) {
                Action::Receive { source, .. } => {
                    let mut found = 0;
                    while next <= now {
                        if known {
                            rounds.arrived(source, Timestamp::from_nanos(next));
                        }
                        next += 100_000 + random.below(100_000);
                        found += 1;
                    }
                    rounds.received(source, Timestamp::from_nanos(now), found, false);
                }
                Action::Arm { source } => {
                    armed = next > now;
                    rounds.armed(source, Timestamp::from_nanos(now), armed);
                }
                Action::Rest(Wait::Until(time)) if !armed => now = time.as_nanos(),
                Action::Rest(_) => {
                    now = next.max(now);
                    armed = false;
                    rounds.woken(source, Timestamp::from_nanos(now));
                }
                other => panic!("{other:?}"),
            }
        }
        let stats = rounds.policy(source).stats();
        assert!(stats.polls > 10 * stats.interrupts, "{stats:?}");
        stats.polls
    });
    println!("polls in a second: {} with known arrivals, {} with poll times", polls[0], polls[1]);
    assert!(polls[1] * 2 > polls[0] && polls[0] * 2 > polls[1], "{polls:?}");
}

#[test]
fn a_policy_in_a_box_is_told_what_arrives() {
    let mut plain = Hip::new(HipConfig::preset(Preset::Paper));
    let mut boxed: Box<dyn Policy> = Box::new(plain);
    for packet in 1..=20 {
        let at = Timestamp::from_micros(2_000 * packet);
        let look = Look { began: at, ended: at, found: 1 };
        plain.arrived(at);
        boxed.arrived(at);
        assert_eq!(plain.looked(&look), boxed.looked(&look));
    }
    assert!(matches!(boxed.next(), Next::At(_)), "polled as a steady stream");
}
