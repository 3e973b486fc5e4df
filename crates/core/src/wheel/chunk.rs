//! The contents of slots: 64-byte [`Chunk`]s of up to 13 timers, in a list.
//!
//! A slot that were a list of timers would be read one cache miss after the other. A chunk names 13 records at
//! once, whose misses overlap, and it is a single cache line.
//!
//! ```text
//!   slot ─▶ head ┌─────────────────────────────────────┐   ┌──────────────────
//!                │ next prev home used live │ 7 · 12 9 …│ ⇄ │ … 13 indices of records
//!           tail └─────────────────────────────────────┘   └──────────────────
//!                                             └ a timer was cancelled here: its place stays empty
//! ```
//!
//! Removal empties the timer's place in its own chunk. Nothing else moves, so that a slot keeps the order
//! in which it was filled, and no neighbour's cache line is touched. A chunk without a live timer goes
//! back to the pool, so there are never more chunks than timers.

use super::segments::Segments;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Chunk {
    pub(super) next: u32,
    pub(super) prev: u32,
    /// Which list it is in.
    pub(super) home: Home,
    /// Places taken, live or not.
    used: u8,
    live: u8,
    timers: [u32; ROOM],
}

/// Which list a chunk is in, as [`Slot`](super::level::SlotId) spells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Home(pub(super) u16);

/// A list of chunks, oldest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl List {
    pub(super) const EMPTY: List = List { head: NIL, tail: NIL };

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.head == NIL
    }
}

/// Up to 13 timers, taken out of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handful {
    timers: [u32; ROOM],
    used: u8,
}

impl Handful {
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.timers.iter().take(usize::from(self.used)).copied().filter(|&timer| timer != NIL)
    }
}

/// All chunks, and which of them are free.
#[derive(Debug)]
pub(super) struct Chunks {
    chunks: Segments<Chunk>,
    free: u32,
}

impl Chunks {
    pub(super) const fn new() -> Self {
        Chunks { chunks: Segments::new(), free: NIL }
    }

    /// Appends a timer to a list: its chunk, its place in there, and whether the chunk is a new one.
    #[inline]
    pub(super) fn append(&mut self, list: &mut List, home: Home, timer: u32) -> (u32, usize, bool) {
        if list.tail != NIL {
            let tail = &mut self.chunks[list.tail];
            let at = usize::from(tail.used);
            if let Some(place) = tail.timers.get_mut(at) {
                *place = timer;
                tail.used += 1;
                tail.live += 1;
                return (list.tail, at, false);
            }
        }
        (self.begin(list, home, timer), 0, true)
    }

    /// Appends a new chunk with one timer in it.
    fn begin(&mut self, list: &mut List, home: Home, timer: u32) -> u32 {
        let index = self.free;
        let index = if index == NIL {
            self.chunks.push(Chunk::EMPTY);
            self.chunks.len() as u32 - 1
        } else {
            self.free = self.chunks[index].next;
            index
        };
        let chunk = &mut self.chunks[index];
        (chunk.next, chunk.prev, chunk.home) = (NIL, list.tail, home);
        (chunk.used, chunk.live) = (1, 1);
        chunk.timers[0] = timer;
        if list.tail == NIL {
            list.head = index;
        } else {
            self.chunks[list.tail].next = index;
        }
        list.tail = index;
        index
    }

    /// Empties a place. If that was the chunk's last timer, its home: it must be [unlinked](Self::unlink).
    #[inline]
    pub(super) fn remove(&mut self, chunk: u32, at: usize) -> Option<Home> {
        let chunk = &mut self.chunks[chunk];
        chunk.live -= 1;
        if chunk.live == 0 {
            return Some(chunk.home);
        }
        chunk.timers[at] = NIL;
        chunk.used -= u8::from(at + 1 == usize::from(chunk.used));
        None
    }

    /// Takes a chunk out of its list and gives it back to the pool.
    pub(super) fn unlink(&mut self, list: &mut List, index: u32) {
        let Chunk { next, prev, .. } = self.chunks[index];
        match prev {
            NIL => list.head = next,
            prev => self.chunks[prev].next = next,
        }
        match next {
            NIL => list.tail = prev,
            next => self.chunks[next].prev = prev,
        }
        self.chunks[index].next = self.free;
        self.free = index;
    }

    /// Takes the first chunk out of a list that is not empty, and gives it back to the pool.
    #[inline]
    pub(super) fn take_first(&mut self, list: &mut List) -> Handful {
        let handful = self.handful(list.head);
        self.unlink(list, list.head);
        handful
    }

    #[inline]
    pub(super) fn handful(&self, index: u32) -> Handful {
        let chunk = &self.chunks[index];
        Handful { timers: chunk.timers, used: chunk.used }
    }

    #[inline]
    pub(super) fn next(&self, index: u32) -> u32 {
        self.chunks[index].next
    }
}

impl Chunk {
    const EMPTY: Chunk = Chunk { next: NIL, prev: NIL, home: Home(0), used: 0, live: 0, timers: [NIL; ROOM] };
}

/// What fits a cache line beside the chunk's own fields.
pub(super) const ROOM: usize = 13;
/// No chunk, no timer.
pub(super) const NIL: u32 = u32::MAX;

const _: () = assert!(size_of::<Chunk>() == 64);
