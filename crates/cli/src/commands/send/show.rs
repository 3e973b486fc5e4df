//! The report of `send` for people.

use softtimers::late::LateCause;
use softtimers_load::plan::{SendConfig, Way};
use softtimers_load::receipt::Receipt;
use softtimers_load::send::{CatchUps, PolledReport, SendFigures, SendReport, SendStats, SocketReport};

use super::args::Send;
use crate::run::grid::Grid;
use crate::run::output::Report;
use crate::run::quantity::{bits, counts, end, number, or_dash, packets, per_second, share, time};
use crate::run::screen::Tone;
use crate::run::stream::Seconds;
use crate::run::table::Table;

/// Names the traffic, the destination, the time and the engine in one line.
pub(crate) fn header(command: &str, config: &SendConfig) -> String {
    let SendConfig { address, dscp, target_pps, size_bytes, flows, pattern, timer, busy, .. } = config;
    let rate = bits(target_pps * *size_bytes as f64 * 8.0);
    let pattern = if pattern == "constant" { String::new() } else { format!(" {pattern}") };
    let beside = if *busy == "none" { String::new() } else { format!(", beside {busy}") };
    let flows = number(u64::from(*flows), "flow");
    let end = end(config.duration_s, config.count, "datagram");
    let packets = packets(*target_pps);
    let class = if *dscp == 0 { String::new() } else { format!(", DSCP {dscp}") };
    format!(
        "{command} to {address}: {packets}{pattern} of {size_bytes} B ({rate}), {flows}{end}{class}, timer {timer}{beside}"
    )
}

impl Seconds<Send> for SendStats {
    const COLUMNS: &'static [(&'static str, usize)] = &[
        ("rate", 9),
        ("sent", 9),
        ("skipped", 7),
        ("late p50", 8),
        ("late p99", 8),
        ("back to back", 12),
        ("longest burst", 13),
    ];

    fn cells(figures: &SendFigures) -> Vec<String> {
        vec![
            packets(figures.achieved_pps),
            figures.sent.to_string(),
            figures.forfeited.to_string(),
            or_dash(figures.late_ns.p50, time),
            or_dash(figures.late_ns.p99, time),
            or_dash(figures.gaps.back_to_back, share),
            or_dash(figures.gaps.longest_burst, |burst| burst.to_string()),
        ]
    }
}

impl Report<Send> for SendReport {
    const SCHEMA: &'static str = "softtimers.send/2";

    fn table(&self) -> Table {
        let mut table = Table::default();
        let kept = self
            .achieved_pps
            .map_or_else(String::new, |rate| format!(" ({})", share(rate / self.target_pps)));
        table.row(
            "rate",
            format!("{} of {}{kept}", or_dash(self.achieved_pps, packets), packets(self.target_pps)),
        );
        table.row("sent", self.sent);
        table.loss("skipped", self.forfeited, self.sent + self.forfeited);
        table.times("late", &self.late_ns);
        table.times("gap", &self.gaps.gap_ns);
        table.row("back to back", or_dash(self.gaps.back_to_back, share));
        table.row("longest burst", or_dash(self.gaps.longest_burst, |burst| burst.to_string()));
        if let (Some(min), Some(max)) = (self.flow_share.min, self.flow_share.max) {
            table.row("flow share", format!("{} to {}", share(min), share(max)));
            table.row("longest train", or_dash(self.longest_train, |train| train.to_string()));
            table.row("per turn", or_dash(self.packets_per_turn, |mean| format!("{mean:.2} datagrams")));
        }
        if self.send_via.way != Way::None {
            table.row("sent by", format!("{}: {}", self.send_via.way, self.send_via.why));
        }
        handed_over(self, &mut table);
        table.row("CPU", format!("{} of one core", share(self.cpu_share)));
        busy_polling(&self.polled, &mut table);
        table.row("wake-ups", self.wakeups);
        table.row("fired by", counts(self.fired.iter().map(|(name, &count)| (name, count))));
        if self.trigger_interval_ns.count > 0 {
            table.times("clock checks", &self.trigger_interval_ns);
        }
        if self.triggers.values().any(|&count| count > 0) {
            table.row("trigger states", counts(self.triggers.iter().map(|(name, &count)| (name, count))));
        }
        if let Some((count, longest)) = self.long_handlers.zip(self.longest_handler_ns) {
            table.row("long handlers", format!("{count} over 1 ms, the longest {}", time(longest)));
        }
        table.seldom("timer overruns", self.timer_overruns.unwrap_or(0));
        late(self, &mut table);
        catch_ups(&self.catch_up, &mut table);
        let SocketReport { would_block, no_buffers, refused, answers_dropped } = self.socket;
        if would_block + no_buffers + refused > 0 {
            let why = [("full buffer", would_block), ("full queue", no_buffers), ("refused", refused)];
            table.toned("retried", counts(why), Tone::bad_if(refused > 0));
        }
        table.seldom("answers dropped", answers_dropped);
        if let Some(rate) = self.work_rate {
            table.row("work", per_second(rate));
        }
        received(self, &mut table);
        table
    }
}

