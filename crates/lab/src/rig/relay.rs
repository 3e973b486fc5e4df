//! `relay`: `forward --udp` on one CPU under a flood, beside ten lines of C and socat; and what a packet costs with one poller and
//! with two. How much more two deliver on CPUs of their own is not measured: this machine has two, and the flood needs one.

use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use softtimers_measure::bar::Bar;
use softtimers_measure::paired::{Paired, Round};
use softtimers_measure::result::Table;

use super::trial::{Rig, busy, now};
use crate::bench::Done;
use crate::command::{Killed, announced, output, pause, start, works};

/// A program that relays from one address to another.
#[derive(Clone, Debug)]
enum By {
    /// The command, with so many pollers.
    Softtimers(u32),
    /// The ten lines, compiled.
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
    let rounds = rig.rounds(5);
    let flood = Paired::new(rounds).beside_others().contest(&[()], &mut all.clone(), |(), by, round| {
        let (passed, _) = by.trial(rig, 1, FLOOD)?;
        round.put(&by.name(), RELAYED, passed / WINDOW.as_secs_f64() / 1e3);
        anyhow::Ok(())
    })?;
    let mut delivered = Table::of("relay", &flood, all.iter().map(By::name), &[(RELAYED, 0)]);
    let ratio = flood.ratio(RELAYED, &By::Softtimers(1).name(), LOOP_NAME);
    delivered.bar(Bar::at_least(
        "forward --udp under flood, against recv and send in C, in pairs",
        1.2,
        ratio,
    ));
    all.retain(|by| matches!(by, By::Softtimers(_)));
    let steady = Paired::new(rounds).contest(&[()], &mut all, |(), by, round: &mut Round| {
        let (passed, used) = by.trial(rig, SENDERS, STEADY)?;
        round.put(&by.name(), COST, (passed > 0.0).then(|| 1e9 * used / passed));
        anyhow::Ok(())
    })?;
    let mut cost = Table::of("cost of a relayed packet", &steady, all.iter().map(By::name), &[(COST, 0)]);
    let [one, two] = [1, 2].map(|pollers| By::Softtimers(pollers).name());
    cost.bar(Bar::at_most(
        "two pollers: CPU a packet, against one, in pairs",
        1.1,
        steady.ratio(COST, &two, &one),
    ));
    cost.note("80,000 packets/s of four clients; both pollers on one CPU");
    Ok(vec![delivered, cost])
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

    /// The packets that came out in a window of a load by so many senders, and the seconds of CPU that they took.
    fn trial(&self, rig: &Rig, senders: u32, rate: f64) -> Result<(f64, f64)> {
        // Nobody reads it: what has no room is dropped there, and counted.
        let sink = softtimers_net::UdpSocket::bind("127.0.0.1:0")?;
        let (relay, port) = self.started(rig, sink.local_addr()?.port())?;
        let time = WINDOW + SETTLED * 2;
        let send = |_| {
            let words = rig.softtimers(&format!(
                "send 127.0.0.1:{port} --no-handshake --rate {:.0}pps --quantum 16 --catch-up all --size 64 --cpu 0 --duration {}ms --json",
                rate / f64::from(senders),
                time.as_millis()
            ));
            start(&mut command(&words)?)
        };
        let senders = (0..senders).map(send).collect::<Result<Vec<_>>>()?;
        pause(SETTLED);
        let before = (sink.drops()?, busy(relay.id())?);
        pause(WINDOW);
        let after = (sink.drops()?, busy(relay.id())?);
        for sender in senders {
            sender.object()?;
        }
        let (passed, used) = (f64::from(after.0.wrapping_sub(before.0)), after.1 - before.1);
        ensure!(passed > 0.0, "{} relays nothing", self.name());
        eprintln!("{:7.1} s  {}: {passed} packets, {:.0} ms of CPU", now(), self.name(), 1e3 * used);
        Ok((passed, used))
    }

    /// Relays to this port on the second CPU; from which one.
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
/// More than anybody relays.
const FLOOD: f64 = 2e6;
/// Less than one poller can.
const STEADY: f64 = 80e3;
const SENDERS: u32 = 4;
const WINDOW: Duration = Duration::from_millis(1_000);
const SETTLED: Duration = Duration::from_millis(300);
const RELAYED: &str = "relayed kpps";
const COST: &str = "ns of CPU";
