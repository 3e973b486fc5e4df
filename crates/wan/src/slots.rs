//! Delivery in slots: packets gather and leave together, as where a station waits for its turn on a radio channel:
//! [`Slots`].
//!
//! ```text
//!   through the link   a b    c        d
//!   slots              ├──gap──▶│      ├─gap─▶│
//!   on their way              a b c           d      a gap begins when a packet finds no slot, or when one is full
//! ```
//!
//! These are the rules of netem's `slot` (`get_slot_next` of `sch_netem.c`), which calls them a crude approximation of
//! shared media such as cable, Wi-Fi and LTE. Only the position differs: netem's slots are behind the delay, these in
//! front of it.

use std::time::Duration;

use softtimers_core::{Random, Timestamp};

/// Slots in which packets leave: each comes a time, uniform between `least` and `most`, after the first packet needs
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Slots {
    /// The shortest time until the next slot.
    pub least: Duration,
    /// The longest time until the next slot.
    pub most: Duration,
    /// The most packets of a slot; 0 for any number.
    pub packets: u32,
    /// The bytes, with headers, after which a slot is full; packets are not split. 0 for any number.
    pub bytes: u64,
}

impl Slots {
    /// Creates slots of any size, `least` to `most` apart.
    pub const fn every(least: Duration, most: Duration) -> Self {
        Slots { least, most, packets: 0, bytes: 0 }
    }
}

/// The next or current slot, and its content so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SlotProcess {
    next: Option<Timestamp>,
    packets: u32,
    bytes: u64,
    random: Random,
}

impl SlotProcess {
    pub(crate) fn new(random: Random) -> Self {
        SlotProcess { next: None, packets: 0, bytes: 0, random }
    }

    /// Returns when a packet leaves that is ready at `at`; to be called in the order of readiness.
    pub(crate) fn leaves(&mut self, at: Timestamp, bytes: u64, slots: &Slots) -> Timestamp {
        let open = match self.next.filter(|&next| next >= at) {
            Some(next) => next,
            None => self.wait(at, slots),
        };
        self.packets = self.packets.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        let is_full = (slots.packets > 0 && self.packets >= slots.packets)
            || (slots.bytes > 0 && self.bytes >= slots.bytes);
        if is_full {
            self.wait(open, slots);
        }
        open
    }

    /// Starts the wait for another slot at `at`.
    fn wait(&mut self, at: Timestamp, slots: &Slots) -> Timestamp {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let spread = nanos(slots.most.saturating_sub(slots.least));
        // No number is drawn where there is no choice.
        let more = if spread == 0 { 0 } else { self.random.below(spread.saturating_add(1)) };
        let next = at + slots.least + Duration::from_nanos(more);
        (self.next, self.packets, self.bytes) = (Some(next), 0, 0);
        next
    }
}
