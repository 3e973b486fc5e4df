//! The interface polled by the server itself, instead of interrupts: quotas of 1 to 15 next to plain epoll, a loop that
//! never sleeps, threaded NAPI and nginx, saturated and below.
//!
//! The load polls its own end of the [`Cable`], so the server's CPU handles only the server's packets. `interrupts a
//! request` counts all those of the server's CPU.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use softtimers::epoll::{Epoll, Waiting};
use softtimers_lab::bench::Done;
use softtimers_lab::server::cable::{Cable, Receiving, SERVER, polled};
use softtimers_lab::server::client::{Answered, Load};
use softtimers_lab::server::engine::ServerStats;
use softtimers_measure::failure::Failure;
use softtimers_measure::ticks::Ticks;
use softtimers_trials::bar::Bar;
use softtimers_trials::command::{Killed, announced};
use softtimers_trials::paired::{Measured, Round};
use softtimers_trials::result::Table;

use super::Effort;
use super::contender::{BUSY, RATE};
use super::nginx::Nginx;

/// The server, and how its packets are received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Server {
    Epoll(Receiving),
    Spin,
    Napi(u16),
    Nginx,
}

/// What the clients request.
#[derive(Clone, Copy, Debug)]
struct Asked {
    keep_alive: bool,
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

pub(crate) fn measure(effort: &Effort) -> Done<Vec<Table>> {
    let refused =
        |error| Failure::not_possible(format_args!("per-epoll busy polling needs Linux 6.9: {error}"));
    Epoll::new(Waiting::Pwait2)?.busy_poll().map_err(refused)?;
    let trials = Trials { effort, cable: Cable::lay()? };
    let mut tables = SATURATING
        .into_iter()
        .map(|(key, keep_alive, work)| trials.saturated(key, Asked { keep_alive, work, interval: None }))
        .collect::<Done<Vec<_>>>()?;
    tables.push(trials.below()?);
    Ok(tables)
}

impl Trials<'_> {
    /// Clients that send a request whenever they are answered.
    fn saturated(&self, key: &str, asked: Asked) -> Done<Table> {
        // nginx cannot do the additional work.
        let servers = SERVERS.into_iter().filter(|server| *server != Server::Nginx || asked.work == 0);
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
    fn below(&self) -> Done<Table> {
        let asked = Asked { keep_alive: true, work: 0, interval: None };
        let capacity = self.trial(EPOLL, asked, (&mut Round::default(), ""))?.rate();
        let at = |percent: u32| Duration::from_secs_f64(100.0 / (capacity * f64::from(percent)).max(1.0));
        let mut servers: Vec<Server> = BELOW.into_iter().filter(Server::is_there).collect();
        let rows = |percent: u32| {
            servers.iter().map(move |server| format!("{percent}%, {server}")).collect::<Vec<_>>()
        };
        let rows: Vec<String> = SHARES.into_iter().flat_map(rows).collect();
        let measured = self.effort.rounds.contest(&SHARES, &mut servers, |&percent, server, round| {
            let asked = Asked { interval: Some(at(percent)), ..asked };
            self.trial(*server, asked, (round, &format!("{percent}%, {server}"))).map(drop)
        })?;
        let mut table = Table::of("napi-below", &measured, &rows, &COLUMNS);
        table.note(format!(
            "of {:.1} kreq/s, which epoll reached over {CONNECTIONS} kept connections",
            capacity / 1e3
        ));
        Ok(table)
    }

    /// Measures one server under load, and records its figures in this row.
    fn trial(&self, server: Server, asked: Asked, (round, row): (&mut Round, &str)) -> Done<Answered> {
        let [here, there] = self.effort.processors;
        self.cable.receive(server.receiving(), here)?;
        let kept = here.keep()?;
        let (running, address) = server.start(&self.cable, asked.work)?;
        drop(kept);
        let load = Load {
            clients: vec![(address, CONNECTIONS)],
            keep_alive: asked.keep_alive,
            interval: asked.interval,
            time: self.effort.trial,
        };
        let so_far = || (Ticks::now(Some(here.number())), interrupts(here.number()));
        let clients = || -> io::Result<_> {
            self.cable.enter()?;
            let _kept = there.keep()?;
            let polled = polled(address)?;
            let before = so_far();
            Ok((load.run_polling(Some(&polled))?, before, so_far()))
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
        round.put(row, "p50 µs", micros(0.5));
        round.put(row, "p99 µs", micros(0.99));
        round.put(row, BUSY, busy);
        round.put(
            row,
            "CPU µs a request",
            busy.map(|busy| busy * answered.time.as_secs_f64() * 1e6 / answers),
        );
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
    fn start(self, cable: &Cable, work: u64) -> Done<(Running, SocketAddr)> {
        let (kind, number) = match self {
            Server::Nginx => {
                let (nginx, address) = Nginx::start(cable)?;
                return Ok((Running::Nginx(nginx), address));
            }
            Server::Epoll(_) => ("epoll", 0),
            Server::Spin => ("spin", 0),
            Server::Napi(quota) => ("napi", quota),
        };
        let (parent, address) = (std::process::id().to_string(), format!("{SERVER}:0"));
        let (number, work) = (number.to_string(), work.to_string());
        let words = ["--with-parent", &*parent, kind, &*number, &*work, &*address];
        let mut command = cable.command(&std::env::current_exe()?, &words);
        let (server, address) = announced(command.stdin(Stdio::piped()), "listening on ")?;
        Ok((Running::Ours(server), address.parse()?))
    }

    fn receiving(self) -> Receiving {
        match self {
            Server::Epoll(receiving) => receiving,
            Server::Spin | Server::Nginx => Receiving::Interrupts,
            Server::Napi(_) => Receiving::Deferred(BACKUP),
        }
    }

    fn is_there(&self) -> bool {
        *self != Server::Nginx || Nginx::is_there()
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Server::Epoll(Receiving::Interrupts) => f.write_str("epoll"),
            Server::Epoll(Receiving::Thread) => f.write_str("epoll, threaded NAPI"),
            Server::Epoll(_) => f.write_str("epoll, received on the other CPU"),
            Server::Spin => f.write_str("epoll, never asleep"),
            Server::Napi(quota) => write!(f, "NAPI polled, quota {quota}"),
            Server::Nginx => f.write_str("nginx"),
        }
    }
}

/// Adds the two gains, and a bar: the paper's smallest gain, with the quota that is usual here.
fn conclude(table: &mut Table, measured: &Measured, key: &str) {
    let [one, five] = [1, 5].map(|quota| Server::Napi(quota).to_string());
    let epoll = EPOLL.to_string();
    let gain = |of: &str, to: &str| {
        100.0 * (measured.ratio(RATE, of, to).map_or(f64::NAN, |ratio| ratio.median) - 1.0)
    };
    let (first, aggregated) = (gain(&one, &epoll), gain(&five, &one));
    table.note(format!("gain of avoiding interrupts (quota 1 against epoll): {first:+.1}%"));
    table.note(format!("gain of aggregation (quota 5 against quota 1): {aggregated:+.1}%"));
    let ratio = measured.ratio(RATE, &five, &epoll);
    table.bar(Bar::at_least(format!("server, {key}: quota 5 against epoll"), 1.03, ratio));
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
/// Table XII's quotas between the plain server and other ways.
const SERVERS: [Server; 10] = [
    EPOLL,
    Server::Napi(1),
    Server::Napi(2),
    Server::Napi(5),
    Server::Napi(10),
    Server::Napi(15),
    Server::Spin,
    Server::Epoll(Receiving::Thread),
    Server::Epoll(Receiving::Elsewhere),
    Server::Nginx,
];
const BELOW: [Server; 6] =
    [EPOLL, Server::Napi(1), Server::Napi(5), Server::Spin, Server::Epoll(Receiving::Thread), Server::Nginx];
/// Table, whether connections are persistent, and microseconds of work.
const SATURATING: [(&str, bool, u64); 3] =
    [("napi-kept", true, 0), ("napi-kept-work", true, 10), ("napi-closed", false, 0)];
/// Percent of the capacity.
const SHARES: [u32; 2] = [30, 70];
/// Twice the most that a wait finds with the largest quota.
const CONNECTIONS: usize = 64;
/// How long a server without load polls before it sleeps and takes interrupts.
const BACKUP: Duration = Duration::from_millis(1);
const COLUMNS: [(&str, usize); 8] = [
    (RATE, 1),
    ("p50 µs", 1),
    ("p99 µs", 1),
    (BUSY, 3),
    ("CPU µs a request", 1),
    ("interrupts a request", 2),
    ("found a look", 1),
    ("errors", 0),
];
