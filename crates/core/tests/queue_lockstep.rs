//! The departure queue and its model side by side: random flows, packets, rates, limits and turns that are
//! cut short, and after every operation the same packets, places, times and counts.

mod queue_model;

use core::time::Duration;

use proptest::prelude::*;
use queue_model::{Model, ModelConfig, ModelFlow, ModelPopped, ModelQuantum};
use softtimers_core::queue::{
    Departure, DepartureQueue, FlowConfig, FlowId, FlowStats, Limits, Popped, Quantum, QueueConfig, Reject,
};
use softtimers_core::{CatchUp, Counts, PaceConfig, Rate, Timestamp};

#[derive(Clone, Debug)]
enum Op {
    Add(ModelConfig),
    Remove(usize),
    Enqueue {
        pick: usize,
        not_before: u64,
        bytes: u32,
        packets: u32,
    },
    SetRate {
        pick: usize,
        interval: u64,
    },
    Restart(usize),
    /// Takes one of the latest packets out, if it waits in that flow.
    RemovePacket(usize, u32),
    Advance(u64),
    /// To the time at which the queue wants to be looked at, and that much later.
    Sleep(u64),
    Turn {
        take: usize,
        answers: u8,
    },
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn nanos(nanos: u64) -> Duration {
    if nanos == u64::MAX { Duration::MAX } else { Duration::from_nanos(nanos) }
}

fn intervals() -> impl Strategy<Value = u64> {
    prop_oneof![1u64..50, 50u64..5_000, 5_000u64..200_000]
}

fn configs() -> impl Strategy<Value = ModelConfig> {
    let quantum = prop_oneof![
        4 => Just((1, u64::from(u32::MAX), 0, false)),
        3 => (1u64..6, 1u64..5_000, 0u64..400_000, any::<bool>()),
    ]
    .prop_map(|(packets, bytes, time, alike)| ModelQuantum { packets, bytes, time, alike });
    let burst = prop::option::of(0u64..=100);
    let waits = prop_oneof![2 => Just(u64::MAX), 1 => 0u64..2_000_000];
    (intervals(), any::<bool>(), burst, 0u64..2_000_000, quantum, 1usize..12, waits).prop_map(
        |(interval, by_bytes, burst, catch_up, quantum, most_packets, longest_wait)| ModelConfig {
            interval,
            by_bytes,
            burst: burst.map(|percent| interval * percent / 100),
            catch_up,
            quantum,
            most_packets,
            longest_wait,
        },
    )
}

fn ops() -> impl Strategy<Value = Op> {
    let steps = prop_oneof![0u64..3, 0u64..3_000, 0u64..200_000, Just(50_000_000)];
    prop_oneof![
        2 => configs().prop_map(Op::Add),
        1 => any::<usize>().prop_map(Op::Remove),
        6 => (any::<usize>(), prop_oneof![3 => Just(0u64), 1 => 0u64..300_000], prop_oneof![Just(1_000u32), 0u32..1_500], 1u32..6)
            .prop_map(|(pick, not_before, bytes, packets)| Op::Enqueue { pick, not_before, bytes, packets }),
        2 => (any::<usize>(), intervals()).prop_map(|(pick, interval)| Op::SetRate { pick, interval }),
        1 => any::<usize>().prop_map(Op::Restart),
        2 => (any::<usize>(), 0u32..12).prop_map(|(pick, back)| Op::RemovePacket(pick, back)),
        2 => steps.clone().prop_map(Op::Advance),
        4 => prop_oneof![3 => Just(0u64), 1 => steps].prop_map(Op::Sleep),
        6 => (prop_oneof![2 => Just(usize::MAX), 1 => 0usize..4], 0u8..4)
            .prop_map(|(take, answers)| Op::Turn { take, answers }),
    ]
}

struct Pair {
    queue: DepartureQueue<u32>,
    model: Model,
    ids: Vec<FlowId>,
    now: u64,
    token: u32,
    /// For each flow: when its last packet left, and whether the next one leaves together with it.
    left: Vec<Option<(u64, bool)>>,
    popped: u64,
    removed: u64,
    /// The counts seen of the queue, to hold its own against; and of each flow.
    seen: Account,
    seen_of: Vec<Account>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Account {
    enqueued: u64,
    refused: u64,
    sent: u64,
    sent_bytes: u64,
    expired: u64,
}

impl Pair {
    fn new() -> Self {
        let queue = DepartureQueue::new(QueueConfig::default());
        Pair {
            queue,
            model: Model::default(),
            ids: vec![],
            now: 1_000,
            token: 0,
            left: vec![],
            popped: 0,
            removed: 0,
            seen: Account::default(),
            seen_of: vec![],
        }
    }

