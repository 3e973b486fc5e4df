//! Packets that the kernel holds until their release times.
//!
//! The receive timestamp shows whether a packet was held, so that a probe's own lateness does not count.

use std::os::fd::AsFd;
use std::time::Duration;

use softtimers::{Monotonic, RealtimeOffset};
use softtimers_core::{Clock, Timestamp};
use softtimers_linux::sendmmsg::SendBuffers;
use softtimers_linux::sockopt;

use super::pair::Pair;
use super::{Outcome, duration_text};
use crate::rtnetlink::{self, LOOPBACK};
use crate::trying::Trying;

/// Sends a packet with a release time, and checks when it leaves: in the present configuration, and in a
/// network whose loopback has the queue that keeps release times.
pub(super) fn so_txtime() -> Outcome {
    let held_for = held_by_release_time()?;
    if held_for >= AHEAD {
        return Ok(format!("a packet {AHEAD_SHOWN} ahead left after {}", duration_text(held_for)));
    }
    let ignored = format!(
        "setsockopt accepted, but a packet {AHEAD_SHOWN} ahead left after {}",
        duration_text(held_for)
    );
    let keepers = rtnetlink::interfaces_with(&["fq", "etf"]).unwrap_or_default();
    let in_own_network = rtnetlink::enter_empty_network()
        .and_then(|()| rtnetlink::add_queue(LOOPBACK, "fq", &[]))
        .and_then(|()| held_by_release_time());
    match (in_own_network, &keepers[..]) {
        (Ok(held_for), []) if held_for >= AHEAD => {
            Err(format!("{ignored}: fq keeps release times here, but no interface has it"))
        }
        (Ok(held_for), keepers) if held_for >= AHEAD => {
            let keepers = keepers.join(", ");
            Ok(format!("by {keepers}: a queue as there, tried on its own, held a packet {AHEAD_SHOWN}"))
        }
        (Ok(_), _) => Err(format!("{ignored}, and so it did with fq")),
        (Err(why), []) => Err(format!("{ignored}: no interface has fq ({why})")),
        (Err(why), keepers) => {
            Err(format!("{ignored}; {} has fq, but it cannot be tried: {why}", keepers.join(", ")))
        }
    }
}

fn held_by_release_time() -> Result<Duration, String> {
    held(|pair| {
        sockopt::enable_release_times(pair.sender.as_fd()).trying("SO_TXTIME")?;
        let mut buffers = SendBuffers::new(1, 1);
        buffers.push(&[0], None, Some(Monotonic.now() + AHEAD));
        let sent = buffers.send(pair.sender.as_fd(), 1, false).map_err(|refused| refused.error);
        sent.trying("SO_TXTIME accepted, but a send with it").map(drop)
    })
}

/// Returns the transit time of a packet sent by `send`: the shortest of a few, because it is longer if the
/// probe loses its CPU in between.
fn held(send: impl Fn(&Pair) -> Result<(), String>) -> Result<Duration, String> {
    let mut shortest = Duration::MAX;
    for _ in 0..TIMES {
        shortest = shortest.min(held_once(&send)?);
        if shortest < AHEAD {
            break;
        }
    }
    Ok(shortest)
}

fn held_once(send: impl Fn(&Pair) -> Result<(), String>) -> Result<Duration, String> {
    let pair = Pair::new()?;
    sockopt::set_timestamps(pair.receiver.as_fd(), true).trying("receive timestamps")?;
    let realtime = RealtimeOffset::sample();
    let before: Timestamp = Monotonic.now();
    send(&pair)?;
    match pair.received(1, ARRIVAL_TIME_LIMIT)?.first() {
        Some((_, control)) => {
            let received = control.received.ok_or("a packet came without a receive timestamp")?;
            Ok(realtime.monotonic(received).saturating_duration_since(before))
        }
        None => Err("a packet did not arrive within 100 ms".to_owned()),
    }
}

/// Far more than loopback takes, even when the probe has to wait for a CPU.
const AHEAD: Duration = Duration::from_millis(5);
const AHEAD_SHOWN: &str = "5 ms";
const TIMES: u32 = 3;
/// For packets that were held, on a loaded machine.
const ARRIVAL_TIME_LIMIT: Duration = Duration::from_millis(100);
