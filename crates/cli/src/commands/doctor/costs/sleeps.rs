//! Sleeping until a time: its lateness, and its CPU time.

use std::io;
use std::time::Duration;

use softtimers::late::cpu_time;
use softtimers::{Backup, Clock, Monotonic, Timestamp};
use softtimers_measure::distribution::{Distribution, Recorder};

/// Measures how late sleeps of 200 µs end, and the thread's CPU time for each.
pub(super) fn by_timeout() -> io::Result<(Distribution, f64)> {
    sleeps(|due| {
        loop {
            let left = due.saturating_duration_since(Monotonic.now());
            if left.is_zero() {
                return Ok(());
            }
            match rustix::event::poll(&mut [], left.try_into().ok().as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    })
}

/// The same on a timer that is armed for each sleep, waited for and read.
pub(super) fn by_timer() -> io::Result<(Distribution, f64)> {
    let mut timer = Backup::deadline()?;
    sleeps(|due| {
        timer.arm(Monotonic.now(), Some(due))?;
        while Monotonic.now() < due {
            timer.wait()?;
        }
        timer.expired().map(drop)
    })
}

fn sleeps(mut until: impl FnMut(Timestamp) -> io::Result<()>) -> io::Result<(Distribution, f64)> {
    let mut late = Recorder::new();
    let before = cpu_time();
    for _ in 0..SLEEPS {
        let due = Monotonic.now() + SLEEP;
        until(due)?;
        late.record_duration(Monotonic.now().saturating_duration_since(due));
    }
    let used = cpu_time().saturating_sub(before);
    Ok((late.distribution(), used.as_nanos() as f64 / f64::from(SLEEPS)))
}

const SLEEPS: u32 = 500;
const SLEEP: Duration = Duration::from_micros(200);
