//! Receiving under overload: this machine's curve, and the livelock paper's figures next to the model's.

use serde_json::Value;

use super::super::finding::{self, Plateau};
use super::super::saved::Runs;
use super::super::value::{number, rows};
use super::{curves, linear, log, or_lacks, points, times, under, values, with};
use softtimers_run::page::digits::{digits, percent};
use softtimers_run::page::figure::{Drawn, Figure, Grid, Series};

/// Draws goodput against offered load.
pub(crate) fn goodput(runs: &Runs, drawn: &mut Drawn) {
    let offered = || linear("offered", "packets/s");
    let mut goodput = Figure::new(
        "Goodput against offered load",
        "Packets delivered of those offered: by a receiver that polls with quotas, and by the usual loop that takes everything available.",
        offered(),
        linear("delivered", "packets/s"),
    );
    let mut latency = Figure::new(
        "Latency under load",
        "The 99th percentile of the time from the kernel's receive stamp to having been sent on.",
        offered(),
        log("latency, p99", "µs"),
    );
    let head = ["receiver", "loss-free rate (1/s)", "peak (1/s)", "at the highest load (1/s)", "of its peak"];
    let mut table = Grid::new("The curves in numbers", &head);
    for (at, source, name) in [(0, "bench-hybrid", "softtimers, hybrid"), (1, "bench-naive", "usual loop")] {
        let Some(found) = or_lacks(runs.only(source), drawn) else { continue };
        let line = |points| Series::line(at, name, points).unless(runs.unfit(source));
        let plateau = plateau(found);
        table.row([
            name.to_owned(),
            digits(number(found, "mlfrr_pps")),
            digits(plateau.map(|plateau| plateau.peak)),
            digits(plateau.map(|plateau| plateau.end)),
            percent(plateau.map(Plateau::share)),
        ]);
        goodput.series.push(line(by_load(found, delivered)));
        latency.series.push(line(by_load(found, times(1e-3, "latency_ns.p99"))));
    }
    drawn.findings.extend(finding::retained(&goodput));
    drawn.figure(goodput);
    drawn.figure(latency);
    drawn.table(table);
    drawn.note("Sender and receiver share this machine's CPUs, so both curves include the CPU that the sender takes.");
}

/// Returns the share of a receiver's peak that remains under the highest load, from the drawn points.
pub(super) fn plateau(found: &Value) -> Option<Plateau> {
    Plateau::from_points(&by_load(found, delivered))
}

/// Without loss, the offered rate: some datagrams leave after the end only because a trial has an end.
fn delivered(point: &Value) -> Option<f64> {
    let lossless = point["loss_free"] == true;
    number(point, if lossless { "offered_pps" } else { "delivered_pps" })
}

/// Sorts by load, since a sender on a busy machine may reach less for a higher request.
fn by_load(found: &Value, y: impl Fn(&Value) -> Option<f64>) -> Vec<(f64, f64)> {
    let mut points = points(rows(found, "points"), under("offered_pps"), y);
    points.sort_by(|one, next| one.0.total_cmp(&next.0));
    points
}

/// Draws the livelock paper's figures, each with the points read from its plots.
pub(crate) fn livelock(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-livelock"), drawn) else { return };
    let all = rows(found, "rows");
    for name in values(all, "figure") {
        let of_figure: Vec<Value> = with(all, "figure", &name).cloned().collect();
        let title = FIGURES.iter().find(|known| known.0 == name).map_or("", |known| known.1);
        let title = format!("Figure {name}: {title}");
        let text = "A line for each simulated kernel; hollow marks are the points of the paper.";
        let drawing = |y| Figure::new(title, text, linear("input", "packets/s"), y);
        let input = under("input_pps");
        if name == "7-1" {
            let [ours, paper] = ["user_share", "paper_user_share"].map(|key| times(100.0, key));
            let lines = curves(&of_figure, "series", str::to_owned, (&input, &ours), Some((&input, &paper)));
            drawn.figure(drawing(linear("CPU left to a user", "%")).with(lines));
        } else {
            let [ours, paper] = ["output_pps", "paper_pps"].map(under);
            let lines = curves(&of_figure, "series", str::to_owned, (&input, &ours), Some((&input, &paper)));
            let drawing = drawing(linear("output", "packets/s")).with(lines);
            drawn.findings.extend(finding::retained(&drawing));
            drawn.figure(drawing);
        }
    }
    drawn.note("The points were read from the vector plots of the conference version (USENIX 1996); its figures 6-1, 6-3, 6-4, 6-5, 6-6 and 7-1 are 2, 5, 6, 7, 9 and 10 of the journal's.");
    drawn.note(
        "One set of costs was fitted to the paper's heights; compare the shapes and the order of the curves.",
    );
}

/// The paper's figures that are simulated.
const FIGURES: [(&str, &str); 6] = [
    ("6-1", "the unmodified kernel"),
    ("6-3", "polling without the filter"),
    ("6-4", "polling with the filter"),
    ("6-5", "quotas without the filter"),
    ("6-6", "quotas with the filter and feedback"),
    ("7-1", "the CPU time left to a user process"),
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
