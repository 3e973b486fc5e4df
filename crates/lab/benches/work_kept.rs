//! How much work a saturated loop keeps beside pacing, by each way to notice a due time:
//! `cargo bench -p softtimers-lab --bench work_kept [-- batch-4 --seconds 20]`. Kept is what is left of the
//! work of a plain epoll loop, which has no timers at all.
//!
//! Turns of 10 ms in one process, because runs after each other would compare the machine with
//! itself a second ago. Each round has its own ratio; the median and the quartiles of the ratios
//! are printed. What takes the processor away for longer than a round spoils few of them.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use softtimers::Rate;
use softtimers_lab::bench::{self, Done, Section};
use softtimers_lab::turns::{self, engine};
use softtimers_load::turns::{Contender, Share};
use softtimers_load::work::Work;
use softtimers_measure::bar::Bar;
use softtimers_measure::result::Table;

const COLUMNS: [(&str, usize); 4] = [("", 0), ("median", 3), ("lower quartile", 3), ("upper quartile", 3)];

/// By the requests that the echo server answers in a group.
const SECTIONS: [Section<Duration>; 3] = [
    ("batch-4", |time| measure(4, *time)),
    ("batch-1", |time| measure(1, *time)),
    ("batch-16", |time| measure(16, *time)),
];

fn main() -> ExitCode {
    bench::main("work_kept", &SECTIONS, |asked| Ok(asked.seconds(2)))
}

fn measure(batch: usize, time: Duration) -> Done<Vec<Table>> {
    let contenders = [Contender::Nobody, Contender::Flow(engine("soft")), Contender::Flow(engine("loop"))];
    let (rate, work) = (Rate::every(Duration::from_micros(40))?, Work::Echo { batch });
    let contest = turns::contest(rate, work, contenders, turns::TURN, time)?;
    let mut table = contest.table(&format!("work_kept, echo batch {batch}"), &COLUMNS);
    let mut figure = |name: &str, of: fn(&[Share; 3]) -> f64| {
        let estimate = contest.over(|round| Some(of(round)));
        let quartile = |at: usize| estimate.map(|estimate| estimate.quartiles[at]);
        table.row([name.into(), estimate.into(), quartile(0).into(), quartile(1).into()]);
        estimate
    };
    figure("packets/s, soft", |[_, soft, _]| soft.event_rate);
    figure("packets/s, loop", |[_, _, own]| own.event_rate);
    let kept = figure("work kept, soft", |[off, soft, _]| soft.work_rate / off.work_rate);
    figure("work kept, loop", |[off, _, own]| own.work_rate / off.work_rate);
    let ratio = figure("work, soft over loop", |[_, soft, own]| soft.work_rate / own.work_rate);
    let busy = |what: &str| format!("busy, echo batch {batch}: {what}");
    table.bar(Bar::at_least(busy("work kept of the loop without pacing"), 0.88, kept));
    // Where `loop` cannot hold the rate, it keeps the work of the packets that it does not send.
    if batch != 16 {
        table.bar(Bar::at_least(busy("work kept, against `loop`'s"), 0.98, ratio));
    }
    Ok(vec![table])
}
