//! The ends of streams and datagrams that share a path, as a state machine: [`Endpoints`]. No sockets, no tasks, no clock.
//!
//! ```text
//!   write ─▶ Flow ─▶ segments ──▶ Wan ──▶ in order ─▶ Flow ─▶ read
//!                       ▲          │ dropped, lost or damaged
//!                       ╰──────────╯ one round trip later, then two, four, …
//! ```
//!
//! [`advance`](Endpoints::advance) processes events one after another, each at its own time. So calling it only once a
//! millisecond changes neither a rate nor an order.

mod connection;
mod inbox;

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;

use softtimers_core::Timestamp;

use crate::flow::Segment;
use crate::repairs::Repairs;
use crate::{Admission, Counters, Delivery, Measured, PathConfig, PathError, Wan, WanBuilder, Way};
pub(crate) use connection::{Broken, Connection};
pub(crate) use inbox::Inbox;

/// The path and everything on either side of it.
#[derive(Debug)]
pub(crate) struct Endpoints {
    wan: Wan<Piece>,
    connections: BTreeMap<u64, Connection>,
    inboxes: BTreeMap<u64, [Inbox; 2]>,
    outgoing: [Outgoing; 2],
    serial: u64,
    woken: Vec<Waker>,
}

/// A message on the path.
#[derive(Clone, Debug)]
enum Piece {
    /// Of this stream.
    Segment(u64, Segment),
    Datagram {
        pair: u64,
        bytes: Box<[u8]>,
    },
}

/// Data waiting to go one way.
#[derive(Debug, Default)]
struct Outgoing {
    /// Streams with something to send: they take turns.
    line: VecDeque<u64>,
    repairs: Repairs<u64>,
}

impl Endpoints {
    pub(crate) fn new(path: WanBuilder) -> Result<Self, PathError> {
        let mut wan = path.build()?;
        WAYS.iter().for_each(|&way| wan.direction_mut(way).keep_lost());
        Ok(Endpoints {
            wan,
            connections: BTreeMap::new(),
            inboxes: BTreeMap::new(),
            outgoing: Default::default(),
            serial: 0,
            woken: Vec::new(),
        })
    }

    /// Creates a stream between the two sides.
    pub(crate) fn connect(&mut self) -> u64 {
        self.serial += 1;
        self.connections.insert(self.serial, Connection::default());
        self.serial
    }

    /// Creates a pair of datagram sockets, one on each side.
    pub(crate) fn pair(&mut self) -> u64 {
        self.serial += 1;
        self.inboxes.insert(self.serial, Default::default());
        self.serial
    }

    /// Returns when the next event is due.
    pub(crate) fn poll_at(&self) -> Option<Timestamp> {
        let sends = WAYS.iter().flat_map(|&way| {
            let Outgoing { line, repairs } = &self.outgoing[index(way)];
            let waits = !line.is_empty() || repairs.waits();
            let room = self.wan.direction(way).next_departure().filter(|_| waits);
            room.into_iter().chain(repairs.poll_at())
        });
        sends.chain(self.wan.poll_at()).min()
    }