    fn pick(&self, pick: usize) -> Option<usize> {
        let flows: Vec<usize> =
            (0..self.ids.len()).filter(|&flow| self.model.flows[flow].is_some()).collect();
        (!flows.is_empty()).then(|| flows[pick % flows.len()])
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Add(config) => self.add(config),
            Op::Remove(pick) => self.remove(pick),
            Op::Enqueue { pick, not_before, bytes, packets } => {
                if let Some(flow) = self.pick(pick) {
                    (0..packets).for_each(|_| self.enqueue(flow, self.now + not_before, bytes));
                }
            }
            Op::SetRate { pick, interval } => {
                if let Some(flow) = self.pick(pick) {
                    let rate = Rate::every(nanos(interval)).unwrap();
                    self.queue.set_rate(at(self.now), self.ids[flow], rate).unwrap();
                    self.model.set_rate(self.now, flow, interval);
                    self.left[flow] = self.left[flow].map(|(when, _)| (when, false));
                }
            }
            Op::Restart(pick) => {
                if let Some(flow) = self.pick(pick) {
                    self.queue.restart(at(self.now), self.ids[flow]).unwrap();
                    self.model.restart(self.now, flow);
                    self.left[flow] = self.left[flow].map(|(when, _)| (when, false));
                }
            }
            Op::RemovePacket(pick, back) => {
                if let Some(flow) = self.pick(pick) {
                    self.remove_packet(flow, self.token.saturating_sub(back));
                }
            }
            Op::Advance(step) => self.now += step,
            Op::Sleep(late) => {
                let until = self.queue.poll_at().map_or(self.now, Timestamp::as_nanos);
                self.now = self.now.max(until) + late;
            }
            Op::Turn { take, answers } => self.turn(take, answers),
        }
        self.agree();
    }

    fn add(&mut self, config: ModelConfig) {
        let ModelConfig { interval, by_bytes, burst, catch_up, quantum, most_packets, longest_wait } = config;
        let pace = PaceConfig {
            counts: if by_bytes { Counts::Bytes } else { Counts::Packets },
            burst_interval: burst.map(nanos),
            catch_up: CatchUp::within(nanos(catch_up)),
            ..PaceConfig::new(Rate::every(nanos(interval)).unwrap())
        };
        let ModelQuantum { packets, bytes, time, alike } = quantum;
        let quantum = Quantum { packets: packets as u32, bytes: bytes as u32, time: nanos(time), alike };
        let limits = Limits { packets: most_packets as u32, bytes: u64::MAX, delay: nanos(longest_wait) };
        self.ids.push(self.queue.add_flow(FlowConfig { pace, quantum, limits }).unwrap());
        self.model.add(config);
        self.left.push(None);
        self.seen_of.push(Account::default());
    }

    fn remove(&mut self, pick: usize) {
        let Some(flow) = self.pick(pick) else { return };
        let removed: Vec<u32> = self.queue.remove_flow(self.ids[flow]).unwrap().collect();
        self.removed += removed.len() as u64;
        assert_eq!(removed, self.model.remove(flow));
        assert!(self.queue.remove_flow(self.ids[flow]).is_none());
        let refused = self.queue.enqueue(at(self.now), self.ids[flow], 1, 7).unwrap_err();
        self.model.see(self.now);
        self.seen.refused += 1;
        assert_eq!((refused.reason, refused.token), (Reject::NoSuchFlow, 7));
    }

    fn remove_packet(&mut self, flow: usize, token: u32) {
        let removed = self.queue.remove_packet(self.ids[flow], |other| *other == token);
        assert_eq!(removed, self.model.remove_packet(flow, token).then_some(token));
        if removed.is_some() {
            self.removed += 1;
            self.seen_of[flow].enqueued -= 1;
            self.left[flow] = self.left[flow].map(|(when, _)| (when, false));
        }
    }

    fn enqueue(&mut self, flow: usize, not_before: u64, bytes: u32) {
        self.token += 1;
        let enqueued = self.queue.enqueue_at(at(self.now), self.ids[flow], at(not_before), bytes, self.token);
        let accepted = self.model.enqueue(self.now, flow, not_before, u64::from(bytes), self.token);
        assert_eq!(enqueued.is_ok(), accepted, "{enqueued:?}");
        for seen in [&mut self.seen, &mut self.seen_of[flow]] {
            seen.enqueued += u64::from(accepted);
            seen.refused += u64::from(!accepted);
        }
        if let Err(refused) = enqueued {
            assert_eq!(refused.token, self.token);
        }
    }

