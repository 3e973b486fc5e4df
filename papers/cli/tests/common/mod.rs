//! Runs the real command: the code is that of the tests of `softtimers`.
#![allow(missing_docs, unreachable_pub)]

#[path = "../../../../crates/cli/tests/common/mod.rs"]
mod shared;

#[allow(unused_imports, reason = "not each test uses all of it")]
pub use shared::*;

/// Says whether `softtimers` lies beside the program, as after the product's own build: a report measures with it.
#[allow(dead_code, reason = "not each test uses all of it")]
pub fn has_tools() -> bool {
    let has = std::path::Path::new(PROGRAM).with_file_name("softtimers").is_file();
    if !has {
        skipped("softtimers is not built beside softtimers-papers: cargo build, in the root");
    }
    has
}
