//! A video player on three clocks: which frame rates it reaches.
//!
//! ```text
//!   60 frames a second, a clock of 100 Hz
//!   frames due    0     1     2     3     4     5     6
//!   ticks         |   |   |   |   |   |   |   |   |   |   |
//!   player        0           1       3           4       6      2 and 5 are over before it wakes
//! ```
//!
//! `cargo run --release -p softtimers --example player` takes two seconds. The player shows a frame and sleeps until the
//! next one is due (Tsafrir, Etsion, Feitelson 2005, §2.1, figure 1). A kernel that counts time in ticks ends
//! a sleep at a tick, one tick later than the delay needs, because it does not know how much of the present
//! tick is over; this example rounds real sleeps that way. The third player has softtimers and a one-shot
//! timer. `softtimers sim framerate` models the same, without the noise of a machine.

use std::num::NonZeroU32;
use std::time::Duration;
use std::{io, thread};

use softtimers::{Backup, Clock, Config, Monotonic, Slack, SoftTimers, Timestamp, TriggerState};

/// The rates in frames a second.
const RATES: [u32; 5] = [24, 25, 30, 50, 60];
const FILM: Duration = Duration::from_secs(2);

fn main() -> io::Result<()> {
    let clocks =
        [("100 Hz", NonZeroU32::new(100)), ("1000 Hz", NonZeroU32::new(1_000)), ("softtimers", None)];
    // All at once: they sleep nearly all the time.
    let rows = thread::scope(|scope| {
        clocks
            .map(|(_, ticks)| RATES.map(|rate| scope.spawn(move || play(rate, ticks))))
            .map(|row| row.map(|player| player.join().unwrap_or_else(|_| Err(io::Error::other("a panic")))))
    });
    println!("wanted, frames/s  {}", RATES.map(|rate| format!("{rate:>6}")).concat());
    for ((name, _), row) in clocks.into_iter().zip(rows) {
        let mut line = format!("{name:<18}");
        for played in row {
            line += &format!("{:6.1}", f64::from(played?) / FILM.as_secs_f64());
        }
        println!("{line}");
    }
    Ok(())
}

/// Plays the video; returns the number of frames shown before the next one was due.
fn play(rate: u32, ticks: Option<NonZeroU32>) -> io::Result<u32> {
    let frames = rate * FILM.as_secs() as u32;
    let mut sleeper =
        Sleeper { backup: Backup::deadline()?, timers: SoftTimers::new(Config::default()), ticks };
    let start = Monotonic.now();
    let due = |frame: u32| start + Duration::from_secs(1) * frame / rate;
    let (mut frame, mut shown) = (0, 0);
    while frame < frames {
        sleeper.sleep_until(due(frame))?;
        let now = Monotonic.now();
        while due(frame + 1) <= now {
            frame += 1;
        }
        shown += u32::from(frame < frames);
        frame += 1;
    }
    Ok(shown)
}

struct Sleeper {
    backup: Backup,
    timers: SoftTimers<()>,
    /// Ticks per second; `None` for a clock without ticks.
    ticks: Option<NonZeroU32>,
}

impl Sleeper {
    fn sleep_until(&mut self, due: Timestamp) -> io::Result<()> {
        let now = Monotonic.now();
        let due = self.ticks.map_or(due, |ticks| tick_after(now, due, ticks));
        self.timers.schedule_at(now, due, Slack::EXACT, ());
        loop {
            let turn = self.timers.trigger(TriggerState::Backup, Monotonic.now());
            if self.timers.next(&turn).is_some() {
                return Ok(());
            }
            self.backup.arm(Monotonic.now(), self.timers.poll_at())?;
            self.backup.wait()?;
            self.backup.expired()?;
        }
    }
}

/// Returns when a sleep until `due` ends on a clock with ticks.
fn tick_after(now: Timestamp, due: Timestamp, ticks: NonZeroU32) -> Timestamp {
    let tick = 1_000_000_000 / u64::from(ticks.get());
    let delay = due.saturating_duration_since(now).as_nanos() as u64;
    if delay == 0 {
        return now;
    }
    Timestamp::from_nanos((now.as_nanos() / tick + delay.div_ceil(tick) + 1) * tick)
}
