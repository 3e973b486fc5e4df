//! A stream between both sides: [`Connection`].

use std::task::Waker;

use crate::flow::{End, Flow, Load, Segment};

/// Both directions of a stream. Side `n` writes to flow `n` and reads from the other.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    flows: [Flow; 2],
    /// Whether each flow is in line for the path.
    in_line: [bool; 2],
    sides: [Side; 2],
}

/// One end of the stream.
#[derive(Debug, Default)]
struct Side {
    is_gone: bool,
    was_reset: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Why a stream can no longer be read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Broken {
    /// The other end was dropped, and then written to.
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

    /// Drops a side: its direction ends, and nobody reads the other, which becomes a reset if data is unread. Returns
    /// whether both sides are dropped.
    pub(super) fn leave(&mut self, side: usize) -> bool {
        self.sides[side] = Side { is_gone: true, ..Side::default() };
        let is_unread = self.flows[1 - side].has_backlog();
        self.flows[side].end(if is_unread { End::Reset } else { End::Finished });
        self.flows[1 - side].abandon();
        self.sides.iter().all(|side| side.is_gone)
    }

    /// Puts a flow in line if it has data to send and is not in line yet; returns whether it did.
    pub(super) fn joins(&mut self, flow: usize) -> bool {
        let joins = self.flows[flow].waits() && !self.in_line[flow];
        self.in_line[flow] |= joins;
        joins
    }

    pub(super) fn next_length(&self, flow: usize, most: usize) -> u32 {
        self.flows[flow].next_length(most)
    }

    /// Returns the next segment of a flow that was first in line.
    pub(super) fn next_segment(&mut self, flow: usize, most: usize) -> Option<Segment> {
        self.in_line[flow] = false;
        self.flows[flow].next_segment(most)
    }

    /// Receives a segment, perhaps a repeated one. Returns whether it is answered by a reset.
    pub(super) fn arrive(&mut self, flow: usize, segment: Segment) -> bool {
        let mut answers = false;
        let mut next = self.flows[flow].take_in(segment);
        while let Some(load) = next {
            match load {
                Load::Bytes(_) if self.sides[1 - flow].is_gone => {
                    self.flows[1 - flow].end(End::Reset);
                    answers = true;
                }
                Load::Bytes(bytes) => self.flows[flow].arrive(bytes),
                Load::End(End::Finished) => self.flows[flow].arrive_end(),
                Load::End(End::Reset) => self.reset(1 - flow),
                Load::Open => {}
                #[cfg(target_os = "linux")]
                Load::Piped(_) => {}
            }
            next = self.flows[flow].next_early();
        }
        answers
    }

    /// Tells a side that the other is gone.
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

    /// Returns the waker that waits to read a flow, if bytes or the end are there.
    pub(super) fn wake_reader(&mut self, flow: usize) -> Option<Waker> {
        let side = &mut self.sides[1 - flow];
        let ready = self.flows[flow].wants_to_write() || side.was_reset;
        if ready { side.reader.take() } else { None }
    }

    /// Returns the waker that waits to write to a flow, if there is room.
    pub(super) fn wake_writer(&mut self, flow: usize) -> Option<Waker> {
        let ready = self.flows[flow].room(WINDOW) > 0 || self.sides[flow].was_reset;
        if ready { self.sides[flow].writer.take() } else { None }
    }
}

/// The most bytes held of a flow: the limit of a stream's rate per round trip.
const WINDOW: usize = 16 << 20;
