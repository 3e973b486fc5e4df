//! What C holds a pointer to: [`Object`].
//!
//! ```text
//!     softtimers_timers *  ──▶  │ owner │ value, or the sign that a panic left it half done │
//!                                  └─ the thread's number, in builds with debug assertions
//! ```

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An `errno`, positive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub c_int);

impl Errno {
    /// An argument that is wrong.
    pub const INVALID: Errno = Errno(libc::EINVAL);
    /// Another thread's object.
    pub const WRONG_THREAD: Errno = Errno(libc::EPERM);
    /// A panic, now or before.
    pub const PANICKED: Errno = Errno(libc::ENOTRECOVERABLE);
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        let known = match error.kind() {
            std::io::ErrorKind::InvalidInput => libc::EINVAL,
            std::io::ErrorKind::WouldBlock => libc::EAGAIN,
            _ => libc::EIO,
        };
        Errno(error.raw_os_error().unwrap_or(known))
    }
}

/// An argument that is read, and may be the same place as another one.
pub type In<T> = Cell<T>;
/// An argument that is read and written, and may be the same place as another one.
pub type InOut<T> = Cell<T>;

/// A value that C has a pointer to.
#[repr(C)]
#[derive(Debug)]
pub struct Object<T> {
    /// First, so that whatever an object holds, this is where its pointer points.
    owner: Owner,
    /// Borrowed for ever once a panic has left it half done.
    value: RefCell<T>,
}

/// The thread that an object belongs to. Without debug assertions nobody asks.
#[repr(C)]
#[derive(Debug)]
pub struct Owner {
    #[cfg(debug_assertions)]
    thread: std::sync::atomic::AtomicU64,
}

impl Owner {
    fn here() -> Self {
        Owner {
            #[cfg(debug_assertions)]
            thread: thread_number().into(),
        }
    }

    #[inline]
    fn is_here(&self) -> bool {
        #[cfg(debug_assertions)]
        return self.thread.load(std::sync::atomic::Ordering::Relaxed) == thread_number();
        #[cfg(not(debug_assertions))]
        true
    }

    /// It belongs to this thread from now on.
    pub fn adopt(&self) {
        #[cfg(debug_assertions)]
        self.thread.store(thread_number(), std::sync::atomic::Ordering::Relaxed);
    }
}

/// Threads in the order in which they first asked.
#[cfg(debug_assertions)]
fn thread_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static THREADS: AtomicU64 = AtomicU64::new(1);
    thread_local!(static NUMBER: u64 = THREADS.fetch_add(1, Ordering::Relaxed));
    // While a thread ends it has no number any more: its destructors may free what is its own.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

impl<T> Object<T> {
    /// Makes an object and writes its address to `out`.
    pub(crate) fn make(
        out: Option<&mut std::mem::MaybeUninit<*mut Object<T>>>,
        value: impl FnOnce() -> Result<T, Errno>,
    ) -> c_int {
        let Some(out) = out else { return -Errno::INVALID.0 };
        plain(|| {
            let object = Object { owner: Owner::here(), value: RefCell::new(value()?) };
            out.write(Box::into_raw(Box::new(object)));
            Ok(0)
        })
    }

    /// Frees an object; no object is no error.
    pub(crate) fn free(object: Option<Box<Self>>) -> c_int {
        let Some(object) = object else { return 0 };
        if !object.owner.is_here() {
            // Another thread may be using it: better to lose it than to take it away.
            std::mem::forget(object);
            return -Errno::WRONG_THREAD.0;
        }
        plain(|| {
            drop(object);
            Ok(0)
        })
    }

    /// Does something with an object's value: the answer, or a negative `errno`.
    #[inline]
    pub(crate) fn with(object: Option<&Self>, body: impl FnOnce(&mut T) -> Result<c_int, Errno>) -> c_int {
        match Self::value(object, body) {
            Ok(Ok(answer)) => answer,
            Ok(Err(errno)) | Err(errno) => -errno.0,
        }
    }

    /// Asks something of an object's value; `nothing` where there is no answer.
    #[inline]
    pub(crate) fn ask<R>(object: Option<&Self>, nothing: R, body: impl FnOnce(&mut T) -> R) -> R {
        Self::value(object, body).unwrap_or(nothing)
    }

    #[inline]
    fn value<R>(object: Option<&Self>, body: impl FnOnce(&mut T) -> R) -> Result<R, Errno> {
        let object = object.ok_or(Errno::INVALID)?;
        if !object.owner.is_here() {
            return Err(Errno::WRONG_THREAD);
        }
        let mut value = object.value.try_borrow_mut().map_err(|_| Errno::PANICKED)?;
        match catch_unwind(AssertUnwindSafe(|| body(&mut value))) {
            Ok(result) => Ok(result),
            Err(panic) => {
                std::mem::forget(value);
                // What it carries may panic as it is dropped.
                std::mem::forget(panic);
                Err(Errno::PANICKED)
            }
        }
    }
}

/// Does something without an object: the answer, or a negative `errno`.
pub(crate) fn plain(body: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(errno)) => -errno.0,
        Err(panic) => {
            std::mem::forget(panic);
            -Errno::PANICKED.0
        }
    }
}

/// Writes to `out`, if there is one.
#[inline]
pub(crate) fn write<T>(out: Option<&mut std::mem::MaybeUninit<T>>, value: T) {
    if let Some(out) = out {
        out.write(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> Box<Object<u32>> {
        Box::new(Object { owner: Owner::here(), value: RefCell::new(7) })
    }

    #[test]
    fn a_panic_is_an_error_and_the_object_is_useless_from_then_on() {
        let object = object();
        let object = Some(&*object);
        assert_eq!(Object::with(object, |value| Ok(*value as c_int)), 7);
        assert_eq!(Object::with(object, |_| panic!("as asked for")), -libc::ENOTRECOVERABLE);
        assert_eq!(Object::with(object, |value| Ok(*value as c_int)), -libc::ENOTRECOVERABLE);
        assert_eq!(Object::ask(object, 99, |value| *value), 99);
        assert_eq!(plain(|| panic!("as asked for")), -libc::ENOTRECOVERABLE);
    }

    #[test]
    fn nothing_is_an_error_and_no_place_to_write_to_is() {
        assert_eq!(Object::<u32>::with(None, |_| Ok(0)), -libc::EINVAL);
        assert_eq!(Object::make(None, || Ok(7)), -libc::EINVAL);
        assert_eq!(Object::<u32>::free(None), 0);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn another_thread_is_refused_until_it_adopts() {
        struct Anywhere(Box<Object<u32>>);
        impl Anywhere {
            fn get(&self) -> Option<&Object<u32>> {
                Some(&self.0)
            }
        }
        // Asked of the owner alone, which is shared soundly; the value is looked at by one thread at a time.
        let object = Anywhere(object());
        let owner = &object.0.owner;
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(!owner.is_here()));
        });
        std::thread::scope(|scope| {
            scope.spawn(|| owner.adopt());
        });
        assert_eq!(Object::with(object.get(), |_| Ok(0)), -libc::EPERM);
        owner.adopt();
        assert_eq!(Object::with(object.get(), |_| Ok(0)), 0);
    }
}
