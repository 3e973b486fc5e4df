//! FQ-CoDel: a queue for each flow, served in turns, each with CoDel of its own (RFC 8290).
//!
//! ```text
//!                   ┌ new  ▢   ──▶ ┐                     a flow that comes is new; when its quantum is used up, or it is
//!   flow, hashed ──▶│              ├──▶ CoDel ──▶ link   empty, it goes to the end of the old ones; an old one that is
//!                   └ old  ▢▢▢ ──▶ ┘                     empty is none any more
//! ```
//!
//! New flows come before old ones, so a flow that sends little does not wait behind one that sends much. When the
//! queue's limit is exceeded, the flow with the most bytes loses half of its packets, up to 64, from its head.
//!
//! Flows that hash to one queue share it. CoDel's "less than one packet" counts a flow's own bytes, where Linux counts
//! those of all flows. Turns and lists follow the text of the RFC's draft.

use std::collections::VecDeque;

use softtimers_core::{Random, Timestamp};

use super::codel::{Codel, CodelConfig, Store};

/// The parameters of [FQ-CoDel](super::Aqm::FqCodel).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FqCodelConfig {
    /// The CoDel parameters of each flow.
    pub codel: CodelConfig,
    /// The number of queues that flows are hashed to; 0 counts as 1.
    pub flows: u32,
    /// The bytes that a flow may send in a turn; 0 counts as 1.
    pub quantum: u32,
}

impl Default for FqCodelConfig {
    /// 1,024 queues, 1,514 bytes, and CoDel with 5 ms and 100 ms (RFC 8290, section 5.2), dropping.
    fn default() -> Self {
        FqCodelConfig { codel: CodelConfig::default(), flows: 1_024, quantum: 1_514 }
    }
}

/// Keeps the counts of packets in the queues.
pub(crate) trait Accounts<P> {
    /// Returns the packet's time of arrival.
    fn came(packet: &P) -> Timestamp;

    /// Returns a packet's bytes on the link.
    fn length(&self, packet: &P) -> u64;

    /// Says whether `bytes` are at most one packet of maximum length.
    fn is_short(&self, bytes: u64) -> bool;

    /// Called when a packet has left its queue.
    fn left(&mut self, packet: &P);

    /// Marks a packet, and returns whether it can carry a mark.
    fn mark(&mut self, packet: &mut P) -> bool;

    /// Drops a packet that CoDel has taken out.
    fn discard(&mut self, packet: P);
}

/// The queues of all flows.
#[derive(Clone, Debug)]
pub(crate) struct FqCodel<P> {
    /// Salts the hash that decides which flows share a queue.
    salt: u64,
    flows: Vec<Flow<P>>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: u64,
}

#[derive(Clone, Debug)]
struct Flow<P> {
    queue: VecDeque<P>,
    bytes: u64,
    credits: i64,
    codel: Codel,
    is_active: bool,
}

impl<P> FqCodel<P> {
    pub(crate) fn new(salt: u64, config: &FqCodelConfig) -> Self {
        let flow = || Flow {
            queue: VecDeque::new(),
            bytes: 0,
            credits: 0,
            codel: Codel::default(),
            is_active: false,
        };
        let flows = std::iter::repeat_with(flow).take(config.flows.max(1) as usize).collect();
        FqCodel { salt, flows, new: VecDeque::new(), old: VecDeque::new(), packets: 0 }
    }

    /// Packets that wait in all queues.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Appends a packet to the queue of `flow`.
    pub(crate) fn enqueue(&mut self, config: &FqCodelConfig, flow: u64, bytes: u64, packet: P) {
        let index = Random::stream(self.salt, flow).below(self.flows.len() as u64) as u32;
        let flow = &mut self.flows[index as usize];
        flow.queue.push_back(packet);
        flow.bytes += bytes;
        self.packets += 1;
        if !flow.is_active {
            (flow.is_active, flow.credits) = (true, i64::from(config.quantum.max(1)));
            self.new.push_back(index);
        }
    }

