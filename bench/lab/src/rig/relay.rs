//! `relay`: `forward --udp` on one CPU under a flood from one client and from several in turn, compared with ten lines
//! of C and socat; and the cost of a packet with one poller and with two. The throughput of two pollers on separate
//! CPUs is not measured: this machine has two CPUs, and the flood needs one. `softtimers sim relay` models it.
//!
//! ```text
//!   CPU 0: clients, four datagrams each in turn ──▶ CPU 1: the relay, and the kernel's way to ──▶ an unread socket
//! ```

use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use softtimers_measure::processor::Processor;
use softtimers_net::udp::{SendBatch, Stopped};
use softtimers_trials::bar::Bar;
use softtimers_trials::paired::{Paired, Round};
use softtimers_trials::result::Table;

use super::trial::{Rig, busy, now};
use crate::bench::Done;
use softtimers_trials::command::{Killed, announced, output, pause, start, works};

/// A program that relays from one address to another.
#[derive(Clone, Debug)]
enum By {
    /// The command, with N pollers.
    Softtimers(u32),
    /// The ten lines of C, compiled.
    Loop(PathBuf),
    Socat,
}

pub(super) fn relay(rig: &Rig) -> Done<Vec<Table>> {
    let directory = std::env::temp_dir().join(format!("softtimers-relay-{}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let tables = flood_and_cost(rig, directory.clone());
    std::fs::remove_dir_all(directory)?;
    Ok(tables?)
}

fn flood_and_cost(rig: &Rig, directory: PathBuf) -> Result<Vec<Table>> {
    let mut all = vec![By::Softtimers(1), By::Softtimers(2)];
    if works(Command::new("cc").arg("--version")) {
        let (source, program) = (directory.join("loop.c"), directory.join("loop"));
        std::fs::write(&source, LOOP)?;
        output(Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(&source))?;
        all.push(By::Loop(program));
    }
    if works(Command::new("socat").arg("-V")) {
        all.push(By::Socat);
    }
    Ok(vec![flood(rig, all.clone())?, cost(rig)?])
}

/// As much as a CPU sends, from one client and from several in turn.
fn flood(rig: &Rig, mut all: Vec<By>) -> Result<Table> {
    let flood = Paired::new(rig.rounds(5)).repeating(3).beside_others();
    let flood = flood.contest(&[1, CLIENTS], &mut all, |&clients, by, round: &mut Round| {
        if by.fits(clients) {
            let found = by.flooded(rig, clients)?;
            let row = by.under(clients);
            round.put(&row, OFFERED, found.offered / WINDOW.as_secs_f64() / 1e3);
            round.put(&row, RELAYED, found.passed / WINDOW.as_secs_f64() / 1e3);
        }
        anyhow::Ok(())
    })?;
    let fitting = |clients| all.iter().filter(move |by| by.fits(clients)).map(move |by| by.under(clients));
    let rows = fitting(1).chain(fitting(CLIENTS));
    let mut table = Table::of("relay", &flood, rows, &[(OFFERED, 0), (RELAYED, 0)]);
    let ours = By::Softtimers(1);
    for clients in [1, CLIENTS] {
        let ratio = flood.ratio(RELAYED, &ours.under(clients), &under(LOOP_NAME, clients));
        let figure = format!("{}, against recv and send in C, in pairs", ours.under(clients));
        table.bar(Bar::at_least(figure, 1.2, ratio));
    }
    if let Some(ratio) = flood.ratio(RELAYED, &ours.under(CLIENTS), &ours.under(1)) {
        table.note(format!("{}: {:.2} of one client's, in pairs", ours.under(CLIENTS), ratio.median));
    }
    Ok(table)
}

/// Measures the cost of a packet below saturation.
fn cost(rig: &Rig) -> Result<Table> {
    let mut all = [1, 2].map(By::Softtimers);
    let steady = Paired::new(rig.rounds(5)).repeating(3);
    let steady = steady.contest(&[()], &mut all, |(), by, round: &mut Round| {
        let found = by.steady(rig)?;
        round.put(&by.name(), COST, (found.passed > 0.0).then(|| 1e9 * found.used / found.passed));
        anyhow::Ok(())
    })?;
    let mut cost = Table::of("cost of a relayed packet", &steady, all.iter().map(By::name), &[(COST, 0)]);
    let [one, two] = all.map(|by| by.name());
    cost.bar(Bar::at_most(
        "two pollers: CPU a packet, against one, in pairs",
        1.1,
        steady.ratio(COST, &two, &one),
    ));
    cost.note("80,000 packets/s of four clients; both pollers on one CPU");
    Ok(cost)
}

/// Packets that passed within the window.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Packets sent to the relay.
    offered: f64,
    /// Packets that it relayed.
    passed: f64,
    /// Seconds of CPU time that it used.
    used: f64,
}

/// The counters of a running relay.
struct Counted<'a> {
    /// An unread socket: packets without room are dropped there, and counted.
    sink: &'a softtimers_net::udp::UdpSocket,
    relay: &'a Killed,
}

