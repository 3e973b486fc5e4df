//! The cost of the C API: the same operations from Rust and through the functions of `softtimers.h`, in
//! turns, in CPU time. `cargo bench -p softtimers-capi --bench border`.
//!
//! The C functions are called through pointers that the compiler cannot see through, as a C program calls them.
#![allow(unsafe_code, reason = "this is C's side of the border")]

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::ptr::{null, null_mut};
use std::time::Duration;

use softtimers::late::cpu_time;
use softtimers::{
    Config, Histogram, PaceConfig, Rate, RateClock, Slack, SoftTimers, Timestamp, TriggerState,
};
// Links the library, whose functions have no names in Rust.
use softtimers_capi as _;

/// An object of C's.
type Object = *mut c_void;

#[repr(C)]
#[derive(Clone, Copy)]
struct Call {
    function: Option<unsafe extern "C" fn(argument: *mut c_void)>,
    argument: *mut c_void,
}

/// The words of a `softtimers_pace_config`, the gap first.
type Pace = [u64; 7];

// As in softtimers.h, with all objects of one type.
unsafe extern "C" {
    fn softtimers_timers_new(config: *const c_void, out: *mut Object) -> c_int;
    fn softtimers_timers_schedule(
        timers: Object,
        now: u64,
        delay_ns: u64,
        slack_ns: u64,
        call: Call,
        handle: *mut u64,
    ) -> c_int;
    fn softtimers_timers_cancel(timers: Object, handle: u64, call: *mut Call) -> c_int;
    fn softtimers_timers_trigger(timers: Object, source: u32, now: u64) -> c_int;
    fn softtimers_pace_new(config: *const Pace, out: *mut Object) -> c_int;
    fn softtimers_pace_departed(pace: Object, now: u64, packets: u32, bytes: u32) -> u64;
    fn softtimers_histogram_new(out: *mut Object) -> c_int;
    fn softtimers_histogram_record(histogram: Object, value: u64, times: u64) -> c_int;
}

const ROUNDS: usize = 41;
const OPERATIONS: u32 = 20_000;
/// The most that the C API may cost, in nanoseconds.
const MOST_MORE_NS: f64 = 8.0;

fn main() {
    println!("ns a call, medians of {ROUNDS} rounds");
    println!("| operation | Rust | C | more |\n|---|---|---|---|");
    let mut timers = SoftTimers::new(Config::default());
    // SAFETY: no configuration is the default one.
    let other = object(|out| unsafe { softtimers_timers_new(null(), out) });
    let call = Call { function: None, argument: null_mut() };
    let (schedule, cancel) =
        black_box((softtimers_timers_schedule as Schedule, softtimers_timers_cancel as Cancel));
    let at = Timestamp::from_micros;
    compare(
        "schedule and cancel, each",
        2,
        |i| {
            let id = timers.schedule(at(i), Duration::from_millis(200), Slack::within(Duration::ZERO), call);
            black_box(timers.cancel(id));
        },
        |i| {
            let mut handle = 0;
            // SAFETY: the object lives, and the handle is written.
            unsafe { schedule(other, i * 1_000, 200_000_000, 0, call, &raw mut handle) };
            // SAFETY: the object lives; no call is written.
            unsafe { cancel(other, handle, null_mut()) };
        },
    );
    let trigger = black_box(softtimers_timers_trigger as Trigger);
    compare(
        "a trigger state, nothing due",
        1,
        |i| {
            let _ = black_box(timers.trigger(TriggerState::Send, at(i)));
        },
        |i| {
            // SAFETY: the object lives.
            black_box(unsafe { trigger(other, SEND, i) });
        },
    );
    let config = PaceConfig::new(Rate::every(Duration::from_micros(40)).expect("a rate"));
    let mut pace = RateClock::new(config).expect("a flow");
    let config: Pace = [40_000, 0, 0, 0, 0, 0, 0];
    // SAFETY: both point to what the header says.
    let other = object(|out| unsafe { softtimers_pace_new(&raw const config, out) });
    let departed = black_box(softtimers_pace_departed as Departed);
    compare(
        "a departure",
        1,
        |i| {
            black_box(pace.departed_together(Timestamp::from_nanos(i * 40_000), 1, 1));
        },
        |i| {
            // SAFETY: the object lives.
            black_box(unsafe { departed(other, i * 40_000, 1, 1) });
        },
    );
    let mut histogram = Histogram::new();
    // SAFETY: it points to what the header says.
    let other = object(|out| unsafe { softtimers_histogram_new(out) });
    let record = black_box(softtimers_histogram_record as Record);
    compare(
        "a value in a histogram",
        1,
        |i| histogram.record_many(black_box(i), black_box(1)),
        |i| {
            // SAFETY: the object lives.
            black_box(unsafe { record(other, i, 1) });
        },
    );
}

type Schedule = unsafe extern "C" fn(Object, u64, u64, u64, Call, *mut u64) -> c_int;
type Cancel = unsafe extern "C" fn(Object, u64, *mut Call) -> c_int;
type Trigger = unsafe extern "C" fn(Object, u32, u64) -> c_int;
type Departed = unsafe extern "C" fn(Object, u64, u32, u32) -> u64;
type Record = unsafe extern "C" fn(Object, u64, u64) -> c_int;

/// `SOFTTIMERS_SEND`.
const SEND: u32 = 3;

fn object(make: impl FnOnce(*mut Object) -> c_int) -> Object {
    let mut out = null_mut();
    assert_eq!(make(&raw mut out), 0);
    out
}

/// Both do `calls` calls for each operation.
fn compare(what: &str, calls: u32, mut rust: impl FnMut(u64), mut c: impl FnMut(u64)) {
    let mut number = 0;
    let mut round = |operation: &mut dyn FnMut(u64)| {
        let start = cpu_time();
        for _ in 0..OPERATIONS {
            number += 1;
            operation(number);
        }
        (cpu_time() - start).as_nanos() as f64 / f64::from(OPERATIONS * calls)
    };
    let rounds: Vec<_> = (0..ROUNDS).map(|_| [round(&mut rust), round(&mut c)]).collect();
    let median = |which: usize| {
        let mut values: Vec<_> = rounds.iter().map(|round| round[which]).collect();
        values.sort_by(f64::total_cmp);
        values[ROUNDS / 2]
    };
    let [rust, c] = [median(0), median(1)];
    let verdict = if c - rust <= MOST_MORE_NS { "" } else { " (more than 8)" };
    println!("| {what} | {rust:.1} | {c:.1} | {:.1}{verdict} |", c - rust);
}
