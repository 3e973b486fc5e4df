//! Soft timers: events with due times, fired at the points where a program checks the clock.
//!
//! After a handler, after a system call, before sleeping: `softtimers_timers_trigger` costs a compare when nothing is
//! due. Pull due events with `softtimers_timers_next`, or call them by `softtimers_timers_run`.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

use softtimers::{Config, Seal, Slack, SoftTimers, TimerId, Timestamp, TriggerState, Turn};

use super::clock::{SOFTTIMERS_NEVER, nanos, softtimers_call, softtimers_function, softtimers_now};
use super::histogram::softtimers_histogram;
use crate::object::{Errno, Kind, Object, write};

impl Kind for Timers {
    const NAME: &'static str = "softtimers_timers";
}

/// A set of timers.
pub(crate) type softtimers_timers = Object<Timers>;

/// The state behind a `softtimers_timers`.
#[derive(Debug)]
pub(crate) struct Timers {
    timers: SoftTimers<softtimers_call>,
    seal: Seal,
    turn: Option<Turn>,
    /// The time added to a delay because of the clock's step.
    clock_step_ns: u64,
}

/// The settings of a set of timers. Zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct softtimers_config {
    /// The unit to which due times are rounded up, so that events closer than that share a wake-up: 1,000 by default.
    pub(crate) tick_ns: u64,
    /// The step of the clock that supplies `now`, where it is coarser than a nanosecond: every delay is longer by it.
    pub(crate) clock_step_ns: u64,
}

/// An event that is handed out.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct softtimers_fired {
    /// The call that was scheduled.
    pub(crate) call: softtimers_call,
    /// The handle it had; dead from now on.
    pub(crate) handle: u64,
    /// The requested due time.
    pub(crate) due: u64,
    /// The time of the turn minus `due`.
    pub(crate) lateness_ns: u64,
}

/// Counters since the beginning.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct softtimers_stats {
    /// Events that were scheduled.
    pub(crate) scheduled: u64,
    /// Events that were handed out.
    pub(crate) fired: u64,
    /// Events that were cancelled.
    pub(crate) cancelled: u64,
    /// Events that were moved.
    pub(crate) rearmed: u64,
    /// Trigger states that were reached.
    pub(crate) triggers: u64,
    /// Events that are waiting.
    pub(crate) pending: u64,
}

/// Slack: a tenth of the delay, at most 50 us.
pub const SOFTTIMERS_SLACK_DEFAULT: u64 = u64::MAX;
/// Slack: any lateness; the event never arms the hardware timer.
pub const SOFTTIMERS_SLACK_DEFERRABLE: u64 = u64::MAX - 1;
/// Added to a slack in nanoseconds below 2^62: the due time may move within it to a round tick, so that
/// time-outs which rarely fire share wake-ups.
pub const SOFTTIMERS_SLACK_ROUNDED: u64 = 1_u64 << 62;

/// A system call has returned.
pub const SOFTTIMERS_SYSCALL_EXIT: u32 = 0;
/// The kernel has reported a source ready.
pub const SOFTTIMERS_READINESS: u32 = 1;
/// A handler has returned to its loop.
pub const SOFTTIMERS_HANDLER_EXIT: u32 = 2;
/// A packet was sent by a loop that sends many.
pub const SOFTTIMERS_SEND: u32 = 3;
/// A step of a loop over a protocol's own timers is done.
pub const SOFTTIMERS_PROTOCOL_TIMER: u32 = 4;
/// Before sleeping, after waking.
pub const SOFTTIMERS_IDLE: u32 = 5;
/// The backup has gone off.
pub const SOFTTIMERS_BACKUP: u32 = 6;

/// Makes an empty set of timers; `config` may be NULL.
/// -EINVAL: `out` is NULL.
/// Thread: any; the set belongs to the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_timers_new(
    config: Option<&softtimers_config>,
    out: Option<&mut MaybeUninit<*mut softtimers_timers>>,
) -> c_int {
    let config = config.copied().unwrap_or_default();
    Object::make(out, || {
        let tick = if config.tick_ns == 0 { 1_000 } else { config.tick_ns };
        let step = Duration::from_nanos(config.clock_step_ns);
        let timers = SoftTimers::new(Config::default().tick(Duration::from_nanos(tick)).clock_step(step));
        Ok(Timers {
            timers,
            seal: Seal::new(softtimers::bsd::owner()),
            turn: None,
            clock_step_ns: config.clock_step_ns,
        })
    })
}

/// Frees a set of timers without calling its pending events. Does nothing for NULL. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_timers_free(timers: Option<&'static softtimers_timers>) -> c_int {
    Object::free(timers)
}