    /// As in a loop: a turn, some of its packets, and answers that are enqueued meanwhile.
    fn turn(&mut self, take: usize, mut answers: u8) {
        let turn = self.queue.turn(at(self.now));
        let model_turn = self.model.turn(self.now);
        self.left.iter_mut().flatten().for_each(|(_, more)| *more = false);
        let mut taken = 0;
        while taken < take {
            // Of what left before: afterwards the model knows only what leaves now.
            let shortest = self
                .model
                .first()
                .map_or(0, |(_, flow)| self.model.flows[flow].as_ref().map_or(0, ModelFlow::shortest));
            let expected = self.model.pop(model_turn);
            let popped = self.queue.pop_due(&turn);
            let as_model = popped.map(|popped| match popped {
                Popped::Departure(Departure { flow, token, bytes, place, more, lateness, .. }) => {
                    assert_eq!(lateness, nanos(self.now.saturating_sub(place.as_nanos())));
                    let of = self.index(flow);
                    for seen in [&mut self.seen, &mut self.seen_of[of]] {
                        seen.sent += 1;
                        seen.sent_bytes += u64::from(bytes);
                    }
                    ModelPopped::Departure { flow: self.index(flow), token, place: place.as_nanos(), more }
                }
                Popped::Expired { flow, token, waited, .. } => {
                    let of = self.index(flow);
                    self.seen.expired += 1;
                    self.seen_of[of].expired += 1;
                    ModelPopped::Expired { flow: self.index(flow), token, waited: waited.as_nanos() as u64 }
                }
            });
            assert_eq!(as_model, expected);
            let Some(popped) = as_model else { break };
            self.popped += 1;
            taken += 1;
            assert!(taken <= 12 * self.ids.len() * 4, "the turn does not end");
            if let ModelPopped::Departure { flow, more, .. } = popped {
                self.check_gap(flow, more, shortest);
                if answers > 0 {
                    answers -= 1;
                    self.enqueue(flow, self.now, 500);
                }
            }
        }
    }

    fn index(&self, id: FlowId) -> usize {
        let same = |&flow: &usize| self.ids[flow] == id && self.model.flows[flow].is_some();
        (0..self.ids.len()).rev().find(same).expect("a packet of a flow that does not exist")
    }

    /// Never sooner after what left last than its burst interval, at the rate of now.
    fn check_gap(&mut self, flow: usize, more: bool, shortest: u64) {
        if let Some((when, false)) = self.left[flow] {
            assert!(self.now - when >= shortest, "flow {flow}: {} after the last", self.now - when);
        }
        self.left[flow] = Some((self.now, more));
    }

    fn agree(&self) {
        let poll_at = self.model.first().map(|((release, _), _)| at(release));
        assert_eq!(self.queue.poll_at(), poll_at);
        let stats = self.queue.stats();
        assert_eq!(self.queue.len(), self.model.waiting());
        let Account { enqueued, refused, sent, expired, .. } = self.seen;
        assert_eq!(
            (stats.enqueued, stats.refused, stats.sent, stats.expired),
            (enqueued, refused, sent, expired)
        );
        assert_eq!(stats.sent + stats.expired, self.popped);
        assert_eq!(stats.removed, self.removed);
        assert_eq!(stats.enqueued, stats.sent + stats.expired + stats.removed + u64::from(stats.waiting));
        for ((flow, id), seen) in self.model.flows.iter().zip(&self.ids).zip(&self.seen_of) {
            let stats = self.queue.flow_stats(*id);
            assert_eq!(stats.is_some(), flow.is_some());
            if let (Some(stats), Some(flow)) = (stats, flow) {
                assert_eq!(stats.waiting as usize, flow.waiting.len());
                assert_eq!(stats.enqueued, stats.sent + stats.expired + u64::from(stats.waiting));
                let FlowStats { enqueued, refused, sent, sent_bytes, expired, .. } = stats;
                assert_eq!(&Account { enqueued, refused, sent, sent_bytes, expired }, seen);
                let waiting_bytes = flow.waiting.iter().map(|packet| packet.bytes).sum::<u64>();
                assert_eq!(stats.waiting_bytes, waiting_bytes);
                assert_eq!(stats.forfeited, flow.forfeited);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 8 } else { 400 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Each packet, its place, those that leave with it and the next time that one may leave are as the rules say. Gaps
    /// of at least the burst interval, also across changes of the rate; first in, first out; turns that end; and what
    /// was enqueued is waiting, sent, expired or removed.
    #[test]
    fn the_queue_does_what_its_rules_say(ops in prop::collection::vec(ops(), 1..200)) {
        let mut pair = Pair::new();
        ops.into_iter().for_each(|op| pair.apply(op));
    }
}
