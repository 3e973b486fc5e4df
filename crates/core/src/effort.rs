//! The length of tests that could be longer.

/// Returns the operations of a test that usually does `usual` of them: under Miri a third of their square root, because
/// Miri takes some ten thousand times as long for each.
pub(crate) const fn operations(usual: u64) -> u64 {
    if cfg!(miri) { usual.isqrt().div_ceil(3) } else { usual }
}
