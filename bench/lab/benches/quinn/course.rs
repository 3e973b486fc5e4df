//! The course of one transfer: its window, the rate at which the link carries it, and the link's queue, over time.

use std::time::Duration;

use softtimers::Timestamp;
use softtimers_lab::bench::Done;
use softtimers_trials::result::{Cell, Table};

use crate::path::{Crossed, Line};
use crate::plan::Plan;
use crate::run::{Kind, Load, transfer};

/// Runs one transfer of each kind over each path: no figure of it is a median.
pub(crate) fn course(plan: &Plan) -> Done<Vec<Table>> {
    let columns = [("path", 0), ("quinn", 0), ("ms", 0), ("window kB", 0), ("Mbit/s", 1), ("queue", 0)];
    let mut table = Table::new("course", &columns);
    for line in [Line::SHORT, Line::FAST] {
        for kind in [Kind::Stock, Kind::Even] {
            let transferred = transfer(kind, Load::on(line), plan.megabytes * 1_000_000);
            let (sent, seen) = transferred.map_err(|error| -> Box<dyn std::error::Error> { error })?;
            let mut from = sent.began;
            for &(at, window) in &sent.windows {
                if at < from + STEP {
                    continue;
                }
                let [rate, queue] = within(&seen.crossed, from, at, line);
                let millis = at.saturating_duration_since(sent.began).as_secs_f64() * 1e3;
                let heads: [Cell; 2] = [line.to_string().into(), kind.name().into()];
                let figures = [millis, window as f64 / 1e3, rate, queue];
                let figures = figures.map(|figure| Cell::Number((figure * 10.0).round() / 10.0));
                table.rows.push(heads.into_iter().chain(figures).collect());
                from = at;
            }
        }
    }
    Ok(vec![table])
}

/// Returns the Mbit/s that came to the link between two times and were not dropped; and its longest queue in packets.
fn within(crossed: &[Crossed], from: Timestamp, to: Timestamp, line: Line) -> [f64; 2] {
    let packets = crossed.iter().filter(|packet| (from..to).contains(&packet.offered));
    let (mut bytes, mut most) = (0.0, 0.0f64);
    for Crossed { bytes: length, behind, .. } in packets {
        bytes += f64::from(*length);
        most = most.max(behind.as_secs_f64() * line.mbit as f64 * 1e6 / 8.0 / f64::from(*length));
    }
    [bytes * 8e-6 / to.saturating_duration_since(from).as_secs_f64(), most.round()]
}

/// The time between two points of a course.
const STEP: Duration = Duration::from_millis(10);
