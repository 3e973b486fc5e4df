//! Many interval timers behind one kernel timer (Costello and Varghese 1998, figures 6 and 7).
//!
//! The queue of expired timers is authoritative; the descriptor or the signal is only a hint to check it. So
//! reap until -EAGAIN. The process's own ITIMER_REAL is not touched; a program that uses it needs another
//! signal than SIGALRM for a set, or a descriptor, since Linux drops ITIMER_REAL's signal while a set's is
//! still pending.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::time::Duration;

use softtimers::bsd::{Handle, ItimerVal, MultiTimers, Setting, TimeVal};

use crate::object::{Errno, In, InOut, Kind, Object, write};

impl Kind for MultiTimers<TimeVal> {
    const NAME: &'static str = "softtimers_itimers";
}

/// A set of interval timers. It ends with the process; do not use it in a child of `fork`.
pub(crate) type softtimers_itimers = Object<MultiTimers<TimeVal>>;

/// The setting of an interval timer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct softtimers_setting {
    /// Until the next expiry; 0 for a timer that has expired and was not reaped.
    pub(crate) value_ns: u64,
    /// From one expiry to the next; 0 for a timer that expires once.
    pub(crate) interval_ns: u64,
}

/// A timer that has expired.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct softtimers_expired {
    /// Its handle: dead unless it runs.
    pub(crate) handle: u64,
    /// The label of the timer.
    pub(crate) label: u64,
    /// The time at which it expired.
    pub(crate) at: u64,
    /// 1 if it has an interval and runs again, otherwise 0.
    pub(crate) runs: u32,
    /// Always zero.
    pub(crate) reserved: u32,
}

/// The most timers that a set may have when 0 is given.
pub const SOFTTIMERS_ITIMERS_DEFAULT_MOST: u32 = 65_536;

/// Makes a set of at most `most` timers over a timerfd, whose descriptor is readable while one waits to be reaped.
/// -EINVAL: `out` is NULL, or `most` is above 2^27. Others: the kernel refuses another descriptor.
/// Thread: any; it belongs to the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_itimers_new(
    most: u32,
    out: Option<&mut MaybeUninit<*mut softtimers_itimers>>,
) -> c_int {
    Object::make(out, || Ok(MultiTimers::with_descriptor(quota(most)?)?))
}

/// Makes a set of at most `most` timers over a POSIX timer, which sends the process `signal`. The program
/// must handle it or wait for it: most signals end a process that does neither. -EINVAL: `out` is NULL,
/// `most` is above 2^27, or a program cannot handle the signal. Others: the kernel refuses another timer.
/// Thread: any; it belongs to the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_itimers_new_signal(
    most: u32,
    signal: c_int,
    out: Option<&mut MaybeUninit<*mut softtimers_itimers>>,
) -> c_int {
    Object::make(out, || Ok(MultiTimers::with_signal(signal, quota(most)?)?))
}

/// Frees a set and all its timers. Does nothing for NULL. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_itimers_free(itimers: Option<&'static softtimers_itimers>) -> c_int {
    Object::free(itimers)
}

/// Returns its descriptor. Watch it for reading; neither read nor close it. -EINVAL: the set has a signal.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_itimers_fd(itimers: Option<&softtimers_itimers>) -> c_int {
    Object::with(itimers, |itimers| itimers.descriptor().map(|fd| fd.as_raw_fd()).ok_or(Errno::INVALID))
}

/// Creates a timer; its handle is written to `handle`.
/// -EINVAL: no `handle`, or a value of 0. -EAGAIN: the set is full. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_itimer_create(
    itimers: Option<&softtimers_itimers>,
    value_ns: u64,
    interval_ns: u64,
    label: u64,
    handle: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    Object::with(itimers, |itimers| {
        let out = handle.ok_or(Errno::INVALID)?;
        let handle = itimers.create(setting(value_ns, interval_ns), to_label(label))?;
        out.write(handle.to_bits());
        Ok(0)
    })
}

/// Sets a timer again, with another label, whether it runs or has expired. Writes its former setting to
/// `former`, which may be NULL. -EINVAL: a value of 0, or an invalid handle: cancelled, reaped, of another
/// set, invented. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_itimer_reset(
    itimers: Option<&softtimers_itimers>,
    handle: u64,
    value_ns: u64,
    interval_ns: u64,
    label: u64,
    former: Option<&mut MaybeUninit<softtimers_setting>>,
) -> c_int {
    Object::with(itimers, |itimers| {
        let setting = setting(value_ns, interval_ns);
        write(former, itimers.reset(Handle::from_bits(handle), setting, to_label(label))?.into());
        Ok(0)
    })
}

/// Ends a timer, whether it runs or has expired. Writes its last setting to `last`, which may be NULL.
/// -EINVAL: a handle that names nothing.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_itimer_cancel(
    itimers: Option<&softtimers_itimers>,
    handle: u64,
    last: Option<&mut MaybeUninit<softtimers_setting>>,
) -> c_int {
    Object::with(itimers, |itimers| {
        write(last, itimers.cancel(Handle::from_bits(handle))?.into());
        Ok(0)
    })
}

