//! What the sentence above a section says, held against the section's own runs: a caption that a run contradicts stands
//! above it as *Not in this run*, with what the run has instead.
//!
//! ```text
//!   "with quotas the line stays flat."  ──claim(runs)──▶  Ok      the sentence
//!                                                    └─▶  Err     Not in this run: … stays flat; here it is 50% of its peak.
//! ```
//!
//! A figure that is not there contradicts nothing; the section says itself what it lacks. Bounds are those of the words:
//! "little more" is less than twice, "about" is within a tenth unless it is said here.

use serde_json::Value;

use super::super::digits::{digits, percent};
use super::super::saved::{Runs, number, rows, tamed, text};
use super::{micros, of, points, values, with};

/// Whether the runs agree with a sentence; what they have instead if not.
pub(in super::super) type Claim = fn(&Runs) -> Held;

/// `Err` is a part of a sentence without its end: what is the case instead.
pub(in super::super) type Held = Result<(), String>;

/// Of a sentence that says how to read a figure, or what a paper found: no run can contradict it.
pub(in super::super) const GUIDE: Claim = |_| Ok(());

/// `Err` if something is known not to be so.
fn unless(holds: Option<bool>, otherwise: impl FnOnce() -> String) -> Held {
    if holds == Some(false) { Err(otherwise()) } else { Ok(()) }
}

/// The first and the last of a curve, in the order of x.
fn ends(mut points: Vec<(f64, f64)>) -> Option<(f64, f64)> {
    points.sort_by(|one, next| one.0.total_cmp(&next.0));
    points.first().zip(points.last()).map(|(first, last)| (first.1, last.1))
}

pub(in super::super) fn costs(runs: &Runs) -> Held {
    let Ok(doctor) = runs.only("doctor") else { return Ok(()) };
    let cost = |key: &str| number(doctor, &format!("costs.{key}"));
    let (look, clock, wake) = (cost("turn_ns"), cost("clock_read_ns"), cost("wakeup_cpu_ns"));
    let ns = |value| digits(value);
    unless(look.zip(clock).map(|(look, clock)| look <= 2.0 * clock), || {
        format!("a look cost {} ns and reading the clock {} ns", ns(look), ns(clock))
    })?;
    unless(look.zip(wake).map(|(look, wake)| wake >= 100.0 * look), || {
        format!("waking up cost {} ns and a look {} ns", ns(wake), ns(look))
    })
}

/// The median lateness of each method under a load, and its share of a processor.
fn methods<'a>(runs: &'a Runs, load: &str) -> Vec<(&'a str, f64, f64)> {
    let cells = runs.only("doctor").map_or(&[][..], |doctor| rows(doctor, "pacing")).iter();
    let cells = cells.filter(|cell| text(cell, "busy") == load);
    let of_cell = |cell: &'a Value| {
        Some((text(cell, "method"), number(cell, "late_ns.p50")?, number(cell, "cpu_share")?))
    };
    cells.filter_map(of_cell).collect()
}

pub(in super::super) fn lateness(runs: &Runs) -> Held {
    let late = |load: &str| {
        let methods = methods(runs, load);
        let soft = methods.iter().find(|method| method.0 == "soft").map(|method| method.1 / 1e3);
        // What sleeps until a kernel timer ends, in the loop itself.
        let sleeps = methods.iter().filter(|method| ["pwait2", "timerfd", "ms"].contains(&method.0));
        (soft, sleeps.map(|method| method.1 / 1e3).reduce(f64::min))
    };
    let (soft, sleeps) = late("echo");
    unless(soft.zip(sleeps).map(|(soft, sleeps)| soft < 0.5 * sleeps), || {
        let (soft, sleeps) = (digits(soft), digits(sleeps));
        format!(
            "in the busy loop soft timers were {soft} µs late at the median and the best that sleeps {sleeps} µs"
        )
    })?;
    let (soft, _) = late("none");
    // Behind for good is at the end of what may be caught up with, 10 ms.
    unless(soft.map(|soft| soft < 1_000.0), || {
        format!("in the idle loop soft timers were {} µs late at the median", digits(soft))
    })
}

pub(in super::super) fn spinning(runs: &Runs) -> Held {
    let methods = methods(runs, "none");
    let Some(&(_, late, share)) = methods.iter().find(|method| method.0 == "spin") else { return Ok(()) };
    unless(Some(share >= 0.9), || {
        format!("spinning had {} of a processor while the loop was idle", percent(Some(share)))
    })?;
    unless(Some(late < 10_000.0), || {
        format!("spinning was {} µs late at the median", digits(Some(late / 1e3)))
    })
}

