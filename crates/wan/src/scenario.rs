//! A path that changes by itself: [`Scenario`], a list of changes at given times, once or repeated.
//!
//! ```text
//!   0        10 s       20 s    22 s         40 s       50 s
//!   ├─────────┼──────────┼───────┼────────────┼──────────┼──
//!   as built   loss 5%    outage  over         as built   loss 5%  …     repeated after 40 s
//! ```
//!
//! A direction makes its changes itself, so each happens at its nanosecond, independently of calls: packets offered
//! before it are treated as before it, and the same seed, packets and times give the same run.

use std::sync::Arc;
use std::time::Duration;

use softtimers_core::Timestamp;

use crate::path::least_delay;
use crate::{Change, PathConfig, PathError, Way};

/// Changes of a path at times after its beginning.
///
/// ```
/// use std::time::Duration;
/// use softtimers_core::Timestamp;
/// use softtimers_wan::{Change, PathConfig, Scenario, Wan, Way};
///
/// let seconds = Duration::from_secs;
/// let scenario = Scenario::default()
///     .at(seconds(10), None, Change::Delay(seconds(1)))
///     .outage(seconds(20), Some(Way::Up), seconds(2))
///     .repeat(seconds(40))?;
/// let mut wan = Wan::builder().both(PathConfig::default().delay(seconds(3))).build()?;
/// wan.play(Timestamp::ZERO, &scenario)?;
///
/// let mut under_way = Vec::new();
/// for second in [0, 15, 21, 25, 45] {
///     wan.offer(Timestamp::ZERO + seconds(second), Way::Up, 100, second);
///     while let Some(now) = wan.poll_at() {
///         while let Some((_, delivery)) = wan.pop_due(now) {
///             under_way.push((delivery.packet, delivery.due.saturating_duration_since(delivery.offered).as_secs()));
///         }
///     }
/// }
/// assert_eq!(under_way, [(0, 3), (15, 1), (25, 1), (45, 3)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scenario {
    steps: Vec<(Duration, Option<Way>, Change)>,
    outages: Vec<(Duration, Option<Way>, Duration)>,
    period: Option<Duration>,
}

impl Scenario {
    /// The shortest round of a scenario that [repeats](Self::repeat).
    pub const SHORTEST_ROUND: Duration = Duration::from_millis(10);

    /// Adds this change at `at` after the beginning, in one direction or both. Of changes at the same time, the last
    /// one added prevails.
    #[must_use]
    pub fn at(mut self, at: Duration, way: Option<Way>, change: Change) -> Self {
        self.steps.push((at, way, change));
        self
    }

    /// Adds an outage of this length, during which [all packets](PathConfig::outage) that leave the link are lost. Of
    /// overlapping outages, the latest end counts.
    #[must_use]
    pub fn outage(mut self, at: Duration, way: Option<Way>, length: Duration) -> Self {
        self.outages.push((at, way, length));
        self
    }

    /// Starts from the beginning again after this time, over and over. Each round begins with the path as it was when
    /// the scenario began, so an outage ends there too.
    ///
    /// # Errors
    /// [`PathError::Round`] if something would happen at its end or later, or it is shorter than
    /// [`SHORTEST_ROUND`](Self::SHORTEST_ROUND).
    pub fn repeat(mut self, period: Duration) -> Result<Self, PathError> {
        let times = self.steps.iter().map(|(at, ..)| at).chain(self.outages.iter().map(|(at, ..)| at));
        let last = times.max().copied().unwrap_or_default();
        if period < Self::SHORTEST_ROUND || last >= period {
            return Err(PathError::Round { period, last });
        }
        self.period = Some(period);
        Ok(self)
    }

    /// Says whether nothing ever changes.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.outages.is_empty()
    }

    /// Returns each path that it makes of `path` in one direction, in the order of a round, with its start time.
    pub fn paths(
        &self,
        way: Way,
        mut path: PathConfig,
    ) -> impl Iterator<Item = (Duration, PathConfig)> + use<> {
        self.changes(way).into_iter().map(move |(at, change)| {
            change.apply(&mut path);
            (at, path.clone())
        })
    }

    /// Returns the changes of one direction, in order.
    fn changes(&self, way: Way) -> Vec<(Duration, Change)> {
        let is_here = |whose: &Option<Way>| whose.is_none_or(|whose| whose == way);
        let mut changes: Vec<_> = self
            .steps
            .iter()
            .filter(|(_, whose, _)| is_here(whose))
            .map(|(at, _, change)| (*at, change.clone()))
            .collect();
        let mut outages: Vec<_> = self
            .outages
            .iter()
            .filter(|(_, whose, _)| is_here(whose))
            .map(|&(at, _, length)| (at, at.saturating_add(length)))
            .collect();
        outages.sort();
        let mut over = None;
        for (begin, end) in outages {
            match over {
                Some(until) if begin <= until => over = Some(end.max(until)),
                _ => {
                    changes.extend(over.map(|end| (end, Change::Outage(false))));
                    changes.push((begin, Change::Outage(true)));
                    over = Some(end);
                }
            }
        }
        changes.extend(over.map(|end| (end, Change::Outage(false))));
        // A stable sort: of equal times, the change added later stays later.
        changes.sort_by_key(|(at, _)| *at);
        let round = self.period.unwrap_or(Duration::MAX);
        changes.retain(|(at, _)| *at < round);
        changes
    }
}