/// Adds what the receiver has, if it told.
fn received(report: &SendReport, table: &mut Table) {
    let Some(Receipt { received, lost, reordered, duplicated, gaps, one_way_variation_ns, .. }) =
        &report.receiver
    else {
        return;
    };
    table.row("received", received);
    table.loss("lost", *lost, report.sent);
    table.seldom("reordered", *reordered);
    table.seldom("duplicated", *duplicated);
    if gaps.gap_ns.count > 0 {
        table.times("arrival gap", &gaps.gap_ns);
        table.times("PDV", one_way_variation_ns);
    }
}

/// Adds late departures, by cause.
fn late(report: &SendReport, table: &mut Table) {
    let mut causes = Grid::new(["late over 1 ms", "departures", "longest", "because"]).words(3);
    for cause in LateCause::ALL {
        let Some(late) = report.late.get(cause.name()).filter(|late| late.count > 0) else { continue };
        let name = cause.name().replace('_', " ");
        causes.row([name, late.count.to_string(), time(late.longest_ns), explained(cause).to_owned()]);
    }
    table.grid(causes);
}

/// Adds how often the flow fell behind, and how it recovered.
fn catch_ups(found: &CatchUps, table: &mut Table) {
    let CatchUps { spells, packets, in_trains, longest_ns } = *found;
    if spells > 0 {
        let trains = if in_trains > 0 { format!(", {in_trains} in trains") } else { String::new() };
        let packets = number(packets, "datagram");
        table.row("catch-ups", format!("{spells}  longest {}  {packets}{trains}", time(longest_ns)));
    }
}

/// Adds system calls, if one sent more than one datagram.
fn handed_over(report: &SendReport, table: &mut Table) {
    let Some(per_call) = report.packets_per_call.filter(|_| report.sent > report.system_calls) else {
        return;
    };
    let cut = match report.segmented {
        0 => String::new(),
        segments => format!("  {segments} as segments"),
    };
    table.row("per call", format!("{per_call:.2} datagrams{cut}"));
}

/// Explains a cause in a few words for people.
fn explained(cause: LateCause) -> &'static str {
    match cause {
        LateCause::Handler => "the loop was busy with something else",
        LateCause::Wakeup => "it slept and woke late",
        LateCause::Scheduler => "another program had the core",
        LateCause::Steal => "the host had the core",
        LateCause::Stopped => "stopped, or off its core unaccounted",
        LateCause::CatchUp => "behind others that were late",
        _ => "",
    }
}

