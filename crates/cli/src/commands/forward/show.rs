//! What `forward` tells: the keys of its `config`, and the table of its stats.

use serde::Serialize;
use softtimers_forward::stats::{
    ClientStats, Counts, DropCounts, InterfaceStats, MadeStats, PollingStats, RuleStats, WayCounts,
};
use softtimers_forward::{Mode, Stats};

use super::args::{Ends, ForwardPlan};
use crate::run::output::Report;
use crate::run::table::Table;
use crate::withheld::Withheld;

/// The `config` object of `forward`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct ForwardConfig {
    /// What drives it: `udp`, `packet` or `xdp`.
    driver: &'static str,
    /// The address that was bound, with the port in use; the first interface.
    pub(super) listen: String,
    /// Where packets go; the second interface.
    to: String,
    /// Threads that forward.
    pollers: u32,
    /// Whether it routes; `null` of addresses.
    routed: Option<bool>,
    /// When it looks.
    mode: Mode,
    /// Packets a turn, each way; `null` without a quota.
    quota: Option<u32>,
    /// Packets wanted in a poll; `null` where none is steered by it.
    aggregate: Option<u32>,
    /// The longest wait for a poll; `null` without polls.
    max_delay_ns: Option<u64>,
    /// The share of a processor that it may use; `null` for all of it.
    cpu_limit: Option<f64>,
    /// The most clients at once; `null` of interfaces.
    clients: Option<u32>,
    /// When a silent client is forgotten; `null` of interfaces.
    client_timeout_s: Option<f64>,
    /// Networks whose clients are answered with all, beside loopback.
    trust: Vec<String>,
    /// Answers a second to all others of a prefix; `null` of interfaces.
    answers_per_prefix_pps: Option<f64>,
    /// The file of rules.
    rules: Option<String>,
    /// Where the metrics are, with the port in use.
    metrics: Option<String>,
    /// The longest run; `null` for no bound.
    duration_s: Option<f64>,
    /// The most packets that come in at the first side; `null` for no bound.
    count: Option<u64>,
}

impl ForwardConfig {
    /// As it was asked for, with the addresses that are in use.
    pub(super) fn of(plan: &ForwardPlan) -> Self {
        let relay = if let Ends::Addresses(relay) = &plan.ends { Some(relay) } else { None };
        let limits = relay.map(|relay| &relay.clients);
        let (driver, listen, to, pollers, routed) = match &plan.ends {
            Ends::Addresses(relay) => ("udp", relay.listen.to_string(), relay.upstream.to_string(), 1, None),
            Ends::Interfaces(between) => {
                let [a, b] = between.names.clone();
                (between.driver.name(), a, b, between.pollers, Some(between.routed.is_some()))
            }
        };
        ForwardConfig {
            driver,
            listen,
            to,
            pollers,
            routed,
            mode: plan.how.looking.mode(),
            quota: plan.how.looking.packets(),
            aggregate: plan.how.looking.aggregate(),
            max_delay_ns: plan.how.looking.max_delay().and_then(|delay| u64::try_from(delay.as_nanos()).ok()),
            cpu_limit: plan.how.cpu_limit.map(|share| f64::from(share.get()) / 100.0),
            clients: limits.map(|limits| limits.most),
            client_timeout_s: limits.map(|limits| limits.idle.as_secs_f64()),
            trust: limits.iter().flat_map(|limits| &limits.trust).map(ToString::to_string).collect(),
            answers_per_prefix_pps: limits.map(|limits| limits.answers_per_prefix.packets_per_second()),
            rules: plan.rules.as_ref().map(|path| path.display().to_string()),
            metrics: plan.metrics.map(|metrics| metrics.to_string()),
            duration_s: plan.how.duration.map(|duration| duration.as_secs_f64()),
            count: plan.how.count,
        }
    }
}

impl Report for Stats {
    const SCHEMA: &'static str = "softtimers.forward/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        let Counts { came, out, dropped, .. } = self.counts();
        table.row("in", came);
        table.row("out", out);
        let DropCounts { ring, rule, queue, output } = dropped;
        table.row("dropped", format!("ring {ring}  rule {rule}  queue {queue}  output {output}"));
        let names =
            if self.interfaces.is_some() { ["a to b", "b to a"] } else { ["from clients", "to clients"] };
        for (name, WayCounts { received, sent }) in names.into_iter().zip(self.ways()) {
            table.row(name, format!("{received} received, {sent} sent"));
        }
        table.distribution("latency", &self.latency.distribution());
        let PollingStats { polls, empty_polls, wakeups, mode_switches, cpu_limited } = self.polling;
        table.row("polls", format!("{polls}, {empty_polls} in vain; slept {wakeups} times"));
        let each = self.packets_per_poll().map_or_else(|| "-".to_owned(), |packets| format!("{packets:.2}"));
        table.row("packets a poll", each);
        table.row("mode switches", mode_switches);
        table.share("processor", self.cpu_share(self.span));
        if cpu_limited > 0 {
            table.row("limited", format!("{cpu_limited} periods of 10 ms"));
        }
        self.clients.iter().for_each(|stats| clients(stats, &mut table));
        self.interfaces.iter().for_each(|stats| interfaces(stats, &mut table));
        for entry in self.rules.iter().flat_map(RuleStats::entries) {
            table.row(&format!("rule {}", entry.line), format!("{}  {}", entry.matched, entry.rule));
        }
        table
    }
}

fn clients(stats: &ClientStats, table: &mut Table) {
    let ClientStats { opened, refused, misdirected, upstream_refused, .. } = *stats;
    let now = stats.now();
    table.row("clients", format!("{now} at the end of {opened}; {refused} datagrams refused"));
    if misdirected + upstream_refused > 0 {
        table.row("", format!("{misdirected} misdirected, {upstream_refused} refused upstream"));
    }
    let withheld = Withheld {
        answers: stats.withheld,
        budget: stats.withheld_budget,
        rate: stats.withheld_rate,
        bytes: stats.withheld_bytes,
    };
    withheld.row(table);
}

fn interfaces(stats: &InterfaceStats, table: &mut Table) {
    let refused = stats.refused.named();
    let some = refused.iter().filter(|(_, count)| *count > 0);
    let words: Vec<_> = some.map(|(name, count)| format!("{} {count}", name.replace('_', " "))).collect();
    table.row("refused", if words.is_empty() { "none".to_owned() } else { words.join("  ") });
    let MadeStats { sent, lost, told, suppressed } = stats.made;
    if told + suppressed > 0 {
        table.row("senders told", format!("{told}, and {suppressed} not"));
    }
    if lost > 0 {
        table.row("made here", format!("{sent} sent, {lost} lost"));
    }
    let [a, b] = stats.outages;
    if a + b + stats.loops > 0 {
        table.row("outages", format!("{a} at a, {b} at b; {} loops", stats.loops));
    }
}
