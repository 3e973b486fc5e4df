//! The same random numbers for all contenders.

/// Marsaglia's xorshift: cheap compared with the measured operations, and the same for every contender.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Always starts from the same seed.
    #[expect(clippy::new_without_default, reason = "a default would not say that the sequence is fixed")]
    pub fn new() -> Self {
        Random(0x9E37_79B9_7F4A_7C15)
    }

    /// Returns a number below `bound`, which is at most 2^32.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) * bound) >> 32
    }
}
