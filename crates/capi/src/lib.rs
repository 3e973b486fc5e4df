//! **softtimers for C and C++.** `include/softtimers.h` is written from the modules of [`border`] by
//! `cargo xtask header`, and this page is for who changes them; who uses them reads `docs/c.md`.
//!
//! ```text
//!     C program ──▶ softtimers.h ──▶ border/*.rs ──▶ core, softtimers, wan
//!                                     freed? wrong thread?    ── the end, with a line that says so
//!                                     wrong argument? panic?  ── an error, and nothing has changed
//!         ▲                                  │
//!         └──────── due calls, by value ─────┘     never a callback: what is due is pulled
//! ```
//!
//! Rules of the border:
//!
//! - **A pointer is a reference that may be missing.** `Option<&T>` has the representation of a pointer in C, so a null is a
//!   `None` and the rest is ordinary Rust: there is no `unsafe` block. That holds of objects whatever C did with them:
//!   what stands at an object's address is never unmapped, the same for all kinds, and says whether it may be used
//!   ([`object`]; `unsafe` is in `object/head.rs`: that threads may look at it, and what its magic word proves). Of other arguments C
//!   promises that a pointer is to what its type says. Arguments that may be the same place are cells.
//! - **Errors are negative `errno`s.** A value that is wrong is `-EINVAL`, and then nothing has changed.
//! - **No panic crosses.** One that happens all the same makes its object useless: from then on it answers
//!   `-ENOTRECOVERABLE`. With `panic = "abort"` it ends the process.
//! - **No callback.** A C function that is due is returned with its argument, and the header calls it from C: no frame of
//!   Rust is on the stack when it does what C functions do, such as `longjmp`.
//! - **An object belongs to a thread** until `softtimers_adopt`, and every function looks at its object first. Misuse is not
//!   answered but ends the process, in every build.
#![deny(unsafe_code)]
#![cfg(target_os = "linux")]

/// The functions of the header, a module for each of its sections. To be found by name is `unsafe(no_mangle)`; nothing
/// else here is unsafe.
#[allow(unsafe_code, non_camel_case_types, reason = "the names are C's, and C finds them by name")]
pub mod border;
pub mod object;
#[doc(hidden)]
pub mod sequences;
