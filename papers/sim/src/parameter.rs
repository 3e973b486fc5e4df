//! An experiment's parameters: [`Parameter`] declares one, with the paper's value as its default, and [`Parameters`]
//! holds the values of a run.
//!
//! A parameter is data and is declared once. The command's flags and their help, the sweeps, the JSON and the
//! manual pages are derived from it; no experiment has code for any of them.

use std::ops::RangeInclusive;
use std::time::Duration;

use softtimers_core::Trace;

use crate::choice::Choice;
use crate::constants::Machine;
use crate::machine::{Hardware, Origin};
use crate::setting::{Kind, Setting};

/// A parameter of an experiment.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The flag, without dashes.
    pub name: &'static str,
    /// One line of help, with the section if the parameter is a paper's.
    pub about: &'static str,
    /// The values that are allowed.
    pub kind: Kind,
    /// The default value, of this kind.
    pub default: Setting,
    /// When the parameter has an effect; always if none.
    pub needs: Option<Need>,
    /// The unit, where neither the name nor the kind says it: `percent`.
    pub unit: Option<&'static str>,
}

/// The runs in which a parameter has an effect. [`Sweep::check`](crate::Sweep::check) refuses a parameter that was
/// given for runs that do not use it.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Completes the sentence "used with …".
    pub with: &'static str,
    /// Returns whether a run with these parameters uses it.
    pub met: fn(&Parameters) -> bool,
}

impl Parameter {
    /// Declares a whole number.
    pub const fn count(
        name: &'static str,
        about: &'static str,
        range: RangeInclusive<u64>,
        default: u64,
    ) -> Self {
        let kind = Kind::Count { least: *range.start(), most: *range.end() };
        Parameter::new(name, about, kind, Setting::Count(default))
    }

    /// Declares a rate, of packets a second.
    pub const fn per_second(
        name: &'static str,
        about: &'static str,
        range: RangeInclusive<u64>,
        default: u64,
    ) -> Self {
        let kind = Kind::PerSecond { least: *range.start(), most: *range.end() };
        Parameter::new(name, about, kind, Setting::Count(default))
    }

    /// Declares a whole number that can also be `none`.
    pub const fn limit(
        name: &'static str,
        about: &'static str,
        range: RangeInclusive<u64>,
        default: Option<u64>,
    ) -> Self {
        let kind = Kind::Limit { least: *range.start(), most: *range.end() };
        Parameter::new(name, about, kind, Setting::Limit(default))
    }

    /// Declares a number with a fraction.
    pub const fn real(
        name: &'static str,
        about: &'static str,
        range: RangeInclusive<f64>,
        default: f64,
    ) -> Self {
        let kind = Kind::Real { least: *range.start(), most: *range.end() };
        Parameter::new(name, about, kind, Setting::Real(default))
    }

    /// Declares a time.
    pub const fn time(
        name: &'static str,
        about: &'static str,
        range: RangeInclusive<Duration>,
        default: Duration,
    ) -> Self {
        let kind = Kind::Time { least: *range.start(), most: *range.end() };
        Parameter::new(name, about, kind, Setting::Time(default))
    }

    /// Declares a choice among the words of a type, of which the first is the default.
    pub const fn choice<C: Choice>(name: &'static str, about: &'static str) -> Self {
        Parameter::choice_or::<C>(name, about, C::WORDS[0])
    }

    /// Declares a choice with another default than the first word.
    pub const fn choice_or<C: Choice>(
        name: &'static str,
        about: &'static str,
        default: &'static str,
    ) -> Self {
        assert!(C::WORDS.len() == C::VALUES.len(), "each word of a choice has a value");
        Parameter::new(name, about, Kind::Choice(C::WORDS), Setting::Choice(default))
    }

    /// Declares a choice among names of data, such as figures of a paper, of which the first is the default. No code
    /// depends on which it is: [`Parameters::word`] finds the data.
    pub const fn name_of(name: &'static str, about: &'static str, words: &'static [&'static str]) -> Self {
        Parameter::new(name, about, Kind::Choice(words), Setting::Choice(words[0]))
    }

    /// Declares a choice between `no`, which is the default, and `yes`.
    pub const fn switch(name: &'static str, about: &'static str) -> Self {
        Parameter::choice::<bool>(name, about)
    }

    /// Declares a recording; there is none unless one is given.
    pub const fn trace(name: &'static str, about: &'static str) -> Self {
        Parameter::new(name, about, Kind::Trace, Setting::Trace(None))
    }

    /// Declares that the parameter has an effect only in some runs.
    #[must_use]
    pub const fn needs(mut self, need: Need) -> Self {
        self.needs = Some(need);
        self
    }

    /// The same parameter, in a unit that ends the name of its column where it is swept.
    #[must_use]
    pub const fn in_unit(mut self, unit: &'static str) -> Self {
        self.unit = Some(unit);
        self
    }

    const fn new(name: &'static str, about: &'static str, kind: Kind, default: Setting) -> Self {
        Parameter { name, about, kind, default, needs: None, unit: None }
    }
}

