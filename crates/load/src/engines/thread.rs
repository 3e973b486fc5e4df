//! A second thread that sleeps until each datagram is due and sends it; the loop only works.
//!
//! ```text
//!   loop     work ──▶ work ──▶ work ──▶ work …
//!   thread   sleep ─▶ send ─▶ sleep ─▶ send …   clock_nanosleep to an absolute time, 1 ns of slack
//! ```
//!
//! The thread may run on any CPU of this process. `--cpu` pins only the loop: a pacing thread that shares the loop's
//! CPU has to wait for it, and such threads are meant for another CPU.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};
use softtimers::{Monotonic, TimerSlack};
use softtimers_core::{Clock, Timestamp, TriggerState};
use softtimers_measure::usage::Usage;

use super::engine::Engine;
use super::work_loop::WorkLoop;
use crate::session::{Flow, Session};

/// A second thread that sends.
pub(super) const THREAD: Engine = Engine::new(
    "thread",
    "A second thread that sleeps until each datagram is due and sends it (clock_nanosleep)",
    run,
);

/// Sends from a second thread until the session is over.
fn run(session: &mut Session) -> io::Result<()> {
    session.loop_begins();
    let (end, anywhere) = (session.end, &session.anywhere);
    let (hung_up, held) = UnixStream::pair()?;
    let (stop, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let thread_lives = ThreadLives { ended: &ended, _held: held };
    let flow = &mut session.flow;
    let mut loop_ = WorkLoop::new(&mut session.work, &session.interrupt, end)?;
    loop_.watch(&hung_up, &ended)?;
    let worked = thread::scope(|scope| {
        let pacer = thread::Builder::new().name("pacer".to_owned()).spawn_scoped(scope, || {
            let _thread_lives = thread_lives;
            anywhere.keep()?;
            pace(flow, end, &stop)
        })?;
        let worked = loop_.run();
        stop.store(true, Ordering::Relaxed);
        let paced = pacer.join().unwrap_or_else(|_| Err(io::Error::other("the pacing thread panicked")));
        worked.and(paced)
    });
    let waiting = loop_.waiting();
    session.beside = worked?;
    session.loop_ends();
    session.waited(waiting);
    Ok(())
}

/// Tells the loop that the thread has ended, for whatever reason: by a flag, and by hanging up.
struct ThreadLives<'a> {
    ended: &'a AtomicBool,
    _held: UnixStream,
}

impl Drop for ThreadLives<'_> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Runs the thread; returns its usage.
fn pace(flow: &mut Flow, end: Timestamp, stop: &AtomicBool) -> io::Result<Usage> {
    let _slack = TimerSlack::hold(Duration::from_nanos(1))?;
    let before = Usage::now();
    let mut now = Monotonic.now();
    flow.adopt(now);
    while now < end && !flow.finished() && !stop.load(Ordering::Relaxed) {
        if flow.due() <= now {
            flow.depart(now, TriggerState::Backup)?;
        }
        // Sleep in steps, so that an end is noticed even if the next datagram is due long after it.
        let wake = flow.due().min(end).min(now + LONGEST_SLEEP);
        sleep_until(wake)?;
        now = Monotonic.now();
    }
    Ok(Usage::now().since(&before))
}

fn sleep_until(wake: Timestamp) -> io::Result<()> {
    let wake = Timespec::try_from(Duration::from_nanos(wake.as_nanos()))
        .unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
    match clock_nanosleep_absolute(ClockId::Monotonic, &wake) {
        // The clock is checked in either case.
        Ok(()) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Short enough for a user who presses Ctrl-C, and too long to cost anything.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
