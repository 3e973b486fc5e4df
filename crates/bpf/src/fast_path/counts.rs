//! The counts of a fast path: [`FastCounts`].

/// Frames and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FastCount {
    /// Frames.
    pub packets: u64,
    /// Bytes, Ethernet's header included.
    pub bytes: u64,
}

/// Counts of frames under one policy. A frame that came in and neither left nor was rejected is in transit,
/// or was lost.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FastCounts {
    /// The frames decided by each rule.
    pub rules: Vec<FastCount>,
    /// Frames that came in at each side and were not left to user space.
    pub came: [FastCount; 2],
    /// Frames that left by each side.
    pub left: [FastCount; 2],
    /// Frames that came in at each side and were dropped by a rule.
    pub rejected: [FastCount; 2],
    /// Frames beyond the quota at each side, dropped while others waited for a poller. They are not counted
    /// in `came`.
    pub held: [FastCount; 2],
}

impl FastCounts {
    /// Returns the counts added since `earlier`, under the same policy.
    pub(super) fn since(&self, earlier: &FastCounts) -> FastCounts {
        let one = |now: FastCount, before: FastCount| FastCount {
            packets: now.packets - before.packets,
            bytes: now.bytes - before.bytes,
        };
        let pair = |now: [FastCount; 2], before: [FastCount; 2]| [0, 1].map(|at| one(now[at], before[at]));
        let before = |at: usize| earlier.rules.get(at).copied().unwrap_or_default();
        FastCounts {
            rules: self.rules.iter().enumerate().map(|(at, &now)| one(now, before(at))).collect(),
            came: pair(self.came, earlier.came),
            left: pair(self.left, earlier.left),
            rejected: pair(self.rejected, earlier.rejected),
            held: pair(self.held, earlier.held),
        }
    }
}
