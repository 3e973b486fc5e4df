//! Stand-ins for systems without timerfd, which have no soft timers: these types have no values, so the code
//! for Linux compiles everywhere and runs nowhere else.

use std::io;
use std::sync::Arc;
use std::task::Waker;

use softtimers_core::{NotPending, Slack, Timestamp, TriggerState};

use super::{DriverBuilder, DriverStats};

pub(super) fn current() -> Option<Arc<Timers>> {
    None
}

pub(super) fn if_started() -> Option<Arc<Timers>> {
    None
}

pub(super) fn start(_: &DriverBuilder) -> io::Result<Option<Arc<Timers>>> {
    Ok(None)
}

#[derive(Debug)]
pub(crate) enum Timers {}

impl Timers {
    pub(crate) fn set(
        &self,
        _: &mut Registration,
        _: Timestamp,
        _: Timestamp,
        _: Slack,
        _: Waker,
    ) -> Option<Waker> {
        match *self {}
    }

    pub(crate) fn reset(&self, _: &mut Registration, _: Slack, _: Timestamp) -> Result<(), NotPending> {
        match *self {}
    }

    pub(crate) fn cancel(&self, _: &mut Registration) -> Option<Waker> {
        match *self {}
    }

    pub(crate) fn trigger(&self, _: TriggerState, _: Timestamp) -> usize {
        match *self {}
    }

    pub(crate) fn trigger_in_passing(&self, _: Timestamp) {
        match *self {}
    }

    pub(crate) fn check(&self) {
        match *self {}
    }

    pub(crate) fn check_clock(&self, _: Timestamp) {
        match *self {}
    }

    pub(crate) fn stats(&self) -> DriverStats {
        match *self {}
    }
}

/// The timers' side of one timer; it has no values.
#[derive(Debug)]
pub(crate) enum Registration {}

impl Registration {
    pub(crate) fn new() -> Self {
        unreachable!("there are no soft timers here")
    }
}