/// The values of all parameters of an experiment.
///
/// Every method that takes a name panics if there is no such parameter or it has another kind: that is a bug
/// in the experiment.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameters {
    settings: Vec<(&'static str, Setting)>,
    hardware: Hardware,
    described: Option<Origin>,
}

impl Parameters {
    /// Returns the defaults, on the papers' machines.
    pub fn new(parameters: &[Parameter]) -> Self {
        Parameters::of_hardware(parameters, Hardware::PAPERS)
    }

    /// The papers' defaults with other constants.
    #[cfg(test)]
    pub(crate) fn on(parameters: &[Parameter], constants: Machine) -> Self {
        Parameters::of_hardware(parameters, Hardware { constants, ..Hardware::PAPERS })
    }

    /// The papers' defaults on another machine.
    pub(crate) fn of_hardware(parameters: &[Parameter], hardware: Hardware) -> Self {
        let settings = parameters.iter().map(|parameter| (parameter.name, parameter.default.clone()));
        Parameters { settings: settings.collect(), hardware, described: None }
    }

    /// Sets the source of the machine's description.
    pub(crate) fn described(self, described: Option<Origin>) -> Self {
        Parameters { described, ..self }
    }

    /// Returns the source of the machine's description, unless it is the papers'.
    pub fn machine_origin(&self) -> Option<&Origin> {
        self.described.as_ref()
    }

    /// Returns the parameters with one of them set.
    ///
    /// # Panics
    /// If there is no such parameter.
    #[must_use]
    pub fn with(mut self, name: &str, setting: Setting) -> Self {
        let found = self.settings.iter_mut().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no parameter {name}")).1 = setting;
        self
    }

    /// Iterates over names and values, in the order of declaration.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Setting)> {
        self.settings.iter().map(|(name, setting)| (*name, setting))
    }

    /// Returns the constants of the simulated machine: an experiment has no other numbers beside its
    /// parameters.
    pub(crate) fn machine(&self) -> &Machine {
        &self.hardware.constants
    }

    /// Returns the simulated machine, with its properties beside the constants.
    pub(crate) fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// Returns a whole number.
    pub fn count(&self, name: &str) -> u64 {
        match self.named(name) {
            Setting::Count(count) => *count,
            other => panic!("parameter {name} is no count but {other:?}"),
        }
    }

    /// A count whose bounds fit 32 bits; `u32::MAX` if they do not.
    pub(crate) fn count_u32(&self, name: &str) -> u32 {
        u32::try_from(self.count(name)).unwrap_or(u32::MAX)
    }

    /// Returns a whole number, or `None` for no limit.
    pub fn limit(&self, name: &str) -> Option<u64> {
        match self.named(name) {
            Setting::Limit(limit) => *limit,
            other => panic!("parameter {name} is no limit but {other:?}"),
        }
    }

    /// Returns a number with a fraction.
    pub fn real(&self, name: &str) -> f64 {
        match self.named(name) {
            Setting::Real(number) => *number,
            other => panic!("parameter {name} is no real number but {other:?}"),
        }
    }

    /// Returns a time.
    pub fn time(&self, name: &str) -> Duration {
        match self.named(name) {
            Setting::Time(time) => *time,
            other => panic!("parameter {name} is no time but {other:?}"),
        }
    }

    /// Returns the chosen value.
    pub fn choice<C: Choice>(&self, name: &str) -> C {
        let word = self.word(name);
        let value = C::WORDS.iter().position(|known| *known == word).map(|place| C::VALUES[place]);
        value.unwrap_or_else(|| panic!("parameter {name} is {word}, none of {:?}", C::WORDS))
    }

    /// Returns the chosen word, for a cell of a table.
    pub fn word(&self, name: &str) -> &'static str {
        match self.named(name) {
            Setting::Choice(word) => word,
            other => panic!("parameter {name} is no choice but {other:?}"),
        }
    }

    /// Returns whether a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.choice(name)
    }

    /// Returns the packets of a recording, if one was given.
    pub fn trace(&self, name: &str) -> Option<&Trace> {
        match self.named(name) {
            Setting::Trace(recording) => recording.as_ref().map(|recording| &recording.trace),
            other => panic!("parameter {name} is no trace but {other:?}"),
        }
    }

    fn named(&self, name: &str) -> &Setting {
        let found = self.settings.iter().find(|(known, _)| *known == name);
        &found.unwrap_or_else(|| panic!("no parameter {name}")).1
    }
}
