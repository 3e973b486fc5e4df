//! The interface of a timer structure in the comparison: [`Contender`].

/// A structure of timers that carry a number. Time is in ticks, and never goes backwards.
pub(crate) trait Contender {
    /// A handle that names a pending timer.
    type Handle;
    /// Whether it can say when the next timer is due.
    const TELLS_NEXT: bool = true;

    /// Creates an empty one. It may use `expected` as a hint, where its interface asks for one.
    fn new(expected: usize) -> Self;

    /// Sets a timer for `due`.
    fn set(&mut self, due: u64, number: u32) -> Self::Handle;

    /// Cancels a pending timer.
    fn cancel(&mut self, handle: Self::Handle);

    /// Moves a pending timer, by its own call if it has one.
    fn rearm(&mut self, handle: Self::Handle, due: u64, number: u32) -> Self::Handle {
        self.cancel(handle);
        self.set(due, number)
    }

    /// Takes back the handle of a timer that has fired.
    fn release(&mut self, _handle: Self::Handle) {}

    /// Returns all timers due at `now`.
    fn advance(&mut self, now: u64, fired: &mut Vec<u32>);

    /// Does the smallest piece of `advance` possible in one call; `true` if there is more to do.
    fn step(&mut self, now: u64, fired: &mut Vec<u32>) -> bool {
        self.advance(now, fired);
        false
    }

    /// Returns a time not after the earliest due time.
    fn next(&mut self) -> Option<u64> {
        None
    }

    /// Returns when the hardware timer must fire: the earliest deadline, if it differs from due times.
    fn poll_at(&mut self) -> Option<u64> {
        self.next()
    }
}
