//! An emulated path: its settings next to the results, as the two ends counted them.
//!
//! ```text
//!   send ──sent──▶ wan ──▶ recv     loss = 1 - received/sent     rate = received packets with their headers
//!                   └ lateness: when a packet left, against when the path says it should
//! ```
//!
//! An end-to-end delay would include two programs' wake-ups, so the path's own clock measures its delay.

use super::super::saved::Runs;
use super::super::value::{number, tamed};
use super::{Cell, cell, linear, or_lacks, ranked};
use softtimers_run::page::digits::{digits, percent};
use softtimers_run::page::figure::{Drawn, Grid, Mark, Series};

/// Compares settings and results.
pub(crate) fn draw(runs: &Runs, drawn: &mut Drawn) {
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
        let Some(wan) = or_lacks(runs.output("wan", label, "wan"), drawn) else { continue };
        let end = |process, key: &str| number(runs.output("wan", label, process).ok()?, key);
        let positive = |value: Option<f64>| value.filter(|&value| value > 0.0);
        let (sent, received) = (positive(end("send", "sent")), end("recv", "received"));
        // The path counts a packet with its headers.
        let headers = number(wan, "up.set.overhead_bytes").unwrap_or(0.0);
        let length = end("recv", "received_bytes").zip(positive(received));
        let length = length.map(|(bytes, count)| bytes / count + headers);
        let rate = end("recv", "received_pps").zip(length).map(|(rate, length)| rate * length * 8e-6);
        table.row([
            tamed(label),
            cell(wan, "up.set.delay_ns", Cell::Millis),
            cell(wan, "up.measured.lateness_ns.p50", Cell::Micros),
            cell(wan, "up.measured.lateness_ns.p99", Cell::Micros),
            digits(positive(number(wan, "up.set.rate_bps")).map(|rate| rate / 1e6)),
            digits(rate),
            cell(wan, "up.set.loss", Cell::Percent),
            percent(sent.zip(received).map(|(sent, received)| 1.0 - received / sent)),
            digits(sent),
            digits(received),
        ]);
        late.extend(number(wan, "up.measured.lateness_ns.p50").map(|nanos| (tamed(label), nanos / 1e3)));
    }
    let text = "The median lateness of packets behind the path's schedule, by its own clock; sorted.";
    let across = linear("later than set, p50", "µs");
    let (marks, places) = ranked("How exact the delay is", text, across, "path", late);
    let marks =
        marks.with([Series::of(Mark::Points, 0, "later than set, p50", places).unless(runs.unfit("wan"))]);
    drawn.figure(marks);
    drawn.table(table);
    drawn.note("'Sent' is the sender's count and 'received' the receiver's; so 'lost' has what a full queue dropped where a rate is set. Rates include the headers that the path counts. A path that queues delays by its queue, too; lateness is against what it says of each packet.");
}
