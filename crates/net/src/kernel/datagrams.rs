//! Segmentation and receive offload of UDP, and busy polling.

use std::os::fd::AsFd;
use std::time::Duration;

use softtimers_linux::sockopt;

use super::Outcome;
use super::pair::Pair;
use crate::trying::Trying;

/// One send of three segments arrives as three datagrams.
pub(super) fn gso() -> Outcome {
    let pair = Pair::new()?;
    send_in_segments(&pair)?;
    let lengths: Vec<usize> =
        pair.received(3, ARRIVAL_TIME_LIMIT)?.iter().map(|&(length, _)| length).collect();
    match lengths[..] {
        [SEGMENT, SEGMENT, SEGMENT] => {
            Ok(format!("one send of {} bytes arrived as three datagrams of {SEGMENT}", 3 * SEGMENT))
        }
        _ => Err(format!("one send of {} bytes arrived as {lengths:?}", 3 * SEGMENT)),
    }
}

/// Three datagrams arrive as one, with the size of each.
pub(super) fn gro() -> Outcome {
    let pair = Pair::new()?;
    sockopt::set_coalescing(pair.receiver.as_fd(), true).trying("UDP_GRO")?;
    send_in_segments(&pair).map_err(|why| format!("UDP_GRO accepted, but nothing to join: {why}"))?;
    let received = pair.received(1, ARRIVAL_TIME_LIMIT)?;
    match received[..] {
        [(length, control)] if length == 3 * SEGMENT && control.segment == Some(SEGMENT as u32) => {
            Ok(format!("three datagrams of {SEGMENT} bytes arrived as one receive, which told their size"))
        }
        _ => {
            let lengths: Vec<usize> = received.iter().map(|&(length, _)| length).collect();
            Err(format!("accepted, but three datagrams of {SEGMENT} bytes arrived as {lengths:?}"))
        }
    }
}

/// Sets it, and checks whether there is a queue to poll.
pub(super) fn busy_poll() -> Outcome {
    let pair = Pair::new()?;
    let receiver = pair.receiver.as_fd();
    sockopt::set_busy_poll(receiver, 50)
        .needing("CAP_NET_ADMIN or net.core.busy_read", "SO_BUSY_POLL of 50 us")?;
    pair.sender.send(&[0]).trying("sending")?;
    if pair.received(1, ARRIVAL_TIME_LIMIT)?.is_empty() {
        return Err("accepted, but a datagram did not arrive".to_owned());
    }
    match sockopt::napi_id(receiver).trying("accepted, but SO_INCOMING_NAPI_ID")? {
        0 => Err("accepted, but loopback has no NAPI queue to poll, so it cannot be seen to work".to_owned()),
        queue => Ok(format!("accepted, and a datagram came from NAPI queue {queue}, which can be polled")),
    }
}

fn send_in_segments(pair: &Pair) -> Result<(), String> {
    sockopt::set_segment_size(pair.sender.as_fd(), SEGMENT as u16).trying("UDP_SEGMENT")?;
    let sent = pair.sender.send(&[0; 3 * SEGMENT]).trying("UDP_SEGMENT accepted, but a send with it")?;
    if sent == 3 * SEGMENT { Ok(()) } else { Err(format!("a send of {} bytes took {sent}", 3 * SEGMENT)) }
}

const SEGMENT: usize = 100;
/// Loopback delivers during the send; this is for a loaded machine.
const ARRIVAL_TIME_LIMIT: Duration = Duration::from_millis(100);
