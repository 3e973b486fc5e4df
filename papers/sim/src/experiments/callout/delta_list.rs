//! The list of older BSD kernels: sorted, each entry with the ticks from the one before it.
//!
//! Set and cancel walk it, so their cost grows with the number outstanding; `steps` counts the entries
//! passed. The experiment converts that to time, and the benchmark of the same name measures it.

/// A function and its argument, as numbers: they are never called here.
pub type Callout = [usize; 2];

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
    /// Returns the number of entries passed in all walks so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Sets a callout `ticks` ahead, at least one, behind those of the same tick.
    ///
    /// # Cost
    /// O(n): it passes all entries before it.
    pub fn set(&mut self, ticks: u64, callout: Callout) {
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
    }

    /// Cancels a callout and returns whether it was outstanding. The list knows no handles.
    ///
    /// # Cost
    /// O(n): it passes all entries before it, or all if it is not found.
    pub fn cancel(&mut self, name: Callout) -> bool {
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

    /// Takes a clock interrupt, without running what is due: all leading entries that are due or overdue, and
    /// the first that is not, lose a tick. Returns how many of them are overdue now.
    pub fn hardclock(&mut self) -> u64 {
        let (mut at, mut overdue) = (self.first, 0);
        while let Some(index) = at {
            let entry = &mut self.entries[index];
            entry.delta -= 1;
            if entry.delta + 1 > 0 {
                break;
            }
            overdue += 1;
            at = entry.next;
        }
        overdue
    }

    /// Returns whether softclock must run: the first callout is due.
    pub fn is_due(&self) -> bool {
        self.first.is_some_and(|index| self.entries[index].delta <= 0)
    }

    /// Removes the next callout that is due and returns it.
    pub fn softclock(&mut self) -> Option<Callout> {
        let index = self.first.filter(|&index| self.entries[index].delta <= 0)?;
        let Entry { callout, next, .. } = self.entries[index];
        self.first = next;
        self.give_back(index);
        Some(callout)
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
            list.set(ticks, [0, ticks as usize]);
        }
        assert_eq!(deltas(&list), [3, 4, 0, 5]);
        assert!(list.cancel([0, 3]));
        assert_eq!(deltas(&list), [7, 0, 5]);
    }

    #[test]
    fn overdue_entries_become_negative_and_the_first_other_one_goes_on() {
        let mut list = DeltaList::default();
        for ticks in [1, 2, 2, 5] {
            list.set(ticks, [0, ticks as usize]);
        }
        assert_eq!([list.hardclock(), list.hardclock()], [0, 1]);
        assert_eq!(deltas(&list), [-1, 0, 0, 3]);
        assert_eq!(list.hardclock(), 3);
        assert_eq!(deltas(&list), [-2, -1, -1, 2]);
        let due: Vec<_> = std::iter::from_fn(|| list.softclock()).collect();
        assert_eq!(due, [[0, 1], [0, 2], [0, 2]]);
        assert_eq!(deltas(&list), [2]);
    }

    /// Table I: a timer that is set after all others and cancelled passes each of them twice.
    #[test]
    fn set_and_cancel_are_linear() {
        let steps = |outstanding: u64| {
            let mut list = DeltaList::default();
            for number in 0..outstanding {
                list.set(1_000 + number, [0, number as usize]);
            }
            let before = list.steps();
            list.set(1_000_000, [1, 1]);
            list.cancel([1, 1]);
            list.steps() - before
        };
        assert_eq!([0, 200, 1_000].map(steps), [0, 400, 2_000]);
    }
}
