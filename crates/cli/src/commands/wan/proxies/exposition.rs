//! The counters of all proxies as text for Prometheus: `GET /metrics` of `--api`.

use crate::exposition::Exposition;
use softtimers_measure::distribution::Distribution;

use super::super::show::{ClientsReport, MeasuredReport};
use super::show::{ProxiesReport, ProxyReport};

/// Returns the text about the proxies of a report.
pub(super) fn exposition(report: &ProxiesReport) -> String {
    let mut text = Exposition::default();
    let proxies = &report.proxies;
    let name = "softtimers_wan_enabled";
    text.metric(name, "gauge", "Whether a proxy relays now.");
    proxies.iter().for_each(|proxy| text.sample(name, &[("proxy", &proxy.name)], proxy.enabled.into()));
    for (what, kind, help, count) in OF_A_PROXY {
        let name = format!("softtimers_wan_{what}");
        text.metric(&name, kind, help);
        for proxy in proxies {
            text.sample(&name, &[("proxy", &proxy.name)], count(&proxy.carried.clients) as f64);
        }
    }
    let name = "softtimers_wan_bytes_total";
    text.metric(name, "counter", "Bytes delivered, by direction.");
    for proxy in proxies {
        for (way, bytes) in [("up", proxy.carried.up_bytes), ("down", proxy.carried.down_bytes)] {
            text.sample(name, &[("proxy", &proxy.name), ("way", way)], bytes as f64);
        }
    }
    for (what, kind, help, count) in OF_A_WAY {
        let name = format!("softtimers_wan_{what}");
        text.metric(&name, kind, help);
        for (proxy, way, measured) in ways(proxies) {
            text.sample(&name, &[("proxy", proxy), ("way", way)], count(measured) as f64);
        }
    }
    for (what, help, times) in TIMES {
        let name = format!("softtimers_wan_{what}_seconds");
        text.metric(&name, "summary", help);
        for (proxy, way, measured) in ways(proxies) {
            let times = times(measured);
            let labels = [("proxy", proxy), ("way", way)];
            for (quantile, nanos) in [("0.5", times.p50), ("0.99", times.p99), ("0.999", times.p999)] {
                if let Some(nanos) = nanos {
                    let labels = [labels[0], labels[1], ("quantile", quantile)];
                    text.sample(&name, &labels, nanos as f64 / 1e9);
                }
            }
            let sum = times.mean.unwrap_or(0.0) * times.count as f64 / 1e9;
            text.sample(&format!("{name}_sum"), &labels, sum);
            text.sample(&format!("{name}_count"), &labels, times.count as f64);
        }
    }
    text.text()
}

/// Returns both directions of each proxy.
fn ways(proxies: &[ProxyReport]) -> impl Iterator<Item = (&str, &str, &MeasuredReport)> {
    proxies.iter().flat_map(|proxy| {
        let carried = &proxy.carried;
        [("up", &carried.up), ("down", &carried.down)]
            .map(|(way, direction)| (proxy.name.as_str(), way, &direction.measured))
    })
}

/// A metric: the end of its name, its kind, its description and its value.
type Metric<T> = (&'static str, &'static str, &'static str, fn(&T) -> u64);

const OF_A_PROXY: [Metric<ClientsReport>; 5] = [
    ("clients", "gauge", "Clients now.", |clients| clients.now.into()),
    ("clients_opened_total", "counter", "Clients accepted.", |clients| clients.opened),
    ("clients_reset_total", "counter", "Connections reset by one side.", |clients| clients.reset),
    (
        "clients_refused_total",
        "counter",
        "Connections beyond the limit; packets whose source address is invalid.",
        |clients| clients.refused,
    ),
    (
        "upstream_refused_total",
        "counter",
        "Times that the upstream, or a host on the way, refused.",
        |clients| clients.upstream_refused,
    ),
];

const OF_A_WAY: [Metric<MeasuredReport>; 9] = [
    ("offered_total", "counter", "Packets or pieces of streams received, by direction.", |all| all.offered),
    ("delivered_total", "counter", "Packets or pieces of streams sent, copies included.", |all| {
        all.delivered
    }),
    ("lost_total", "counter", "Packets lost behind the bottleneck.", |all| all.lost),
    ("queue_drops_total", "counter", "Packets that the queue dropped.", |all| all.queue_drops),
    ("overflowed_total", "counter", "Packets dropped because the emulator was full.", |all| all.overflowed),
    ("reordered_total", "counter", "Packets sent after one that was received later.", |all| all.reordered),
    ("duplicated_total", "counter", "Second copies of packets.", |all| all.duplicated),
    ("corrupted_total", "counter", "Packets with a flipped bit.", |all| all.corrupted),
    ("held", "gauge", "Packets or pieces of streams on the path.", |all| all.held),
];

/// A distribution: the middle of its name, its description and its values.
type Times = (&'static str, &'static str, fn(&MeasuredReport) -> &Distribution);

const TIMES: [Times; 2] = [
    ("delay", "Time from receiving to sending.", |all| &all.delay_ns),
    ("lateness", "How much later than the path says: the emulator's own error.", |all| &all.lateness_ns),
];
