//! The receiver under test: a [`Receiver`], and what its stages share in a trial.

use std::os::unix::net::UnixStream;

use softtimers::Percent;

use super::filter::Filter;
use super::window::Window;
use crate::mode::PollingPlan;

/// A receiver to be measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Receiver {
    /// The policy by which it polls.
    pub looking: PollingPlan,
    /// One thread, or two with a queue between.
    pub stages: u8,
    /// Rules of the filter.
    pub rules: u32,
    /// The share of a CPU that input may have.
    pub cpu_limit: Option<Percent>,
    /// The nice value of the second stage.
    pub nice: u8,
    /// Whether a computation with the nice value 19 competes for its CPU.
    pub computes: bool,
    /// The receive buffer to request, in bytes.
    pub recv_buffer: usize,
}

/// The state that the stages of a trial share.
pub(crate) struct Stage<'a> {
    pub(crate) plan: &'a Receiver,
    pub(crate) filter: &'a Filter,
    pub(crate) window: &'a Window,
    /// Readable when the sender has gone.
    pub(crate) stop: UnixStream,
    /// Told when the receiver counts what its socket drops: nothing is sent before.
    pub(crate) ready: std::sync::mpsc::Sender<()>,
}
