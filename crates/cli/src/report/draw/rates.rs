//! Soft timers' tables on a simulated server: pacing, deadlines, slow start, and a network interface that is polled.

use serde_json::Value;

use super::super::axis::{Axis, Scale};
use super::super::digits::{digits, percent};
use super::super::figure::{Drawn, Grid, Mark, Series};
use super::super::saved::{Runs, number, rows, tamed, text};
use super::{figure, linear, log, micros, of, or_lacks, percents, points, shown, values, with};

/// Tables VIII and IX.
pub(in super::super) fn pacing(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-pacing"), drawn) else { return };
    let all = rows(found, "rows");
    let mut mean = figure(
        "Mean gap by the burst interval (Tables VIII and IX)",
        "A line for each target. It is held until the burst interval is too long for what trigger states allow; hollow marks are the paper's.",
        linear("burst interval", "µs"),
        linear("mean gap", "µs"),
    );
    let mut spread = figure(
        "Standard deviation of the gaps (Tables VIII and IX)",
        &evenness(all),
        linear("burst interval", "µs"),
        linear("standard deviation", "µs"),
    );
    let burst = |row: &Value| micros(row, "burst");
    for (at, target) in values(all, "target").iter().enumerate() {
        let name = format!("target {target}");
        mean.series.push(Series::line(at, &name, points(with(all, "target", target), burst, of("mean_us"))));
        let paper = points(with(all, "target", target), burst, of("paper_us"));
        mean.series.push(Series::of(Mark::Paper, at, format!("{name}, paper"), paper));
        spread.series.push(Series::line(
            at,
            &name,
            points(with(all, "target", target), burst, of("stddev_us")),
        ));
    }
    drawn.figure(mean);
    drawn.figure(spread);
    drawn.note("The bodies of both tables are lost; what the paper's text says of them is 40 µs held at a burst interval of 12 µs and 65.9 µs at 35 µs, 60 µs held up to 30 µs, and deviations of 30 to 35 µs. The times of trigger states were fitted to these words, the 65.9 µs among them.");
}

/// For which targets the gaps are more even with a longer burst interval: a deviation that falls by a tenth.
fn evenness(all: &[Value]) -> String {
    let falls = |target: &String| {
        let mut points = points(with(all, "target", target), |row| micros(row, "burst"), of("stddev_us"));
        points.sort_by(|one, next| one.0.total_cmp(&next.0));
        points.first().zip(points.last()).is_some_and(|(first, last)| last.1 < 0.9 * first.1)
    };
    let (more, not): (Vec<String>, Vec<String>) = values(all, "target").into_iter().partition(falls);
    let said = |what: &str, targets: &[String]| match targets {
        [] => None,
        _ => Some(format!("{what} at a target of {}", targets.join(", "))),
    };
    let said: Vec<String> =
        [said("more even", &more), said("no more even", &not)].into_iter().flatten().collect();
    format!("A line for each target: with a longer burst interval gaps are {}.", said.join(", and "))
}

/// Table XIII.
pub(in super::super) fn deadline(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-deadline"), drawn) else { return };
    let all = rows(found, "rows");
    let deadline = |row: &Value| micros(row, "deadline");
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
            "What the hardware timer behind the soft ones costs, by how late events may be.",
        ),
    ] {
        let mut drawing = figure(title, what, log("deadline after the due time", "µs"), linear(name, "%"));
        for (at, hardware) in values(all, "hardware").iter().enumerate() {
            let name = if hardware == "each" {
                "set for each event".to_owned()
            } else {
                format!("hardware {hardware}")
            };
            drawing.series.push(Series::line(
                at,
                name,
                points(with(all, "hardware", hardware), deadline, percents(key)),
            ));
        }
        let mut of_paper = points(all, deadline, percents(paper));
        of_paper.dedup();
        drawing.series.push(Series::of(Mark::Paper, 0, "paper", of_paper));
        drawn.figure(drawing);
    }
    drawn.note("Intervals between trigger states have the mean of 12.45 µs that the paper gives, and the shape that fits its other tables.");
}

