//! What becomes of frames between two ports: [`Carrier`], the handler of a forwarder between interfaces.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

use softtimers::poll::SourceId;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_net::packet::Segments;
use softtimers_net::poller::{FrameInfo, Outputs, Packet, Poller};

use super::links::LinkFollower;
use super::port::{Departure, Ledger, Port, Wire};
use crate::forward::engine::{Counted, Handler};
use crate::forward::frames::loops::Loops;
use crate::forward::frames::reason::Reason;
use crate::forward::frames::{Arrival, Forwarder, Verdict};
use crate::forward::mode::Looks;
use crate::forward::report::{Beside, Findings, InterfacesReport, MadeCounts, WayCounts};
use crate::forward::rules::{Entrance, Filter};
use crate::forward::volume::{EndCounts, Volume};
use crate::output::say;

/// Decides about frames, and where they go.
#[derive(Debug)]
pub struct Carrier<D> {
    forwarder: Forwarder,
    names: [String; 2],
    sides: [SourceId; 2],
    ledgers: [Rc<RefCell<Ledger>>; 2],
    links: LinkFollower,
    /// What came in there and went no further.
    refused: [Volume; 2],
    /// What found no room there to leave.
    unsent: [Volume; 2],
    /// When the next probe for loops goes out, if one is wanted.
    next_probe: Timestamp,
    loops: u64,
    driver: PhantomData<D>,
}

impl<D: Wire> Carrier<D> {
    /// Between these two, of these names.
    pub fn new(
        mut forwarder: Forwarder,
        names: &[String; 2],
        ports: &[Port<D>; 2],
        loops: Loops,
        links: LinkFollower,
    ) -> Self {
        let now = Monotonic.now();
        // A router's packets end by their hop limit, and both interfaces may well be in one network.
        forwarder.loops = forwarder.router.is_none().then_some(loops);
        Carrier {
            forwarder,
            names: names.clone(),
            sides: [0, 1].map(SourceId::from_index),
            ledgers: [0, 1].map(|side: usize| Rc::clone(ports[side].ledger())),
            links,
            refused: Default::default(),
            unsent: Default::default(),
            next_probe: now,
            loops: 0,
            driver: PhantomData,
        }
    }

    /// Says when a loop is found, and when it is gone.
    fn tell_of_loops(&mut self, now: Timestamp) {
        let Some(loops) = &mut self.forwarder.loops else { return };
        let Some(is_in_loop) = loops.check(now) else { return };
        let [a, b] = &self.names;
        if is_in_loop {
            self.loops += 1;
            say(format_args!(
                "a frame came back: {a} and {b} are joined elsewhere, too; nothing is forwarded until they are not"
            ));
        } else {
            say(format_args!("no frame comes back between {a} and {b} any more; they are forwarded again"));
        }
    }
}

impl<D: Wire> Handler for Carrier<D> {
    type Side = Port<D>;
    const DOING: &'static str = "forwarding";

    #[inline]
    fn handle(&mut self, packet: Packet<'_, FrameInfo>, outputs: &mut Outputs<'_, Port<D>>) {
        let Packet { bytes, from, arrived, truncated } = packet;
        let own = outputs.from();
        let (entrance, out) = if own.index() == 0 { (Entrance::A, 1) } else { (Entrance::B, 0) };
        let length = bytes.len();
        if truncated {
            self.refused[1 - out].count(length);
            self.forwarder.refuse(entrance, Reason::Malformed);
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
                // If there is no room, it is counted there.
                if outputs.pass(self.sides[out], bytes, Some(from)) {
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

    fn filter(&self) -> Option<&Filter> {
        self.forwarder.rules.as_ref()
    }

    fn filter_mut(&mut self) -> Option<&mut Filter> {
        self.forwarder.rules.as_mut()
    }

    fn fire(&mut self, now: Timestamp, poller: &mut Poller<Port<D>, Looks>) -> Option<Timestamp> {
        self.tell_of_loops(now);
        let look = self.sides.iter().any(|&side| poller.device(side).goes_silently()).then(|| now + LOOK);
        let Some(loops) = self.forwarder.loops.as_mut().filter(|loops| loops.wants_probe()) else {
            return look;
        };
        if now >= self.next_probe {
            self.next_probe = now + Loops::PROBE;
            for (side, probe) in self.sides.into_iter().zip(loops.probe(now).into_iter().flatten()) {
                poller.device_mut(side).send_made(probe.as_ref());
            }
        }
        [loops.wants_probe().then_some(self.next_probe), look].into_iter().flatten().min()
    }

    fn lost_answers(&self) -> u64 {
        self.ledgers.iter().map(|ledger| ledger.borrow().lost_answers()).sum()
    }

    fn findings(&self, [a, b]: [&Port<D>; 2]) -> Findings {
        let mut refused = *self.forwarder.reasons(Entrance::A);
        refused = refused.plus(self.forwarder.reasons(Entrance::B));
        let [at_a, at_b] = [0, 1].map(|side: usize| self.ledgers[side].borrow());
        let complaints = self.forwarder.router.as_ref().map(|router| &router.complaints);
        Findings {
            up: WayCounts { received: a.received(), sent: b.sent() },
            down: WayCounts { received: b.received(), sent: a.sent() },
            ends: [(0, a), (1, b)].map(|(at, port): (usize, &Port<D>)| {
                let mut end = EndCounts { name: self.names[at].clone(), ..port.carried() };
                end.dropped.rule = self.refused[at];
                end.dropped.output += self.unsent[at];
                end
            }),
            beside: Beside::Interfaces(InterfacesReport {
                refused,
                made: MadeCounts {
                    sent: at_a.made + at_b.made,
                    lost: at_a.made_lost + at_b.made_lost,
                    told: complaints.map_or(0, |complaints| complaints.told),
                    suppressed: complaints.map_or(0, |complaints| complaints.suppressed),
                },
                outages: self.links.outages(),
                loops: self.loops,
            }),
            rejected: refused.rejected,
        }
    }
}

/// How often is asked whether an interface is still there, where nobody is woken up for that.
const LOOK: Duration = Duration::from_secs(1);
