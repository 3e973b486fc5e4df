//! The interface polled by the server's soft events, instead of interrupts: quotas of 1 to 15 next to plain epoll, a loop that
//! never sleeps, threaded NAPI and nginx, saturated and below.
//!
//! The load polls its own end of the [`Cable`], so the server's CPU handles only the server's packets. `interrupts a
//! request` counts all those of the server's CPU.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use softtimers_lab::bench::Done;
use softtimers_lab::server::cable::{Cable, Receiving, SERVERS, polled};
use softtimers_lab::server::client::{Answered, Load};
use softtimers_lab::server::engine::ServerStats;
use softtimers_lab::server::timer::Timer;
use softtimers_measure::failure::Failure;
use softtimers_measure::ticks::Ticks;
use softtimers_net::napi::Napi;
use softtimers_trials::bar::Bar;
use softtimers_trials::command::{Killed, announced};
use softtimers_trials::paired::{Measured, Round};
use softtimers_trials::result::Table;

use super::contender::{BUSY, RATE};
use super::nginx::Nginx;
use super::{Effort, beside};

/// The server, and how its packets are received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Server {
    Epoll(Receiving),
    Spin,
    Napi(u32),
    Nginx(Receiving),
}

/// What the clients request.
#[derive(Clone, Copy, Debug)]
struct Asked {
    keep_alive: bool,
    /// Cables, and interfaces of the server.
    cables: usize,
    /// Microseconds of work per answer.
    work: u64,
    interval: Option<Duration>,
}

/// The parts that all trials share.
#[derive(Debug)]
struct Trials<'a> {
    effort: &'a Effort,
    cable: Cable,
}

/// The server saturated over kept connections, at one interface.
pub(crate) fn kept(effort: &Effort) -> Done<Vec<Table>> {
    Ok(vec![Trials::new(effort)?.saturated("napi-kept", KEPT)?])
}

/// With work, and with a connection for each request.
pub(crate) fn saturated(effort: &Effort) -> Done<Vec<Table>> {
    let trials = Trials::new(effort)?;
    let work = trials.saturated("napi-kept-work", Asked { work: 10, ..KEPT })?;
    Ok(vec![work, trials.saturated("napi-closed", CLOSED)?])
}

/// Below saturation, and with two interfaces.
pub(crate) fn others(effort: &Effort) -> Done<Vec<Table>> {
    let trials = Trials::new(effort)?;
    let two = trials.saturated("napi-two", Asked { cables: 2, ..KEPT })?;
    Ok(vec![trials.below("napi-below", KEPT)?, trials.below("napi-below-closed", CLOSED)?, two])
}

/// Beside a computation.
pub(crate) fn flooded(effort: &Effort) -> Done<Vec<Table>> {
    let trials = Trials::new(effort)?;
    Ok(vec![beside::measure(effort, &trials.cable)?])
}

impl<'a> Trials<'a> {
    fn new(effort: &'a Effort) -> Done<Self> {
        Napi::all().map_err(|error| Failure::not_possible(format_args!("polling the interface: {error}")))?;
        Ok(Trials { effort, cable: Cable::lay()? })
    }
}

