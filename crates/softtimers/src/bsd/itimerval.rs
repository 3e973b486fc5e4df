//! `setitimer` and `getitimer` with many timers: the arguments of Costello and Varghese's figures 6 and 7.
//!
//! Two pointers carry everything, in and out, which the authors themselves call distasteful. Use this only
//! for programs that were written for it; [`IntervalTimers`] has a function for each operation.

use std::time::Duration;

use softtimers_core::Timestamp;
use softtimers_core::bsd::{Handle, IntervalError, IntervalTimers, Setting};

/// Seconds and microseconds, as in C's `struct timeval`. As a label any two numbers; as a handle its upper and its lower
/// 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TimeVal {
    /// Seconds: not negative in a time.
    pub sec: i64,
    /// Microseconds: 0 to 999,999 in a time.
    pub usec: i64,
}

/// As C's `struct itimerval`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ItimerVal {
    /// The interval, or a label.
    pub interval: TimeVal,
    /// The value, or a handle, or {−1, −1}.
    pub value: TimeVal,
}

/// The `errno` of these calls. Nothing changes then, nor do the arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetItimerError {
    /// `EAGAIN`: no timer has expired, or the set is full.
    Again,
    /// `EINVAL`: an argument is missing or not a valid time, or no timer has the handle.
    Invalid,
}

impl std::fmt::Display for SetItimerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SetItimerError::Again => "nothing has expired, or there are as many timers as are allowed",
            SetItimerError::Invalid => "an argument that is missing, no time, or the handle of no timer",
        })
    }
}

impl std::error::Error for SetItimerError {}

/// Creates, resets or cancels a timer.
///
/// | call | `value.value` | `ovalue.value` in | `ovalue.interval` in | does | out |
/// |---|---|---|---|---|---|
/// | `setitimer` | not zero | {−1, −1} | a label | creates | handle in `ovalue.value` |
/// | `setitimer` | not zero | a handle | a label | resets | former setting in `ovalue` |
/// | `setitimer` | zero | a handle | – | cancels | last setting in `ovalue` |
/// | [`getitimer`] | {−1, −1} | | | reaps | handle in `value.value`, label in `value.interval` |
/// | [`getitimer`] | a handle | | | queries | setting in `value` |
///
/// # Errors
/// [`SetItimerError::Invalid`] without `ovalue`, for an invalid time, and for a handle that names nothing;
/// [`SetItimerError::Again`] if the set is full.
///
/// ```
/// use softtimers::Timestamp;
/// use softtimers::bsd::{IntervalTimers, ItimerVal, TimeVal, getitimer, setitimer};
///
/// let at = Timestamp::from_micros;
/// let mut timers = IntervalTimers::new(1, 100);
/// let (none, label) = (TimeVal { sec: -1, usec: -1 }, TimeVal { sec: 7, usec: 7 });
/// let value = ItimerVal { value: TimeVal { sec: 0, usec: 500 }, ..ItimerVal::default() };
/// let mut ovalue = ItimerVal { interval: label, value: none };
/// setitimer(&mut timers, at(0), &value, Some(&mut ovalue))?;
///
/// let mut expired = ItimerVal { value: none, ..ItimerVal::default() };
/// assert!(getitimer(&mut timers, at(499), Some(&mut expired)).is_err());
/// getitimer(&mut timers, at(500), Some(&mut expired))?;
/// assert_eq!((expired.value, expired.interval), (ovalue.value, label));
/// # Ok::<(), softtimers::bsd::SetItimerError>(())
/// ```
pub fn setitimer(
    timers: &mut IntervalTimers<TimeVal>,
    now: Timestamp,
    value: &ItimerVal,
    ovalue: Option<&mut ItimerVal>,
) -> Result<(), SetItimerError> {
    let ovalue = ovalue.ok_or(SetItimerError::Invalid)?;
    let time = value.value.duration()?;
    if time.is_zero() {
        *ovalue = ItimerVal::from_setting(timers.cancel(now, ovalue.value.handle()?)?);
        return Ok(());
    }
    let setting = Setting { value: time, interval: value.interval.duration()? };
    if ovalue.value == NEW {
        ovalue.value = TimeVal::of_handle(timers.create(now, setting, ovalue.interval)?);
    } else {
        *ovalue =
            ItimerVal::from_setting(timers.reset(now, ovalue.value.handle()?, setting, ovalue.interval)?);
    }
    Ok(())
}

/// Reaps or queries a timer, see the table of [`setitimer`].
///
/// # Errors
/// [`SetItimerError::Again`] if there is nothing to reap; [`SetItimerError::Invalid`] without `value`, and for a handle
/// that names nothing.
pub fn getitimer(
    timers: &mut IntervalTimers<TimeVal>,
    now: Timestamp,
    value: Option<&mut ItimerVal>,
) -> Result<(), SetItimerError> {
    let value = value.ok_or(SetItimerError::Invalid)?;
    *value = if value.value == NEW {
        let expired = timers.reap(now)?;
        ItimerVal { interval: expired.label, value: TimeVal::of_handle(expired.handle) }
    } else {
        ItimerVal::from_setting(timers.query(now, value.value.handle()?)?)
    };
    Ok(())
}

impl TimeVal {
    fn duration(self) -> Result<Duration, SetItimerError> {
        let sec = u64::try_from(self.sec).map_err(|_| SetItimerError::Invalid)?;
        let usec = u32::try_from(self.usec).ok().filter(|&usec| usec < MICROS_PER_SEC);
        Ok(Duration::new(sec, usec.ok_or(SetItimerError::Invalid)? * 1_000))
    }

    /// Rounds up to a microsecond, so that a running timer never shows zero.
    fn from_duration(time: Duration) -> Self {
        let usec = time.subsec_nanos().div_ceil(1_000);
        let sec = i64::try_from(time.as_secs()).unwrap_or(i64::MAX - 1);
        TimeVal { sec: sec + i64::from(usec / MICROS_PER_SEC), usec: i64::from(usec % MICROS_PER_SEC) }
    }

    fn handle(self) -> Result<Handle, SetItimerError> {
        let half = |half: i64| u32::try_from(half).map_err(|_| SetItimerError::Invalid);
        Ok(Handle::from_bits(u64::from(half(self.sec)?) << 32 | u64::from(half(self.usec)?)))
    }

    fn of_handle(handle: Handle) -> Self {
        let bits = handle.to_bits();
        TimeVal { sec: (bits >> 32) as i64, usec: i64::from(bits as u32) }
    }
}

impl ItimerVal {
    fn from_setting(setting: Setting) -> Self {
        ItimerVal {
            interval: TimeVal::from_duration(setting.interval),
            value: TimeVal::from_duration(setting.value),
        }
    }
}

impl From<IntervalError> for SetItimerError {
    fn from(error: IntervalError) -> Self {
        match error {
            IntervalError::TooMany | IntervalError::NothingExpired => SetItimerError::Again,
            IntervalError::NoSuchTimer | IntervalError::ZeroValue => SetItimerError::Invalid,
        }
    }
}

/// In place of a handle: a new timer, or whichever has expired.
const NEW: TimeVal = TimeVal { sec: -1, usec: -1 };
const MICROS_PER_SEC: u32 = 1_000_000;

#[cfg(test)]
mod tests;
