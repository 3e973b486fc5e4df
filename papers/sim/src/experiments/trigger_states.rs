//! The parameters of trigger states, shared by several experiments, and the states that they select.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::engine::host::States;
use crate::{Parameter, Parameters, RunError, Streams};

/// The mean interval of the model, in `mean`.
pub(super) const MEANS: RangeInclusive<Duration> = Duration::from_nanos(100)..=Duration::from_millis(100);

/// A recording instead of the model.
pub(super) const RECORDING: Parameter =
    Parameter::trace("states", "A recording whose times are trigger states, instead of the model");

/// Returns whether the states are the model's.
pub(super) fn are_modelled(parameters: &Parameters) -> bool {
    !parameters.is_on("idle") && parameters.trace("states").is_none()
}

/// Returns the states that the parameters `idle`, `states` and `mean` select.
///
/// # Errors
/// For a recording in which no time passes.
pub(super) fn chosen(parameters: &Parameters, streams: Streams) -> Result<States, RunError> {
    match parameters.trace("states") {
        _ if parameters.is_on("idle") => Ok(States::None),
        Some(trace) => States::recorded(trace).ok_or_else(|| {
            RunError::new("states: a recording in which no time passes has no trigger states")
        }),
        None => {
            let own = parameters.machine().pacing.web_server;
            Ok(States::model(own, parameters.time("mean"), &mut streams.of("states")))
        }
    }
}