impl Trials<'_> {
    /// Clients that send a request whenever they are answered.
    fn saturated(&self, key: &str, asked: Asked) -> Done<Table> {
        // nginx cannot do the additional work, and listens at one cable.
        let plain = asked.work == 0 && asked.cables == 1;
        let servers =
            saturated_servers().into_iter().filter(|server| plain || !matches!(server, Server::Nginx(_)));
        let mut servers: Vec<Server> = servers.filter(Server::is_there).collect();
        let rows: Vec<String> = servers.iter().map(ToString::to_string).collect();
        let measured = self.effort.rounds.contest(&[asked], &mut servers, |&asked, server, round| {
            self.trial(*server, asked, (round, &server.to_string())).map(drop)
        })?;
        let mut table = Table::of(key, &measured, &rows, &COLUMNS);
        table.against("against epoll", &measured, RATE, &EPOLL.to_string());
        table.note(format!("{CONNECTIONS} clients, {} µs of work an answer", asked.work));
        conclude(&mut table, &measured, key);
        Ok(table)
    }

    /// Requests at a share of the rate that plain epoll reaches.
    fn below(&self, key: &str, asked: Asked) -> Done<Table> {
        let capacity = self.trial(EPOLL, asked, (&mut Round::default(), ""))?.rate();
        let at = |percent: u32| Duration::from_secs_f64(100.0 / (capacity * f64::from(percent)).max(1.0));
        let mut servers: Vec<Server> = idling_servers().into_iter().filter(Server::is_there).collect();
        let rows = |percent: u32| {
            servers.iter().map(move |server| format!("{percent}%, {server}")).collect::<Vec<_>>()
        };
        let rows: Vec<String> = SHARES.into_iter().flat_map(rows).collect();
        let measured = self.effort.rounds.contest(&SHARES, &mut servers, |&percent, server, round| {
            let asked = Asked { interval: Some(at(percent)), ..asked };
            self.trial(*server, asked, (round, &format!("{percent}%, {server}"))).map(drop)
        })?;
        let mut table = Table::of(key, &measured, &rows, &COLUMNS);
        table
            .note(format!("of {:.1} kreq/s, which epoll reached with {CONNECTIONS} clients", capacity / 1e3));
        // Where polling does not pay it is to cost little.
        for quota in [1, 5] {
            let [polled, epoll] = [Server::Napi(quota), EPOLL].map(|server| format!("30%, {server}"));
            for (figure, most) in [(CPU, 1.1), (MIDDLE, 1.0)] {
                let ratio = measured.ratio(figure, &polled, &epoll);
                table.bar(Bar::at_most(
                    format!("server, {key}, {polled}: {figure} against epoll"),
                    most,
                    ratio,
                ));
            }
        }
        Ok(table)
    }

    /// Measures one server under load, and records its figures in this row.
    fn trial(&self, server: Server, asked: Asked, (round, row): (&mut Round, &str)) -> Done<Answered> {
        let [here, there] = self.effort.processors;
        self.cable.receive(server.receiving(), here)?;
        let kept = here.keep()?;
        let (running, addresses) = server.start(&self.cable, asked)?;
        drop(kept);
        let _steered = match server.receiving() {
            Receiving::Timer(quota) => Some(Timer::steer(&self.cable, quota, here)?),
            _ => None,
        };
        let load = Load {
            clients: addresses.iter().map(|&address| (address, CONNECTIONS / addresses.len())).collect(),
            keep_alive: asked.keep_alive,
            interval: asked.interval,
            time: self.effort.trial,
        };
        let so_far = || (Ticks::now(Some(here.number())), interrupts(here.number()));
        let clients = || -> io::Result<_> {
            self.cable.enter()?;
            let _kept = there.keep()?;
            let polled = addresses.iter().copied().map(polled).collect::<io::Result<Vec<_>>>()?;
            let before = so_far();
            Ok((load.run_polling(&polled)?, before, so_far()))
        };
        // A thread of its own, since it stays on the clients' host.
        let done = std::thread::scope(|scope| scope.spawn(clients).join());
        let (answered, before, after) = done.map_err(|_| "the load broke off")??;
        let answers = answered.answers.iter().sum::<u64>().max(1) as f64;
        let busy = before.0.zip(after.0).and_then(|(before, after)| {
            let passed = after.since(before);
            passed.share(passed.all() - passed.idle)
        });
        let micros = |q| answered.latency.quantile(q).map(|nanos| nanos as f64 / 1e3);
        let taken =
            before.1.zip(after.1).map(|(before, after)| after.saturating_sub(before) as f64 / answers);
        round.put(row, RATE, answered.rate() / 1e3);
        round.put(row, MIDDLE, micros(0.5));
        round.put(row, TAIL, micros(0.99));
        round.put(row, BUSY, busy);
        round.put(row, CPU, busy.map(|busy| busy * answered.time.as_secs_f64() * 1e6 / answers));
        round.put(row, "interrupts a request", taken);
        round.put(row, "errors", answered.errors as f64);
        if let Some(stats) = running.stats()? {
            round.put(row, "found a look", stats.found as f64 / stats.looks.max(1) as f64);
        }
        Ok(answered)
    }
}

/// A running server.
#[derive(Debug)]
enum Running {
    Ours(Killed),
    Nginx(Nginx),
}

impl Running {
    /// Ends it, and returns its own report.
    fn stats(self) -> Done<Option<ServerStats>> {
        match self {
            Running::Ours(server) => Ok(Some(serde_json::from_slice(&server.output()?.0)?)),
            Running::Nginx(nginx) => {
                drop(nginx);
                Ok(None)
            }
        }
    }
}

impl Server {
    fn start(self, cable: &Cable, asked: Asked) -> Done<(Running, Vec<SocketAddr>)> {
        let (kind, number) = match self {
            Server::Nginx(_) => {
                let (nginx, address) = Nginx::start(cable)?;
                return Ok((Running::Nginx(nginx), vec![address]));
            }
            Server::Epoll(Receiving::Suspended) => ("suspended", 0),
            Server::Epoll(_) => ("epoll", 0),
            Server::Spin => ("spin", 0),
            Server::Napi(quota) => ("napi", quota),
        };
        let addresses = SERVERS.iter().take(asked.cables).map(|address| format!("{address}:0"));
        let (parent, addresses) = (std::process::id().to_string(), addresses.collect::<Vec<_>>().join(","));
        let (number, work) = (number.to_string(), asked.work.to_string());
        let words = ["--with-parent", &*parent, kind, &*number, &*work, &*addresses];
        let mut command = cable.command(&std::env::current_exe()?, &words);
        let (server, addresses) = announced(command.stdin(Stdio::piped()), "listening on ")?;
        Ok((Running::Ours(server), addresses.split(',').map(str::parse).collect::<Result<_, _>>()?))
    }

