use super::*;

const NONE: ItimerVal = ItimerVal { interval: tv(9, 9), value: NEW };

const fn tv(sec: i64, usec: i64) -> TimeVal {
    TimeVal { sec, usec }
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn every(usec: i64) -> ItimerVal {
    ItimerVal { interval: tv(0, usec), value: tv(0, usec) }
}

fn create(timers: &mut IntervalTimers<TimeVal>, now: u64, value: ItimerVal, label: TimeVal) -> TimeVal {
    let mut ovalue = ItimerVal { interval: label, value: NEW };
    setitimer(timers, at(now), &value, Some(&mut ovalue)).unwrap();
    assert_eq!(ovalue.interval, label, "the label is left as it is");
    ovalue.value
}

//= CV-040, CV-041 (BSD timers, figure 6)
#[test]
fn creating_returns_a_handle_that_is_no_sign() {
    let mut timers = IntervalTimers::new(1, 10);
    let handle = create(&mut timers, 0, every(100), tv(-5, i64::MAX));
    assert_ne!(handle, NEW);
    assert_ne!(handle, create(&mut timers, 0, every(100), tv(0, 0)));
    assert_eq!(setitimer(&mut timers, at(0), &every(1), None), Err(SetItimerError::Invalid));
    assert_eq!(getitimer(&mut timers, at(0), None), Err(SetItimerError::Invalid));
    assert_eq!(timers.len(), 2);
}

//= CV-042 (BSD timers, figure 6)
#[test]
fn a_reset_has_its_four_effects() {
    let mut timers = IntervalTimers::new(1, 10);
    let handle = create(&mut timers, 0, every(100), tv(1, 1));
    let mut seen = ItimerVal { interval: tv(8, 8), value: handle };
    getitimer(&mut timers, at(30), Some(&mut seen)).unwrap();
    assert_eq!(seen, ItimerVal { interval: tv(0, 100), value: tv(0, 70) });

    timers.expire(at(100));
    assert_eq!(timers.queued(), 1);
    let mut ovalue = ItimerVal { interval: tv(2, 2), value: handle };
    setitimer(&mut timers, at(110), &every(40), Some(&mut ovalue)).unwrap();
    assert_eq!(ovalue, ItimerVal { interval: tv(0, 100), value: tv(0, 0) }, "the former value");
    assert_eq!(timers.queued(), 0, "no longer in the queue");
    let mut reaped = NONE;
    assert_eq!(getitimer(&mut timers, at(149), Some(&mut reaped)), Err(SetItimerError::Again));
    getitimer(&mut timers, at(150), Some(&mut reaped)).unwrap();
    assert_eq!(reaped, ItimerVal { interval: tv(2, 2), value: handle }, "the new value and the new label");
}

//= CV-044, CV-045 (BSD timers, figure 6)
#[test]
fn cancelling_returns_the_last_value_and_ignores_the_intervals() {
    let mut timers = IntervalTimers::new(1, 10);
    let handle = create(&mut timers, 0, every(100), tv(1, 1));
    let nonsense = ItimerVal { interval: tv(-4, i64::MIN), value: tv(0, 0) };
    let mut ovalue = ItimerVal { interval: tv(i64::MIN, -9), value: handle };
    setitimer(&mut timers, at(60), &nonsense, Some(&mut ovalue)).unwrap();
    assert_eq!(ovalue, ItimerVal { interval: tv(0, 100), value: tv(0, 40) });
    assert!(timers.is_empty());

    let queued = create(&mut timers, 100, every(10), tv(1, 1));
    timers.expire(at(200));
    let mut ovalue = ItimerVal { interval: tv(0, 0), value: queued };
    setitimer(&mut timers, at(200), &nonsense, Some(&mut ovalue)).unwrap();
    assert_eq!(ovalue, ItimerVal { interval: tv(0, 10), value: tv(0, 0) });
    assert!(timers.is_empty());
}

//= CV-043, CV-045, CV-048, CV-049 (BSD timers, figures 6 and 7)
#[test]
fn what_is_refused_changes_nothing() {
    let mut timers = IntervalTimers::new(1, 2);
    let live = create(&mut timers, 0, every(100), tv(1, 1));
    let dead = create(&mut timers, 0, every(100), tv(1, 1));
    let mut ovalue = ItimerVal { interval: tv(0, 0), value: dead };
    setitimer(&mut timers, at(0), &ItimerVal::default(), Some(&mut ovalue)).unwrap();
    let bad =
        [dead, NEW, tv(0, 0), tv(0, -1), tv(-1, 0), tv(i64::MAX, i64::MIN), tv(live.sec, live.usec ^ 1)];
    for handle in bad {
        let before = ItimerVal { interval: tv(5, 6), value: handle };
        let mut argument = before;
        for value in [ItimerVal::default(), every(7)] {
            if value.value != tv(0, 0) && handle == NEW {
                continue; // that creates one
            }
            let refused = setitimer(&mut timers, at(1), &value, Some(&mut argument));
            assert_eq!((refused, argument), (Err(SetItimerError::Invalid), before), "{handle:?}");
        }
        let why = if handle == NEW { SetItimerError::Again } else { SetItimerError::Invalid };
        assert_eq!((getitimer(&mut timers, at(1), Some(&mut argument)), argument), (Err(why), before));
    }
    for value in [tv(0, 1_000_000), tv(0, -1), tv(-1, 5), tv(i64::MIN, i64::MAX)] {
        let mut argument = ItimerVal { interval: tv(5, 6), value: live };
        let set = |value, interval| ItimerVal { interval, value };
        let refused = setitimer(&mut timers, at(1), &set(value, tv(0, 0)), Some(&mut argument));
        assert_eq!((refused, argument.value), (Err(SetItimerError::Invalid), live), "{value:?}");
        let refused = setitimer(&mut timers, at(1), &set(tv(0, 1), value), Some(&mut argument));
        assert_eq!((refused, argument.value), (Err(SetItimerError::Invalid), live), "interval {value:?}");
    }
    let mut seen = ItimerVal { interval: tv(0, 0), value: live };
    getitimer(&mut timers, at(1), Some(&mut seen)).unwrap();
    assert_eq!((seen.value, timers.len()), (tv(0, 99), 1));
}

//= CV-053 (BSD timers, figure 7)
#[test]
fn the_quota_holds_until_something_is_reaped() {
    let mut timers = IntervalTimers::new(1, 2);
    let once = ItimerVal { interval: tv(0, 0), value: tv(0, 5) };
    create(&mut timers, 0, once, tv(1, 0));
    create(&mut timers, 0, once, tv(2, 0));
    let mut ovalue = NONE;
    assert_eq!(setitimer(&mut timers, at(9), &once, Some(&mut ovalue)), Err(SetItimerError::Again));
    assert_eq!(ovalue, NONE);
    let mut reaped = NONE;
    getitimer(&mut timers, at(9), Some(&mut reaped)).unwrap();
    assert_eq!(reaped.interval, tv(1, 0), "first in, first out");
    setitimer(&mut timers, at(9), &once, Some(&mut ovalue)).unwrap();
}

#[test]
fn what_runs_is_never_shown_as_zero_and_the_longest_time_is_a_time() {
    let mut timers = IntervalTimers::new(1, 2);
    let longest = ItimerVal { interval: tv(i64::MAX, 999_999), value: tv(i64::MAX, 999_999) };
    let mut handle = create(&mut timers, 0, longest, tv(1, 0));
    let mut seen = ItimerVal { interval: tv(0, 0), value: handle };
    getitimer(&mut timers, at(1), Some(&mut seen)).unwrap();
    assert!(seen.value.sec > 1 << 33 && seen.interval.sec > 1 << 33);
    handle = create(&mut timers, 1, every(1), tv(1, 0));
    seen = ItimerVal { interval: tv(0, 0), value: handle };
    getitimer(&mut timers, at(1) + Duration::from_nanos(999), Some(&mut seen)).unwrap();
    assert_eq!(seen.value, tv(0, 1));
}
