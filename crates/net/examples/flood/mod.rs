//! Used by both flooded servers: the flood, and a timer each 20 ms that it must not starve.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use softtimers::{Clock, Config, Monotonic, Slack, SoftTimers, Timestamp, TriggerState};
use softtimers_net::udp::{SendBatch, UdpSocket};

/// The timer's period.
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// The timer that must not be starved.
pub(crate) struct Ticks(SoftTimers<()>);

impl Ticks {
    pub(crate) fn new() -> Self {
        let mut timers = SoftTimers::new(Config::default());
        timers.schedule(Monotonic.now(), TICK, Slack::EXACT, ());
        Ticks(timers)
    }

    /// Fires the timer if due. Each multiple of 20 ms counts once; a missed one is lost.
    pub(crate) fn fire(&mut self) -> u64 {
        let now = Monotonic.now();
        let turn = self.0.trigger(TriggerState::HandlerExit, now);
        let mut fired = 0;
        while let Some(event) = self.0.next(&turn) {
            let late = event.lateness.as_nanos() / TICK.as_nanos();
            let next = event.due + TICK * (late as u32 + 1);
            self.0.schedule_at(now, next, Slack::EXACT, ());
            fired += 1;
        }
        fired
    }

    /// Returns when to check the timer.
    pub(crate) fn poll_at(&self) -> Option<Timestamp> {
        self.0.poll_at()
    }
}

/// Sends as many datagrams as this machine can, until told to stop.
pub(crate) fn flood(address: SocketAddr, stop: &AtomicBool) -> u64 {
    let send = || -> io::Result<u64> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(address)?;
        let (mut batch, mut sent) = (SendBatch::new(64, 64), 0);
        while !stop.load(Ordering::Relaxed) {
            while batch.push(&[7; 64], None).is_ok() {}
            sent += socket.send_batch(&mut batch).sent as u64;
        }
        Ok(sent)
    };
    send().unwrap_or(0)
}
