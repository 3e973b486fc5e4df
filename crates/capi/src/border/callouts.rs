//! The callouts of a BSD kernel (Costello and Varghese 1998): calls at a later tick, by function and argument or by handle.
//!
//! `softtimers_tick` counts a tick and returns whether softclock is wanted; `softtimers_softclock` makes the
//! due calls; `softtimers_hardclock` does both unless something is held. Calls are made by the header, in C.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use softtimers::Step;
use softtimers::bsd::{Callouts, Handle};

use super::clock::{softtimers_call, softtimers_function};
use crate::object::{Errno, Kind, Object};

impl Kind for Callouts<softtimers_call> {
    const NAME: &'static str = "softtimers_callouts";
}

/// A set of callouts.
pub(crate) type softtimers_callouts = Object<Callouts<softtimers_call>>;

/// Counters of a set of callouts.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct softtimers_callout_stats {
    /// Ticks that have passed.
    pub(crate) ticks: u64,
    /// Ticks after which softclock was wanted.
    pub(crate) raised: u64,
    /// Calls that were handed out.
    pub(crate) called: u64,
    /// The ticks by which softclock is behind.
    pub(crate) lag: u64,
    /// The greatest value of `lag` so far.
    pub(crate) most_lag: u64,
    /// Callouts that are set.
    pub(crate) pending: u64,
    /// Callouts among those that were set without a handle.
    pub(crate) hashed: u64,
}

impl From<softtimers_call> for [usize; 2] {
    fn from(call: softtimers_call) -> Self {
        [call.function.map_or(0, |function| function as usize), call.argument as usize]
    }
}

/// Makes an empty set of callouts.
/// -EINVAL: `out` is NULL.
/// Thread: any; it belongs to the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_callouts_new(out: Option<&mut MaybeUninit<*mut softtimers_callouts>>) -> c_int {
    Object::make(out, || Ok(Callouts::new(softtimers::bsd::owner())))
}

/// Frees a set of callouts without calling them. Does nothing for NULL. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_callouts_free(callouts: Option<&'static softtimers_callouts>) -> c_int {
    Object::free(callouts)
}

/// Schedules `function(argument)` after `ticks` ticks; zero is taken as one. The same call may be set several
/// times. O(1) on average. -EINVAL: no function. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_timeout(
    callouts: Option<&softtimers_callouts>,
    function: softtimers_function,
    argument: *mut c_void,
    ticks: u64,
) -> c_int {
    Object::with(callouts, |callouts| {
        callouts.timeout(callout(function, argument)?, ticks);
        Ok(0)
    })
}

/// Cancels the callout with this function and argument that was set last: 1, or 0 if there is none, which
/// costs the same. Ignores those with a handle. -EINVAL: no function. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_untimeout(
    callouts: Option<&softtimers_callouts>,
    function: softtimers_function,
    argument: *mut c_void,
) -> c_int {
    Object::with(callouts, |callouts| {
        let call = callout(function, argument)?;
        Ok(callouts.untimeout(&call).is_some().into())
    })
}

/// As `softtimers_timeout`, to be cancelled by the handle that is written to `handle`. O(1).
/// -EINVAL: no function, or no `handle`.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_setcallout(
    callouts: Option<&softtimers_callouts>,
    function: softtimers_function,
    argument: *mut c_void,
    ticks: u64,
    handle: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    Object::with(callouts, |callouts| {
        let out = handle.ok_or(Errno::INVALID)?;
        let handle = callouts.setcallout(callout(function, argument)?, ticks);
        out.write(handle.to_bits());
        Ok(0)
    })
}

/// Cancels the callout of a handle. O(1).
/// -EINVAL: an invalid handle: called, cancelled, of another set, invented. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_unsetcallout(callouts: Option<&softtimers_callouts>, handle: u64) -> c_int {
    Object::with(callouts, |callouts| {
        callouts.unsetcallout(Handle::from_bits(handle)).ok_or(Errno::INVALID)?;
        Ok(0)
    })
}

/// Counts a tick of the clock: 1 if softclock is wanted, because a call is due or was left from before,
/// otherwise 0. A compare while nothing is near. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_tick(callouts: Option<&softtimers_callouts>) -> c_int {
    Object::with(callouts, |callouts| Ok(callouts.tick().into()))
}

/// Returns the next due call: 1 and writes it to `call`, or 0 when all have been handed out. It is no longer
/// set then, and may set itself again. -EINVAL: no `call`. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_softclock_next(
    callouts: Option<&softtimers_callouts>,
    call: Option<&mut MaybeUninit<softtimers_call>>,
) -> c_int {
    Object::with(callouts, |callouts| {
        let out = call.ok_or(Errno::INVALID)?;
        let call = callouts.softclock();
        Ok(call
            .is_some_and(|call| {
                out.write(call);
                true
            })
            .into())
    })
}

/// As `softtimers_softclock_next`, in pieces of a few microseconds at most, so that a lock may be released
/// between two: 1 and the call is written to `call`, 2 if there may be more to do, 0 when all have been
/// handed out. -EINVAL: no `call`. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_softclock_step(
    callouts: Option<&softtimers_callouts>,
    call: Option<&mut MaybeUninit<softtimers_call>>,
) -> c_int {
    Object::with(callouts, |callouts| {
        let out = call.ok_or(Errno::INVALID)?;
        Ok(match callouts.step() {
            Step::Fired(call) => {
                out.write(call);
                1
            }
            Step::MoreWork => 2,
            Step::Done => 0,
        })
    })
}

/// Makes ticks only count until `softtimers_release`: `softtimers_hardclock` calls nothing. May be nested. 1
/// if something was held before, otherwise 0. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_hold(callouts: Option<&softtimers_callouts>) -> c_int {
    Object::with(callouts, |callouts| {
        let before = callouts.is_held();
        callouts.hold();
        Ok(before.into())
    })
}

/// Ends a `softtimers_hold`: 1 if softclock should run now, because it is wanted and nothing else is held.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_release(callouts: Option<&softtimers_callouts>) -> c_int {
    Object::with(callouts, |callouts| Ok(callouts.release().into()))
}

/// Counters since the beginning.
/// -EINVAL: no `stats`.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_callouts_stats(
    callouts: Option<&softtimers_callouts>,
    stats: Option<&mut MaybeUninit<softtimers_callout_stats>>,
) -> c_int {
    Object::with(callouts, |callouts| {
        let out = stats.ok_or(Errno::INVALID)?;
        let stats = callouts.stats();
        out.write(softtimers_callout_stats {
            ticks: stats.ticks,
            raised: stats.raised,
            called: stats.called,
            lag: callouts.lag(),
            most_lag: stats.most_lag,
            pending: callouts.len() as u64,
            hashed: callouts.hashed() as u64,
        });
        Ok(0)
    })
}

fn callout(function: softtimers_function, argument: *mut c_void) -> Result<softtimers_call, Errno> {
    if function.is_some() { Ok(softtimers_call { function, argument }) } else { Err(Errno::INVALID) }
}
