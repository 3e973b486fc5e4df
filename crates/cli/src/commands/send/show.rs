//! The report of `send` for people.

use std::collections::BTreeMap;
use std::time::Duration;

use softtimers::late::LateCause;
use softtimers_load::send::{PolledReport, SendReport, SocketReport};
use softtimers_measure::units::show_duration;

use crate::run::output::Report;
use crate::run::table::Table;

impl Report for SendReport {
    const SCHEMA: &'static str = "softtimers.send/1";

    fn table(&self) -> Table {
        let mut table = Table::default();
        let achieved = self.achieved_pps.map_or("-".to_owned(), |rate| format!("{rate:.0}"));
        table.row("rate", format!("{achieved} of {:.0} packets/s", self.target_pps));
        table.row("sent", self.sent);
        table.row("forfeited", self.forfeited);
        table.distribution("lateness", &self.late_ns);
        table.distribution("gaps", &self.gaps.gap_ns);
        table.share("back to back", self.gaps.back_to_back);
        table.number("longest burst", self.gaps.longest_burst);
        if let (Some(min), Some(max)) = (self.flow_share.min, self.flow_share.max) {
            table.row("flows", format!("each sent {:.2}% to {:.2}% of its share", min * 100.0, max * 100.0));
            table.number("longest train", self.longest_train);
            let mean = self.packets_per_turn.map_or("-".to_owned(), |mean| format!("{mean:.2} packets"));
            table.row("left in a turn", mean);
        }
        handed_over(self, &mut table);
        table.share("cpu of one core", Some(self.cpu_share));
        polled(&self.polled, &mut table);
        table.row("wake-ups", self.wakeups);
        table.row("found due by", counts(&self.fired));
        if self.trigger_interval_ns.count > 0 {
            table.distribution("looked for due", &self.trigger_interval_ns);
        }
        if self.triggers.values().any(|&count| count > 0) {
            table.row("trigger states", counts(&self.triggers));
        }
        if let Some((count, longest)) = self.long_handlers.zip(self.longest_handler_ns) {
            let longest = show_duration(Duration::from_nanos(longest));
            table.row("long handlers", format!("{count} over 1ms; the longest took {longest}"));
        }
        if let Some(overruns) = self.timer_overruns.filter(|&overruns| overruns > 0) {
            table.row("timer overruns", overruns);
        }
        for cause in LateCause::ALL {
            let Some(late) = self.late.get(cause.name()).filter(|late| late.count > 0) else { continue };
            let longest = show_duration(Duration::from_nanos(late.longest_ns));
            let why = explained(cause);
            table.row(
                &format!("late: {}", cause.name()),
                format!("{} departures, up to {longest}: {why}", late.count),
            );
        }
        let SocketReport { would_block, no_buffers, refused, answers_dropped } = self.socket;
        if would_block + no_buffers + refused > 0 {
            table.row(
                "tried again",
                format!("{would_block} full buffer, {no_buffers} full queue, {refused} refused"),
            );
        }
        if answers_dropped > 0 {
            table.row("answers dropped", answers_dropped);
        }
        if let Some(rate) = self.work_rate {
            table.row("work", format!("{rate:.0}/s"));
        }
        table
    }
}

/// Only where a system call took more than one datagram.
fn handed_over(report: &SendReport, table: &mut Table) {
    let Some(per_call) = report.packets_per_call.filter(|_| report.sent > report.system_calls) else {
        return;
    };
    let cut = match report.segmented {
        0 => String::new(),
        segments => format!("; {segments} by UDP_SEGMENT"),
    };
    table.row("handed over", format!("{per_call:.2} packets per system call{cut}"));
}

/// What a cause means, in a few words for people.
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

fn counts(fired: &BTreeMap<&'static str, u64>) -> String {
    let shown: Vec<String> = fired
        .iter()
        .filter(|&(_, &count)| count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if shown.is_empty() { "-".to_owned() } else { shown.join("  ") }
}

/// How much of a processor polling took, where there is an idle policy, and what it might take.
fn polled(polled: &PolledReport, table: &mut Table) {
    let Some(share) = polled.share else { return };
    let percent = |share: f64| format!("{:.2}%", share * 100.0);
    let mut text = format!("{} of one core", percent(share));
    if let Some(budget) = polled.budget_share {
        text += &format!(", of a budget of {}; {} sleeps forced", percent(budget), polled.forced_sleeps);
    }
    table.row("polled away", text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_what_polling_took_and_what_it_might() {
        let row = |share, budget_share| {
            let mut table = Table::default();
            polled(&PolledReport { share, budget_share, forced_sleeps: 12 }, &mut table);
            table.to_string()
        };
        let limited = "polled away  43.00% of one core, of a budget of 50.00%; 12 sleeps forced\n";
        assert_eq!(row(Some(0.43), Some(0.5)), limited);
        assert_eq!(row(Some(0.43), None), "polled away  43.00% of one core\n");
        assert_eq!(row(None, None), "");
    }
}
