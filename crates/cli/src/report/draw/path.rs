//! An emulated path: what was set beside what came out, as the two ends counted it.
//!
//! ```text
//!   send ──sent──▶ wan ──▶ recv     loss = 1 - received/sent     rate = received packets with their headers
//!                   └ lateness: when a packet left, against when the path says it should
//! ```
//!
//! A delay from end to end would be of two programs that were woken as well; that of the path is told by its own clock.

use super::super::axis::{Axis, Scale};
use super::super::digits::{digits, percent};
use super::super::figure::{Drawn, Grid, Mark, Series};
use super::super::saved::{Runs, number, tamed};
use super::{figure, linear, or_lacks, with_series};

/// One path, of a step of the source.
pub(super) struct Path {
    pub(super) delay_ns: Option<f64>,
    pub(super) rate_bps: Option<f64>,
    pub(super) loss: Option<f64>,
    /// By the path's own clock, against what the path says of each packet.
    pub(super) late_p50_ns: Option<f64>,
    late_p99_ns: Option<f64>,
    /// By the sender.
    pub(super) sent: Option<f64>,
    /// By the receiver.
    received: Option<f64>,
    /// The same, with the headers that the path's rate counts.
    pub(super) received_bps: Option<f64>,
    /// Of what was sent, whoever lost it.
    pub(super) lost_share: Option<f64>,
}

impl Path {
    /// `None` if the path itself has no figures.
    pub(super) fn of(runs: &Runs, label: &str) -> Option<Self> {
        let end = |process, key: &str| number(runs.output("wan", label, process).ok()?, key);
        let wan = runs.output("wan", label, "wan").ok()?;
        let up = |path: &str| number(wan, &format!("up.{path}"));
        let (sent, received) = (end("send", "sent").filter(|&sent| sent > 0.0), end("recv", "received"));
        let length = end("recv", "received_bytes").zip(received.filter(|&count| count > 0.0));
        let length = length.map(|(bytes, count)| bytes / count + up("set.overhead_bytes").unwrap_or(0.0));
        Some(Path {
            delay_ns: up("set.delay_ns"),
            rate_bps: up("set.rate_bps").filter(|&rate| rate > 0.0),
            loss: up("set.loss"),
            late_p50_ns: up("measured.lateness_ns.p50"),
            late_p99_ns: up("measured.lateness_ns.p99"),
            sent,
            received,
            received_bps: end("recv", "received_pps").zip(length).map(|(rate, length)| rate * length * 8.0),
            lost_share: sent.zip(received).map(|(sent, received)| 1.0 - received / sent),
        })
    }
}

/// Set against what came out.
pub(in super::super) fn draw(runs: &Runs, drawn: &mut Drawn) {
    let Some(labels) = or_lacks(runs.labels("wan"), drawn) else { return };
    let head = [
        "path",
        "delay set (ms)",
        "later than that, p50 (µs)",
        "p99 (µs)",
        "rate set (Mbit/s)",
        "received (Mbit/s)",
        "loss set",
        "lost",
        "sent",
        "received",
    ];
    let mut table = Grid::new("Set and seen", &head);
    let (mut late, mut names) = (vec![], vec![]);
    for label in labels {
        if or_lacks(runs.output("wan", label, "wan"), drawn).is_none() {
            continue;
        }
        let Some(path) = Path::of(runs, label) else { continue };
        let over = |value: Option<f64>, unit: f64| digits(value.map(|value| value / unit));
        table.row([
            tamed(label),
            over(path.delay_ns, 1e6),
            over(path.late_p50_ns, 1e3),
            over(path.late_p99_ns, 1e3),
            over(path.rate_bps, 1e6),
            over(path.received_bps, 1e6),
            percent(path.loss),
            percent(path.lost_share),
            digits(path.sent),
            digits(path.received),
        ]);
        late.extend(path.late_p50_ns.map(|nanos| (names.len() as f64, nanos / 1e3)));
        names.push(tamed(label));
    }
    let bars = Series::of(Mark::Bars, 0, "later than set, p50", late).unless(runs.unfit("wan"));
    let what =
        "By how much later than the path says packets came out, at the median and by the path's own clock.";
    let paths = Axis::new("path", "as set", Scale::Names(names));
    drawn.figure(with_series(
        figure("How exact the delay is", what, paths, linear("later than set, p50", "µs")),
        [bars],
    ));
    drawn.table(table);
    drawn.note("What was sent is the sender's count, what was received the receiver's; so 'lost' has what a full queue dropped where a rate is set. Rates are with the headers that the path counts. A path that queues delays by its queue, too; lateness is against what it says of each packet.");
}
