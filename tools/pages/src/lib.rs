//! The pages: their tables and pictures, rendered from the files of docs/data, and their Rust snippets, compiled. Never
//! published.
#![forbid(unsafe_code)]

pub mod pictures;
pub mod render;
mod snippets;
