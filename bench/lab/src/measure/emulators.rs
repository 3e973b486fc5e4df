//! The path emulator and others: settings compared with measurements, the cost of a gigabit, and the maximum speed.
//!
//! ```text
//!   wan -- CMD        this ══ wan: bridge ══ this           kernel TCP between namespaces
//!   wan --tcp         this ──▶ wan: relay ──▶ this          a proxy on loopback, as is Toxiproxy
//!   netem             this ══ lo of a namespace ══ this     in the kernel, whose CPU time is not attributed
//! ```
//!
//! Others are measured where they are installed: Toxiproxy's server by the variable `TOXIPROXY_SERVER`, netem where
//! the kernel has it.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use softtimers_measure::estimate::median;
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::Round;
use softtimers_trials::result::Table;

use super::Effort;
use crate::bench::Done;
use crate::rig::trial::busy;
use crate::traffic::{Answer, Moment, ask, serve};
use softtimers_trials::command::{Killed, Program, announced, output, pause, start, works};

/// An emulator.
#[derive(Clone, Debug)]
pub(super) enum Emulator {
    /// Loopback alone, for the errors of the measurement itself.
    Nobody,
    Inside,
    /// The same with a longer span in which segments may leave together, for its CPU time at a limit.
    Coalescing,
    Relay,
    Toxiproxy(PathBuf),
    Netem(String),
}

/// The settings of a path.
#[derive(Clone, Copy, Debug)]
enum Set {
    Nothing,
    /// The round-trip time, half of it each way.
    Rtt(Duration),
    /// Bits a second in one direction.
    Rate(u64),
}

/// The measurement of an emulator.
struct Trial<'a> {
    program: &'a Program,
    /// The path of this program.
    this: &'a str,
    /// The address where it [serves](serve) on loopback.
    server: SocketAddr,
    pings: usize,
    length: Duration,
}

const TOXIPROXY: &str = "Toxiproxy";
const RTT: Duration = Duration::from_millis(20);
/// The longer of the spans in which segments may leave together; the other is the default.
const SPAN: &str = "100us";
const RATES: [(u64, &str); 3] = [
    (10_000_000, "10 Mbit/s off by %"),
    (100_000_000, "100 Mbit/s off by %"),
    (1_000_000_000, "1 Gbit/s off by %"),
];
/// The rate whose cost is of interest.
const ONE_GIGABIT: u64 = RATES[2].0;
const OFF: &str = "RTT 20 ms: p50 off by ms";
const FASTEST: &str = "without limits Gbit/s";
const COST: &str = "CPU s a Gbit";
const CLOCK: &str = "CPU s a Gbit at 1 Gbit/s";

