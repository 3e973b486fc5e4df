//! The standard library's ordered map.

use std::collections::BTreeMap;

use crate::contender::Contender;

#[derive(Default)]
pub(crate) struct Tree {
    timers: BTreeMap<(u64, u64), u32>,
    sequence: u64,
}

impl Contender for Tree {
    type Handle = (u64, u64);

    fn new(_: usize) -> Self {
        Tree::default()
    }

    fn set(&mut self, due: u64, number: u32) -> (u64, u64) {
        self.sequence += 1;
        self.timers.insert((due, self.sequence), number);
        (due, self.sequence)
    }

    fn cancel(&mut self, handle: (u64, u64)) {
        self.timers.remove(&handle);
    }

    fn advance(&mut self, now: u64, fired: &mut Vec<u32>) {
        while let Some(first) = self.timers.first_entry() {
            if first.key().0 > now {
                break;
            }
            fired.push(first.remove());
        }
    }

    fn next(&mut self) -> Option<u64> {
        self.timers.first_key_value().map(|((due, _), _)| *due)
    }
}
