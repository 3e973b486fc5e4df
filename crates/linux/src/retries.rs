//! [`Retries`]: when a paced flow retries a refused datagram, and when it gives up.
//!
//! A full buffer or queue empties, so such a datagram is retried until it leaves. An error about the path to
//! the destination is mostly an answer to an earlier datagram, and gone once reported; a missing local route
//! gives the same error, and persists. Only time distinguishes the two:
//!
//! ```text
//!   attempts   ×××      ×××      ×××  …         ×××
//!              │ a departure's three, in vain    │
//!              └─────────── more than 1 s ───────┘ and at least three departures: it persists
//! ```

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use softtimers_core::Timestamp;

/// Decides when to stop sending to the destination of one paced flow.
///
/// A pure state machine; its driver sends, and reports each error that
/// [`is_about_an_earlier_datagram`].
///
/// ```
/// use std::time::Duration;
/// use softtimers_core::Timestamp;
/// use softtimers_linux::retries::Retries;
///
/// let mut retries = Retries::default();
/// let begin = Timestamp::from_micros(5);
/// assert!(!retries.refused(begin) && !retries.refused(begin + Duration::from_millis(900)));
/// assert!(retries.refused(begin + Duration::from_millis(1_001)));
/// retries.reached();
/// assert!(!retries.refused(begin + Duration::from_secs(2)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Retries {
    /// The time and number of departures refused in a row.
    refused: Option<(Timestamp, u32)>,
}

impl Retries {
    /// Immediate attempts of one departure: each refusal is about one earlier datagram, and more in a row
    /// mean that none gets through for now.
    pub const ATTEMPTS: u32 = 3;

    /// Returns the time from a failed departure to the next one, in a flow whose departures may be
    /// `burst_interval` apart: at least 10 µs, since retrying a full buffer sooner only takes the CPU that
    /// should empty it.
    pub fn after(burst_interval: Duration) -> Duration {
        burst_interval.max(SHORTEST_PAUSE)
    }

    /// Notes that a datagram has left, or failed only because of a full buffer.
    pub fn reached(&mut self) {
        self.refused = None;
    }

    /// Notes that all attempts of a departure at `now` were refused; returns whether to give up the
    /// destination.
    pub fn refused(&mut self, now: Timestamp) -> bool {
        let (since, departures) = self.refused.get_or_insert((now, 0));
        *departures = departures.saturating_add(1);
        *departures >= FEWEST && now.saturating_duration_since(*since) > LONGEST_PAUSE
    }
}

/// Returns whether `error`, from sending on a connected socket, is mostly not about the datagram being sent:
/// then retry at once, but not for ever.
///
/// True of the ICMP answers to earlier datagrams (`ECONNREFUSED`, `EHOSTUNREACH`, `ENETUNREACH`), which
/// the kernel reports to whichever call comes next and then forgets, and of `EINTR`. A missing local route
/// gives the same errors, but persists: retries need a bound. `UdpSocket::send_batch` of softtimers-net does
/// all that by itself.
///
/// ```
/// use std::io::ErrorKind;
/// use softtimers_linux::retries::is_about_an_earlier_datagram;
///
/// let refused = std::io::Error::from_raw_os_error(111); // ECONNREFUSED
/// assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
/// assert!(is_about_an_earlier_datagram(&refused));
/// assert!(!is_about_an_earlier_datagram(&ErrorKind::WouldBlock.into()));
/// ```
pub fn is_about_an_earlier_datagram(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::INTR)
    )
}

const SHORTEST_PAUSE: Duration = Duration::from_micros(10);
/// Long enough for a link that comes back, for example after reconfiguration.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// At a slow rate a second holds few attempts.
const FEWEST: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_flow_gets_its_attempts_and_a_fast_one_its_second() {
        let mut slow = Retries::default();
        let given_up = [0, 10, 20].map(|second| slow.refused(Timestamp::from_micros(second * 1_000_000)));
        assert_eq!(given_up, [false, false, true]);
        let mut fast = Retries::default();
        assert!((0..1_000).all(|milli| !fast.refused(Timestamp::from_micros(milli * 1_000))));
    }

    #[test]
    fn a_full_buffer_is_not_tried_sooner_than_it_can_empty() {
        assert_eq!(Retries::after(Duration::from_nanos(1)), Duration::from_micros(10));
        assert_eq!(Retries::after(Duration::from_millis(1)), Duration::from_millis(1));
    }
}
