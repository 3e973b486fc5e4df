//! A bridge of two interfaces: frames that arrive at one leave by the other. Needs root, and two otherwise
//! unused interfaces without addresses:
//!
//! ```text
//! $ sudo target/release/examples/bridge eth1 eth2
//! eth1: 51,200 in, 0 dropped; eth2: 51,196 in, 0 dropped
//! ```
//!
//! It is stable under overload: excess frames are dropped at the rings, before any work is done on them, and
//! the line each second comes on time.
//!
//! Several CPUs can share the work: `bridge eth1 eth2 2` has two threads, each with its own poller.

use std::env;
use std::error::Error;
use std::thread;
use std::time::Duration;

use softtimers::{Clock, Config, Monotonic, Slack, SoftTimers, TriggerState};
use softtimers_net::packet::Interface;
use softtimers_net::poller::{PacketConfig, PacketDevice, Poller};
use softtimers_poll::{DelayBound, DelayBoundConfig, SourceConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [left, right, rest @ ..] = &arguments[..] else {
        eprintln!("usage: bridge INTERFACE INTERFACE [THREADS]; nothing was bridged");
        return Ok(());
    };
    let threads = rest.first().map_or(Ok(1), |threads| threads.parse())?;
    let config = PacketConfig { promiscuous: true, ..PacketConfig::default() };
    let open = |name: &str| {
        PacketDevice::sharded(&Interface::named(name)?, &config, threads)
            .map_err(|error| std::io::Error::new(error.kind(), format!("{name}: {error}")))
    };
    let shares = open(left)?.into_iter().zip(open(right)?);
    thread::scope(|scope| {
        let bridges: Vec<_> = shares.map(|ports| scope.spawn(|| bridge([left, right], ports))).collect();
        for bridge in bridges {
            bridge.join().map_err(|_| "a bridge ended")??;
        }
        Ok(())
    })
}

fn bridge(names: [&str; 2], ports: (PacketDevice, PacketDevice)) -> std::io::Result<()> {
    let policy = || SourceConfig::new(DelayBound::new(DelayBoundConfig::default()));
    let mut poller = Poller::new()?;
    let ports = [poller.add(ports.0, policy())?, poller.add(ports.1, policy())?];
    let mut timers = SoftTimers::new(Config::default());
    timers.schedule(Monotonic.now(), SECOND, Slack::millis(10), ());
    loop {
        let turn = timers.trigger(TriggerState::HandlerExit, Monotonic.now());
        while timers.next(&turn).is_some() {
            timers.schedule(Monotonic.now(), SECOND, Slack::millis(10), ());
            let mut report = |port| {
                let (received, drops) = (poller.source_stats(port).packets, poller.drops(port)?.total());
                Ok::<_, std::io::Error>(format!("{received} in, {drops} dropped"))
            };
            println!("{}: {}; {}: {}", names[0], report(ports[0])?, names[1], report(ports[1])?);
        }
        poller.wait(timers.poll_at(), |frame, outputs| {
            let to = if outputs.from() == ports[0] { ports[1] } else { ports[0] };
            outputs.send(to, frame.bytes, Some(frame.from));
        })?;
    }
}

const SECOND: Duration = Duration::from_secs(1);
