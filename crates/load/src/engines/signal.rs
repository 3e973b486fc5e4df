//! A POSIX timer whose signal interrupts the loop, which only works; the handler sends.
//!
//! ```text
//!   work ──▶ work ─┐   ┌─▶ work …      handler: send, arm for the next
//!                  └─▲─┘               the loop counts its departures later
//! ```

use std::io;
use std::time::Duration;

use softtimers_core::{CatchUp, PaceConfig, Recovery, Strategy};
use softtimers_linux::signal_timer::Ticks;

use super::engine::Engine;
use super::work_loop::WorkLoop;
use crate::session::Session;

/// A one-shot timer, armed by its own handler.
pub(super) const SIGNAL: Engine = Engine {
    drives_several: false,
    ..Engine::new(
        "signal",
        "A POSIX timer, armed for each datagram: its signal interrupts the loop, and its handler sends",
        |session| run(session, Ticks::OneShot),
    )
};

/// A timer that expires at every interval, like the papers' hardware timer. Datagrams of lost ticks are not made up.
pub(super) const TICK: Engine = Engine {
    // Its scheduled times are the ticks, and lost ticks are skipped.
    pace: |pace| PaceConfig {
        strategy: Strategy::FixedSeries,
        catch_up: CatchUp::NONE,
        recovery: Recovery::NONE,
        ..pace
    },
    needs_even_gaps: true,
    drives_several: false,
    ..Engine::new(
        "tick",
        "A POSIX timer that expires at every interval: each signal sends one datagram, lost ticks send nothing",
        |session| run(session, Ticks::Periodic),
    )
};

/// Sends from the handler until the session is over.
fn run(session: &mut Session, ticks: Ticks) -> io::Result<()> {
    session.loop_begins();
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
    session.loop_ends();
    session.waited(waiting);
    if unread > 0 {
        session
            .fallbacks
            .push(format!("the loop fell 4,096 departures behind; the signal's handler postponed {unread}"));
    }
    pacer.error().map_or(Ok(()), Err)
}

/// Short enough for a user who presses Ctrl-C, and too long to cost anything.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);