    /// Processes all events until `now`, each at its time.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        while let Some(at) = self.poll_at().filter(|&at| at <= now) {
            while let Some((way, delivery)) = self.wan.pop_due(at) {
                self.arrive(way, delivery);
            }
            WAYS.iter().for_each(|&way| self.pump(way, at));
        }
    }

    /// Changes the path one way.
    pub(crate) fn set(&mut self, now: Timestamp, way: Way, path: PathConfig) -> Result<(), PathError> {
        self.advance(now);
        self.wan.set(now, way, path)?;
        self.pump(way, now);
        self.advance(now);
        Ok(())
    }

    /// Returns the settings, the counts and the measured delays of one way.
    pub(crate) fn seen(&self, way: Way) -> (PathConfig, Counters, Measured) {
        let direction = self.wan.direction(way);
        (direction.path().clone(), direction.counters(), direction.measured().clone())
    }

    /// Returns how many segments were sent again.
    pub(crate) fn resent(&self, way: Way) -> u64 {
        self.outgoing[index(way)].repairs.resent
    }

    /// Returns the wakers to wake.
    pub(crate) fn woken(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.woken)
    }

    /// Accepts bytes for the other side, and returns how many: 0 while there is no room.
    pub(crate) fn write(&mut self, now: Timestamp, id: u64, way: Way, bytes: &[u8]) -> Result<usize, Broken> {
        self.advance(now);
        let connection = self.connections.get_mut(&id).ok_or(Broken::Closed)?;
        let taken = connection.take(index(way), bytes)?;
        self.send(now, id, way);
        Ok(taken)
    }

    /// Reads bytes that have come this way, and returns how many: 0 at the end, `None` while there are none.
    pub(crate) fn read(
        &mut self,
        now: Timestamp,
        id: u64,
        way: Way,
        into: &mut [u8],
    ) -> Result<Option<usize>, Broken> {
        self.advance(now);
        let connection = self.connections.get_mut(&id).ok_or(Broken::Closed)?;
        let read = connection.read(index(way), into);
        self.woken.extend(connection.wake_writer(index(way)));
        read
    }

    /// Ends a direction of a stream.
    pub(crate) fn finish(&mut self, now: Timestamp, id: u64, way: Way) -> Result<(), Broken> {
        self.advance(now);
        self.connections.get_mut(&id).ok_or(Broken::Closed)?.finish(index(way))?;
        self.send(now, id, way);
        Ok(())
    }

    /// Drops the end of a stream that writes `way`.
    pub(crate) fn leave(&mut self, now: Timestamp, id: u64, way: Way) {
        self.advance(now);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.leave(index(way)) {
            self.connections.remove(&id);
        } else {
            self.send(now, id, way);
        }
    }

    pub(crate) fn connection(&mut self, id: u64) -> Option<&mut Connection> {
        self.connections.get_mut(&id)
    }

    /// Sends a datagram. It does not wait for room: without room it is dropped, as on a network.
    pub(crate) fn send_datagram(&mut self, now: Timestamp, pair: u64, way: Way, bytes: &[u8]) -> Admission {
        self.advance(now);
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let admission = self.wan.offer(now, way, length, Piece::Datagram { pair, bytes: bytes.into() });
        self.resend_lost(way);
        self.advance(now);
        admission
    }

    /// Returns the inbox of the datagrams that come this way.
    pub(crate) fn inbox(&mut self, now: Timestamp, pair: u64, way: Way) -> Option<&mut Inbox> {
        self.advance(now);
        self.inboxes.get_mut(&pair).map(|pair| &mut pair[index(way)])
    }

    /// Drops the end of a pair that sends `way`.
    pub(crate) fn leave_pair(&mut self, pair: u64, way: Way) {
        let Some(inboxes) = self.inboxes.get_mut(&pair) else { return };
        inboxes[index(way.back())].close();
        if inboxes.iter().all(Inbox::is_closed) {
            self.inboxes.remove(&pair);
        }
    }

    /// Queues a stream for the path, if it has data to send.
    fn send(&mut self, now: Timestamp, id: u64, way: Way) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.joins(index(way)) {
            self.outgoing[index(way)].line.push_back(id);
        }
        self.pump(way, now);
        self.advance(now);
    }

    /// Puts data on the path as long as there is room: retransmissions first, then a segment of each stream in turn.
    fn pump(&mut self, way: Way, now: Timestamp) {
        let Endpoints { wan, connections, outgoing, woken, .. } = self;
        let Outgoing { line, repairs } = &mut outgoing[index(way)];
        let direction = wan.direction_mut(way);
        let most = direction.path().longest_piece();
        while let Some((id, segment)) = repairs.pop_due(now, |bytes| direction.has_room_for(now, bytes)) {
            direction.offer(now, segment.load.bytes(), Piece::Segment(id, segment));
        }
        while let Some(&id) = line.front().filter(|_| !repairs.waits()) {
            let Some(connection) = connections.get_mut(&id) else {
                line.pop_front();
                continue;
            };
            if !direction.has_room_for(now, connection.next_length(index(way), most)) {
                break;
            }
            line.pop_front();
            if let Some(segment) = connection.next_segment(index(way), most) {
                direction.offer(now, segment.load.bytes(), Piece::Segment(id, segment));
            }
            if connection.joins(index(way)) {
                line.push_back(id);
            }
            woken.extend(connection.wake_writer(index(way)));
        }
        self.resend_lost(way);
    }

    /// Schedules retransmissions for pieces of streams that the path has dropped; lost datagrams are gone.
    fn resend_lost(&mut self, way: Way) {
        while let Some((at, piece)) = self.wan.direction_mut(way).pop_lost() {
            if let Piece::Segment(id, segment) = piece {
                self.resend(way, at, id, segment);
            }
        }
    }

    fn resend(&mut self, way: Way, left: Timestamp, id: u64, segment: Segment) {
        self.outgoing[index(way)].repairs.add(left, self.wan.round_trip(), id, segment);
    }

    fn arrive(&mut self, way: Way, delivery: Delivery<Piece>) {
        let Delivery { packet, due, copy, flipped, bytes, offered, marked } = delivery;
        let (id, segment) = match packet {
            Piece::Segment(id, segment) => (id, segment),
            Piece::Datagram { pair, bytes: packet } => {
                let delivery = Delivery { packet, due, copy, flipped, bytes, offered, marked };
                let inbox = self.inboxes.get_mut(&pair).map(|pair| &mut pair[index(way)]);
                self.woken.extend(inbox.map(|inbox| inbox.take(delivery.damaged())).unwrap_or_default());
                return;
            }
        };
        // A flipped bit makes its checksum wrong.
        if flipped.is_some() {
            if !copy {
                let left = due.saturating_sub(self.wan.direction(way).path().delay);
                self.resend(way, left, id, segment);
            }
            return;
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let answers = connection.arrive(index(way), segment);
        self.woken.extend(connection.wake_reader(index(way)));
        self.woken.extend(connection.wake_writer(index(way.back())));
        if answers && connection.joins(index(way.back())) {
            self.outgoing[index(way.back())].line.push_back(id);
        }
    }
}

pub(crate) fn index(way: Way) -> usize {
    if way == Way::Up { 0 } else { 1 }
}

const WAYS: [Way; 2] = [Way::Up, Way::Down];
