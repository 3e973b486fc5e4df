//! Each rule's decisions, over all pollers and all changes of the file: [`Revision`] and [`Tally`].
//!
//! Each poller keeps its own counts, and takes up changed rules when it gets to it; meanwhile the others use the old
//! ones. All their counts must add up at any moment nevertheless, and the count of a rule that stays must never drop: a
//! scraper takes that for a restart. So a count is a number at an index of one revision, and a revision knows the one
//! that follows it and where each of its rules stands there. Counts by an old revision are carried forward, however
//! late they come.
//!
//! ```text
//!   revision 0           revision 1                revision 2
//!   1 port 53 accept ──▶ 1 port 53 accept ───────▶ 3 port 53 accept     a rule keeps its count wherever it stands
//!   2 port 80 accept ─┐  2 reject ─────┐  ┌──────▶ 1 port 80 accept     one that comes back begins at zero
//!   3 reject ───────┐ │         ▲      └──│──────▶ 4 reject
//!                   └─│─────────┘         new
//!                     └▶ retired: counted together, so that nothing is lost
//! ```
//!
//! Revisions point forward only, so an old one is freed when the last poller stops counting by it.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use super::rule::{Action, Entry, Rule, Rules};
use crate::forwarder::volume::Volume;

/// The rules of a file between two changes, shared by all who use them.
#[derive(Debug)]
pub(crate) struct Revision {
    number: u64,
    rules: Rules,
    /// The number of pollers that have taken it up.
    followers: AtomicU32,
    next: OnceLock<Next>,
}

/// The revision that follows one.
#[derive(Debug)]
struct Next {
    revision: Arc<Revision>,
    /// The index in it of each rule of the revision before.
    heirs: Vec<Option<usize>>,
}

/// The number of packets that each rule of a revision has decided about.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    revision: Arc<Revision>,
    matched: Vec<Volume>,
    retired: Volume,
    /// Packets rejected by any rule.
    rejected: u64,
}

impl Revision {
    /// Creates the first revision of a file.
    pub(crate) fn new(rules: Rules) -> Arc<Self> {
        Revision::numbered(0, rules)
    }

    fn numbered(number: u64, rules: Rules) -> Arc<Self> {
        Arc::new(Revision { number, rules, followers: AtomicU32::new(0), next: OnceLock::new() })
    }

    /// Returns the number of revisions before it.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Appends a revision with these rules, and returns it; if another one follows already, returns that.
    ///
    /// # Cost
    /// O(rules), of both.
    pub(crate) fn change(&self, rules: Rules) -> Arc<Revision> {
        let next = self.next.get_or_init(|| {
            let heirs = heirs(self.rules.entries(), rules.entries());
            Next { revision: Revision::numbered(self.number + 1, rules), heirs }
        });
        Arc::clone(&next.revision)
    }

    /// Adds a poller that uses it, and returns how many have taken it up.
    pub(crate) fn follow(&self) -> u32 {
        self.followers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Moves per-rule state into the order of the next revision; a new rule gets the default. `None` if there is no
    /// next revision.
    pub(crate) fn carried<T: Copy + Default>(&self, kept: &[T]) -> Option<(Arc<Revision>, Vec<T>)> {
        let Next { revision, heirs } = self.next.get()?;
        let mut carried = vec![T::default(); revision.rules.entries().len()];
        for (value, heir) in kept.iter().zip(heirs) {
            heir.iter().for_each(|&heir| carried[heir] = *value);
        }
        Some((Arc::clone(revision), carried))
    }
}

impl Tally {
    /// Creates zero counts for these rules.
    pub(crate) fn new(revision: Arc<Revision>) -> Self {
        let matched = vec![Volume::default(); revision.rules.entries().len()];
        Tally { revision, matched, retired: Volume::default(), rejected: 0 }
    }

    /// Returns the rules that are counted.
    pub(crate) fn revision(&self) -> &Arc<Revision> {
        &self.revision
    }

    /// Returns the rules, each with the packets it has decided about.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Entry, Volume)> {
        self.revision.rules.entries().iter().zip(self.matched.iter().copied())
    }

    /// Returns the packets decided by rules that are no longer in the file.
    pub(crate) fn retired(&self) -> Volume {
        self.retired
    }

    /// Returns how many packets were rejected.
    pub(crate) fn rejected(&self) -> u64 {
        self.rejected
    }

