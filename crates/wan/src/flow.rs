//! One direction of a connection, as a state machine: [`Flow`]. It has no socket and no clock.
//!
//! ```text
//!   read ─▶ taken: waits for room ─▶ next_chunk ─▶ (the path) ─▶ arrived ─▶ backlog: waits for the reader ─▶ write
//!           ╰──────────────────────── held: at most the window ────────────────────────╯
//! ```
//!
//! The end of the stream stays behind its last byte all the way.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Whether the opening of the connection is still to be sent, before anything else.
    opens: bool,
    /// Bytes read and not on the path yet, from `begun` on.
    taken: Vec<u8>,
    begun: usize,
    /// The end of the stream, once it was read.
    end: Option<End>,
    end_is_sent: bool,
    /// The number of bytes taken, on the path and in the backlog.
    held: usize,
    /// The numbers of the next segment to send, and of the next to arrive.
    sent: u64,
    expected: u64,
    /// Segments that arrived before one that precedes them.
    early: BTreeMap<u64, Load>,
    backlog: VecDeque<Box<[u8]>>,
    backlog_bytes: usize,
    /// The bytes already written of the backlog's first piece.
    written: usize,
    arrived_end: bool,
    /// The bytes in its pipe that are not on the path yet, and those that have arrived. They precede all others.
    piped: u32,
    arrived_piped: usize,
    /// All bytes in its pipe.
    in_pipe: usize,
    /// Whether its end has been written.
    pub(crate) is_over: bool,
}

/// The ways in which a direction ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// After its last byte.
    Finished,
    /// Immediately: bytes not on the path yet are lost.
    Reset,
}

/// What the path carries for a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Load {
    /// The connection begins.
    Open,
    /// Bytes of its stream.
    Bytes(Box<[u8]>),
    /// Bytes that stay in a pipe.
    #[cfg(target_os = "linux")]
    Piped(u32),
    /// The connection ends, in this way.
    End(End),
}

/// A piece of a stream, with its place in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    number: u64,
    /// How often it was lost.
    pub(crate) losses: u32,
    pub(crate) load: Load,
}

impl Load {
    /// Returns its size on the path in bytes.
    pub(crate) fn bytes(&self) -> u32 {
        match self {
            Load::Bytes(bytes) => bytes.len() as u32,
            #[cfg(target_os = "linux")]
            Load::Piped(bytes) => *bytes,
            Load::Open | Load::End(_) => 0,
        }
    }
}

impl Flow {
    /// Creates the direction of the side that has connected.
    pub(crate) fn opening() -> Self {
        Flow { opens: true, ..Flow::default() }
    }

    /// Returns how many bytes may be read now: none while earlier ones wait for room or for their reader.
    pub(crate) fn appetite(&self, window: usize) -> usize {
        if self.end.is_some() || self.waits() || self.unread() > window / BACKLOG_SHARE {
            return 0;
        }
        window.saturating_sub(self.held).min(MOST_TAKEN)
    }

    /// Returns how many bytes a writer may add now; it may not run again for a while.
    #[cfg(feature = "tokio")]
    pub(crate) fn room(&self, window: usize) -> usize {
        if self.end.is_some() || self.backlog_bytes > window / BACKLOG_SHARE {
            return 0;
        }
        let unsent = self.taken.len() - self.begun;
        window.saturating_sub(self.held).min(MOST_UNSENT.saturating_sub(unsent))
    }