impl Counted<'_> {
    /// Measures a window, after settling.
    fn window(&self, offered: &AtomicU64) -> Result<Found> {
        let now =
            || anyhow::Ok((self.sink.drops()?, busy(self.relay.id())?, offered.load(Ordering::Relaxed)));
        pause(SETTLED);
        let before = now()?;
        pause(WINDOW);
        let after = now()?;
        Ok(Found {
            offered: (after.2 - before.2) as f64,
            passed: f64::from(after.0.wrapping_sub(before.0)),
            used: after.1 - before.1,
        })
    }
}

/// Sends to this port from CPU 0 until it is over, from `clients` clients, a few datagrams each in turn.
fn send(port: u16, clients: usize, over: &AtomicBool, sent: &AtomicU64) -> Result<()> {
    let _kept = Processor::new(0)?.keep()?;
    let client = |_| {
        let socket = softtimers_net::udp::UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(("127.0.0.1", port))?;
        let mut batch = SendBatch::new(RUN, SIZE);
        batch.set_segmentation(true);
        anyhow::Ok((socket, batch))
    };
    let mut clients = (0..clients).map(client).collect::<Result<Vec<_>>>()?;
    while !over.load(Ordering::Relaxed) {
        for (socket, batch) in &mut clients {
            while batch.push(&[7; SIZE], None).is_ok() {}
            let outcome = socket.send_batch(batch);
            sent.fetch_add(outcome.sent as u64, Ordering::Relaxed);
            if let Some(Stopped::Error(error)) = outcome.stopped {
                return Err(error.into());
            }
        }
    }
    Ok(())
}

impl By {
    fn name(&self) -> String {
        match self {
            By::Softtimers(1) => "forward --udp".to_owned(),
            By::Softtimers(pollers) => format!("forward --udp --pollers {pollers}"),
            By::Loop(_) => LOOP_NAME.to_owned(),
            By::Socat => "socat".to_owned(),
        }
    }

    /// Returns the name of its row with `clients` clients.
    fn under(&self, clients: usize) -> String {
        under(&self.name(), clients)
    }

    /// Says whether the clients suit it: one client uses only one poller.
    fn fits(&self, clients: usize) -> bool {
        clients > 1 || !matches!(self, By::Softtimers(2..))
    }

    fn flooded(&self, rig: &Rig, clients: usize) -> Result<Found> {
        let sink = softtimers_net::udp::UdpSocket::bind("127.0.0.1:0")?;
        let (relay, port) = self.started(rig, sink.local_addr()?.port())?;
        let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        let found = thread::scope(|scope| {
            let sender = scope.spawn(|| send(port, clients, &over, &sent));
            let found = Counted { sink: &sink, relay: &relay }.window(&sent);
            over.store(true, Ordering::Relaxed);
            sender.join().map_err(|_| anyhow!("the sender panicked"))??;
            found
        })?;
        self.told(&found)
    }

