//! A POSIX timer whose signal interrupts the thread that made it.
//!
//! Only a signal can interrupt a handler in user space that runs too long. Each expiry costs an interrupt, a
//! signal frame and the return from it.
//!
//! ```text
//!   the thread   ── handler ──────┐           ┌──── continues ───────────▶
//!   timer expires ────────────────▼           │
//!   on the same stack          on_signal: count it, run the hook, errno as it was
//! ```
//!
//! Very little may run there: no allocation, no lock, no panic. So the hook is not a closure of the caller
//! but a function of this crate ([`signal_pacer`](super::signal_pacer) has one), and the public timer only
//! counts.

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, compiler_fence};
use std::time::Duration;

use softtimers_core::Timestamp;

/// A timer that interrupts the thread that made it, with a real-time signal; at most one a thread.
///
/// Use it to measure the cost of an interrupt, or to end a sleep. A program that needs a notification without
/// an interruption uses `softtimers::Backup`.
///
/// While one exists, the signal's handler is ours; dropping the last one restores the previous handler, and
/// each restores its thread's signal mask: the signal is blocked again if it was before, or if the program
/// has blocked it since.
///
/// ```
/// use softtimers_core::Clock;
/// use softtimers_linux::clock::Monotonic;
/// use softtimers_linux::signal_timer::SignalTimer;
///
/// let timer = SignalTimer::new()?;
/// timer.arm_at(Monotonic.now())?;
/// while timer.signals() == 0 {} // interrupted somewhere in here
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SignalTimer {
    id: Id,
    _mask: Mask,
    _handler: Handler,
    /// Not `Send`: the signal goes to this thread, and uses its thread-local state.
    _thread: PhantomData<*const ()>,
}

/// A function to run in the handler, and its data.
#[derive(Debug)]
pub(super) struct Hook {
    pub(super) run: unsafe fn(*mut ()),
    pub(super) data: *mut (),
}

/// The state that the handler needs. Constant and without a destructor, so that touching it there never allocates or
/// registers anything.
struct Thread {
    /// Set while this thread has a timer.
    owned: AtomicU64,
    signals: AtomicU64,
    hook: AtomicPtr<Hook>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread { owned: AtomicU64::new(0), signals: AtomicU64::new(0), hook: AtomicPtr::new(ptr::null_mut()) }
    };
}

impl SignalTimer {
    /// Makes a disarmed timer for this thread.
    ///
    /// # Errors
    /// `AlreadyExists` if this thread has one; `AddrInUse` if the program handles the signal itself;
    /// or if the kernel refuses another timer.
    pub fn new() -> io::Result<Self> {
        if THREAD.with(|thread| thread.owned.swap(1, Ordering::Relaxed)) != 0 {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "this thread has a signal timer; one is allowed",
            ));
        }
        let timer = Self::make();
        if timer.is_err() {
            THREAD.with(|thread| thread.owned.store(0, Ordering::Relaxed));
        }
        timer
    }

    fn make() -> io::Result<Self> {
        THREAD.with(|thread| thread.signals.store(0, Ordering::Relaxed));
        // The handler first and the timer last: an error in between undoes the previous steps.
        let handler = Handler::install()?;
        let mask = Mask::admit()?;
        Ok(SignalTimer { id: Id::create()?, _mask: mask, _handler: handler, _thread: PhantomData })
    }

    /// Interrupts once, at `due`: at once if that is past. Replaces the previous setting.
    ///
    /// # Errors
    /// None that a working kernel gives.
    pub fn arm_at(&self, due: Timestamp) -> io::Result<()> {
        self.id.arm_at(due)
    }

    /// Interrupts at `first` and every `period` after it, without being armed again. Replaces the previous
    /// setting.
    ///
    /// # Errors
    /// `InvalidInput` if `period` is zero.
    pub fn arm_periodic(&self, first: Timestamp, period: Duration) -> io::Result<()> {
        if period.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a period of 0 ns; at least 1 ns is needed",
            ));
        }
        self.id.set(first.as_nanos(), period)
    }

    /// Stops the interrupts.
    ///
    /// # Errors
    /// None that a working kernel gives.
    pub fn disarm(&self) -> io::Result<()> {
        self.id.disarm()
    }

    /// Returns the number of signals handled since the timer was made.
    ///
    /// # Cost
    /// One relaxed load.
    pub fn signals(&self) -> u64 {
        THREAD.with(|thread| thread.signals.load(Ordering::Relaxed))
    }

    /// Returns the further expiries of a periodic timer that the last signal stands for.
    pub fn overruns(&self) -> u64 {
        self.id.overruns()
    }

    /// Returns the timer's id, for a hook that arms it again.
    pub(super) fn id(&self) -> Id {
        self.id
    }

    /// Runs `hook` in the handler from now on; null for none.
    ///
    /// # Safety
    /// `hook` stays valid until another one has been set or the timer has been dropped, and its
    /// function may be called with its data at any point of this thread until then, by a stray signal
    /// also before the timer is armed: it neither allocates nor locks nor panics.
    pub(super) unsafe fn hook(&self, hook: *mut Hook) {
        THREAD.with(|thread| thread.hook.store(hook, Ordering::Release));
        // The store orders the accesses before it, not those after it: the compiler could read or free the
        // former hook's data while a signal can still run it. The handler is on this thread, so a compiler
        // fence suffices.
        compiler_fence(Ordering::SeqCst);
    }
}

