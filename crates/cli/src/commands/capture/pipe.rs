//! Writing blocks to a reader that may stop: [`Pipe`].
//!
//! A write to a full pipe blocks until the reader reads, and meanwhile no signal and no time-out would end the run. So
//! each write first waits for room, together with the signals, and is no longer than the room that is certain:
//!
//! ```text
//!   blocks ─▶ room? ── yes ─▶ write, 4 KiB at most, whole blocks ─┐
//!     ▲        │ no, and the run is over: one more second for     │
//!     │        ▼ a slow reader                                    │
//!     │      gives up and reports the unwritten bytes             │
//!     └───────────────────────────────────────────────────────────┘
//! ```
//!
//! `O_NONBLOCK` would be simpler, but must not be set: it belongs to the open file description, which stdout shares
//! with the shell and other programs started by it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_measure::interrupt::Interrupt;

use super::pcapng;

/// How long to wait for a reader: without limit while the run lasts, and after that as long as it reads.
#[derive(Debug)]
pub(crate) struct Patience {
    interrupt: Interrupt,
    until: Option<Timestamp>,
}

/// A pipe with a reader, or a device.
#[derive(Debug)]
pub(crate) struct Pipe {
    to: OwnedFd,
    patience: Arc<Patience>,
    /// The most bytes of one write, at least one block: a file always has room.
    longest: usize,
}

/// Why not everything was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trouble {
    /// The reader is gone.
    Gone,
    /// The run is over, and the reader has stopped.
    Stalled,
    /// An error of the system.
    System(Errno),
}

impl Patience {
    /// Creates it for a run that ends by `interrupt` or at this time.
    pub(crate) fn new(interrupt: Interrupt, until: Option<Timestamp>) -> Self {
        Patience { interrupt, until }
    }