    /// Adds bytes that were read.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        if self.begun >= MOST_UNSENT {
            self.taken.drain(..self.begun);
            self.begun = 0;
        }
        self.taken.extend_from_slice(bytes);
        self.held += bytes.len();
    }

    /// Says whether it holds nothing: then bytes may stay in a pipe.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_empty(&self) -> bool {
        self.held == 0 && !self.waits()
    }

    /// Adds bytes that stay in a pipe.
    #[cfg(target_os = "linux")]
    pub(crate) fn take_piped(&mut self, bytes: usize) {
        (self.piped, self.in_pipe) = (bytes as u32, bytes);
        self.held += bytes;
    }

    /// Receives the bytes in the pipe for its reader.
    #[cfg(target_os = "linux")]
    pub(crate) fn arrive_piped(&mut self, bytes: u32) {
        self.arrived_piped += if self.is_over { 0 } else { bytes as usize };
    }

    /// Returns how many bytes of the pipe may be written.
    #[cfg(target_os = "linux")]
    pub(crate) fn piped(&self) -> usize {
        self.arrived_piped
    }

    /// Subtracts bytes of the pipe that have been written.
    #[cfg(target_os = "linux")]
    pub(crate) fn wrote_piped(&mut self, bytes: usize) {
        self.held -= bytes;
        self.arrived_piped -= bytes;
        self.in_pipe -= bytes;
    }

    /// Says whether bytes are in its pipe.
    #[cfg(target_os = "linux")]
    pub(crate) fn has_piped(&self) -> bool {
        self.in_pipe > 0
    }

    /// Notes that the pipe's bytes were copied out.
    #[cfg(target_os = "linux")]
    pub(crate) fn empty_pipe(&mut self) {
        self.in_pipe = 0;
    }

    /// Ends the input. A reset prevails.
    pub(crate) fn end(&mut self, end: End) {
        if end == End::Reset {
            self.held -= self.taken.len() - self.begun + std::mem::take(&mut self.piped) as usize;
            self.taken.clear();
            self.begun = 0;
            self.end_is_sent &= self.end == Some(End::Reset);
        }
        if self.end != Some(End::Reset) {
            self.end = Some(end);
        }
    }

    /// Says whether data waits for room on the path.
    pub(crate) fn waits(&self) -> bool {
        self.opens
            || self.piped > 0
            || self.begun < self.taken.len()
            || (self.end.is_some() && !self.end_is_sent)
    }

    /// Returns the length of the next piece, of at most `most` bytes.
    pub(crate) fn next_length(&self, most: usize) -> u32 {
        match self.piped {
            _ if self.opens => 0,
            0 => (self.taken.len() - self.begun).min(most) as u32,
            piped => piped,
        }
    }

    /// Removes and returns the next piece for the path.
    pub(crate) fn next_segment(&mut self, most: usize) -> Option<Segment> {
        let load = self.next_load(most)?;
        self.sent += 1;
        Some(Segment { number: self.sent - 1, losses: 0, load })
    }

    /// Takes a segment from the path, perhaps a repeated one, and returns the load if it is its turn.
    pub(crate) fn take_in(&mut self, Segment { number, load, .. }: Segment) -> Option<Load> {
        match number.cmp(&self.expected) {
            Ordering::Less => return None,
            Ordering::Greater => {
                self.early.insert(number, load);
                return None;
            }
            Ordering::Equal => self.expected += 1,
        }
        Some(load)
    }

    /// Returns the next load that arrived early, if it is its turn now.
    pub(crate) fn next_early(&mut self) -> Option<Load> {
        let load = self.early.remove(&self.expected)?;
        self.expected += 1;
        Some(load)
    }

    fn next_load(&mut self, most: usize) -> Option<Load> {
        if std::mem::take(&mut self.opens) {
            return Some(Load::Open);
        }
        #[cfg(target_os = "linux")]
        if self.piped > 0 {
            return Some(Load::Piped(std::mem::take(&mut self.piped)));
        }
        let length = self.next_length(most) as usize;
        if length > 0 {
            let piece = self.taken[self.begun..][..length].into();
            self.begun += length;
            if self.begun == self.taken.len() {
                self.taken.clear();
                self.begun = 0;
            }
            return Some(Load::Bytes(piece));
        }
        let end = self.end.filter(|_| !self.end_is_sent)?;
        self.end_is_sent = true;
        Some(Load::End(end))
    }

    /// Receives a piece for its reader.
    pub(crate) fn arrive(&mut self, bytes: Box<[u8]>) {
        if self.is_over {
            return;
        }
        self.backlog_bytes += bytes.len();
        self.backlog.push_back(bytes);
    }

    /// Subtracts `bytes` of the path that will not arrive.
    #[cfg(target_os = "linux")]
    pub(crate) fn swallow(&mut self, bytes: usize) {
        self.held -= bytes;
    }

    /// Receives the end.
    pub(crate) fn arrive_end(&mut self) {
        self.arrived_end = true;
    }

    /// Says whether bytes, or the end, wait to be written.
    pub(crate) fn wants_to_write(&self) -> bool {
        self.has_backlog() || self.end_is_due()
    }

    /// Says whether bytes wait for their reader.
    #[cfg(any(target_os = "linux", feature = "tokio"))]
    pub(crate) fn has_backlog(&self) -> bool {
        self.unread() > 0
    }

    fn unread(&self) -> usize {
        self.backlog_bytes + self.arrived_piped
    }

    /// Says whether only the end is left to write.
    pub(crate) fn end_is_due(&self) -> bool {
        !self.has_backlog() && self.arrived_end && !self.is_over
    }

    /// Says whether no more bytes are accepted.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Says whether everything was handed out, and the end has arrived.
    #[cfg(feature = "tokio")]
    pub(crate) fn has_ended(&self) -> bool {
        self.backlog.is_empty() && self.arrived_end
    }

    /// Discards what arrives, because its reader is gone.
    pub(crate) fn abandon(&mut self) {
        self.backlog.clear();
        (self.backlog_bytes, self.written, self.arrived_piped, self.is_over) = (0, 0, 0, true);
    }

    /// Returns the first bytes of the backlog.
    pub(crate) fn slices(&self) -> Vec<IoSlice<'_>> {
        let mut skip = self.written;
        let slices = self.backlog.iter().take(MOST_SLICES).map(|piece| {
            let slice = IoSlice::new(&piece[skip..]);
            skip = 0;
            slice
        });
        slices.collect()
    }

    /// Subtracts `bytes` that have been written.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.held -= bytes;
        self.backlog_bytes -= bytes;
        self.written += bytes;
        while let Some(first) = self.backlog.front().filter(|first| first.len() <= self.written) {
            self.written -= first.len();
            self.backlog.pop_front();
        }
    }
}