    /// Returns the next packet for the link at `now`, after dropping those that must go before it.
    pub(crate) fn dequeue<A: Accounts<P>>(
        &mut self,
        config: &FqCodelConfig,
        now: Timestamp,
        accounts: &mut A,
    ) -> Option<P> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let index = list.pop_front()?;
            let flow = &mut self.flows[index as usize];
            if flow.credits <= 0 {
                flow.credits += i64::from(config.quantum.max(1));
                self.old.push_back(index);
                continue;
            }
            let mut codel = std::mem::take(&mut flow.codel);
            let mut one = FlowQueue {
                queue: &mut flow.queue,
                bytes: &mut flow.bytes,
                packets: &mut self.packets,
                accounts,
            };
            let packet = codel.dequeue(&config.codel, now, &mut one);
            flow.codel = codel;
            match packet {
                Some(packet) => {
                    flow.credits -= accounts.length(&packet) as i64;
                    if is_new {
                        self.new.push_front(index);
                    } else {
                        self.old.push_front(index);
                    }
                    return Some(packet);
                }
                // Old ones come first, or it would be new again and again.
                None if is_new => self.old.push_back(index),
                None => flow.is_active = false,
            }
        }
    }

    /// Removes half of the packets of the flow with the most bytes, up to 64, from its head.
    pub(crate) fn fattest_half<A: Accounts<P>>(&mut self, accounts: &mut A) -> Vec<P> {
        let Some(flow) = self.flows.iter_mut().rev().max_by_key(|flow| flow.bytes) else { return vec![] };
        let half = flow.queue.len().div_ceil(2).min(BATCH);
        let dropped: Vec<P> = flow.queue.drain(..half).collect();
        flow.bytes -= dropped.iter().map(|packet| accounts.length(packet)).sum::<u64>();
        self.packets -= dropped.len() as u64;
        dropped.iter().for_each(|packet| accounts.left(packet));
        dropped
    }

    /// Returns all waiting packets, in no order.
    pub(crate) fn into_packets(self) -> impl Iterator<Item = P> {
        self.flows.into_iter().flat_map(|flow| flow.queue)
    }
}

/// FlowQueue flow's queue, as its CoDel sees it.
struct FlowQueue<'a, P, A> {
    queue: &'a mut VecDeque<P>,
    bytes: &'a mut u64,
    packets: &'a mut u64,
    accounts: &'a mut A,
}

impl<P, A: Accounts<P>> Store for FlowQueue<'_, P, A> {
    type Packet = P;

    fn pop(&mut self) -> Option<P> {
        let packet = self.queue.pop_front()?;
        *self.bytes -= self.accounts.length(&packet);
        *self.packets -= 1;
        self.accounts.left(&packet);
        Some(packet)
    }

    fn came(packet: &P) -> Timestamp {
        A::came(packet)
    }

    fn is_short(&self) -> bool {
        self.accounts.is_short(*self.bytes)
    }

    fn mark(&mut self, packet: &mut P) -> bool {
        self.accounts.mark(packet)
    }

    fn discard(&mut self, packet: P) {
        self.accounts.discard(packet);
    }
}

