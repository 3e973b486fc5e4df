//! What others wait for: a computation next to packets, the first packet of a burst.

use softtimers_trials::bar::Bar;
use softtimers_trials::paired::Paired;
use softtimers_trials::result::Table;

use super::curve::trial;
use super::trial::{Offer, Rig};
use crate::bench::Done;
use crate::figures;

/// Polling next to a computation, up to 100,000 packets a second, with five wanted per poll; and wake-ups.
pub(super) fn compute(rig: &Rig) -> Done<Vec<Table>> {
    let figures = [
        (KEPT, 1, "kept", 100.0),
        ("received/s", 0, "received_pps", 1.0),
        (P50, 1, "latency_ns.p50", 1e-3),
        (P99, 1, "latency_ns.p99", 1e-3),
        ("deviation µs", 1, "latency_ns.stddev", 1e-3),
    ];
    let (rates, ways) = ([1_000.0, 20_000.0, 100_000.0], ["poll", "hybrid", "wake-up"]);
    let row = |driver: &str, rate: f64, way: &str| format!("{driver}, {rate}/s, {way}");
    // The rounds are the receiver's turns.
    let turns = rig.either(rig.rounds(60), 20);
    let measured =
        Paired::new(1).beside_others().contest(&rates, &mut DRIVERS.clone(), |&rate, driver, round| {
            // Four turns of 50 ms a round, and some time to begin and to end.
            let offer = Offer::steady(rate, 200 * turns as u64 + 600);
            let words = format!("compute r0 --driver {driver} --rounds {turns}");
            let (found, _) = rig.received(&words, &[(0, offer)])?;
            ways.iter().for_each(|way| figures::put(round, &row(driver, rate, way), &found[way], &figures));
            anyhow::Ok(())
        })?;
    let rows = DRIVERS
        .iter()
        .flat_map(|driver| rates.iter().flat_map(move |&rate| ways.map(|way| row(driver, rate, way))));
    let mut table = figures::table("compute", &measured, rows, &figures);
    for driver in DRIVERS {
        let figure = format!("computation beside 100,000 packets/s, {driver}, polled: work kept, %");
        let kept = measured.estimate(&row(driver, 100_000.0, "poll"), KEPT);
        table.bar(Bar::at_least(figure, 95.0, kept));
    }
    Ok(vec![table])
}

/// Measures how long the first packet of a burst takes: if the others are received first, it waits for all of them
/// (livelock §4.3).
pub(super) fn bursts(rig: &Rig) -> Done<Vec<Table>> {
    let figures = [(P50, 1, "first_ns.p50", 1e-3), (P99, 1, "first_ns.p99", 1e-3)];
    let sizes: &[u32] = rig.either(&[1, 4, 16, 64], &[1, 16]);
    let mut kinds = ["naive", POLLED, "completion --mode interrupt --quota 1"];
    let row = |kind: &str, burst: u32| format!("{kind}, bursts of {burst}");
    let paired = Paired::new(rig.rounds(9)).beside_others();
    let measured = paired.contest(sizes, &mut kinds, |&burst, kind, round| {
        let offer = Offer { burst, ..Offer::steady(RATE, 2_000) };
        let found = trial(rig, DRIVERS[0], &format!("--kind {kind} --burst {burst}"), offer)?;
        figures::put(round, &row(kind, burst), &found, &figures);
        anyhow::Ok(())
    })?;
    let rows = kinds.iter().flat_map(|kind| sizes.iter().map(|&burst| row(kind, burst)));
    let mut table = figures::table("bursts", &measured, rows, &figures);
    let (least, most) = (sizes[0], sizes[sizes.len() - 1]);
    for kind in kinds {
        let p50 = |burst| measured.median(&row(kind, burst), P50).unwrap_or(f64::NAN);
        let slope = (p50(most) - p50(least)) / f64::from(most - least);
        table.note(format!("{kind}: {slope:.2} µs for each further packet of a burst"));
    }
    for &burst in sizes.iter().filter(|&&size| size >= 16) {
        let ratio = measured.ratio(P50, &row(POLLED, burst), &row("naive", burst));
        table.bar(Bar::at_most(
            format!("first packet of {burst}: p50, polled against naive, in pairs"),
            1.0,
            ratio,
        ));
    }
    Ok(vec![table])
}

const DRIVERS: [&str; 2] = ["packet", "xdp"];
const KEPT: &str = "work kept %";
const P50: &str = "p50 µs";
const P99: &str = "p99 µs";
/// For all sizes of bursts, and far below the capacity: with a constant rate of bursts the long ones would wait for
/// each other.
const RATE: f64 = 4_000.0;
/// The poller with its defaults: a quota of 64, of which the first turn of a burst has a few.
const POLLED: &str = "completion --mode interrupt";
