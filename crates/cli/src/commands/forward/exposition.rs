//! The counters as text for Prometheus: [`Exposition`], and which of the stats it includes.
//!
//! The format is written by hand, because a registry library keeps its own counters: here each text is one snapshot of
//! the stats, in 40 lines, and a test reads all of it back by the format's description.

use std::fmt::Write as _;

use softtimers_forward::Volume;
use softtimers_forward::stats::{
    ClientStats, Counts, DropCounts, EndDrops, EndStats, InterfaceStats, RuleCounts, RuleStats, Stats,
};
use softtimers_measure::distribution::Distribution;

/// Metrics in the text format, version 0.0.4.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Exposition(String);

impl Exposition {
    /// Adds the description of the following samples.
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds a sample. The values of labels may be any text.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0 += name;
        for (index, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if index == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }
}

/// The stats of a run so far, for Prometheus.
pub(super) fn exposition(stats: &Stats) -> String {
    let mut text = Exposition::default();
    text.counts(stats);
    text.ends(stats);
    stats.clients.iter().for_each(|clients| text.clients(clients));
    stats.interfaces.iter().for_each(|interfaces| text.interfaces(interfaces));
    text.metric("softtimers_forward_cpu_seconds_total", "counter", "CPU time of the forwarder.");
    text.sample("softtimers_forward_cpu_seconds_total", &[], stats.cpu.as_secs_f64());
    text.latency(&stats.latency.distribution());
    stats.rules.iter().for_each(|rules| text.rules(rules));
    text.0
}

