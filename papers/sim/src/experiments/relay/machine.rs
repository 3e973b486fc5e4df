//! The machine of the relay: [`Machine`], pollers that are independent except for the serial part.
//!
//! ```text
//!   asleep ── a packet ─▶ awake ─▶ turn ─▶ waits for the shared part ─▶ has it ─▶ its packets left ────┐
//!     ▲                              ▲                                          more wait ─────────────┤
//!     └──────────────────────────────┴────────────────────────────────── none waits ◀──────────────────┘
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use softtimers_core::{Histogram, Random, Timestamp};

use crate::choice::choices;
use crate::engine::{Engine, Steps, Streams};

choices! {
    /// Where the kernel receives.
    pub(super) enum Receiving {
        /// On another CPU for each poller.
        Other = "other",
        /// On the poller's CPU, before all other work.
        Same = "same",
    }
}

/// The costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub(super) packet: Duration,
    pub(super) turn: Duration,
    pub(super) wake_up: Duration,
    pub(super) shared: Duration,
    pub(super) receive: Duration,
    pub(super) receiving: Receiving,
    /// Most packets in a turn.
    pub(super) quota: u64,
}

/// Pollers under a load.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) costs: Costs,
    /// Packets that can wait for a poller.
    pub(super) buffer: usize,
    /// Packets a second that arrive for all pollers.
    pub(super) rate: f64,
    /// The share of them for each poller.
    pub(super) shares: Vec<f64>,
    pub(super) duration: Duration,
}

/// The counts after the first tenth of the time.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) window: Duration,
    pub(super) offered: u64,
    pub(super) relayed: u64,
    pub(super) lost: u64,
    pub(super) turns: u64,
    /// CPU time of the pollers, in nanoseconds.
    pub(super) busy: u64,
    /// Nanoseconds from arrival to departure.
    pub(super) delays: Histogram,
}

/// One poller, the packets that come to it, and those that wait for it. Times are nanoseconds.
#[derive(Debug)]
struct Poller {
    random: Random,
    /// The mean time between packets.
    gap: f64,
    /// When the next packet comes, with a fraction.
    arrives: f64,
    /// When the CPU that receives for it becomes free, if that is another one.
    receiver: u64,
    next: Next,
    /// Arrival times of the waiting packets.
    waiting: VecDeque<u64>,
    /// Packets of the turn.
    turn: usize,
}

/// The packet that is received next.
#[derive(Clone, Copy, Debug, Default)]
struct Next {
    came: u64,
    /// When it is in the buffer or dropped.
    ready: u64,
    /// Whether the receiving CPU has room for it.
    fits: bool,
}

/// The next step of a poller.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// It checks its buffer.
    Look(usize),
    /// It needs the shared resource.
    Share(usize),
    /// The packets of its turn leave.
    Leave(usize),
}

impl Costs {
    /// Returns a packet's share of a poller's CPU time in a full turn.
    pub(super) fn of_a_packet(&self) -> Duration {
        let received = if self.receiving == Receiving::Same { self.receive } else { Duration::ZERO };
        self.packet + self.turn / self.quota.try_into().unwrap_or(u32::MAX) + self.shared + received
    }
}

impl Machine {
    /// Runs the simulation.
    pub(super) fn run(&self, streams: Streams, steps: &Steps) -> Found {
        let end = nanos(self.duration);
        let begin = end / 10;
        let mut found = Found {
            window: Duration::from_nanos(end - begin),
            offered: 0,
            relayed: 0,
            lost: 0,
            turns: 0,
            busy: 0,
            delays: Histogram::new(),
        };
        let mut pollers: Vec<Poller> =
            (0..).zip(&self.shares).map(|(number, &share)| self.poller(number, share, streams)).collect();
        let mut engine = Engine::new();
        (0..pollers.len()).for_each(|place| engine.at(Timestamp::ZERO, Event::Look(place)));
        let mut free = 0;
        while let Some(event) = engine.next(Timestamp::from_nanos(end)) {
            let now = engine.now().as_nanos();
            if !steps.go_on(now, end) {
                break;
            }
            let mut account = Account { found: &mut found, begin, end };
            let (at, next) = match event {
                Event::Look(place) => self.look(&mut pollers[place], place, now, &mut account),
                Event::Share(place) => {
                    // A poller that waits for it spins.
                    free = now.max(free) + pollers[place].turn as u64 * nanos(self.costs.shared);
                    let until = self.interrupted(&mut pollers[place], free, &mut account);
                    account.busy(now, until);
                    (until, Event::Leave(place))
                }
                Event::Leave(place) => {
                    let poller = &mut pollers[place];
                    self.receive(poller, now, &mut account);
                    account.left(poller.waiting.drain(..poller.turn), now);
                    (now, Event::Look(place))
                }
            };
            engine.at(Timestamp::from_nanos(at), next);
        }
        let mut account = Account { found: &mut found, begin, end };
        pollers.iter_mut().for_each(|poller| _ = self.receive(poller, end, &mut account));
        found
    }

