//! Readiness of many descriptors, with time-outs in nanoseconds.
//!
//! `epoll_wait` counts milliseconds, so a 40 µs wait either spins or oversleeps 25 times.
//! `epoll_pwait2` (Linux 5.11) counts nanoseconds, but a container's seccomp profile or an older
//! kernel may refuse it. Then `ppoll` waits for the epoll descriptor itself:
//!
//! ```text
//!   Pwait2    epoll_pwait2(timeout) ────────────────────────────▶ events
//!      │ refused, once: from then on
//!      ▼
//!   Ppoll     ppoll(epoll fd, timeout) ──▶ epoll_wait(0) ───────▶ events      one more system call
//! ```

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::time::Duration;

pub use rustix::event::epoll::EventFlags;
use rustix::event::epoll::{self, CreateFlags, EventData};
use rustix::io::Errno;

use super::stages::{Ended, in_stages};
use super::wait::ready_within;
use crate::clock::Monotonic;

mod busy_poll;

pub use busy_poll::BusyPoll;

/// The system call by which [`Epoll::wait`] sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// `epoll_pwait2`, with nanoseconds.
    Pwait2,
    /// `ppoll` on the epoll descriptor, because `epoll_pwait2` is refused here.
    Ppoll,
}

/// A set of descriptors, each with a token and the readiness it is watched for.
///
/// ```
/// # use softtimers_linux as softtimers;
/// use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
/// use std::net::UdpSocket;
/// use std::os::fd::AsFd;
/// use std::time::Duration;
///
/// let socket = UdpSocket::bind("127.0.0.1:0")?;
/// let mut epoll = Epoll::new(Waiting::Pwait2)?;
/// epoll.add(socket.as_fd(), 7, EventFlags::IN)?;
///
/// let mut events = Events::with_capacity(16);
/// epoll.wait(&mut events, Some(Duration::from_micros(40)))?;
/// assert!(events.is_empty());
///
/// socket.send_to(b"to myself", socket.local_addr()?)?;
/// epoll.wait(&mut events, None)?;
/// assert_eq!(events.iter().next().unwrap().token, 7);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
    waiting: Waiting,
}

impl Epoll {
    /// Makes an empty set that waits by `waiting`; [`Pwait2`](Waiting::Pwait2) falls back by itself.
    ///
    /// # Errors
    ///
    /// If the process or the system has no descriptor left.
    pub fn new(waiting: Waiting) -> io::Result<Self> {
        Ok(Self { fd: epoll::create(CreateFlags::CLOEXEC)?, waiting })
    }

    /// Returns the way in which this set waits, which may change in the first wait.
    pub fn waiting(&self) -> Waiting {
        self.waiting
    }

    /// Watches `source` for `interest`; events name it by `token`.
    ///
    /// A source may close while it is watched: the kernel forgets it together with its last
    /// duplicate.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if it is watched; `PermissionDenied` if it cannot be, as a regular file.
    pub fn add(&self, source: BorrowedFd<'_>, token: u64, interest: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.fd, source, EventData::new_u64(token), interest)?)
    }

    /// Replaces the token and the interest of a watched source.
    ///
    /// # Errors
    ///
    /// `NotFound` if it is not watched.
    pub fn modify(&self, source: BorrowedFd<'_>, token: u64, interest: EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.fd, source, EventData::new_u64(token), interest)?)
    }

