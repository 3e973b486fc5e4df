//! The objects that C points to: [`Object`].
//!
//! ```text
//!   softtimers_timers *  ──▶  head │ magic: its kind, and whether it lives │ owner │ life │ ──▶ value
//!                             └ never unmapped: a pointer to a former object may be read for ever
//! ```
//!
//! C guarantees that a pointer is to an object of its type, and may break that by mistake: it uses an object
//! after it was freed, frees it twice, or takes it to another thread. So a pointer is used only if its head
//! allows it, in every build, and each function of the C API begins with that check: `with`, `ask` or `free`.
//! Misuse cannot be reported by an `errno`, because the program would continue with a wrong idea of its
//! objects. It ends the program by `abort`, with a line that names function and object (`misuse`).

mod errno;
mod head;
mod kinds;
mod misuse;

use std::ffi::c_int;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use errno::Errno;
use head::Head;
pub(crate) use kinds::Kind;

/// An argument that is read, and may alias another one.
pub(crate) type In<T> = std::cell::Cell<T>;
/// An argument that is read and written, and may alias another one.
pub(crate) type InOut<T> = std::cell::Cell<T>;

/// A value to which C has a pointer: a head, for any value.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Object<T> {
    any: AnyObject,
    kind: PhantomData<fn() -> T>,
}

/// An object of any kind.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct AnyObject {
    head: Head,
}

impl<T: Kind> Object<T> {
    /// Makes an object and writes its address to `out`.
    pub(crate) fn make(
        out: Option<&mut MaybeUninit<*mut Object<T>>>,
        value: impl FnOnce() -> Result<T, Errno>,
    ) -> c_int {
        let Some(out) = out else { return -Errno::INVALID.0 };
        plain(|| {
            let head = Head::take(value()?);
            // An object is its head.
            out.write(std::ptr::from_ref(head).cast_mut().cast());
            Ok(0)
        })
    }

    /// Frees an object; does nothing for `None`.
    ///
    /// The value is dropped at once, even within a C call that was handed out: the library is not on the
    /// stack then, and the loop that made the call sees that the object's life is over
    /// ([`AnyObject::lives`]).
    pub(crate) fn free(object: Option<&'static Self>) -> c_int {
        let Some(Object { any: AnyObject { head }, .. }) = object else { return 0 };
        if let Err(wrong) = head.check_of(T::NAME) {
            wrong.at_free().end(&format_args!("{}_free", T::NAME))
        }
        let value = head.retire();
        plain(|| {
            drop(value);
            Ok(0)
        })
    }

    /// Runs `body` on an object's value; returns its result, or a negative `errno`.
    #[inline]
    pub(crate) fn with<F>(object: Option<&Self>, body: F) -> c_int
    where
        F: FnOnce(&mut T) -> Result<c_int, Errno>,
    {
        match Self::value(object, body) {
            Ok(Ok(answer)) => answer,
            Ok(Err(errno)) | Err(errno) => -errno.0,
        }
    }

    /// Reads something from an object's value; returns `nothing` on an error.
    #[inline]
    pub(crate) fn ask<R, F>(object: Option<&Self>, nothing: R, body: F) -> R
    where
        F: FnOnce(&mut T) -> R,
    {
        Self::value(object, body).unwrap_or(nothing)
    }

    #[inline]
    fn value<R, F>(object: Option<&Self>, body: F) -> Result<R, Errno>
    where
        F: FnOnce(&mut T) -> R,
    {
        let caught = |value: &mut T| catch_unwind(AssertUnwindSafe(|| body(value))).map_err(std::mem::forget);
        match object.and_then(|object| object.any.head.with(caught)) {
            Some(answer) => answer,
            // The name of a closure contains its function.
            None => Err(unbelieved::<T>(object, std::any::type_name::<F>())),
        }
    }
}

/// Returns the error of an object that cannot be used: an earlier panic. All other faults end the process.
#[cold]
fn unbelieved<T: Kind>(object: Option<&Object<T>>, closure: &'static str) -> Errno {
    match object.map(|object| object.any.head.check_of(T::NAME)) {
        Some(Ok(())) => Errno::PANICKED,
        Some(Err(wrong)) => wrong.end(&misuse::function(closure)),
        None => misuse::Wrong::null(T::NAME).end(&misuse::function(closure)),
    }
}

impl AnyObject {
    /// Gives it to this thread.
    pub(crate) fn adopt(object: Option<&Self>) {
        const FUNCTION: &str = "softtimers_adopt";
        let Some(AnyObject { head }) = object else { misuse::Wrong::null("object").end(&FUNCTION) };
        if let Err(wrong) = head.adopt() {
            wrong.end(&FUNCTION);
        }
    }