/// Tables X and XI.
pub(in super::super) fn slow_start(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-slowstart"), drawn) else { return };
    let all = rows(found, "rows");
    let mut time = figure(
        "Response time by the length of the answer (Tables X and XI)",
        "Slow start with delayed ACKs and a start at the known rate of the path, at a round-trip time of 100 ms.",
        log("answer", "packets"),
        log("response time", "s"),
    );
    let mut reduction = figure(
        "What pacing saves of the response time",
        "The share of the response time that is saved: most of it in answers of a hundred packets, little in very long ones.",
        log("answer", "packets"),
        linear("saved", "%"),
    );
    for (at, rate) in values(all, "mbit").iter().enumerate() {
        let rows = || with(all, "mbit", rate);
        time.series.push(Series::line(
            2 * at,
            format!("slow start, {rate} Mbit/s"),
            points(rows(), of("packets"), of("delayed_acks_s")),
        ));
        time.series.push(Series::line(
            2 * at + 1,
            format!("paced, {rate} Mbit/s"),
            points(rows(), of("packets"), of("paced_s")),
        ));
        reduction.series.push(Series::line(
            2 * at,
            format!("{rate} Mbit/s"),
            points(rows(), of("packets"), percents("reduction_delayed")),
        ));
        let paper = points(rows(), of("packets"), percents("paper_reduction"));
        reduction.series.push(Series::of(Mark::Paper, 2 * at, format!("{rate} Mbit/s, paper"), paper));
    }
    drawn.figure(time);
    drawn.figure(reduction);
}

/// Section 5.8: polling the network interface.
pub(in super::super) fn polling(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-polling"), drawn) else { return };
    let all: Vec<&Value> = rows(found, "rows").iter().filter(|row| !text(row, "server").is_empty()).collect();
    let mut gains = figure(
        "What polling gains a saturated server (section 5.8)",
        "A line for each server and protocol: the more packets are wanted in a poll, the more requests are answered.",
        linear("packets wanted in a poll", "packets"),
        linear("more requests than with interrupts", "%"),
    );
    let mut kinds: Vec<(String, String)> = vec![];
    for row in &all {
        let kind = (tamed(text(row, "server")), tamed(text(row, "protocol")));
        if !kinds.contains(&kind) && kinds.len() < 8 {
            kinds.push(kind);
        }
    }
    for (at, (server, protocol)) in kinds.iter().enumerate() {
        let rows = all
            .iter()
            .copied()
            .filter(|row| shown(row, "server") == *server && shown(row, "protocol") == *protocol);
        gains.series.push(Series::line(
            at,
            format!("{server}, {protocol}"),
            points(rows, of("quota"), percents("gain")),
        ));
    }
    drawn.figure(gains);
    let mut table = Grid::new(
        "Requests answered",
        &["server", "protocol", "packets wanted", "requests (1/s)", "gain", "delay (µs)"],
    );
    for row in &all {
        let words = [tamed(text(row, "server")), tamed(text(row, "protocol"))];
        let at = |key| digits(number(row, key));
        table.row(words.into_iter().chain([
            at("quota"),
            at("requests_pps"),
            percent(number(row, "gain")),
            at("delay_us"),
        ]));
    }
    drawn.table(table);
    drawn.note("The paper: 3 to 25% more requests, most with Flash and persistent connections.");
}

/// The periodic-timers paper's figure 1.
pub(in super::super) fn frame_rate(runs: &Runs, drawn: &mut Drawn) {
    let Some(found) = or_lacks(runs.only("sim-framerate"), drawn) else { return };
    let all = rows(found, "rows");
    let films = values(all, "fps");
    let names = || Axis::new("film", "frames/s", Scale::Names(films.clone()));
    let mut frames = figure(
        "Frames that are shown in time, by the kernel's tick (figure 1)",
        "A group for each film, a bar for each tick rate: a coarse tick loses frames, a one-shot timer none.",
        names(),
        linear("frames shown in time", "%"),
    );
    for (at, tick) in values(all, "hz").iter().enumerate() {
        let share = with(all, "hz", tick).filter_map(|row| {
            let (wanted, got) = (number(row, "fps")?, number(row, "achieved_fps")?);
            let place = films.iter().position(|film| *film == shown(row, "fps"))?;
            (wanted > 0.0).then(|| (place as f64, 100.0 * got / wanted))
        });
        let name = if tick.parse::<f64>().is_ok() { format!("{tick} Hz") } else { tick.clone() };
        frames.series.push(Series::of(Mark::Bars, at, name, share.collect::<Vec<_>>()));
    }
    drawn.figure(frames);
}
