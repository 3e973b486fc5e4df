//! Where there is no timerfd there are no soft timers: this type has no values, so what is written for Linux is
//! checked by the compiler everywhere and runs nowhere else.

use std::io;
use std::sync::Arc;
use std::task::Waker;

use softtimers_core::{Idle, NotPending, Slack, TimerId, Timestamp, TriggerState};

use super::DriverStats;

#[derive(Debug)]
pub(crate) enum Timers {}

impl Timers {
    pub(crate) fn current() -> Option<Arc<Timers>> {
        None
    }

    pub(crate) fn if_started() -> Option<Arc<Timers>> {
        None
    }

    pub(crate) fn start(_: Idle) -> io::Result<Option<Arc<Timers>>> {
        Ok(None)
    }

    pub(crate) fn schedule(&self, _: Timestamp, _: Timestamp, _: Slack, _: Waker) -> TimerId {
        match *self {}
    }

    pub(crate) fn reschedule(
        &self,
        _: Timestamp,
        _: TimerId,
        _: Timestamp,
        _: Slack,
    ) -> Result<(), NotPending> {
        match *self {}
    }

    pub(crate) fn cancel(&self, _: TimerId) -> Option<Waker> {
        match *self {}
    }

    pub(crate) fn trigger(&self, _: TriggerState, _: Timestamp) -> usize {
        match *self {}
    }

    pub(crate) fn check(&self) {
        match *self {}
    }

    pub(crate) fn stats(&self) -> DriverStats {
        match *self {}
    }
}
