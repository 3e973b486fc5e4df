//! Simulated tables of the papers: pacing, deadlines, slow start, a polled network interface, video frames, callouts.

use serde_json::Value;

use super::super::finding;
use super::super::saved::Runs;
use super::super::value::{number, rows, text};
use super::{
    Cell, curves, linear, log, micros, nanos, or_lacks, points, shown, table, times, under, values, with,
};
use softtimers_run::page::figure::{Drawn, Figure, Mark, Series};

/// Draws Tables VIII and IX.
pub(crate) fn pacing(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-pacing"), drawn) else { return };
    let all = rows(found, "rows");
    let x = || linear("burst interval", "µs");
    let burst = |row: &Value| micros(row, "burst_ns");
    let named = |target: &str| format!("target {}", nanos(target));
    let mean = Figure::new(
        "Mean gap by the burst interval (Tables VIII and IX)",
        "A line for each target; hollow marks are the paper's.",
        x(),
        linear("mean gap", "µs"),
    );
    let (ours, paper) = ((&burst as _, &under("mean_us") as _), (&burst as _, &under("paper_us") as _));
    drawn.figure(mean.with(curves(all, "target_ns", named, ours, Some(paper))));
    let title = "Standard deviation of the gaps (Tables VIII and IX)";
    let spread = Figure::new(title, evenness(all), x(), linear("standard deviation", "µs"));
    drawn.figure(spread.with(curves(all, "target_ns", named, (&burst, &under("stddev_us")), None)));
    drawn.note("The bodies of both tables are lost; the paper's text says of them: 40 µs held at a burst interval of 12 µs and 65.9 µs at 35 µs, 60 µs held up to 30 µs, and deviations of 30 to 35 µs. The times of trigger states were fitted to these words, the 65.9 µs among them.");
}

/// Names the targets whose gaps become more even with a longer burst interval: a deviation that falls by a tenth.
fn evenness(all: &[Value]) -> String {
    let falls = |target: &String| {
        let mut points =
            points(with(all, "target_ns", target), |row| micros(row, "burst_ns"), under("stddev_us"));
        points.sort_by(|one, next| one.0.total_cmp(&next.0));
        points.first().zip(points.last()).is_some_and(|(first, last)| last.1 < 0.9 * first.1)
    };
    let (more, not): (Vec<String>, Vec<String>) = values(all, "target_ns").into_iter().partition(falls);
    let named = |targets: Vec<String>| targets.iter().map(|target| nanos(target)).collect::<Vec<_>>();
    let (more, not) = (named(more), named(not));
    let said =
        [("more even", more), ("no more even", not)].into_iter().filter(|(_, targets)| !targets.is_empty());
    let said: Vec<String> =
        said.map(|(what, targets)| format!("{what} at a target of {}", targets.join(", "))).collect();
    format!("A line for each target: with a longer burst interval gaps are {}.", said.join(", and "))
}

/// Draws Table XIII.
pub(crate) fn deadline(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-deadline"), drawn) else { return };
    let all = rows(found, "rows");
    let deadline = |row: &Value| micros(row, "deadline_ns");
    let named = |hardware: &str| match hardware {
        "each" => "set for each event".to_owned(),
        _ => format!("hardware {hardware}"),
    };
    for (key, paper, title, name, what) in [
        (
            "expired",
            "paper_expired",
            "Events that the hardware timer fires (Table XIII)",
            "events that expire",
            "The share of events that no trigger state meets in time, by how late they may be.",
        ),
        (
            "overhead",
            "paper_overhead",
            "Overhead of deadlines (Table XIII)",
            "overhead",
            "The cost of the hardware timer behind the soft ones, by how late events may be.",
        ),
    ] {
        let drawing = Figure::new(title, what, log("deadline after the due time", "µs"), linear(name, "%"));
        let lines = curves(all, "hardware", named, (&deadline, &times(100.0, key)), None);
        let mut of_paper = points(all, deadline, times(100.0, paper));
        of_paper.dedup();
        drawn.figure(drawing.with(lines).with([Series::of(Mark::Paper, 0, "paper", of_paper)]));
    }
    drawn.note("Intervals between trigger states have the mean of 12.45 µs that the paper gives, and the shape that fits its other tables.");
}

