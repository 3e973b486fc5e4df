//! The report of `forward`: the keys of its `config`, and the table of its stats.

use crate::forwarder::stats::{
    ClientStats, Counts, InterfaceStats, Line, MadeStats, PollingStats, RuleStats, Stats, WayCounts,
};
use serde::Serialize;
use softtimers_load::mode::Mode;
use softtimers_load::overload::DropCounts;

use super::args::{Ends, ForwardPlan, RelayPlan};
use crate::run::grid::Grid;
use crate::run::output::Report;
use crate::run::quantity::{counts, end, or_dash, packets, share, time};
use crate::run::screen::Tone;
use crate::run::stream::Seconds;
use crate::run::table::Table;
use crate::withheld::WithheldAnswers;

/// The `config` object of `forward`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct ForwardConfig {
    /// The driver: `udp`, `napi`, `packet`, `xdp` or `tc`.
    pub(super) driver: &'static str,
    /// The bound address, with the port in use; or the first interface.
    pub(super) listen: String,
    /// The address that packets go to; the second interface.
    to: String,
    /// The number of threads that forward.
    pollers: u32,
    /// Whether it routes; `null` between addresses.
    routed: Option<bool>,
    /// The policy by which it polls.
    mode: Mode,
    /// Packets a turn in each direction; `null` without a quota.
    quota: Option<u32>,
    /// Packets wanted in a poll; `null` for a mode without such a number.
    aggregate: Option<u32>,
    /// The longest wait for a poll; `null` without polls.
    max_delay_ns: Option<u64>,
    /// The share of a CPU that it may use; `null` for all of it.
    cpu_limit: Option<f64>,
    /// The most clients at once; `null` for interfaces.
    clients: Option<u32>,
    /// When a silent client is forgotten; `null` for interfaces.
    client_timeout_s: Option<f64>,
    /// Networks whose clients get all answers, besides loopback.
    trust: Vec<String>,
    /// Answers a second to all other clients of a prefix; `null` for interfaces.
    answers_per_prefix_pps: Option<f64>,
    /// The file of rules.
    rules: Option<String>,
    /// The address of the metrics, with the port in use.
    metrics: Option<String>,
    /// The longest run; `null` for no bound.
    duration_s: Option<f64>,
    /// The most packets to receive at the first side; `null` for no bound.
    count: Option<u64>,
}

impl ForwardConfig {
    /// Returns the configuration of the plan, with the addresses in use.
    pub(super) fn from_plan(plan: &ForwardPlan) -> Self {
        let relay = if let Ends::Addresses(relay) = &plan.ends { Some(relay) } else { None };
        let limits = relay.map(|relay| &relay.config.clients);
        let (driver, listen, to, pollers, routed) = match &plan.ends {
            Ends::Addresses(relay) => {
                let RelayPlan { config, pollers } = &**relay;
                let driver = if plan.how.napi { "napi" } else { "udp" };
                (driver, config.listen.to_string(), config.upstream.to_string(), *pollers, None)
            }
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

/// Names both sides and the policy in one line.
pub(super) fn header(config: &ForwardConfig) -> String {
    let ForwardConfig { driver, listen, to, mode, .. } = config;
    let end = end(config.duration_s, config.count, "packet");
    format!("forward {listen} to {to}: driver {driver}, mode {mode}{end}")
}

impl Seconds<ForwardPlan> for Stats {
    const COLUMNS: &'static [(&'static str, usize)] =
        &[("in", 9), ("out", 9), ("dropped", 9), ("rate", 9), ("latency p50", 11), ("p99", 8), ("CPU", 6)];

    fn cells(figures: &Line) -> Vec<String> {
        let Counts { came, out, dropped: DropCounts { ring, rule, queue, output }, .. } = figures.counts;
        vec![
            came.to_string(),
            out.to_string(),
            (ring + rule + queue + output).to_string(),
            packets(figures.out_pps),
            or_dash(figures.latency_ns.p50, time),
            or_dash(figures.latency_ns.p99, time),
            or_dash(figures.cpu_share, share),
        ]
    }
}

impl Report<ForwardPlan> for Stats {
    const SCHEMA: &'static str = "softtimers.forward/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        let Counts { came, out, dropped, .. } = self.counts();
        table.row("in", came);
        table.row("out", out);
        let DropCounts { ring, rule, queue, output } = dropped;
        let places = counts([("ring", ring), ("rule", rule), ("queue", queue), ("output", output)]);
        // Drops by rules are intended.
        table.toned("dropped", places, Tone::bad_if(ring + queue + output > 0));
        let names =
            if self.interfaces.is_some() { ["a to b", "b to a"] } else { ["from clients", "to clients"] };
        for (name, WayCounts { received, sent }) in names.into_iter().zip(self.ways()) {
            table.row(name, format!("{received} received  {sent} sent"));
        }
        table.times("latency", &self.latency.distribution());
        let PollingStats { polls, empty_polls, wakeups, mode_switches, cpu_limited, cpu_limit_delayed } =
            self.polling;
        table.row("polls", format!("{polls}  {empty_polls} found nothing"));
        table.row("per poll", or_dash(self.packets_per_poll(), |mean| format!("{mean:.2} packets")));
        table.row("wake-ups", wakeups);
        table.row("mode switches", mode_switches);
        table.row("CPU", or_dash(self.cpu_share(self.span), |used| format!("{} of one core", share(used))));
        if cpu_limited > 0 {
            table.row(
                "CPU limited",
                format!("{cpu_limited}  {cpu_limit_delayed} for longer than --max-delay"),
            );
        }
        self.clients.iter().for_each(|stats| clients(stats, &mut table));
        self.interfaces.iter().for_each(|stats| interfaces(stats, &mut table));
        let mut rules = Grid::new(["line", "matched", "rule"]).numbered().words(2);
        for entry in self.rules.iter().flat_map(RuleStats::entries) {
            rules.row([entry.line.to_string(), entry.matched.to_string(), entry.rule.to_string()]);
        }
        table.grid(rules);
        table
    }
}

