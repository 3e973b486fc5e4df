//! `forward`: plain forwarding, by `softtimers forward` in each mode, the library's example `bridge`, and the kernel's own
//! `ip_forward` on the same processor.

use anyhow::Result;
use serde_json::{Value, json};

use super::hosts::ip;
use super::trial::{DESTINATION, Offer, Rig};
use super::{Effort, Found, peers, plot};

struct Curve {
    name: String,
    letter: char,
    /// Multiples of 100,000 a second; offered, delivered.
    points: Vec<(f64, f64)>,
    report: Value,
}

pub(super) fn forward(rig: &Rig, effort: Effort) -> Result<Found> {
    let rates: &[f64] =
        if effort.quick { &[300e3, 3e6] } else { &[100e3, 300e3, 600e3, 1e6, 1.5e6, 2.5e6, 4e6] };
    let modes: &[(char, &str)] = if effort.quick {
        &[('h', "hybrid"), ('n', "naive")]
    } else {
        &[('h', "hybrid"), ('p', "poll"), ('i', "interrupt"), ('x', "hip"), ('n', "naive")]
    };
    let mut curves = Vec::new();
    for driver in ["packet", "xdp"] {
        for &(letter, mode) in modes {
            let forwarder = rig.forward(&format!("--driver {driver} --mode {mode}"))?;
            let points = loaded(rig, rates)?;
            let report = forwarder.end()?;
            let letter = if driver == "xdp" { letter.to_ascii_uppercase() } else { letter };
            curves.push(Curve { name: format!("forward, {driver}, {mode}"), letter, points, report });
        }
    }
    let bridge = rig.forward_by(&rig.bridge())?;
    let points = loaded(rig, rates)?;
    bridge.end()?;
    curves.push(Curve {
        name: "example bridge, packet".to_owned(),
        letter: 'b',
        points,
        report: Value::Null,
    });
    let points = with_ip_forward(rig, || loaded(rig, rates))?;
    curves.push(Curve { name: "kernel, ip_forward".to_owned(), letter: 'k', points, report: Value::Null });
    let (curves, mut bars) = (told(&curves), Vec::new());
    let compared = peers::compare(rig, effort, &mut bars)?;
    Ok(Found { bars, figures: json!({ "curves": curves, "peers": compared }) })
}

fn loaded(rig: &Rig, rates: &[f64]) -> Result<Vec<(f64, f64)>> {
    let load = |&rate: &f64| {
        let (offered, delivered) = rig.load(&Offer::steady(rate, 400))?;
        Ok((offered.pps, delivered))
    };
    rates.iter().map(load).collect()
}

/// The kernel routes meanwhile, on the forwarder's processor, to a station that it believes to be there (livelock §6.1).
fn with_ip_forward<T>(rig: &Rig, body: impl FnOnce() -> Result<T>) -> Result<T> {
    let middle = rig.hosts.host("middle");
    let on = |words: &str| {
        let words: Vec<&str> = ["-n", &middle].into_iter().chain(words.split(' ')).collect();
        ip(&words)
    };
    on("address add 198.18.1.1/24 dev r0")?;
    on("address add 198.18.2.1/24 dev out")?;
    on(&format!("neighbour replace {DESTINATION} lladdr 02:00:00:00:02:77 dev out nud permanent"))?;
    let set = |values: [&str; 2]| {
        let script = format!(
            "echo {} > /proc/sys/net/ipv4/ip_forward; echo {} > /sys/class/net/r0/queues/rx-0/rps_cpus",
            values[0], values[1]
        );
        rig.hosts.at("middle", &["sh", "-c", &script])
    };
    // What is left of a packet's way when it has been received is done by processor 1.
    set(["1", "2"])?;
    let done = body();
    set(["0", "0"])?;
    on("address flush dev r0")?;
    on("address flush dev out")?;
    done
}

fn told(curves: &[Curve]) -> Value {
    println!(
        "### Plain forwarding\n\n| | offered and delivered kpps | peak | at the highest, of the peak | latency p50 / p99 µs | processor |\n|---|---|---|---|---|---|"
    );
    let peak = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(0.0, f64::max);
    for Curve { name, letter, points, report } in curves {
        let pairs: Vec<_> = points.iter().map(|(o, d)| format!("{:.0} ▸ {:.0}", o / 1e3, d / 1e3)).collect();
        let micros = |key: &str| {
            report["latency_ns"][key].as_f64().map_or("–".to_owned(), |nanos| format!("{:.0}", nanos / 1e3))
        };
        let last = points.last().map_or(0.0, |point| point.1) / peak(points).max(1.0);
        println!(
            "| {letter} {name} | {} | {:.0} | {last:.2} | {} / {} | {} |",
            pairs.join(", "),
            peak(points) / 1e3,
            micros("p50"),
            micros("p99"),
            report["cpu_share"].as_f64().map_or("–".to_owned(), |share| format!("{:.0}%", 100.0 * share)),
        );
    }
    let highest = curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).fold(0.0, f64::max);
    let of = |name: &str| curves.iter().find(|curve| curve.name == name).map(|curve| peak(&curve.points));
    let against =
        |of: Option<f64>, to: Option<f64>| of.zip(to).filter(|pair| pair.1 > 0.0).map(|(a, b)| a / b);
    for driver in ["packet", "xdp"] {
        let own = of(&format!("forward, {driver}, hybrid"));
        if let Some(own) = own.filter(|&own| own > 0.0) {
            println!("\n{driver}: the generator reached {:.1} x the peak", highest / own);
        }
        let ratio = against(own, of("kernel, ip_forward"));
        println!(
            "{driver}: peak {} of ip_forward's",
            ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"))
        );
    }
    let drawn: Vec<_> = curves.iter().map(|curve| (curve.letter, &curve.points[..])).collect();
    println!("\n```text\n{}```\n", plot::text(&drawn));
    let figures: Vec<_> = curves
        .iter()
        .map(|curve| json!({ "contender": curve.name, "points": curve.points, "report": curve.report }))
        .collect();
    json!(figures)
}