pub(super) fn emulators(effort: &Effort) -> Done<Vec<Table>> {
    let program = Program::build()?;
    let this = env::current_exe()?.display().to_string();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let server = listener.local_addr()?;
    std::thread::spawn(move || serve(&listener));
    let trial = Trial {
        program: &program,
        this: &this,
        server,
        pings: effort.of(50, 5),
        length: Duration::from_millis(effort.of(2_000, 300)),
    };
    let (mut contenders, mut notes) = (vec![], vec![]);
    let space = Namespace(format!("softtimers-netem-{}", std::process::id()));
    for (emulator, found) in [
        (Emulator::Nobody, Ok(())),
        (Emulator::Inside, Ok(())),
        (Emulator::Coalescing, Ok(())),
        (Emulator::Relay, Ok(())),
        toxiproxy(),
        (Emulator::Netem(space.0.clone()), space.lay()),
    ] {
        // An emulator that does not run here is reported, and not compared.
        let first = found.and_then(|()| trial.once(&emulator, Set::Nothing, 1, Duration::ZERO).map(drop));
        match first {
            Ok(()) => contenders.push(emulator),
            Err(error) => notes.push(format!("skipped: {}: {}", emulator.name(), one_line(&error))),
        }
    }
    let measured =
        effort.paired.contest(&[()], &mut contenders, |(), emulator, round| trial.round(emulator, round))?;
    let rates = RATES.map(|(_, name)| (name, 2));
    let columns = [&[(OFF, 3)][..], &rates, &[(FASTEST, 2), (COST, 3), (CLOCK, 3)]].concat();
    let mut table = Table::of("emulators", &measured, contenders.iter().map(Emulator::name), &columns);
    let [inside, coalescing, relay, toxiproxy] =
        [Emulator::Inside, Emulator::Coalescing, Emulator::Relay, Emulator::Toxiproxy(PathBuf::new())]
            .map(|emulator| emulator.name());
    let rates = RATES.iter().map(|(_, name)| (inside, *name, 0.1));
    let costs = [(inside, CLOCK, 0.35), (coalescing, CLOCK, 0.25), (inside, COST, 0.06)];
    for (row, figure, most) in rates.chain(costs) {
        table.bar(Bar::at_most(format!("{row}: {figure}"), most, measured.estimate(row, figure)));
    }
    let against =
        |figure| (format!("{relay}: {figure}, of {toxiproxy}'s"), measured.ratio(figure, relay, toxiproxy));
    let (fastest, cost) = (against(FASTEST), against(COST));
    table.bar(Bar::at_least(fastest.0, 2.0, fastest.1));
    table.bar(Bar::at_most(cost.0, 0.5, cost.1));
    notes.into_iter().for_each(|note| table.note(note));
    table.note("Round trips include the programs' own part, which loopback alone shows. Rates are of payload, beside those that the set rate leaves for it. Toxiproxy counts no headers. CPU time is that of the emulator's process.");
    Ok(vec![table])
}

impl Emulator {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Emulator::Nobody => "none: loopback",
            Emulator::Inside => "wan -- CMD",
            Emulator::Coalescing => "wan --coalesce 100us -- CMD",
            Emulator::Relay => "wan --tcp",
            Emulator::Toxiproxy(_) => TOXIPROXY,
            Emulator::Netem(_) => "netem",
        }
    }

    /// Returns the payload's part of a rate: of frames of 1,514 bytes, of segments with 52 bytes of headers, or all.
    fn payload(&self) -> f64 {
        match self {
            Emulator::Inside | Emulator::Coalescing => 1_448.0 / 1_514.0,
            Emulator::Relay => 1_448.0 / 1_500.0,
            // A frame on lo has 65,483 bytes of payload.
            Emulator::Nobody | Emulator::Netem(_) | Emulator::Toxiproxy(_) => 1.0,
        }
    }
}

