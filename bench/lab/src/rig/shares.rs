//! The shares of others: a computation next to packets, sources next to a flooded one, programs next to a limited
//! forwarder, the first packet of a burst.

use softtimers_trials::bar::Bar;
use softtimers_trials::paired::Paired;
use softtimers_trials::result::Table;

use super::curve::{RULES, capacity, trial};
use super::trial::{Amount, Offer, Rig};
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
    let turns = rig.of(rig.rounds(60), 20);
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

/// One of four is flooded with twice the total capacity; the others have a low load, and lose none of it.
pub(super) fn sources(rig: &Rig) -> Done<Vec<Table>> {
    let figures = [
        ("sent", 0, "sent", 1.0),
        ("received", 0, "received", 1.0),
        ("dropped in the ring", 0, "ring", 1.0),
        ("at the interface", 0, "interface", 1.0),
    ];
    let millis = rig.of(4_000u32, 1_000);
    let row = |driver: &str, place: usize| match place {
        0 => format!("{driver}, flooded"),
        _ => format!("{driver}, other {place}"),
    };
    let paired = Paired::new(rig.rounds(1)).beside_others();
    let measured = paired.contest(&[()], &mut DRIVERS.clone(), |(), driver, round| {
        let flood = 2.0 * capacity(rig, driver)?;
        let offer = |rate| Offer {
            amount: Amount::Packets((rate * f64::from(millis) / 1e3) as u64),
            ..Offer::steady(rate, 0)
        };
        let offers: Vec<_> =
            (0..4).map(|place| (place, offer(if place == 0 { flood } else { 2_000.0 }))).collect();
        // The generators share a CPU, and are late.
        let length = 2 * millis + 2_000;
        let words = format!("sources r0 r1 r2 r3 --driver {driver} --rules {RULES} --duration {length}ms");
        let (mut found, offered) = rig.received(&words, &offers)?;
        let mut lost = 0.0;
        for (place, offered) in offered.iter().enumerate() {
            found[place]["sent"] = offered.sent.into();
            figures::put(round, &row(driver, place), &found[place], &figures);
            let received = figures::at(&found[place], "received").unwrap_or(0.0);
            lost += if place > 0 { (offered.sent as f64 - received).max(0.0) } else { 0.0 };
        }
        round.put(driver, LOST, lost);
        anyhow::Ok(())
    })?;
    let rows = DRIVERS.iter().flat_map(|driver| (0..4).map(move |place| row(driver, place)));
    let mut table = figures::table("sources", &measured, rows, &figures);
    for driver in DRIVERS {
        let figure = format!("four sources, {driver}, one flooded: lost of the others'");
        table.bar(Bar::at_most(figure, 0.0, measured.estimate(driver, LOST)));
    }
    Ok(vec![table])
}

/// The CPU limit: what a computation next to it gets, against the offered load (livelock, figure 7-1).
pub(super) fn limit(rig: &Rig) -> Done<Vec<Table>> {
    let figures = [
        ("offered kpps", 1, "offered_pps", 1e-3),
        ("delivered kpps", 1, "delivered_pps", 1e-3),
        (CPU, 1, "cpu_share", 100.0),
        ("the other's share %", 1, "beside_share", 100.0),
    ];
    let multiples: &[f64] = rig.of(&[0.05, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 5.0], &[0.5, 5.0]);
    let mut limits = [25u32, 50, 75, 100];
    let (driver, row) =
        (DRIVERS[0], |share: u32, multiple: f64| format!("limit {share}%, {multiple} x capacity"));
    let capacity = capacity(rig, driver)?;
    let paired = Paired::new(rig.rounds(1)).beside_others();
    let measured = paired.contest(multiples, &mut limits, |&multiple, share, round| {
        let flags = format!("--kind completion --beside --cpu-limit {share}%");
        let found = trial(rig, driver, &flags, Offer::steady(multiple * capacity, 500))?;
        figures::put(round, &row(*share, multiple), &found, &figures);
        anyhow::Ok(())
    })?;
    let rows = limits.iter().flat_map(|&share| multiples.iter().map(move |&multiple| row(share, multiple)));
    let mut table = figures::table("limit", &measured, rows, &figures);
    for share in &limits[..3] {
        let row = row(*share, 5.0);
        let used = measured.estimate(&row, CPU);
        table.bar(Bar::at_most(format!("{row}: the forwarder's CPU, %"), f64::from(share + 3), used));
    }
    Ok(vec![table])
}

/// Measures how long the first packet of a burst takes: if the others are received first, it waits for all of them
/// (livelock §4.3).
pub(super) fn bursts(rig: &Rig) -> Done<Vec<Table>> {
    let figures = [(P50, 1, "first_ns.p50", 1e-3), (P99, 1, "first_ns.p99", 1e-3)];
    let sizes: &[u32] = rig.of(&[1, 4, 16, 64], &[1, 16]);
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
const CPU: &str = "CPU %";
const KEPT: &str = "work kept %";
const LOST: &str = "lost";
const P50: &str = "p50 µs";
const P99: &str = "p99 µs";
/// For all sizes of bursts, and far below the capacity: with a constant rate of bursts the long ones would wait for
/// each other.
const RATE: f64 = 4_000.0;
/// The poller with its defaults: a quota of 64, of which the first turn of a burst has a few.
const POLLED: &str = "completion --mode interrupt";