/// Schedules a call for at least `delay_ns` after `now`, at most `slack_ns` later than that. Its handle is written to
/// `handle`, which may be NULL. O(1).
/// -EINVAL: a slack of 2^63 or more other than the constants. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_timers_schedule(
    timers: Option<&softtimers_timers>,
    now: u64,
    delay_ns: u64,
    slack_ns: u64,
    call: softtimers_call,
    handle: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    Object::with(timers, |timers| {
        write(handle, timers.schedule(now, delay_ns, slack_ns, call)?);
        Ok(0)
    })
}

/// Schedules a call for the time `due`, at most `slack_ns` later; a time in the past is due at once. Otherwise as
/// `softtimers_timers_schedule`.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_timers_schedule_at(
    timers: Option<&softtimers_timers>,
    now: u64,
    due: u64,
    slack_ns: u64,
    call: softtimers_call,
    handle: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    Object::with(timers, |Timers { timers, seal, .. }| {
        let (now, due) = (Timestamp::from_nanos(now), Timestamp::from_nanos(due));
        let id = timers.schedule_at(now, due, slack(slack_ns)?, call);
        write(handle, seal.close(id.to_bits()));
        Ok(0)
    })
}

/// Moves a pending event to `delay_ns` after `now`. O(1).
/// -EINVAL: an invalid slack, or an invalid handle: called, cancelled, of another set, invented. Thread: its
/// own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_timers_reschedule(
    timers: Option<&softtimers_timers>,
    now: u64,
    handle: u64,
    delay_ns: u64,
    slack_ns: u64,
) -> c_int {
    Object::with(timers, |timers| {
        let id = timers.open(handle)?;
        let delay = Duration::from_nanos(delay_ns);
        let moved = timers.timers.reschedule(Timestamp::from_nanos(now), id, delay, slack(slack_ns)?);
        moved.map_err(|_| Errno::INVALID)?;
        Ok(0)
    })
}

/// Moves a pending event to the time `due`. Otherwise as `softtimers_timers_reschedule`.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_timers_reschedule_at(
    timers: Option<&softtimers_timers>,
    now: u64,
    handle: u64,
    due: u64,
    slack_ns: u64,
) -> c_int {
    Object::with(timers, |timers| {
        let id = timers.open(handle)?;
        let (now, due) = (Timestamp::from_nanos(now), Timestamp::from_nanos(due));
        timers.timers.reschedule_at(now, id, due, slack(slack_ns)?).map_err(|_| Errno::INVALID)?;
        Ok(0)
    })
}

/// Cancels a pending event. Writes the cancelled call to `call`, which may be NULL. O(1).
/// -EINVAL: a handle that names nothing.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_timers_cancel(
    timers: Option<&softtimers_timers>,
    handle: u64,
    call: Option<&mut MaybeUninit<softtimers_call>>,
) -> c_int {
    Object::with(timers, |timers| {
        let id = timers.open(handle)?;
        write(call, timers.timers.cancel(id).ok_or(Errno::INVALID)?);
        Ok(0)
    })
}

/// Returns whether an event is pending: 1 or 0. 0 also for an invalid handle. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_timers_is_pending(timers: Option<&softtimers_timers>, handle: u64) -> c_int {
    Object::with(timers, |timers| {
        let pending = timers.open(handle).is_ok_and(|id| timers.timers.is_pending(id));
        Ok(pending.into())
    })
}

/// The paper's operation 3: schedules `function(argument)` at least `ticks` ticks of the measurement clock
/// from now, which is read here. Its handle is written to `handle`, which may be NULL. Its slack is zero.
/// -EINVAL: no function. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_schedule_soft_event(
    timers: Option<&softtimers_timers>,
    ticks: u64,
    function: softtimers_function,
    argument: *mut c_void,
    handle: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    Object::with(timers, |timers| {
        let call = softtimers_call { function: Some(function.ok_or(Errno::INVALID)?), argument };
        // At least T + 1 ticks, because the clock may be up to one tick further than it reads.
        write(handle, timers.schedule(softtimers_now(), nanos(ticks.saturating_add(1)), 0, call)?);
        Ok(0)
    })
}

