//! Ctrl-C, SIGTERM and SIGHUP end a run with its summary; a second one of them ends it at once.
//!
//! All three, in every command: whoever closes a terminal, or stops a service, wants the figures that there are as much as
//! who presses Ctrl-C. Where SIGHUP is ignored from the start, as under `nohup`, it stays ignored.
//!
//! A signal can arrive between looking at a flag and falling asleep, and the sleep then lasts. So
//! there are two views of the same thing: a flag, cheap enough for a busy loop, and a descriptor
//! that becomes readable, for a loop that waits.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use softtimers::HeldSignals;

/// Notices SIGINT, SIGTERM and SIGHUP from [`Interrupt::listen`] on.
#[derive(Debug)]
pub struct Interrupt {
    arrived: Arc<AtomicBool>,
    /// A signal ends the process by itself.
    ends: Arc<AtomicBool>,
    /// The number of the last one.
    last: Arc<AtomicUsize>,
    readable: UnixStream,
    written: UnixStream,
}

/// Ends a run from another thread, as a signal would.
#[derive(Debug)]
pub struct StopHandle {
    arrived: Arc<AtomicBool>,
    written: UnixStream,
}

impl StopHandle {
    /// Ends the run as if a signal had arrived.
    pub fn end(&self) {
        self.arrived.store(true, Ordering::Relaxed);
        // One byte has room, and if not, the descriptor is readable already.
        let _ = (&self.written).write(&[0]);
    }
}

impl Interrupt {
    /// Takes the signals over for the rest of the process's life.
    ///
    /// # Errors
    /// If the system has no descriptors left or refuses the handler.
    pub fn listen() -> io::Result<Self> {
        Interrupt::listen_for(signals(), true)
    }

    /// As [`listen`](Self::listen), but a second signal does nothing by itself until [`end_at_next`](Self::end_at_next):
    /// [`wait`](Self::wait) tells of it.
    ///
    /// # Errors
    /// As [`listen`](Self::listen).
    pub fn listen_each() -> io::Result<Self> {
        Interrupt::listen_for(signals(), false)
    }

    fn listen_for(signals: &[i32], second_kills: bool) -> io::Result<Self> {
        let arrived = Arc::new(AtomicBool::new(false));
        let ends = if second_kills { Arc::clone(&arrived) } else { Arc::default() };
        let last = Arc::new(AtomicUsize::new(SIGINT as usize));
        let (readable, written) = UnixStream::pair()?;
        // signal-hook installs its handler before it notes down what that is to do: what came in between would be lost,
        // and a process can stand still there. No other thread runs yet that could be given the signal instead.
        let held = HeldSignals::hold(signals)?;
        for &signal in signals {
            // With the first of them a signal ends the process no more, so that one must remember it.
            signal_hook::low_level::pipe::register(signal, written.try_clone()?)?;
            // Handlers run in the order they were registered: the first signal finds the flag unset.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&ends))?;
            signal_hook::flag::register_usize(signal, Arc::clone(&last), signal as usize)?;
            signal_hook::flag::register(signal, Arc::clone(&arrived))?;
        }
        drop(held);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut [PollFd::new(&readable, PollFlags::IN)], Some(&at_once)) {
            // A signal that comes only now sets the flag itself.
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => arrived.store(true, Ordering::Relaxed),
            Err(error) => return Err(error.into()),
        }
        Ok(Interrupt { arrived, ends, last, readable, written })
    }

    /// An interrupt that hears no signal, only its [`StopHandle`]: for tests, and for a run inside another one.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn deaf() -> io::Result<Self> {
        Interrupt::listen_for(&[], false)
    }

    /// Shares it with another thread.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn share(&self) -> io::Result<Interrupt> {
        let (readable, written) = (self.readable.try_clone()?, self.written.try_clone()?);
        let [arrived, ends] = [&self.arrived, &self.ends].map(Arc::clone);
        Ok(Interrupt { arrived, ends, last: Arc::clone(&self.last), readable, written })
    }

    /// Returns a handle that ends the run from another thread.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn stop_handle(&self) -> io::Result<StopHandle> {
        Ok(StopHandle { arrived: Arc::clone(&self.arrived), written: self.written.try_clone()? })
    }

    /// Waits for the next signal, or until `over` is readable; returns whether it was a signal. Each signal is reported
    /// once. Only for a run that nobody else waits in.
    ///
    /// # Errors
    /// None that a working kernel gives.
    pub fn wait(&self, over: &impl AsFd) -> io::Result<bool> {
        let mut waited = [PollFd::new(&self.readable, PollFlags::IN), PollFd::new(over, PollFlags::IN)];
        loop {
            match poll(&mut waited, None) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) if waited[0].revents().is_empty() => return Ok(false),
                Ok(_) => return (&self.readable).read(&mut [0]).map(|_| true),
            }
        }
    }

    /// From now on a signal ends the process there and then, whatever its threads wait for.
    pub fn end_at_next(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Returns the exit code that a shell gives a process which the last signal has ended: 130 after SIGINT, and if
    /// there was none.
    pub fn exit_code(&self) -> i32 {
        128 + self.last.load(Ordering::Relaxed) as i32
    }

    /// Returns whether a signal has arrived.
    ///
    /// # Cost
    /// One relaxed load.
    #[inline]
    pub fn arrived(&self) -> bool {
        self.arrived.load(Ordering::Relaxed)
    }
}

