//! Receiving under overload: this machine's curve, and the livelock paper's figures beside the model's.

use serde_json::Value;

use super::super::digits::{digits, percent};
use super::super::figure::{Drawn, Grid, Mark, Series};
use super::super::finding::Finding;
use super::super::saved::{Runs, number, rows};
use super::{figure, linear, of, or_lacks, percents, points, values, with};

/// Goodput against offered load.
pub(in super::super) fn goodput(runs: &Runs, drawn: &mut Drawn) {
    let mut goodput = figure(
        "Goodput against offered load",
        "What two receivers deliver of what they are offered: one that polls with quotas, and the usual loop that takes whatever is there.",
        linear("offered", "packets/s"),
        linear("delivered", "packets/s"),
    );
    let mut latency = figure(
        "Latency under load",
        "The 99th percentile of the time from the kernel's receive stamp to having been sent on.",
        linear("offered", "packets/s"),
        super::log("latency, p99", "µs"),
    );
    let head = [
        "receiver",
        "loss-free rate (1/s)",
        "most delivered (1/s)",
        "at the highest load (1/s)",
        "of its peak",
    ];
    let mut table = Grid::new("What the curves come to", &head);
    for (at, source, name) in [(0, "bench-hybrid", "softtimers, hybrid"), (1, "bench-naive", "usual loop")] {
        let Some(found) = or_lacks(runs.only(source), drawn) else { continue };
        let trials = rows(found, "points");
        let delivered = by_load(points(trials, of("offered_pps"), of("delivered_pps")));
        goodput.series.push(Series::line(at, name, delivered).unless(runs.unfit(source)));
        let p99 = |point: &Value| number(point, "latency_ns.p99").map(|nanos| nanos / 1e3);
        latency.series.push(
            Series::line(at, name, by_load(points(trials, of("offered_pps"), p99)))
                .unless(runs.unfit(source)),
        );
        let curve = |key: &str| number(found, &format!("curve.{key}"));
        table.row([
            name.to_owned(),
            digits(number(found, "mlfrr_pps")),
            digits(curve("peak_pps")),
            digits(curve("asymptote_pps")),
            percent(curve("asymptote_share")),
        ]);
    }
    drawn.findings.extend(Finding::retained(&goodput));
    drawn.figure(goodput);
    drawn.figure(latency);
    drawn.table(table);
    drawn.note("Sender and receiver share this machine's processors, so what is lost to the sender's own work is in both curves.");
}

/// In the order of what was offered: a sender on a busy machine may reach less where more was asked for.
fn by_load(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|one, next| one.0.total_cmp(&next.0));
    points
}

/// The livelock paper's figures, each with the points that were read from its plots.
pub(in super::super) fn livelock(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-livelock"), drawn) else { return };
    let all = rows(found, "rows");
    for name in values(all, "figure") {
        let of_figure: Vec<Value> = with(all, "figure", &name).cloned().collect();
        let share = name == "7-1";
        let (title, what) =
            FIGURES.iter().find(|known| known.0 == name).map_or(("", ""), |known| (known.1, known.2));
        let y = if share { linear("processor left to a user", "%") } else { linear("output", "packets/s") };
        let mut drawing = figure(&format!("Figure {name}: {title}"), what, linear("input", "packets/s"), y);
        for (at, series) in values(&of_figure, "series").iter().enumerate() {
            let of_series = |key: &str| {
                let rows = with(&of_figure, "series", series);
                if share {
                    points(rows, of("input_pps"), percents(key))
                } else {
                    points(rows, of("input_pps"), of(key))
                }
            };
            let [model, paper] =
                if share { ["user_share", "paper_user_share"] } else { ["output_pps", "paper_pps"] }
                    .map(of_series);
            drawing.series.push(Series::line(at, series, model));
            drawing.series.push(Series::of(Mark::Paper, at, format!("{series}, paper"), paper));
        }
        drawn.figure(drawing);
    }
    drawn.note("The points were read from the vector plots of the conference version (USENIX 1996); its figures 6-1, 6-3, 6-4, 6-5, 6-6 and 7-1 are 2, 5, 6, 7, 9 and 10 of the journal's.");
    drawn.note("One set of costs was fitted to the paper's heights; shapes and order are what the model can be held to.");
}

/// What each figure shows.
const FIGURES: [(&str, &str, &str); 6] = [
    (
        "6-1",
        "the unmodified kernel",
        "Output rises with input and then falls: with a user-level filter to nothing.",
    ),
    (
        "6-3",
        "polling without the filter",
        "With a quota output stays flat; without one it collapses, as it does without polling.",
    ),
    (
        "6-4",
        "polling with the filter",
        "Polling alone livelocks, because the filter starves; feedback from its queue keeps it fed.",
    ),
    ("6-5", "quotas without the filter", "The smaller the quota, the flatter: 5 to 10 packets a turn."),
    ("6-6", "quotas with the filter and feedback", "With feedback the quota hardly matters."),
    (
        "7-1",
        "the processor that is left to a user",
        "A limit on the kernel's share leaves the rest to the user's program.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_nobody_knows_is_drawn_all_the_same() {
        let mut runs = Runs::default();
        let row = serde_json::json!({ "figure": "9-9", "series": "x", "input_pps": 1.0, "output_pps": 2.0, "paper_pps": "NaN" });
        let output = serde_json::json!({ "rows": [row, 7, null] });
        let source = super::super::super::source::find("sim-livelock").unwrap();
        let step = serde_json::json!({ "label": "", "outputs": { "sim": output } });
        runs.keep(source, Ok(serde_json::json!({ "schema": "softtimers.report.run/1", "steps": [step] })));
        let mut drawn = Drawn::default();
        livelock(&runs, &mut drawn);
        assert_eq!(drawn.figures[0].title, "Figure 9-9: ");
        assert_eq!(drawn.figures[0].series.len(), 1);
    }
}
