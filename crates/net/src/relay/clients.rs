//! [`Clients`]: the table of the relay's clients, of bounded size and with untrusted contents.
//!
//! It reads no clock and opens no socket, so a test can simulate a million spoofed sources.
//!
//! ```text
//!   new source ─▶ room? ───────────────────────────────────────────▶ opened
//!                 none: of 64 clients, drawn at random, the one
//!                 with the least use of the relay is evicted ──────▶ opened
//!
//!   answer ─▶ trusted? ────────────────────────────────────────────▶ sent
//!             else within its budget? ─▶ and its prefix's rate? ───▶ sent, or withheld and counted
//! ```
//!
//! **A new client always gets a place.** A relay cannot distinguish a new client from a spoofed source, so
//! it accepts all, and evicts the one that uses the relay least: first by *turns*, the times that a client
//! has sent again after an answer; then by the bytes exchanged in them; then by how long it has been silent.
//! Turns come before bytes because a spoofer chooses the size of its packets, but has to send one more for
//! each turn. Turns and bytes halve with each second of silence, so that old traffic does not keep a place.
//!
//! A client in two-way use therefore outlasts any number of sources that send once, or fewer times than it.
//! The clients that are compared are drawn with secret keys, so an attacker cannot target one client.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use softtimers_core::{Random, Timestamp};

use super::answers::{Budget, PrefixRates};
use super::config::{ClientLimits, NotSent, RelayStats};
use super::places::Places;

/// Names one client, and never another one, however long it is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId {
    pub(super) slot: u32,
    serial: u64,
}

/// The present clients, each with its outlet: a socket, or in a test a number.
///
/// # Cost
/// Each operation compares at most 64 clients, and hashes two addresses.
#[derive(Debug)]
pub(crate) struct Clients<O> {
    limits: ClientLimits,
    places: Places,
    by_source: HashMap<SocketAddr, u32>,
    slots: Vec<Option<Client<O>>>,
    free: Vec<u32>,
    /// The slots with a client, unordered: candidates for eviction are drawn from them.
    taken: Vec<u32>,
    /// Secret keys that select the clients to compare.
    keys: RandomState,
    serial: u64,
    rates: PrefixRates,
    /// The counters so far; a relay adds its own counts.
    pub(crate) stats: RelayStats,
}

#[derive(Debug)]
struct Client<O> {
    outlet: O,
    /// The index of its slot in `taken`.
    taken_at: usize,
    source: SocketAddr,
    serial: u64,
    trusted: bool,
    budget: Budget,
    /// When it last sent.
    seen: Timestamp,
    /// Whether it was answered since.
    answered: bool,
    /// How often it has sent after an answer.
    turns: u64,
    /// Bytes exchanged in both directions by the last of them.
    exchanged: u64,
}

impl ClientId {
    /// Returns the client's index in the table: a small number, reused when it is gone.
    pub fn slot(self) -> u32 {
        self.slot
    }
}

impl<O> Clients<O> {
    /// Creates an empty table under these limits.
    pub(crate) fn new(limits: ClientLimits) -> Self {
        let (rates, places) = (PrefixRates::new(limits.answers_per_prefix), Places::alone(limits.most));
        Clients::sharing(limits, rates, places)
    }

    /// Creates an empty table that shares its account of answers to prefixes, with these places.
    pub(crate) fn sharing(limits: ClientLimits, rates: PrefixRates, places: Places) -> Self {
        Clients {
            places,
            by_source: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            taken: Vec::new(),
            keys: RandomState::new(),
            serial: 0,
            rates,
            stats: RelayStats::default(),
            limits,
        }
    }

    /// Counts a packet of `bytes` from `source`. Returns its client, if there is one.
    pub(crate) fn heard(&mut self, now: Timestamp, source: SocketAddr, bytes: usize) -> Option<ClientId> {
        let slot = *self.by_source.get(&source)?;
        let client = self.slots[slot as usize].as_mut()?;
        client.seen = client.seen.max(now);
        if std::mem::take(&mut client.answered) {
            client.turns = client.turns.saturating_add(1);
            client.exchanged = client.budget.exchanged();
        }
        client.budget.receive(bytes);
        Some(ClientId { slot, serial: client.serial })
    }

    /// Makes room for one more client. Returns the outlet of the client that was evicted for it, if any.
    pub(crate) fn make_room(&mut self, now: Timestamp) -> Option<O> {
        if self.places.has_room(self.by_source.len()) { None } else { self.evict(now) }
    }

    /// Forgets a client that uses the relay little, and keeps its place for another; `None` if there is no
    /// client.
    pub(crate) fn evict(&mut self, now: Timestamp) -> Option<O> {
        let slot = self.least_used(now)?;
        self.stats.evicted += 1;
        self.remove(slot)
    }

