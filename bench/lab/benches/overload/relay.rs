//! Packets/s through a relay: `softtimers forward --udp` beside `socat`, each on the same CPU.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_lab::bench::Done;
use softtimers_measure::processor::Processor;
use softtimers_trials::bar::Bar;
use softtimers_trials::command::{Program, announced, pause, start, works};
use softtimers_trials::result::Table;

use super::Effort;

/// More than either can relay.
const FLOOD: &str = "600kpps";
const BYTES: &str = "64";

const FORWARD: &str = "softtimers forward --udp";
const SOCAT: &str = "socat -u UDP4-RECV UDP4-SENDTO";
const RATE: &str = "kpps";

pub(crate) fn measure(effort: &Effort) -> Done<Vec<Table>> {
    let mut relays = vec![FORWARD];
    relays.extend(works(Command::new("socat").arg("-V")).then_some(SOCAT));
    let measured = effort.rounds.contest(&[()], &mut relays, |(), relay, round| {
        round.put(relay, RATE, packets_per_second(relay, effort.trial)? / 1e3);
        Done::Ok(())
    })?;
    let mut table = Table::of("relay", &measured, [FORWARD, SOCAT], &[(RATE, 1)]);
    table.bar(Bar::at_least("forward / socat", 3.0, measured.ratio(RATE, FORWARD, SOCAT)));
    if relays.len() < 2 {
        table.note("skipped: there is no socat");
    }
    Ok(vec![table])
}

/// Returns the rate behind a relay while a sender offers more than it can relay.
fn packets_per_second(relay: &str, time: Duration) -> Done<f64> {
    let program = Program::build()?;
    let [here, there] = Processor::two().ok_or("it takes two processors")?;
    // It is never read: once its buffer is full, arriving packets are counted as dropped.
    let sink = softtimers_net::udp::UdpSocket::bind("127.0.0.1:0")?;
    sink.request_recv_buffer(4 << 10)?;
    let to = sink.local_addr()?;
    // A port that was free a moment ago.
    let address = UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
    let (mut command, ready) = if relay == FORWARD {
        let words = format!("forward --udp {address} --duration 60s --json --to {to}");
        (program.command(&words.split(' ').collect::<Vec<_>>()), "listening on ")
    } else {
        let mut socat = Command::new("socat");
        let ends = [format!("UDP4-RECV:{},bind=127.0.0.1", address.port()), format!("UDP4-SENDTO:{to}")];
        socat.args(["-d", "-d", "-u"]).args(ends).stdin(Stdio::null());
        (socat, "starting data transfer")
    };
    // The relay inherits it.
    let kept = Processor::new(there)?.keep()?;
    let (running, _) = announced(&mut command, ready)?;
    drop(kept);
    let words = format!(
        "send {address} --no-handshake --rate {FLOOD} --quantum 4 --size {BYTES} --timer spin --catch-up all --cpu {here} \
         --json --duration {}ms",
        (time + Duration::from_millis(300)).as_millis()
    );
    let sender = start(&mut program.command(&words.split(' ').collect::<Vec<_>>()))?;
    pause(Duration::from_millis(200));
    let (before, began) = (sink.drops()?, Monotonic.now());
    pause(time);
    let (after, ended) = (sink.drops()?, Monotonic.now());
    sender.object()?;
    drop(running);
    let packets = f64::from(after.wrapping_sub(before));
    Ok(packets / ended.saturating_duration_since(began).as_secs_f64())
}
