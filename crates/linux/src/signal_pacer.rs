//! Sends datagrams at their times from a timer's signal handler: a flow that no handler of the program can
//! delay, at the cost of an interrupt for each.
//!
//! The handler runs between any two instructions of the program, so they share only atomics. Its state is
//! prepared before the timer is armed and belongs to it from then on; its results come back through a ring:
//!
//! ```text
//!   program   start(packet, clock) ─────────────────────────────── take() ─▶ Departure …
//!                      │ from here on the handler's                   ▲
//!   handler            └─▶ [stamp, send, clock.departed, arm anew] ─▶ ring of 4,096
//! ```
//!
//! Or the timer is periodic, like a hardware clock ([`Ticks::Periodic`]): armed once, one datagram for each
//! of its signals. Expiries while a signal is still pending are counted by the kernel and lost.
//!
//! It only makes calls that are allowed there: `clock_gettime`, `send`, `timer_settime`, and integer
//! arithmetic of the core, which allocates nothing.

mod ring;

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use softtimers_core::{Clock, Idle, RateClock, Timestamp, Wait};

use crate::clock::Monotonic;
use crate::posix_timer::{Hook, Id, SignalTimer};
use crate::retries::{Retries, is_about_an_earlier_datagram};
use crate::sockopt;
use ring::Ring;

pub use ring::Departure;

/// A flow of datagrams sent from a signal handler on the thread that started it; at most one per thread, and
/// none beside a [`SignalTimer`].
///
/// All datagrams are equal except for two numbers that are written into each, and in a replay their lengths
/// ([`RateClock::length`]); the packet has the longest. The program collects the departures with
/// [`take`](SignalPacer::take), at any time within 4,096 departures: with the ring full, the flow waits.
///
/// ```
/// use std::net::UdpSocket;
/// use std::time::Duration;
///
/// use softtimers_core::{Clock, PaceConfig, Rate, RateClock};
/// use softtimers_linux::clock::Monotonic;
/// use softtimers_linux::signal_timer::{Course, SignalPacer};
///
/// let (sender, receiver) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
/// sender.connect(receiver.local_addr()?)?;
/// let rate = Rate::every(Duration::from_millis(1))?;
/// let start = Monotonic.now();
/// let course = Course { limit: 3, ..Course::new(start, start + Duration::from_secs(10)) };
/// let mut pacer = SignalPacer::start(&sender, vec![0; 16], RateClock::new(PaceConfig::new(rate))?, course)?;
/// while !pacer.is_over() && Monotonic.now() < course.end {} // busy with something else
/// assert_eq!(std::iter::from_fn(|| pacer.take()).count(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SignalPacer {
    timer: SignalTimer,
    shared: Arc<Shared>,
    /// Owned by the handler until the timer is gone.
    hook: NonNull<Hook>,
    sender: NonNull<Sender>,
}

/// When a [`SignalPacer`] begins and ends, and what the handler writes into each datagram: big-endian 64-bit numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Course {
    /// When the first datagram is due.
    pub start: Timestamp,
    /// No datagram leaves from here on.
    pub end: Timestamp,
    /// The most datagrams that leave.
    pub limit: u64,
    /// The number of the first one.
    pub number: u64,
    /// Byte at which the number of the datagram begins.
    pub sequence_at: usize,
    /// Byte at which its scheduled time begins, in nanoseconds of the monotonic clock.
    pub scheduled_at: usize,
    /// The expiries of the timer.
    pub ticks: Ticks,
    /// Sends nothing: the departures are null events, to measure the cost of the timer alone.
    pub silent: bool,
}

impl Course {
    /// Makes a course without a limit on datagrams, counted from zero, each sent by its own expiry. They begin with their
    /// number and their scheduled time.
    pub fn new(start: Timestamp, end: Timestamp) -> Self {
        let (sequence_at, scheduled_at) = (0, size_of::<u64>());
        let (limit, number, ticks, silent) = (u64::MAX, 0, Ticks::OneShot, false);
        Course { start, end, limit, number, sequence_at, scheduled_at, ticks, silent }
    }
}

