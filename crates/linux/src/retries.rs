//! When a paced flow tries again what the kernel did not take, and when it gives up: [`Retries`].
//!
//! A full buffer or queue empties, so a datagram that met one is tried until it leaves. An error about
//! the way to the destination is mostly an answer to an earlier datagram, and gone once it has been met;
//! a route that is missing here gives the same error, and lasts. Only time tells the two apart:
//!
//! ```text
//!   attempts   ×××      ×××      ×××  …         ×××
//!              │ a departure's three, in vain    │
//!              └─────────── more than 1 s ───────┘ and at least three departures: it lasts
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
    /// Departures in a row that were refused, and since when.
    refused: Option<(Timestamp, u32)>,
}

impl Retries {
    /// Attempts of one departure, at once one after the other: each refusal is about one earlier
    /// datagram, and more in a row mean that none gets through for now.
    pub const ATTEMPTS: u32 = 3;

    /// Returns the time from a departure in vain to the next one, in a flow whose departures may be `burst_interval`
    /// apart: at least 10 µs, since trying a full buffer again sooner only burns the core that should empty it.
    pub fn after(burst_interval: Duration) -> Duration {
        burst_interval.max(SHORTEST)
    }

    /// A datagram has left, or has met nothing worse than a full buffer.
    pub fn reached(&mut self) {
        self.refused = None;
    }

    /// All attempts of a departure at `now` were refused; whether to give the destination up.
    pub fn refused(&mut self, now: Timestamp) -> bool {
        let (since, departures) = self.refused.get_or_insert((now, 0));
        *departures = departures.saturating_add(1);
        *departures >= FEWEST && now.saturating_duration_since(*since) > LONGEST
    }
}

/// Returns whether `error`, from sending on a connected socket, is by and large about something else than the datagram
/// that met it: then send it again, at once, but not for ever.
///
/// True of the ICMP answers to earlier datagrams (`ECONNREFUSED`, `EHOSTUNREACH`, `ENETUNREACH`), which
/// the kernel reports to whichever call comes next and then forgets, and of `EINTR`. A route that is
/// missing here gives the same errors, but lasts: whoever tries again needs a bound.
/// `UdpSocket::send_batch` of softtimers-net does all that by itself.
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

const SHORTEST: Duration = Duration::from_micros(10);
/// Long enough for a link that comes back, such as one that is set up anew.
const LONGEST: Duration = Duration::from_secs(1);
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
