//! libuv's timers, where the shared library is installed: milliseconds.
//!
//! It is loaded at run time, so that nobody needs its headers, and what it does not find is said. Its
//! clock is this program's (`clock.rs`), which the linker exports for that (build.rs).

use std::cell::RefCell;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use crate::clock;
use crate::contender::Contender;

const NAMES: [&CStr; 2] = [c"libuv.so.1", c"libuv.so"];
/// `UV_TIMER` and `UV_RUN_NOWAIT` of uv.h.
const TIMER: c_int = 13;
const NO_WAIT: c_int = 2;

thread_local! {
    static FIRED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

type Loop = *mut c_void;
type Timer = *mut c_void;
type Callback = extern "C" fn(Timer);

struct Functions {
    loop_size: unsafe extern "C" fn() -> usize,
    loop_init: unsafe extern "C" fn(Loop) -> c_int,
    handle_size: unsafe extern "C" fn(c_int) -> usize,
    timer_init: unsafe extern "C" fn(Loop, Timer) -> c_int,
    timer_start: unsafe extern "C" fn(Timer, Callback, u64, u64) -> c_int,
    timer_stop: unsafe extern "C" fn(Timer) -> c_int,
    set_data: unsafe extern "C" fn(Timer, *mut c_void),
    data: unsafe extern "C" fn(Timer) -> *mut c_void,
    run: unsafe extern "C" fn(Loop, c_int) -> c_int,
    update_time: unsafe extern "C" fn(Loop),
    now: unsafe extern "C" fn(Loop) -> u64,
    backend_timeout: unsafe extern "C" fn(Loop) -> c_int,
}

/// Why it does not take part, if so.
pub(crate) fn missing() -> Option<String> {
    if open().is_null() { Some("libuv.so.1 is not installed".into()) } else { None }
}

fn open() -> *mut c_void {
    for name in NAMES {
        // SAFETY: the name ends with a zero; the library's initialisers are those of libuv.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if !library.is_null() {
            return library;
        }
    }
    ptr::null_mut()
}

impl Functions {
    #[expect(clippy::missing_transmute_annotations, reason = "the fields say the types")]
    fn load() -> Self {
        let library = open();
        let symbol = |name: &CStr| {
            // SAFETY: the library is open, the name ends with a zero.
            let address = unsafe { libc::dlsym(library, name.as_ptr()) };
            assert!(!address.is_null(), "libuv has no {name:?}");
            address
        };
        macro_rules! function {
            ($name:literal) => {{
                let address = symbol($name);
                // SAFETY: uv.h declares the function of this name with the type of this field.
                unsafe { std::mem::transmute(address) }
            }};
        }
        Functions {
            loop_size: function!(c"uv_loop_size"),
            loop_init: function!(c"uv_loop_init"),
            handle_size: function!(c"uv_handle_size"),
            timer_init: function!(c"uv_timer_init"),
            timer_start: function!(c"uv_timer_start"),
            timer_stop: function!(c"uv_timer_stop"),
            set_data: function!(c"uv_handle_set_data"),
            data: function!(c"uv_handle_get_data"),
            run: function!(c"uv_run"),
            update_time: function!(c"uv_update_time"),
            now: function!(c"uv_now"),
            backend_timeout: function!(c"uv_backend_timeout"),
        }
    }
}

extern "C" fn on_timer(timer: Timer) {
    UV.with(|uv| {
        // SAFETY: libuv calls with a timer that was initialised; its data is a number.
        let number = unsafe { (uv.data)(timer) } as usize as u32;
        FIRED.with_borrow_mut(|fired| fired.push(number));
    });
}

thread_local! {
    static UV: Functions = Functions::load();
}

pub(crate) struct Libuv {
    uv: Functions,
    events: Loop,
    /// Timers that are not active, to be used again. Memory is never given back: uv_close would want a run.
    free: Vec<Timer>,
    base: u64,
    now: u64,
}

/// Memory of this size for a structure of the library, zeroed and never freed.
fn allocate(bytes: usize) -> *mut c_void {
    let words = vec![0u128; bytes.div_ceil(size_of::<u128>())];
    Box::leak(words.into_boxed_slice()).as_mut_ptr().cast()
}

impl Contender for Libuv {
    type Handle = Timer;

    fn new(_: usize) -> Self {
        clock::set(0);
        let uv = Functions::load();
        // SAFETY: takes nothing.
        let events = allocate(unsafe { (uv.loop_size)() });
        // SAFETY: as much memory as a loop needs, which stays.
        let refused = unsafe { (uv.loop_init)(events) };
        assert!(refused == 0, "uv_loop_init: {refused}");
        // SAFETY: the loop is initialised.
        let base = unsafe { (uv.now)(events) };
        Libuv { uv, events, free: Vec::new(), base, now: 0 }
    }

    fn set(&mut self, due: u64, number: u32) -> Timer {
        let timer = self.free.pop().unwrap_or_else(|| {
            // SAFETY: takes a number.
            let timer = allocate(unsafe { (self.uv.handle_size)(TIMER) });
            // SAFETY: as much memory as a timer needs, which stays.
            unsafe { (self.uv.timer_init)(self.events, timer) };
            timer
        });
        // SAFETY: the timer is initialised; its data is a number, never followed.
        unsafe { (self.uv.set_data)(timer, number as usize as *mut c_void) };
        self.rearm(timer, due, number)
    }

    fn cancel(&mut self, handle: Timer) {
        // SAFETY: the timer is initialised.
        unsafe { (self.uv.timer_stop)(handle) };
        self.free.push(handle);
    }

    fn rearm(&mut self, handle: Timer, due: u64, _: u32) -> Timer {
        // SAFETY: the timer is initialised and stays; the callback is a function of this program.
        unsafe { (self.uv.timer_start)(handle, on_timer, due.saturating_sub(self.now), 0) };
        handle
    }

    fn release(&mut self, handle: Timer) {
        self.free.push(handle);
    }

    fn advance(&mut self, now: u64, fired: &mut Vec<u32>) {
        self.now = now;
        clock::set(now * 1_000_000);
        // SAFETY: the loop is initialised.
        unsafe { (self.uv.update_time)(self.events) };
        // SAFETY: the loop is initialised; its callbacks touch only FIRED and UV.
        unsafe { (self.uv.run)(self.events, NO_WAIT) };
        // SAFETY: the loop is initialised.
        let seen = unsafe { (self.uv.now)(self.events) } - self.base;
        assert!(seen == now, "libuv reads another clock than this program's: {seen} ms, not {now}");
        FIRED.with_borrow_mut(|list| fired.append(list));
    }

    fn next(&mut self) -> Option<u64> {
        // SAFETY: the loop is initialised.
        let wait = unsafe { (self.uv.backend_timeout)(self.events) };
        u64::try_from(wait).ok().map(|wait| self.now + wait)
    }
}