    /// Returns the number of an object's life, unique among all objects.
    pub(crate) fn life(object: Option<&Self>) -> u64 {
        const FUNCTION: &str = "softtimers_life";
        let Some(AnyObject { head }) = object else { misuse::Wrong::null("object").end(&FUNCTION) };
        if let Err(wrong) = head.kind() {
            wrong.end(&FUNCTION);
        }
        head.life()
    }

    /// Returns whether it still has this life.
    #[inline]
    pub(crate) fn lives(object: Option<&Self>, life: u64) -> bool {
        object.is_some_and(|object| object.head.life() == life)
    }
}

/// Runs `body` without an object; returns its result, or a negative `errno`.
pub(crate) fn plain(body: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(answer)) => answer,
        Ok(Err(errno)) => -errno.0,
        Err(panic) => {
            // Dropping its payload may panic.
            std::mem::forget(panic);
            -Errno::PANICKED.0
        }
    }
}

/// Writes to `out`, if there is one.
#[inline]
pub(crate) fn write<T>(out: Option<&mut MaybeUninit<T>>, value: T) {
    if let Some(out) = out {
        out.write(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers::Histogram;

    fn object() -> &'static Object<Histogram> {
        let mut out = MaybeUninit::new(std::ptr::null_mut());
        assert_eq!(Object::make(Some(&mut out), || Ok(Histogram::new())), 0);
        from_c(out)
    }

    #[expect(unsafe_code, reason = "this is C's side of the border")]
    fn from_c<T>(out: MaybeUninit<*mut Object<T>>) -> &'static Object<T> {
        // SAFETY: the caller has set it to null, and the library at most overwritten it.
        let object = unsafe { out.assume_init() };
        // SAFETY: null, or an object, whose head stays for ever.
        unsafe { object.as_ref() }.unwrap()
    }

    #[test]
    fn a_panic_is_an_error_and_the_object_is_useless_from_then_on() {
        let object = Some(object());
        assert_eq!(Object::with(object, |_| Ok(7)), 7);
        assert_eq!(Object::with(object, |_| panic!("as asked for")), -libc::ENOTRECOVERABLE);
        assert_eq!(Object::with(object, |_| Ok(7)), -libc::ENOTRECOVERABLE);
        assert_eq!(Object::ask(object, 99, |_| 7), 99);
        assert_eq!(Object::free(object), 0);
        assert_eq!(plain(|| panic!("as asked for")), -libc::ENOTRECOVERABLE);
    }

    #[test]
    fn no_place_to_write_to_is_an_error_and_nothing_to_free_is_none() {
        assert_eq!(Object::make(None, || Ok(Histogram::new())), -libc::EINVAL);
        assert_eq!(Object::<Histogram>::free(None), 0);
    }

    #[test]
    fn a_failure_to_make_is_told_and_makes_nothing() {
        let mut out = MaybeUninit::new(std::ptr::null_mut());
        assert_eq!(Object::<Histogram>::make(Some(&mut out), || Err(Errno(libc::EMFILE))), -libc::EMFILE);
        assert_eq!(
            Object::<Histogram>::make(Some(&mut out), || panic!("as asked for")),
            -libc::ENOTRECOVERABLE
        );
    }

    #[test]
    fn another_thread_may_use_it_once_it_has_adopted_it() {
        let object = object();
        let moved = std::thread::spawn(move || {
            AnyObject::adopt(Some(&object.any));
            Object::with(Some(object), |_| Ok(1))
        });
        assert_eq!(moved.join().unwrap(), 1);
        AnyObject::adopt(Some(&object.any));
        assert_eq!(Object::free(Some(object)), 0);
    }

    #[test]
    fn a_place_of_another_kind_is_told() {
        let object = object();
        let wrong = object.any.head.check_of("softtimers_timers").unwrap_err().to_string();
        assert!(wrong.ends_with(" is a softtimers_histogram, not a softtimers_timers"), "{wrong}");
        assert_eq!(Object::free(Some(object)), 0);
    }

    /// A freed object's place is reused only after many others, and never with the same life. The other tests
    /// here free a few as well.
    #[test]
    fn a_freed_place_says_so_until_many_others_are_freed() {
        let first = object();
        let life = AnyObject::life(Some(&first.any));
        assert!(life != 0 && AnyObject::lives(Some(&first.any), life));
        assert_eq!(Object::free(Some(first)), 0);
        let mut again = 0;
        for freed in 0..3_000 {
            if freed < 1_000 {
                let wrong = first.any.head.check_of(Histogram::NAME).unwrap_err().to_string();
                assert!(wrong.ends_with(" was freed"), "{wrong}");
            }
            let other = object();
            again += u32::from(std::ptr::eq(other, first));
            assert!(!AnyObject::lives(Some(&first.any), life));
            assert_eq!(Object::free(Some(other)), 0);
        }
        assert!(again > 0, "nothing is used again");
    }
}
