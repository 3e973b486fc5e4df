//! [`Head`]: the head of an object, the target of C's pointer, which is never unmapped.
//!
//! ```text
//!     take ──▶ magic of the kind, owner, life ──▶ retire: FREED, no owner, life 0 ──▶ queue of the freed ─┐
//!      ▲                                                                                                  │
//!      └────────────────────────────────── after FREED_KEPT others, for an object of any kind ◀───────────┘
//! ```
//!
//! A freed head is marked until it is reused. Memory is 64 bytes for each of the highest number of live
//! objects, and for [`FREED_KEPT`] more. Each head is an allocation of its own, so that a leak checker still
//! finds an object that was never freed: the only pointer to it was C's.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::errno::Errno;
use super::kinds::{KINDS, Kind, magic};
use super::misuse::{Found, Wrong};

/// On its own cache line, because each belongs to a thread.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Head {
    /// The magic word: that of the kind that lives here, [`FREED`], or that of a kind after a panic
    /// ([`POISON`]).
    magic: AtomicU64,
    /// The thread that may use it; 0 for none.
    owner: AtomicU64,
    /// 0 while nothing lives here.
    life: AtomicU64,
    /// Only accessed by the owner; its type is that of `magic`.
    value: RefCell<Option<Box<dyn Any>>>,
}

// SAFETY: `magic`, `owner` and `life` are atomic. `value` is touched in `with`, `retire` and `take` alone: in the first two
// after the calling thread has found its own number in `owner`, which only that thread ever writes there; in
// the third while the head has no owner: new, or out of the queue of freed heads, whose lock orders it after
// the last use. By `adopt`, C guarantees that the previous thread is done with the object, with memory
// ordering. All kinds may go to another thread then: they are plain data, descriptors, and pointers that only
// C follows.
#[allow(unsafe_code)]
unsafe impl Sync for Head {}

impl Head {
    /// Takes a head for a value, which then belongs to this thread.
    pub(super) fn take<T: Kind>(value: T) -> &'static Self {
        static LIVES: AtomicU64 = AtomicU64::new(1);
        let mut freed = FREED_HEADS.lock().unwrap_or_else(PoisonError::into_inner);
        let again = if freed.len() > FREED_KEPT { freed.pop_front() } else { None };
        drop(freed);
        let head = again.unwrap_or_else(|| {
            Box::leak(Box::new(Head {
                magic: AtomicU64::new(FREED),
                owner: AtomicU64::new(0),
                life: AtomicU64::new(0),
                value: RefCell::new(None),
            }))
        });
        *head.value.borrow_mut() = Some(Box::new(value));
        head.life.store(LIVES.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        head.owner.store(thread(), Ordering::Relaxed);
        // A thread that sees the kind sees the owner.
        head.magic.store(T::MAGIC, Ordering::Release);
        head
    }

    /// Runs a function on the value if it is of this kind, not poisoned, and this thread's: every call begins
    /// with this. `None` otherwise. A panic poisons it.
    #[inline]
    pub(super) fn with<T: Kind, R>(
        &self,
        body: impl FnOnce(&mut T) -> Result<R, ()>,
    ) -> Option<Result<R, Errno>> {
        if self.magic.load(Ordering::Acquire) != T::MAGIC || self.owner.load(Ordering::Relaxed) != thread() {
            return None;
        }
        // The same object twice in one call is an invalid argument.
        let Ok(mut value) = self.value.try_borrow_mut() else { return Some(Err(Errno::INVALID)) };
        let value = value.as_deref_mut()?;
        debug_assert!(value.is::<T>());
        // SAFETY: under a kind's magic word there is a value of that kind: `take` is the only one to put either there, and
        // `retire` takes the word first. (Asking `Any` would double the cost.)
        #[allow(unsafe_code)]
        let value = unsafe { &mut *std::ptr::from_mut(value).cast::<T>() };
        Some(body(value).map_err(|()| {
            self.magic.fetch_xor(POISON, Ordering::Relaxed);
            Errno::PANICKED
        }))
    }

    /// Ends the object's life, after [`check_of`](Self::check_of). Returns its value.
    pub(super) fn retire(&'static self) -> Option<Box<dyn Any>> {
        self.magic.store(FREED, Ordering::Relaxed);
        self.owner.store(0, Ordering::Relaxed);
        self.life.store(0, Ordering::Relaxed);
        let value = self.value.take();
        FREED_HEADS.lock().unwrap_or_else(PoisonError::into_inner).push_back(self);
        value
    }

    /// Returns the fault of using it as this kind here and now; a poisoned value is not a fault.
    pub(super) fn check_of(&self, wanted: &'static str) -> Result<(), Wrong> {
        let wrong = |found| Err(Wrong { wanted, at: std::ptr::from_ref(self).cast(), found });
        let here = self.magic.load(Ordering::Acquire);
        let owner = self.owner.load(Ordering::Relaxed);
        match KINDS.iter().find(|kind| [magic(kind), magic(kind) ^ POISON].contains(&here)) {
            None if here == FREED => wrong(Found::Freed),
            None => wrong(Found::Nothing),
            Some(kind) if *kind != wanted => wrong(Found::Kind(kind)),
            Some(_) if owner != thread() => {
                wrong(Found::Thread { owner: owner & MOST_THREAD, here: thread() & MOST_THREAD })
            }
            Some(_) => Ok(()),
        }
    }

    /// Returns the kind that lives here.
    pub(super) fn kind(&self) -> Result<&'static str, Wrong> {
        let here = self.magic.load(Ordering::Acquire);
        let found = if here == FREED { Found::Freed } else { Found::Nothing };
        let kind = KINDS.iter().find(|kind| [magic(kind), magic(kind) ^ POISON].contains(&here));
        kind.copied().ok_or(Wrong { wanted: "object", at: std::ptr::from_ref(self).cast(), found })
    }

    /// Gives it to this thread.
    pub(super) fn adopt(&self) -> Result<(), Wrong> {
        self.kind()?;
        self.owner.store(thread(), Ordering::Relaxed);
        Ok(())
    }

    /// Returns the number of its life; 0 while nothing lives here.
    #[inline]
    pub(super) fn life(&self) -> u64 {
        self.life.load(Ordering::Relaxed)
    }
}

/// Returns a unique number of this thread: a serial number above the kernel's thread id, which is for
/// messages.
#[inline]
fn thread() -> u64 {
    // Without a destructor it exists until the thread ends: objects freed in the thread's destructors still
    // belong to it.
    thread_local!(static NUMBER: Cell<u64> = const { Cell::new(0) });
    match NUMBER.get() {
        0 => {
            let number = number();
            NUMBER.set(number);
            number
        }
        number => number,
    }
}

#[cold]
fn number() -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(1);
    let kernels = rustix::thread::gettid().as_raw_nonzero().get();
    THREADS.fetch_add(1, Ordering::Relaxed) << MOST_THREAD.count_ones() | (kernels as u64 & MOST_THREAD)
}

/// Heads without an object, in the order in which they were freed.
static FREED_HEADS: Mutex<VecDeque<&'static Head>> = Mutex::new(VecDeque::new());

/// The number of heads freed before one is reused; until then every use of a freed object is detected.
const FREED_KEPT: usize = 1_024;
/// The magic word of a head without an object.
const FREED: u64 = u64::from_be_bytes(*b"st-freed");
/// A panic flips this bit in the magic word of its object.
const POISON: u64 = 1;
/// No thread has a higher number in Linux (`PID_MAX_LIMIT`).
const MOST_THREAD: u64 = (1 << 22) - 1;
