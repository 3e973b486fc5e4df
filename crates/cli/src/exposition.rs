//! Counters as text for Prometheus: [`Exposition`].
//!
//! The format is written by hand, because a registry library keeps its own counters: here each text is one snapshot of
//! what is counted anyway, in 40 lines, and tests read all of it back by the format's description.

use std::fmt::Write as _;

/// Metrics in the text format, version 0.0.4.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Exposition(String);

impl Exposition {
    /// Adds the description of the following samples.
    pub(crate) fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Adds a sample. The values of labels may be any text.
    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0 += name;
        for (index, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if index == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// Returns the text.
    pub(crate) fn text(self) -> String {
        self.0
    }
}

/// The content type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

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
