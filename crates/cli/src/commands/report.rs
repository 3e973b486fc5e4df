//! `softtimers report`: everything in one page, beside what the papers found.
//!
//! ```text
//!   measure ──▶ saved runs ──▶ crate::report ──▶ HTML, Markdown, JSON
//!   children    DIR/*.json     pure
//! ```

pub(crate) mod args;
mod measure;
mod run;
