//! The cost of a hardware timer to a computing program (soft timers §5.1): the same work is done with and without one,
//! and the additional time is divided by the expiries.
//!
//! ```text
//!   without   ███████████████████████
//!   with      ██████╷██████╷█████╷██████╷███      work + n × (interrupt, signal, handler, return)
//! ```
//!
//! The handler only counts, so this is the cost of the interruption alone. The runs of a pair are adjacent in time, and
//! the median pair decides, because a virtual machine's speed drifts.

use std::hint::black_box;
use std::io;
use std::time::Duration;

use softtimers::late::cpu_time;
use softtimers::{Clock, Monotonic};
use softtimers_linux::signal_timer::SignalTimer;
use softtimers_measure::estimate::median;

/// Returns the CPU time that one expiry takes from the work, in nanoseconds, at 10,000 expiries a second.
pub(super) fn cpu_taken() -> io::Result<f64> {
    let timer = SignalTimer::new()?;
    let pieces = pieces_in(STRETCH);
    let mut taken = Vec::new();
    for _ in 0..PAIRS {
        let without = work(pieces);
        let before = timer.signals();
        timer.arm_periodic(Monotonic.now() + PERIOD, PERIOD)?;
        let with = work(pieces);
        timer.disarm()?;
        let signals = timer.signals() - before;
        if signals > 0 {
            taken.push((with.as_nanos() as f64 - without.as_nanos() as f64) / signals as f64);
        }
    }
    // On a machine that was busy otherwise it may be negative, which is not a cost.
    median(taken)
        .map(|median| median.max(0.0))
        .ok_or_else(|| io::Error::other("a timer of 100 us did not interrupt 10 ms of work"))
}

/// Returns the number of pieces of work that take about this long.
fn pieces_in(time: Duration) -> u32 {
    let sample = 1_000;
    let piece = (work(sample).as_nanos() / u128::from(sample)).max(1);
    u32::try_from(time.as_nanos() / piece).unwrap_or(u32::MAX)
}

/// Works, and returns the CPU time.
fn work(pieces: u32) -> Duration {
    let before = cpu_time();
    let mut state = 1u64;
    for _ in 0..pieces {
        for _ in 0..PIECE {
            state = black_box(state.wrapping_mul(0x5851_f42d_4c95_7f2d).rotate_left(23));
        }
    }
    cpu_time().saturating_sub(before)
}

/// Often enough to be measured, and rarely enough to leave most of the CPU to the work.
const PERIOD: Duration = Duration::from_micros(100);
/// The time of a hundred expiries.
const STRETCH: Duration = Duration::from_millis(10);
const PAIRS: usize = 15;
const PIECE: u32 = 100;
