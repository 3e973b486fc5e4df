//! The counts of a forwarder as JSON: all of them, as `--json` prints them, and the [`Line`] of an interval.

use std::time::Duration;

use serde::{Serialize, Serializer};
use softtimers_measure::distribution::Distribution;

use super::{ClientStats, Counts, EndStats, InterfaceStats, RuleCounts, RuleStats, Stats, WayCounts};
use crate::forwarder::volume::Volume;

/// A line of `--json-stream`: an interval, and the run so far.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Line {
    /// Packets.
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// Packets sent per second.
    pub(crate) out_pps: f64,
    packets_per_poll: Option<f64>,
    /// From the kernel's receive time until sent.
    pub(crate) latency_ns: Distribution,
    /// The share of a CPU used.
    pub(crate) cpu_share: Option<f64>,
}

impl Line {
    pub(super) fn from_stats(stats: &Stats, time: Duration) -> Self {
        let counts = stats.counts();
        Line {
            counts,
            out_pps: counts.out as f64 / time.as_secs_f64().max(f64::MIN_POSITIVE),
            packets_per_poll: stats.packets_per_poll(),
            latency_ns: stats.latency.distribution(),
            cpu_share: stats.cpu_share(time),
        }
    }
}

impl Serialize for Stats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let [up, down] = self.ways();
        let findings = Findings {
            counts: self.counts(),
            packets_per_poll: self.packets_per_poll(),
            latency_ns: self.latency.distribution(),
            cpu_share: self.cpu_share(self.span),
            cpu_limited: self.polling.cpu_limited,
            cpu_limit_delayed: self.polling.cpu_limit_delayed,
            span_s: self.span.as_secs_f64(),
            up,
            down,
            ends: &self.ends,
            clients: self.clients.as_ref().map(|stats| Clients { now: stats.now(), stats }),
            interfaces: self.interfaces.as_ref(),
            rules: self.rules.as_ref(),
        };
        findings.serialize(serializer)
    }
}

/// The keys of `softtimers.forward/1`.
#[derive(Serialize)]
struct Findings<'a> {
    #[serde(flatten)]
    counts: Counts,
    packets_per_poll: Option<f64>,
    latency_ns: Distribution,
    cpu_share: Option<f64>,
    cpu_limited: u64,
    cpu_limit_delayed: u64,
    span_s: f64,
    up: WayCounts,
    down: WayCounts,
    ends: &'a [EndStats; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    clients: Option<Clients<'a>>,
    #[serde(flatten)]
    interfaces: Option<&'a InterfaceStats>,
    rules: Option<&'a RuleStats>,
}

#[derive(Serialize)]
struct Clients<'a> {
    now: u64,
    #[serde(flatten)]
    stats: &'a ClientStats,
}

impl Serialize for RuleStats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Told {
            rejected: u64,
            reloaded: u64,
            refused: u64,
            retired: u64,
            retired_bytes: u64,
            entries: Vec<RuleCounts>,
        }
        let Volume { packets: retired, bytes: retired_bytes } = self.retired();
        let told = Told {
            rejected: self.rejected(),
            reloaded: self.reloaded(),
            refused: self.refused,
            retired,
            retired_bytes,
            entries: self.entries().collect(),
        };
        told.serialize(serializer)
    }
}
