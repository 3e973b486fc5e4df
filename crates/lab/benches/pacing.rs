//! The pacing experiments of the soft timers paper (§5.4 to §5.6), live: `cargo bench -p softtimers-bench
//! pacing [-- --quick] [-- --csv FILE --json FILE]`. What is measured, and how: [`softtimers_bench::pacing`].
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    softtimers_bench::turns::main("pacing", softtimers_bench::pacing::measure)
}
