//! Deciding about frames between two ports: [`Carrier`], the handler of a forwarder between interfaces.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::mem::{replace, take};
use std::rc::Rc;
use std::time::Duration;

use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_net::packet::Segments;
use softtimers_net::poller::{FrameInfo, Outputs, Packet, Poller};
use softtimers_poll::{AnyPolicy, Quota, SourceId};

use super::links::LinkFollower;
use super::port::{Departure, Ledger, Port, Wire};
use crate::forwarder::engine::Handler;
use crate::forwarder::frames::loops::Loops;
use crate::forwarder::frames::reason::Reason;
use crate::forwarder::frames::{Arrival, Forwarder, Verdict};
use crate::forwarder::notify::Notify;
use crate::forwarder::rules::{Entrance, Filter};
use crate::forwarder::stats::Stats;
use crate::forwarder::volume::Volume;
use softtimers_load::mode::PollingPlan;

/// Decides about frames and queues them at the other port.
#[derive(Debug)]
pub(crate) struct Carrier<D> {
    forwarder: Forwarder,
    names: [String; 2],
    sides: [SourceId; 2],
    ledgers: [Rc<RefCell<Ledger>>; 2],
    links: LinkFollower,
    /// Frames received there and dropped.
    refused: [Volume; 2],
    /// Frames dropped for want of room at the output there.
    unsent: [Volume; 2],
    /// When the next probe for loops goes out, if one is wanted.
    next_probe: Timestamp,
    loops: u64,
    /// Outages counted so far; `None` where another poller counts them.
    outages: Option<[u64; 2]>,
    notify: Notify,
    driver: PhantomData<D>,
}

impl<D: Wire> Carrier<D> {
    /// Creates a carrier between these two ports, with these names.
    pub(crate) fn new(
        mut forwarder: Forwarder,
        names: [String; 2],
        ports: &[Port<D>; 2],
        loops: Loops,
        links: LinkFollower,
        notify: Notify,
    ) -> Self {
        let now = Monotonic.now();
        // A router's packets end by their hop limit, and both interfaces may well be in the same network.
        forwarder.loops = forwarder.router.is_none().then_some(loops);
        Carrier {
            forwarder,
            names,
            sides: [0, 1].map(SourceId::from_index),
            ledgers: [0, 1].map(|side: usize| Rc::clone(ports[side].ledger())),
            links,
            refused: Default::default(),
            unsent: Default::default(),
            next_probe: now,
            loops: 0,
            outages: None,
            notify,
            driver: PhantomData,
        }
    }

    /// Makes it count what all pollers see, for the first one.
    pub(crate) fn first(self) -> Self {
        Carrier { outages: Some([0; 2]), ..self }
    }

    /// Reports when a loop is found, and when it is gone.
    fn tell_of_loops(&mut self, now: Timestamp) {
        let Some(loops) = &mut self.forwarder.loops else { return };
        let Some(is_in_loop) = loops.check(now) else { return };
        let [a, b] = &self.names;
        if is_in_loop {
            self.loops += 1;
            (self.notify)(format_args!(
                "a frame came back: {a} and {b} are joined elsewhere, too; nothing is forwarded until they are not"
            ));
        } else {
            (self.notify)(format_args!(
                "no frame comes back between {a} and {b} any more; they are forwarded again"
            ));
        }
    }
}

impl<D: Wire> Handler for Carrier<D> {
    type Side = Port<D>;
    const DOING: &'static str = "forwarding";

    fn quota(looking: &PollingPlan) -> Quota {
        looking.ring_quota()
    }

    #[inline]
    fn handle(&mut self, packet: Packet<'_, FrameInfo>, outputs: &mut Outputs<'_, Port<D>>) {
        let Packet { bytes, from, arrived, truncated } = packet;
        let own = outputs.from();
        let (entrance, out) = if own.index() == 0 { (Entrance::A, 1) } else { (Entrance::B, 0) };
        let length = bytes.len();
        if truncated {
            self.refused[1 - out].count(length);
            self.forwarder.reasons.count(Reason::Malformed);
            return outputs.drop_by_rule();
        }
        if let Some(links) = self.links.changed() {
            (0..).zip(&links).for_each(|(at, link)| self.forwarder.adopt(at, link));
        }
        let segment = match from.offload.segments {
            Some(Segments::Tcp(size) | Segments::Udp(size)) => Some(size),
            _ => None,
        };
        let at = arrived.unwrap_or_else(|| self.ledgers[1 - out].borrow().turn);
        match self.forwarder.handle(bytes, &Arrival { entrance, segment, at }) {
            Verdict::Forward => {
                // If there is no room, the output counts it.
                if outputs.send(self.sides[out], bytes, Some(from)) {
                    self.ledgers[out].borrow_mut().waits(Departure::Forwarded { arrived: at, length });
                } else {
                    self.unsent[out].count(length);
                }
            }
            Verdict::Answer(_) => {
                self.refused[1 - out].count(length);
                outputs.drop_by_rule();
                let taken = outputs.send(own, self.forwarder.answer(), None);
                self.ledgers[1 - out].borrow_mut().takes_made(taken);
            }
            Verdict::Drop(_) => {
                self.refused[1 - out].count(length);
                outputs.drop_by_rule();
            }
        }
    }

    fn filter(&mut self) -> Option<&mut Filter> {
        self.forwarder.rules.as_mut()
    }

    fn fire(&mut self, now: Timestamp, poller: &mut Poller<Port<D>, AnyPolicy>) -> Option<Timestamp> {
        self.tell_of_loops(now);
        // Removing an interface may wake nobody: it is asked for now and then.
        let look = now + LOOK;
        let Some(loops) = self.forwarder.loops.as_mut().filter(|loops| loops.wants_probe()) else {
            return Some(look);
        };
        if now >= self.next_probe {
            self.next_probe = now + Loops::PROBE;
            for (side, probe) in self.sides.into_iter().zip(loops.probe(now).into_iter().flatten()) {
                poller.device_mut(side).send_made(probe.as_ref());
            }
        }
        Some(if loops.wants_probe() { look.min(self.next_probe) } else { look })
    }

    fn count(&mut self, stats: &mut Stats) {
        for (at, end) in stats.ends.iter_mut().enumerate() {
            end.dropped.rule += &take(&mut self.refused[at]);
            end.dropped.output += &take(&mut self.unsent[at]);
        }
        let interfaces = stats.interfaces.get_or_insert_default();
        interfaces.refused += &take(&mut self.forwarder.reasons);
        interfaces.loops += take(&mut self.loops);
        if let Some(router) = &mut self.forwarder.router {
            interfaces.made.told += take(&mut router.complaints.told);
            interfaces.made.suppressed += take(&mut router.complaints.suppressed);
        }
        if let Some(counted) = &mut self.outages {
            for (at, outages) in self.links.outages().into_iter().enumerate() {
                interfaces.outages[at] += outages - replace(&mut counted[at], outages);
            }
        }
    }
}

/// How often an interface is checked for removal, where its driver gives no notice.
const LOOK: Duration = Duration::from_secs(1);
