//! How much work a saturated loop keeps beside pacing, by each way to notice a due time:
//! `cargo bench -p softtimers-lab --bench work_kept [-- --echo-batch 4 --seconds 20]`. Kept is what is left of the
//! work of a plain epoll loop, which has no timers at all.
//!
//! Turns of 10 ms in one process, because runs after each other would compare the machine with
//! itself a second ago. Each round has its own ratio; the median and the quartiles of the ratios
//! are printed. What takes the processor away for longer than a round spoils few of them.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use softtimers::Rate;
use softtimers_lab::bench::{self, Asked, Done, Section};
use softtimers_lab::turns::{self, engine};
use softtimers_load::turns::{Contender, Share};
use softtimers_load::work::Work;
use softtimers_measure::bar::Bar;
use softtimers_measure::result::Table;

const COLUMNS: [(&str, usize); 4] = [("", 0), ("median", 3), ("lower quartile", 3), ("upper quartile", 3)];

#[derive(Parser, Debug)]
#[command(about = "the work that a saturated loop keeps beside pacing", disable_version_flag = true)]
struct Arguments {
    #[command(flatten)]
    asked: Asked,
    /// Requests that the echo server answers in a group
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    echo_batch: u8,
    /// Of all turns together
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

const SECTIONS: [Section<Arguments>; 1] = [("work_kept", measure)];

fn main() -> ExitCode {
    bench::main("work_kept", |given| {
        let arguments: Arguments = bench::parse("work_kept", given, &SECTIONS);
        arguments.asked.run(
            "work_kept",
            &format!("; echo batch {}", arguments.echo_batch),
            &SECTIONS,
            &arguments,
        )
    })
}

fn measure(arguments: &Arguments) -> Done<Vec<Table>> {
    let Arguments { echo_batch, seconds, asked } = arguments;
    let contenders = [Contender::Nobody, Contender::Flow(engine("soft")), Contender::Flow(engine("loop"))];
    let (rate, work) = (Rate::every(Duration::from_micros(40))?, Work::Echo { batch: (*echo_batch).into() });
    let time = Duration::from_secs(if asked.quick { 2 } else { *seconds });
    let contest = turns::contest(rate, work, contenders, turns::TURN, time)?;
    let mut table = contest.table("work_kept", &COLUMNS);
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
    let busy = |what: &str| format!("busy, echo batch {echo_batch}: {what}");
    table.bar(Bar::at_least(busy("work kept of the loop without pacing"), 0.88, kept));
    // Where `loop` cannot hold the rate, it keeps the work of the packets that it does not send.
    if *echo_batch != 16 {
        table.bar(Bar::at_least(busy("work kept, against `loop`'s"), 0.98, ratio));
    }
    Ok(vec![table])
}