/// The most bytes of one read. Bytes without room on the path wait here, outside the kernel.
const MOST_TAKEN: usize = 64 << 10;
/// The most bytes written and not on the path yet: more than a link of 2 Gbit/s carries in a millisecond.
const MOST_UNSENT: usize = 256 << 10;
/// The share of the window that may wait for a reader that is slower than the path.
const BACKLOG_SHARE: usize = 16;
/// The most pieces of one write.
const MOST_SLICES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// However it is divided into pieces and writes, the stream comes out complete and in order, then its end.
    #[test]
    fn bytes_keep_their_order_and_the_end_comes_last() {
        let sent: Vec<u8> = (0..200_000u32).map(|byte| ((byte * 31) >> 3) as u8).collect();
        let (mut flow, mut got, mut offset) = (Flow::default(), Vec::new(), 0);
        let window = 1 << 20;
        while !flow.is_over {
            let room = flow.appetite(window).min(sent.len() - offset).min(7_001);
            if room > 0 {
                flow.take(&sent[offset..][..room]);
                offset += room;
            } else if offset == sent.len() {
                flow.end(End::Finished);
            }
            // The path takes two pieces, and delivers them at once.
            for _ in 0..2 {
                match flow.next_load(1_448) {
                    Some(Load::Bytes(bytes)) => flow.arrive(bytes),
                    Some(Load::End(End::Finished)) => flow.arrive_end(),
                    other => assert_eq!(other, None),
                }
            }
            let joined: Vec<u8> = flow.slices().iter().flat_map(|slice| slice.to_vec()).collect();
            let write = joined.len().min(999);
            got.extend_from_slice(&joined[..write]);
            flow.wrote(write);
            flow.is_over = flow.end_is_due();
        }
        assert!(got == sent);
        assert_eq!((flow.held, flow.backlog_bytes, flow.appetite(window)), (0, 0, 0));
    }

    #[test]
    fn what_is_held_is_bounded_by_the_window() {
        let mut flow = Flow::default();
        let window = 100_000;
        let mut taken = 0;
        while flow.appetite(window) > 0 {
            let bytes = vec![0; flow.appetite(window)];
            taken += bytes.len();
            flow.take(&bytes);
            while flow.next_load(65_536).is_some() {}
        }
        assert_eq!(taken, window);
        // The limit of a reader that does not read is lower.
        let mut slow = Flow::default();
        slow.take(&vec![0; 10_000]);
        let Some(Load::Bytes(bytes)) = slow.next_load(65_536) else { panic!() };
        slow.arrive(bytes);
        assert_eq!(slow.appetite(window), 0);
        slow.wrote(10_000);
        assert!(slow.appetite(window) > 0);
    }

    #[test]
    fn a_reset_overtakes_what_was_not_on_the_path() {
        let mut flow = Flow::default();
        flow.take(&[1; 5_000]);
        assert!(matches!(flow.next_load(1_448), Some(Load::Bytes(_))));
        flow.end(End::Finished);
        flow.end(End::Reset);
        flow.end(End::Finished);
        assert_eq!(flow.next_load(1_448), Some(Load::End(End::Reset)));
        assert_eq!(flow.next_load(1_448), None);
        assert_eq!(flow.held, 1_448);
        // Also behind an end that is under way.
        let mut ended = Flow::default();
        ended.end(End::Finished);
        assert_eq!(ended.next_load(1), Some(Load::End(End::Finished)));
        ended.end(End::Reset);
        assert_eq!(ended.next_load(1), Some(Load::End(End::Reset)));
        ended.end(End::Reset);
        assert_eq!(ended.next_load(1), None);
    }
}
