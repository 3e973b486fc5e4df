//! What a web server gains that looks for requests instead of being woken up for them: `cargo bench -p softtimers-lab
//! --bench server [-- [--rounds 5] [--quick] [--json FILE] [SECTION …]]`, about four minutes (soft timers §5.8, Table XII).
//!
//! | section | question |
//! |---|---|
//! | `rates` | latency and CPU at rates below saturation: by epoll, asleep or never, and polled |
//! | `kept` | requests/s over connections that are kept: by epoll, polled with quotas of 1 to 15, by a process for each connection |
//! | `closed` | the same with a connection for each request |
//! | `ports` | four ports polled by one event: has each its share, also beside a crowd? |
//!
//! The server has one processor and the load the other one: `wrk` where it is installed, else clients of our own
//! (`--load`); `ports` has its own clients always, for `wrk` loads one address. So many connections are made that the plain
//! server is busy for 95% of the time; where the load is the slower side whatever their number, each answer is made to cost
//! some microseconds more, and the table without that work stands beside: `busy` says whether that server was saturated. What was
//! reached is told. All have the same load, follow each other at once, another one first each round, and a figure is the
//! median over the rounds. The quota that is held against epoll is chosen in some rounds and measured in others. A round in
//! which the host or other programs took more than 5% of the processors is set aside; if there is no other, the figures are printed as inconclusive. A bar that is missed is reported and does not fail the bench.
//!
//! `-- --serve 127.0.0.1:8080 [--quota 5]` only serves, for a look with a browser or with tools of your own.
#![forbid(unsafe_code)]

mod contender;
mod load;
mod ports;
mod rates;
mod table;

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use softtimers_lab::bench::{self, Asked, Done, Section};
use softtimers_lab::server::FILE;
use softtimers_lab::server::engine::{Engine, Looking};
use softtimers_lab::server::processes::{self, Processes};
use softtimers_lab::server::request::Site;
use softtimers_measure::child::end_with;
use softtimers_measure::paired::Paired;
use softtimers_measure::processor::Processor;

use load::Tool;

#[derive(Parser, Debug)]
#[command(about = "a web server, polled and by epoll", disable_version_flag = true)]
struct Arguments {
    #[command(flatten)]
    asked: Asked,
    /// What loads it; wrk where it is installed
    #[arg(long)]
    load: Option<Tool>,
    /// Connections; as many as keep the plain server busy
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=500))]
    connections: Option<u16>,
    /// What an answer costs beside sending it, in microseconds; as much as makes the plain server the slower side
    #[arg(long, value_name = "MICROSECONDS", value_parser = clap::value_parser!(u64).range(..=10_000))]
    work: Option<u64>,
    /// Only serve here, until stdin ends or the process is ended
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    serve: Vec<SocketAddr>,
    /// Poll, for so many connections a look; by epoll without it
    #[arg(long, requires = "serve", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    quota: Option<u32>,
    /// By epoll, without ever sleeping
    #[arg(long, requires = "serve", conflicts_with = "quota")]
    spin: bool,
    /// A process for each of so many connections
    #[arg(long, requires = "serve", conflicts_with_all = ["quota", "spin"])]
    processes: Option<usize>,
    /// One of those processes
    #[arg(long, hide = true)]
    one: bool,
    /// End with this process
    #[arg(long, hide = true)]
    parent: Option<u32>,
}

/// How thoroughly, and by what.
#[derive(Clone, Copy, Debug)]
struct Effort {
    rounds: Paired,
    trial: Duration,
    tool: Tool,
    /// Connections, and microseconds of work; those that keep the plain server busy.
    load: Option<(usize, u64)>,
    /// The server's processor, and the load's.
    processors: [Processor; 2],
}

const SECTIONS: [Section<Effort>; 4] =
    [("rates", rates::measure), ("kept", table::kept), ("closed", table::closed), ("ports", ports::measure)];

fn main() -> ExitCode {
    bench::main("server", |given| {
        let arguments: Arguments = bench::parse("server", given, &SECTIONS);
        if let Some(parent) = arguments.parent {
            end_with(parent)?;
        }
        match (arguments.one, arguments.serve.is_empty()) {
            (true, _) => Ok(processes::serve(&site(&arguments))?),
            (false, false) => serve(&arguments),
            (false, true) => measure(&arguments),
        }
    })
}

fn site(arguments: &Arguments) -> Site {
    Site::of(&FILE).with_work(Duration::from_micros(arguments.work.unwrap_or(0)))
}

fn serve(arguments: &Arguments) -> Done {
    let site = site(arguments);
    let listeners = arguments
        .serve
        .iter()
        .map(|address| TcpListener::bind(address).map_err(|error| format!("--serve {address}: {error}")));
    let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
    let addresses = listeners.iter().map(|listener| Ok(listener.local_addr()?.to_string()));
    let addresses = addresses.collect::<io::Result<Vec<_>>>()?.join(",");
    if let Some(number) = arguments.processes {
        let work = arguments.work.unwrap_or(0).to_string();
        let words =
            ["--one", "--work", &work, "--parent", &std::process::id().to_string()].map(str::to_owned);
        let _processes = Processes::start(number, &listeners[0], &words)?;
        eprintln!("listening on {addresses}");
        io::stdin().read_to_end(&mut Vec::new())?;
        return Ok(());
    }
    let unpolled = if arguments.spin { Looking::Spin } else { Looking::Epoll };
    let looking = arguments.quota.map_or(unpolled, Looking::Polled);
    let engine = Engine::new(&site, &listeners, Some(&io::stdin()))?;
    eprintln!("listening on {addresses}");
    let stats = engine.run(looking)?;
    println!("{}", serde_json::to_string(&stats)?);
    Ok(())
}

fn measure(arguments: &Arguments) -> Done {
    let Some(two) = Processor::two() else {
        println!("skipped: this needs two processors, one for the server and one for the load");
        return Ok(());
    };
    let [here, there] = two.map(Processor::new);
    let tool = arguments.load.unwrap_or_else(Tool::installed);
    let asked = &arguments.asked;
    let effort = Effort {
        rounds: Paired::new(asked.rounds(5)),
        trial: Duration::from_millis(if asked.quick { 200 } else { 1_000 }),
        tool,
        load: match (arguments.connections, arguments.work) {
            (None, None) => None,
            (connections, work) => Some((connections.unwrap_or(64).into(), work.unwrap_or(0))),
        },
        processors: [here?, there?],
    };
    let load = format!("; load by {tool}, of `rates` and `ports` by {}", Tool::Own);
    asked.run("server", &load, &SECTIONS, &effort)
}
