//! Who sends to the relay: [`Clients`], a table of bounded size that strangers fill.
//!
//! It reads no clock and opens no socket, so a million spoofed sources are a loop in a test.
//!
//! ```text
//!   new source ─▶ room? ─────────────────────────────────▶ opened
//!                 none: of the next 16 clients in turn, the
//!                 longest silent one that was never answered
//!                 ├── silent for the grace ─▶ evicted ───▶ opened
//!                 └── none such ─▶ refused
//! ```

use std::collections::HashMap;
use std::net::SocketAddr;

use softtimers_core::Timestamp;

use super::config::{ClientLimits, RelayStats};

/// Names one client; never another one, however long it is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClientId {
    pub(super) slot: u32,
    serial: u64,
}

/// The clients there are, each with an outlet of its own: a socket, or in a test a number.
///
/// ```
/// use std::net::SocketAddr;
/// use softtimers_core::Timestamp;
/// use softtimers_wan::udp::{ClientLimits, Clients};
///
/// let (now, source) = (Timestamp::ZERO, SocketAddr::from(([192, 0, 2, 1], 9)));
/// let mut clients = Clients::new(ClientLimits::default());
/// assert_eq!(clients.heard(now, source, 100), None);
/// assert_eq!(clients.make_room(now), Ok(None));
/// let client = clients.insert(now, source, 100, "its socket");
/// // Not a byte more than it sent, until it has sent again.
/// assert_eq!(clients.answer(client, 60), Some(source));
/// assert_eq!(clients.answer(client, 60), None);
/// assert_eq!(clients.heard(now, source, 1), Some(client));
/// assert_eq!(clients.answer(client, 1_200), Some(source));
/// ```
///
/// # Cost
/// Each operation looks at no more than 16 clients, and hashes one address.
#[derive(Debug)]
pub struct Clients<O> {
    limits: ClientLimits,
    by_source: HashMap<SocketAddr, u32>,
    slots: Vec<Option<Client<O>>>,
    free: Vec<u32>,
    /// Where the next search for one that gives way begins.
    hand: usize,
    serial: u64,
    pub(super) stats: RelayStats,
}

#[derive(Debug)]
struct Client<O> {
    outlet: O,
    source: SocketAddr,
    serial: u64,
    /// When it last sent.
    seen: Timestamp,
    sent: u64,
    answered: u64,
    confirmed: bool,
}

impl ClientId {
    /// Where it stands in the table: a small number, another client's when it is gone.
    pub fn slot(self) -> u32 {
        self.slot
    }
}

impl<O> Clients<O> {
    /// Nobody yet.
    pub fn new(limits: ClientLimits) -> Self {
        Clients {
            limits,
            by_source: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            serial: 0,
            stats: RelayStats::default(),
        }
    }

    /// A packet of `bytes` from `source`: its client, if it is one.
    pub fn heard(&mut self, now: Timestamp, source: SocketAddr, bytes: usize) -> Option<ClientId> {
        let slot = *self.by_source.get(&source)?;
        let client = self.slots[slot as usize].as_mut()?;
        client.seen = client.seen.max(now);
        client.sent = client.sent.saturating_add(bytes as u64);
        client.confirmed |= client.answered > 0;
        Some(ClientId { slot, serial: client.serial })
    }

    /// Makes room for one client more: whether there is any, and who had to go for it.
    ///
    /// # Errors
    /// [`Full`]: nobody gives way.
    pub fn make_room(&mut self, now: Timestamp) -> Result<Option<O>, Full> {
        if self.by_source.len() < self.limits.most as usize {
            return Ok(None);
        }
        let Some(slot) = self.who_gives_way(now) else {
            self.stats.refused += 1;
            return Err(Full);
        };
        self.stats.evicted += 1;
        Ok(self.remove(slot))
    }

