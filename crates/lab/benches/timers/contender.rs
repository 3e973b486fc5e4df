//! The interface of a timer structure that takes part: [`Contender`].

/// A structure of timers that carry a number. Time is in ticks, and never goes backwards.
pub(crate) trait Contender {
    /// A handle that names a pending timer.
    type Handle;
    /// It can say when the next is due.
    const TELLS_NEXT: bool = true;

    /// An empty one. It may take `expected` as a hint, where its interface asks for one.
    fn new(expected: usize) -> Self;

    /// Sets a timer for `due`.
    fn set(&mut self, due: u64, number: u32) -> Self::Handle;

    /// Cancels a pending timer.
    fn cancel(&mut self, handle: Self::Handle);

    /// Moves a pending timer: by its own call, if it has one.
    fn rearm(&mut self, handle: Self::Handle, due: u64, number: u32) -> Self::Handle {
        self.cancel(handle);
        self.set(due, number)
    }

    /// Takes back the handle of a timer that has fired.
    fn release(&mut self, _handle: Self::Handle) {}

    /// Hands out all that is due at `now`.
    fn advance(&mut self, now: u64, fired: &mut Vec<u32>);

    /// The least piece of `advance` that it can do in one call; `true` if more is to be done.
    fn step(&mut self, now: u64, fired: &mut Vec<u32>) -> bool {
        self.advance(now, fired);
        false
    }

    /// A time not after the earliest due time.
    fn next(&mut self) -> Option<u64> {
        None
    }

    /// Returns when the hardware has to look: the earliest deadline, if there is such a thing beside due times.
    fn poll_at(&mut self) -> Option<u64> {
        self.next()
    }
}