/// The expiries of a [`SignalPacer`]'s timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ticks {
    /// One expiry for each datagram: the handler arms it for the next one.
    #[default]
    OneShot,
    /// At every interval of the clock's rate. Each signal that comes sends one datagram, whatever is due;
    /// a tick that expires while another one's signal is pending is lost ([`SignalCounts::overruns`]). Give
    /// it a clock of [`Strategy::FixedSeries`](softtimers_core::Strategy::FixedSeries) and
    /// [`CatchUp::NONE`](softtimers_core::CatchUp::NONE), whose places are those of the ticks; skipped ones
    /// are lost.
    Periodic,
}

/// The obstacles that a [`SignalPacer`] met, counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignalCounts {
    /// Expiries for which no signal of their own came.
    pub overruns: u64,
    /// Attempts that met a full send buffer (`EAGAIN`).
    pub would_block: u64,
    /// Attempts that met a full queue on the way out (`ENOBUFS`).
    pub no_buffers: u64,
    /// Attempts that returned an earlier datagram's ICMP error.
    pub refused: u64,
    /// Attempts postponed because the program had not taken 4,096 departures.
    pub unread: u64,
}

impl SignalPacer {
    /// Sends `packet` on `socket`, which is connected, at the times of `clock` until the end of
    /// `course`.
    ///
    /// # Errors
    /// `InvalidInput` if a stamp does not fit the packet, or the interval of periodic ticks is zero;
    /// otherwise as [`SignalTimer::new`].
    pub fn start(
        socket: &impl AsFd,
        packet: Vec<u8>,
        mut clock: RateClock,
        course: Course,
    ) -> io::Result<Self> {
        let fits = |at: usize| at.checked_add(8).is_some_and(|end| end <= packet.len());
        if !fits(course.sequence_at) || !fits(course.scheduled_at) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{course:?}: a stamp of 8 bytes does not fit {} bytes", packet.len()),
            ));
        }
        let socket = socket.as_fd().try_clone_to_owned()?;
        let interval = clock.rate().interval();
        // The first clock read of a process resolves the vdso, which must not happen in a handler.
        let _ = Monotonic.now();
        let timer = SignalTimer::new()?;
        let shared = Arc::new(Shared::new(course.limit == 0 || course.start >= course.end));
        let sender = Sender {
            socket,
            packet,
            due: clock.start(course.start),
            armed: course.start,
            idle: Idle::park(),
            clock,
            course,
            sent: 0,
            retries: Retries::default(),
            timer: timer.id(),
            shared: Arc::clone(&shared),
        };
        let sender = NonNull::from(Box::leak(Box::new(sender)));
        let hook = Hook { run: on_expiry, data: sender.as_ptr().cast() };
        let pacer = SignalPacer { timer, shared, hook: NonNull::from(Box::leak(Box::new(hook))), sender };
        // SAFETY: both are freed in the destructor only, after the hook has been taken back, and
        // `on_expiry` does what is allowed in a handler.
        unsafe { pacer.timer.hook(pacer.hook.as_ptr()) };
        match course.ticks {
            Ticks::OneShot => pacer.timer.arm_at(course.start)?,
            Ticks::Periodic => pacer.timer.arm_periodic(course.start, interval)?,
        }
        Ok(pacer)
    }

    /// Returns the next departure that has not been taken yet.
    ///
    /// # Cost
    /// A few atomic loads.
    #[inline]
    pub fn take(&mut self) -> Option<Departure> {
        self.shared.ring.take()
    }

    /// Returns whether the flow is complete, or stopped by a permanent error.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.shared.over.load(Ordering::Acquire)
    }

    /// Returns the error that stopped the flow before its end, if one did: a datagram too long for the path, or a
    /// destination [out of reach](Retries) for too long.
    pub fn error(&self) -> Option<io::Error> {
        let code = self.shared.error.load(Ordering::Relaxed);
        (code != 0).then(|| io::Error::from_raw_os_error(code))
    }

    /// Returns the counts of obstacles so far.
    pub fn counts(&self) -> SignalCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SignalCounts {
            overruns: load(&self.shared.overruns),
            would_block: load(&self.shared.would_block),
            no_buffers: load(&self.shared.no_buffers),
            refused: load(&self.shared.refused),
            unread: load(&self.shared.unread),
        }
    }

    /// Stops the interrupts, and returns the clock as the handler left it. Departures so far can still be
    /// taken.
    pub fn stop(&mut self) -> RateClock {
        self.retire();
        // SAFETY: the handler has been removed and runs only on this thread, so it has no other user.
        unsafe { self.sender.as_ref() }.clock.clone()
    }

    /// Removes the handler's hook; from here on its data is ours.
    fn retire(&self) {
        // An armed timer without a hook would only count, but it would keep interrupting.
        let _ = self.timer.disarm();
        // SAFETY: no hook is always valid.
        unsafe { self.timer.hook(std::ptr::null_mut()) };
    }
}

