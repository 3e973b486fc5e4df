//! The timers that need nothing of the loop: it only works, while a signal's handler sends on top of
//! it (`signal`, and `tick` with a timer that is periodic) or a second thread beside it (`thread`).
//!
//! ```text
//!   signal   work ──▶ work ─┐   ┌─▶ work …      handler: send, arm for the next
//!                           └─▲─┘               the loop takes the account when it comes by
//!   thread   work ──▶ work ──▶ work ──▶ work …
//!            sleep ─▶ send ─▶ sleep ─▶ send …   clock_nanosleep to an absolute time, 1 ns of slack
//! ```
//!
//! The thread may run wherever this process may. `--cpu` keeps only the loop: a pacing thread that
//! shares the loop's processor waits for it, and what such a thread is good for is another processor.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};
use softtimers::{Clock, Monotonic, TimerSlack, Timestamp, TriggerState};
use softtimers_linux::signal_timer::Ticks;

use super::Session;
use super::flow::Flow;
use super::work_loop::WorkLoop;
use crate::usage::Usage;

/// `--timer signal` and `--timer tick`: sends from the handler until the session is over.
pub(super) fn signal(session: &mut Session, ticks: Ticks) -> io::Result<()> {
    let mut pacer = session.flow.hand_over(session.end, ticks)?;
    let flow = &mut session.flow;
    let mut loop_ = WorkLoop::new(&mut session.work, &session.interrupt, session.end)?;
    // A signal that comes just before the wait does not end it, and it may be the last one.
    loop_.wait_at_most(LONGEST_SLEEP);
    while !pacer.is_over() && loop_.turn()? {
        while let Some(departure) = pacer.take() {
            flow.account(departure);
        }
    }
    let waiting = loop_.waiting();
    let unread = flow.taken_back(&mut pacer);
    while let Some(departure) = pacer.take() {
        flow.account(departure);
    }
    session.waited(waiting);
    if unread > 0 {
        session.fallbacks.push(format!(
            "the loop did not come by for 4,096 departures; the signal's handler put off {unread}"
        ));
    }
    pacer.error().map_or(Ok(()), Err)
}

/// `--timer thread`: sends from a second thread until the session is over.
pub(super) fn thread(session: &mut Session) -> io::Result<()> {
    let (end, anywhere) = (session.end, &session.anywhere);
    let (hung_up, held) = UnixStream::pair()?;
    let (stop, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let thread_lives = ThreadLives { ended: &ended, _held: held };
    let flow = &mut session.flow;
    let mut loop_ = WorkLoop::new(&mut session.work, &session.interrupt, end)?;
    loop_.watch(&hung_up, &ended)?;
    let worked = std::thread::scope(|scope| {
        let pacer = scope.spawn(|| {
            let _thread_lives = thread_lives;
            anywhere.keep()?;
            pace(flow, end, &stop)
        });
        let worked = loop_.run();
        stop.store(true, Ordering::Relaxed);
        let paced = pacer.join().unwrap_or_else(|_| Err(io::Error::other("the pacing thread panicked")));
        worked.and(paced)
    });
    let waiting = loop_.waiting();
    session.beside = worked?;
    session.waited(waiting);
    Ok(())
}

/// Tells the loop that the thread has ended, whatever ended it: by a flag, and by hanging up.
struct ThreadLives<'a> {
    ended: &'a AtomicBool,
    _held: UnixStream,
}

impl Drop for ThreadLives<'_> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// What the thread does; returns what it used.
fn pace(flow: &mut Flow, end: Timestamp, stop: &AtomicBool) -> io::Result<Usage> {
    let _slack = TimerSlack::hold(Duration::from_nanos(1))?;
    let before = Usage::now();
    let mut now = Monotonic.now();
    flow.adopt(now);
    while now < end && !flow.finished() && !stop.load(Ordering::Relaxed) {
        if flow.due() <= now {
            flow.depart(now, TriggerState::Backup)?;
        }
        // In steps, so that an end is noticed although the next datagram is due long after it.
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
        // The clock is looked at in any case.
        Ok(()) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Soon enough for whoever pressed Ctrl-C, seldom enough to cost nothing.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