impl Drop for SignalTimer {
    fn drop(&mut self) {
        self.id.delete();
        // Signals sent until now are delivered when this returns, also if the program has blocked them
        // since: one left for the handler of before, most often none, would end the process.
        let _since = Mask::admit();
        THREAD.with(|thread| {
            thread.hook.store(ptr::null_mut(), Ordering::Release);
            thread.owned.store(0, Ordering::Relaxed);
        });
    }
}

extern "C" fn on_signal(_: libc::c_int) {
    // SAFETY: it takes nothing and returns this thread's errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: errno lives as long as its thread.
    let before = unsafe { errno.read() };
    let _ = THREAD.try_with(|thread| {
        thread.signals.fetch_add(1, Ordering::Relaxed);
        let hook = thread.hook.load(Ordering::Acquire);
        // SAFETY: null or valid, as promised to `SignalTimer::hook`.
        if let Some(hook) = unsafe { hook.as_ref() } {
            // SAFETY: this thread may be interrupted by it anywhere, as promised there.
            unsafe { (hook.run)(hook.data) };
        }
    });
    // SAFETY: as above; the hook's system calls must not change the interrupted program's errno.
    unsafe { errno.write(before) };
}

/// A kernel timer that signals this thread, or the process. Copies name the same timer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Id(libc::timer_t);

impl Id {
    fn create() -> io::Result<Self> {
        // SAFETY: all zeros is a valid `sigevent`.
        let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal();
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        Self::with(event)
    }

    /// Makes one that signals the process: any thread that does not block the signal.
    pub(super) fn of_process(signal: libc::c_int) -> io::Result<Self> {
        // SAFETY: all zeros is a valid `sigevent`.
        let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = signal;
        Self::with(event)
    }

