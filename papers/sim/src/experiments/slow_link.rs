//! The rate of a slow link, shared by several experiments.

use std::ops::RangeInclusive;

use crate::{Parameters, RunError};
use softtimers_core::Rate;

/// The range of the parameter `mbit`.
pub(super) const MBIT: RangeInclusive<u64> = 1..=100_000;

/// Returns the rate of `mbit` in packets.
pub(super) fn capacity(parameters: &Parameters) -> Result<Rate, RunError> {
    Rate::of_bits(parameters.count("mbit") * 1_000_000, parameters.machine().path.segment)
        .map_err(RunError::new)
}
