//! The atomics that [`Level`](super::level::Level) is built from; loom's stand in for them in `every_interleaving`.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};
