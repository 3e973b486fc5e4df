//! Random sequences of calls: the body of a property test and of a fuzz target.
//!
//! Bytes encode calls. Each byte chooses a function, those after it its arguments: times, handles of the
//! right object, of another one, dead or invented. Every result is checked against the allowed ones: a count,
//! or one of few errors; never early, never twice; and a refusal changes nothing.
#![allow(unsafe_code, reason = "this is the side of the border that is C's: it frees what it was given")]

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use crate::border::{
    callouts::*, clock::*, flows::*, histogram::*, itimers::*, pace::*, policy::*, timers::*, wan::*,
};
use crate::object::{InOut, Kind, Object};

/// Interprets `bytes` as calls.
///
/// # Panics
/// If the library misbehaves.
pub fn run(bytes: &[u8]) {
    let mut calls = Calls { bytes, now: 1 << 30, pending: [HashMap::new(), HashMap::new()], dead: vec![] };
    let timers = [(); 2].map(|()| Held::new(|out| softtimers_timers_new(None, out)));
    let callouts = [(); 2].map(|()| Held::new(|out| softtimers_callouts_new(out)));
    let itimers = [(); 2].map(|()| Held::new(|out| softtimers_itimers_new(MOST_TIMES, out)));
    while let Some(byte) = calls.byte() {
        match byte % 16 {
            0..=5 => calls.timers(&timers),
            6..=9 => calls.callouts(&callouts),
            10..=13 => calls.itimers(&itimers),
            14 => calls.others(),
            _ => calls.now = calls.now.saturating_add(calls.time() % (1 << 34)),
        }
    }
}

/// A C object, freed at the end.
struct Held<T: Kind>(*mut Object<T>);

impl<T: Kind> Held<T> {
    fn new(make: impl FnOnce(Option<&mut MaybeUninit<*mut Object<T>>>) -> c_int) -> Self {
        let mut out = MaybeUninit::new(null_mut());
        let made = make(Some(&mut out));
        assert!(made == 0 || REFUSALS.contains(&made), "{made}");
        // SAFETY: it was set to null above, and at most overwritten.
        Held(unsafe { out.assume_init() })
    }

    fn get(&self) -> Option<&'static Object<T>> {
        // SAFETY: null, or an object, whose head is never unmapped.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Kind> Drop for Held<T> {
    fn drop(&mut self) {
        assert_eq!(Object::free(self.get()), 0);
    }
}

struct Calls<'a> {
    bytes: &'a [u8],
    now: u64,
    /// The pending events of each set of timers, and the earliest time at which each is due.
    pending: [HashMap<u64, u64>; 2],
    /// Handles of all former events, of all objects.
    dead: Vec<u64>,
}