    fn receiving(self) -> Receiving {
        match self {
            Server::Epoll(receiving) | Server::Nginx(receiving) => receiving,
            Server::Spin | Server::Napi(_) => Receiving::Interrupts,
        }
    }

    fn is_there(&self) -> bool {
        !matches!(self, Server::Nginx(_)) || Nginx::is_there()
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Server::Epoll(receiving) => write!(f, "epoll{}", how(*receiving)),
            Server::Spin => f.write_str("epoll, never asleep"),
            Server::Napi(quota) => write!(f, "NAPI polled, quota {quota}"),
            Server::Nginx(receiving) => write!(f, "nginx{}", how(*receiving)),
        }
    }
}

/// Returns the words behind a server's name.
fn how(receiving: Receiving) -> Cow<'static, str> {
    match receiving {
        Receiving::Interrupts => "".into(),
        Receiving::Suspended => ", interrupts suspended".into(),
        Receiving::Timer(quota) => format!(", timer steered to {quota}").into(),
        Receiving::Thread => ", threaded NAPI".into(),
        Receiving::Elsewhere => ", received on the other CPU".into(),
    }
}

/// Returns the plain server, Table XII's, and other ways.
fn saturated_servers() -> Vec<Server> {
    use Receiving::{Elsewhere, Suspended, Thread, Timer};
    let others = [Suspended, Timer(10), Thread, Elsewhere].map(Server::Epoll);
    let nginx = QUOTAS.map(|quota| Server::Nginx(Timer(quota)));
    [&[EPOLL][..], &QUOTAS.map(Server::Napi), &[Server::Spin], &others, &[NGINX], &nginx].concat()
}

fn idling_servers() -> Vec<Server> {
    let others = [Server::Epoll(Receiving::Suspended), Server::Spin, NGINX];
    [&[EPOLL][..], &QUOTAS.map(Server::Napi), &others].concat()
}

/// Adds the two gains, and bars: over kept connections what the queue's polls should gain, elsewhere the paper's smallest gain.
fn conclude(table: &mut Table, measured: &Measured, key: &str) {
    let [one, five] = [1, 5].map(|quota| Server::Napi(quota).to_string());
    let epoll = EPOLL.to_string();
    let gain = |of: &str, to: &str| {
        100.0 * (measured.ratio(RATE, of, to).map_or(f64::NAN, |ratio| ratio.median) - 1.0)
    };
    let (first, aggregated) = (gain(&one, &epoll), gain(&five, &one));
    table.note(format!("gain of avoiding interrupts (quota 1 against epoll): {first:+.1}%"));
    table.note(format!("gain of aggregation (quota 5 against quota 1): {aggregated:+.1}%"));
    let bars: &[(u32, f64)] =
        if key == "napi-kept" { &[(1, 1.1), (5, 1.3), (10, 1.45)] } else { &[(5, 1.03)] };
    for &(quota, least) in bars {
        let polled = Server::Napi(quota).to_string();
        let ratio = measured.ratio(RATE, &polled, &epoll);
        table.bar(Bar::at_least(format!("server, {key}: quota {quota} against epoll"), least, ratio));
        let later = measured.over(|round| Some(round.figure(&polled, TAIL)? - round.figure(&epoll, TAIL)?));
        table.bar(Bar::at_most(format!("server, {key}: quota {quota}, {TAIL} beyond epoll's"), 100.0, later));
    }
}

/// Returns the interrupts of a CPU since boot, of all kinds.
fn interrupts(cpu: usize) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/interrupts").ok()?;
    let mut lines = text.lines();
    let column = lines.next()?.split_whitespace().position(|name| name == format!("CPU{cpu}"))?;
    let of = |line: &str| line.split_whitespace().nth(column + 1)?.parse::<u64>().ok();
    Some(lines.filter_map(of).sum())
}

const EPOLL: Server = Server::Epoll(Receiving::Interrupts);
/// Table XII's.
const QUOTAS: [u32; 5] = [1, 2, 5, 10, 15];
const NGINX: Server = Server::Nginx(Receiving::Interrupts);
const KEPT: Asked = Asked { keep_alive: true, cables: 1, work: 0, interval: None };
const CLOSED: Asked = Asked { keep_alive: false, ..KEPT };
/// Percent of the capacity.
const SHARES: [u32; 2] = [30, 70];
/// Twice the most that a wait finds with the largest quota.
const CONNECTIONS: usize = 64;
const MIDDLE: &str = "p50 µs";
const TAIL: &str = "p99 µs";
const CPU: &str = "CPU µs a request";
const COLUMNS: [(&str, usize); 8] = [
    (RATE, 1),
    (MIDDLE, 1),
    (TAIL, 1),
    (BUSY, 3),
    (CPU, 1),
    ("interrupts a request", 2),
    ("found a look", 1),
    ("errors", 0),
];
