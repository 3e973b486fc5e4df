//! The command `softtimers`. It is a program; programs use the crates it is made of.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    softtimers_cli::main(softtimers_sim::experiments::ALL)
}