/// Readable once a signal has arrived, and from then on.
impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

/// Makes a write beyond the limit on a file's size (`ulimit -f`, systemd's `LimitFSIZE`) an error, as one on a full disk
/// is, instead of the end of the process by SIGXFSZ: a run then ends with its summary, and its files are whole.
///
/// By a handler, not by ignoring the signal: programs that this one starts do not inherit it.
///
/// # Errors
/// If the system refuses the handler.
pub fn survive_file_size_limit() -> io::Result<()> {
    if is_ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), SIGXFSZ) {
        return Ok(());
    }
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// The signals that end a run.
fn signals() -> &'static [i32] {
    let ignored = is_ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), SIGHUP);
    if ignored { &SIGNALS[..2] } else { &SIGNALS }
}

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Says whether a process of this `/proc/PID/status` ignores a signal.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn ignored_signals_are_known() {
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert!(is_ignored(status, SIGHUP) && !is_ignored(status, SIGINT) && !is_ignored("", SIGHUP));
    }

    #[test]
    fn both_views_show_an_end_from_another_thread() {
        let interrupt = Interrupt::deaf().unwrap();
        let stop = interrupt.stop_handle().unwrap();
        std::thread::spawn(move || stop.end()).join().unwrap();
        let timeout = Timespec { tv_sec: 10, tv_nsec: 0 };
        let other = interrupt.share().unwrap();
        for view in [&interrupt, &other] {
            let ready = poll(&mut [PollFd::new(view, PollFlags::IN)], Some(&timeout));
            assert!(view.arrived() && ready == Ok(1));
        }
    }

    /// Serialises the tests: a signal reaches every listener of the process.
    static LISTENING: Mutex<()> = Mutex::new(());

    #[test]
    fn each_signal_is_told_once() {
        let _alone = LISTENING.lock().unwrap();
        let interrupt = Interrupt::listen_each().unwrap();
        let stop = interrupt.stop_handle().unwrap();
        let (ours, over) = UnixStream::pair().unwrap();
        (0..2).for_each(|_| stop.end());
        assert!(interrupt.wait(&over).unwrap() && interrupt.wait(&over).unwrap());
        drop(ours);
        assert!(!interrupt.wait(&over).unwrap() && interrupt.arrived());
    }

    #[test]
    fn both_views_show_a_signal() {
        let _alone = LISTENING.lock().unwrap();
        let interrupt = Interrupt::listen().unwrap();
        let readable = |wait| {
            let timeout = Timespec { tv_sec: wait, tv_nsec: 0 };
            poll(&mut [PollFd::new(&interrupt, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready == 1)
        };
        assert!(!interrupt.arrived() && !readable(0));
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM).unwrap();
        while !interrupt.arrived() {
            std::thread::yield_now();
        }
        assert!(readable(10));
    }
}