/// The most packets dropped at once.
const BATCH: usize = 64;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::super::pseudocode::{Pseudocode, Stamped};
    use super::*;

    /// `(flow, number, when it came, length)`.
    type Packet = (u64, u64, Timestamp, u64);

    /// The longest packet.
    const LONGEST_PACKET: u64 = 1_518;

    #[derive(Default)]
    struct Counted {
        dropped: Vec<Packet>,
        left: u64,
    }

    impl Accounts<Packet> for Counted {
        fn came(packet: &Packet) -> Timestamp {
            packet.2
        }

        fn length(&self, packet: &Packet) -> u64 {
            packet.3
        }

        fn is_short(&self, bytes: u64) -> bool {
            bytes <= LONGEST_PACKET
        }

        fn left(&mut self, _: &Packet) {
            self.left += 1;
        }

        fn mark(&mut self, _: &mut Packet) -> bool {
            false
        }

        fn discard(&mut self, packet: Packet) {
            self.dropped.push(packet);
        }
    }

    fn queue(config: &FqCodelConfig) -> FqCodel<Packet> {
        FqCodel::new(7, config)
    }

    /// A second implementation of enqueueing and dequeueing, in the words of the RFC's sections 4.1 and 4.2: lists of
    /// names, no hash, and the pseudocode of CoDel for each name.
    #[derive(Default)]
    struct Text {
        queues: BTreeMap<u64, (VecDeque<Stamped>, Pseudocode)>,
        credits: BTreeMap<u64, i64>,
        new: Vec<u64>,
        old: Vec<u64>,
        /// The length of each packet so far, by its number.
        lengths: Vec<u64>,
        dropped: Vec<u64>,
    }

    impl Text {
        fn enqueue(&mut self, (name, number, came, length): Packet) {
            self.lengths.push(length);
            self.queues.entry(name).or_default().0.push_back((number, came.as_nanos()));
            if !self.new.contains(&name) && !self.old.contains(&name) {
                self.new.push(name);
                self.credits.insert(name, 1_514);
            }
        }

        fn dequeue(&mut self, now: u64) -> Option<u64> {
            loop {
                let from_new = !self.new.is_empty();
                let name = *self.new.first().or(self.old.first())?;
                let credits = self.credits.get_mut(&name).unwrap();
                if *credits <= 0 {
                    *credits += 1_514;
                    self.new.retain(|&other| other != name);
                    self.old.retain(|&other| other != name);
                    self.old.push(name);
                    continue;
                }
                let (queue, codel) = self.queues.get_mut(&name).unwrap();
                let length = |number: u64| self.lengths[number as usize];
                let is_short = |left: &VecDeque<Stamped>| {
                    left.iter().map(|&(number, _)| length(number)).sum::<u64>() <= LONGEST_PACKET
                };
                if let Some(number) = codel.dequeue(now, queue, &mut self.dropped, is_short) {
                    *credits -= length(number) as i64;
                    return Some(number);
                }
                if from_new {
                    self.new.remove(0);
                    self.old.push(name);
                } else {
                    self.old.remove(0);
                }
            }
        }

        fn waiting(&self) -> u64 {
            self.queues.values().map(|(queue, _)| queue.len()).sum::<usize>() as u64
        }
    }

    #[test]
    fn turns_are_those_of_the_text() {
        let config = FqCodelConfig { flows: 1 << 16, ..FqCodelConfig::default() };
        for seed in 0..10 {
            let mut random = Random::stream(seed, 0);
            let (mut ours, mut theirs, mut counted) = (queue(&config), Text::default(), Counted::default());
            let mut number = 0;
            for step in 0..5_000 {
                // Within the target, so that only the order of turns is compared.
                let now = Timestamp::from_nanos(step);
                if random.below(100) < 52 - step / 1_000 {
                    let packet = (random.below(6), number, now, [60, 700, 1_514][random.below(3) as usize]);
                    number += 1;
                    ours.enqueue(&config, packet.0, packet.3, packet);
                    theirs.enqueue(packet);
                } else {
                    let ours = ours.dequeue(&config, now, &mut counted).map(|packet| packet.1);
                    assert_eq!(ours, theirs.dequeue(step), "seed {seed}");
                }
            }
            assert_eq!((ours.packets(), counted.dropped.len()), (theirs.waiting(), 0));
        }
    }

    /// Six flows: first all of them exceed the link, then one does, then the load is low.
    #[test]
    fn each_flow_loses_what_the_pseudocode_of_its_codel_drops() {
        let config = FqCodelConfig { flows: 1 << 16, ..FqCodelConfig::default() };
        let mut losers = [0; 6];
        for seed in 0..10 {
            let mut random = Random::stream(seed, 0);
            let (mut ours, mut theirs, mut counted) = (queue(&config), Text::default(), Counted::default());
            let (mut now, mut number) = (1, 0);
            for step in 0..20_000 {
                let phase = step / 2_000 % 3;
                for _ in 0..random.below([4, 4, 2][phase as usize]) {
                    let flow = if phase == 1 { random.below(10).saturating_sub(4) } else { random.below(6) };
                    let length = [60, 700, 1_514][random.below(3) as usize];
                    let packet = (flow, number, Timestamp::from_nanos(now), length);
                    number += 1;
                    ours.enqueue(&config, flow, length, packet);
                    theirs.enqueue(packet);
                }
                now += 400_000 + random.below(400_000);
                let taken = ours.dequeue(&config, Timestamp::from_nanos(now), &mut counted);
                assert_eq!(taken.map(|packet| packet.1), theirs.dequeue(now), "seed {seed} at {now}");
                assert_eq!(counted.dropped.len(), theirs.dropped.len(), "seed {seed} at {now}");
            }
            assert!(
                counted.dropped.iter().map(|packet| packet.1).eq(theirs.dropped.iter().copied()),
                "seed {seed}"
            );
            assert_eq!(ours.packets(), theirs.waiting());
            counted.dropped.iter().for_each(|packet| losers[packet.0 as usize] += 1);
        }
        assert!(losers.iter().all(|&lost| lost > 50), "{losers:?}");
    }

    #[test]
    fn a_sparse_flow_does_not_wait_for_a_fat_one() {
        let (config, mut counted) = (FqCodelConfig::default(), Counted::default());
        let mut fair = queue(&config);
        for number in 0..500 {
            fair.enqueue(&config, 1, 1_500, (1, number, Timestamp::ZERO, 1_500));
        }
        for turn in 0..100 {
            let now = Timestamp::from_micros(turn);
            assert_eq!(fair.dequeue(&config, now, &mut counted).map(|packet| packet.0), Some(1));
            if turn % 10 == 9 {
                fair.enqueue(&config, 2, 100, (2, turn, now, 100));
                // The heavy flow has used up its quantum, or not.
                let next: Vec<_> = (0..2).filter_map(|_| fair.dequeue(&config, now, &mut counted)).collect();
                assert!(next.iter().any(|packet| packet.0 == 2), "turn {turn}: {next:?}");
            }
        }
    }

    #[test]
    fn the_fattest_flow_pays_for_the_limit() {
        let (config, mut counted) = (FqCodelConfig::default(), Counted::default());
        let mut fair = queue(&config);
        for number in 0..300 {
            let flow = if number % 10 == 0 { 1 } else { 2 };
            fair.enqueue(&config, flow, 1_000, (flow, number, Timestamp::ZERO, 1_000));
        }
        let dropped = fair.fattest_half(&mut counted);
        assert_eq!((dropped.len(), fair.packets(), counted.left), (64, 236, 64));
        assert!(dropped.iter().all(|packet| packet.0 == 2) && dropped.is_sorted_by_key(|packet| packet.1));
        let mut rest: Vec<_> = fair.into_packets().map(|packet| packet.1).collect();
        rest.sort_unstable();
        assert_eq!(rest.len(), 236);
    }

    /// FlowQueue flow sends twice the link's rate; another sends a packet now and then.
    #[test]
    fn codel_drops_from_the_flow_that_waits() {
        let (config, mut counted) = (FqCodelConfig::default(), Counted::default());
        let (mut fair, mut taken) = (queue(&config), 0);
        for number in 0..20_000 {
            let now = Timestamp::ZERO + Duration::from_micros(500) * number as u32;
            fair.enqueue(&config, 1, 1_500, (1, number, now, 1_500));
            if number % 50 == 0 {
                fair.enqueue(&config, 2, 200, (2, number, now, 200));
            }
            if number % 2 == 0 {
                taken += u64::from(fair.dequeue(&config, now, &mut counted).is_some());
            }
        }
        assert!(counted.dropped.len() > 100 && counted.dropped.iter().all(|packet| packet.0 == 1));
        assert_eq!(taken + counted.dropped.len() as u64 + fair.packets(), 20_400);
        assert_eq!(counted.left, taken + counted.dropped.len() as u64);
    }
}
