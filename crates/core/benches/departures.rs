//! What the departure queue costs for each packet, without sending it: `cargo bench -p softtimers-core
//! --bench departures [-- PACKETS]`.
//!
//! Each flow has an interval of its own between 10 µs and 1 ms, drawn at random, and
//! one packet waiting; each departure is answered by the next packet. Counted is all of it: the turn, the
//! packet that it hands out, the pacing, and the packet that is enqueued. The clock is simulated and
//! goes from one departure to the next (*apart*), or in the steps of a busy server's trigger states, in
//! which many flows leave together (*together*). *Bits* paces lengths at a bit rate.
//!
//! The least of the rounds is what the code costs; the median has what else went on in the machine.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use softtimers_core::pace::queue::{DepartureQueue, FlowConfig, Popped, QueueConfig};
use softtimers_core::{PaceConfig, Rate, Timestamp};

const FLOWS: [u64; 5] = [1, 64, 1_000, 10_000, 100_000];
const ROUNDS: usize = 15;
/// What a busy server's trigger states are apart.
const STEP: Duration = Duration::from_micros(30);

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let packets = arguments.next().map_or(200_000, |argument| argument.parse().expect("a number of packets"));
    println!(
        "| flows | apart: packets a turn | ns a packet, least (median) | together: packets a turn | ns a packet | bits, together: ns a packet |"
    );
    println!("|---|---|---|---|---|---|");
    for flows in FLOWS {
        let apart = measure(&mut queue(flows, false), None, packets);
        let together = measure(&mut queue(flows, false), Some(STEP), packets);
        let bits = measure(&mut queue(flows, true), Some(STEP), packets);
        println!(
            "| {flows} | {:.1} | {apart} | {:.1} | {together} | {bits} |",
            apart.together, together.together
        );
    }
}

struct Cost {
    together: f64,
    least: f64,
    median: f64,
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} ({:.0})", self.least, self.median)
    }
}

fn queue(flows: u64, bits: bool) -> DepartureQueue<u64> {
    let mut queue = DepartureQueue::new(QueueConfig::default());
    let mut random = 1u64;
    for flow in 0..flows {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let nanos = 10_000 + (random >> 33) % 990_000;
        let pace = if bits {
            PaceConfig::bits_per_second(1_200 * 8 * 1_000_000_000 / nanos)
        } else {
            Rate::every(Duration::from_nanos(nanos)).map(PaceConfig::new)
        };
        let id = queue.add_flow(FlowConfig::new(pace.expect("a rate"))).expect("a pace");
        let phase = Timestamp::from_nanos((random >> 20) % nanos);
        queue.enqueue_at(Timestamp::ZERO, id, phase, 1_200, flow).expect("room");
    }
    queue
}

fn measure(queue: &mut DepartureQueue<u64>, step: Option<Duration>, packets: u64) -> Cost {
    let mut now = Timestamp::ZERO;
    run(queue, &mut now, step, packets);
    let mut turns = 0;
    let mut costs: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            #[expect(clippy::disallowed_methods, reason = "a stopwatch; the queue's own time is simulated")]
            let start = Instant::now();
            let (done, in_turns) = run(queue, &mut now, step, packets);
            turns += in_turns;
            start.elapsed().as_nanos() as f64 / done as f64
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    let together = (packets * ROUNDS as u64) as f64 / turns as f64;
    Cost { together, least: costs[0], median: costs[ROUNDS / 2] }
}

/// Lets at least so many packets leave; how many did, and in how many turns that handed out any.
fn run(
    queue: &mut DepartureQueue<u64>,
    now: &mut Timestamp,
    step: Option<Duration>,
    packets: u64,
) -> (u64, u64) {
    let (mut done, mut turns) = (0, 0);
    while done < packets {
        *now = match step {
            Some(step) => *now + step,
            None => queue.next_due().expect("each flow has a packet waiting"),
        };
        let before = done;
        let turn = queue.turn(*now);
        while let Some(popped) = queue.pop_due(&turn) {
            let Popped::Departure(departure) = black_box(popped) else { continue };
            queue.enqueue(*now, departure.flow, departure.bytes, departure.token).expect("room");
            done += 1;
        }
        turns += u64::from(done > before);
    }
    (done, turns)
}