/// The changes of one direction, and the position in them.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    changes: Arc<[(Duration, Change)]>,
    period: Option<Duration>,
    /// The path at the beginning of each round.
    base: PathConfig,
    /// When this round began.
    begin: Timestamp,
    /// The next change; at the end of the round, the number of changes.
    next: usize,
}

/// The next step of a [`Timeline`].
#[derive(Clone, Copy, Debug)]
enum Ahead<'a> {
    Change(&'a Change),
    /// A round begins.
    Round(&'a PathConfig),
}

impl Timeline {
    /// # Errors
    /// [`PathError`] of a path that the changes lead to.
    pub(crate) fn new(
        begin: Timestamp,
        scenario: &Scenario,
        way: Way,
        base: &PathConfig,
    ) -> Result<Self, PathError> {
        scenario.paths(way, base.clone()).try_for_each(|(_, path)| path.check())?;
        let changes = scenario.changes(way).into();
        Ok(Timeline { changes, period: scenario.period, base: base.clone(), begin, next: 0 })
    }

    /// Returns when the next change is due.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        let after = self.changes.get(self.next).map(|(at, _)| *at).or(self.period)?;
        Some(self.begin + after).filter(|&at| at < Timestamp::MAX)
    }

    /// Moves past the next change, and returns the path after it, given the path before.
    pub(crate) fn pass(&mut self, path: &PathConfig) -> PathConfig {
        let mut path = path.clone();
        match self.step() {
            Ahead::Change(change) => change.apply(&mut path),
            Ahead::Round(base) => path = base.clone(),
        }
        path
    }

    fn step(&mut self) -> Ahead<'_> {
        if self.next < self.changes.len() {
            self.next += 1;
            Ahead::Change(&self.changes[self.next - 1].1)
        } else {
            self.begin += self.period.unwrap_or(Duration::MAX);
            self.next = 0;
            Ahead::Round(&self.base)
        }
    }

    /// Skips whole rounds in which the link is idle: after one of them, each further one leaves everything unchanged.
    /// To be called at the beginning of a round.
    pub(crate) fn skip_to(&mut self, now: Timestamp) {
        let Some(period) = self.period.filter(|_| self.next == 0) else { return };
        let rounds = now.saturating_duration_since(self.begin).as_nanos() / period.as_nanos().max(1);
        // One round is executed.
        let skipped = rounds.saturating_sub(1).saturating_mul(period.as_nanos());
        self.begin += Duration::from_nanos(u64::try_from(skipped).unwrap_or(u64::MAX));
    }

    /// Returns the first change after `now`, skipping any number before it.
    pub(crate) fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        let since = now.saturating_duration_since(self.begin);
        let rounds = self.period.map_or(0, |period| since.as_nanos() / period.as_nanos().max(1));
        let before = self.period.map_or(0, |period| rounds.saturating_mul(period.as_nanos()));
        let begin = self.begin + Duration::from_nanos(u64::try_from(before).unwrap_or(u64::MAX));
        let within = now.saturating_duration_since(begin);
        let first = self.changes.partition_point(|(at, _)| *at <= within).max(if rounds == 0 {
            self.next
        } else {
            0
        });
        let after = self.changes.get(first).map(|(at, _)| *at).or(self.period)?;
        Some(begin + after).filter(|&at| at < Timestamp::MAX)
    }

    /// Makes all further changes sooner by this time, unless they would have begun before the clock did.
    pub(crate) fn hurry(&mut self, by: Duration) -> bool {
        let nanos = u64::try_from(by.as_nanos()).ok().and_then(|by| self.begin.as_nanos().checked_sub(by));
        self.begin = nanos.map_or(self.begin, Timestamp::from_nanos);
        nanos.is_some()
    }

    /// Returns the path at `now`, given the path at the timeline's position.
    pub(crate) fn path_at(&self, now: Timestamp, path: &PathConfig) -> PathConfig {
        let mut ahead = self.clone();
        let mut path = path.clone();
        while ahead.next_at().is_some_and(|at| at <= now) {
            path = ahead.pass(&path);
            ahead.skip_to(now);
        }
        path
    }

    /// Returns the shortest delay of all paths from the timeline's position until `until`.
    pub(crate) fn least_delay(&self, path: &PathConfig, until: Timestamp) -> Duration {
        let mut least = path.least_delay();
        if self.next_at().is_none_or(|at| at > until) {
            return least;
        }
        let (mut delay, mut jitter, mut reorder) = (path.delay, &path.jitter, path.reorder);
        let (mut begin, mut next) = (self.begin, self.next);
        // A whole round, and the remainder of this one, have covered every path.
        for _ in 0..=2 * self.changes.len() + 2 {
            let change = self.changes.get(next);
            let Some(after) = change.map(|(at, _)| *at).or(self.period) else { break };
            if begin + after > until {
                break;
            }
            match change {
                Some((_, Change::Delay(new))) => delay = *new,
                Some((_, Change::Jitter(new))) => jitter = new,
                Some((_, Change::Reorder(new))) => reorder = *new,
                Some(_) => {}
                None => (delay, jitter, reorder) = (self.base.delay, &self.base.jitter, self.base.reorder),
            }
            next += 1;
            if change.is_none() {
                (begin, next) = (begin + after, 0);
            }
            least = least.min(least_delay(delay, jitter, reorder));
        }
        least
    }
}

impl Default for Timeline {
    /// Creates a timeline without changes.
    fn default() -> Self {
        Timeline {
            changes: Arc::new([]),
            period: None,
            base: PathConfig::default(),
            begin: Timestamp::ZERO,
            next: 0,
        }
    }
}