    /// Waits for this long at most, or until the run is over; returns `false` if it was over already.
    ///
    /// # Errors
    /// None with a working kernel.
    pub(crate) fn goes_on(&self, wait: Duration) -> io::Result<bool> {
        let left = self.left(Monotonic.now());
        if left == Some(Duration::ZERO) {
            return Ok(false);
        }
        let wait = left.map_or(wait, |left| left.min(wait)).try_into().map_err(|_| Errno::INVAL)?;
        match poll(&mut [PollFd::new(&self.interrupt, PollFlags::IN)], Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the remaining time of the run; `None` if it has no end.
    fn left(&self, now: Timestamp) -> Option<Duration> {
        if self.interrupt.arrived() {
            return Some(Duration::ZERO);
        }
        self.until.map(|until| until.saturating_duration_since(now))
    }

    /// Waits until `to` has room or no reader; returns `false` if the run is over and this has taken [`GRACE`].
    fn waits_for(&self, to: &OwnedFd) -> Result<bool, Errno> {
        loop {
            let left = self.left(Monotonic.now());
            let over = left == Some(Duration::ZERO);
            let wait = if over { Some(GRACE) } else { left };
            let wait = wait.map(|wait| wait.try_into().map_err(|_| Errno::INVAL)).transpose()?;
            let mut waited = [PollFd::new(to, PollFlags::OUT), PollFd::new(&self.interrupt, PollFlags::IN)];
            // A signal that has arrived stays readable for ever.
            let waited = if over { &mut waited[..1] } else { &mut waited[..] };
            match poll(waited, wait.as_ref()) {
                Ok(_) if !waited[0].revents().is_empty() => return Ok(true),
                Ok(0) if over => return Ok(false),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Pipe {
    /// Writes to this descriptor without changing its flags.
    ///
    /// # Errors
    /// None with a working kernel.
    pub(crate) fn new(to: OwnedFd, patience: Arc<Patience>) -> io::Result<Self> {
        let is_file = FileType::from_raw_mode(fstat(&to)?.st_mode) == FileType::RegularFile;
        Ok(Pipe { to, patience, longest: if is_file { usize::MAX } else { PIPE_BUF } })
    }

    /// Writes these blocks.
    ///
    /// # Errors
    /// The number of bytes written, and why no more. These are whole blocks, unless a block is longer than 4 KiB.
    pub(crate) fn write(&self, blocks: &[u8]) -> Result<(), (usize, Trouble)> {
        let mut written = 0;
        while written < blocks.len() {
            let rest = &blocks[written..];
            let (whole, _) = pcapng::whole_blocks(rest, self.longest);
            // A longer block is written in parts.
            let end = if whole > 0 { whole } else { pcapng::first_block(rest) };
            let end = written + end.clamp(1, rest.len());
            while written < end {
                let some = &blocks[written..end.min(written.saturating_add(self.longest))];
                written += self.put(some).map_err(|trouble| (written, trouble))?;
            }
        }
        Ok(())
    }

    /// Writes a part.
    fn put(&self, bytes: &[u8]) -> Result<usize, Trouble> {
        if !self.patience.waits_for(&self.to).map_err(Trouble::System)? {
            return Err(Trouble::Stalled);
        }
        match rustix::io::write(&self.to, bytes) {
            Ok(some) => Ok(some),
            // Another process has set the flag, or has used up the room.
            Err(Errno::INTR | Errno::AGAIN) => Ok(0),
            Err(Errno::PIPE) => Err(Trouble::Gone),
            Err(error) => Err(Trouble::System(error)),
        }
    }
}

/// How long a reader may pause after the end of the run; the user is told.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// The room that a pipe has if it has any (on Linux, a free page).
const PIPE_BUF: usize = 4_096;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use super::*;

    fn pipe() -> (File, OwnedFd) {
        let (reader, writer) = io::pipe().unwrap();
        (File::from(OwnedFd::from(reader)), OwnedFd::from(writer))
    }

    fn patience(interrupt: Interrupt, until: Option<Timestamp>) -> Arc<Patience> {
        Arc::new(Patience::new(interrupt, until))
    }

    /// Packets, some of them longer than a write.
    fn blocks(packets: usize) -> Vec<u8> {
        let mut blocks = Vec::new();
        (0..packets).for_each(|n| {
            pcapng::packet(&mut blocks, &pcapng::Stamp::default(), &vec![n as u8; n * 911 % 9_001]);
        });
        blocks
    }

    #[test]
    fn all_comes_to_who_reads_also_when_the_run_is_over() {
        let (mut reader, writer) = pipe();
        let interrupt = Interrupt::deaf().unwrap();
        interrupt.stop_handle().unwrap().end();
        let expected = blocks(200);
        let read = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let pipe = Pipe::new(writer, patience(interrupt, None)).unwrap();
        assert_eq!(pipe.write(&expected), Ok(()));
        drop(pipe);
        assert_eq!(read.join().unwrap(), expected);
    }

    /// By a signal during the write, or by its time.
    #[test]
    fn who_does_not_read_cannot_hold_the_run() {
        for until in [None, Some(Monotonic.now() + Duration::from_millis(50))] {
            let (mut reader, writer) = pipe();
            let interrupt = Interrupt::deaf().unwrap();
            let stop = interrupt.stop_handle().unwrap();
            let pipe = Pipe::new(writer, patience(interrupt, until)).unwrap();
            let (mut sent, stamp) = (Vec::new(), pcapng::Stamp::default());
            (0..2_000).for_each(|n| pcapng::packet(&mut sent, &stamp, &[n as u8; 100]));
            let ended = std::thread::spawn(move || {
                std::thread::park_timeout(Duration::from_millis(50));
                until.is_none().then(|| stop.end());
            });
            let (written, trouble) = pipe.write(&sent).unwrap_err();
            ended.join().unwrap();
            drop(pipe);
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            assert_eq!((bytes.len(), trouble), (written, Trouble::Stalled));
            assert_eq!(pcapng::whole_blocks(&sent, written).0, written, "whole blocks");
            assert!(written > 0, "as many as there is room for");
        }
    }

    #[test]
    fn who_has_gone_is_told_from_who_waits() {
        let (reader, writer) = pipe();
        drop(reader);
        let pipe = Pipe::new(writer, patience(Interrupt::deaf().unwrap(), None)).unwrap();
        assert_eq!(pipe.write(&blocks(1)), Err((0, Trouble::Gone)));
        let full = OwnedFd::from(File::options().write(true).open("/dev/full").unwrap());
        let full = Pipe::new(full, patience(Interrupt::deaf().unwrap(), None)).unwrap();
        assert_eq!(full.write(&blocks(1)), Err((0, Trouble::System(Errno::NOSPC))));
    }
}
