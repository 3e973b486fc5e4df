//! Bytes that pass from one socket to the other without a copy: [`Pipes`], by splice(2).
//!
//! Where the path is a wire and no toxic looks at bytes, what a read would copy stays in the kernel: its pages move from the
//! one socket into a pipe, and take the path as one piece without contents, and from there to the other socket. A writer
//! into a closed socket would get SIGPIPE, which Rust's programs ignore.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// A pipe: bytes come out of the first end.
#[derive(Debug)]
pub(super) struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

/// The pipes of a relay: few, since one is held only while bytes of its connection are under way, and those without one copy.
#[derive(Debug)]
pub(super) struct Pipes {
    free: Vec<Pipe>,
    /// How many more may be made.
    left: u32,
}

impl Pipes {
    pub(super) fn new() -> Self {
        Pipes { free: Vec::new(), left: MOST_PIPES }
    }

    /// Moves at most `most` bytes from a socket into a pipe, and returns their number: 0 at the end of the stream. `None`
    /// if bytes are to be copied.
    pub(super) fn fill(&mut self, socket: &TcpStream, most: usize) -> Option<io::Result<(Pipe, usize)>> {
        let pipe = self.free.pop().or_else(|| self.make())?;
        match splice(socket, None, &pipe.into, None, most.clamp(1, CAPACITY), FLAGS) {
            Ok(bytes) => Some(Ok((pipe, bytes))),
            Err(error) => {
                self.free.push(pipe);
                // An error of the socket is told once: a read after it would find an end in order.
                (!matches!(error, Errno::INVAL | Errno::NOSYS | Errno::PERM)).then(|| Err(error.into()))
            }
        }
    }

    /// Takes an empty pipe back.
    pub(super) fn put_back(&mut self, pipe: Pipe) {
        self.free.push(pipe);
    }

    /// Counts a pipe that was dropped with its bytes.
    pub(super) fn forget(&mut self, number: usize) {
        self.left += number as u32;
    }

    fn make(&mut self) -> Option<Pipe> {
        let (out, into) =
            (self.left > 0).then(|| pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok())??;
        self.left -= 1;
        // Beyond a user's share the kernel refuses, and it stays shorter.
        let _ = fcntl_setpipe_size(&into, CAPACITY);
        Some(Pipe { out, into })
    }
}

impl Pipe {
    /// Moves at most `bytes` bytes to a socket.
    pub(super) fn empty_into(&self, socket: &TcpStream, bytes: usize) -> io::Result<usize> {
        Ok(splice(&self.out, None, socket, None, bytes, FLAGS)?)
    }

    /// Copies its bytes out, for who has to look at them.
    pub(super) fn copied(&self, bytes: usize) -> Box<[u8]> {
        let (mut all, mut read) = (vec![0; bytes], 0);
        while let Ok(more @ 1..) = rustix::io::read(&self.out, &mut all[read..]) {
            read += more;
        }
        all.into()
    }
}

const FLAGS: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);
/// Each takes two descriptors, of which connections leave few.
const MOST_PIPES: u32 = 16;
/// What an ordinary user may have.
const CAPACITY: usize = 1 << 20;
