//! The command `softtimers`. Programs should use the crates that it consists of.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    softtimers_cli::main()
}
