//! [`Segments`]: an array that grows without moving what is in it.
//!
//! A vector of a million records doubles by copying 32 MB, and whoever schedules the timer that fills it
//! waits for that. Here a full segment is left where it is and the next one begun. Segments are reserved, not
//! filled: a page is touched when its first element is.
//!
//! ```text
//!   parts ─▶ [ 4,096 elements ] [ 4,096 elements ] [ 17 elements, room for 4,096 ]
//!                 index 0 …         4,096 …            8,192 …
//! ```

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

#[derive(Debug)]
pub(crate) struct Segments<T> {
    parts: Vec<Vec<T>>,
}

impl<T> Segments<T> {
    pub(crate) const fn new() -> Self {
        Segments { parts: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        match self.parts.split_last() {
            Some((last, full)) => full.len() * PART + last.len(),
            None => 0,
        }
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.parts.get(at as usize / PART)?.get(at as usize % PART)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.parts.get_mut(at as usize / PART)?.get_mut(at as usize % PART)
    }

    /// Appends: O(1), and no more than [`FIRST`] elements are ever moved.
    #[inline]
    pub(crate) fn push(&mut self, element: T) {
        match self.parts.last_mut() {
            Some(part) if part.len() < part.capacity() => part.push(element),
            _ => self.push_slowly(element),
        }
    }

    #[inline(never)]
    fn push_slowly(&mut self, element: T) {
        match self.parts.last_mut() {
            // Only the first is begun small: three timers should not take room for thousands.
            Some(part) if part.len() < PART => part.reserve_exact(PART - part.len()),
            Some(_) => self.parts.push(Vec::with_capacity(PART)),
            None => self.parts.push(Vec::with_capacity(FIRST)),
        }
        if let Some(part) = self.parts.last_mut() {
            part.push(element);
        }
    }

    /// Drops the elements from `len` on, and gives their memory back.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.parts.truncate(len.div_ceil(PART));
        if let Some(last) = self.parts.last_mut() {
            last.truncate(len - (len - 1) / PART * PART);
        }
        self.parts.shrink_to_fit();
    }
}

impl<T> Index<u32> for Segments<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: u32) -> &T {
        &self.parts[at as usize / PART][at as usize % PART]
    }
}

impl<T> IndexMut<u32> for Segments<T> {
    #[inline]
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.parts[at as usize / PART][at as usize % PART]
    }
}

/// Elements of a segment. At a million timers the segments' addresses still fit a first-level cache.
const PART: usize = 4_096;
/// Room in the first segment to begin with.
const FIRST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_where_they_are_put() {
        let mut segments = Segments::new();
        let many = 3 * PART as u32 + 5;
        for at in 0..many {
            assert_eq!((segments.len(), segments.get(at)), (at as usize, None));
            segments.push(at);
        }
        let address = &raw const segments[PART as u32 - 1];
        for at in many..5 * PART as u32 {
            segments.push(at);
        }
        assert_eq!(&raw const segments[PART as u32 - 1], address);
        assert!((0..segments.len() as u32).all(|at| segments[at] == at));
    }

    #[test]
    fn truncation_keeps_what_is_below() {
        for len in [0, 1, PART - 1, PART, PART + 1, 2 * PART] {
            let mut segments = Segments::new();
            (0..3 * PART as u32).for_each(|at| segments.push(at));
            segments.truncate(len);
            assert_eq!(segments.len(), len);
            segments.push(7);
            assert_eq!((segments[len as u32], segments.len()), (7, len + 1));
        }
    }
}
