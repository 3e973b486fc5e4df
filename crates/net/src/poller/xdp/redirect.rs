//! The program that redirects an interface's frames to AF_XDP sockets.
//!
//! ```text
//!   a frame ──▶ the socket of its queue ── none ──▶ dropped, counted
//!                    └──▶ there; what it has no room for, it counts itself
//! ```
//!
//! No frame reaches this machine's own stack, which would answer, or forward a frame a second time. The
//! program is attached by a link that ends with its descriptor, so it ends with the process in any case; an
//! existing program is not replaced.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use softtimers_linux::bpf::code::{
    ADD_ATOMICALLY, CALL, COPY, Code, EXIT, LOAD_WORD, MAP, MAP_VALUE, REDIRECT_MAP, SET, SKIP_IF_EQUAL,
    XDP_DROP, XDP_REDIRECT,
};
use softtimers_linux::bpf::{self, Hook, Instruction, Program, SharedWords, SocketMap};

use crate::rtnetlink;
use crate::trying::named;

/// Such a program, at an interface.
#[derive(Debug)]
pub(super) struct Redirect {
    /// Devices on several threads may share it.
    dropped: Mutex<SharedWords>,
    in_driver: bool,
    _link: OwnedFd,
}

impl Redirect {
    /// Refuses an interface where another program is attached.
    pub(super) fn check(interface: u32, name: &str) -> io::Result<()> {
        match rtnetlink::xdp_program(interface)? {
            Some(program) => Err(occupied(name, Some(program))),
            None => Ok(()),
        }
    }

    /// To `sockets`, one for each queue.
    pub(super) fn attach(interface: u32, name: &str, sockets: &[BorrowedFd<'_>]) -> io::Result<Self> {
        let trying =
            |error, what: &str| named(error, &format_args!("{name}: {what}"), "CAP_BPF and CAP_NET_ADMIN");
        let map = SocketMap::new(sockets.len() as u32).map_err(|error| trying(error, "a map of sockets"))?;
        for (queue, &socket) in sockets.iter().enumerate() {
            map.set(queue as u32, socket).map_err(|error| trying(error, "a map of sockets"))?;
        }
        let dropped = SharedWords::new(1).map_err(|error| trying(error, "a map of words"))?;
        let code = program(map.as_raw_fd(), dropped.as_raw_fd());
        let program =
            bpf::load(Program::Xdp, &code).map_err(|error| trying(error, "loading an XDP program"))?;
        let attach = |hook| bpf::attach_to_interface(interface, program.as_fd(), hook);
        let (link, in_driver) = match attach(Hook::Driver) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP) => {
                (attach(Hook::Generic), false)
            }
            link => (link, true),
        };
        let link = link.map_err(|error| match Errno::from_io_error(&error) {
            // Attached since the check.
            Some(Errno::BUSY | Errno::EXIST) => {
                occupied(name, rtnetlink::xdp_program(interface).ok().flatten())
            }
            // For virtual cables: the driver reports its requirement only by an error number.
            Some(Errno::RANGE) => trying(error, "attaching an XDP program: the other end's MTU is too large"),
            Some(Errno::NOSPC) => trying(
                error,
                "attaching an XDP program: the other end sends by more queues than this one has",
            ),
            _ => trying(error, "attaching an XDP program"),
        })?;
        Ok(Redirect { dropped: Mutex::new(dropped), in_driver, _link: link })
    }

    /// Returns whether the interface's driver runs the program, rather than the generic kernel code.
    pub(super) fn is_in_driver(&self) -> bool {
        self.in_driver
    }

    /// Frames that it has dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).get(0)
    }
}

fn program(sockets: RawFd, words: RawFd) -> Vec<Instruction> {
    let mut code = Code::default();
    code.op(COPY, 6, 1, 0, 0) // r6 = the frame's context
        .load_map(7, MAP_VALUE, words) // r7 = &words
        .load_map(1, MAP, sockets)
        .op(LOAD_WORD, 2, 6, RX_QUEUE_INDEX, 0)
        .op(SET, 3, 0, 0, XDP_DROP) // the result if there is no socket
        .op(CALL, 0, 0, 0, REDIRECT_MAP)
        .jump(SKIP_IF_EQUAL, 0, 0, XDP_REDIRECT, "end")
        .op(SET, 1, 0, 0, 1)
        .op(ADD_ATOMICALLY, 7, 1, 0, 0)
        .op(SET, 0, 0, 0, XDP_DROP)
        .label("end")
        .op(EXIT, 0, 0, 0, 0);
    code.finish()
}

/// Another program is there.
fn occupied(name: &str, program: Option<u32>) -> io::Error {
    let whose = match program.map(|number| (number, bpf::name_of(number).unwrap_or_default())) {
        Some((number, program)) if program.is_empty() => format!(" (without a name, number {number})"),
        Some((number, program)) => format!(" ({program}, number {number})"),
        None => String::new(),
    };
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        format!("{name}: another XDP program is attached{whose}, and stays; detach it first"),
    )
}

/// The offset of the queue's number in `struct xdp_md`.
const RX_QUEUE_INDEX: i16 = 16;