    /// Returns the counts, and restarts them at zero for the same rules.
    ///
    /// # Cost
    /// O(rules).
    pub(crate) fn take(&mut self) -> Tally {
        let blank = Tally::new(Arc::clone(&self.revision));
        std::mem::replace(self, blank)
    }

    /// Counts a packet of `bytes` bytes that the rule at `index` has decided about.
    #[inline]
    pub(crate) fn count(&mut self, index: usize, bytes: usize) {
        self.matched[index].count(bytes);
        let action = self.revision.rules.entries()[index].rule.action;
        self.rejected += u64::from(action == Action::Reject);
    }

    /// Adds packets that the kernel has decided about by the rule at `index`, if there is one.
    pub(crate) fn add(&mut self, index: usize, volume: &Volume) {
        let Some(entry) = self.revision.rules.entries().get(index) else { return };
        self.rejected += if entry.rule.action == Action::Reject { volume.packets } else { 0 };
        self.matched[index] += volume;
    }

    /// Switches to the next revision, if there is one. Counts of rules that it lacks are [retired](Self::retired).
    ///
    /// # Cost
    /// O(rules), of both; one atomic load if there is none.
    pub(crate) fn advance(&mut self) -> bool {
        let Some((revision, carried)) = self.revision.carried(&self.matched) else { return false };
        let sum = |counts: &[Volume]| counts.iter().sum::<Volume>();
        self.retired += &(sum(&self.matched) - sum(&carried));
        (self.revision, self.matched) = (revision, carried);
        true
    }
}

/// Adds the counts of another poller, or later ones of the same, for the same file. The sum has the later revision.
///
/// # Cost
/// O(rules), and the same again for each revision between them.
impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
        let mut other = Cow::Borrowed(other);
        while self.revision.number < other.revision.number && self.advance() {}
        while other.revision.number < self.revision.number && other.to_mut().advance() {}
        self.matched.iter_mut().zip(&other.matched).for_each(|(own, other)| *own += other);
        self.retired += &other.retired;
        self.rejected += other.rejected;
    }
}

