//! How often a flow fell behind, and how long it took to recover: [`CatchUps`].
//!
//! ```text
//!   scheduled  │1    │2    │3    │4    │5    │6
//!   sent       ●1────── stall ─────────●2  ●3  ●4  ●5 ─── ●6
//!                                      └─ a catch-up ─┘ ends with the first that leaves before the next is late
//! ```

use std::ops::AddAssign;
use std::time::Duration;

use serde::Serialize;
use softtimers_core::{RateClock, Timestamp};
use softtimers_linux::signal_timer::Departure;

use crate::traffic::nanos;

/// Catch-ups of one flow, counted: the `catch_up` object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CatchUps {
    /// Times that the flow fell behind by an interval or more; 0 with several flows, for which this is not tracked.
    pub spells: u64,
    /// Datagrams that left an interval late or more.
    pub packets: u64,
    /// Those of them that left in a train: less than a burst interval after the one before.
    pub in_trains: u64,
    /// The longest time that the flow took to be on schedule again.
    pub longest_ns: u64,
}

impl AddAssign<&CatchUps> for CatchUps {
    fn add_assign(&mut self, next: &Self) {
        self.spells += next.spells;
        self.packets += next.packets;
        self.in_trains += next.in_trains;
        self.longest_ns = self.longest_ns.max(next.longest_ns);
    }
}

/// Follows one flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct CatchingUp {
    interval: Duration,
    burst_interval: Duration,
    began: Option<Timestamp>,
    last: Option<Timestamp>,
}

impl CatchingUp {
    /// Follows the flow of this clock.
    pub(super) fn along(clock: &RateClock) -> Self {
        // Without trains, or along a recording, a gap below the burst interval is the schedule's own.
        let has_trains = clock.recovery().train > 1 && clock.length().is_none();
        let burst_interval = if has_trains { clock.burst_interval() } else { Duration::ZERO };
        CatchingUp { interval: clock.rate().interval(), burst_interval, began: None, last: None }
    }

    /// Counts a departure.
    #[inline]
    pub(super) fn left(&mut self, found: &mut CatchUps, departure: &Departure) {
        let &Departure { sent, place, .. } = departure;
        let gap = self.last.replace(sent).map(|last| sent.saturating_duration_since(last));
        let is_behind = sent.saturating_duration_since(place) >= self.interval;
        if is_behind {
            let began = *self.began.get_or_insert_with(|| {
                found.spells += 1;
                sent
            });
            found.packets += 1;
            found.in_trains += u64::from(gap.is_some_and(|gap| gap < self.burst_interval));
            found.longest_ns = found.longest_ns.max(nanos(sent.saturating_duration_since(began)));
        } else if let Some(began) = self.began.take() {
            found.longest_ns = found.longest_ns.max(nanos(sent.saturating_duration_since(began)));
        }
    }
}

#[cfg(test)]
mod tests {
    use softtimers_core::{PaceConfig, Rate, Recovery};

    use super::*;

    #[test]
    fn a_catch_up_lasts_until_the_flow_is_on_schedule() {
        let micros = Duration::from_micros;
        let pace = PaceConfig {
            burst_interval: Some(micros(20)),
            recovery: Recovery::trains(3),
            ..PaceConfig::new(Rate::every(micros(40)).unwrap())
        };
        let clock = RateClock::new(pace).unwrap();
        let (mut flow, mut found) = (CatchingUp::along(&clock), CatchUps::default());
        let at = Timestamp::from_micros;
        for (sent, place) in
            [(3, 0), (40, 40), (200, 80), (222, 120), (230, 160), (252, 200), (275, 240), (375, 280)]
        {
            flow.left(&mut found, &Departure { sent: at(sent), due: at(place), place: at(place) });
        }
        let expected = CatchUps { spells: 2, packets: 5, in_trains: 1, longest_ns: 75_000 };
        assert_eq!(found, expected);
        let mut twice = found;
        twice += &found;
        assert_eq!((twice.packets, twice.longest_ns), (10, 75_000));
    }
}
