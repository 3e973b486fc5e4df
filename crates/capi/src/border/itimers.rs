//! Many interval timers behind one kernel timer (Costello and Varghese 1998, figures 6 and 7).
//!
//! The queue of the expired is the truth; the descriptor or the signal says that it is worth looking. So reap until
//! -EAGAIN. The process's own ITIMER_REAL is not touched; a program that uses it takes another signal than SIGALRM for a
//! set, or a descriptor, since Linux drops ITIMER_REAL's signal where a set's is still pending.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::time::Duration;

use softtimers::bsd::{Handle, ItimerVal, MultiTimers, Setting, TimeVal};

use crate::object::{Errno, In, InOut, Kind, Object, write};

impl Kind for MultiTimers<TimeVal> {
    const NAME: &'static str = "softtimers_itimers";
}

/// A set of interval timers. It ends with the process, and is not to be used in a child of `fork`.
pub type softtimers_itimers = Object<MultiTimers<TimeVal>>;

/// The setting of an interval timer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct softtimers_setting {
    /// Until the next expiry; 0 of a timer that has expired and was not reaped.
    pub value_ns: u64,
    /// From one expiry to the next; 0 of a timer that expires once.
    pub interval_ns: u64,
}

/// A timer that has expired.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct softtimers_expired {
    /// Its handle: dead unless it runs.
    pub handle: u64,
    /// The label of the timer.
    pub label: u64,
    /// The time at which it expired.
    pub at: u64,
    /// 1 if it has an interval and runs again, else 0.
    pub runs: u32,
    /// Always zero.
    pub reserved: u32,
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

/// Makes a set of at most `most` timers over a POSIX timer, which sends the process `signal`. The program has a handler
/// for it or waits for it: most signals end a process that does neither.
/// -EINVAL: `out` is NULL, `most` is above 2^27, or no signal that a program can handle. Others: the kernel refuses
/// another timer.
/// Thread: any; it belongs to the caller's.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_itimers_new_signal(
    most: u32,
    signal: c_int,
    out: Option<&mut MaybeUninit<*mut softtimers_itimers>>,
) -> c_int {
    Object::make(out, || Ok(MultiTimers::with_signal(signal, quota(most)?)?))
}

/// Frees a set and all its timers. NULL is no error.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_itimers_free(itimers: Option<&'static softtimers_itimers>) -> c_int {
    Object::free(itimers)
}

/// Its descriptor, to be watched for reading and neither read nor closed.
/// -EINVAL: one with a signal.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_itimers_fd(itimers: Option<&softtimers_itimers>) -> c_int {
    Object::with(itimers, |itimers| itimers.descriptor().map(|fd| fd.as_raw_fd()).ok_or(Errno::INVALID))
}

/// Creates a timer; its handle is written to `handle`.
/// -EINVAL: no `handle`, or a value of 0. -EAGAIN: there are as many timers as the set may have.
/// Thread: its own.
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

/// Sets a timer anew, with another label, whether it runs or has expired. Writes its former setting to `former`,
/// which may be NULL.
/// -EINVAL: a value of 0, or a handle that names nothing: cancelled, reaped, of another set, made up.
/// Thread: its own.
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

/// Tells the setting of a timer. -EINVAL: no `setting`, or a handle that names nothing; then `setting` is left as it
/// is. Thread: its own.
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

/// The timer that expired first, out of the queue. If it has an interval it runs again, from its expiry, however late
/// this is.
/// -EAGAIN: none has expired. -EINVAL: no `expired`.
/// Thread: its own.
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

/// Timers that exist, running or expired.
/// Thread: its own.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_itimers_len(itimers: Option<&softtimers_itimers>) -> usize {
    Object::ask(itimers, 0, |itimers| itimers.len())
}

/// `setitimer(ITIMER_MULTIREAL, value, ovalue)` of the paper's figure 6. `value->it_value` not zero: sets a new timer if
/// `ovalue->it_value` is {-1, -1}, and writes its handle there; else the timer whose handle it is, and writes what that
/// was set to to `ovalue`. `ovalue->it_interval` is its label. `value->it_value` zero: ends the timer whose handle it
/// is.
/// -EINVAL: something is missing, no time, or a handle that names nothing; -EAGAIN: there are as many timers as the set
/// may have. Nothing has changed then. (The paper returns -1 and sets errno.)
/// Thread: its own.
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
/// first, and writes its handle there and its label to `value->it_interval`. Else it is a handle, and what that timer is
/// set to is written to `value`.
/// -EAGAIN: none has expired. -EINVAL: something is missing, or a handle that names nothing; nothing has changed then.
/// Thread: its own.
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

/// Labels are a `timeval` each, for the paper's interface; a plain one is the first half.
fn to_label(label: u64) -> TimeVal {
    TimeVal { sec: label as i64, usec: 0 }
}

fn quota(most: u32) -> Result<usize, Errno> {
    match most {
        0 => Ok(SOFTTIMERS_ITIMERS_DEFAULT_MOST as usize),
        1..=MOST => Ok(most as usize),
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

const MOST: u32 = 1 << 27;
