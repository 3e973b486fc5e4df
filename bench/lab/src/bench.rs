//! The benches of this package.

use std::process::ExitCode;

pub use softtimers_contest::bench::{Asked, Done, Section, child, create, exit};
use softtimers_contest::bench::{Bench, Benches, rounds, seconds};

/// The benches: name, question, and the numbers that each takes besides [`Asked`].
pub const BENCHES: Benches =
    Benches { command: "cargo bench --manifest-path bench/Cargo.toml --bench", all: ALL };

const ALL: &[Bench] = &[
    (
        "flows",
        "how even are many flows from one thread, by one timer for all and by one each?",
        &[rounds(4), seconds(2, "Of each run")],
    ),
    (
        "handover",
        "what does it cost to hand datagrams to the kernel, by each way and number at a time?",
        &[rounds(100)],
    ),
    (
        "overload",
        "what does a receiver deliver at five times its capacity, and what does surviving cost when there is none?",
        &[rounds(5)],
    ),
    (
        "quinn",
        "what does quinn gain and cost if its packets leave evenly?",
        &[rounds(5), ("megabytes", 10, "Of each connection in each run")],
    ),
    (
        "quinn_start",
        "how long does a transfer take by slow start, and at the known capacity (Tables X and XI)?",
        &[("packets", 100_000, "The longest transfer")],
    ),
    ("server", "what does a web server gain that polls for requests (soft timers' Table XII)?", &[rounds(5)]),
    (
        "shared",
        "how long is the lock of shared timers held, and what do two threads cost each other?",
        &[rounds(7)],
    ),
    ("timers", "what do setting, moving and expiring cost, by each structure of timers?", &[rounds(3)]),
    ("tokio_timers", "softtimers-tokio beside tokio's own timers", &[rounds(15)]),
    (
        "waits",
        "how late is a wait of 100 µs, by each way to wait, and what does a timer cost the kernel?",
        &[rounds(15)],
    ),
    (
        "work_kept",
        "how much work does a saturated loop keep beside a paced flow?",
        &[seconds(60, "Of all turns of a section together")],
    ),
];

/// Runs the requested sections of the bench `name`, with the result of `plan` for the arguments.
pub fn main<E>(
    name: &'static str,
    sections: &[Section<E>],
    plan: impl FnOnce(&Asked) -> Done<E>,
) -> ExitCode {
    BENCHES.main(name, sections, plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bench_refuses_a_flag_that_it_does_not_have_and_prints_its_help() {
        BENCHES.check_arguments();
    }

    #[test]
    fn the_list_has_every_bench() {
        BENCHES.check_targets(include_str!("../Cargo.toml"));
    }
}
