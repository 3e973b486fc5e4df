//! Segments of streams that the path has lost, until they are sent again: [`Repairs`].
//!
//! A transport notices a loss a round trip later, and waits twice as long each further time (RFC 6298). So on a stream a
//! loss is a stall; no byte is missing.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use softtimers_core::Timestamp;

use crate::flow::Segment;

/// The lost segments of one direction, each with its stream.
#[derive(Debug)]
pub(crate) struct Repairs<K> {
    /// By the time of their retransmission.
    lost: BTreeMap<(Timestamp, u64), (K, Segment)>,
    /// Those whose time has come.
    again: VecDeque<(K, Segment)>,
    /// The number of losses so far, which breaks ties.
    losses: u64,
    /// The number of retransmissions.
    pub(crate) resent: u64,
}

impl<K> Default for Repairs<K> {
    fn default() -> Self {
        Repairs { lost: BTreeMap::new(), again: VecDeque::new(), losses: 0, resent: 0 }
    }
}

impl<K> Repairs<K> {
    /// Schedules the retransmission of a segment that left the link at `left` and did not arrive, by the round trip.
    pub(crate) fn add(&mut self, left: Timestamp, trip: Duration, stream: K, mut segment: Segment) {
        let wait =
            trip.max(SHORTEST).saturating_mul(1 << segment.losses.min(20)).min(LONGEST_REPAIR.max(trip));
        segment.losses += 1;
        self.losses += 1;
        self.lost.insert((left + wait, self.losses), (stream, segment));
    }

    /// Returns when the next retransmission is due.
    pub(crate) fn poll_at(&self) -> Option<Timestamp> {
        self.lost.first_key_value().map(|((at, _), _)| *at)
    }

    /// Says whether segments that are due wait for room.
    pub(crate) fn waits(&self) -> bool {
        !self.again.is_empty()
    }

    /// Returns the next segment that is due, if there is room for its bytes.
    pub(crate) fn pop_due(
        &mut self,
        now: Timestamp,
        has_room: impl FnOnce(u32) -> bool,
    ) -> Option<(K, Segment)> {
        while let Some(first) = self.lost.first_entry().filter(|first| first.key().0 <= now) {
            self.again.push_back(first.remove());
        }
        self.again.front().filter(|(_, segment)| has_room(segment.load.bytes()))?;
        self.resent += 1;
        self.again.pop_front()
    }
}

/// The shortest time after which a loss is noticed.
const SHORTEST: Duration = Duration::from_millis(1);
/// The longest time between two retransmissions (RFC 6298, section 2.5).
const LONGEST_REPAIR: Duration = Duration::from_secs(60);
