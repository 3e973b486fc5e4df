//! The kinds of object, and the magic word of each.

use softtimers::bsd::{Callouts, MultiTimers, TimeVal};
use softtimers::poll::{AnyPolicy, CpuLimit, Feedback};
use softtimers::{Backup, Histogram, RateClock};
use softtimers_wan::Wan;

use crate::border::clock::softtimers_call;
use crate::border::{flows::Flows, timers::Timers};

/// What an object may hold, and what C calls it.
pub trait Kind: 'static {
    /// The name of its type in the header; the name of its `_free` begins with it.
    const NAME: &'static str;
    /// What its head begins with while it lives.
    const MAGIC: u64 = magic(Self::NAME);
}

macro_rules! kinds {
    ($($value:ty => $name:literal),* $(,)?) => {
        $(impl Kind for $value {
            const NAME: &'static str = $name;
        })*
        /// All of them.
        pub(super) const KINDS: &[&str] = &[$($name),*];
    };
}

kinds! {
    Timers => "softtimers_timers",
    Backup => "softtimers_backup",
    RateClock => "softtimers_pace",
    Flows => "softtimers_flows",
    AnyPolicy => "softtimers_policy",
    Feedback => "softtimers_feedback",
    CpuLimit => "softtimers_cpu_limit",
    Histogram => "softtimers_histogram",
    Callouts<softtimers_call> => "softtimers_callouts",
    MultiTimers<TimeVal> => "softtimers_itimers",
    Wan<u64> => "softtimers_wan",
}

/// A word that memory does not hold by chance, and that no two names share (FNV-1a); even, for odd ones are of objects that
/// a panic has left half done.
pub(super) const fn magic(name: &str) -> u64 {
    let (bytes, mut hash, mut at) = (name.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash & !1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_word_of_its_own() {
        let mut words: Vec<u64> = KINDS.iter().map(|name| magic(name)).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), KINDS.len());
    }
}
