//! What others get: sources beside a flooded one, programs beside a limited forwarder, the first packet of a burst.

use anyhow::Result;
use serde_json::json;

use super::curve::{RULES, capacity};
use super::trial::{Amount, Offer, Rig};
use super::{Effort, Found, micros};
use crate::measure::figures::Bar;

/// One of four is flooded with twice what all could do; the others have little, and lose none of it.
pub(super) fn sources(rig: &Rig, effort: Effort) -> Result<Found> {
    let millis = if effort.quick { 1_000u32 } else { 4_000 };
    let (mut bars, mut figures) = (Vec::new(), Vec::new());
    println!(
        "### Four sources, one of them flooded\n\n| driver | | sent | received | dropped at the ring, the interface |\n|---|---|---|---|---|"
    );
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
        let mut lost = 0;
        for (place, offered) in offered.iter().enumerate() {
            let of = &found[place];
            let received = of["received"].as_u64().unwrap_or(0);
            println!(
                "| {driver} | {} | {} | {received} | {}, {} |",
                if place == 0 { "flooded" } else { "" },
                offered.sent,
                of["ring"],
                of["interface"]
            );
            if place > 0 {
                lost += offered.sent.saturating_sub(received);
            }
        }
        let figure = format!("four sources, {driver}, one flooded: lost of the others'");
        bars.push(Bar::at_most(figure, 0.0, Some(lost as f64)));
        figures.push(json!({ "driver": driver, "sent": offered.iter().map(|of| of.sent).collect::<Vec<_>>(), "found": found }));
    }
    println!();
    Ok(Found { bars, figures: json!(figures) })
}

/// The processor limit: what a computation beside gets, against what is offered (livelock, figure 7-1).
pub(super) fn limit(rig: &Rig, effort: Effort) -> Result<Found> {
    let multiples: &[f64] =
        if effort.quick { &[0.5, 5.0] } else { &[0.05, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 5.0] };
    let driver = "packet";
    let capacity = capacity(rig, driver)?;
    let (mut bars, mut figures) = (Vec::new(), Vec::new());
    println!(
        "### The processor limit, beside a computation\n\n| limit | x capacity | offered kpps | delivered kpps | processor | the other's share |\n|---|---|---|---|---|---|"
    );
    for share in [25u32, 50, 75, 100] {
        for &multiple in multiples {
            let offer = Offer::steady(multiple * capacity, 500);
            let words = format!(
                "stages r0 out --driver {driver} --rules {RULES} --kind completion --beside --cpu-limit {share}% --window 500ms"
            );
            let (found, offered) = rig.received(&words, &[(0, offer)])?;
            let of = |key: &str| found[key].as_f64().unwrap_or(0.0);
            println!(
                "| {share}% | {multiple} | {:.1} | {:.1} | {:.1}% | {:.1}% |",
                offered[0].pps / 1e3,
                of("delivered_pps") / 1e3,
                100.0 * of("cpu_share"),
                100.0 * of("beside_share")
            );
            if multiple == 5.0 && share < 100 {
                let figure = format!("limit {share}%, 5 x capacity: the forwarder's share of the processor");
                bars.push(Bar::at_most(figure, f64::from(share) / 100.0 + 0.03, found["cpu_share"].as_f64()));
            }
            figures.push(json!({ "limit": share, "multiple": multiple, "offered_pps": offered[0].pps, "found": found }));
        }
    }
    println!();
    Ok(Found { bars, figures: json!(figures) })
}

/// How long the first packet of a burst takes: receiving the others first makes it wait for all of them (livelock §4.3).
pub(super) fn bursts(rig: &Rig, effort: Effort) -> Result<Found> {
    let sizes: &[u32] = if effort.quick { &[1, 16] } else { &[1, 2, 4, 16, 64] };
    let mut figures = Vec::new();
    let mut p50 = Vec::new();
    println!(
        "### The first packet of a burst, 500 bursts/s, packet\n\n| by | of | p50 / p99 µs |\n|---|---|---|"
    );
    for kind in ["naive", POLLED, "completion --mode interrupt --quota 1"] {
        for &burst in sizes {
            let offer = Offer { burst, ..Offer::steady(500.0 * f64::from(burst), 1_000) };
            let words = format!(
                "stages r0 out --driver packet --rules {RULES} --kind {kind} --burst {burst} --window 1s"
            );
            let (found, _) = rig.received(&words, &[(0, offer)])?;
            let first = &found["first_ns"];
            println!("| {kind} | {burst} | {} / {} |", micros(&first["p50"]), micros(&first["p99"]));
            p50.push((kind, burst, first["p50"].as_f64().unwrap_or(0.0)));
            figures.push(json!({ "kind": kind, "burst": burst, "first_ns": first }));
        }
    }
    for half in p50.chunks(sizes.len()) {
        let (first, last) = (half[0], half[half.len() - 1]);
        let slope = (last.2 - first.2) / f64::from(last.1 - first.1);
        println!("\n{}: {:.2} µs for each further packet of a burst", first.0, slope / 1e3);
    }
    println!();
    let at = |kind: &str, burst: u32| {
        p50.iter().find(|&&(of, size, _)| of == kind && size == burst).map(|&(_, _, nanos)| nanos)
    };
    let bar = |&burst: &u32| {
        let ratio = at(POLLED, burst).zip(at("naive", burst)).map(|(polled, naive)| polled / naive);
        Bar::at_most(format!("first packet of {burst}: p50, polled against naive"), 1.0, ratio)
    };
    let bars = sizes.iter().filter(|&&size| size >= 16).map(bar).collect();
    Ok(Found { bars, figures: json!(figures) })
}

/// The poller as it comes: a quota of 64, of which the first turn of a burst has a few.
const POLLED: &str = "completion --mode interrupt";