impl Exposition {
    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let name = format!("softtimers_forward_{name}_total");
        self.metric(&name, "counter", help);
        self.sample(&name, &[], value as f64);
    }

    fn counters(&mut self, counters: impl Iterator<Item = (&'static str, &'static str, u64)>) {
        counters.for_each(|(name, help, value)| self.counter(name, help, value));
    }

    fn counts(&mut self, stats: &Stats) {
        let Counts { came, out, dropped, .. } = stats.counts();
        self.counter("in", "Packets received, dropped ones included.", came);
        self.counter("out", "Packets sent.", out);
        self.counters(stats.polling.each());
        let name = "softtimers_forward_dropped_total";
        self.metric(name, "counter", "Packets that were dropped, by stage.");
        let DropCounts { ring, rule, queue, output } = dropped;
        for (stage, value) in [("ring", ring), ("rule", rule), ("queue", queue), ("output", output)] {
            self.sample(name, &[("stage", stage)], value as f64);
        }
    }

    /// Packets and bytes, by interface or side.
    fn ends(&mut self, stats: &Stats) {
        let label = if stats.interfaces.is_some() { "interface" } else { "side" };
        type Carried = fn(&EndStats) -> Volume;
        let carried: [(&str, &str, Carried); 2] =
            [("received", "were received", |end| end.received), ("sent", "were sent", |end| end.sent)];
        for (what, words, volume) in carried {
            for (unit, of) in UNITS {
                let name = format!("softtimers_forward_{what}_{unit}_total");
                self.metric(&name, "counter", &format!("The {unit} that {words}, by interface or side."));
                for end in &stats.ends {
                    self.sample(&name, &[(label, &end.name)], of(volume(end)) as f64);
                }
            }
        }
        for (unit, of) in UNITS {
            let name = format!("softtimers_forward_dropped_{unit}_total");
            self.metric(
                &name,
                "counter",
                &format!("The {unit} that were dropped, by interface or side, and stage."),
            );
            for end in &stats.ends {
                let EndDrops { ring, rule, output } = end.dropped;
                // Ring drops have no byte count.
                if unit == "packets" {
                    self.sample(&name, &[(label, &end.name), ("stage", "ring")], ring as f64);
                }
                for (stage, volume) in [("rule", rule), ("output", output)] {
                    self.sample(&name, &[(label, &end.name), ("stage", stage)], of(volume) as f64);
                }
            }
        }
    }

    fn clients(&mut self, clients: &ClientStats) {
        self.counters(clients.each());
        self.metric("softtimers_forward_clients", "gauge", "Clients that have a place now.");
        self.sample("softtimers_forward_clients", &[], clients.now() as f64);
    }

    fn interfaces(&mut self, interfaces: &InterfaceStats) {
        self.counters(interfaces.made.each());
        let outages = interfaces.outages.iter().sum();
        self.counter("outages", "Times that an interface was switched off, or lost its carrier.", outages);
        self.counter(
            "loops",
            "Times that frames came back by a link beside the forwarder.",
            interfaces.loops,
        );
        let help = "Frames forwarded in the kernel, without reaching the forwarder.";
        self.counter("in_kernel", help, interfaces.in_kernel.packets);
        let help = "Frames that the kernel dropped while others waited for the forwarder, by quota.";
        self.counter("held_back", help, interfaces.held_back);
        let name = "softtimers_forward_refused_total";
        self.metric(name, "counter", "Dropped frames, by reason.");
        for (why, _, count) in interfaces.refused.each() {
            self.sample(name, &[("why", why)], count as f64);
        }
    }

    fn latency(&mut self, latency: &Distribution) {
        let name = "softtimers_forward_latency_seconds";
        self.metric(name, "summary", "Time of a packet from the kernel's receive time until it was sent.");
        for (quantile, nanos) in [("0.5", latency.p50), ("0.99", latency.p99), ("0.999", latency.p999)] {
            if let Some(nanos) = nanos {
                self.sample(name, &[("quantile", quantile)], nanos as f64 / 1e9);
            }
        }
        let sum = latency.mean.unwrap_or(0.0) * latency.count as f64 / 1e9;
        self.sample(&format!("{name}_sum"), &[], sum);
        self.sample(&format!("{name}_count"), &[], latency.count as f64);
    }

    fn rules(&mut self, rules: &RuleStats) {
        let entries: Vec<_> = rules.entries().collect();
        type Decided = fn(&RuleCounts) -> u64;
        let decided: [(&str, &str, Decided); 2] = [
            ("matched", "Packets that a rule decided about.", |entry| entry.matched),
            ("bytes", "Bytes of the packets that a rule decided about.", |entry| entry.bytes),
        ];
        for (what, help, of) in decided {
            let name = format!("softtimers_forward_rule_{what}_total");
            self.metric(&name, "counter", help);
            for entry in &entries {
                let labels = [("line", &*entry.line.to_string()), ("rule", &entry.rule)];
                self.sample(&name, &labels, of(entry) as f64);
            }
        }
        let retired = rules.retired();
        for (name, words, retired) in [
            ("rule_retired", "Packets", retired.packets),
            ("rule_retired_bytes", "Bytes of packets", retired.bytes),
        ] {
            let help = format!("{words} decided by rules that are no longer in the file.");
            self.counter(name, &help, retired);
        }
        let name = "softtimers_forward_rules_changed_total";
        self.metric(name, "counter", "Changes of the file of rules, by outcome.");
        self.sample(name, &[("result", "reloaded")], rules.reloaded() as f64);
        self.sample(name, &[("result", "refused")], rules.refused as f64);
    }
}

/// Returns one unit of a volume.
type Unit = fn(Volume) -> u64;

const UNITS: [(&str, Unit); 2] = [("packets", |volume| volume.packets), ("bytes", |volume| volume.bytes)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_may_be_any_text() {
        let mut text = Exposition::default();
        text.metric("relayed_total", "counter", "Datagrams that left.");
        text.sample("relayed_total", &[("to", "a \"name\"\n")], 7.0);
        let expected = "# HELP relayed_total Datagrams that left.\n# TYPE relayed_total counter\n\
                        relayed_total{to=\"a \\\"name\\\"\\n\"} 7\n";
        assert_eq!(text.0, expected);
    }
}