impl Drop for SignalPacer {
    fn drop(&mut self) {
        self.retire();
        // SAFETY: made by `Box::leak` and not freed before; the handler no longer uses it.
        drop(unsafe { Box::from_raw(self.hook.as_ptr()) });
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(self.sender.as_ptr()) });
    }
}

/// # Safety
/// `sender` is a [`Sender`] without another user while this thread is interrupted.
unsafe fn on_expiry(sender: *mut ()) {
    // SAFETY: as promised by the caller. The signal is blocked in its own handler, so it is alone.
    unsafe { &mut *sender.cast::<Sender>() }.expired();
}

/// The handler's own state.
#[derive(Debug)]
struct Sender {
    socket: OwnedFd,
    packet: Vec<u8>,
    clock: RateClock,
    due: Timestamp,
    /// When the timer is to go off: somewhat before the due time.
    armed: Timestamp,
    /// Learns the lateness of signals here.
    idle: Idle,
    course: Course,
    sent: u64,
    retries: Retries,
    timer: Id,
    shared: Arc<Shared>,
}

impl Sender {
    fn expired(&mut self) {
        let mut now = Monotonic.now();
        if self.shared.over.load(Ordering::Relaxed) {
            return;
        }
        let one_shot = self.course.ticks == Ticks::OneShot;
        // A stray signal from another process, or an early expiry: arm again, because the latter would have
        // been the last.
        if now < self.armed {
            if one_shot {
                self.arm_at(self.armed);
            }
            return;
        }
        count(&self.shared.overruns, self.timer.overruns());
        if one_shot {
            self.idle.woke(self.armed, now);
            now = self.await_due(now);
        }
        if now >= self.course.end {
            return self.end(0);
        }
        self.due = if self.shared.ring.is_full() {
            count(&self.shared.unread, 1);
            now + self.retry_after()
        } else {
            match self.depart(now) {
                Ok(next) => next,
                Err(error) => return self.end(error),
            }
        };
        if self.sent >= self.course.limit || self.clock.is_over() || self.due >= self.course.end {
            return self.end(0);
        }
        if one_shot {
            self.arm(now);
        }
    }

    /// Busy-polls until the due time: at most by how much earlier the timer was armed, some microseconds.
    fn await_due(&self, mut now: Timestamp) -> Timestamp {
        while now < self.due {
            std::hint::spin_loop();
            now = Monotonic.now();
        }
        now
    }

    /// Arms the timer early by the shortest time that a signal takes, as softtimers' own sleeps do: otherwise
    /// lateness and burst interval together would exceed a short interval, and a flow late once would stay
    /// late.
    fn arm(&mut self, began: Timestamp) {
        let now = Monotonic.now();
        let wake = match self.idle.wait(now, Some(self.due)) {
            Wait::Until(wake) => wake,
            Wait::Poll | Wait::Forever => now,
        };
        // However short the interval, the interrupted program makes progress. It gets as long as the departure took, up to
        // MOST_PROGRESS: on a machine where departures are slow, so are arming and returning, which come out of this time.
        let took = now.saturating_duration_since(began);
        self.armed = wake.max(now + took.clamp(LEAST_PROGRESS, MOST_PROGRESS));
        self.arm_at(self.armed);
    }

    fn arm_at(&self, at: Timestamp) {
        if self.timer.arm_at(at).is_err() {
            self.end(libc::EINVAL);
        }
    }