impl Trial<'_> {
    /// Measures all figures of an emulator; of one that differs in its span only, the cost of the limit.
    fn round(&self, emulator: &Emulator, round: &mut Round) -> Result<()> {
        let row = emulator.name();
        if matches!(emulator, Emulator::Coalescing) {
            let (answer, cpu) = self.once(emulator, Set::Rate(ONE_GIGABIT), 0, self.length)?;
            round.put(row, CLOCK, cost(answer.rate, cpu, self.length));
            return Ok(());
        }
        let (Answer { trips, .. }, _) = self.once(emulator, Set::Rtt(RTT), self.pings, Duration::ZERO)?;
        let is_set = !matches!(emulator, Emulator::Nobody);
        let wanted = if is_set { RTT.as_nanos() as f64 } else { 0.0 };
        round.put(row, OFF, median(trips).map(|trip| (trip - wanted).abs() / 1e6));
        for (bits, name) in RATES.into_iter().filter(|_| is_set) {
            let (answer, cpu) = self.once(emulator, Set::Rate(bits), 0, self.length)?;
            let wanted = bits as f64 * emulator.payload();
            round.put(row, name, answer.rate.map(|rate| 100.0 * (rate / wanted - 1.0).abs()));
            let cost = cost(answer.rate, cpu, self.length);
            round.put(row, CLOCK, cost.filter(|_| bits == ONE_GIGABIT));
        }
        let (answer, cpu) = self.once(emulator, Set::Nothing, 0, self.length)?;
        round.put(row, FASTEST, answer.rate.map(|rate| rate / 1e9));
        round.put(row, COST, cost(answer.rate, cpu, self.length));
        Ok(())
    }

    /// Measures once through an emulator; returns the answer, and the emulator's CPU time meanwhile, if that can be
    /// known.
    fn once(
        &self,
        emulator: &Emulator,
        set: Set,
        pings: usize,
        length: Duration,
    ) -> Result<(Answer, Option<f64>)> {
        match emulator {
            Emulator::Nobody => Ok((ask(&self.server.to_string(), pings, length, &mut |_| ())?, None)),
            Emulator::Inside | Emulator::Coalescing => {
                let peer = format!("exec {} traffic serve 0.0.0.0:7000", self.this);
                let mut command = self.program.command(&["wan"]);
                command.args(flags(set).split_whitespace());
                if matches!(emulator, Emulator::Coalescing) {
                    command.args(["--coalesce", SPAN]);
                }
                command.args(["--peer", &peer, "--"]);
                self.behind(command, "peer:7000", pings, length, true)
            }
            Emulator::Relay => {
                let line = format!(
                    "wan --tcp --listen 127.0.0.1:0 --to {} --duration 60s --json {}",
                    self.server,
                    flags(set)
                );
                let mut command = self.program.command(&line.split_whitespace().collect::<Vec<_>>());
                let (relay, line) = announced(&mut command, "listening on ")?;
                let address = line.split([' ', ',']).next().unwrap_or_default();
                let found = self.through(&relay, address, pings, length)?;
                relay.ended().map(|_| found)
            }
            Emulator::Toxiproxy(server) => {
                let (proxy, address) = toxic(server, self.server, set)?;
                self.through(&proxy, &address, pings, length)
            }
            Emulator::Netem(space) => {
                netem(space, set)?;
                let mut serving = Command::new("ip");
                serving.args(["netns", "exec", space, self.this, "traffic", "serve", "127.0.0.1:7000"]);
                let _server = start(&mut serving)?;
                pause(Duration::from_millis(200));
                let mut command = Command::new("ip");
                command.args(["netns", "exec", space]);
                self.behind(command, "127.0.0.1:7000", pings, length, false)
            }
        }
    }

    /// Runs this program as the emulator's command.
    fn behind(
        &self,
        mut command: Command,
        address: &str,
        pings: usize,
        length: Duration,
        is_emulator: bool,
    ) -> Result<(Answer, Option<f64>)> {
        command.args([
            self.this,
            "traffic",
            "ask",
            address,
            &pings.to_string(),
            &length.as_millis().to_string(),
        ]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let id = child.id();
        let mut times = vec![];
        let lines = BufReader::new(child.stdout.take().context("piped")?).lines();
        let mut answer = None;
        for line in lines {
            match &*line? {
                "begun" | "ended" => times.push(if is_emulator { busy(id).ok() } else { None }),
                text => answer = serde_json::from_str(text).ok(),
            }
        }
        let mut said = String::new();
        child.stderr.take().context("piped")?.read_to_string(&mut said)?;
        let status = child.wait()?;
        ensure!(status.success(), "{status}: {}", said.trim());
        let spent = if let [Some(begun), Some(ended)] = times[..] { Some(ended - begun) } else { None };
        Ok((answer.context("no answer")?, spent))
    }

    /// Measures through a proxy.
    fn through(
        &self,
        proxy: &Killed,
        address: &str,
        pings: usize,
        length: Duration,
    ) -> Result<(Answer, Option<f64>)> {
        let mut times = vec![];
        let answer = ask(address, pings, length, &mut |_: Moment| times.push(busy(proxy.id()).ok()))?;
        let spent = if let [Some(begun), Some(ended)] = times[..] { Some(ended - begun) } else { None };
        Ok((answer, spent))
    }
}

/// Returns the CPU seconds of a gigabit.
fn cost(rate: Option<f64>, cpu: Option<f64>, length: Duration) -> Option<f64> {
    Some(cpu? / (rate? * length.as_secs_f64() / 1e9))
}

/// Returns a setting as flags of `wan`.
fn flags(set: Set) -> String {
    match set {
        Set::Nothing => String::new(),
        Set::Rtt(rtt) => format!("--rtt {}us", rtt.as_micros()),
        Set::Rate(bits) => format!("--up-rate {}kbit --up-queue 20ms", bits / 1_000),
    }
}