    fn steady(&self, rig: &Rig) -> Result<Found> {
        let sink = softtimers_net::udp::UdpSocket::bind("127.0.0.1:0")?;
        let (relay, port) = self.started(rig, sink.local_addr()?.port())?;
        let time = WINDOW + SETTLED * 2;
        let send = |_| {
            let words = rig.softtimers(&format!(
                "send 127.0.0.1:{port} --no-handshake --rate {:.0}pps --quantum 16 --catch-up all --size {SIZE} --cpu 0 --duration {}ms --json",
                STEADY / CLIENTS as f64,
                time.as_millis()
            ));
            start(&mut command(&words)?)
        };
        let senders = (0..CLIENTS).map(send).collect::<Result<Vec<_>>>()?;
        let found = Counted { sink: &sink, relay: &relay }.window(&AtomicU64::new(0))?;
        for sender in senders {
            sender.object()?;
        }
        self.told(&found)
    }

    fn told(&self, found: &Found) -> Result<Found> {
        ensure!(found.passed > 0.0, "{} relays nothing", self.name());
        let Found { offered, passed, used } = *found;
        eprintln!("{:7.1} s  {}: {passed} of {offered}, {:.0} ms of CPU", now(), self.name(), 1e3 * used);
        Ok(*found)
    }

    /// Starts a relay to this port on the second CPU, and returns it with its own port.
    fn started(&self, rig: &Rig, to: u16) -> Result<(Killed, u16)> {
        if let By::Softtimers(pollers) = self {
            let words = format!(
                "forward --udp 127.0.0.1:0 --to 127.0.0.1:{to} --pollers {pollers} --duration 60s --json"
            );
            let words = format!("taskset -c 1 {}", rig.softtimers(&words));
            let (relay, told) = announced(&mut command(&words)?, "listening on ")?;
            let port = told.split([':', ',']).nth(1).and_then(|port| port.parse().ok());
            return Ok((relay, port.context("a port")?));
        }
        let from = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
        let words = match self {
            By::Loop(program) => format!("taskset -c 1 {} {from} {to}", program.display()),
            _ => format!(
                "taskset -c 1 socat -u UDP4-RECV:{from},bind=127.0.0.1,rcvbuf=4194304 UDP4:127.0.0.1:{to}"
            ),
        };
        let relay = start(&mut command(&words)?)?;
        pause(SETTLED);
        Ok((relay, from))
    }
}

fn under(name: &str, clients: usize) -> String {
    if clients == 1 { format!("{name}, one client") } else { format!("{name}, {clients} clients") }
}

fn command(words: &str) -> Result<Command> {
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().context("a program")?);
    command.args(words).stdin(Stdio::null());
    Ok(command)
}

/// Receives at the first port, and sends to the second.
const LOOP: &str = r"#include <arpa/inet.h>
#include <stdlib.h>
int main(int count, char **port) {
  struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, to = from;
  int in = socket(AF_INET, SOCK_DGRAM, 0), out = socket(AF_INET, SOCK_DGRAM, 0), size = 4 << 20;
  static char packet[65536];
  from.sin_port = htons(atoi(port[1])), to.sin_port = htons(atoi(port[2]));
  setsockopt(in, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
  if (bind(in, (void *)&from, sizeof from) || connect(out, (void *)&to, sizeof to)) return 1;
  for (ssize_t length; (length = recv(in, packet, sizeof packet, 0)) >= 0;) send(out, packet, length, 0);
}
";
const LOOP_NAME: &str = "recv and send in C";
/// Packets a second, fewer than one poller can relay.
const STEADY: f64 = 80e3;
/// With two pollers all of these reach the same one in one of eight cases.
const CLIENTS: usize = 4;
/// Datagrams of a client before the next one's turn: few enough that batches of the relay include all clients.
const RUN: usize = 4;
/// Bytes of a datagram.
const SIZE: usize = 64;
const WINDOW: Duration = Duration::from_millis(1_000);
const SETTLED: Duration = Duration::from_millis(300);
const OFFERED: &str = "offered kpps";
const RELAYED: &str = "relayed kpps";
const COST: &str = "ns of CPU";