    /// Adds a client, whose first packet has `bytes` bytes. There must be room.
    pub(crate) fn insert(&mut self, now: Timestamp, source: SocketAddr, bytes: usize, outlet: O) -> ClientId {
        self.serial += 1;
        self.stats.opened += 1;
        self.stats.clients += 1;
        let mut budget = Budget::default();
        budget.receive(bytes);
        let client = Client {
            outlet,
            taken_at: self.taken.len(),
            source,
            serial: self.serial,
            trusted: self.limits.trusts(source.ip()),
            budget,
            seen: now,
            answered: false,
            turns: 0,
            exchanged: 0,
        };
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot as usize] = Some(client);
        self.taken.push(slot);
        self.by_source.insert(source, slot);
        ClientId { slot, serial: self.serial }
    }

    /// Returns where to send an answer of `bytes` to a client, if it may be sent. It then counts as sent in
    /// any case; each copy needs its own verdict.
    ///
    /// # Errors
    /// [`NotSent`] if it must not be sent, which is counted.
    pub(crate) fn answer(
        &mut self,
        now: Timestamp,
        id: ClientId,
        bytes: usize,
    ) -> Result<SocketAddr, NotSent> {
        let ratio = self.limits.answer_ratio;
        let Some(client) = find(&mut self.slots, id) else {
            self.stats.stray += 1;
            return Err(NotSent::Gone);
        };
        if !client.trusted {
            let why = if !client.budget.allows(bytes, ratio) {
                self.stats.withheld_budget += 1;
                Some(NotSent::Budget(client.source))
            } else if !self.rates.take(now, client.source.ip()) {
                self.stats.withheld_rate += 1;
                Some(NotSent::Rate(client.source))
            } else {
                None
            };
            if let Some(why) = why {
                self.stats.withheld_bytes += bytes as u64;
                return Err(why);
            }
        }
        client.budget.spend(bytes);
        client.answered = true;
        Ok(client.source)
    }

    /// Returns the outlet of a client, if it still exists.
    pub(crate) fn outlet(&mut self, id: ClientId) -> Option<&mut O> {
        find(&mut self.slots, id).map(|client| &mut client.outlet)
    }

    /// Returns the client in a slot, if there is one.
    pub(crate) fn in_slot(&mut self, slot: u32) -> Option<(ClientId, &mut O)> {
        let client = self.slots.get_mut(slot as usize)?.as_mut()?;
        Some((ClientId { slot, serial: client.serial }, &mut client.outlet))
    }

    /// The outlets of all.
    pub(crate) fn outlets(&self) -> impl Iterator<Item = &O> {
        self.slots.iter().flatten().map(|client| &client.outlet)
    }

    /// Forgets a client that has been silent for its time.
    pub(crate) fn expire(&mut self, now: Timestamp, id: ClientId) -> Expiry<O> {
        let Some(client) = find(&mut self.slots, id) else { return Expiry::None };
        let until = client.seen + self.limits.idle;
        if until > now {
            return Expiry::Later(until);
        }
        self.stats.expired += 1;
        self.leave(id.slot).map_or(Expiry::None, Expiry::Forgotten)
    }

    /// Counts a new client for which the system had no socket.
    pub(crate) fn no_socket(&mut self) {
        self.stats.no_socket += 1;
    }

    /// Forgets a client for which the system has no socket; it does not count as a client.
    pub(crate) fn abandon(&mut self, id: ClientId) -> Option<O> {
        find(&mut self.slots, id)?;
        self.stats.opened -= 1;
        self.stats.no_socket += 1;
        self.leave(id.slot)
    }

    /// Forgets a client and frees its place.
    fn leave(&mut self, slot: u32) -> Option<O> {
        let outlet = self.remove(slot);
        self.places.give_back(self.by_source.len());
        outlet
    }

    fn remove(&mut self, slot: u32) -> Option<O> {
        let client = self.slots.get_mut(slot as usize)?.take()?;
        self.by_source.remove(&client.source);
        self.free.push(slot);
        self.taken.swap_remove(client.taken_at);
        if let Some(&moved) = self.taken.get(client.taken_at) {
            self.slots[moved as usize].iter_mut().for_each(|other| other.taken_at = client.taken_at);
        }
        self.stats.clients -= 1;
        Some(client.outlet)
    }

    /// Finds the client that uses the relay least, among a random sample, or all if they are few.
    fn least_used(&mut self, now: Timestamp) -> Option<u32> {
        let (clients, mut least) = (self.taken.len(), None);
        let mut random = Random::stream(self.keys.hash_one((self.serial, self.stats.evicted)), 0);
        for number in 0..clients.min(COMPARED) {
            let slot =
                self.taken[if clients <= COMPARED { number } else { random.below(clients as u64) as usize }];
            let Some(client) = &self.slots[slot as usize] else { continue };
            let candidate = (client.use_at(now), slot);
            least = if least.is_none_or(|least| candidate < least) { Some(candidate) } else { least };
        }
        least.map(|(_, slot)| slot)
    }
}

impl<O> Client<O> {
    /// Returns its use of the relay; the least is evicted first, and of equal ones the one that came first.
    fn use_at(&self, now: Timestamp) -> (u64, u64, Timestamp, u64) {
        let halvings = now.saturating_duration_since(self.seen).as_secs().min(63);
        (self.turns >> halvings, self.exchanged >> halvings, self.seen, self.serial)
    }
}

fn find<O>(slots: &mut [Option<Client<O>>], id: ClientId) -> Option<&mut Client<O>> {
    slots.get_mut(id.slot as usize)?.as_mut().filter(|client| client.serial == id.serial)
}

/// The verdict on a client that may have been silent for its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expiry<O> {
    /// Check again then.
    Later(Timestamp),
    /// It is forgotten; this was its outlet.
    Forgotten(O),
    /// It was gone already.
    None,
}

/// Clients that are compared for an eviction: a packet must cost a bounded time. If nine of ten clients use
/// the relay well, one of the others is found except once in 850 times.
const COMPARED: usize = 64;

#[cfg(test)]
mod tests;