    /// Takes up a client, whose first packet has so many bytes. There must be room.
    pub fn insert(&mut self, now: Timestamp, source: SocketAddr, bytes: usize, outlet: O) -> ClientId {
        self.serial += 1;
        self.stats.opened += 1;
        self.stats.clients += 1;
        let client = Client {
            outlet,
            source,
            serial: self.serial,
            seen: now,
            sent: bytes as u64,
            answered: 0,
            confirmed: self.limits.trust_loopback && source.ip().to_canonical().is_loopback(),
        };
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        if slot as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot as usize] = Some(client);
        self.by_source.insert(source, slot);
        ClientId { slot, serial: self.serial }
    }

    /// An answer of `bytes` has come for a client: where to send it, if it may be sent.
    pub fn answer(&mut self, id: ClientId, bytes: usize) -> Option<SocketAddr> {
        let ratio = u64::from(self.limits.unconfirmed_ratio);
        let Some(client) = self.find(id) else {
            self.stats.stray += 1;
            return None;
        };
        let answered = client.answered.saturating_add(bytes as u64);
        if !client.confirmed && answered > client.sent.saturating_mul(ratio) {
            self.stats.withheld += 1;
            return None;
        }
        // An empty answer is an answer, too.
        client.answered = answered.max(1);
        Some(client.source)
    }

    /// What was done so far.
    pub fn stats(&self) -> RelayStats {
        self.stats
    }

    /// The outlet of a client, if it is still there.
    pub fn outlet(&mut self, id: ClientId) -> Option<&mut O> {
        self.find(id).map(|client| &mut client.outlet)
    }

    /// The client in a slot, if there is one.
    pub fn in_slot(&mut self, slot: u32) -> Option<(ClientId, &mut O)> {
        let client = self.slots.get_mut(slot as usize)?.as_mut()?;
        Some((ClientId { slot, serial: client.serial }, &mut client.outlet))
    }

    /// Forgets a client that has been silent for its time; else says when to ask again. `None` if it is gone.
    pub fn expire(&mut self, now: Timestamp, id: ClientId) -> Option<Timestamp> {
        let idle = self.limits.idle;
        let until = self.find(id)?.seen + idle;
        if until > now {
            return Some(until);
        }
        self.stats.expired += 1;
        self.remove(id.slot);
        None
    }

    /// The system gave no socket for a client that is not there yet.
    pub fn no_socket(&mut self) {
        self.stats.no_socket += 1;
    }

    /// Forgets a client for which the system has no place. It was none.
    pub fn abandon(&mut self, id: ClientId) {
        if self.remove(id.slot).is_some() {
            self.stats.opened -= 1;
            self.stats.no_socket += 1;
        }
    }

    fn find(&mut self, id: ClientId) -> Option<&mut Client<O>> {
        self.slots.get_mut(id.slot as usize)?.as_mut().filter(|client| client.serial == id.serial)
    }

    fn remove(&mut self, slot: u32) -> Option<O> {
        let client = self.slots.get_mut(slot as usize)?.take()?;
        self.by_source.remove(&client.source);
        self.free.push(slot);
        self.stats.clients -= 1;
        Some(client.outlet)
    }

    fn who_gives_way(&mut self, now: Timestamp) -> Option<u32> {
        let mut longest = None;
        for _ in 0..LOOKED_AT.min(self.slots.len()) {
            let slot = self.hand % self.slots.len();
            self.hand = slot + 1;
            let silent = self.slots[slot].as_ref().filter(|client| client.answered == 0);
            if let Some(client) = silent.filter(|client| client.seen + self.limits.grace <= now) {
                longest = longest.into_iter().chain([(client.seen, slot as u32)]).min();
            }
        }
        longest.map(|(_, slot)| slot)
    }
}

