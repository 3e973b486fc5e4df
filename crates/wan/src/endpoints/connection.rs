//! A stream between both sides: [`Connection`].

use std::collections::BTreeMap;
use std::task::Waker;

use crate::flow::{End, Flow, Load};

/// Both directions of a stream. The side `n` writes to flow `n` and reads from the other.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    flows: [Flow; 2],
    /// Each flow stands in line for the path, or does not.
    in_line: [bool; 2],
    /// The number of each flow's next segment, to be sent and to be read.
    sent: [u64; 2],
    expected: [u64; 2],
    /// Segments that have come before one that they follow.
    early: [BTreeMap<u64, Load>; 2],
    sides: [Side; 2],
}

/// One of its ends.
#[derive(Debug, Default)]
struct Side {
    is_gone: bool,
    was_reset: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Why nothing can be read or written any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Broken {
    /// The other end is gone, and was written to.
    Reset,
    /// This end has ended its direction.
    Closed,
}

impl Connection {
    pub(super) fn take(&mut self, flow: usize, bytes: &[u8]) -> Result<usize, Broken> {
        if self.sides[flow].was_reset {
            return Err(Broken::Reset);
        }
        if self.flows[flow].is_ended() {
            return Err(Broken::Closed);
        }
        let taken = self.flows[flow].room(WINDOW).min(bytes.len());
        self.flows[flow].take(&bytes[..taken]);
        Ok(taken)
    }

    pub(super) fn read(&mut self, flow: usize, into: &mut [u8]) -> Result<Option<usize>, Broken> {
        let source = &mut self.flows[flow];
        let mut copied = 0;
        for slice in source.slices() {
            let part = slice.len().min(into.len() - copied);
            into[copied..][..part].copy_from_slice(&slice[..part]);
            copied += part;
        }
        if copied > 0 || into.is_empty() {
            source.wrote(copied);
            return Ok(Some(copied));
        }
        if source.has_ended() {
            return Ok(Some(0));
        }
        if self.sides[1 - flow].was_reset { Err(Broken::Reset) } else { Ok(None) }
    }

    /// Ends a direction, after its last byte.
    pub(super) fn finish(&mut self, flow: usize) -> Result<(), Broken> {
        if self.sides[flow].was_reset {
            return Err(Broken::Reset);
        }
        self.flows[flow].end(End::Finished);
        Ok(())
    }

    /// A side is gone: its direction ends, and nobody reads the other. What it has not read makes that a reset. Says whether both
    /// are gone.
    pub(super) fn leave(&mut self, side: usize) -> bool {
        self.sides[side] = Side { is_gone: true, ..Side::default() };
        let is_unread = self.flows[1 - side].has_backlog();
        self.flows[side].end(if is_unread { End::Reset } else { End::Finished });
        self.flows[1 - side].abandon();
        self.sides.iter().all(|side| side.is_gone)
    }

    /// Says whether a flow has something to send and does not stand in line yet; then it does.
    pub(super) fn joins(&mut self, flow: usize) -> bool {
        let joins = self.flows[flow].waits() && !self.in_line[flow];
        self.in_line[flow] |= joins;
        joins
    }

    pub(super) fn next_length(&self, flow: usize, most: usize) -> u32 {
        self.flows[flow].next_length(most)
    }

    /// The next segment of a flow that was first in line.
    pub(super) fn next_load(&mut self, flow: usize, most: usize) -> Option<(u64, Load)> {
        self.in_line[flow] = false;
        let load = self.flows[flow].next_load(most)?;
        self.sent[flow] += 1;
        Some((self.sent[flow] - 1, load))
    }

    /// A segment has come, perhaps again. Says whether it is answered by a reset.
    pub(super) fn arrive(&mut self, flow: usize, number: u64, load: Load) -> bool {
        if number < self.expected[flow] {
            return false;
        }
        self.early[flow].insert(number, load);
        let mut answers = false;
        while let Some(load) = self.early[flow].remove(&self.expected[flow]) {
            self.expected[flow] += 1;
            match load {
                Load::Bytes(_) if self.sides[1 - flow].is_gone => {
                    self.flows[1 - flow].end(End::Reset);
                    answers = true;
                }
                Load::Bytes(bytes) => self.flows[flow].arrive(bytes),
                Load::End(End::Finished) => self.flows[flow].arrive_end(),
                Load::End(End::Reset) => self.reset(1 - flow),
                Load::Open => {}
            }
        }
        answers
    }

    /// A side has heard that the other is gone.
    fn reset(&mut self, side: usize) {
        self.sides[side].was_reset = true;
        self.flows[side].end(End::Finished);
    }

    pub(crate) fn wait_to_read(&mut self, side: usize, waker: &Waker) {
        self.sides[side].reader = Some(waker.clone());
    }

    pub(crate) fn wait_to_write(&mut self, side: usize, waker: &Waker) {
        self.sides[side].writer = Some(waker.clone());
    }

    /// Who waits for bytes of a flow, if there are some, or the end.
    pub(super) fn wake_reader(&mut self, flow: usize) -> Option<Waker> {
        let side = &mut self.sides[1 - flow];
        let ready = self.flows[flow].wants_to_write() || side.was_reset;
        if ready { side.reader.take() } else { None }
    }

    /// Who waits to write to a flow, if there is room.
    pub(super) fn wake_writer(&mut self, flow: usize) -> Option<Waker> {
        let ready = self.flows[flow].room(WINDOW) > 0 || self.sides[flow].was_reset;
        if ready { self.sides[flow].writer.take() } else { None }
    }
}

/// The bytes of a flow that are held: no stream is faster than that in a round trip.
const WINDOW: usize = 16 << 20;
