//! Packets/s through a relay: `softtimers forward --udp` beside `socat`, each on the same processor.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_lab::bench::Done;
use softtimers_lab::command::{Killed, Program, announced, pause, start};
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
        let line = format!(
            "send {address} --no-handshake --rate {FLOOD} --quantum 4 --size {BYTES} --timer spin --catch-up all --cpu {here} \
             --json --duration {}ms",
            whole.as_millis()
        );
        let sender = start(&mut Program::build()?.command(&line.split(' ').collect::<Vec<_>>()))?;
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
                let words = format!("forward --udp 127.0.0.1:0 --duration 60s --json --to {sink}");
                let mut command = Program::build()?.command(&words.split(' ').collect::<Vec<_>>());
                let (relay, line) = announced(&mut command, "listening on ")?;
                Ok((relay, line.split(',').next().unwrap_or_default().parse()?))
            }
            Relay::Socat => {
                // A port that was free a moment ago.
                let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
                let ends = [format!("UDP4-RECV:{port},bind=127.0.0.1"), format!("UDP4-SENDTO:{sink}")];
                let mut command = Command::new("socat");
                command.args(["-d", "-d", "-u"]).args(ends).stdin(Stdio::null());
                let (relay, _) = announced(&mut command, "starting data transfer")?;
                Ok((relay, SocketAddr::from(([127, 0, 0, 1], port))))
            }
        }
    }
}

const RATE: &str = "kpps";