pub(in super::super) fn slack(runs: &Runs) -> Held {
    let sent = |label: &&str| runs.output("slack", label, "send").ok();
    let labels = runs.labels("slack").unwrap_or_default();
    let sent: Vec<&Value> = labels.iter().filter_map(sent).collect();
    // In the order of the slack that was given, which rises.
    let ends = |key: &str| number(sent.first()?, key).zip(number(sent.last()?, key));
    let (wakeups, late) = (ends("wakeups"), ends("late_ns.p50"));
    unless(wakeups.map(|(none, most)| sent.len() < 2 || most < none), || {
        let (none, most) = wakeups.unwrap_or_default();
        format!("the least slack took {none} wake-ups and the most {most}")
    })?;
    unless(late.map(|(none, most)| sent.len() < 2 || most > none), || {
        "the least slack was the latest".to_owned()
    })
}

pub(in super::super) fn triggers(runs: &Runs) -> Held {
    let cpus = runs.only("probe").map_or(&[][..], |probe| rows(probe, "cpus")).iter();
    let medians = cpus.filter_map(|cpu| Some((number(cpu, "cpu")?, number(cpu, "interval_ns.p50")? / 1e3)));
    let longest = medians.max_by(|one, next| one.1.total_cmp(&next.1));
    unless(longest.map(|(_, median)| median < 18.0), || {
        let (cpu, median) = longest.unwrap_or_default();
        format!("the median on processor {cpu} is {} µs", digits(Some(median)))
    })
}

pub(in super::super) fn goodput(runs: &Runs) -> Held {
    let curve = |source| runs.only(source).ok().and_then(|found| found.get("curve"));
    let share = |source| number(curve(source)?, "asymptote_share");
    let behaviour = |source| curve(source).map_or("", |curve| text(curve, "behaviour"));
    let (flat, falls) = (share("bench-hybrid"), share("bench-naive"));
    unless(flat.map(|share| share >= 0.9 && behaviour("bench-hybrid") != "livelock"), || {
        format!("with quotas {} of the peak was delivered at the highest load", percent(flat))
    })?;
    unless(falls.map(|share| share < 0.9), || {
        format!("the usual loop delivered {} of its peak at the highest load", percent(falls))
    })
}

pub(in super::super) fn wan(runs: &Runs) -> Held {
    for label in runs.labels("wan").unwrap_or_default() {
        let Some(path) = super::path::Path::of(runs, label) else { continue };
        let label = tamed(label);
        let late = path.late_p50_ns.zip(path.delay_ns).filter(|(_, delay)| *delay > 0.0);
        unless(late.map(|(late, delay)| late < 0.1 * delay), || {
            let [late, delay] =
                [path.late_p50_ns, path.delay_ns].map(|nanos| digits(nanos.map(|ns| ns / 1e3)));
            format!("with '{label}' packets were {late} µs later than the {delay} µs that were set")
        })?;
        unless(path.rate_bps.zip(path.received_bps).map(|(set, got)| (got / set - 1.0).abs() < 0.1), || {
            let [set, got] =
                [path.rate_bps, path.received_bps].map(|bits| digits(bits.map(|bits| bits / 1e6)));
            format!("with '{label}' {got} Mbit/s came out of {set}")
        })?;
        // Four deviations of so many draws; where a rate is set the queue drops, too.
        let room = |loss: f64| 4.0 * (loss * (1.0 - loss) / path.sent.unwrap_or(1.0).max(1.0)).sqrt() + 0.005;
        let loss = path.loss.zip(path.lost_share).filter(|_| path.rate_bps.is_none());
        unless(loss.map(|(set, got)| (got - set).abs() < room(set)), || {
            format!("with '{label}' {} of the packets were lost", percent(path.lost_share))
        })?;
    }
    Ok(())
}

pub(in super::super) fn overhead(runs: &Runs) -> Held {
    let all = runs.only("rates").map_or(&[][..], |noise| rows(noise, "rates"));
    let of_way = |key| ends(points(all, of("hz"), of(key)));
    let (tick, smart) = (of_way("cpu_share"), of_way("smart.cpu_share"));
    unless(tick.map(|(slowest, fastest)| all.len() < 2 || fastest > slowest), || {
        format!("the fastest tick took {} of the processor", percent(tick.map(|ends| ends.1)))
    })?;
    unless(tick.zip(smart).map(|(tick, smart)| smart.1 < tick.1), || {
        let [tick, smart] = [tick, smart].map(|ends| percent(ends.map(|ends| ends.1)));
        format!("at the highest rate the tick took {tick} of the processor and smart timers {smart}")
    })
}

