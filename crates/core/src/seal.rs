//! [`Seal`]: turns handles into numbers that only their own set can read.
//!
//! A C program keeps a handle as a number. The bits of a [`TimerId`](crate::TimerId) are an index and a generation, small numbers
//! both, so a handle of another set, or an invented one, would often name something. Sealed, it names
//! nothing:
//!
//! ```text
//!   bits     │ generation │ index │           one set      ── close ─▶ 0x9c41…      ── open ─▶ the same bits
//!                                             another set               0x9c41…      ── open ─▶ an index near 2³⁰
//! ```
//!
//! Each set has its own key, and an index opened with a foreign key is nearly always beyond the set's size:
//! of two sets with a thousand timers each, one number in 10¹⁵ is valid in both. That guards against
//! mistakes. It is not a secret: the key can be read from the process's memory.

use crate::Random;

/// The key of one set of handles.
///
/// ```
/// use core::time::Duration;
/// use softtimers_core::{Config, Seal, Slack, SoftTimers, Timestamp};
///
/// let mut timers = SoftTimers::new(Config::default());
/// let (mine, other) = (Seal::new(1), Seal::new(2));
/// let id = timers.schedule(Timestamp::ZERO, Duration::from_micros(5), Slack::EXACT, "tick");
/// let number = mine.close(id.to_bits());
/// assert_eq!(timers.id_of(mine.open(number)), Some(id));
/// let foreign = timers.id_of(other.open(number));
/// assert!(foreign.is_none_or(|foreign| !timers.is_pending(foreign)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seal {
    key: u64,
}

impl Seal {
    /// Makes the key of the set that `owner` names, unrelated to the keys of others.
    pub fn new(owner: u64) -> Self {
        Seal { key: Random::stream(owner, 0).next_u64() & !NEVER_SET | ALWAYS_SET }
    }

    /// Returns the number of a handle with these bits ([`TimerId::to_bits`], [`FlowId::to_bits`]): neither
    /// zero nor 2⁶⁴ − 1.
    ///
    /// [`TimerId::to_bits`]: crate::TimerId::to_bits
    /// [`FlowId::to_bits`]: crate::queue::FlowId::to_bits
    #[inline]
    pub fn close(&self, bits: u64) -> u64 {
        bits ^ self.key
    }

    /// Returns the bits of a number: those of a handle only if it was closed with this key.
    #[inline]
    pub fn open(&self, number: u64) -> u64 {
        number ^ self.key
    }
}

// No index has bit 30 or 31: a set holds fewer than 2²⁸. So zero opens to a bit 30, all ones to a bit 31, and neither
// is ever a handle.
const ALWAYS_SET: u64 = 1 << 30;
const NEVER_SET: u64 = 1 << 31;

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use super::*;
    use crate::TimerId;
    use crate::slots::Instance;

    const OWNERS: u64 = if cfg!(miri) { 30 } else { 1_000 };

    #[test]
    fn zero_and_all_ones_are_no_handles_whoever_owns_them() {
        for owner in 0..OWNERS * 10 {
            let seal = Seal::new(owner);
            for number in [0, u64::MAX] {
                assert!(seal.open(number) as u32 >= 1 << 30, "{owner} {number}");
            }
        }
    }

    #[test]
    fn what_one_closed_no_other_opens() {
        let instance = Instance::new();
        for owner in 0..OWNERS {
            let id = TimerId::new(owner as u32 * 7, NonZeroU32::MIN, &instance);
            let number = Seal::new(owner).close(id.to_bits());
            assert_eq!(Seal::new(owner).open(number), id.to_bits());
            assert!(
                (0..OWNERS).filter(|other| Seal::new(*other).open(number) as u32 == id.index()).count() <= 1
            );
        }
    }
}
