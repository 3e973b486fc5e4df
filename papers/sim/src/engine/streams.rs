//! Random numbers by name: [`Streams`].
//!
//! Two runs that differ in one parameter should meet the same packets. So each use of randomness has its own
//! generator, named by its purpose: a policy that draws one more number does not change the arrivals.

use softtimers_core::Random;

/// The random number generators of a run, by name.
///
/// ```
/// use softtimers_sim::Streams;
///
/// let streams = Streams::new(42);
/// let first = streams.of("arrivals").next_u64();
/// assert_eq!(streams.of("arrivals").next_u64(), first);
/// assert_ne!(streams.of("lengths").next_u64(), first);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// Creates the generators of a seed.
    pub const fn new(seed: u64) -> Self {
        Streams { seed }
    }

    /// Returns the generator of this name, at its beginning.
    pub fn of(self, name: &str) -> Random {
        Random::stream(self.seed, digest(name.as_bytes()))
    }

    /// Returns the seed of the stream.
    pub const fn seed(self) -> u64 {
        self.seed
    }
}

/// FNV-1a: Fowler, Noll, Vo. Names are few and not chosen by an attacker.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