/// Adds the share of a CPU used for busy-polling, if there is an idle policy, and its limit.
fn busy_polling(polled: &PolledReport, table: &mut Table) {
    let Some(taken) = polled.share else { return };
    let mut text = format!("{} of one core", share(taken));
    if let Some(budget) = polled.budget_share {
        text += &format!("  limit {}", share(budget));
        if polled.forced_sleeps > 0 {
            text += &format!(", reached: {} instead", number(polled.forced_sleeps, "sleep"));
        }
    }
    table.row("busy-poll time", text);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::commands::send::args::Send;
    use crate::commands::{Cli, Command};
    use crate::run::screen::Screen;
    use crate::run::snapshot::{self, Live, times};
    use crate::run::stream::columns;
    use clap::Parser;
    use softtimers_load::gaps::Extremes;
    use softtimers_load::gaps::GapReport;
    use softtimers_load::plan::SendVia;
    use softtimers_load::send::LateReport;
    use softtimers_measure::stats::Stats as _;
    use std::time::Duration;

    #[test]
    fn people_read_what_polling_took_and_what_it_might() {
        let row = |share, budget_share| {
            let mut table = Table::default();
            busy_polling(&PolledReport { share, budget_share, forced_sleeps: 12 }, &mut table);
            table.draw(&Screen::PIPE)
        };
        let limited = "busy-poll time  43.0% of one core  limit 50.0%, reached: 12 sleeps instead\n";
        assert_eq!(row(Some(0.43), Some(0.5)), limited);
        assert_eq!(row(Some(0.43), None), "busy-poll time  43.0% of one core\n");
        assert_eq!(row(None, None), "");
    }

    pub(crate) fn full() -> SendReport {
        let named = |names: &[(&'static str, u64)]| names.iter().copied().collect();
        let late = [("wakeup", 3, 2_703_331), ("catch_up", 84, 5_038_136)];
        let late = late.map(|(cause, count, longest_ns)| (cause, LateReport { count, longest_ns }));
        SendReport {
            target_pps: 25_000.0,
            achieved_pps: Some(24_987.0),
            sent: 49_974,
            forfeited: 26,
            late_ns: times(),
            gaps: GapReport { gap_ns: times(), back_to_back: Some(0.000_52), longest_burst: Some(2) },
            longest_train: Some(4),
            flow_share: Extremes { min: Some(0.998), max: Some(1.0) },
            packets_per_turn: Some(1.25),
            send_via: SendVia {
                way: Way::Sendmmsg,
                why: "flows that are due at once share a call".to_owned(),
            },
            system_calls: 39_979,
            packets_per_call: Some(1.25),
            segmented: 9_000,
            cpu_share: 0.371,
            polled: PolledReport { share: Some(0.12), budget_share: Some(0.5), forced_sleeps: 12 },
            wakeups: 12_345,
            trigger_interval_ns: times(),
            triggers: named(&[
                ("syscall_exit", 49_974),
                ("readiness", 77),
                ("backup", 12_000),
                ("idle", 345),
            ]),
            long_handlers: Some(1),
            longest_handler_ns: Some(3_160_000),
            timer_overruns: Some(2),
            fired: named(&[("syscall_exit", 30_000), ("backup", 19_000), ("idle", 974)]),
            late: late.into(),
            catch_up: CatchUps { spells: 3, packets: 84, in_trains: 12, longest_ns: 6_100_000 },
            socket: SocketReport { would_block: 5, no_buffers: 1, refused: 2, answers_dropped: 3 },
            work_rate: Some(35_400.0),
            receiver: Some(Receipt {
                received: 49_970,
                lost: 6,
                duplicated: 2,
                gaps: GapReport { gap_ns: times(), ..GapReport::default() },
                one_way_variation_ns: times(),
                ..Receipt::default()
            }),
            ..SendReport::default()
        }
    }

    #[test]
    fn snapshot() {
        let line = "softtimers send 127.0.0.1:7000 --rate 25kpps --flows 4 --duration 2s --busy compute";
        let plan = match Cli::parse_from(line.split(' ')).command {
            Command::Send(args) => Send::new(&args).unwrap().plan,
            other => panic!("{other:?}"),
        };
        let header = header("send", &plan.config());
        let seconds = softtimers_load::send::stats(&plan).figures(Duration::from_secs(1));
        let live = Live::new(SendStats::COLUMNS, move |screen| {
            columns::<_, SendStats>(0, Duration::from_secs(1), &seconds, screen)
        });
        snapshot::check::<Send, _>("send", &header, &live, &full());
    }
}
