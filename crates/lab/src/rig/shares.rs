//! What others get: a computation beside packets, sources beside a flooded one, programs beside a limited forwarder, the first packet of a burst.

use softtimers_measure::bar::Bar;
use softtimers_measure::paired::Paired;
use softtimers_measure::result::Table;

use super::curve::{RULES, capacity};
use super::trial::{Amount, Offer, Rig};
use crate::bench::Done;

/// Polling beside a computation, up to 100,000 packets a second, five wanted in a poll; and being woken up.
pub(super) fn compute(rig: &Rig) -> Done<Vec<Table>> {
    let columns = [
        ("driver", 0),
        ("packets/s", 0),
        ("by", 0),
        ("work kept %", 1),
        ("received/s", 0),
        ("p50 µs", 1),
        ("p99 µs", 1),
        ("deviation µs", 1),
    ];
    let mut table = Table::new("compute", &columns);
    let rounds = rig.of(rig.rounds(60), 20);
    for driver in ["packet", "xdp"] {
        for rate in [1_000.0, 20_000.0, 100_000.0] {
            // Four turns of 50 ms a round, and some time to begin and to end.
            let offer = Offer::steady(rate, 200 * rounds as u64 + 600);
            let words = format!("compute r0 --driver {driver} --rounds {rounds}");
            let (found, _) = rig.received(&words, &[(0, offer)])?;
            for by in ["poll", "hybrid", "wake-up"] {
                let of = &found[by];
                let micros = |key: &str| of["latency_ns"][key].as_f64().map(|nanos| nanos / 1e3);
                table.row([
                    driver.into(),
                    rate.into(),
                    by.into(),
                    of["kept"].as_f64().map(|kept| 100.0 * kept).into(),
                    of["received_pps"].as_f64().into(),
                    micros("p50").into(),
                    micros("p99").into(),
                    micros("stddev").into(),
                ]);
            }
            if rate == 100_000.0 {
                let figure = format!("computation beside 100,000 packets/s, {driver}, polled: work kept");
                table.bar(Bar::at_least(figure, 0.95, found["poll"]["kept"].as_f64()));
            }
        }
    }
    Ok(vec![table])
}

/// One of four is flooded with twice what all could do; the others have little, and lose none of it.
pub(super) fn sources(rig: &Rig) -> Done<Vec<Table>> {
    let millis = rig.of(4_000u32, 1_000);
    let columns = [
        ("driver", 0),
        ("", 0),
        ("sent", 0),
        ("received", 0),
        ("dropped in the ring", 0),
        ("at the interface", 0),
    ];
    let mut table = Table::new("sources", &columns);
    for driver in ["packet", "xdp"] {
        let flood = 2.0 * capacity(rig, driver)?;
        let offer = |rate| Offer {
            amount: Amount::Packets((rate * f64::from(millis) / 1e3) as u64),
            ..Offer::steady(rate, 0)
        };
        let offers: Vec<_> =
            (0..4).map(|place| (place, offer(if place == 0 { flood } else { 2_000.0 }))).collect();
        // The generators share a processor, and are late.
        let length = 2 * millis + 2_000;
        let words = format!("sources r0 r1 r2 r3 --driver {driver} --rules {RULES} --duration {length}ms");
        let (found, offered) = rig.received(&words, &offers)?;
        let mut lost = 0.0;
        for (place, offered) in offered.iter().enumerate() {
            let (of, sent) = (|key: &str| found[place][key].as_f64(), offered.sent as f64);
            let name = if place == 0 { "flooded" } else { "" };
            let [received, ring, interface] = ["received", "ring", "interface"].map(of);
            table.row([
                driver.into(),
                name.into(),
                sent.into(),
                received.into(),
                ring.into(),
                interface.into(),
            ]);
            if place > 0 {
                lost += (sent - received.unwrap_or(0.0)).max(0.0);
            }
        }
        table.bar(Bar::at_most(
            format!("four sources, {driver}, one flooded: lost of the others'"),
            0.0,
            lost,
        ));
    }
    Ok(vec![table])
}

/// The processor limit: what a computation beside gets, against what is offered (livelock, figure 7-1).
pub(super) fn limit(rig: &Rig) -> Done<Vec<Table>> {
    let multiples: &[f64] = rig.of(&[0.05, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 5.0], &[0.5, 5.0]);
    let driver = "packet";
    let capacity = capacity(rig, driver)?;
    let columns = [
        ("limit %", 0),
        ("x capacity", 2),
        ("offered kpps", 1),
        ("delivered kpps", 1),
        ("CPU %", 1),
        ("the other's share %", 1),
    ];
    let mut table = Table::new("limit", &columns);
    for share in [25u32, 50, 75, 100] {
        for &multiple in multiples {
            let offer = Offer::steady(multiple * capacity, 500);
            let words = format!(
                "stages r0 out --driver {driver} --rules {RULES} --kind completion --beside --cpu-limit {share}% --window 500ms"
            );
            let (found, offered) = rig.received(&words, &[(0, offer)])?;
            let of = |key: &str, factor: f64| found[key].as_f64().map(|figure| factor * figure);
            table.row([
                f64::from(share).into(),
                multiple.into(),
                (offered[0].pps / 1e3).into(),
                of("delivered_pps", 1e-3).into(),
                of("cpu_share", 100.0).into(),
                of("beside_share", 100.0).into(),
            ]);
            if multiple == 5.0 && share < 100 {
                let figure = format!("limit {share}%, 5 x capacity: the forwarder's share of the processor");
                table.bar(Bar::at_most(figure, f64::from(share) / 100.0 + 0.03, of("cpu_share", 1.0)));
            }
        }
    }
    Ok(vec![table])
}

/// How long the first packet of a burst takes: receiving the others first makes it wait for all of them (livelock §4.3).
pub(super) fn bursts(rig: &Rig) -> Done<Vec<Table>> {
    let sizes: &[u32] = rig.of(&[1, 4, 16, 64], &[1, 16]);
    let mut kinds = ["naive", POLLED, "completion --mode interrupt --quota 1"];
    let row = |kind: &str, burst: u32| format!("{kind}, bursts of {burst}");
    let paired = Paired::new(rig.rounds(9)).beside_others();
    let measured = paired.contest(sizes, &mut kinds, |&burst, kind, round| {
        let offer = Offer { burst, ..Offer::steady(RATE, 2_000) };
        let words = format!(
            "stages r0 out --driver packet --rules {RULES} --kind {kind} --burst {burst} --window 2s"
        );
        let (found, _) = rig.received(&words, &[(0, offer)])?;
        for (name, key) in [(P50, "p50"), ("p99 µs", "p99")] {
            let nanos = found["first_ns"][key].as_f64();
            round.put(&row(kind, burst), name, nanos.map(|nanos| nanos / 1e3));
        }
        anyhow::Ok(())
    })?;
    let rows = kinds.iter().flat_map(|kind| sizes.iter().map(|&burst| row(kind, burst)));
    let mut table = Table::of("bursts", &measured, rows, &[(P50, 1), ("p99 µs", 1)]);
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

const P50: &str = "p50 µs";
/// For all sizes of bursts, and far below the capacity: at a rate of bursts the long ones would wait for each other.
const RATE: f64 = 4_000.0;
/// The poller as it comes: a quota of 64, of which the first turn of a burst has a few.
const POLLED: &str = "completion --mode interrupt";
