//! A plain loop that only works: the baseline `off`, also used next to a signal's handler or a second thread that
//! sends. It does no timing, so that others are compared with a loop without any.
//!
//! ```text
//!   serves     wait ─▶ group ─▶ group ─▶ … ─▶ wait      no clock: its end is a descriptor, too
//!   computes   piece ─▶ piece ─▶ … ─▶ piece ─▶ clock    no wait: its end is seen at every 16th piece
//!   looks      piece ─▶ wait(0) ─▶ piece ─▶ wait(0)     computes, and asks its descriptors after each piece
//! ```

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use softtimers::epoll::{Epoll, EventFlags, Events, Waiting};
use softtimers::{Backup, Monotonic};
use softtimers_core::{Clock, Timestamp};
use softtimers_measure::interrupt::Interrupt;

use crate::session::Session;
use crate::work::{VISIT, Workload};

const ECHO: u64 = 0;
const OTHER: u64 = 1;

/// Whether a computing loop polls its descriptors after each piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Descriptors {
    /// No: it makes no system call.
    Unseen,
    /// Yes, as a loop must whose timer is a descriptor.
    Asked,
}

/// Does only the work until the session is over.
pub(crate) fn run(session: &mut Session, descriptors: Descriptors) -> io::Result<()> {
    session.loop_begins();
    let mut plain = WorkLoop::new(&mut session.work, &session.interrupt, session.end)?;
    plain.descriptors = descriptors;
    plain.run()?;
    let waiting = plain.waiting();
    session.loop_ends();
    session.waited(waiting);
    Ok(())
}

/// A loop that does the work, and keeps no time except its end.
pub(crate) struct WorkLoop<'a> {
    work: &'a mut Workload,
    interrupt: &'a Interrupt,
    end: Timestamp,
    /// Readable at the end of the run.
    _timer: Backup,
    stop: Option<&'a AtomicBool>,
    longest_wait: Option<Duration>,
    descriptors: Descriptors,
    pieces: u32,
    epoll: Epoll,
    events: Events,
}

impl<'a> WorkLoop<'a> {
    pub(crate) fn new(work: &'a mut Workload, interrupt: &'a Interrupt, end: Timestamp) -> io::Result<Self> {
        let epoll = Epoll::new(Waiting::Pwait2)?;
        let mut timer = Backup::deadline()?;
        timer.arm(Monotonic.now(), Some(end).filter(|&end| end < Timestamp::MAX))?;
        epoll.add(timer.as_fd(), OTHER, EventFlags::IN)?;
        epoll.add(interrupt.as_fd(), OTHER, EventFlags::IN)?;
        if let Workload::Echo(echo) = &*work {
            epoll.add(echo.as_fd(), ECHO, EventFlags::IN)?;
        }
        Ok(WorkLoop {
            work,
            interrupt,
            end,
            _timer: timer,
            stop: None,
            longest_wait: None,
            descriptors: Descriptors::Unseen,
            pieces: 0,
            epoll,
            events: Events::with_capacity(16),
        })
    }

    /// Ends the loop when `source` is readable or hung up; `stop` tells a loop that does not wait.
    pub(crate) fn watch(&mut self, source: &impl AsFd, stop: &'a AtomicBool) -> io::Result<()> {
        self.stop = Some(stop);
        self.epoll.add(source.as_fd(), OTHER, EventFlags::IN)
    }

    /// Returns from a wait after this time at the latest.
    pub(crate) fn wait_at_most(&mut self, time: Duration) {
        self.longest_wait = Some(time);
    }

    pub(crate) fn run(&mut self) -> io::Result<()> {
        while self.turn()? {}
        Ok(())
    }

    /// Does one wait and the work it found, or computes one piece; returns whether to go on. A signal ends the wait
    /// with nothing found.
    pub(crate) fn turn(&mut self) -> io::Result<bool> {
        let computes = matches!(self.work, Workload::Compute(_));
        if computes && self.descriptors == Descriptors::Unseen {
            return Ok(self.piece());
        }
        let timeout = if computes { Some(Duration::ZERO) } else { self.longest_wait };
        self.epoll.wait(&mut self.events, timeout)?;
        if self.events.iter().any(|event| event.token == OTHER) {
            return Ok(false);
        }
        let mut left = if self.events.is_empty() { 0 } else { VISIT };
        while left > 0 && self.work.serve_group(&mut left)? {}
        self.work.compute_piece();
        Ok(true)
    }

    fn piece(&mut self) -> bool {
        self.work.compute_piece();
        self.pieces = self.pieces.wrapping_add(1);
        let stopped = self.interrupt.arrived() || self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        !stopped && (!self.pieces.is_multiple_of(PIECES_PER_READING) || Monotonic.now() < self.end)
    }

    pub(crate) fn waiting(&self) -> Waiting {
        self.epoll.waiting()
    }
}

/// Some 50 µs, for which the cost of a clock reading is negligible.
const PIECES_PER_READING: u32 = 16;
