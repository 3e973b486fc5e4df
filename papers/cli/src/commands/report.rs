//! `softtimers report`: everything in one page, next to the papers' results.
//!
//! ```text
//!   measure ──▶ saved runs ──▶ crate::report ──▶ HTML, Markdown, JSON
//!   children    DIR/*.json     pure
//! ```

pub(crate) mod args;
mod measure;
mod run;
