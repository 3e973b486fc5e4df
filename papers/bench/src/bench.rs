//! The benches of this package.

use std::process::ExitCode;

pub use softtimers_contest::bench::{Asked, Done, Section, child, create, exit};
use softtimers_contest::bench::{Bench, Benches, rounds, seconds};

/// The benches: name, question, and the numbers that each takes besides [`Asked`].
pub const BENCHES: Benches =
    Benches { command: "cargo bench --manifest-path papers/Cargo.toml --bench", all: ALL };

const ALL: &[Bench] = &[
    (
        "callouts",
        "do set and cancel cost more, the more timers are outstanding (the BSD timers' Table I)?",
        &[rounds(7), ("iterations", 10_000, "Of a set and a cancel in each round")],
    ),
    (
        "kernel",
        "how often does the kernel pass trigger states, and what do events there cost a web server?",
        &[
            ("rounds", 3, "Windows of a second for each row without a bar"),
            ("pairs", 24, "The same for each row of `costs` that has a bar"),
            seconds(300, "The longest time for the two million samples of each workload"),
        ],
    ),
    (
        "null_events",
        "what does an event cost that does nothing, by each kind of timer?",
        &[seconds(6, "Of each rate and work")],
    ),
    ("pacing", "the pacing experiments of the soft timers paper, live", &[]),
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
