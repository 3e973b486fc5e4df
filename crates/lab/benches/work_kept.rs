//! How much work a saturated loop keeps beside pacing, by each way to notice a due time:
//! `cargo bench -p softtimers-bench --bench work_kept [-- ECHO_BATCH [SECONDS]]`. Kept is what is left of the
//! work of a plain epoll loop, which has no timers at all.
//!
//! Turns of 10 ms in one process, because runs after each other would compare the machine with
//! itself a second ago. Each round has its own ratio; the median and the middle half of the ratios
//! are printed. What takes the processor away for longer than a round spoils few of them.
#![forbid(unsafe_code)]

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use softtimers_bench::turns::{self, Contest, quartiles};
use softtimers_cli::args::Timer;
use softtimers_cli::send::{Contender, Share};

const CONTENDERS: [Contender; 3] =
    [Contender::Nobody, Contender::Flow(Timer::Soft), Contender::Flow(Timer::Loop)];

fn main() -> ExitCode {
    turns::main("work_kept", measure)
}

fn measure(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let argument = |at, default| arguments.get(at).map_or(default, String::as_str);
    let batch: u16 = argument(0, "4").parse()?;
    let time = Duration::from_secs(argument(1, "20").parse()?);
    let flags = format!("--interval 40us --busy echo --echo-batch {batch}");
    let Contest { rounds, disturbed, .. } = turns::contest(&flags, CONTENDERS, turns::TURN, time)?;

    println!("{}", turns::machine());
    println!("echo batch {batch}, {} rounds of {:?} for each of off, soft, loop", rounds.len(), turns::TURN);
    let figure = |name, of: fn(&[Share; 3]) -> f64| {
        let [low, middle, high] = quartiles(rounds.iter().map(of));
        println!("{name:<22} {middle:>10.3}   (middle half {low:.3} to {high:.3})");
    };
    figure("packets/s, soft", |[_, soft, _]| soft.event_rate);
    figure("packets/s, loop", |[_, _, own]| own.event_rate);
    figure("work kept, soft", |[off, soft, _]| soft.work_rate / off.work_rate);
    figure("work kept, loop", |[off, _, own]| own.work_rate / off.work_rate);
    figure("work, soft over loop", |[_, soft, own]| soft.work_rate / own.work_rate);
    if let Some(reason) = disturbed {
        println!("inconclusive: {reason}");
    }
    Ok(())
}
