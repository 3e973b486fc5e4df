//! The cost of the C API: the same operations from Rust and through the functions of `softtimers.h`, in
//! turns, in CPU time. `cargo bench -p softtimers-capi --bench border`.
//!
//! The C functions are called through pointers that the compiler cannot see through, as a C program calls them.
#![allow(unsafe_code, reason = "this is C's side of the border")]

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::time::Duration;

use softtimers::late::cpu_time;
use softtimers::{
    Config, Histogram, PaceConfig, Rate, RateClock, Slack, SoftTimers, Timestamp, TriggerState,
};
use softtimers_capi::border::{clock::*, histogram::*, pace::*, timers::*};
use softtimers_capi::object::{Kind, Object};

const ROUNDS: usize = 41;
const OPERATIONS: u32 = 20_000;
/// The most that the C API may cost, in nanoseconds.
const MOST_MORE_NS: f64 = 8.0;

fn main() {
    println!("ns a call, medians of {ROUNDS} rounds");
    println!("| operation | Rust | C | more |\n|---|---|---|---|");
    let (mut timers, other) =
        (SoftTimers::new(Config::default()), object(|out| softtimers_timers_new(None, out)));
    let call = softtimers_call { function: None, argument: null_mut() };
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
            let mut handle = MaybeUninit::new(0);
            schedule(Some(other), i * 1_000, 200_000_000, 0, call, Some(&mut handle));
            // SAFETY: it was zero before.
            cancel(Some(other), unsafe { handle.assume_init() }, None);
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
            black_box(trigger(Some(other), SOFTTIMERS_SEND, i));
        },
    );
    let config = PaceConfig::new(Rate::every(Duration::from_micros(40)).expect("a rate"));
    let mut pace = RateClock::new(config).expect("a flow");
    let config = softtimers_pace_config { interval_ns: 40_000, ..Default::default() };
    let other = object(|out| softtimers_pace_new(Some(&config), out));
    let departed = black_box(softtimers_pace_departed as Departed);
    compare(
        "a departure",
        1,
        |i| {
            black_box(pace.departed_together(Timestamp::from_nanos(i * 40_000), 1, 1));
        },
        |i| {
            black_box(departed(Some(other), i * 40_000, 1, 1));
        },
    );
    let mut histogram = Histogram::new();
    let other = object(|out| softtimers_histogram_new(out));
    let record = black_box(softtimers_histogram_record as Record);
    compare(
        "a value in a histogram",
        1,
        |i| histogram.record_many(black_box(i), black_box(1)),
        |i| {
            black_box(record(Some(other), i, 1));
        },
    );
}

type Schedule = extern "C" fn(
    Option<&softtimers_timers>,
    u64,
    u64,
    u64,
    softtimers_call,
    Option<&mut MaybeUninit<u64>>,
) -> i32;
type Cancel =
    extern "C" fn(Option<&softtimers_timers>, u64, Option<&mut MaybeUninit<softtimers_call>>) -> i32;
type Trigger = extern "C" fn(Option<&softtimers_timers>, u32, u64) -> i32;
type Departed = extern "C" fn(Option<&softtimers_pace>, u64, u32, u32) -> u64;
type Record = extern "C" fn(Option<&softtimers_histogram>, u64, u64) -> i32;

fn object<T: Kind>(make: impl FnOnce(Option<&mut MaybeUninit<*mut Object<T>>>) -> i32) -> &'static Object<T> {
    let mut out = MaybeUninit::new(null_mut());
    assert_eq!(make(Some(&mut out)), 0);
    // SAFETY: it was null before.
    let object = unsafe { out.assume_init() };
    // SAFETY: the library made it, as its result says; its head is never unmapped.
    unsafe { object.as_ref() }.expect("an object")
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