    fn with(mut event: libc::sigevent) -> io::Result<Self> {
        let mut id: libc::timer_t = ptr::null_mut();
        // SAFETY: the event is valid for reads and the id for writes; neither is kept.
        let created = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut id) };
        if created == 0 { Ok(Id(id)) } else { Err(io::Error::last_os_error()) }
    }

    /// As [`SignalTimer::arm_at`]; may be called from the handler.
    pub(super) fn arm_at(self, due: Timestamp) -> io::Result<()> {
        self.set(due.as_nanos(), Duration::ZERO)
    }

    /// As [`SignalTimer::disarm`]; may be called from the handler.
    pub(super) fn disarm(self) -> io::Result<()> {
        self.set_raw(Duration::ZERO, Duration::ZERO)
    }

    fn set(self, first: u64, period: Duration) -> io::Result<()> {
        // The kernel reads zero as "disarm". The epoch is past anyway, and so is 1 ns after it.
        self.set_raw(Duration::from_nanos(first.max(1)), period)
    }

    fn set_raw(self, value: Duration, interval: Duration) -> io::Result<()> {
        let spec = libc::itimerspec { it_value: timespec(value), it_interval: timespec(interval) };
        // SAFETY: the timer exists as long as its owner; the times are valid for reads, and the old ones are
        // not requested.
        let set =
            unsafe { libc::timer_settime(self.0, libc::TIMER_ABSTIME, &raw const spec, ptr::null_mut()) };
        if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// As [`SignalTimer::overruns`]; may be called from the handler.
    pub(super) fn overruns(self) -> u64 {
        // SAFETY: the timer exists as long as its owner.
        let overruns = unsafe { libc::timer_getoverrun(self.0) };
        u64::try_from(overruns).unwrap_or(0)
    }

    /// Deletes the timer; call it once, in the destructor of its only owner.
    pub(super) fn delete(self) {
        // SAFETY: called once, by the destructor of the timer's only owner.
        unsafe { libc::timer_delete(self.0) };
    }
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// The signal's handler, ours as long as one of these exists.
#[derive(Debug)]
struct Handler;

/// The number of handlers, and the action before the first.
static HANDLERS: Mutex<(usize, Option<libc::sigaction>)> = Mutex::new((0, None));

impl Handler {
    fn install() -> io::Result<Self> {
        let mut handlers = HANDLERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if handlers.0 == 0 {
            // SAFETY: all zeros is a valid `sigaction`: the default action, and no signal blocked.
            let mut ours: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            ours.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
            // Restarts calls that can be restarted; timed waits return to their loop.
            ours.sa_flags = libc::SA_RESTART;
            // Only query at first: the program's own handler must not miss a signal meanwhile.
            let found = exchange(None)?;
            if found.sa_sigaction != libc::SIG_DFL && found.sa_sigaction != libc::SIG_IGN {
                return Err(io::Error::new(
                    io::ErrorKind::AddrInUse,
                    format!("signal {} is handled by the program already", signal()),
                ));
            }
            handlers.1 = Some(exchange(Some(&ours))?);
        }
        handlers.0 += 1;
        Ok(Handler)
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        let mut handlers = HANDLERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        handlers.0 -= 1;
        if handlers.0 > 0 {
            return;
        }
        if let Some(before) = handlers.1.take() {
            // The kernel does not refuse an action that it reported.
            let _ = exchange(Some(&before));
        }
    }
}

/// Sets a new action, if given, and returns the previous one.
fn exchange(new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    let new = new.map_or(ptr::null(), ptr::from_ref);
    let mut old = MaybeUninit::uninit();
    // SAFETY: the new action is null or valid for reads, and its handler does only what is allowed in
    // one; the old one is valid for writes.
    let done = unsafe { libc::sigaction(signal(), new, old.as_mut_ptr()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled in by the call, which succeeded.
    Ok(unsafe { old.assume_init() })
}

/// This thread's signal mask as it was before our signal was let through.
#[derive(Debug)]
struct Mask(libc::sigset_t);

impl Mask {
    fn admit() -> io::Result<Self> {
        let mut before = MaybeUninit::uninit();
        // SAFETY: the set is initialised, and the old one valid for writes.
        let done = unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &only_ours(), before.as_mut_ptr()) };
        if done != 0 {
            return Err(io::Error::from_raw_os_error(done));
        }
        // SAFETY: filled in by the call, which succeeded.
        Ok(Mask(unsafe { before.assume_init() }))
    }
}

impl Drop for Mask {
    /// Restores only our signal's bit: the program may have changed others meanwhile.
    fn drop(&mut self) {
        // SAFETY: the set is initialised.
        if unsafe { libc::sigismember(&raw const self.0, signal()) } != 1 {
            return;
        }
        // SAFETY: the set is initialised; the old one is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &only_ours(), ptr::null_mut()) };
    }
}

/// The set of our signal alone.
fn only_ours() -> libc::sigset_t {
    let mut only = MaybeUninit::uninit();
    // SAFETY: valid for writes.
    unsafe { libc::sigemptyset(only.as_mut_ptr()) };
    // SAFETY: initialised by the call above.
    unsafe { libc::sigaddset(only.as_mut_ptr(), signal()) };
    // SAFETY: as above.
    unsafe { only.assume_init() }
}

/// One of the real-time signals, which nothing uses by default; the first few are debuggers'
/// and run-time libraries' favourites.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 5
}

/// Sends this thread the signal as another program might, while a timer exists.
#[cfg(test)]
pub(super) fn raise_own() {
    assert_eq!(THREAD.with(|thread| thread.owned.load(Ordering::Relaxed)), 1, "it would end the process");
    // SAFETY: the handler is ours.
    unsafe { libc::raise(signal()) };
}

/// Keeps the signal pending from here on.
#[cfg(test)]
fn block() {
    // SAFETY: the set is initialised; the old one is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &only_ours(), ptr::null_mut()) };
}