/// Draws Tables X and XI.
pub(crate) fn slow_start(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-slowstart"), drawn) else { return };
    let all = rows(found, "rows");
    let packets = under("packets");
    let mut time = Figure::new(
        "Response time by the length of the answer (Tables X and XI)",
        "Slow start with delayed ACKs and a start at the known rate of the path, at a round-trip time of 100 ms.",
        log("answer", "packets"),
        log("response time", "s"),
    );
    for (way, key, first) in [("slow start", "delayed_acks_s", 0), ("paced", "paced_s", 1)] {
        let named = |rate: &str| format!("{way}, {rate} Mbit/s");
        let lines = curves(all, "mbit_per_s", named, (&packets, &under(key)), None).into_iter();
        time.series.extend(lines.map(|line| Series { colour: 2 * line.colour + first, ..line }));
    }
    drawn.findings.extend(finding::lowest_at_the_end(&time));
    drawn.figure(time);
    let reduction = Figure::new(
        "Response time saved by pacing",
        "The share of the response time that a start at the known rate saves; hollow marks are the paper's.",
        log("answer", "packets"),
        linear("saved", "%"),
    );
    let [ours, paper] = ["reduction_delayed", "paper_reduction"].map(|key| times(100.0, key));
    let named = |rate: &str| format!("{rate} Mbit/s");
    drawn.figure(reduction.with(curves(
        all,
        "mbit_per_s",
        named,
        (&packets, &ours),
        Some((&packets, &paper)),
    )));
}

/// Draws section 5.8: polling the network interface.
pub(crate) fn polling(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-polling"), drawn) else { return };
    let all = rows(found, "rows").iter().filter(|row| !text(row, "server").is_empty()).cloned();
    // Two keys identify a line.
    let all: Vec<Value> = all
        .map(|mut row| {
            row["kind"] = format!("{}, {}", shown(&row, "server"), shown(&row, "protocol")).into();
            row
        })
        .collect();
    let gains = Figure::new(
        "Requests gained by a saturated server (section 5.8)",
        "A line for each server and protocol, by the number of packets wanted in a poll.",
        linear("packets wanted in a poll", "packets"),
        linear("more requests than with interrupts", "%"),
    );
    drawn.figure(gains.with(curves(
        &all,
        "kind",
        str::to_owned,
        (&under("quota"), &times(100.0, "gain")),
        None,
    )));
    let columns = [
        ("server", "server", Cell::Text),
        ("protocol", "protocol", Cell::Text),
        ("packets wanted", "quota", Cell::Number),
        ("requests (1/s)", "requests_per_s", Cell::Number),
        ("gain", "gain", Cell::Percent),
        ("delay (µs)", "delay_us", Cell::Number),
    ];
    drawn.table(table("Requests answered", &all, &columns));
    drawn.note("The paper: 3 to 25% more requests, most with Flash and persistent connections.");
}

/// Draws the periodic-timers paper's figure 1.
pub(crate) fn frame_rate(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-framerate"), drawn) else { return };
    let frames = Figure::new(
        "Frames shown in time, by the kernel's tick (figure 1)",
        "A line for each tick rate, by the frame rate of the video.",
        linear("video frame rate", "frames/s"),
        linear("frames shown in time", "%"),
    );
    let share = |row: &Value| {
        let (wanted, got) = (number(row, "fps")?, number(row, "achieved_fps")?);
        (wanted > 0.0).then(|| 100.0 * got / wanted)
    };
    let named = |tick: &str| match tick.parse::<f64>() {
        Ok(_) => format!("{tick} Hz"),
        Err(_) => "smart timers".to_owned(),
    };
    drawn.figure(frames.with(curves(rows(found, "rows"), "hz", named, (&under("fps"), &share), None)));
}

/// Draws Table I and figure 8 of Costello and Varghese.
pub(crate) fn callouts(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-callout"), drawn) else { return };
    let all = rows(found, "rows");
    let cost = Figure::new(
        "Setting and cancelling a callout (Table I)",
        "A line for each facility, by the number of callouts outstanding. Hollow marks are the paper's.",
        linear("callouts outstanding", "callouts"),
        linear("set and cancel", "µs"),
    );
    let outstanding = under("outstanding");
    let (ours, paper) =
        ((&outstanding as _, &under("set_cancel_us") as _), (&outstanding as _, &under("paper_us") as _));
    let cost = cost.with(curves(all, "kernel", str::to_owned, ours, Some(paper)));
    drawn.findings.extend(finding::lowest_at_the_end(&cost));
    drawn.figure(cost);
    drawn.note("The model counts the entries passed; their cost is two fitted constants. The paper's own line is 136.7 µs and 1.324 µs for each callout outstanding.");
}