/// "About the same" is within three times: a million timers are not in a cache.
pub(in super::super) fn peers(runs: &Runs) -> Held {
    let Ok(bench) = runs.whole("timers") else { return Ok(()) };
    let costs = super::structures::costs_of(bench, "set_cancel_ns", "W1/", "softtimers");
    let least = costs.iter().copied().reduce(f64::min);
    let most = costs.iter().copied().reduce(f64::max);
    unless(least.zip(most).map(|(least, most)| most <= 3.0 * least), || {
        format!("it is {} to {} ns", digits(least), digits(most))
    })
}

pub(in super::super) fn pacing(runs: &Runs) -> Held {
    let all = runs.only("sim-pacing").map_or(&[][..], |found| rows(found, "rows"));
    for target in values(all, "target") {
        let burst = |row: &Value| micros(row, "burst");
        let means = ends(points(with(all, "target", &target), burst, of("mean_us")));
        let wanted = with(all, "target", &target).next().and_then(|row| micros(row, "target"));
        // With the shortest burst interval there is room; with the longest there may be none.
        unless(means.zip(wanted).map(|((mean, _), wanted)| (mean / wanted - 1.0).abs() < 0.02), || {
            format!("a target of {target} comes to {} µs", digits(means.map(|ends| ends.0)))
        })?;
    }
    Ok(())
}

pub(in super::super) fn slow_start(runs: &Runs) -> Held {
    let all = runs.only("sim-slowstart").map_or(&[][..], |found| rows(found, "rows")).iter();
    let of_hundred = all.filter(|row| number(row, "packets") == Some(100.0));
    let left = of_hundred.filter_map(|row| number(row, "reduction_delayed")).map(|saved| 1.0 - saved);
    // From a ninth to a seventh.
    let off = left.into_iter().find(|left| !(0.11..0.145).contains(left));
    unless(off.map(|_| false), || format!("{} is left of it", percent(off)))
}

pub(in super::super) fn deadline(runs: &Runs) -> Held {
    let all = runs.only("sim-deadline").map_or(&[][..], |found| rows(found, "rows"));
    for hardware in values(all, "hardware") {
        let late = |row: &Value| micros(row, "deadline");
        let mut curve = points(with(all, "hardware", &hardware), late, of("expired"));
        curve.sort_by(|one, next| one.0.total_cmp(&next.0));
        let falls = curve.is_sorted_by(|one, next| next.1 <= one.1);
        unless(Some(falls), || "a later deadline expires more often".to_owned())?;
        let at = curve.iter().find(|point| point.0 == 100.0).map(|point| point.1);
        unless(at.map(|at| at < 0.01), || format!("{} of the events expire at 100 µs", percent(at)))?;
    }
    Ok(())
}

pub(in super::super) fn polling(runs: &Runs) -> Held {
    let all = runs.only("sim-polling").map_or(&[][..], |found| rows(found, "rows"));
    for server in values(all, "server") {
        for protocol in values(all, "protocol") {
            let of_kind = || with(all, "server", &server).filter(|row| text(row, "protocol") == protocol);
            let most = of_kind().filter_map(|row| number(row, "gain")).reduce(f64::max);
            let few = of_kind().find(|row| number(row, "quota") == Some(5.0));
            let gain = few.and_then(|row| number(row, "gain"));
            unless(gain.zip(most).map(|(few, most)| few >= 0.5 * most), || {
                format!("five packets take {} of {} with {server}", percent(gain), percent(most))
            })?;
            let last = of_kind().last().and_then(|row| number(row, "delay_us"));
            let delay = few.and_then(|row| number(row, "delay_us"));
            unless(delay.zip(last).map(|(few, most)| most >= few), || {
                format!("wanting the most delays packets by {} µs with {server}", digits(last))
            })?;
        }
    }
    Ok(())
}

