//! Structures in C, from third-party sources that are not in this repository: compiled with `cc` when the bench runs,
//! if a variable names their directory.
//!
//! | variable | directory | contender |
//! |---|---|---|
//! | `SOFTTIMERS_LIBUV` | `src` of libuv's sources, with `heap-inl.h` | libuv's heap |
//! | `SOFTTIMERS_TIMEOUT` | William Ahern's `timeout`, with `timeout.c` | timeout.c |

use std::ffi::{CString, c_void};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use softtimers_lab::bench::Done;

use crate::contender::Contender;

/// A source.
pub(crate) trait Source {
    const VARIABLE: &'static str;
    /// The file that must be in the directory.
    const FILE: &'static str;
    /// The functions of [`Calls`], around it.
    const CODE: &'static str;
}

pub(crate) struct Libuv;

impl Source for Libuv {
    const VARIABLE: &'static str = "SOFTTIMERS_LIBUV";
    const FILE: &'static str = "heap-inl.h";
    const CODE: &'static str = include_str!("libuv_heap.c");
}

pub(crate) struct Timeout;

impl Source for Timeout {
    const VARIABLE: &'static str = "SOFTTIMERS_TIMEOUT";
    const FILE: &'static str = "timeout.c";
    const CODE: &'static str = include_str!("timeout_wheel.c");
}

const POOL: &str = include_str!("pool.h");

/// Returns the directory with the sources.
///
/// # Errors
/// Why there is none.
pub(crate) fn directory<S: Source>() -> Result<PathBuf, String> {
    let (variable, file) = (S::VARIABLE, S::FILE);
    let directory =
        std::env::var_os(variable).ok_or_else(|| format!("{variable} names no directory with {file}"))?;
    let directory = PathBuf::from(directory);
    if directory.join(file).is_file() {
        Ok(directory)
    } else {
        Err(format!("{variable}: there is no {file} in {}", directory.display()))
    }
}

type Pointer = *mut c_void;

#[derive(Clone, Copy)]
#[repr(C)]
struct Calls {
    new: unsafe extern "C" fn() -> Pointer,
    set: unsafe extern "C" fn(Pointer, u64, u32) -> Pointer,
    cancel: unsafe extern "C" fn(Pointer, Pointer),
    rearm: unsafe extern "C" fn(Pointer, Pointer, u64),
    advance: unsafe extern "C" fn(Pointer, u64, *mut u32, usize) -> usize,
    next: unsafe extern "C" fn(Pointer) -> u64,
}

impl Calls {
    /// Returns the functions of the source; a process has one contender, so one source.
    fn from_source<S: Source>() -> &'static Calls {
        static CALLS: OnceLock<Calls> = OnceLock::new();
        CALLS.get_or_init(|| load::<S>().unwrap_or_else(|error| panic!("{}: {error}", S::FILE)))
    }
}

fn load<S: Source>() -> Done<Calls> {
    let into = std::env::temp_dir().join(format!("softtimers-timers-{}", std::process::id()));
    std::fs::create_dir_all(&into)?;
    let loaded = compile::<S>(&directory::<S>()?, &into).and_then(|library| open(&library));
    std::fs::remove_dir_all(&into)?;
    loaded
}

fn compile<S: Source>(sources: &Path, into: &Path) -> Done<CString> {
    let (code, library) = (into.join("bench.c"), into.join("bench.so"));
    std::fs::write(into.join("pool.h"), POOL)?;
    std::fs::write(&code, S::CODE)?;
    let mut cc = Command::new("cc");
    cc.args(["-O3", "-shared", "-fPIC", "-w", "-I"]).arg(sources).arg("-o").arg(&library);
    let status = cc.arg(&code).status()?;
    if !status.success() {
        return Err(format!("cc: {status}").into());
    }
    Ok(CString::new(library.into_os_string().into_encoded_bytes())?)
}

fn open(library: &CString) -> Done<Calls> {
    // SAFETY: a path that ends with zero; the library has no constructors.
    let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() {
        return Err("the library cannot be loaded".into());
    }
    // SAFETY: a library that has been loaded, and a name that ends with zero.
    let calls = unsafe { libc::dlsym(handle, c"calls".as_ptr()) };
    if calls.is_null() {
        return Err("the library has no calls".into());
    }
    // SAFETY: six functions with these parameters, in this order: so say `libuv_heap.c` and `timeout_wheel.c`.
    Ok(unsafe { calls.cast::<Calls>().read() })
}

pub(crate) struct Foreign<S> {
    calls: Calls,
    set: Pointer,
    source: PhantomData<S>,
}

impl<S: Source> Contender for Foreign<S> {
    type Handle = Pointer;

    fn new(_: usize) -> Self {
        let calls = *Calls::from_source::<S>();
        // SAFETY: it may be called at any time.
        let set = unsafe { (calls.new)() };
        assert!(!set.is_null(), "no memory");
        Foreign { calls, set, source: PhantomData }
    }

    fn set(&mut self, due: u64, number: u32) -> Pointer {
        // SAFETY: the set lives as long as the process, and so do its timers, which are used again.
        unsafe { (self.calls.set)(self.set, due, number) }
    }

    fn cancel(&mut self, handle: Pointer) {
        // SAFETY: a pending timer of this set: a fired one has lost its handle.
        unsafe { (self.calls.cancel)(self.set, handle) }
    }

    fn rearm(&mut self, handle: Pointer, due: u64, _: u32) -> Pointer {
        // SAFETY: as for `cancel`.
        unsafe { (self.calls.rearm)(self.set, handle, due) }
        handle
    }

    fn advance(&mut self, now: u64, fired: &mut Vec<u32>) {
        let mut some = [0; 64];
        loop {
            // SAFETY: there is room for `some.len()` of them.
            let count = unsafe { (self.calls.advance)(self.set, now, some.as_mut_ptr(), some.len()) };
            fired.extend_from_slice(&some[..count]);
            if count < some.len() {
                return;
            }
        }
    }

    fn next(&mut self) -> Option<u64> {
        // SAFETY: the set lives as long as the process.
        let next = unsafe { (self.calls.next)(self.set) };
        (next != u64::MAX).then_some(next)
    }
}
