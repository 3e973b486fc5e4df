//! Programs in the kernel, each a few instructions long.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::network::Pair;
use super::{Outcome, Trying};
use crate::sys::bpf::{self, Counter, Instruction, Program, SocketMap};
use crate::sys::sockopt;

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
    let lengths: Vec<i32> = pair.received(1, PATIENCE)?.iter().map(|&(length, _)| length as i32).collect();
    if lengths == [small] {
        Ok("a program on a socket let a datagram of 16 bytes through and dropped one of 64".to_owned())
    } else {
        Err(format!("a program on a socket was to drop a datagram of 64 bytes, and let {lengths:?} through"))
    }
}

/// A program that gives an AF_XDP socket all that the first queue of an interface receives.
pub(super) struct Redirect {
    _link: OwnedFd,
}

impl Redirect {
    pub(super) fn to(socket: BorrowedFd<'_>, interface: u32) -> Result<Self, String> {
        let map = SocketMap::new().needing(CAPABILITY, "a map")?;
        map.set(socket).trying("a map of sockets")?;
        let program = [
            op(SET_LONG, 1, MAP, 0, map.as_raw_fd()), // r1 = map
            op(0, 0, 0, 0, 0),                        // (its second half)
            op(SET, 2, 0, 0, 0),                      // r2 = its first entry
            op(SET, 3, 0, 0, XDP_PASS),               // r3 = what to do if that is empty
            op(CALL, 0, 0, 0, REDIRECT_MAP),
            op(EXIT, 0, 0, 0, 0),
        ];
        let program = bpf::load(Program::Xdp, &program).needing(CAPABILITY, "an XDP program")?;
        let link = bpf::attach_to_interface(interface, program.as_fd()).trying("attaching an XDP program")?;
        Ok(Self { _link: link })
    }
}

/// A program that counts how often a tracepoint is passed, on all processors.
pub(super) struct Passes {
    counter: Counter,
    _link: OwnedFd,
}

impl Passes {
    pub(super) fn of(tracepoint: &CStr) -> Result<Self, String> {
        let counter = Counter::new().needing(CAPABILITY, "a map")?;
        let count = [
            op(SET_LONG, 1, MAP_VALUE, 0, counter.as_raw_fd()), // r1 = &counter
            op(0, 0, 0, 0, 0),                                  // (its second half)
            op(SET, 2, 0, 0, 1),
            op(ADD_ATOMICALLY, 1, 2, 0, 0), // *r1 += 1
            op(SET, 0, 0, 0, 0),
            op(EXIT, 0, 0, 0, 0),
        ];
        let program = bpf::load(Program::RawTracepoint, &count)
            .needing("CAP_BPF and CAP_PERFMON", "a tracepoint program")?;
        let what = format!("the tracepoint {}", tracepoint.to_string_lossy());
        let link = bpf::attach_to_tracepoint(tracepoint, program.as_fd()).trying(&what)?;
        Ok(Self { counter, _link: link })
    }

    pub(super) fn count(&self) -> Result<u64, String> {
        self.counter.value().trying("reading a counter")
    }
}

const fn op(operation: u8, to: u8, from: u8, offset: i16, constant: i32) -> Instruction {
    Instruction::new(operation, to, from, offset, constant)
}

const CAPABILITY: &str = "CAP_BPF";

const LOAD_WORD: u8 = 0x61;
const SKIP_IF_GREATER: u8 = 0x25;
const SET: u8 = 0xb7;
const SET_LONG: u8 = 0x18;
const ADD_ATOMICALLY: u8 = 0xdb;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// What the constant of [`SET_LONG`] stands for: a map, or the value of its first entry.
const MAP: u8 = 1;
const MAP_VALUE: u8 = 2;
/// The number of the function that redirects.
const REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;

/// Loopback delivers during the send; this is for a loaded machine.
const PATIENCE: Duration = Duration::from_millis(100);
