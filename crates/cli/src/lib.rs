//! The command `softtimers`, as a library for its own tests and fuzz targets. Use the crate
//! `softtimers` in programs; nothing here is a promise.
//!
//! ```text
//!   commands/NAME/args ──▶ run ──▶ commands/NAME/{run, show} ──▶ output
//!   typed and meant                done and told                 table or JSON, assertions, exit code
//! ```
//!
//! What commands do is in libraries: `softtimers-load` sends and receives, `softtimers-forward` passes on, and
//! `softtimers-measure` watches the machine meanwhile.
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
pub mod command;
pub mod commands;
pub mod file;
pub mod properties;
pub mod report;
pub mod run;
pub mod stream;
pub mod user;
pub mod withheld;
