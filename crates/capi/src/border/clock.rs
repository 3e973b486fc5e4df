//! The clock, and functions for all objects.
//!
//! Times are nanoseconds of CLOCK_MONOTONIC, as `uint64_t`. SOFTTIMERS_NEVER stands for no time.

use std::ffi::{c_char, c_int, c_void};

use softtimers::{Clock, Monotonic};

use crate::object::AnyObject;

/// The version that this header was written for: major, minor and patch, each in a byte.
pub const SOFTTIMERS_VERSION: u32 = 0x000200;

/// No time: nothing is pending, or none was given.
pub const SOFTTIMERS_NEVER: u64 = u64::MAX;

/// A function to be called with its argument. The library never calls one; it hands them out when they are
/// due.
pub(crate) type softtimers_function = Option<unsafe extern "C" fn(argument: *mut c_void)>;

/// A due call: a function and its argument. The function may be NULL if the argument suffices.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct softtimers_call {
    /// The function to call.
    pub(crate) function: softtimers_function,
    /// The argument to call it with.
    pub(crate) argument: *mut c_void,
}

/// The version of the library that is linked: "0.2.0".
/// Thread: any.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The present time. About 20 ns, no system call.
/// Thread: any.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_now() -> u64 {
    Monotonic.now().as_nanos()
}

/// The paper's operation 1: the resolution of the measurement clock in ticks a second, 1,000,000,000 on any kernel with
/// high-resolution timers.
/// Thread: any.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_measure_resolution() -> u64 {
    Monotonic.resolution_hz()
}

/// The paper's operation 2: the time of the measurement clock in its ticks, for intervals. It never goes
/// back, within a thread or between threads. With a resolution of 10^9 it is `softtimers_now`. Thread: any.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_measure_time() -> u64 {
    ticks(Monotonic.now().as_nanos())
}

/// Hands an object over: from now on it belongs to the calling thread. No other thread may be using it, and
/// the program must synchronise the two threads. Any object may be given, and no other pointer. Always 0.
/// Thread: any.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_adopt(object: Option<&AnyObject>) -> c_int {
    AnyObject::adopt(object);
    0
}

/// Returns the number of an object's life, unique among all objects. With `softtimers_lives` a loop over due
/// events detects that a call has freed the object; `softtimers_timers_run` and `softtimers_softclock` do so.
/// Thread: any.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_life(object: Option<&AnyObject>) -> u64 {
    AnyObject::life(object)
}

/// Returns 1 if the object still has this life, 0 if it was freed, even if another object is in its place.
/// Only this function may be given a freed object. Thread: any.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_lives(object: Option<&AnyObject>, life: u64) -> c_int {
    AnyObject::lives(object, life).into()
}

/// A time in ticks of the measurement clock.
pub(crate) fn ticks(nanos: u64) -> u64 {
    let hz = Monotonic.resolution_hz();
    if hz == NANOS_PER_SEC {
        nanos
    } else {
        (u128::from(nanos) * u128::from(hz) / u128::from(NANOS_PER_SEC)) as u64
    }
}

/// Ticks of the measurement clock in nanoseconds, rounded up.
pub(crate) fn nanos(ticks: u64) -> u64 {
    let hz = Monotonic.resolution_hz().max(1);
    let nanos = (u128::from(ticks) * u128::from(NANOS_PER_SEC)).div_ceil(u128::from(hz));
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

const NANOS_PER_SEC: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_version_is_the_packages() {
        let numbers = [
            env!("CARGO_PKG_VERSION_MAJOR"),
            env!("CARGO_PKG_VERSION_MINOR"),
            env!("CARGO_PKG_VERSION_PATCH"),
        ];
        let version = numbers.iter().fold(0, |sum, number| sum << 8 | number.parse::<u32>().unwrap());
        assert_eq!(SOFTTIMERS_VERSION, version);
    }

    #[test]
    fn ticks_and_nanoseconds_go_there_and_back() {
        for time in [0, 1, 999, 1_000_000_007, u64::MAX / 2] {
            assert!(nanos(ticks(time)) <= time && ticks(nanos(time)) >= time);
        }
    }
}
