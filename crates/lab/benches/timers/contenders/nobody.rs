//! What the bench itself costs: to be subtracted by the eye, and not by us.

use std::hint::black_box;

use crate::contender::Contender;

pub(crate) struct Nobody;

impl Contender for Nobody {
    type Handle = u64;
    const TELLS_NEXT: bool = false;
    const FIRES: bool = false;

    fn new(_: usize) -> Self {
        Nobody
    }

    #[inline(never)]
    fn set(&mut self, due: u64, _: u32) -> u64 {
        due
    }

    #[inline(never)]
    fn cancel(&mut self, handle: u64) {
        black_box(handle);
    }

    #[inline(never)]
    fn advance(&mut self, now: u64, _: &mut Vec<u32>) {
        black_box(now);
    }
}