/// Visits a trigger state. 1 if an event may be due, and then `softtimers_timers_next` hands out those due at
/// `now`; 0 if none is. An event scheduled meanwhile, even for `now`, belongs to a later visit, so that each
/// one ends. A compare when nothing is due. -EINVAL: a `source` other than the constants. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_timers_trigger(
    timers: Option<&softtimers_timers>,
    source: u32,
    now: u64,
) -> c_int {
    Object::with(timers, |timers| {
        let source = *TriggerState::ALL.get(source as usize).ok_or(Errno::INVALID)?;
        let now = Timestamp::from_nanos(now);
        timers.turn = Some(timers.timers.trigger(source, now));
        Ok((timers.timers.gate() <= now && !timers.timers.is_empty()).into())
    })
}

/// The next event of the last visit: 1 and it is written to `fired`, or 0 when there is none left.
/// -EINVAL: no `fired`.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_timers_next(
    timers: Option<&softtimers_timers>,
    fired: Option<&mut MaybeUninit<softtimers_fired>>,
) -> c_int {
    Object::with(timers, |Timers { timers, seal, turn, .. }| {
        let fired = fired.ok_or(Errno::INVALID)?;
        let Some(next) = turn.as_ref().and_then(|turn| timers.next(turn)) else {
            *turn = None;
            return Ok(0);
        };
        fired.write(softtimers_fired {
            call: next.event,
            handle: seal.close(next.id.to_bits()),
            due: next.due.as_nanos(),
            lateness_ns: u64::try_from(next.lateness.as_nanos()).unwrap_or(u64::MAX),
        });
        Ok(1)
    })
}

/// Returns the earliest time at which a hardware timer must fire if no trigger state is met, for
/// `softtimers_backup_arm` or a wait's time-out. SOFTTIMERS_NEVER if nothing needs that. Firing earlier is
/// harmless; firing later makes events late. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_timers_poll_at(timers: Option<&softtimers_timers>) -> u64 {
    Object::ask(timers, SOFTTIMERS_NEVER, |timers| {
        timers.timers.poll_at().map_or(SOFTTIMERS_NEVER, Timestamp::as_nanos)
    })
}

/// Events waiting.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_timers_len(timers: Option<&softtimers_timers>) -> usize {
    Object::ask(timers, 0, |timers| timers.timers.len())
}

/// Counters since the beginning.
/// -EINVAL: no `stats`.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_timers_stats(
    timers: Option<&softtimers_timers>,
    stats: Option<&mut MaybeUninit<softtimers_stats>>,
) -> c_int {
    Object::with(timers, |timers| {
        let out = stats.ok_or(Errno::INVALID)?;
        let stats = timers.timers.stats();
        out.write(softtimers_stats {
            scheduled: stats.scheduled,
            fired: stats.fired.total(),
            cancelled: stats.cancelled,
            rearmed: stats.rearmed,
            triggers: stats.triggers.total(),
            pending: stats.pending,
        });
        Ok(0)
    })
}

/// Adds the lateness of all events handed out so far, in nanoseconds, to a histogram.
/// Thread: that of both.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_timers_lateness(
    timers: Option<&softtimers_timers>,
    histogram: Option<&softtimers_histogram>,
) -> c_int {
    Object::with(timers, |timers| {
        let merged = Object::with(histogram, |histogram| {
            histogram.merge(timers.timers.lateness());
            Ok(0)
        });
        if merged < 0 { Err(Errno(-merged)) } else { Ok(0) }
    })
}

impl Timers {
    #[inline]
    fn schedule(&mut self, now: u64, delay: u64, slack_ns: u64, call: softtimers_call) -> Result<u64, Errno> {
        // Avoids converting a delay to seconds and nanoseconds and back.
        let due = now.saturating_add(delay.saturating_add(self.clock_step_ns));
        let (now, due) = (Timestamp::from_nanos(now), Timestamp::from_nanos(due));
        let id = self.timers.schedule_at(now, due, slack(slack_ns)?, call);
        Ok(self.seal.close(id.to_bits()))
    }

    #[inline]
    fn open(&self, handle: u64) -> Result<TimerId, Errno> {
        self.timers.id_of(self.seal.open(handle)).ok_or(Errno::INVALID)
    }
}

#[inline]
fn slack(nanos: u64) -> Result<Slack, Errno> {
    match nanos {
        SOFTTIMERS_SLACK_DEFAULT => Ok(Slack::DEFAULT),
        SOFTTIMERS_SLACK_DEFERRABLE => Ok(Slack::DEFERRABLE),
        _ if nanos < SOFTTIMERS_SLACK_ROUNDED => Ok(Slack::nanos(nanos)),
        _ if nanos < SOFTTIMERS_SLACK_ROUNDED * 2 => {
            Ok(Slack::rounded(Duration::from_nanos(nanos - SOFTTIMERS_SLACK_ROUNDED)))
        }
        _ => Err(Errno::INVALID),
    }
}
