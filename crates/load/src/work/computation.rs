//! Work without system calls: integer arithmetic in pieces, a trigger state after each.

use softtimers::{Clock, Monotonic, Timestamp, WebServer};

/// Integer work in pieces of a few microseconds, or in pieces that end when a web server of the papers would have met
/// its next trigger state.
///
/// ```text
///   even   │ 3 µs │ 3 µs │ 3 µs │ 3 µs │ 3 µs │
///   web    │ 14 µs        │ 9 µs    │ 83 µs …          sending in between is part of an interval
/// ```
#[derive(Debug)]
pub(crate) struct Computation {
    state: u64,
    steps: u64,
    web: Option<Web>,
}

/// Pieces whose lengths are the intervals of a web server.
#[derive(Debug)]
struct Web {
    intervals: WebServer,
    /// The last trigger state, if the loop has not been away since.
    last: Option<Timestamp>,
}

impl Computation {
    /// Creates pieces of about 3 µs.
    pub(super) fn even() -> Self {
        Computation { state: 1, steps: 0, web: None }
    }

    /// Creates pieces as long as the intervals between the trigger states of a [`WebServer`]; always the same ones.
    pub(super) fn web() -> Self {
        Computation { web: Some(Web { intervals: WebServer::new(SEED), last: None }), ..Computation::even() }
    }

    #[inline]
    pub(super) fn piece(&mut self) {
        if self.web.is_some() {
            self.piece_of_web();
        } else {
            self.compute(PIECE);
        }
    }

    /// Computes until the end of the interval that began with the last piece's end.
    fn piece_of_web(&mut self) {
        let mut now = Monotonic.now();
        let Some(web) = &mut self.web else { return };
        let gap = web.intervals.next().unwrap_or_default();
        // If the loop was away for longer, the interval is over; it is not made up later.
        let end = web.last.map_or(now, |last| last.max(now.saturating_sub(gap))) + gap;
        while now < end {
            self.compute(STEP);
            now = Monotonic.now();
        }
        if let Some(web) = &mut self.web {
            web.last = Some(now);
        }
    }

    fn compute(&mut self, steps: u32) {
        for _ in 0..steps {
            self.state =
                self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).rotate_left(23) ^ 0x1405_7b7e_f767_814f;
        }
        self.state = std::hint::black_box(self.state);
        self.steps += u64::from(steps);
    }

    /// Returns the amount computed so far, in pieces of the even kind.
    pub(super) fn pieces(&self) -> u64 {
        self.steps / u64::from(PIECE)
    }
}

/// About 3 µs on a current core: the length of a small handler.
const PIECE: u32 = 3_000;
/// The work between two checks for the end of a piece: a few hundred nanoseconds.
const STEP: u32 = 200;
const SEED: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// However slow a machine is, no interval is shorter than drawn, except one for which the loop was away.
    #[test]
    fn a_piece_of_the_web_servers_ends_with_its_interval() {
        let mut computation = Computation::web();
        let drawn: Vec<_> = WebServer::new(SEED).take(50).collect();
        let mut last = None;
        for gap in drawn {
            computation.piece();
            let end = computation.web.as_ref().unwrap().last.unwrap();
            if let Some(last) = last.replace(end) {
                assert!(end.saturating_duration_since(last) >= gap, "{gap:?}");
            }
        }
        assert!(computation.pieces() > 0);
    }

    #[test]
    fn even_pieces_are_counted() {
        let mut computation = Computation::even();
        (0..5).for_each(|_| computation.piece());
        assert_eq!(computation.pieces(), 5);
    }
}
