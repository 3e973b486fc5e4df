//! The kinds of object, and the magic word of each. Each type declares its kind beside its functions, in the
//! border.

/// A kind of value that an object may hold, with its name in C.
pub(crate) trait Kind: 'static {
    /// The name of its type in the header; the name of its `_free` begins with it.
    const NAME: &'static str;
    /// The first word of its head while it lives.
    const MAGIC: u64 = {
        assert!(is_listed(Self::NAME), "KINDS has all names");
        magic(Self::NAME)
    };
}

/// The names of all kinds.
pub(super) const KINDS: &[&str] = &[
    "softtimers_timers",
    "softtimers_backup",
    "softtimers_pace",
    "softtimers_capacity",
    "softtimers_flows",
    "softtimers_policy",
    "softtimers_feedback",
    "softtimers_cpu_limit",
    "softtimers_histogram",
    "softtimers_callouts",
    "softtimers_itimers",
    "softtimers_wan",
];

const fn is_listed(name: &str) -> bool {
    let mut at = 0;
    while at < KINDS.len() {
        if magic(KINDS[at]) == magic(name) {
            return true;
        }
        at += 1;
    }
    false
}

/// A word that memory does not contain by chance, unique per name (FNV-1a); even, because odd ones mark
/// objects after a panic.
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
