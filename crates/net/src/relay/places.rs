//! [`Places`]: the room for clients, shared by the tables of several threads.
//!
//! ```text
//!   half of the places: the same number for each table │ the other half: for any table that needs one more
//! ```
//!
//! A hash chooses a client's table, unevenly: with fixed parts some tables would be full while others are
//! half empty. And if all places were first come first served, a table could be left with a single one, where
//! even a client in two-way use is evicted for the next new source.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The places of one table: its own, and its part of the shared ones.
#[derive(Debug)]
pub(crate) struct Places {
    own: usize,
    lent: usize,
    /// The free shared places.
    free: Arc<AtomicU32>,
}

impl Places {
    /// Makes the places of a single table; at least one.
    pub(crate) fn alone(most: u32) -> Self {
        Places { own: most.max(1) as usize, lent: 0, free: Arc::default() }
    }

    /// For each of `tables`; together they are `most`, or one for each if that is more.
    pub(crate) fn shared(most: u32, tables: u32) -> Vec<Self> {
        let own = (most / 2).checked_div(tables).unwrap_or(0).max(1);
        let free = Arc::new(AtomicU32::new(most.saturating_sub(own.saturating_mul(tables))));
        (0..tables).map(|_| Places { own: own as usize, lent: 0, free: Arc::clone(&free) }).collect()
    }

    /// Returns whether there is a place for one more in a table with `clients` clients. Takes a shared one if
    /// necessary.
    pub(crate) fn has_room(&mut self, clients: usize) -> bool {
        if clients < self.own + self.lent {
            return true;
        }
        // No other memory depends on it, so relaxed ordering suffices.
        let taken = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(1));
        self.lent += usize::from(taken.is_ok());
        taken.is_ok()
    }

    /// Returns the shared places that a table with `clients` clients does not need.
    pub(crate) fn give_back(&mut self, clients: usize) {
        let spare = (self.own + self.lent).saturating_sub(clients).min(self.lent);
        self.lent -= spare;
        self.free.fetch_add(spare as u32, Ordering::Relaxed);
    }
}
