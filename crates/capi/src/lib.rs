//! **softtimers for C and C++.** `include/softtimers.h` is generated from the modules of `border` by `cargo
//! xtask header`. This page is for maintainers; users read `docs/c.md`.
//!
//! ```text
//!     C program ──▶ softtimers.h ──▶ border/*.rs ──▶ core, softtimers, wan
//!                                     freed? wrong thread?    ── abort, with a line that says so
//!                                     wrong argument? panic?  ── an error, without a change
//!         ▲                                  │
//!         └──────── due calls, by value ─────┘     never a callback: due calls are pulled
//! ```
//!
//! Rules of the C API:
//!
//! - **A pointer is a reference that may be missing.** `Option<&T>` has the representation of a pointer in C,
//!   so a null is a `None` and everything else is ordinary Rust: there is no `unsafe` block. For objects that
//!   holds whatever C did with them: the head at an object's address is never unmapped, the same for all
//!   kinds, and says whether the object may be used (`object`; `unsafe` is in `object/head.rs`: threads may
//!   read it, and its magic word proves the type). For other arguments C guarantees that a pointer matches
//!   its type. Arguments that may alias are cells.
//! - **Errors are negative `errno`s.** An invalid value is `-EINVAL`, and then nothing changes.
//! - **No panic crosses.** A panic makes its object useless: from then on calls return `-ENOTRECOVERABLE`.
//!   With `panic = "abort"` it ends the process.
//! - **No callback.** A due C function is returned with its argument, and the header calls it from C: no Rust
//!   frame is on the stack if it calls `longjmp`.
//! - **An object belongs to a thread** until `softtimers_adopt`, and every function checks its object first.
//!   Misuse ends the process, in every build.
#![deny(unsafe_code)]
#![cfg(target_os = "linux")]

/// The functions of the header, a module for each of its sections. Only their `unsafe(no_mangle)` is unsafe
/// here.
#[allow(
    unsafe_code,
    non_camel_case_types,
    unreachable_pub,
    dead_code,
    reason = "the names are C's, and C finds them by name; they are public as in the header, for cbindgen"
)]
mod border;
#[doc(hidden)]
#[cfg(any(test, feature = "checks"))]
pub mod layout;
mod object;
#[doc(hidden)]
#[cfg(any(test, feature = "checks"))]
pub mod sequences;
