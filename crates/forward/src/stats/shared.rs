//! The stats of a run while it goes on: [`SharedStats`], and the [`Account`] of each of its pollers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softtimers_measure::stats::{Counter, Stats as _};

use super::Stats;

/// The stats of a run, to which its pollers add theirs.
#[derive(Clone, Debug)]
pub struct SharedStats {
    counter: Arc<Mutex<Counter<Stats>>>,
    each_round: bool,
}

/// Where one poller counts.
#[derive(Debug)]
pub(crate) struct Account {
    shared: SharedStats,
    /// Of one that shares the stats with others: what it has counted since it handed that over.
    apart: Option<Box<Stats>>,
}

impl SharedStats {
    /// Counts in `counter` from now on. Of several pollers each hands over what it has counted four times a second, or
    /// `each_round`, where a line of each second is to be exact.
    pub fn new(counter: Counter<Stats>, each_round: bool) -> Self {
        SharedStats { counter: Arc::new(Mutex::new(counter)), each_round }
    }

    /// Returns what all pollers have counted so far.
    ///
    /// # Cost
    /// A copy, of some 300 KB, for which a poller that counts may have to wait.
    pub fn total(&self) -> Stats {
        self.lock().total()
    }

    fn lock(&self) -> MutexGuard<'_, Counter<Stats>> {
        self.counter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// The first poller's, which counts where the sum is.
    pub(crate) fn first(shared: &SharedStats) -> Self {
        Account { shared: shared.clone(), apart: None }
    }

    /// Another poller's, which does not keep the others waiting.
    pub(crate) fn another(shared: &SharedStats) -> Self {
        let apart = (!shared.each_round).then(Box::default);
        Account { shared: shared.clone(), apart }
    }

    /// Counts, and hands over what was counted if it is time for that.
    pub(crate) fn count(&mut self, hand_over: bool, count: impl FnOnce(&mut Stats)) {
        let Some(own) = &mut self.apart else { return self.shared.lock().count(count) };
        count(own);
        if hand_over {
            self.shared.lock().count(|stats| *stats += own);
            own.clear();
        }
    }
}