    /// Stops watching `source`. Events that were taken before may still name it.
    ///
    /// # Errors
    ///
    /// `NotFound` if it is not watched.
    pub fn delete(&self, source: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.fd, source)?)
    }

    /// Fills `events`, sleeping until a source is ready, `timeout` has passed (`None`: never), or a
    /// signal arrived. A time-out of zero only polls.
    ///
    /// No event does not mean that the time has passed: check the clock. The kernel may round the time-out up
    /// by the thread's timer slack (50 µs unless changed); nothing rounds it down.
    ///
    /// # Errors
    ///
    /// None that a working kernel gives. A signal is no error.
    ///
    /// # Cost
    ///
    /// One system call; two if the path is [`Ppoll`](Waiting::Ppoll) and a source became ready. A
    /// wait of more than 10 ms that times out takes one to three wake-ups more: the kernel would add a
    /// thousandth to it, so it sleeps in stages.
    pub fn wait(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        in_stages(Monotonic, timeout, |stage| {
            events.filled = 0;
            match self.wait_once(events, stage) {
                Ok(0) => Ok(Ended::RanOut),
                Ok(filled) => {
                    events.filled = filled;
                    Ok(Ended::Otherwise)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Ended::Otherwise),
                Err(error) => Err(error),
            }
        })
    }

    fn wait_once(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<usize> {
        if self.waiting == Waiting::Pwait2 {
            match pwait2(self.fd.as_fd(), &mut events.buffer, timeout) {
                Err(error) if is_refusal(&error) => self.waiting = Waiting::Ppoll,
                outcome => return outcome,
            }
        }
        if timeout != Some(Duration::ZERO) {
            match ready_within(self.fd.as_fd(), timeout)? {
                Some(true) => {}
                Some(false) => return Ok(0),
                None => return Err(Errno::INTR.into()),
            }
        }
        collect(self.fd.as_fd(), &mut events.buffer)
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The events that one wait found; made once and used for every wait.
pub struct Events {
    buffer: Vec<libc::epoll_event>,
    filled: usize,
}

impl Events {
    /// Makes room for `capacity` events per wait, between 1 and 4096; further sources stay ready for the next
    /// wait.
    pub fn with_capacity(capacity: usize) -> Self {
        let capacity = capacity.clamp(1, MAX_EVENTS);
        Self { buffer: vec![libc::epoll_event { events: 0, u64: 0 }; capacity], filled: 0 }
    }

    /// Iterates over the token and the readiness of each ready source.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Event> + '_ {
        self.buffer[..self.filled]
            .iter()
            .map(|event| Event { token: event.u64, readiness: EventFlags::from_bits_retain(event.events) })
    }

    /// Returns the number of sources that the wait found ready.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Returns whether the wait found no ready source.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A source that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// As given to [`Epoll::add`].
    pub token: u64,
    /// `ERR` and `HUP` are reported without being asked for.
    pub readiness: EventFlags,
}

/// `struct __kernel_timespec`: 64-bit on every architecture.
#[repr(C)]
struct KernelTimespec {
    seconds: i64,
    nanos: i64,
}

fn pwait2(
    epoll: BorrowedFd<'_>,
    buffer: &mut [libc::epoll_event],
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let timeout = timeout.map(|timeout| KernelTimespec {
        seconds: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        nanos: i64::from(timeout.subsec_nanos()),
    });
    let no_mask = ptr::null::<libc::sigset_t>();
    // SAFETY: the buffer is valid for writes of as many events as it has, the time-out is null or
    // valid for reads, and all three outlive the call, which keeps none of them.
    let filled = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            buffer.as_mut_ptr(),
            buffer.len() as libc::c_int,
            timeout.as_ref().map_or(ptr::null(), ptr::from_ref),
            no_mask,
            0usize,
        )
    };
    usize::try_from(filled).map_err(|_| io::Error::last_os_error())
}

/// Collects the present events, without waiting.
fn collect(epoll: BorrowedFd<'_>, buffer: &mut [libc::epoll_event]) -> io::Result<usize> {
    let (epoll, room) = (epoll.as_raw_fd(), buffer.len() as libc::c_int);
    // SAFETY: the buffer is valid for writes of as many events as it has.
    let filled = unsafe { libc::epoll_wait(epoll, buffer.as_mut_ptr(), room, 0) };
    usize::try_from(filled).map_err(|_| io::Error::last_os_error())
}

/// An old kernel returns `ENOSYS`, and so do most seccomp profiles; others return `EPERM`, `EACCES` or `EINVAL`. The call
/// itself returns only the last of them: if the descriptor is none of epoll, for which the other path has the same error.
fn is_refusal(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSYS | Errno::PERM | Errno::ACCESS | Errno::INVAL))
}

/// 48 KiB of buffer, and far below the kernel's limit.
const MAX_EVENTS: usize = 4096;

#[cfg(test)]
mod tests;
