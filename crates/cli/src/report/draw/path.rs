//! An emulated path: what was set beside what came out.

use super::super::axis::{Axis, Scale};
use super::super::figure::{Drawn, Grid, Mark, Series, digits, percent};
use super::super::saved::{Runs, number, tamed};
use super::{figure, linear, or_lacks, with_series};

/// Set against measured.
pub(in super::super) fn draw(runs: &Runs, drawn: &mut Drawn) {
    let Some(labels) = or_lacks(runs.labels("wan"), drawn) else { return };
    let head = [
        "path",
        "delay set (ms)",
        "p50",
        "p99",
        "rate set (Mbit/s)",
        "came out",
        "loss set",
        "came out",
        "received by the other end",
    ];
    let mut table = Grid::new("Set and measured", &head);
    let (mut late, mut names) = (vec![], vec![]);
    for label in labels {
        let Some(wan) = or_lacks(runs.output("wan", label, "wan"), drawn) else { continue };
        let number = |path: &str| number(wan, &format!("up.{path}"));
        let millis = |path| number(path).map(|nanos| nanos / 1e6);
        let megabits = |path| digits(number(path).map(|bits| bits / 1e6));
        let received =
            runs.output("wan", label, "recv").ok().and_then(|found| super::number(found, "received"));
        table.row([
            tamed(label),
            digits(millis("set.delay_ns")),
            digits(millis("measured.delay_ns.p50")),
            digits(millis("measured.delay_ns.p99")),
            megabits("set.rate_bps"),
            megabits("measured.rate_bps"),
            percent(number("set.loss")),
            percent(number("measured.loss")),
            digits(received),
        ]);
        let beyond = number("measured.lateness_ns.p50").map(|nanos| nanos / 1e3);
        late.extend(beyond.map(|beyond| (names.len() as f64, beyond)));
        names.push(tamed(label));
    }
    let bars = Series::of(Mark::Bars, 0, "later than set, p50", late);
    let what = "By how much later than the path says packets came out, at the median.";
    let paths = Axis::new("path", "as set", Scale::Names(names));
    drawn.figure(with_series(
        figure("How exact the delay is", what, paths, linear("later than set, p50", "µs")),
        [bars],
    ));
    drawn.table(table);
}
