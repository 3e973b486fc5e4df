//! The requested time before a due time, and the deadline after it.
//!
//! Both nearly always fit 32 bits: a due time is less than a tick after the requested time, and slack is
//! small, or a whole number of microseconds. Times that do not fit take two words in a table beside the
//! records.
//!
//! ```text
//!    31    30    20    0
//!    ├──┬──┬─────┬─────┤                due − asked       count × 1 ns or 1 µs
//!    │0 │µs│early│count│            asked ◀──────── due      asked ────────────▶ deadline
//!    │1 │ where in the table │
//! ```

use super::segments::Segments;
use super::terms::Terms;

/// The requested time and the deadline of one timer, given its due time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Margin(u32);

/// The margins that do not fit a [`Margin`].
#[derive(Debug)]
pub(super) struct Margins {
    wide: Segments<Wide>,
    /// The first free one; its `asked` names the next.
    free: u32,
}

#[derive(Clone, Copy, Debug)]
struct Wide {
    asked: u64,
    deadline: u64,
}

impl Margins {
    pub(super) const fn new() -> Self {
        Margins { wide: Segments::new(), free: NONE }
    }

    /// Makes room for a few that do not fit, if the table is empty.
    pub(super) fn reserve_few(&mut self) {
        self.wide.reserve_few();
    }

    #[inline]
    pub(super) fn keep(&mut self, terms: &Terms) -> Margin {
        let (early, slack) = (terms.due() - terms.asked, terms.deadline - terms.asked);
        if early <= MOST_EARLY && slack <= MOST_COUNT {
            return Margin((early as u32) << COUNT_BITS | slack as u32);
        }
        if early == 0 && terms.deadline == u64::MAX {
            return Margin(MICROS | NEVER as u32);
        }
        self.keep_more(early, terms.asked, terms.deadline)
    }

    #[inline(never)]
    fn keep_more(&mut self, early: u64, asked: u64, deadline: u64) -> Margin {
        let slack = deadline - asked;
        let count = if deadline == u64::MAX { NEVER } else { slack / 1_000 };
        let is_exact = deadline == u64::MAX || (count < NEVER && count * 1_000 == slack);
        if early <= MOST_EARLY && is_exact {
            return Margin(MICROS | (early as u32) << COUNT_BITS | count as u32);
        }
        let wide = Wide { asked, deadline };
        match self.wide.get_mut(self.free) {
            Some(place) => {
                let at = core::mem::replace(&mut self.free, place.asked as u32);
                *place = wide;
                Margin(WIDE | at)
            }
            None => {
                self.wide.push(wide);
                Margin(WIDE | (self.wide.len() as u32 - 1))
            }
        }
    }

    /// Returns the requested time.
    #[inline]
    pub(super) fn asked(&self, margin: Margin, due: u64) -> u64 {
        match margin.wide() {
            Some(at) => self.wide[at].asked,
            None => due - margin.early(),
        }
    }

    /// Returns when the backup must fire; [`u64::MAX`] is never.
    #[inline]
    pub(super) fn deadline(&self, margin: Margin, due: u64) -> u64 {
        let count = u64::from(margin.0) & MOST_COUNT;
        match margin.wide() {
            Some(at) => self.wide[at].deadline,
            None if margin.0 & MICROS == 0 => due - margin.early() + count,
            None if count == NEVER => u64::MAX,
            None => due - margin.early() + count * 1_000,
        }
    }

    /// Releases the margin of a timer that is gone, or has other terms.
    #[inline]
    pub(super) fn release(&mut self, margin: Margin) {
        if let Some(at) = margin.wide() {
            self.wide[at].asked = u64::from(core::mem::replace(&mut self.free, at));
        }
    }
}

impl Margin {
    #[inline]
    fn wide(self) -> Option<u32> {
        (self.0 & WIDE != 0).then_some(self.0 & !WIDE)
    }

    #[inline]
    fn early(self) -> u64 {
        u64::from(self.0 >> COUNT_BITS) & MOST_EARLY
    }
}

const WIDE: u32 = 1 << 31;
const MICROS: u32 = 1 << 30;
const COUNT_BITS: u32 = 20;
const MOST_COUNT: u64 = (1 << COUNT_BITS) - 1;
const MOST_EARLY: u64 = (1 << (30 - COUNT_BITS)) - 1;
/// No deadline, as a count of microseconds.
const NEVER: u64 = MOST_COUNT;
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::terms::{Key, Sequence};
    use super::*;

    /// Numbers about each power of two, and about whole microseconds.
    fn numbers() -> impl Iterator<Item = u64> {
        let step = (63 / crate::effort::operations(63)) as usize;
        let powers = (0..63).step_by(step).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        powers.chain(
            (0..50).step_by(step).flat_map(|bit| [1_000u64 << bit, (1_000 << bit) + 1, (1_000 << bit) - 1]),
        )
    }

    /// The requested time and the deadline are exact, and words in the table are freed.
    #[test]
    fn what_was_asked_for_and_the_deadline_are_kept_exactly() {
        let mut margins = Margins::new();
        let cases: Vec<Terms> = numbers()
            .flat_map(|early| numbers().map(move |late| (early, late)))
            .filter_map(|(early, late)| {
                let due = early.max(1 << 40);
                let key = Key { due, sequence: Sequence::FIRST };
                Some(Terms { key, asked: due - early, deadline: due.checked_add(late)? })
            })
            .chain([Terms::plain(Key { due: 7, sequence: Sequence::FIRST })])
            .collect();
        let mut wide = 0;
        for round in 0..2 {
            let kept: Vec<Margin> = cases.iter().map(|terms| margins.keep(terms)).collect();
            for (terms, &margin) in cases.iter().zip(&kept) {
                assert_eq!(margins.asked(margin, terms.due()), terms.asked, "{terms:?}");
                assert_eq!(margins.deadline(margin, terms.due()), terms.deadline, "{terms:?}");
                let slack = terms.deadline - terms.asked;
                let fits = slack < 1 << 20 || (slack % 1_000 == 0 && slack < 1_000_000_000);
                assert!(margin.wide().is_none() || terms.due() - terms.asked > 1_000 || !fits, "{terms:?}");
            }
            kept.into_iter().for_each(|margin| margins.release(margin));
            assert!(round == 0 || margins.wide.len() == wide, "freed words are used again");
            wide = margins.wide.len();
        }
    }
}