pub(in super::super) fn livelock(runs: &Runs) -> Held {
    let all = runs.only("sim-livelock").map_or(&[][..], |found| rows(found, "rows"));
    let left = |series: &str, figure: &str| {
        let of_series = with(all, "series", series).filter(|row| text(row, "figure") == figure);
        let mut curve = points(of_series, of("input_pps"), of("output_pps"));
        curve.sort_by(|one, next| one.0.total_cmp(&next.0));
        let peak = curve.iter().map(|point| point.1).reduce(f64::max).filter(|&peak| peak > 0.0)?;
        curve.last().map(|last| last.1 / peak)
    };
    let falls = left("unmodified, screend", "6-1");
    unless(falls.map(|share| share < 0.1), || format!("interrupts leave {} of the peak", percent(falls)))?;
    let flat = left("polling with feedback, screend", "6-4");
    unless(flat.map(|share| share > 0.9), || format!("with feedback {} of the peak is left", percent(flat)))
}

pub(in super::super) fn hip(runs: &Runs) -> Held {
    let all = runs.only("sim-hip").map_or(&[][..], |found| rows(found, "rows"));
    for source in values(all, "source") {
        let at = |scheme: &str, key: &str| {
            number(with(all, "source", &source).find(|row| text(row, "scheme") == scheme)?, key)
        };
        let cheapest = at("interrupts", "overhead_us").zip(at("polling", "overhead_us"));
        let cheapest = cheapest.map(|(interrupts, polling)| interrupts.min(polling));
        let cost = at("hip", "overhead_us");
        unless(cost.zip(cheapest).map(|(hip, cheapest)| hip <= 1.1 * cheapest), || {
            format!("it costs {} µs on {source} where the cheaper costs {}", digits(cost), digits(cheapest))
        })?;
        let waits = at("hip", "delay_us").zip(at("polling", "delay_us")).map(|(hip, polling)| hip / polling);
        // A tenth is said of 9.5% as well.
        unless(waits.map(|share| (0.095..=1.0).contains(&share)), || {
            format!("it waits {} of what polling waits on {source}", percent(waits))
        })?;
        let least = at("interrupts", "delay_us").zip(at("hip", "delay_us"));
        unless(least.map(|(interrupts, hip)| 10.0 * interrupts < hip), || {
            format!("on {source} interrupts wait {} µs", digits(least.map(|least| least.0)))
        })?;
    }
    Ok(())
}

pub(in super::super) fn trade_offs(runs: &Runs) -> Held {
    for (source, key) in [("sim-hip-gamma", "gamma"), ("sim-hip-phi", "phi")] {
        let all = runs.only(source).map_or(&[][..], |found| rows(found, "rows"));
        for trace in values(all, "source") {
            let falls = monotone(all, &trace, key, "overhead_us", |one, next| next <= one);
            unless(falls, || format!("overhead on {trace} does not fall with each {key}"))?;
            let rises = monotone(all, &trace, key, "delay_us", |one, next| next >= one);
            unless(rises, || format!("delay on {trace} does not rise with each {key}"))?;
        }
    }
    Ok(())
}

/// Whether each step of a trace's curve goes in one direction.
fn monotone(all: &[Value], trace: &str, x: &str, y: &str, step: fn(f64, f64) -> bool) -> Option<bool> {
    let mut curve = points(with(all, "source", trace), of(x), of(y));
    curve.sort_by(|one, next| one.0.total_cmp(&next.0));
    (curve.len() > 1).then(|| curve.is_sorted_by(|one, next| step(one.1, next.1)))
}

pub(in super::super) fn callouts(runs: &Runs) -> Held {
    let all = runs.only("sim-callout").map_or(&[][..], |found| rows(found, "rows"));
    for kernel in values(all, "kernel") {
        let cost = ends(points(with(all, "kernel", &kernel), of("outstanding"), of("set_cancel_us")));
        let grows = |(none, many): (f64, f64)| many > 1.1 * none;
        unless(cost.map(|cost| grows(cost) == (kernel == "old")), || {
            let (none, many) = cost.unwrap_or_default();
            format!("'{kernel}' costs {none} µs without callouts and {many} µs with the most")
        })?;
    }
    Ok(())
}

pub(in super::super) fn frame_rate(runs: &Runs) -> Held {
    let all = runs.only("sim-framerate").map_or(&[][..], |found| rows(found, "rows"));
    let shown = |tick: &str| {
        let row = with(all, "hz", tick).find(|row| number(row, "fps") == Some(60.0))?;
        Some(number(row, "achieved_fps")? / 60.0)
    };
    let (tick, smart) = (shown("100"), shown("smart"));
    unless(tick.map(|share| share < 0.9), || format!("100 Hz show {} of the frames", percent(tick)))?;
    unless(smart.map(|share| share > 0.99), || format!("smart timers show {} of them", percent(smart)))
}
