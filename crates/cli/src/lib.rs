//! The command `softtimers`, as a library for its own tests and fuzz targets. Use the crate
//! `softtimers` in programs; nothing here is a promise.
//!
//! ```text
//!   args ──▶ plan ──▶ send, recv, … ──▶ output
//!   typed    meant    done              table or JSON, assertions, exit code
//! ```
//!
//! - what is typed: [`args`], [`units`], [`address`], [`assertion`]; what it means: [`plan`];
//! - what others have recorded: [`recording`];
//! - what goes over the wire: [`wire`], and who agreed to it: [`handshake`];
//! - the runs: [`send`], [`replay`], [`recv`], [`wan`], [`forward`], [`bench`](mod@bench), [`mod@capture`], [`doctor`],
//!   [`echo`], [`mod@probe`], [`sim`](commands::sim), [`noise`], [`report`], ended
//!   early by an [`interrupt`]; one that needs
//!   other processes has them as its [`child`]ren;
//! - what is reported: [`distribution`], [`gaps`], [`withheld`], [`machine`], [`ticks`], [`output`], [`stream`], [`mod@file`], with the rights of the [`user`] who asked, [`failure`].
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]
// Until it is a program only.
#![allow(private_interfaces)]

// Until nobody looks for them here.
pub use run::progress;
pub use softtimers_measure::{
    assertion, child, class, distribution, failure, interrupt, machine, processor, ticks, units, usage,
};

/// Until nobody looks for them here.
pub mod output {
    pub use crate::run::output::{Object as Run, *};
    pub use crate::run::table::Table;
}

pub mod address;
pub mod args;
pub mod bench;
pub mod command;
pub mod commands;
pub mod file;
pub mod forward;
pub mod gaps;
pub mod handshake;
pub mod pattern;
pub mod plan;
pub mod properties;
pub mod quantum;
pub mod recording;
pub mod recv;
pub mod replay;
pub mod report;
pub mod run;
pub mod send;
pub mod stream;
pub mod user;
pub mod wire;
pub mod withheld;