impl Calls<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte().unwrap_or(0)))
    }

    /// Returns a time, often short, sometimes extreme.
    fn time(&mut self) -> u64 {
        match self.byte().unwrap_or(0) {
            short @ 0..=127 => u64::from(short) * 997,
            long @ 128..=223 => 1 << (long - 128).min(62),
            _ => self.number(),
        }
    }

    /// Returns a handle: a live one of the set, one of another, a dead one, or an invented one.
    fn handle(&mut self, set: usize) -> u64 {
        let choice = self.byte().unwrap_or(0);
        let pick = usize::from(choice) / 4;
        let one_of = |map: &HashMap<u64, u64>| map.keys().min_by_key(|key| *key ^ pick as u64).copied();
        match choice % 4 {
            0 | 1 => one_of(&self.pending[set]).unwrap_or(0),
            2 => self.dead.get(pick % self.dead.len().max(1)).copied().unwrap_or(u64::MAX),
            _ if choice & 4 == 0 => one_of(&self.pending[1 - set]).unwrap_or(1),
            _ => self.number(),
        }
    }

    fn timers(&mut self, sets: &[Held<Timers>; 2]) {
        let choice = self.byte().unwrap_or(0);
        let which = usize::from(choice & 1);
        let set = sets[which].get();
        match choice >> 1 & 7 {
            0..=2 => {
                let (delay, slack, mut out) = (self.time(), self.time(), MaybeUninit::new(0));
                let call = softtimers_call { function: None, argument: null_mut() };
                let done = softtimers_timers_schedule(set, self.now, delay, slack, call, Some(&mut out));
                refused_or(done, &[0]);
                if done == 0 {
                    // SAFETY: it was zero before.
                    let handle = unsafe { out.assume_init() };
                    assert!(handle != 0 && handle != u64::MAX && !self.dead.contains(&handle));
                    let before = self.pending[which].insert(handle, self.now.saturating_add(delay));
                    assert_eq!(before, None, "a handle came twice");
                }
            }
            3 => {
                let handle = self.handle(which);
                let done = softtimers_timers_cancel(set, handle, None);
                assert_eq!(done == 0, self.pending[which].remove(&handle).is_some());
                refused_or(done, &[0]);
                self.dead.push(handle);
            }
            4 => {
                let (handle, delay) = (self.handle(which), self.time());
                let done = softtimers_timers_reschedule(set, self.now, handle, delay, 0);
                match self.pending[which].get_mut(&handle) {
                    Some(due) => {
                        assert_eq!(done, 0);
                        *due = self.now.saturating_add(delay);
                    }
                    None => assert_eq!(done, -libc::EINVAL),
                }
            }
            5 => refused_or(
                softtimers_timers_trigger(set, u32::from(self.byte().unwrap_or(0)), self.now),
                &[0, 1],
            ),
            _ => self.turn(set, which),
        }
        assert_eq!(softtimers_timers_len(set), self.pending[which].len());
    }

    fn turn(&mut self, set: Option<&softtimers_timers>, which: usize) {
        refused_or(softtimers_timers_trigger(set, SOFTTIMERS_IDLE, self.now), &[0, 1]);
        loop {
            let mut fired = MaybeUninit::uninit();
            let next = softtimers_timers_next(set, Some(&mut fired));
            refused_or(next, &[0, 1]);
            if next != 1 {
                break;
            }
            // SAFETY: the answer was that it has been written.
            let fired: softtimers_fired = unsafe { fired.assume_init() };
            let due = self.pending[which].remove(&fired.handle);
            assert!(due.is_some_and(|due| due <= self.now), "early, or not pending: {fired:?}");
            self.dead.push(fired.handle);
        }
    }

    fn callouts(&mut self, sets: &[Held<softtimers::bsd::Callouts<softtimers_call>>; 2]) {
        let choice = self.byte().unwrap_or(0);
        let set = sets[usize::from(choice & 1)].get();
        let argument = std::ptr::without_provenance_mut(usize::from(choice >> 4) * 64);
        let function: softtimers_function = Some(nothing);
        match choice >> 1 & 7 {
            0 => refused_or(softtimers_timeout(set, function, argument, self.time()), &[0]),
            1 => refused_or(softtimers_untimeout(set, function, argument), &[0, 1]),
            2 => {
                let mut handle = MaybeUninit::new(0);
                let ticks = self.time();
                refused_or(softtimers_setcallout(set, function, argument, ticks, Some(&mut handle)), &[0]);
                // SAFETY: it was zero before.
                self.dead.push(unsafe { handle.assume_init() });
            }
            3 => {
                let handle = self.handle(0);
                refused_or(softtimers_unsetcallout(set, handle), &[0]);
                assert_eq!(softtimers_unsetcallout(set, handle), -libc::EINVAL, "twice");
            }
            4 => {
                refused_or(softtimers_softclock_next(set, Some(&mut MaybeUninit::uninit())), &[0, 1]);
                refused_or(softtimers_softclock_step(set, Some(&mut MaybeUninit::uninit())), &[0, 1, 2]);
            }
            5 => refused_or(softtimers_hold(set), &[0, 1]),
            6 => refused_or(softtimers_release(set), &[0, 1]),
            _ => refused_or(softtimers_tick(set), &[0, 1]),
        }
        refused_or(softtimers_timeout(set, None, argument, 1), &[]);
    }

    fn itimers(&mut self, sets: &[Held<softtimers::bsd::MultiTimers<softtimers::bsd::TimeVal>>; 2]) {
        let choice = self.byte().unwrap_or(0);
        let set = sets[usize::from(choice & 1)].get();
        let before = softtimers_itimers_len(set);
        match choice >> 1 & 7 {
            0 | 1 => {
                let (value, interval, mut handle) = (self.time(), self.time(), MaybeUninit::new(0));
                let done = softtimers_itimer_create(set, value, interval, 7, Some(&mut handle));
                refused_or(done, &[0]);
                assert_eq!(softtimers_itimers_len(set), before + usize::from(done == 0));
                assert!(before < MOST_TIMES as usize || done < 0, "above the quota");
                // SAFETY: it was zero before.
                self.dead.push(unsafe { handle.assume_init() });
            }
            2 => {
                let (handle, value) = (self.handle(0), self.time());
                refused_or(softtimers_itimer_reset(set, handle, value, 0, 8, None), &[0]);
            }
            3 => {
                let handle = self.handle(0);
                let done = softtimers_itimer_cancel(set, handle, None);
                refused_or(done, &[0]);
                assert_eq!(softtimers_itimers_len(set), before - usize::from(done == 0));
                assert_eq!(softtimers_itimer_cancel(set, handle, None), -libc::EINVAL, "twice");
            }
            4 => {
                let handle = self.handle(0);
                refused_or(softtimers_itimer_query(set, handle, Some(&mut MaybeUninit::uninit())), &[0]);
            }
            5 => refused_or(softtimers_itimer_reap(set, Some(&mut MaybeUninit::uninit())), &[0]),
            6 => {
                // The paper's interface with random values, and both arguments the same.
                let value = self.itimerval();
                refused_or(softtimers_multi_setitimer(set, Some(&value), Some(&value)), &[0]);
            }
            _ => refused_or(softtimers_multi_getitimer(set, Some(&self.itimerval())), &[0]),
        }
    }

    fn itimerval(&mut self) -> InOut<libc::itimerval> {
        let mut half = || match self.byte().unwrap_or(0) {
            0..=63 => -1,
            64..=127 => 0,
            _ => self.number() as i64,
        };
        let [a, b, c, d] = [half(), half(), half(), half()];
        let time = |tv_sec, tv_usec| libc::timeval { tv_sec, tv_usec };
        InOut::new(libc::itimerval { it_interval: time(a, b), it_value: time(c, d) })
    }

    /// A queue with one flow, and packets for it and for invalid handles.
    fn flows(&mut self, pace: &softtimers_pace_config) {
        let packets = u32::from(self.byte().unwrap_or(0)) % 4;
        let slot_ns = self.time();
        let flows = Held::new(|out| softtimers_flows_new(packets, slot_ns, out));
        let mut flow = MaybeUninit::new(1);
        let added = softtimers_flows_add(flows.get(), Some(pace), packets, Some(&mut flow));
        refused_or(added, &[0]);
        // SAFETY: it was 1 before.
        let flow = unsafe { flow.assume_init() };
        let mut waiting = 0;
        for _ in 0..4 {
            let bytes = self.number() as u32;
            let done = softtimers_flows_enqueue(flows.get(), self.now, flow, bytes, 1);
            assert!(done == 0 || done == if added == 0 { -libc::ENOBUFS } else { -libc::EINVAL });
            waiting += usize::from(done == 0);
            let other = self.handle(0);
            refused_or(softtimers_flows_enqueue(flows.get(), self.now, other, bytes, 2), &[]);
            assert_eq!(softtimers_flows_len(flows.get()), waiting);
        }
        refused_or(softtimers_flows_turn(flows.get(), self.now.saturating_add(self.time())), &[0]);
        while softtimers_flows_pop(flows.get(), Some(&mut MaybeUninit::uninit())) == 1 {
            waiting -= 1;
        }
        assert_eq!(
            softtimers_flows_remove(flows.get(), flow),
            if added == 0 { waiting as c_int } else { added }
        );
        assert_eq!(softtimers_flows_remove(flows.get(), flow), -libc::EINVAL, "twice");
    }

    /// Short-lived objects, with random parameters.
    fn others(&mut self) {
        let [interval_ns, packets_per_second, bits_per_second] = [0; 3].map(|_: u8| self.time());
        let (burst_interval_ns, strategy) = (self.time(), u32::from(self.byte().unwrap_or(0)) % 5);
        let config = softtimers_pace_config {
            interval_ns,
            packets_per_second: packets_per_second & interval_ns & 1,
            bits_per_second: bits_per_second & interval_ns & 2,
            burst_interval_ns,
            strategy,
            ..Default::default()
        };
        let pace = Held::new(|out| softtimers_pace_new(Some(&config), out));
        if let pace @ Some(_) = pace.get() {
            softtimers_pace_start(pace, self.now);
            for _ in 0..4 {
                let left = self.now.saturating_add(self.time());
                let next = softtimers_pace_departed(pace, left, self.number() as u32, self.number() as u32);
                assert!(next >= self.now || strategy == SOFTTIMERS_PACE_FIXED);
            }
        }
        self.flows(&config);
        let kind = u32::from(self.byte().unwrap_or(0)) % 10;
        let config = softtimers_policy_config { kind, quota: self.number() as u32, time_ns: self.time() };
        let policy = Held::new(|out| softtimers_policy_new(Some(&config), out));
        if let policy @ Some(_) = policy.get() {
            for _ in 0..4 {
                let (began, ended) = (self.now, self.now.saturating_add(self.time()));
                refused_or(softtimers_policy_arrived(policy, began), &[0]);
                let looked = softtimers_policy_looked(policy, began, ended, self.number() as u32, None);
                refused_or(looked, &[0]);
            }
        }
        let path = softtimers_path {
            bits_per_second,
            delay_ns: self.time(),
            jitter_ns: self.time(),
            loss_ppb: self.number() as u32,
            ..Default::default()
        };
        let wan = Held::new(|out| softtimers_wan_new(Some(&path), None, self.now, out));
        if let wan @ Some(_) = wan.get() {
            for way in 0..3 {
                refused_or(softtimers_wan_offer(wan, self.now, way, self.number() as u32, 5), &[0, 1, 2]);
            }
            let at = softtimers_wan_poll_at(wan);
            refused_or(softtimers_wan_pop_due(wan, at, Some(&mut MaybeUninit::uninit())), &[0, 1]);
        }
        let histogram = Held::new(|out| softtimers_histogram_new(out));
        refused_or(softtimers_histogram_record(histogram.get(), self.time(), self.number()), &[0]);
        refused_or(softtimers_histogram_merge(histogram.get(), histogram.get()), &[]);
        softtimers_histogram_quantile(histogram.get(), f64::from_bits(self.number()));
    }
}

extern "C" fn nothing(_: *mut c_void) {}

/// Checks for one of these results, or one of the few errors of an invalid argument.
fn refused_or(answer: c_int, answers: &[c_int]) {
    assert!(answers.contains(&answer) || REFUSALS.contains(&answer), "answered {answer}");
}

const REFUSALS: [c_int; 3] = [-libc::EINVAL, -libc::EAGAIN, -libc::EOVERFLOW];
const MOST_TIMES: u32 = 20;
