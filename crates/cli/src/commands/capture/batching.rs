//! When a capture checks its ring: [`Batching`].

use std::time::Duration;

use softtimers::Timestamp;
use softtimers_poll::{Look, Next, Policy};

/// One wake-up for all frames that come within a period, and none while nothing comes.
///
/// ```text
///   frames     ●                 ● ●● ●●●  ● ●● ●
///   checks     ↑─ period ─╷      ↑─ period ─╷─ period ─╷─ period ─╷
///              woken up   none: wait to be woken up again         none
/// ```
///
/// Where the kernel hands frames over in blocks it waits by itself, and each wake-up is for one block.
///
/// Only the reader of the file waits for a capture, and the user has said how long: so each check takes as many frames
/// as there can be, and a batch is one write. Core's policies aim at a few packets per poll, or poll on a busy CPU,
/// because a forwarder's packets are waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Batching {
    /// The time between checks; `None` for one wake-up per batch.
    period: Option<Duration>,
    next: Next,
}

impl Batching {
    /// Returns a policy with batches this far apart.
    pub(crate) const fn each(period: Duration) -> Self {
        Batching { period: Some(period), next: Next::Armed }
    }

    /// Returns a policy that takes the kernel's batches.
    pub(crate) const fn woken() -> Self {
        Batching { period: None, next: Next::Armed }
    }
}

impl Policy for Batching {
    fn looked(&mut self, look: &Look) -> Next {
        self.next = match self.period {
            Some(period) if look.found > 0 => Next::At(look.ended + period),
            _ => Next::Armed,
        };
        self.next
    }

    fn idle(&mut self, _: Timestamp) -> Next {
        self.next
    }

    fn next(&self) -> Next {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_wakes_up_once_a_period_and_not_at_all_without_frames() {
        let at = Timestamp::from_micros;
        let mut batching = Batching::each(Duration::from_micros(500));
        assert_eq!(batching.next(), Next::Armed);
        let mut look = |time, found| batching.looked(&Look { began: at(time), ended: at(time + 10), found });
        assert_eq!(look(1_000, 1), Next::At(at(1_510)));
        assert_eq!(look(1_510, 200), Next::At(at(2_020)));
        assert_eq!(look(2_020, 0), Next::Armed);
        assert_eq!(batching.idle(at(3_000)), Next::Armed);
        let found = Look { began: at(1), ended: at(2), found: 9 };
        assert_eq!(Batching::woken().looked(&found), Next::Armed);
    }
}
