//! [`BusyPoll`]: waits of an epoll set that poll for packets themselves, Linux 6.9.
//!
//! A packet normally interrupts the CPU, and the kernel handles it there. A set with these parameters polls
//! the receive queue (NAPI) of its sockets at the beginning of a wait, in the program's own CPU time, so that
//! the program decides when packets are handled:
//!
//! ```text
//!   wait ─▶ events there? ─ yes ─────────────────────────────▶ returned
//!             └ no ─▶ poll up to `budget` packets ─▶ events? ─▶ returned
//!                        ▲    └ none, for less than `time` ┘
//!                        └ none for `time`: interrupts again, and sleep
//! ```

use std::io;
use std::time::Duration;

use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};

use super::Epoll;

/// How a set polls the receive queue of its sockets before it sleeps.
///
/// The set polls one queue: that of the socket that was ready last. Polling saves interrupts only if the
/// interface defers them meanwhile: `napi_defer_hard_irqs` and `gro_flush_timeout` of `/sys/class/net/NAME`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BusyPoll {
    /// The time without a packet after which a wait stops polling and sleeps, in whole microseconds; zero turns polling off.
    /// The kernel does not check the wait's own time-out meanwhile, so a wait may end late by this much.
    pub time: Duration,
    /// Packets per poll, the paper's aggregation quota; zero is the kernel's 8. A wait polls once more after
    /// a poll that found packets, so it may find twice as many.
    pub budget: u16,
    /// Keeps the interface's interrupts deferred while the program handles the events of a wait.
    pub prefer: bool,
}

impl Epoll {
    /// Makes waits poll the receive queue as configured. A wait with a time-out of zero never polls.
    ///
    /// ```
    /// # use softtimers_linux as softtimers;
    /// use softtimers::epoll::{BusyPoll, Epoll, Waiting};
    /// use std::io::ErrorKind;
    /// use std::time::Duration;
    ///
    /// let epoll = Epoll::new(Waiting::Pwait2)?;
    /// let busy_poll = BusyPoll { time: Duration::from_micros(50), budget: 5, prefer: true };
    /// match epoll.set_busy_poll(busy_poll) {
    ///     Ok(()) => assert_eq!(epoll.busy_poll()?, busy_poll),
    ///     Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported), // before Linux 6.9
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` before Linux 6.9, and on a kernel built without it; `InvalidInput` for more than
    /// 2,147 s; `PermissionDenied` for a budget above 64 without `CAP_NET_ADMIN`.
    pub fn set_busy_poll(&self, busy_poll: BusyPoll) -> io::Result<()> {
        let micros = u32::try_from(busy_poll.time.as_micros()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let params = Params { micros, budget: busy_poll.budget, prefer: busy_poll.prefer.into(), pad: 0 };
        // SAFETY: the opcode is that of an operation that reads one `struct epoll_params`, which `Params` is.
        let operation = unsafe { Setter::<SET, Params>::new(params) };
        // SAFETY: the operation reads its argument during the call and keeps no pointer to it.
        let outcome = unsafe { ioctl(&self.fd, operation) };
        outcome.map_err(unsupported)
    }

    /// Returns how waits poll the receive queue.
    ///
    /// # Errors
    ///
    /// `Unsupported` as for [`set_busy_poll`](Self::set_busy_poll).
    pub fn busy_poll(&self) -> io::Result<BusyPoll> {
        // SAFETY: the opcode is that of an operation that writes one `struct epoll_params`, which `Params` is.
        let operation = unsafe { Getter::<GET, Params>::new() };
        // SAFETY: the operation writes its whole argument, integers of which any bytes are values.
        let outcome = unsafe { ioctl(&self.fd, operation) };
        let Params { micros, budget, prefer, .. } = outcome.map_err(unsupported)?;
        Ok(BusyPoll { time: Duration::from_micros(micros.into()), budget, prefer: prefer != 0 })
    }
}

/// Maps the errors of a kernel without the operation: not a terminal, or no such operation.
fn unsupported(error: rustix::io::Errno) -> io::Error {
    match error {
        rustix::io::Errno::NOTTY | rustix::io::Errno::OPNOTSUPP => io::ErrorKind::Unsupported.into(),
        other => other.into(),
    }
}

/// `struct epoll_params`.
#[repr(C)]
struct Params {
    micros: u32,
    budget: u16,
    prefer: u8,
    pad: u8,
}

const SET: Opcode = opcode::write::<Params>(0x8a, 1);
const GET: Opcode = opcode::read::<Params>(0x8a, 2);

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::epoll::Waiting;
    use crate::skipped::skipped;

    #[test]
    fn what_is_set_is_read_back_and_a_new_set_does_not_poll() {
        let epoll = Epoll::new(Waiting::Pwait2).unwrap();
        match epoll.busy_poll() {
            Err(error) if error.kind() == ErrorKind::Unsupported => return skipped(&"no EPIOCGPARAMS"),
            found => assert_eq!(found.unwrap(), BusyPoll::default()),
        }
        for (micros, budget, prefer) in
            [(1, 1, true), (1_000, 15, false), (i32::MAX as u64, 64, true), (0, 0, false)]
        {
            let wanted = BusyPoll { time: Duration::from_micros(micros), budget, prefer };
            epoll.set_busy_poll(wanted).unwrap();
            assert_eq!(epoll.busy_poll().unwrap(), wanted);
        }
    }

    #[test]
    fn a_time_that_does_not_fit_is_refused_and_changes_nothing() {
        let epoll = Epoll::new(Waiting::Pwait2).unwrap();
        if epoll.busy_poll().is_err() {
            return skipped(&"no EPIOCGPARAMS");
        }
        let kept = BusyPoll { time: Duration::from_micros(7), budget: 3, prefer: true };
        epoll.set_busy_poll(kept).unwrap();
        for micros in [i32::MAX as u64 + 1, u64::from(u32::MAX) + 1] {
            let error =
                epoll.set_busy_poll(BusyPoll { time: Duration::from_micros(micros), ..kept }).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{micros}");
        }
        assert_eq!(epoll.busy_poll().unwrap(), kept);
    }
}
