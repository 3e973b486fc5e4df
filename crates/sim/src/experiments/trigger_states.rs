//! The trigger states that an experiment's parameters ask for.

use std::time::Duration;

use super::States;
use crate::experiment::RunError;
use crate::parameter::{Kind, Parameter, Parameters, Setting};
use crate::streams::Streams;

impl States {
    /// What the mean interval of the model can be.
    pub(crate) const MEANS: Kind =
        Kind::Time { least: Duration::from_nanos(100), most: Duration::from_millis(100) };

    /// A recording in the model's place.
    pub(crate) const RECORDING: Parameter = Parameter {
        name: "states",
        about: "A recording whose times are trigger states, instead of the model",
        kind: Kind::Trace,
        default: Setting::Trace(None),
    };

    /// Whether those are the model's.
    pub(crate) fn are_modelled(parameters: &Parameters) -> bool {
        parameters.choice("idle") == "no" && parameters.trace("states").is_none()
    }

    /// Those that the parameters `idle`, `states` and `mean` ask for.
    ///
    /// # Errors
    /// For a recording in which no time passes.
    pub(crate) fn chosen(parameters: &Parameters, streams: Streams) -> Result<States, RunError> {
        match parameters.trace("states") {
            _ if parameters.choice("idle") == "yes" => Ok(States::None),
            Some(trace) => States::recorded(trace).ok_or_else(|| {
                RunError::new("states: a recording in which no time passes has no trigger states")
            }),
            None => Ok(States::model(
                &parameters.machine().pacing,
                parameters.time("mean"),
                &mut streams.of("states"),
            )),
        }
    }
}
