//! The contents of slots: 64-byte [`Chunk`]s of up to 13 timers, in a list.
//!
//! A linked list of timers would be read one cache miss after the other. A chunk names 13 records at once,
//! whose misses overlap, and it is a single cache line.
//!
//! ```text
//!   slot ─▶ head ┌─────────────────────────────────────┐   ┌──────────────────
//!                │ next prev home used live │ 7 · 12 9 …│ ⇄ │ … 13 indices of records
//!           tail └─────────────────────────────────────┘   └──────────────────
//!                                             └ a timer was cancelled here: its place stays empty
//! ```
//!
//! Removal empties the timer's place in its own chunk. Nothing else moves, so that a slot keeps the order
//! in which it was filled, and no neighbour's cache line is touched. A chunk without a live timer returns to
//! the pool, so there are never many more chunks than timers: a few that were emptied last are [kept](Kept)
//! in their slots, for timers that are set and cancelled over and over.

use super::segments::Segments;
use super::sizes::{CHUNK_ROOM, NIL};

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Chunk {
    pub(super) next: u32,
    pub(super) prev: u32,
    /// The list that it is in.
    pub(super) home: Home,
    /// Places taken, live or not.
    used: u8,
    live: u8,
    timers: [u32; CHUNK_ROOM],
}

/// The list that a chunk is in, as [`Slot`](super::level::SlotId) spells it.
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

/// Up to 13 timers, taken out of a chunk or named by it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handful {
    timers: [u32; CHUNK_ROOM],
    used: u8,
}

impl Handful {
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.timers.iter().take(usize::from(self.used)).copied().filter(|&timer| timer != NIL)
    }
}

/// Chunks that were emptied last and are still in their slots.
///
/// A request sets its time-out and cancels it, and so does the next one. Its slot would get a chunk and lose
/// it each time.
#[derive(Debug)]
pub(super) struct Kept([u32; KEPT]);

impl Kept {
    pub(super) const NONE: Kept = Kept([NIL; KEPT]);

    /// Keeps a chunk; returns the one that it replaces.
    #[inline]
    pub(super) fn keep(&mut self, chunk: u32, home: Home) -> Option<u32> {
        let before = core::mem::replace(&mut self.0[usize::from(home.0) % KEPT], chunk);
        (before != chunk && before != NIL).then_some(before)
    }

    /// Returns the kept chunks, and keeps none any longer.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = u32> + use<> {
        core::mem::replace(self, Kept::NONE).0.into_iter().filter(|&chunk| chunk != NIL)
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

    /// Adds free chunks, and touches their memory.
    pub(super) fn reserve(&mut self, chunks: usize) {
        for _ in 0..chunks {
            let index = self.chunks.len() as u32;
            self.chunks.push(Chunk { next: self.free, live: FREE, ..Chunk::EMPTY });
            self.free = index;
        }
    }

    /// Appends a timer to the last chunk of a list. Returns the chunk and the place in it; `None` if that is
    /// full.
    #[inline(always)]
    pub(super) fn append(&mut self, list: List, timer: u32) -> Option<(u32, usize)> {
        let tail = self.chunks.get_mut(list.tail)?;
        let at = usize::from(tail.used);
        *tail.timers.get_mut(at)? = timer;
        tail.used += 1;
        tail.live += 1;
        Some((list.tail, at))
    }

    /// Appends a new chunk with one timer in it.
    #[inline(never)]
    pub(super) fn begin(&mut self, list: &mut List, home: Home, timer: u32) -> u32 {
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

    /// Empties a place. Returns the chunk's list if that was its last timer.
    #[inline]
    pub(super) fn remove(&mut self, chunk: u32, at: usize) -> Option<Home> {
        let chunk = &mut self.chunks[chunk];
        chunk.live -= 1;
        if chunk.live == 0 {
            chunk.used = 0;
            return Some(chunk.home);
        }
        chunk.timers[at] = NIL;
        chunk.used -= u8::from(at + 1 == usize::from(chunk.used));
        None
    }

    #[inline]
    pub(super) fn home(&self, index: u32) -> Home {
        self.chunks[index].home
    }

    /// Returns the list that a chunk without timers is in, if it is in one.
    #[inline]
    pub(super) fn idle(&self, index: u32) -> Option<Home> {
        self.chunks.get(index).filter(|chunk| chunk.live == 0).map(|chunk| chunk.home)
    }

    /// Takes a chunk out of its list and returns it to the pool.
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
        let chunk = &mut self.chunks[index];
        (chunk.next, chunk.live) = (self.free, FREE);
        self.free = index;
    }

    /// Takes the first chunk out of a list that is not empty, and returns it to the pool.
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
    const EMPTY: Chunk =
        Chunk { next: NIL, prev: NIL, home: Home(0), used: 0, live: 0, timers: [NIL; CHUNK_ROOM] };
}

/// The number of chunks that are kept.
const KEPT: usize = 4;
/// The mark of a chunk that is in no list.
const FREE: u8 = u8::MAX;

const _: () = assert!(size_of::<Chunk>() == 64);
