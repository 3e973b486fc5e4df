//! Values and sweeps as people type them, in whatever program that is: [`Typed`].
//!
//! Units, and the files of recordings, are read by that program: this crate sees neither.

mod range;

use std::time::Duration;

use crate::experiment::Experiment;
use crate::parameter::{Parameter, Parameters};
use crate::recording::Recording;
use crate::setting::{Kind, Setting};
use crate::sweep::{Axis, SEED};

/// Reads values of parameters, and the values that a sweep takes.
///
/// ```
/// use std::time::Duration;
/// use softtimers_sim::{Kind, Setting, Typed, experiments};
///
/// let typed = Typed {
///     time: |text| match text.strip_suffix("ms").and_then(|number| number.parse().ok()) {
///         Some(millis) => Ok(Duration::from_millis(millis)),
///         None => Err("a number of ms".to_owned()),
///     },
///     per_second: |_| None,
///     recording: |_| Err("there are none here".to_owned()),
/// };
/// let kind = Kind::Time { least: Duration::ZERO, most: Duration::from_secs(1) };
/// assert_eq!(typed.setting(kind, "5ms"), Ok(Setting::Time(Duration::from_millis(5))));
/// let slowstart = experiments::find("slowstart").expect("it is in the list");
/// assert_eq!(typed.axis(slowstart, "packets=5,20")?.values.len(), 2);
/// assert!(typed.axis(slowstart, "packets=none").unwrap_err().contains("a whole number from 1"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Typed {
    /// Reads a time with its unit, or says what is wrong with it.
    pub time: fn(&str) -> Result<Duration, String>,
    /// Reads a rate of packets with its unit.
    pub per_second: fn(&str) -> Option<u64>,
    /// Reads the recording of this name, or says what is wrong with it.
    pub recording: fn(&str) -> Result<Recording, String>,
}

impl Typed {
    /// Reads the value of a parameter of this kind.
    ///
    /// # Errors
    /// Says what is allowed, in a few words; of a recording, what is wrong with it.
    pub fn setting(&self, kind: Kind, text: &str) -> Result<Setting, String> {
        let count = |text: &str| text.parse().ok();
        let setting = match kind {
            Kind::Count { .. } => count(text).map(Setting::Count),
            Kind::PerSecond { .. } => count(text).or_else(|| (self.per_second)(text)).map(Setting::Count),
            Kind::Limit { .. } if text == NONE => Some(Setting::Limit(None)),
            Kind::Limit { .. } => count(text).map(|count| Setting::Limit(Some(count))),
            Kind::Real { .. } => text.parse().ok().map(Setting::Real),
            Kind::Time { .. } => Some(Setting::Time((self.time)(text)?)),
            Kind::Choice(words) => words.iter().find(|&&word| word == text).map(|word| Setting::Choice(word)),
            Kind::Trace if text == NONE => Some(Setting::Trace(None)),
            Kind::Trace => Some(Setting::Trace(Some((self.recording)(text)?))),
        };
        setting.filter(|setting| kind.holds(setting)).ok_or_else(|| kind.to_string())
    }

    /// Reads `NAME=A,B,…`: a parameter of the experiment or `seed`, and the values or ranges (`1..9`, `10us..60us:5us`) it takes.
    ///
    /// # Errors
    /// Names the value, and says what is allowed.
    pub fn axis(&self, experiment: &Experiment, text: &str) -> Result<Axis, String> {
        match text.split_once('=') {
            Some((name, values)) => self.axis_of(experiment, name, values),
            None => Err(format!("'{text}': write NAME=A,B,… with a parameter's name")),
        }
    }

    /// Returns the sweep of the paper's table, without the parameters that were `given`, and those that would change nothing.
    ///
    /// # Errors
    /// As [`axis`](Self::axis), if the experiment sweeps what cannot be.
    pub fn of_paper(
        &self,
        experiment: &Experiment,
        given: &[&str],
        set: &Parameters,
    ) -> Result<Vec<Axis>, String> {
        let is_used = |name: &str| {
            let needs = parameter(experiment, name).and_then(|parameter| parameter.needs);
            needs.is_none_or(|need| (need.met)(set))
        };
        let wanted = experiment.sweep.iter().filter(|(name, _)| !given.contains(name) && is_used(name));
        wanted.map(|(name, values)| self.axis_of(experiment, name, values)).collect()
    }

    fn axis_of(&self, experiment: &Experiment, name: &str, values: &str) -> Result<Axis, String> {
        let known = parameter(experiment, name);
        let (name, kind) = match known {
            Some(parameter) => (parameter.name, parameter.kind),
            None if name == SEED => (SEED, Kind::Count { least: 0, most: u64::MAX }),
            None => {
                let known: Vec<_> = experiment.parameters.iter().map(|parameter| parameter.name).collect();
                return Err(format!("'{name}': no such parameter; there are {}, {SEED}", known.join(", ")));
            }
        };
        let mut axis = Axis { name, values: vec![] };
        for text in values.split(',') {
            let wrong = |text: &str, why: String| format!("'{name}={text}': {why}");
            let has_ranges = !matches!(kind, Kind::Choice(_) | Kind::Trace);
            let range = Some(text).filter(|_| has_ranges).and_then(range::values);
            for text in range.unwrap_or_else(|| Ok(vec![text.to_owned()])).map_err(|why| wrong(text, why))? {
                let setting = self.setting(kind, &text).map_err(|why| wrong(&text, why))?;
                axis.values.push((text, setting));
            }
        }
        Ok(axis)
    }
}

fn parameter<'a>(experiment: &'a Experiment, name: &str) -> Option<&'a Parameter> {
    experiment.parameters.iter().find(|parameter| parameter.name == name)
}

const NONE: &str = "none";