    /// Sends one datagram, if the kernel takes it; returns when to continue.
    fn depart(&mut self, now: Timestamp) -> Result<Timestamp, i32> {
        let place = self.clock.place();
        self.stamp(self.course.sequence_at, self.course.number.wrapping_add(self.sent));
        self.stamp(self.course.scheduled_at, place.as_nanos());
        match if self.course.silent { Ok(()) } else { self.send() } {
            Ok(()) => {
                self.retries.reached();
                self.shared.ring.put(Departure { sent: now, due: self.due, place });
                self.sent += 1;
                Ok(self.clock.departed(now))
            }
            Err(error) => self.failed(now, error),
        }
    }

    fn stamp(&mut self, at: usize, number: u64) {
        if let Some(bytes) = self.packet.get_mut(at..at + 8) {
            bytes.copy_from_slice(&number.to_be_bytes());
        }
    }

    fn send(&self) -> Result<(), i32> {
        let mut outcome = self.attempt();
        for _ in 1..Retries::ATTEMPTS {
            // The first attempt after an ICMP error reports the error and sends nothing.
            if !matches!(outcome, Err(error) if is_about_the_way(error)) {
                break;
            }
            self.refused();
            outcome = self.attempt();
        }
        outcome
    }

    fn attempt(&self) -> Result<(), i32> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let length = self.clock.length().map_or(self.packet.len(), usize::from);
        let (fd, bytes) = (self.socket.as_raw_fd(), &self.packet[..length.min(self.packet.len())]);
        // SAFETY: the packet is valid for reads of its length, and the call does not keep it.
        let sent = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) };
        if sent >= 0 {
            return Ok(());
        }
        // SAFETY: it takes nothing and returns this thread's errno.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: errno lives as long as its thread.
        Err(unsafe { errno.read() })
    }

    fn failed(&mut self, now: Timestamp, error: i32) -> Result<Timestamp, i32> {
        match error {
            libc::EAGAIN => {
                self.retries.reached();
                count(&self.shared.would_block, 1);
            }
            libc::ENOBUFS => {
                self.retries.reached();
                count(&self.shared.no_buffers, 1);
            }
            error if is_about_the_way(error) => {
                self.refused();
                if self.retries.refused(now) {
                    return Err(error);
                }
            }
            error => return Err(error),
        }
        Ok(now + self.retry_after())
    }

    /// Counts an ICMP error, and drains the socket's error queue, if the socket has one.
    fn refused(&self) {
        count(&self.shared.refused, 1);
        // An error of this call cannot be reported here, and the next attempt returns it too.
        let _ = sockopt::drain_errors(self.socket.as_fd());
    }

    fn retry_after(&self) -> Duration {
        Retries::after(self.clock.burst_interval())
    }

    fn end(&self, error: i32) {
        if self.course.ticks == Ticks::Periodic {
            // It would keep interrupting until the program stops it.
            let _ = self.timer.disarm();
        }
        self.shared.error.store(error, Ordering::Relaxed);
        self.shared.over.store(true, Ordering::Release);
    }
}

/// The state that both sides see. Each counter has one writer, the handler.
#[derive(Debug)]
struct Shared {
    ring: Ring,
    over: AtomicBool,
    error: AtomicI32,
    overruns: AtomicU64,
    would_block: AtomicU64,
    no_buffers: AtomicU64,
    refused: AtomicU64,
    unread: AtomicU64,
}

impl Shared {
    fn new(over: bool) -> Self {
        Shared {
            ring: Ring::new(),
            over: AtomicBool::new(over),
            error: AtomicI32::new(0),
            overruns: AtomicU64::new(0),
            would_block: AtomicU64::new(0),
            no_buffers: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unread: AtomicU64::new(0),
        }
    }
}

fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

fn is_about_the_way(error: i32) -> bool {
    // An error made of a number allocates nothing.
    is_about_an_earlier_datagram(&io::Error::from_raw_os_error(error))
}

/// The least time until the next interruption, counted from before the timer is armed. Arming it and
/// returning take a part of that: with 5 µs the program made no progress.
const LEAST_PROGRESS: Duration = Duration::from_micros(15);
/// Where the departure took longer than this, the thread had no CPU meanwhile.
const MOST_PROGRESS: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests;
