//! `livelock-burst`: how long the first packet of a burst waits for the others (§4.3, §8.2).
//!
//! ```text
//!   by interrupts   arrivals ● ● ●         link ▓▓▓▓▓▓▓▓▓  then ▒▒▒ of the first, of the second, …
//!   polled          arrivals ● ● ●         ▓▓▒▒ first out, ▓▓▒▒ second, ▓▓▒▒ …
//! ```
//!
//! Two machines. ULTRIX on a DECstation 3100 copies each packet at device priority and hands it to a process;
//! its latencies are the paper's. The Alpha of the other experiments forwards, and its polled kernel shows
//! the effect of the 4.2BSD rule of the active interface on the second packet, and the effect of breaking it.

use std::time::Duration;

use softtimers_core::Timestamp;

use super::config::{Config, Consumer, Kernel};
use super::costs::Costs;
use super::router::Router;
use crate::choice::choices;
use crate::constants::Burst;
use crate::{Column, Experiment, Need, Parameter, Parameters, Row, RunError, Steps, Streams, Value};

/// One row for a burst.
pub(crate) static BURST: Experiment = Experiment {
    name: "livelock-burst",
    about: "How long the first packet of a burst waits for the others (livelock paper, 4.3 and 8.2)",
    details: "Times are from a packet's arrival until a process has it (ultrix), or until it is on the wire (alpha).",
    parameters: &[
        Parameter::choice::<BurstKernel>(
            "kernel",
            "ULTRIX, or one of the Alpha's; eager is polled and breaks the rule of the active interface",
        ),
        Parameter::count("burst", "Packets in the burst", 1..=32, 3),
        Parameter::time(
            "gap",
            "Time between two packets of the burst",
            Duration::from_nanos(67_200)..=Duration::from_millis(10),
            Duration::from_micros(108),
        )
        .needs(SEVERAL),
    ],
    columns: &[
        Column::words("kernel", "ULTRIX by interrupts, or the Alpha's"),
        Column::new("burst", "packets in the burst").given(),
        Column::new("first_us", "time until the first packet is delivered"),
        Column::new("paper_first_us", "the paper's value for ULTRIX").given(),
        Column::new("second_us", "from arrival of the first packet to delivery of the second"),
        Column::new("third_us", "likewise"),
        Column::new("last_us", "likewise"),
    ],
    sweep: &[("kernel", "ultrix,no-polling,polled,eager"), ("burst", "1,2,3,4,8,16")],
    check: |parameters| run(parameters, Streams::new(0), &Steps::unwatched()).map(drop),
    run,
};

choices! {
    /// The kernel that receives the burst.
    enum BurstKernel {
        /// ULTRIX on a DECstation 3100, by interrupts.
        Ultrix = "ultrix",
        /// The Alpha's, by interrupts.
        NoPolling = "no-polling",
        /// The Alpha's, by polls.
        Polled = "polled",
        /// The same, which loads the transmitter while it is active.
        Eager = "eager",
    }
}

const SEVERAL: Need =
    Need { with: "a burst of two or more", met: |parameters| parameters.count("burst") > 1 };

fn run(parameters: &Parameters, streams: Streams, _: &Steps) -> Result<Vec<Row>, RunError> {
    let kernel = parameters.choice::<BurstKernel>("kernel");
    let (burst, gap) = (parameters.count_u32("burst"), parameters.time("gap"));
    let by_ultrix = kernel == BurstKernel::Ultrix;
    let base = match kernel {
        BurstKernel::Ultrix | BurstKernel::NoPolling => Config::new(Kernel::NoPolling, 0),
        BurstKernel::Polled | BurstKernel::Eager => Config::new(Kernel::Polled, 0),
    };
    let machine = parameters.machine().livelock;
    let config = Config { eager: kernel == BurstKernel::Eager, ..base.on(parameters.hardware()) };
    let router = if by_ultrix {
        Router::with_costs(
            Config { consumer: Consumer::Monitor, ..config },
            ultrix(&parameters.machine().burst),
            streams,
        )
    } else {
        Router::new(config, streams)
    };
    let begin = Timestamp::from_micros(100);
    let arrivals: Vec<_> = (0..burst).map(|packet| begin + gap * packet).collect();
    let times = router.burst(&arrivals);
    if times.len() != arrivals.len() {
        let dropped = arrivals.len() - times.len();
        return Err(RunError::new(format_args!("burst {burst}: {dropped} of its packets were dropped")));
    }
    let at = |packet: Option<&Timestamp>| -> Value {
        let wire = if by_ultrix { Duration::ZERO } else { machine.wire };
        packet
            .map(|time| time.saturating_sub(wire).saturating_duration_since(begin).as_nanos() as f64 / 1e3)
            .into()
    };
    let paper = PAPER.iter().find(|(packets, _)| by_ultrix && *packets == burst).map(|(_, micros)| *micros);
    Ok(vec![vec![
        parameters.word("kernel").into(),
        burst.into(),
        at(times.first()),
        paper.into(),
        at(times.get(1)),
        at(times.get(2)),
        at(times.last()),
    ]])
}

/// §4.3: first latencies by burst.
const PAPER: [(u32, f64); 4] = [(1, 1_230.0), (2, 1_540.0), (4, 2_020.0), (16, 5_030.0)];

/// The costs that the text's figures determine; all other costs are zero.
fn ultrix(of: &Burst) -> Costs {
    Costs {
        interrupt: of.interrupt,
        receive: of.receive,
        queue: of.queue,
        process: of.process,
        ..Costs::default()
    }
}
