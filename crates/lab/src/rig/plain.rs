//! `forward`: plain forwarding, by `softtimers forward` in each mode, the library's example `bridge`, and the kernel's own
//! `ip_forward` on the same processor.

use anyhow::Result;
use serde_json::Value;
use softtimers_measure::result::{Cell, Table};

use super::hosts::ip;
use super::peers;
use super::trial::{DESTINATION, Offer, Rig};
use crate::bench::Done;

struct Curve {
    name: String,
    /// Multiples of 100,000 a second; offered, delivered.
    points: Vec<(f64, f64)>,
    report: Value,
}

pub(super) fn forward(rig: &Rig) -> Done<Vec<Table>> {
    let rates: &[f64] = rig.of(&[100e3, 300e3, 600e3, 1e6, 1.5e6, 2.5e6, 4e6], &[300e3, 3e6]);
    let modes = ["hybrid", "naive", "poll", "interrupt", "hip"];
    let mut curves = Vec::new();
    for driver in ["packet", "xdp"] {
        for mode in &modes[..rig.of(5, 2)] {
            let forwarder = rig.forward(&format!("--driver {driver} --mode {mode}"))?;
            let points = loaded(rig, rates)?;
            let report = forwarder.ended()?;
            curves.push(Curve { name: format!("forward, {driver}, {mode}"), points, report });
        }
    }
    let peer = |name: &str, points| Curve { name: name.to_owned(), points, report: Value::Null };
    let bridge = rig.forward_by(&rig.bridge())?;
    curves.push(peer("example bridge, packet", loaded(rig, rates)?));
    // It prints no object.
    let _ = bridge.ended();
    curves.push(peer("kernel, ip_forward", with_ip_forward(rig, || loaded(rig, rates))?));
    let mut tables = vec![told(&curves)];
    tables.extend(peers::compare(rig)?);
    Ok(tables)
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

fn told(curves: &[Curve]) -> Table {
    let columns = [
        ("", 0),
        ("offered ▸ delivered kpps", 0),
        ("peak kpps", 0),
        ("at the highest, of the peak", 2),
        ("p50 µs", 0),
        ("p99 µs", 0),
        ("CPU %", 0),
    ];
    let mut table = Table::new("forward", &columns);
    let peak = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(0.0, f64::max);
    for Curve { name, points, report } in curves {
        let pairs: Vec<_> = points.iter().map(|(o, d)| format!("{:.0} ▸ {:.0}", o / 1e3, d / 1e3)).collect();
        let micros = |key: &str| Cell::from(report["latency_ns"][key].as_f64().map(|nanos| nanos / 1e3));
        let last = points.last().map_or(0.0, |point| point.1) / peak(points).max(1.0);
        table.row([
            name.as_str().into(),
            pairs.join(", ").into(),
            (peak(points) / 1e3).into(),
            last.into(),
            micros("p50"),
            micros("p99"),
            report["cpu_share"].as_f64().map(|share| 100.0 * share).into(),
        ]);
    }
    let highest = curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).fold(0.0, f64::max);
    let of = |name: &str| {
        let curve = curves.iter().find(|curve| curve.name == name);
        curve.map(|curve| peak(&curve.points)).filter(|&peak| peak > 0.0)
    };
    for driver in ["packet", "xdp"] {
        let Some(own) = of(&format!("forward, {driver}, hybrid")) else { continue };
        table.note(format!("{driver}: the generator reached {:.1} x the peak", highest / own));
        if let Some(kernel) = of("kernel, ip_forward") {
            table.note(format!("{driver}: peak {:.2} of ip_forward's", own / kernel));
        }
    }
    table
}