    fn poller(&self, number: u64, share: f64, streams: Streams) -> Poller {
        let random = streams.of(&format!("poller {number}"));
        // Later than any end, if no packet comes.
        let gap = if share > 0.0 { 1e9 / (self.rate * share) } else { 1e18 };
        let mut poller = Poller {
            random,
            gap,
            arrives: 0.0,
            receiver: 0,
            next: Next::default(),
            waiting: VecDeque::new(),
            turn: 0,
        };
        self.draw(&mut poller);
        poller
    }

    /// Draws when the next packet arrives and is received.
    fn draw(&self, poller: &mut Poller) {
        poller.arrives += poller.gap * (poller.random.exponential() as f64 / Random::ONE as f64);
        let came = poller.arrives as u64;
        let receive = nanos(self.costs.receive);
        let queued = poller.receiver.saturating_sub(came);
        let fits = queued <= receive.saturating_mul(self.buffer as u64);
        let ready = match self.costs.receiving {
            Receiving::Other if fits => {
                poller.receiver = came.max(poller.receiver).saturating_add(receive);
                poller.receiver
            }
            _ => came,
        };
        poller.next = Next { came, ready, fits };
    }

    /// Takes a turn of waiting packets, or sleeps until one arrives.
    fn look(&self, poller: &mut Poller, place: usize, now: u64, account: &mut Account<'_>) -> (u64, Event) {
        self.receive(poller, now, account);
        if poller.waiting.is_empty() {
            let begin = poller.next.ready;
            let until = self.works(poller, begin, self.costs.wake_up, account);
            account.busy(begin, until);
            return (until, Event::Look(place));
        }
        poller.turn = poller.waiting.len().min(self.costs.quota as usize);
        let work = self.costs.turn + self.costs.packet * poller.turn as u32;
        let until = self.works(poller, now, work, account);
        account.busy(now, until);
        (until, if self.costs.shared.is_zero() { Event::Leave(place) } else { Event::Share(place) })
    }

    /// Returns when this work is done, including the kernel's work in the meantime.
    fn works(&self, poller: &mut Poller, begin: u64, work: Duration, account: &mut Account<'_>) -> u64 {
        self.interrupted(poller, begin.saturating_add(nanos(work)), account)
    }

    /// Work that would end at `end` is done when all packets that arrived by then have been received too.
    fn interrupted(&self, poller: &mut Poller, mut end: u64, account: &mut Account<'_>) -> u64 {
        // Packets after the end of the run are ignored: otherwise a flooded kernel would never finish.
        while self.costs.receiving == Receiving::Same && end < account.end {
            let came = self.receive(poller, end, account);
            if came == 0 {
                break;
            }
            end += came * nanos(self.costs.receive);
        }
        end
    }

    /// Receives all packets that have arrived by `until`; returns how many.
    fn receive(&self, poller: &mut Poller, until: u64, account: &mut Account<'_>) -> u64 {
        let mut received = 0;
        while poller.next.ready <= until.min(account.end) {
            let Next { came, fits, .. } = poller.next;
            // Packets of the turn occupy the buffer until they leave.
            if account.came(came, fits && poller.waiting.len() < self.buffer) {
                poller.waiting.push_back(came);
            }
            received += 1;
            self.draw(poller);
        }
        received
    }
}

/// The counts, from `begin` on.
#[derive(Debug)]
struct Account<'a> {
    found: &'a mut Found,
    begin: u64,
    end: u64,
}

impl Account<'_> {
    /// Counts a packet; returns whether there is room for it.
    fn came(&mut self, at: u64, fits: bool) -> bool {
        let counted = at >= self.begin;
        self.found.offered += u64::from(counted);
        self.found.lost += u64::from(counted && !fits);
        fits
    }

    fn left(&mut self, came: impl Iterator<Item = u64>, now: u64) {
        let mut any = false;
        for came in came.filter(|_| now >= self.begin) {
            self.found.relayed += 1;
            self.found.delays.record(now - came);
            any = true;
        }
        self.found.turns += u64::from(any);
    }

    fn busy(&mut self, from: u64, until: u64) {
        self.found.busy += until.min(self.end).saturating_sub(from.max(self.begin));
    }
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}
