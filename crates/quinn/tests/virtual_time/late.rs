//! Programs that run late, as on a busy machine: what was not sent meanwhile is made up, in trains that a short
//! queue holds, and with no more transmits than quinn's own.

use std::time::Duration;

use softtimers_core::Timestamp;

use crate::network::{Kind, Link, Network};
use crate::peer::Lateness;

/// Each wake-up is late by 50 µs in the mean.
const BUSY: Lateness = Lateness { wake_up: Duration::from_micros(50), ..Lateness::NONE };
/// And for 2 ms of each 22 the program does not run.
const STOPPED: Lateness =
    Lateness { stall: Duration::from_millis(2), every: Duration::from_millis(20), ..BUSY };

/// Means over seeds.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Mbit/s.
    goodput: f64,
    /// Percent.
    drops: f64,
    /// For each megabyte.
    transmits: f64,
}

/// Ten megabytes from a sender and to a receiver that are so late: stock's figures, and those of even.
fn contest(link: Link, [sender, receiver]: [Lateness; 2]) -> [Seen; 2] {
    const MEGABYTES: f64 = 10.0;
    const SEEDS: u64 = 8;
    let seen = [Kind::Stock, Kind::Both].map(|kind| {
        let mut seen = Seen::default();
        for seed in 0..SEEDS {
            let mut network = Network::new(link, seed);
            network.open(kind, Duration::ZERO, (MEGABYTES * 1e6) as u64);
            network.late(sender, receiver);
            network.run_to_end(Duration::from_secs(60));
            let flow = &network.flows[0];
            let took = flow.finished.unwrap_or(Timestamp::MAX).saturating_duration_since(Timestamp::ZERO);
            seen.goodput += MEGABYTES * 8.0 / took.as_secs_f64() / SEEDS as f64;
            seen.drops += flow.drops() / SEEDS as f64;
            seen.transmits += flow.sender.transmits as f64 / MEGABYTES / SEEDS as f64;
        }
        seen
    });
    println!("{link:?}: stock {:?}, even {:?}", seen[0], seen[1]);
    seen
}

/// A schedule that gains time with each early release runs ahead of the link after a stall, and overruns its queue.
#[test]
fn a_stall_is_made_up_without_a_burst() {
    for lateness in [[STOPPED, BUSY], [STOPPED, STOPPED]] {
        let [stock, even] = contest(Link::new(100, 20, 20), lateness);
        assert!(even.goodput >= stock.goodput * 1.15, "{even:?}, {stock:?}");
        assert!(even.drops <= stock.drops / 10.0, "{even:?}, {stock:?}");
    }
}

/// A window that counts what waits at the gate lets two packets leave with each ACK.
#[test]
fn late_wake_ups_cost_fewer_transmits_than_quinns_own() {
    for link in [Link::new(100, 20, 20), Link::new(300, 30, 20)] {
        let [stock, even] = contest(link, [BUSY; 2]);
        assert!(even.transmits <= stock.transmits * 0.9, "{even:?}, {stock:?}");
        assert!(
            even.goodput >= stock.goodput * 1.15 && even.drops <= stock.drops / 5.0,
            "{even:?}, {stock:?}"
        );
    }
}

/// Late wake-ups make each train's rate wrong, and slow start's losses are found after its end: neither leaves the link half used.
#[test]
fn a_fast_path_is_filled_in_long_trains() {
    let [stock, even] = contest(Link::new(300, 30, 20), [BUSY; 2]);
    assert!(even.goodput >= stock.goodput * 1.4, "{even:?}, {stock:?}");
    assert!(even.transmits <= stock.transmits * 0.75, "{even:?}, {stock:?}");
}

#[test]
fn a_deep_queue_stays_empty() {
    let [stock, even] = contest(Link::new(100, 500, 20), [BUSY; 2]);
    assert!(even.goodput >= stock.goodput * 0.97 && even.drops == 0.0, "{even:?}, {stock:?}");
}
