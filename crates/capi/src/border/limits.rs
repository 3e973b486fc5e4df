//! Limits on input: whether packets may be taken at all, so that a program under overload still finishes some
//! of its work.
//!
//! Both return the time from which input is open: 0 while it is open, otherwise the time until which it is
//! shut.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::time::Duration;

use softtimers::{Percent, Timestamp};
use softtimers_poll::{CpuLimit, CpuLimitConfig, Feedback, FeedbackConfig, Input, Preset};

use super::clock::SOFTTIMERS_NEVER;
use crate::object::{Errno, Kind, Object};

impl Kind for CpuLimit {
    const NAME: &'static str = "softtimers_cpu_limit";
}

impl Kind for Feedback {
    const NAME: &'static str = "softtimers_feedback";
}

/// Shuts input by the length of a queue (Mogul and Ramakrishnan 1997, section 6.6.1).
pub(crate) type softtimers_feedback = Object<Feedback>;

/// Shuts input when packets have used their share of a CPU (section 7).
pub(crate) type softtimers_cpu_limit = Object<CpuLimit>;

/// Makes the feedback of a queue with room for `capacity` packets: shut at three quarters, open at one, and
/// after four times its drain time. -EINVAL: `out` is NULL, or a capacity of zero. Thread: any; it belongs to
/// the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_feedback_new(
    capacity: u32,
    out: Option<&mut MaybeUninit<*mut softtimers_feedback>>,
) -> c_int {
    Object::make(out, || {
        let config = FeedbackConfig::preset(Preset::Measured, capacity);
        Ok(Feedback::new(config.map_err(|_| Errno::INVALID)?))
    })
}

/// Frees a feedback. Does nothing for NULL. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_feedback_free(feedback: Option<&'static softtimers_feedback>) -> c_int {
    Object::free(feedback)
}

/// Records that packets were put into the queue, or dropped because it was full; `depth` wait now.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_feedback_offered(
    feedback: Option<&softtimers_feedback>,
    now: u64,
    depth: u32,
) -> u64 {
    Object::ask(feedback, SOFTTIMERS_NEVER, |feedback| {
        open_from(feedback.offered(Timestamp::from_nanos(now), depth))
    })
}

/// Records that the consumer took some; `depth` wait now.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_feedback_drained(
    feedback: Option<&softtimers_feedback>,
    now: u64,
    depth: u32,
) -> u64 {
    Object::ask(feedback, SOFTTIMERS_NEVER, |feedback| {
        open_from(feedback.drained(Timestamp::from_nanos(now), depth))
    })
}

/// Returns the time from which input is open. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_feedback_input(feedback: Option<&softtimers_feedback>, now: u64) -> u64 {
    Object::ask(feedback, SOFTTIMERS_NEVER, |feedback| open_from(feedback.input(Timestamp::from_nanos(now))))
}

/// Makes a limit of `percent` of a CPU in each period; 0 for the paper's period of 10 ms. -EINVAL: `out` is
/// NULL, or more than 100 percent. Thread: any; it belongs to the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_cpu_limit_new(
    percent: u32,
    period_ns: u64,
    out: Option<&mut MaybeUninit<*mut softtimers_cpu_limit>>,
) -> c_int {
    Object::make(out, || {
        let share = Percent::new(percent).map_err(|_| Errno::INVALID)?;
        let mut config = CpuLimitConfig::new(share);
        if period_ns != 0 {
            config.period = Duration::from_nanos(period_ns);
        }
        Ok(CpuLimit::new(config))
    })
}

/// Frees a limit. Does nothing for NULL. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_cpu_limit_free(limit: Option<&'static softtimers_cpu_limit>) -> c_int {
    Object::free(limit)
}

/// The handling of packets begins; the thread's CPU time is `cpu_ns`. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_cpu_limit_begin(limit: Option<&softtimers_cpu_limit>, cpu_ns: u64) -> c_int {
    Object::with(limit, |limit| {
        limit.begin(Duration::from_nanos(cpu_ns));
        Ok(0)
    })
}

/// The handling of packets is over; the thread's CPU time is `cpu_ns`. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_cpu_limit_end(
    limit: Option<&softtimers_cpu_limit>,
    now: u64,
    cpu_ns: u64,
) -> u64 {
    Object::ask(limit, SOFTTIMERS_NEVER, |limit| {
        open_from(limit.end(Timestamp::from_nanos(now), Duration::from_nanos(cpu_ns)))
    })
}

/// Returns the time from which input is open. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_cpu_limit_input(limit: Option<&softtimers_cpu_limit>, now: u64) -> u64 {
    Object::ask(limit, SOFTTIMERS_NEVER, |limit| open_from(limit.input(Timestamp::from_nanos(now))))
}

fn open_from(input: Input) -> u64 {
    match input {
        Input::Open => 0,
        Input::Shut(until) => until.as_nanos(),
    }
}
