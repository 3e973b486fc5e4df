//! The command `softtimers-papers`: `sim`, `noise`, `probe` and `report` of `softtimers`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    softtimers_papers::main(softtimers_sim::experiments::ALL)
}
