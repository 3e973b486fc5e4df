//! The list of older BSD kernels: sorted, each entry with the ticks from the one before it.
//!
//! Set and cancel walk it, so their cost grows with what is outstanding; `steps` counts that walk.

use super::{Callout, Callouts};

/// Callouts in a sorted list with differential times (Costello & Varghese, "Existing implementation").
#[derive(Debug, Default)]
pub struct DeltaList {
    entries: Vec<Entry>,
    first: Option<usize>,
    free: Option<usize>,
    steps: u64,
}

#[derive(Debug)]
struct Entry {
    /// Ticks from the entry before, or from now. Negative when it is overdue.
    delta: i64,
    callout: Callout,
    next: Option<usize>,
}

impl DeltaList {
    /// Entries passed by in all walks so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The clock interrupt alone, without running what is due: all leading entries that are due or overdue
    /// and the first one that is not lose a tick.
    pub fn hardclock(&mut self) {
        let mut at = self.first;
        while let Some(index) = at {
            let entry = &mut self.entries[index];
            entry.delta -= 1;
            if entry.delta + 1 > 0 {
                break;
            }
            at = entry.next;
        }
    }

    /// Takes what is due out of the list.
    pub fn softclock(&mut self, due: &mut Vec<Callout>) {
        while let Some(index) = self.first.filter(|&index| self.entries[index].delta <= 0) {
            due.push(self.entries[index].callout);
            self.first = self.entries[index].next;
            self.give_back(index);
        }
    }

    fn give_back(&mut self, index: usize) {
        self.entries[index].next = self.free;
        self.free = Some(index);
    }

    fn link(&mut self, before: Option<usize>) -> &mut Option<usize> {
        match before {
            Some(index) => &mut self.entries[index].next,
            None => &mut self.first,
        }
    }

    fn take(&mut self, entry: Entry) -> usize {
        match self.free {
            Some(index) => {
                self.free = self.entries[index].next;
                self.entries[index] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        }
    }
}

impl Callouts for DeltaList {
    /// The list knows no handles.
    type Name = Callout;

    fn set(&mut self, ticks: u64, callout: Callout) -> Callout {
        let mut left = ticks.max(1) as i64;
        let (mut before, mut at) = (None, self.first);
        while let Some(index) = at.filter(|&index| self.entries[index].delta <= left) {
            // Overdue entries count as now.
            left -= self.entries[index].delta.max(0);
            (before, at) = (at, self.entries[index].next);
            self.steps += 1;
        }
        if let Some(index) = at {
            self.entries[index].delta -= left;
        }
        let index = self.take(Entry { delta: left, callout, next: at });
        *self.link(before) = Some(index);
        callout
    }

    fn cancel(&mut self, name: Callout) -> bool {
        let (mut before, mut at) = (None, self.first);
        while let Some(index) = at {
            let Entry { delta, callout, next } = self.entries[index];
            if callout == name {
                if let Some(after) = next {
                    self.entries[after].delta += delta.max(0);
                }
                *self.link(before) = next;
                self.give_back(index);
                return true;
            }
            (before, at) = (at, next);
            self.steps += 1;
        }
        false
    }

    fn tick(&mut self, due: &mut Vec<Callout>) {
        self.hardclock();
        self.softclock(due);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deltas(list: &DeltaList) -> Vec<i64> {
        let mut at = list.first;
        std::iter::from_fn(|| {
            let entry = &list.entries[at?];
            at = entry.next;
            Some(entry.delta)
        })
        .collect()
    }

    #[test]
    fn times_are_differential() {
        let mut list = DeltaList::default();
        for ticks in [7, 3, 7, 12] {
            list.set(ticks, (0, ticks as usize));
        }
        assert_eq!(deltas(&list), [3, 4, 0, 5]);
        assert!(list.cancel((0, 3)));
        assert_eq!(deltas(&list), [7, 0, 5]);
    }

    #[test]
    fn overdue_entries_become_negative_and_the_first_other_one_goes_on() {
        let mut list = DeltaList::default();
        for ticks in [1, 2, 2, 5] {
            list.set(ticks, (0, ticks as usize));
        }
        for _ in 0..2 {
            list.hardclock();
        }
        assert_eq!(deltas(&list), [-1, 0, 0, 3]);
        list.hardclock();
        assert_eq!(deltas(&list), [-2, -1, -1, 2]);
        let mut due = Vec::new();
        list.softclock(&mut due);
        assert_eq!(due, [(0, 1), (0, 2), (0, 2)]);
        assert_eq!(deltas(&list), [2]);
    }

    /// Table I: a timer that is set beyond all others, and cancelled, passes each of them twice.
    #[test]
    fn set_and_cancel_are_linear() {
        let steps = |outstanding: u64| {
            let mut list = DeltaList::default();
            for number in 0..outstanding {
                list.set(1_000 + number, (0, number as usize));
            }
            let before = list.steps();
            list.set(1_000_000, (1, 1));
            list.cancel((1, 1));
            list.steps() - before
        };
        assert_eq!([0, 200, 1_000].map(steps), [0, 400, 2_000]);
    }
}
