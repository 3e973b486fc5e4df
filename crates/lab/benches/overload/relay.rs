//! Packets/s through a relay: `softtimers forward --udp` beside `socat`, each on the same processor.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_lab::bench::Done;
use softtimers_lab::command::{Killed, Program, announced, pause};
use softtimers_measure::bar::Bar;
use softtimers_measure::processor::Processor;
use softtimers_measure::result::Table;

use super::Effort;

/// More than either relays.
const FLOOD: &str = "600kpps";
const BYTES: &str = "64";

pub(crate) fn measure(effort: &Effort) -> Done<Vec<Table>> {
    let mut skipped = None;
    let measured = effort.rounds.contest(&[()], &mut RELAYS.clone(), |(), relay, round| {
        match relay.packets_per_second(effort.trial) {
            Ok(rate) => round.put(relay.name(), RATE, rate / 1e3),
            Err(error) if *relay == Relay::Socat => skipped = Some(format!("skipped: socat: {error}")),
            Err(error) => return Err(error),
        }
        Ok(())
    })?;
    let mut table = Table::of("relay", &measured, RELAYS.map(Relay::name), &[(RATE, 1)]);
    let ratio = measured.ratio(RATE, Relay::Forward.name(), Relay::Socat.name());
    table.bar(Bar::at_least("forward / socat", 3.0, ratio));
    table.notes.extend(skipped);
    Ok(vec![table])
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Relay {
    Forward,
    Socat,
}

const RELAYS: [Relay; 2] = [Relay::Forward, Relay::Socat];

impl Relay {
    fn name(self) -> &'static str {
        match self {
            Relay::Forward => "softtimers forward --udp",
            Relay::Socat => "socat -u UDP4-RECV UDP4-SENDTO",
        }
    }

    /// What comes out behind it while a sender offers more than it takes.
    fn packets_per_second(self, time: Duration) -> Done<f64> {
        let [here, there] = Processor::two().ok_or("it takes two processors")?;
        // Nobody reads it: once its buffer is full, what arrives is counted as dropped.
        let sink = softtimers_net::UdpSocket::bind("127.0.0.1:0")?;
        sink.request_recv_buffer(4 << 10)?;
        // Relays inherit it.
        let kept = Processor::new(there)?.keep()?;
        let (running, address) = self.start(sink.local_addr()?)?;
        drop(kept);
        let (warm, whole) = (Duration::from_millis(100), time + Duration::from_millis(300));
        let sender = sender(address, here, whole)?;
        pause(warm + Duration::from_millis(100));
        let (before, began) = (sink.drops()?, Monotonic.now());
        pause(time);
        let (after, ended) = (sink.drops()?, Monotonic.now());
        sender.object()?;
        drop(running);
        let packets = f64::from(after.wrapping_sub(before));
        Ok(packets / ended.saturating_duration_since(began).as_secs_f64())
    }

    /// Starts it; its address, once it says that it relays.
    fn start(self, sink: SocketAddr) -> Done<(Killed, SocketAddr)> {
        match self {
            Relay::Forward => {
                let words = ["forward", "--udp", "127.0.0.1:0", "--duration", "60s", "--json", "--to"];
                let (relay, line) = announced(Program::build()?.command(&words).arg(sink.to_string()))?;
                let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next());
                Ok((relay, address.ok_or_else(|| format!("the relay: {line}"))?.parse()?))
            }
            Relay::Socat => {
                // A port that was free a moment ago.
                let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
                let mut child = Command::new("socat")
                    .args(["-d", "-d", "-u"])
                    .arg(format!("UDP4-RECV:{port},bind=127.0.0.1"))
                    .arg(format!("UDP4-SENDTO:{sink}"))
                    .stdin(Stdio::null())
                    .stderr(Stdio::piped())
                    .spawn()?;
                let log = child.stderr.take().map(BufReader::new);
                let running = (child.into(), SocketAddr::from(([127, 0, 0, 1], port)));
                // It says so when it is ready; it ends without if it is not.
                let ready = log.is_some_and(|log| {
                    log.lines().map_while(Result::ok).any(|line| line.contains("starting data transfer"))
                });
                if ready { Ok(running) } else { Err("it did not start".into()) }
            }
        }
    }
}

fn sender(to: SocketAddr, cpu: usize, time: Duration) -> Done<Killed> {
    let line = format!(
        "send {to} --no-handshake --rate {FLOOD} --quantum 4 --size {BYTES} --timer spin --catch-up all --cpu {cpu} --json --duration {}ms",
        time.as_millis()
    );
    let mut command = Program::build()?.command(&line.split(' ').collect::<Vec<_>>());
    Ok(command.stdout(Stdio::piped()).spawn()?.into())
}

const RATE: &str = "kpps";
