//! The departure queue's cost for each packet, without sending it: `cargo bench -p softtimers-core
//! --bench departures [-- PACKETS [FLOWS]...]`.
//!
//! Each flow has an interval of its own between 10 µs and 1 ms, drawn at random. The clock is simulated: it goes
//! from one departure to the next (*apart*), or in the steps of a busy server's trigger states, in which many
//! flows leave together (*together*; *bits* is that with lengths paced at a bit rate). At 10,000 flows that
//! makes 47 departures each microsecond, more than any machine sends: it is the most expensive mix there is,
//! because a flow has left the nearest cache by its next turn.
//!
//! | column | a packet is |
//! |---|---|
//! | pop + enqueue | the lookup of the next time; the turn; the packet handed out with its scheduled time and lateness; the time of its flow's next one, inserted; the counts; and the next packet enqueued in answer. One waits in each flow, so that each departure empties its flow and each answer fills it and inserts it again |
//! | pop | the same without the answer: packets wait in all flows, and more are enqueued off the watch |
//! | heap | the alternative without a queue, a `BinaryHeap` of (time, flow): peek at the first, and sink it to its flow's next time. No packets, no burst interval, no catching up, no limits, no order among equal times, no counts |
//!
//! The three take turns. The fastest round is the cost of the code; the median includes interference from the
//! rest of the machine. A round begins when the caches are warm, and one that allocates panics.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use softtimers_core::queue::{Departure, DepartureQueue, FlowConfig, FlowId, Limits, Popped, QueueConfig};
use softtimers_core::{PaceConfig, Random, Rate, Timestamp};

const FLOWS: [u64; 5] = [1, 64, 1_000, 10_000, 100_000];
const ROUNDS: usize = 31;
/// The time between a busy server's trigger states, in nanoseconds.
const STEP: u64 = 30_000;
const LENGTH: u32 = 1_200;

fn main() {
    let arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let numbers: Vec<u64> = arguments.map(|argument| argument.parse().expect("a number")).collect();
    let packets = numbers.first().copied().unwrap_or(20_000);
    let flows = if numbers.len() > 1 { &numbers[1..] } else { &FLOWS };
    println!("ns a packet: least (median) of {ROUNDS} rounds of {packets} packets\n");
    println!("| flows | clock | packets a turn | heap | pop + enqueue | heaps | pop | heaps |");
    println!("|---|---|---|---|---|---|---|---|");
    for &flows in flows {
        for mode in [Mode::Apart, Mode::Together, Mode::Bits] {
            compare(flows, mode, packets);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Apart,
    Together,
    Bits,
}

fn compare(flows: u64, mode: Mode, packets: u64) {
    let step = (mode != Mode::Apart).then_some(STEP);
    let mut heap = Watched::new(Heap::new(flows), step, packets);
    let mut answered = Watched::new(Answered(queue(flows, 1, mode).0), step, packets);
    let mut backlog = Watched::new(Backlog::new(flows, mode), step, packets);
    for round in 0..=ROUNDS {
        let rounds = || {
            heap.round();
            answered.round();
            backlog.round();
        };
        let allocated = allocation_counter::measure(rounds);
        assert!(round == 0 || allocated.count_total == 0, "{flows} flows, {mode:?}: a round allocated");
    }
    let together = answered.done as f64 / answered.turns as f64;
    let (heap, answered, backlog) = (heap.cost(), answered.cost(), backlog.cost());
    println!(
        "| {flows} | {mode:?} | {together:.1} | {heap} | {answered} | {:.2} | {backlog} | {:.2} |",
        answered.least / heap.least,
        backlog.least / heap.least
    );
}

/// Something that decides which flow leaves next.
trait Contender {
    fn flows(&self) -> u64;
    /// The earliest departure, in nanoseconds.
    fn next(&self) -> u64;
    /// Sends the due packets; returns their number.
    fn turn(&mut self, now: u64) -> u64;
    /// The number that may leave between two refills.
    fn chunk(&self) -> u64 {
        u64::MAX
    }
    /// Refills while the watch is stopped.
    fn refill(&mut self) {}
}

/// One contender, its simulated clock, and what its rounds have cost.
struct Watched<C> {
    contender: C,
    now: u64,
    step: Option<u64>,
    packets: u64,
    costs: [f64; ROUNDS],
    rounds: usize,
    done: u64,
    turns: u64,
}

impl<C: Contender> Watched<C> {
    fn new(contender: C, step: Option<u64>, packets: u64) -> Self {
        Watched { contender, now: 0, step, packets, costs: [0.0; ROUNDS], rounds: 0, done: 0, turns: 0 }
    }

    /// Lets at least `packets` packets leave. The first round does not count.
    fn round(&mut self) {
        self.warm();
        let (mut took, mut done) = (Duration::ZERO, 0);
        while done < self.packets {
            #[expect(clippy::disallowed_methods, reason = "a stopwatch; the queue's own time is simulated")]
            let start = Instant::now();
            let (left, turns) = self.some(self.packets.min(self.contender.chunk()));
            took += start.elapsed();
            done += left;
            self.contender.refill();
            (self.done, self.turns) = (self.done + left, self.turns + turns);
        }
        if self.rounds > 0 {
            self.costs[self.rounds - 1] = took.as_nanos() as f64 / done as f64;
        }
        self.rounds += 1;
    }

    /// Refills the caches that the other contenders displaced, off the watch.
    fn warm(&mut self) {
        let (mut left, chunk) = (3 * self.contender.flows(), self.contender.chunk());
        while left > 0 {
            let (done, _) = self.some(left.min(chunk));
            left = left.saturating_sub(done);
            self.contender.refill();
        }
    }

    /// Lets at least `packets` packets leave. Returns how many left, and in how many turns that found any.
    fn some(&mut self, packets: u64) -> (u64, u64) {
        let (mut done, mut turns) = (0, 0);
        while done < packets {
            self.now = match self.step {
                Some(step) => self.now + step,
                None => self.contender.next(),
            };
            let left = self.contender.turn(self.now);
            done += left;
            turns += u64::from(left > 0);
        }
        (done, turns)
    }

    fn cost(mut self) -> Cost {
        self.costs.sort_by(f64::total_cmp);
        Cost { least: self.costs[0], median: self.costs[ROUNDS / 2] }
    }
}

struct Cost {
    least: f64,
    median: f64,
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} ({:.0})", self.least, self.median)
    }
}