/// Maps each `old` rule to its index among the `new` ones. A rule still on its line stays there, so that equal rules do
/// not swap counts where people and scrapers see the same line; the others are matched in order.
///
/// # Cost
/// O(rules): a walk over both, in ascending order of lines, and a table of those that have moved.
fn heirs(old: &[Entry], new: &[Entry]) -> Vec<Option<usize>> {
    let mut heirs = vec![None; old.len()];
    let mut taken = vec![false; new.len()];
    let mut at = 0;
    for (index, entry) in old.iter().enumerate() {
        at += new[at..].iter().take_while(|new| new.line < entry.line).count();
        if new.get(at) == Some(entry) {
            (heirs[index], taken[at]) = (Some(at), true);
        }
    }
    let mut moved: HashMap<&Rule, VecDeque<usize>> = HashMap::new();
    for (index, entry) in new.iter().enumerate().filter(|&(index, _)| !taken[index]) {
        moved.entry(&entry.rule).or_default().push_back(index);
    }
    for (heir, entry) in heirs.iter_mut().zip(old).filter(|(heir, _)| heir.is_none()) {
        *heir = moved.get_mut(&entry.rule).and_then(VecDeque::pop_front);
    }
    heirs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use softtimers::late::cpu_time;

    use super::*;
    use crate::forwarder::rules::parse;

    /// Rules for these ports, each on the line of its index; an empty line where there is none. They have a rate, since
    /// of two equal rules without one the second is refused.
    fn rules(ports: &[Option<u8>]) -> Rules {
        let rule = |port| format!("port {port} rate 9pps accept");
        let lines = ports.iter().map(|port| port.map_or(String::new(), rule));
        let lines: Vec<_> = lines.chain(["reject".to_owned()]).collect();
        parse(lines.join("\n").as_bytes()).unwrap()
    }

    fn counted(tally: &Tally) -> Vec<(usize, u64)> {
        tally.entries().map(|(entry, matched)| (entry.line, matched.packets)).collect()
    }

    #[test]
    fn who_comes_late_is_brought_forward() {
        let [a, b, c] = [Some(1), Some(2), Some(3)];
        let first = Revision::new(rules(&[a, b]));
        let [mut early, mut late] = [(); 2].map(|()| Tally::new(Arc::clone(&first)));
        for index in 0..3 {
            (0..=index).for_each(|_| early.count(index, 100));
            late.count(index, 100);
        }
        let second = first.change(rules(&[a]));
        assert!(early.advance() && !early.advance());
        assert_eq!((counted(&early), early.retired().packets), (vec![(1, 1), (2, 3)], 2));
        second.change(rules(&[b, c, a]));
        // No poller may have used the last one.
        early += &late;
        assert_eq!((counted(&early), early.retired().packets), (vec![(1, 2), (2, 4)], 3));
        assert!(early.advance());
        assert_eq!((counted(&early), early.retired().packets), (vec![(1, 0), (2, 0), (3, 2), (4, 4)], 3));
        late += &early;
        assert_eq!((counted(&late), late.retired().packets), (vec![(1, 0), (2, 0), (3, 3), (4, 5)], 4));
    }

    #[test]
    fn of_equal_rules_each_keeps_its_own_count() {
        let one = Some(1);
        let first = Revision::new(rules(&[one, None, one]));
        let mut tally = Tally::new(Arc::clone(&first));
        tally.count(0, 100);
        (0..5).for_each(|_| tally.count(1, 100));
        let second = first.change(rules(&[None, None, one, one]));
        assert!(tally.advance());
        assert_eq!(counted(&tally), [(3, 5), (4, 1), (5, 0)]);
        second.change(rules(&[None, one, None, None, one]));
        assert!(tally.advance());
        assert_eq!((counted(&tally), tally.retired().packets), (vec![(2, 5), (5, 1), (6, 0)], 0));
    }

    #[test]
    fn an_old_revision_goes_with_the_last_who_counts_by_it() {
        let first = Revision::new(rules(&[Some(1)]));
        let old = Arc::downgrade(&first);
        let mut tally = Tally::new(Arc::clone(&first));
        let next = first.change(rules(&[]));
        assert!(Arc::ptr_eq(&first.change(rules(&[Some(2)])), &next), "only one follows");
        drop(first);
        assert!(tally.advance() && old.upgrade().is_none());
        assert!(Arc::ptr_eq(tally.revision(), &next) && next.number() == 1);
        assert_eq!((next.follow(), next.follow()), (1, 2));
    }

    /// With sixteen times as many rules, all moved, the work grows 16-fold, not 256-fold. A disturbance that affects
    /// one pair of measurements spares another.
    #[test]
    fn a_change_costs_as_much_as_there_are_rules() {
        let cost = |number: usize| {
            let rule = |line: usize| format!("from-port {line} accept\n");
            let text = (0..number).map(rule).collect::<String>() + "reject";
            let [old, new] = [text.clone(), format!("port 9 reject\n{text}")];
            let [old, new] = [old, new].map(|text| parse(text.as_bytes()).unwrap());
            let mut tally = Tally::new(Revision::new(old));
            let late = tally.clone();
            let before = cpu_time();
            tally.revision().change(new);
            assert!(tally.advance());
            tally += &late;
            (cpu_time() - before).as_nanos().max(1)
        };
        let times = (0..8).map(|_| cost(16_000) / cost(1_000)).min().unwrap();
        assert!(times < 100, "{times}");
    }

    /// As [`heirs`], by comparing each with each.
    fn slow_heirs(old: &[Entry], new: &[Entry]) -> Vec<Option<usize>> {
        let on_its_line = |entry: &Entry| new.iter().position(|new| new == entry);
        let mut heirs: Vec<_> = old.iter().map(on_its_line).collect();
        for index in 0..old.len() {
            let free = |at: &usize| new[*at].rule == old[index].rule && !heirs.contains(&Some(*at));
            heirs[index] = heirs[index].or_else(|| (0..new.len()).find(free));
        }
        heirs
    }

    /// An event in the life of a file and of the pollers that use it.
    #[derive(Clone, Debug)]
    enum Event {
        Change(Vec<Option<u8>>),
        Match { poller: usize, index: usize },
        Advance(usize),
        Tell(usize),
        Scrape,
    }

    fn event() -> impl Strategy<Value = Event> {
        let ports = prop::collection::vec(prop::option::weighted(0.8, 0u8..4), 0..6);
        prop_oneof![
            1 => ports.prop_map(Event::Change),
            8 => (0..POLLERS, 0usize..7).prop_map(|(poller, index)| Event::Match { poller, index }),
            2 => (0..POLLERS).prop_map(Event::Advance),
            2 => (0..POLLERS).prop_map(Event::Tell),
            2 => Just(Event::Scrape),
        ]
    }

    /// Follows each rule's life: from the change that adds it to the one that removes it.
    struct Lives {
        latest: Arc<Revision>,
        /// The life of each rule, by revision.
        of: Vec<Vec<usize>>,
        /// Packets by life, for each poller.
        matched: [Vec<u64>; POLLERS],
    }

    impl Lives {
        fn begin(&mut self, number: usize) -> Vec<usize> {
            let first = self.matched[0].len();
            self.matched.iter_mut().for_each(|matched| matched.resize(first + number, 0));
            (first..first + number).collect()
        }

        fn change(&mut self, rules: Rules) {
            let heirs = slow_heirs(self.latest.rules().entries(), rules.entries());
            let mut lives = self.begin(rules.entries().len());
            for (&life, heir) in self.of.last().unwrap().iter().zip(heirs) {
                heir.iter().for_each(|&heir| lives[heir] = life);
            }
            self.of.push(lives);
            self.latest = self.latest.change(rules);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Pollers hand over their counts since the last time, the first of them at each scrape. Each packet is counted
        /// for the rule that decided about it, or retired with it; and the count of a rule that stays never drops.
        #[test]
        fn nothing_is_lost_and_no_count_drops(
            first in prop::collection::vec(prop::option::weighted(0.8, 0u8..4), 0..6),
            events in prop::collection::vec(event(), 0..200),
        ) {
            let latest = Revision::new(rules(&first));
            let mut tallies = [(); POLLERS].map(|()| Tally::new(Arc::clone(&latest)));
            let mut lives = Lives { latest: Arc::clone(&latest), of: Vec::new(), matched: Default::default() };
            let begun = lives.begin(latest.rules().entries().len());
            lives.of.push(begun);
            let (mut sum, mut told) = (Tally::new(Arc::clone(&latest)), [(); POLLERS].map(|()| Vec::<u64>::new()));
            let mut scraped: HashMap<usize, u64> = HashMap::new();
            for event in events {
                match event {
                    Event::Change(ports) => lives.change(rules(&ports)),
                    Event::Match { poller, index } => {
                        let tally = &mut tallies[poller];
                        let lives_of = &lives.of[tally.revision().number() as usize];
                        if let Some(&life) = lives_of.get(index) {
                            tally.count(index, 100);
                            lives.matched[poller][life] += 1;
                        }
                    }
                    Event::Advance(poller) => _ = tallies[poller].advance(),
                    Event::Tell(poller) => {
                        sum += &tallies[poller].take();
                        told[poller].clone_from(&lives.matched[poller]);
                    }
                    Event::Scrape => {
                        sum += &tallies[0].take();
                        told[0].clone_from(&lives.matched[0]);
                        let mut expected = told[0].clone();
                        for matched in &told[1..] {
                            expected.iter_mut().zip(matched).for_each(|(own, other)| *own += other);
                        }
                        let current = &lives.of[sum.revision().number() as usize];
                        prop_assert!(sum.entries().map(|(_, matched)| matched.packets).eq(current.iter().map(|&life| expected[life])));
                        let retired: u64 = expected.iter().sum::<u64>() - current.iter().map(|&life| expected[life]).sum::<u64>();
                        prop_assert_eq!(sum.retired(), Volume { packets: retired, bytes: retired * 100 });
                        for (&life, (_, matched)) in current.iter().zip(sum.entries()) {
                            let matched = matched.packets;
                            let before = scraped.insert(life, matched);
                            prop_assert!(before <= Some(matched), "{before:?}, then {matched}");
                        }
                    }
                }
            }
        }

        #[test]
        fn heirs_are_those_that_each_for_each_finds(
            old in prop::collection::vec(prop::option::weighted(0.8, 0u8..4), 0..12),
            new in prop::collection::vec(prop::option::weighted(0.8, 0u8..4), 0..12),
        ) {
            let (old, new) = (rules(&old), rules(&new));
            prop_assert_eq!(heirs(old.entries(), new.entries()), slow_heirs(old.entries(), new.entries()));
        }
    }

    const POLLERS: usize = 3;
}