/// Runs `section` with the signal blocked, as a program might.
#[cfg(test)]
pub(super) fn with_own_blocked(section: impl FnOnce()) {
    block();
    section();
    // SAFETY: the set is initialised; the old one is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &only_ours(), ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use softtimers_core::Clock;

    use super::*;
    use crate::clock::Monotonic;

    fn spin_until(mut done: impl FnMut() -> bool) -> bool {
        let patience = Monotonic.now() + Duration::from_secs(30);
        while !done() {
            if Monotonic.now() > patience {
                return false;
            }
        }
        true
    }

    fn blocked() -> bool {
        let mut now = MaybeUninit::uninit();
        // SAFETY: the old mask is valid for writes; no new one is given.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), now.as_mut_ptr()) };
        // SAFETY: filled in by the call.
        unsafe { libc::sigismember(now.as_ptr(), signal()) == 1 }
    }

    fn pending() -> bool {
        let mut now = MaybeUninit::uninit();
        // SAFETY: the set is valid for writes.
        unsafe { libc::sigpending(now.as_mut_ptr()) };
        // SAFETY: filled in by the call.
        unsafe { libc::sigismember(now.as_ptr(), signal()) == 1 }
    }

    #[test]
    fn a_busy_thread_is_interrupted_once_and_never_early() {
        let timer = SignalTimer::new().unwrap();
        for (round, micros) in [0, 50, 2_000].into_iter().enumerate() {
            let due = Monotonic.now() + Duration::from_micros(micros);
            timer.arm_at(due).unwrap();
            assert!(spin_until(|| timer.signals() == round as u64 + 1));
            assert!(Monotonic.now() >= due);
        }
        timer.arm_at(Timestamp::ZERO).unwrap();
        assert!(spin_until(|| timer.signals() == 4), "the epoch is past, not a reason to disarm");
        timer.arm_at(Monotonic.now() + Duration::from_secs(3_600)).unwrap();
        timer.disarm().unwrap();
        assert_eq!(timer.signals(), 4);
    }

    #[test]
    fn a_period_goes_on_and_zero_is_refused() {
        let timer = SignalTimer::new().unwrap();
        let (first, period) = (Monotonic.now(), Duration::from_micros(500));
        timer.arm_periodic(first, period).unwrap();
        let mut overruns = 0;
        assert!(spin_until(|| {
            overruns = overruns.max(timer.overruns());
            timer.signals() >= 5
        }));
        timer.disarm().unwrap();
        let passed = Monotonic.now().saturating_duration_since(first);
        assert!(passed >= period * 4 || overruns > 0, "five expiries take four periods");
        assert!(timer.arm_periodic(first, Duration::ZERO).is_err());
    }

    /// Periodic, because the first signal may come before the thread sleeps.
    #[test]
    fn a_sleep_is_ended_by_it() {
        let timer = SignalTimer::new().unwrap();
        let period = Duration::from_millis(5);
        timer.arm_periodic(Monotonic.now() + period, period).unwrap();
        let long = rustix::time::Timespec { tv_sec: 30, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut [], Some(&long)), Err(rustix::io::Errno::INTR));
        assert!(timer.signals() >= 1);
    }

    #[test]
    fn one_a_thread_and_the_mask_is_restored() {
        // Its own thread, because it blocks the signal for all timers made there.
        std::thread::spawn(|| {
            let first = SignalTimer::new().unwrap();
            assert_eq!(SignalTimer::new().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            drop(first);
            assert!(!blocked());
            block();
            let second = SignalTimer::new().unwrap();
            assert!(!blocked());
            second.arm_at(Timestamp::ZERO).unwrap();
            assert!(spin_until(|| second.signals() == 1));
            drop(second);
            assert!(blocked());
        })
        .join()
        .unwrap();
    }

    /// The signal's own action is to end the process.
    #[test]
    fn a_signal_that_the_program_has_blocked_does_not_outlive_the_handler() {
        std::thread::spawn(|| {
            let timer = SignalTimer::new().unwrap();
            block();
            raise_own();
            assert!(pending());
            drop(timer);
            assert!(!pending() && blocked());
        })
        .join()
        .unwrap();
    }

    /// The program's own handler stays in place during the query.
    #[test]
    fn asking_for_the_action_does_not_change_it() {
        let _timer = SignalTimer::new().unwrap();
        let ours = exchange(None).unwrap().sa_sigaction;
        assert_eq!(ours, on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t);
        assert_eq!(exchange(None).unwrap().sa_sigaction, ours);
    }
}
