//! [`Segments`]: an array that grows without moving its elements.
//!
//! A vector of a million records doubles by copying 32 MB, and the caller who schedules the timer that fills
//! it waits for that. Here a full segment stays in place and the next one is begun. Segments are reserved,
//! not filled: a page is touched when its first element is.
//!
//! ```text
//!   first ─▶ [ up to 1,024 elements: it grows by doubling, which copies 16 KB at the most ]
//!   parts ─▶ [ 4,096 elements ] [ 4,096 elements ] [ 17 elements, room for 4,096 ]
//!                 index 1,024 …    5,120 …            9,216 …
//! ```
//!
//! With few elements, an access does not read the list of segments.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

#[derive(Debug)]
pub(crate) struct Segments<T> {
    first: Vec<T>,
    parts: Vec<Vec<T>>,
}

impl<T> Segments<T> {
    pub(crate) const fn new() -> Self {
        Segments { first: Vec::new(), parts: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        let behind = match self.parts.split_last() {
            Some((last, full)) => full.len() * PART + last.len(),
            None => 0,
        };
        self.first.len() + behind
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        let at = at as usize;
        match at.checked_sub(FIRST) {
            None => self.first.get(at),
            Some(behind) => self.parts.get(behind / PART)?.get(behind % PART),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        let at = at as usize;
        match at.checked_sub(FIRST) {
            None => self.first.get_mut(at),
            Some(behind) => self.parts.get_mut(behind / PART)?.get_mut(behind % PART),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, element: T) {
        match self.parts.last_mut() {
            Some(part) if part.len() < PART => part.push(element),
            _ => self.push_slowly(element),
        }
    }

    #[inline(never)]
    fn push_slowly(&mut self, element: T) {
        if self.first.len() < FIRST {
            return self.first.push(element);
        }
        let mut part = Vec::with_capacity(PART);
        part.push(element);
        self.parts.push(part);
    }

    /// Makes room for a few, if it is empty.
    pub(crate) fn reserve_few(&mut self) {
        self.first.reserve(4);
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.first.truncate(len);
        let behind = len.saturating_sub(FIRST);
        self.parts.truncate(behind.div_ceil(PART));
        if let Some(last) = self.parts.last_mut() {
            last.truncate(behind - (behind - 1) / PART * PART);
        }
        self.first.shrink_to_fit();
        self.parts.shrink_to_fit();
    }
}

impl<T> Index<u32> for Segments<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: u32) -> &T {
        self.get(at).expect(NONE_THERE)
    }
}

impl<T> IndexMut<u32> for Segments<T> {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut T {
        self.get_mut(at).expect(NONE_THERE)
    }
}

const NONE_THERE: &str = "no element has this index";
const PART: usize = 4_096;
/// Room in the first segment to begin with.
/// The limit below which there are [few](super::small).
const FIRST: usize = super::sizes::MOST_WITHOUT_LEVELS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_where_they_are_put() {
        let mut segments = Segments::new();
        let parts = if cfg!(miri) { 0 } else { 3 };
        let many = (FIRST + parts * PART) as u32 + 5;
        for at in 0..many {
            assert_eq!((segments.len(), segments.get(at)), (at as usize, None));
            segments.push(at);
        }
        let last = many - 6;
        let address = &raw const segments[last];
        for at in many..many + PART as u32 {
            segments.push(at);
        }
        assert_eq!(&raw const segments[last], address);
        assert!((0..segments.len() as u32).all(|at| segments[at] == at));
    }

    #[test]
    fn truncation_keeps_what_is_below() {
        let lens = [0, 1, FIRST - 1, FIRST, FIRST + 1, FIRST + PART, FIRST + PART + 1, FIRST + 2 * PART];
        for len in lens.into_iter().step_by(if cfg!(miri) { 4 } else { 1 }) {
            let mut segments = Segments::new();
            let most = if cfg!(miri) { len + PART } else { 3 * PART };
            (0..most as u32).for_each(|at| segments.push(at));
            segments.truncate(len);
            assert_eq!(segments.len(), len);
            segments.push(7);
            assert_eq!((segments[len as u32], segments.len()), (7, len + 1));
        }
    }
}