/// Writes the setting of a timer to `setting`. -EINVAL: no `setting`, or an invalid handle; then `setting`
/// does not change. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_itimer_query(
    itimers: Option<&softtimers_itimers>,
    handle: u64,
    setting: Option<&mut MaybeUninit<softtimers_setting>>,
) -> c_int {
    Object::with(itimers, |itimers| {
        let out = setting.ok_or(Errno::INVALID)?;
        out.write(itimers.query(Handle::from_bits(handle))?.into());
        Ok(0)
    })
}

/// Takes the timer that expired first out of the queue. If it has an interval it runs again, from its expiry,
/// however late this call is. -EAGAIN: none has expired. -EINVAL: no `expired`. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_itimer_reap(
    itimers: Option<&softtimers_itimers>,
    expired: Option<&mut MaybeUninit<softtimers_expired>>,
) -> c_int {
    Object::with(itimers, |itimers| {
        let out = expired.ok_or(Errno::INVALID)?;
        let expired = itimers.reap()?;
        out.write(softtimers_expired {
            handle: expired.handle.to_bits(),
            label: expired.label.sec as u64,
            at: expired.at.as_nanos(),
            runs: expired.runs.into(),
            reserved: 0,
        });
        Ok(0)
    })
}

/// Returns the number of timers, running or expired. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_itimers_len(itimers: Option<&softtimers_itimers>) -> usize {
    Object::ask(itimers, 0, |itimers| itimers.len())
}

/// `setitimer(ITIMER_MULTIREAL, value, ovalue)` of the paper's figure 6. `value->it_value` not zero: sets a new timer if
/// `ovalue->it_value` is {-1, -1}, and writes its handle there; otherwise the timer with that handle, and
/// writes its former setting to `ovalue`. `ovalue->it_interval` is its label. `value->it_value` zero: ends
/// the timer with the handle in `ovalue->it_value`. -EINVAL: a NULL argument, an invalid time, or an invalid
/// handle; -EAGAIN: the set is full. Nothing changes then. (The paper returns -1 and sets errno.) Thread: its
/// own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_multi_setitimer(
    itimers: Option<&softtimers_itimers>,
    value: Option<&In<libc::itimerval>>,
    ovalue: Option<&InOut<libc::itimerval>>,
) -> c_int {
    Object::with(itimers, |itimers| {
        let (value, ovalue) = (value.ok_or(Errno::INVALID)?, ovalue.ok_or(Errno::INVALID)?);
        let mut argument = read(ovalue.get());
        itimers.setitimer(&read(value.get()), Some(&mut argument))?;
        ovalue.set(written(argument));
        Ok(0)
    })
}

/// `getitimer(ITIMER_MULTIREAL, value)` of the paper's figure 7. `value->it_value` {-1, -1}: reaps the timer that expired
/// first, and writes its handle there and its label to `value->it_interval`. Otherwise it is a handle, and
/// the setting of that timer is written to `value`. -EAGAIN: none has expired. -EINVAL: a NULL argument, or
/// an invalid handle; nothing changes then. Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_multi_getitimer(
    itimers: Option<&softtimers_itimers>,
    value: Option<&InOut<libc::itimerval>>,
) -> c_int {
    Object::with(itimers, |itimers| {
        let value = value.ok_or(Errno::INVALID)?;
        let mut argument = read(value.get());
        itimers.getitimer(Some(&mut argument))?;
        value.set(written(argument));
        Ok(0)
    })
}

impl From<Setting> for softtimers_setting {
    fn from(setting: Setting) -> Self {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        softtimers_setting { value_ns: nanos(setting.value), interval_ns: nanos(setting.interval) }
    }
}

fn setting(value_ns: u64, interval_ns: u64) -> Setting {
    Setting { value: Duration::from_nanos(value_ns), interval: Duration::from_nanos(interval_ns) }
}

/// Labels are a `timeval` each, for the paper's interface; a plain label is its first half.
fn to_label(label: u64) -> TimeVal {
    TimeVal { sec: label as i64, usec: 0 }
}

fn quota(most: u32) -> Result<usize, Errno> {
    match most {
        0 => Ok(SOFTTIMERS_ITIMERS_DEFAULT_MOST as usize),
        1..=MOST_TIMERS => Ok(most as usize),
        _ => Err(Errno::INVALID),
    }
}

fn read(value: libc::itimerval) -> ItimerVal {
    let time = |time: libc::timeval| TimeVal { sec: time.tv_sec, usec: time.tv_usec };
    ItimerVal { interval: time(value.it_interval), value: time(value.it_value) }
}

fn written(value: ItimerVal) -> libc::itimerval {
    let time = |time: TimeVal| libc::timeval { tv_sec: time.sec, tv_usec: time.usec };
    libc::itimerval { it_interval: time(value.interval), it_value: time(value.value) }
}

const MOST_TIMERS: u32 = 1 << 27;
