//! Which of the counters are in the text for Prometheus.

use crate::exposition::Exposition;
use crate::forwarder::Volume;
use crate::forwarder::stats::{
    ClientStats, Counts, EndDrops, EndStats, InterfaceStats, RuleCounts, RuleStats, Stats,
};
use softtimers_load::overload::DropCounts;
use softtimers_measure::distribution::Distribution;

/// The text about a forwarder.
struct Text(Exposition);

/// The stats of a run so far, for Prometheus.
pub(super) fn exposition(stats: &Stats) -> String {
    let mut text = Text(Exposition::default());
    text.counts(stats);
    text.ends(stats);
    stats.clients.iter().for_each(|clients| text.clients(clients));
    stats.interfaces.iter().for_each(|interfaces| text.interfaces(interfaces));
    text.0.metric("softtimers_forward_cpu_seconds_total", "counter", "CPU time of the forwarder.");
    text.0.sample("softtimers_forward_cpu_seconds_total", &[], stats.cpu.as_secs_f64());
    text.latency(&stats.latency.distribution());
    stats.rules.iter().for_each(|rules| text.rules(rules));
    text.0.text()
}

impl Text {
    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let name = format!("softtimers_forward_{name}_total");
        self.0.metric(&name, "counter", help);
        self.0.sample(&name, &[], value as f64);
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
        self.0.metric(name, "counter", "Packets that were dropped, by stage.");
        let DropCounts { ring, rule, queue, output } = dropped;
        for (stage, value) in [("ring", ring), ("rule", rule), ("queue", queue), ("output", output)] {
            self.0.sample(name, &[("stage", stage)], value as f64);
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
                self.0.metric(&name, "counter", &format!("The {unit} that {words}, by interface or side."));
                for end in &stats.ends {
                    self.0.sample(&name, &[(label, &end.name)], of(volume(end)) as f64);
                }
            }
        }
        for (unit, of) in UNITS {
            let name = format!("softtimers_forward_dropped_{unit}_total");
            self.0.metric(
                &name,
                "counter",
                &format!("The {unit} that were dropped, by interface or side, and stage."),
            );
            for end in &stats.ends {
                let EndDrops { ring, rule, output } = end.dropped;
                // Ring drops have no byte count.
                if unit == "packets" {
                    self.0.sample(&name, &[(label, &end.name), ("stage", "ring")], ring as f64);
                }
                for (stage, volume) in [("rule", rule), ("output", output)] {
                    self.0.sample(&name, &[(label, &end.name), ("stage", stage)], of(volume) as f64);
                }
            }
        }
    }

    fn clients(&mut self, clients: &ClientStats) {
        self.counters(clients.each());
        self.0.metric("softtimers_forward_clients", "gauge", "Clients now.");
        self.0.sample("softtimers_forward_clients", &[], clients.now() as f64);
    }

    fn interfaces(&mut self, interfaces: &InterfaceStats) {
        self.counters(interfaces.made.each());
        let outages = interfaces.outages.iter().sum();
        self.counter("outages", "Times that an interface was switched off, or lost its carrier.", outages);
        self.counter("loops", "Times that frames came back by another link.", interfaces.loops);
        let help = "Frames forwarded in the kernel, without reaching the forwarder.";
        self.counter("in_kernel", help, interfaces.in_kernel.packets);
        let help = "Frames that the kernel dropped while others waited for the forwarder, by quota.";
        self.counter("held_back", help, interfaces.held_back);
        let name = "softtimers_forward_refused_total";
        self.0.metric(name, "counter", "Dropped frames, by reason.");
        for (why, _, count) in interfaces.refused.each() {
            self.0.sample(name, &[("why", why)], count as f64);
        }
    }

    fn latency(&mut self, latency: &Distribution) {
        let name = "softtimers_forward_latency_seconds";
        self.0.metric(name, "summary", "Time of a packet from the kernel's receive time until it was sent.");
        for (quantile, nanos) in [("0.5", latency.p50), ("0.99", latency.p99), ("0.999", latency.p999)] {
            if let Some(nanos) = nanos {
                self.0.sample(name, &[("quantile", quantile)], nanos as f64 / 1e9);
            }
        }
        let sum = latency.mean.unwrap_or(0.0) * latency.count as f64 / 1e9;
        self.0.sample(&format!("{name}_sum"), &[], sum);
        self.0.sample(&format!("{name}_count"), &[], latency.count as f64);
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
            self.0.metric(&name, "counter", help);
            for entry in &entries {
                let labels = [("line", &*entry.line.to_string()), ("rule", &entry.rule)];
                self.0.sample(&name, &labels, of(entry) as f64);
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
        self.0.metric(name, "counter", "Changes of the file of rules, by outcome.");
        self.0.sample(name, &[("result", "reloaded")], rules.reloaded() as f64);
        self.0.sample(name, &[("result", "refused")], rules.refused as f64);
    }
}

/// Returns one unit of a volume.
type Unit = fn(Volume) -> u64;

const UNITS: [(&str, Unit); 2] = [("packets", |volume| volume.packets), ("bytes", |volume| volume.bytes)];
