//! The counters as text for Prometheus: [`Exposition`], and what of a report is in it.
//!
//! The format is written by hand, because a registry library keeps counters of its own: here each text is one snapshot of a
//! report, it takes 40 lines, and a test reads all of it back by the format's description.

use std::fmt::Write as _;
use std::time::Duration;

use super::report::{Beside, Counts, DropCounts, ForwardReport};
use super::volume::{EndCounts, EndDrops, Volume};
use crate::withheld::Withheld;

/// Metrics in the text format, version 0.0.4.
///
/// ```
/// use softtimers_cli::forward::exposition::Exposition;
///
/// let mut text = Exposition::default();
/// text.metric("relayed_total", "counter", "Datagrams that left.");
/// text.sample("relayed_total", &[("to", "a \"name\"\n")], 7.0);
/// assert_eq!(text.finish(), "# HELP relayed_total Datagrams that left.\n# TYPE relayed_total counter\n\
///     relayed_total{to=\"a \\\"name\\\"\\n\"} 7\n");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Says what the samples that follow are.
    pub fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds a sample. The values of labels may be any text.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0 += name;
        for (index, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if index == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// The text.
    pub fn finish(self) -> String {
        self.0
    }
}

impl ForwardReport {
    /// The report for Prometheus; `cpu` is what the relay has used of a processor.
    pub fn exposition(&self, cpu: Duration) -> String {
        let mut text = Exposition::default();
        let Counts { came, out, dropped, polls, empty_polls, wakeups, mode_switches } = self.counts;
        let DropCounts { ring, rule, queue, output } = dropped;
        for (name, help, value) in [
            ("in", "Packets that came, dropped ones too.", came),
            ("out", "Packets that have left.", out),
            ("polls", "Looks at a side.", polls),
            ("empty_polls", "Looks that found nothing.", empty_polls),
            ("wakeups", "Times that the relay slept.", wakeups),
            ("mode_switches", "Changes between polls and wake-ups.", mode_switches),
            ("cpu_limited", "Periods in which the processor limit shut the input.", self.cpu_limited),
        ] {
            let name = format!("softtimers_forward_{name}_total");
            text.metric(&name, "counter", help);
            text.sample(&name, &[], value as f64);
        }
        let name = "softtimers_forward_dropped_total";
        text.metric(name, "counter", "Packets that were dropped, by stage.");
        for (stage, value) in [("ring", ring), ("rule", rule), ("queue", queue), ("output", output)] {
            text.sample(name, &[("stage", stage)], value as f64);
        }
        self.expose_ends(&mut text);
        self.beside.expose(&mut text);
        text.metric("softtimers_forward_cpu_seconds_total", "counter", "Processor time of the relay.");
        text.sample("softtimers_forward_cpu_seconds_total", &[], cpu.as_secs_f64());
        self.expose_latency(&mut text);
        if let Some(rules) = &self.rules {
            let name = "softtimers_forward_rule_matched_total";
            text.metric(name, "counter", "Packets that a rule decided about.");
            for entry in &rules.entries {
                let line = entry.line.to_string();
                text.sample(name, &[("line", &line), ("rule", &entry.rule)], entry.matched as f64);
            }
            let name = "softtimers_forward_rule_bytes_total";
            text.metric(name, "counter", "Bytes of the packets that a rule decided about.");
            for entry in &rules.entries {
                let line = entry.line.to_string();
                text.sample(name, &[("line", &line), ("rule", &entry.rule)], entry.bytes as f64);
            }
            for (name, words, retired) in [
                ("softtimers_forward_rule_retired_total", "Packets", rules.retired),
                ("softtimers_forward_rule_retired_bytes_total", "Bytes of packets", rules.retired_bytes),
            ] {
                let help = format!("{words} that rules decided about which are in the file no more.");
                text.metric(name, "counter", &help);
                text.sample(name, &[], retired as f64);
            }
            let name = "softtimers_forward_rules_changed_total";
            text.metric(name, "counter", "Changes of the rules, by what became of them.");
            text.sample(name, &[("result", "reloaded")], rules.reloaded as f64);
            text.sample(name, &[("result", "refused")], rules.refused as f64);
        }
        text.finish()
    }

