//! What a web server gains by polling for requests instead of being woken: `cargo bench --manifest-path
//! bench/Cargo.toml --bench server [-- [--rounds 5] [--quick] [--json FILE] [SECTION …]]`, about ten minutes (soft timers §5.8, Table XII).
//!
//! | section | question |
//! |---|---|
//! | `rates` | latency and CPU at rates below saturation: by epoll, sleeping or busy-polling, and polled |
//! | `kept` | requests/s over persistent connections: by epoll, polled with quotas of 1 to 15, by a process for each connection |
//! | `closed` | the same with a connection for each request |
//! | `ports` | four ports polled by one event: does each get its share, even next to a crowded one? |
//! | `napi` | the interface polled by the server instead of interrupts, quotas of 1 to 15, and nginx; as root |
//! | `napi-others` | the same with work, and with a connection for each request; as root |
//! | `queues` | the same at 30 and 70%, and at two interfaces; as root |
//! | `flooded` | what a computation beside it keeps in a flood of five times what it handles; as root |
//!
//! The server has one CPU and the load the other one. There are enough connections to keep the plain server busy for
//! 95% of the time; where the load is the slower side for any number, each answer gets some microseconds of additional
//! work, and the table without that work is shown too: `busy` says whether that server was saturated. The load that was
//! reached is reported. All have the same load and run directly after each other, in rotating order, and a figure is
//! the median over the rounds. The quota to compare with epoll is chosen in some rounds and measured in others. A round
//! in which the host or other programs took more than 5% of the CPUs is set aside; if there is no other, the figures
//! are printed as inconclusive. A missed bar is reported and does not fail the bench.
#![forbid(unsafe_code)]

mod beside;
mod contender;
mod napi;
mod nginx;
mod ports;
mod rates;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use softtimers_lab::bench::{self, Section};
use softtimers_measure::failure::Failure;
use softtimers_measure::processor::Processor;
use softtimers_trials::paired::Paired;

/// The effort of the bench, and its CPUs.
#[derive(Clone, Copy, Debug)]
struct Effort {
    rounds: Paired,
    trial: Duration,
    /// The server's CPU, and the load's.
    processors: [Processor; 2],
}

const SECTIONS: [Section<Effort>; 8] = [
    ("rates", rates::measure),
    ("kept", table::kept),
    ("closed", table::closed),
    ("ports", ports::measure),
    ("napi", napi::kept),
    ("napi-others", napi::saturated),
    ("queues", napi::others),
    ("flooded", napi::flooded),
];

fn main() -> ExitCode {
    bench::child(contender::serve).unwrap_or_else(|| {
        bench::main("server", &SECTIONS, |asked| {
            let missing = "this needs two CPUs, one for the server and one for the load";
            let [here, there] = Processor::two().ok_or_else(|| Failure::not_possible(missing))?;
            let trial = Duration::from_millis(if asked.quick { 200 } else { 1_000 });
            let processors = [Processor::new(here)?, Processor::new(there)?];
            Ok(Effort { rounds: Paired::new(asked.rounds()), trial, processors })
        })
    })
}