struct Heap {
    order: BinaryHeap<Reverse<(u64, u32)>>,
    intervals: Vec<u64>,
}

impl Heap {
    fn new(flows: u64) -> Self {
        let (intervals, phases): (Vec<u64>, Vec<u64>) = intervals(flows).unzip();
        let order = phases.into_iter().zip(0..).map(Reverse).collect();
        Heap { order, intervals }
    }
}

impl Contender for Heap {
    fn flows(&self) -> u64 {
        self.intervals.len() as u64
    }

    fn next(&self) -> u64 {
        self.order.peek().map_or(u64::MAX, |Reverse((time, _))| *time)
    }

    fn turn(&mut self, now: u64) -> u64 {
        let mut left = 0;
        while self.next() <= now {
            let Some(mut first) = self.order.peek_mut() else { break };
            let Reverse((time, flow)) = *first;
            // Where the interval is shorter than a step, the next one is in the next turn, as in the queue.
            let next = time + self.intervals[black_box(flow) as usize];
            *first = Reverse((next.max(now + 1), flow));
            left += 1;
        }
        left
    }
}

/// Each departure is answered by the flow's next packet.
struct Answered(DepartureQueue<u64>);

impl Contender for Answered {
    fn flows(&self) -> u64 {
        u64::from(self.0.stats().flows)
    }

    fn next(&self) -> u64 {
        self.0.next_due().map_or(u64::MAX, Timestamp::as_nanos)
    }

    fn turn(&mut self, now: u64) -> u64 {
        let now = Timestamp::from_nanos(now);
        let turn = self.0.turn(now);
        let mut left = 0;
        while let Some(popped) = self.0.pop_due(&turn) {
            let (flow, token) = departure(popped);
            self.0.enqueue(now, flow, LENGTH, token).expect("room");
            left += 1;
        }
        left
    }
}

/// Packets wait in each flow.
struct Backlog {
    queue: DepartureQueue<u64>,
    ids: Vec<FlowId>,
    depth: u64,
}

impl Backlog {
    fn new(flows: u64, mode: Mode) -> Self {
        let depth = (8_192 / flows).max(4);
        let (queue, ids) = queue(flows, depth, mode);
        Backlog { queue, ids, depth }
    }
}

impl Contender for Backlog {
    fn flows(&self) -> u64 {
        self.ids.len() as u64
    }

    fn next(&self) -> u64 {
        self.queue.next_due().map_or(u64::MAX, Timestamp::as_nanos)
    }

    fn turn(&mut self, now: u64) -> u64 {
        let turn = self.queue.turn(Timestamp::from_nanos(now));
        let mut left = 0;
        while let Some(popped) = self.queue.pop_due(&turn) {
            departure(popped);
            left += 1;
        }
        left
    }

    /// Small enough that even the fastest flows hardly run out.
    fn chunk(&self) -> u64 {
        (self.ids.len() as u64 * self.depth / 32).max(1)
    }

    fn refill(&mut self) {
        for (token, &flow) in self.ids.iter().enumerate() {
            let waiting = self.queue.flow_stats(flow).map_or(0, |stats| u64::from(stats.waiting));
            for _ in waiting..self.depth {
                self.queue.enqueue(Timestamp::ZERO, flow, LENGTH, token as u64).expect("room");
            }
        }
    }
}

/// The parts that a sender needs: the flow, and the token.
#[inline]
fn departure(popped: Popped<u64>) -> (FlowId, u64) {
    match popped {
        Popped::Departure(Departure { flow, token, lateness, .. }) => {
            black_box((token, lateness));
            (flow, token)
        }
        expired @ Popped::Expired { .. } => unreachable!("{expired:?}"),
    }
}

fn queue(flows: u64, depth: u64, mode: Mode) -> (DepartureQueue<u64>, Vec<FlowId>) {
    let mut queue = DepartureQueue::new(QueueConfig::default());
    let flow = |(token, (nanos, phase))| {
        let pace = if mode == Mode::Bits {
            PaceConfig::bits_per_second(u64::from(LENGTH) * 8 * 1_000_000_000 / nanos)
        } else {
            Rate::every(Duration::from_nanos(nanos)).map(PaceConfig::new)
        };
        let limits = Limits { packets: u32::MAX, ..Limits::default() };
        let config = FlowConfig { limits, ..FlowConfig::new(pace.expect("a rate")) };
        let id = queue.add_flow(config).expect("a pace");
        let phase = Timestamp::from_nanos(phase);
        for _ in 0..depth {
            queue.enqueue_at(Timestamp::ZERO, id, phase, LENGTH, token).expect("room");
        }
        id
    };
    let ids = (0..).zip(intervals(flows)).map(flow).collect();
    (queue, ids)
}

/// For each flow its interval and when it begins, in nanoseconds.
fn intervals(flows: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut random = Random::stream(1, 0);
    (0..flows).map(move |_| {
        let nanos = 10_000 + random.below(990_000);
        (nanos, random.below(nanos))
    })
}