/// There is no room, and nobody gives way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// Clients that are looked at for one that gives way: a packet must cost a bounded time.
const LOOKED_AT: usize = 16;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    fn source(number: u32) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + (number >> 8)), 1_024 + (number & 0xff) as u16))
    }

    fn micros(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    /// What the relay does with a packet.
    fn arrive(clients: &mut Clients<u32>, now: Timestamp, number: u32, bytes: usize) -> Option<ClientId> {
        if let Some(known) = clients.heard(now, source(number), bytes) {
            return Some(known);
        }
        clients.make_room(now).ok()?;
        Some(clients.insert(now, source(number), bytes, number))
    }

    fn table(most: u32) -> Clients<u32> {
        Clients::new(ClientLimits { most, ..ClientLimits::default() })
    }

    /// A million sources within five seconds, and one client that was answered: it stays, they take turns,
    /// and nothing grows.
    #[test]
    fn a_million_spoofed_sources_take_turns_in_a_bounded_table() {
        let mut clients = table(100);
        let honest = arrive(&mut clients, micros(0), 1 << 23, 100).unwrap();
        assert_eq!(clients.answer(honest, 100), Some(source(1 << 23)));
        let spoofed = if cfg!(miri) { 2_000 } else { 1_000_000 };
        let mut taken = 0;
        for number in 0..spoofed {
            taken += u64::from(arrive(&mut clients, micros(u64::from(number) * 5), number, 40).is_some());
            assert!(clients.by_source.len() <= 100 && clients.slots.len() <= 100);
        }
        let stats = clients.stats;
        assert_eq!(taken + stats.refused, u64::from(spoofed));
        assert_eq!(stats.opened, taken + 1);
        assert_eq!(stats.opened, u64::from(stats.clients) + stats.expired + stats.evicted);
        assert!(clients.free.len() + clients.by_source.len() == clients.slots.len());
        // A grace of one second lets each place change hands four or five times in that time.
        assert!(cfg!(miri) || (taken > 400 && taken <= 99 * 5), "{taken}");
        assert_eq!(clients.heard(micros(6_000_000), source(1 << 23), 1), Some(honest));
    }

    /// Not a byte more than it sent, until it sends again after an answer.
    #[test]
    fn a_source_that_may_be_spoofed_is_not_answered_with_more_than_it_sent() {
        let mut clients = table(10);
        let id = arrive(&mut clients, micros(0), 1, 100).unwrap();
        let answers: Vec<bool> = [60, 60, 40, 1].map(|bytes| clients.answer(id, bytes).is_some()).into();
        assert_eq!(answers, [true, false, true, false]);
        assert_eq!(clients.stats.withheld, 2);
        assert_eq!(arrive(&mut clients, micros(1), 1, 1), Some(id));
        assert!(clients.answer(id, 65_507).is_some());

        // It sends twice before any answer: that confirms nothing.
        let other = arrive(&mut clients, micros(2), 2, 100).unwrap();
        arrive(&mut clients, micros(3), 2, 100);
        assert!(clients.answer(other, 200).is_some() && clients.answer(other, 1).is_none());

        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        let local = clients.insert(micros(4), loopback, 1, 0);
        assert!(clients.answer(local, 65_507).is_some());
    }

    /// Its own packets keep it; what it is sent does not. And its name dies with it.
    #[test]
    fn a_client_that_has_vanished_is_forgotten() {
        let mut clients = table(1);
        let seconds = |seconds: u64| micros(seconds * 1_000_000);
        let id = arrive(&mut clients, seconds(0), 1, 100).unwrap();
        assert_eq!(clients.expire(seconds(119), id), Some(seconds(120)));
        arrive(&mut clients, seconds(119), 1, 100).unwrap();
        assert!(clients.answer(id, 10).is_some());
        assert_eq!(clients.expire(seconds(120), id), Some(seconds(239)));
        // Answered, so it gives way to nobody.
        assert_eq!(clients.make_room(seconds(238)), Err(Full));
        assert_eq!(clients.expire(seconds(239), id), None);
        assert_eq!((clients.stats.expired, clients.stats.clients), (1, 0));

        let next = arrive(&mut clients, seconds(240), 2, 100).unwrap();
        assert_eq!(next.slot, id.slot);
        assert!(clients.answer(id, 1).is_none() && clients.outlet(id).is_none());
        assert_eq!(clients.stats.stray, 1);
        assert_eq!(clients.expire(seconds(500), id), None);
        assert_eq!(clients.stats.clients, 1);
        assert_eq!(clients.make_room(seconds(241)), Ok(Some(2)));
        let limits = ClientLimits { idle: Duration::ZERO, ..ClientLimits::default() };
        assert!(Clients::<()>::new(limits).make_room(seconds(0)).is_ok());
    }
}