fn clients(stats: &ClientStats, table: &mut Table) {
    let ClientStats { opened, refused, misdirected, upstream_refused, .. } = *stats;
    table.row("clients", format!("{} at the end, {opened} in all", stats.now()));
    table.seldom("refused", refused);
    table.seldom("misdirected", misdirected);
    table.seldom("upstream refused", upstream_refused);
    let withheld = WithheldAnswers {
        answers: stats.withheld,
        budget: stats.withheld_budget,
        rate: stats.withheld_rate,
        bytes: stats.withheld_bytes,
    };
    withheld.row(table);
}

fn interfaces(stats: &InterfaceStats, table: &mut Table) {
    table.row("refused", counts(stats.refused.each().map(|(why, _, count)| (why, count))));
    let MadeStats { sent, lost, told, suppressed } = stats.made;
    if told + suppressed > 0 {
        table.row("senders told", format!("{told}  {suppressed} beyond the rate"));
    }
    if lost > 0 {
        table.row("made here", format!("{sent} sent  {lost} lost"));
    }
    table.seldom("in the kernel", stats.in_kernel.packets);
    table.seldom("held back", stats.held_back);
    let [a, b] = stats.outages;
    if a + b + stats.loops > 0 {
        table.toned("outages", counts([("a", a), ("b", b), ("loops", stats.loops)]), Tone::Bad);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forwarder::Volume;
    use crate::run::snapshot::{self, Live};
    use crate::run::stream::columns;
    use softtimers_measure::stats::Stats as _;
    use std::time::Duration;

    fn counted(mut stats: Stats) -> Stats {
        for end in &mut stats.ends {
            end.received = Volume { packets: 50_000, bytes: 60_000_000 };
            end.sent = Volume { packets: 49_900, bytes: 59_880_000 };
            end.dropped.ring = 12;
        }
        stats.polling = PollingStats {
            polls: 20_000,
            empty_polls: 300,
            wakeups: 1_234,
            mode_switches: 56,
            cpu_limited: 7,
            cpu_limit_delayed: 2,
        };
        [191, 40_012, 61_500, 1_204_000].into_iter().for_each(|nanos| stats.latency.record(nanos));
        stats.cpu = Duration::from_millis(420);
        stats.span = Duration::from_secs(1);
        stats
    }

    #[test]
    fn snapshot() {
        let clients = ClientStats {
            opened: 9,
            expired: 7,
            refused: 1,
            withheld: 7,
            withheld_budget: 4,
            withheld_rate: 3,
            withheld_bytes: 8_400,
            misdirected: 2,
            upstream_refused: 1,
            ..ClientStats::default()
        };
        let relay = Stats { clients: Some(clients), ..counted(Stats::of_relay()) };
        let figures = relay.figures(Duration::from_secs(1));
        let live = Live::new(Stats::COLUMNS, move |screen| {
            columns::<_, Stats>(0, Duration::from_secs(1), &figures, screen)
        });
        let header = "forward 127.0.0.1:7001 to 127.0.0.1:7000: driver udp, mode hybrid, for 10 s";
        snapshot::check("forward-udp", header, &live, &relay);
        let made = MadeStats { sent: 12, lost: 1, told: 5, suppressed: 2 };
        let interfaces = InterfaceStats { made, outages: [1, 0], loops: 1, ..InterfaceStats::default() };
        let names = ["eth0", "eth1"].map(str::to_owned);
        let between = Stats { interfaces: Some(interfaces), ..counted(Stats::of_interfaces(&names)) };
        let header = "forward eth0 to eth1: driver xdp, mode hip";
        snapshot::check("forward", header, &Live::none(), &between);
    }
}
