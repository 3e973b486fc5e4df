//! An emulated path: what was set beside what came out, as the two ends counted it.
//!
//! ```text
//!   send ──sent──▶ wan ──▶ recv     loss = 1 - received/sent     rate = received packets with their headers
//!                   └ lateness: when a packet left, against when the path says it should
//! ```
//!
//! A delay from end to end would be of two programs that were woken as well; that of the path is told by its own clock.

use super::super::digits::{digits, percent};
use super::super::figure::{Drawn, Grid, Mark, Series};
use super::super::saved::{Runs, number, tamed};
use super::{linear, or_lacks, ranked};

/// One path, of a step of the source.
struct Path {
    delay_ns: Option<f64>,
    rate_bps: Option<f64>,
    loss: Option<f64>,
    /// By the path's own clock, against what the path says of each packet.
    late_p50_ns: Option<f64>,
    late_p99_ns: Option<f64>,
    /// By the sender.
    sent: Option<f64>,
    /// By the receiver.
    received: Option<f64>,
    /// The same, with the headers that the path's rate counts.
    received_bps: Option<f64>,
    /// Of what was sent, whoever lost it.
    lost_share: Option<f64>,
}

impl Path {
    /// `None` if the path itself has no figures.
    fn of(runs: &Runs, label: &str) -> Option<Self> {
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
    let mut table = Grid::new("Set and measured", &head);
    let mut late = vec![];
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
        late.extend(path.late_p50_ns.map(|nanos| (tamed(label), nanos / 1e3)));
    }
    let text = "By how much later than the path says packets came out, at the median and by the path's own clock; sorted.";
    let (marks, places) =
        ranked("How exact the delay is", text, linear("later than set, p50", "µs"), "path", late);
    let marks =
        marks.with([Series::of(Mark::Points, 0, "later than set, p50", places).unless(runs.unfit("wan"))]);
    drawn.figure(marks);
    drawn.table(table);
    drawn.note("'Sent' is the sender's count and 'received' the receiver's; so 'lost' has what a full queue dropped where a rate is set. Rates include the headers that the path counts. A path that queues delays by its queue, too; lateness is against what it says of each packet.");
}
