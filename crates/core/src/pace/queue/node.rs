//! A flow's key, and its position in the calendar.

use crate::wheel::sizes::NIL;
use crate::wheel::terms::Key;

/// The links of a flow in the calendar: half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Node {
    /// When it leaves, and its turn among equal times.
    pub(super) key: Key,
    pub(super) next: u32,
    pub(super) prev: u32,
    pub(super) place: Bucket,
}

/// The place of a flow: a slot of the calendar, or one of those below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bucket(pub(super) u32);

impl Bucket {
    pub(super) const NOWHERE: Bucket = Bucket(u32::MAX);
    pub(super) const RUN: Bucket = Bucket(u32::MAX - 1);
}

impl Node {
    pub(super) const NOWHERE: Node = Node { key: Key::ZERO, next: NIL, prev: NIL, place: Bucket::NOWHERE };
}

const _: () = assert!(size_of::<Node>() == 32);