    /// Packets and bytes, by interface or side.
    fn expose_ends(&self, text: &mut Exposition) {
        let label = match self.beside {
            Beside::Interfaces(_) => "interface",
            Beside::Relay { .. } => "side",
        };
        type Carried = fn(&EndCounts) -> Volume;
        let carried: [(&str, &str, Carried); 2] = [
            ("received", "came in there and found room", |end| end.received),
            ("sent", "left there", |end| end.sent),
        ];
        for (what, words, volume) in carried {
            for (unit, of) in UNITS {
                let name = format!("softtimers_forward_{what}_{unit}_total");
                text.metric(&name, "counter", &format!("How many {unit} {words}."));
                for end in &self.ends {
                    text.sample(&name, &[(label, &end.name)], of(volume(end)) as f64);
                }
            }
        }
        for (unit, of) in UNITS {
            let name = format!("softtimers_forward_dropped_{unit}_total");
            text.metric(&name, "counter", &format!("How many {unit} were dropped there, by stage."));
            for end in &self.ends {
                let EndDrops { ring, rule, output } = end.dropped;
                // Of what found no room nobody knows the length.
                if unit == "packets" {
                    text.sample(&name, &[(label, &end.name), ("stage", "ring")], ring as f64);
                }
                for (stage, volume) in [("rule", rule), ("output", output)] {
                    text.sample(&name, &[(label, &end.name), ("stage", stage)], of(volume) as f64);
                }
            }
        }
    }

    fn expose_latency(&self, text: &mut Exposition) {
        let (name, latency) = ("softtimers_forward_latency_seconds", &self.latency_ns);
        text.metric(name, "summary", "From the kernel's receive time to having been sent.");
        for (quantile, nanos) in [("0.5", latency.p50), ("0.99", latency.p99), ("0.999", latency.p999)] {
            if let Some(nanos) = nanos {
                text.sample(name, &[("quantile", quantile)], nanos as f64 / 1e9);
            }
        }
        let sum = latency.mean.unwrap_or(0.0) * latency.count as f64 / 1e9;
        text.sample(&format!("{name}_sum"), &[], sum);
        text.sample(&format!("{name}_count"), &[], latency.count as f64);
    }
}

impl Beside {
    fn expose(&self, text: &mut Exposition) {
        let mut counter = |name: &str, help: &str, value: u64| {
            let name = format!("softtimers_forward_{name}_total");
            text.metric(&name, "counter", help);
            text.sample(&name, &[], value as f64);
        };
        match self {
            Beside::Relay { clients } => {
                counter("clients_opened", "Clients there have been.", clients.opened);
                let Withheld { budget, rate, bytes, .. } = clients.withheld;
                counter("withheld_bytes", "Bytes of payload in answers that were withheld.", bytes);
                let name = "softtimers_forward_answers_withheld_total";
                text.metric(name, "counter", "Answers kept back from clients that are not trusted, by why.");
                for (why, value) in [("budget", budget), ("rate", rate)] {
                    text.sample(name, &[("why", why)], value as f64);
                }
                text.metric("softtimers_forward_clients", "gauge", "Clients there are.");
                text.sample("softtimers_forward_clients", &[], clients.now.into());
            }
            Beside::Interfaces(interfaces) => {
                counter(
                    "told",
                    "Packets whose senders were told why they went no further.",
                    interfaces.made.told,
                );
                counter(
                    "outages",
                    "Times that an interface was switched off, or lost its carrier.",
                    interfaces.outages.iter().sum(),
                );
                counter("loops", "Times that a loop was found.", interfaces.loops);
                let name = "softtimers_forward_refused_total";
                text.metric(name, "counter", "Frames that went no further, by why.");
                for (why, count) in interfaces.refused.named() {
                    text.sample(name, &[("why", why)], count as f64);
                }
            }
        }
    }
}

/// What is told of a volume.
type Unit = fn(Volume) -> u64;

const UNITS: [(&str, Unit); 2] = [("packets", |volume| volume.packets), ("bytes", |volume| volume.bytes)];
