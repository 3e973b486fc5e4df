//! Stand-ins for systems without timerfd, which have no soft timers: these types have no values, so the code
//! for Linux compiles everywhere and runs nowhere else.

use std::io;
use std::panic::Location;
use std::sync::Arc;
use std::task::Waker;

use softtimers_core::{NotPending, Slack, Timestamp, TriggerState};

use super::{DriverBuilder, DriverStats};

pub(super) fn current(_: Option<&Location<'_>>) -> Option<Arc<Timers>> {
    None
}

pub(super) fn fallen_back() -> u64 {
    0
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

    pub(crate) fn is_shutting_down_here(&self) -> bool {
        match *self {}
    }

    pub(crate) fn is_elsewhere(&self) -> bool {
        match *self {}
    }

    pub(crate) fn has_ended(&self) -> bool {
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
