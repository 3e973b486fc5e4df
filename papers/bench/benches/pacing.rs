//! The pacing experiments of the soft timers paper (§5.4 to §5.6), live: `cargo bench --manifest-path
//! papers/Cargo.toml --bench pacing [-- --quick --json FILE] [SECTION …]`. See [`softtimers_papers_bench::pacing`].
#![forbid(unsafe_code)]

use std::process::ExitCode;

use softtimers_papers_bench::{bench, pacing};

fn main() -> ExitCode {
    bench::main("pacing", &pacing::SECTIONS, |asked| Ok(asked.quick))
}