/// Returns Toxiproxy, if its server is named.
pub(super) fn toxiproxy() -> (Emulator, Result<()>) {
    let server = env::var_os("TOXIPROXY_SERVER").map(PathBuf::from);
    let found = match &server {
        Some(path) if path.is_file() => Ok(()),
        Some(path) => Err(anyhow::anyhow!("TOXIPROXY_SERVER: no file {}", path.display())),
        None => Err(anyhow::anyhow!("TOXIPROXY_SERVER does not name its server")),
    };
    (Emulator::Toxiproxy(server.unwrap_or_default()), found)
}

/// Starts Toxiproxy's server, or `wan` with its API, and returns it with the API's address.
pub(super) fn serving(command: &mut Command, row: &str) -> Result<(Killed, String)> {
    // The port is free now, and stays so unless another program takes it.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let api = format!("127.0.0.1:{port}");
    match row {
        // Its log of connections would fill the pipe.
        TOXIPROXY => {
            command.env("LOG_LEVEL", "error").args(["-host", "127.0.0.1", "-port", &port.to_string()])
        }
        _ => command.args(["--api", &api]),
    };
    let server = start(command.stdin(Stdio::null()))?;
    let mut left = 50;
    while TcpStream::connect(&api).is_err() {
        ensure!(left > 0, "its API does not answer");
        left -= 1;
        pause(Duration::from_millis(100));
    }
    Ok((server, api))
}

/// Makes a proxy to `to`, and returns its address.
pub(super) fn made(api: &str, name: &str, to: SocketAddr) -> Result<String> {
    let body = json!({ "name": name, "listen": "127.0.0.1:0", "upstream": to.to_string() });
    Ok(post(api, "/proxies", &body)?["listen"].as_str().context("no address")?.to_owned())
}

/// Starts a Toxiproxy server with one proxy to `to`, and returns it with the proxy's address.
fn toxic(server: &Path, to: SocketAddr, set: Set) -> Result<(Killed, String)> {
    let (proxy, api) = serving(&mut Command::new(server), TOXIPROXY)?;
    let address = made(&api, "it", to)?;
    let toxics = match set {
        Set::Nothing => vec![],
        Set::Rtt(rtt) => ["upstream", "downstream"]
            .map(|stream| json!({ "type": "latency", "stream": stream, "attributes": { "latency": rtt.as_millis() as u64 / 2 } }))
            .into(),
        Set::Rate(bits) => {
            vec![json!({ "type": "bandwidth", "stream": "upstream", "attributes": { "rate": bits / 8_000 } })]
        }
    };
    for toxic in toxics {
        post(&api, "/proxies/it/toxics", &toxic)?;
    }
    Ok((proxy, address))
}

fn post(api: &str, path: &str, body: &Value) -> Result<Value> {
    let mut stream = TcpStream::connect(api)?;
    let body = body.to_string();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {api}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    ensure!(text.starts_with("HTTP/1.1 2"), "{path}: {}", text.lines().next().unwrap_or_default());
    let (_, body) = text.split_once("\r\n\r\n").context("no body")?;
    serde_json::from_str(body).with_context(|| body.to_owned())
}

/// A network namespace for netem, deleted when it is dropped.
struct Namespace(String);

impl Namespace {
    fn lay(&self) -> Result<()> {
        output(Command::new("ip").args(["netns", "add", &self.0]))?;
        output(Command::new("ip").args(["-n", &self.0, "link", "set", "lo", "up"]))?;
        netem(&self.0, Set::Rtt(RTT))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        works(Command::new("ip").args(["netns", "del", &self.0]));
    }
}

/// Both directions pass the single queue of lo.
fn netem(space: &str, set: Set) -> Result<()> {
    let setting = match set {
        Set::Nothing => "delay 0".to_owned(),
        Set::Rtt(rtt) => format!("delay {}us", rtt.as_micros() / 2),
        Set::Rate(bits) => format!("rate {bits}"),
    };
    let line = format!("-n {space} qdisc replace dev lo root netem limit 100000 {setting}");
    output(Command::new("tc").args(line.split(' '))).map(drop)
}

fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ")
}
