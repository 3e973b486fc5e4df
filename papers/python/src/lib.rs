//! The part of the papers' Python package that is Rust: `softtimers_papers._sim`, a sweep of the simulator, and a receive policy
//! on it. The public API is in `python/softtimers_papers`.
#![forbid(unsafe_code)]

use pyo3::prelude::*;

mod columns;
mod machine;
mod plan;
mod policy;
mod setting;
mod simulation;

/// The module, as the interpreter loads it.
#[pymodule]
#[pyo3(name = "_sim")]
mod module {
    #[pymodule_export]
    use crate::policy::receive;
    #[pymodule_export]
    use crate::simulation::{csv, experiments, merge, sweep};
}
