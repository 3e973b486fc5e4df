//! A program in the kernel, a few instructions long.

use std::os::fd::AsFd;
use std::time::Duration;

use softtimers_linux::bpf::code::{EXIT, LOAD_WORD, SET, SKIP_IF_GREATER, op};
use softtimers_linux::bpf::{self, Program};
use softtimers_linux::sockopt;

use super::Outcome;
use super::pair::Pair;
use crate::trying::Trying;

/// A program on a socket lets the small datagram through and drops the large one.
pub(super) fn socket_filter() -> Outcome {
    // The length that it sees includes the 8 bytes of the UDP header.
    let (small, large) = (16, 64);
    let up_to_small = [
        op(LOAD_WORD, 0, 1, 0, 0), // r0 = packet.length
        op(SKIP_IF_GREATER, 0, 0, 1, small + 8),
        op(EXIT, 0, 0, 0, 0), // keep r0 bytes
        op(SET, 0, 0, 0, 0),
        op(EXIT, 0, 0, 0, 0), // keep none
    ];
    let filter = bpf::load(Program::SocketFilter, &up_to_small).needing(CAPABILITY, "a socket filter")?;
    let pair = Pair::new()?;
    sockopt::attach_filter(pair.receiver.as_fd(), filter.as_fd()).trying("attaching a socket filter")?;
    // The large one first: if it got through, it would be the first to arrive.
    for length in [large, small] {
        pair.sender.send(&vec![0; length as usize]).trying("sending")?;
    }
    let lengths: Vec<i32> =
        pair.received(1, ARRIVAL_TIME_LIMIT)?.iter().map(|&(length, _)| length as i32).collect();
    if lengths == [small] {
        Ok("a program on a socket let a datagram of 16 bytes through and dropped one of 64".to_owned())
    } else {
        Err(format!("a program on a socket was to drop a datagram of 64 bytes, and let {lengths:?} through"))
    }
}

const CAPABILITY: &str = "CAP_BPF";

/// Loopback delivers during the send; this is for a loaded machine.
const ARRIVAL_TIME_LIMIT: Duration = Duration::from_millis(100);
