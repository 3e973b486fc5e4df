//! What can be set of an experiment: [`Parameter`], with the paper's value as its default.
//!
//! A parameter is data, so that the command makes flags of them, a sweep walks along any of them, and no experiment has
//! a line of code for either.

use std::fmt;
use std::time::Duration;

use softtimers_core::Trace;

use crate::constants::Machine;

/// One thing that can be set.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its flag, without dashes.
    pub name: &'static str,
    /// What it is and, where it is the paper's, its section. One line.
    pub about: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// What it is unless set: of its kind.
    pub default: Setting,
}

/// What a parameter may be. Bounds are allowed values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// A whole number.
    Count {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// So many a second, with or without a unit: `5kpps`.
    PerSecond {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A whole number, or `none` for no limit.
    Limit {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// Any number.
    Real {
        /// The least.
        least: f64,
        /// The most.
        most: f64,
    },
    /// A time.
    Time {
        /// The least.
        least: Duration,
        /// The most.
        most: Duration,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A recording, read from a file; or none.
    Trace,
}

/// What a parameter is set to.
#[derive(Clone, PartialEq, Debug)]
pub enum Setting {
    /// Of [`Kind::Count`] and [`Kind::PerSecond`].
    Count(u64),
    /// Of [`Kind::Limit`].
    Limit(Option<u64>),
    /// Of [`Kind::Real`].
    Real(f64),
    /// Of [`Kind::Time`].
    Time(Duration),
    /// Of [`Kind::Choice`].
    Choice(&'static str),
    /// Of [`Kind::Trace`].
    Trace(Option<Trace>),
}

/// As it is typed on a command line.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Count(count) | Setting::Limit(Some(count)) => write!(f, "{count}"),
            Setting::Limit(None) | Setting::Trace(None) => f.write_str("none"),
            Setting::Real(number) => write!(f, "{number}"),
            Setting::Choice(word) => f.write_str(word),
            Setting::Trace(Some(trace)) => write!(f, "{} packets in {:?}", trace.packets(), trace.span()),
            Setting::Time(time) => {
                let nanos = time.as_nanos();
                let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
                let (unit, name) =
                    units.into_iter().find(|(unit, _)| nanos % unit == 0 && nanos > 0).unwrap_or((1, "ns"));
                write!(f, "{}{name}", nanos / unit)
            }
        }
    }
}

/// All parameters of an experiment, set.
///
/// Asking for one that does not exist, or as another kind than it is, is a mistake in the experiment: it panics.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameters {
    settings: Vec<(&'static str, Setting)>,
    machine: Machine,
}

impl Parameters {
    /// The defaults, on the papers' machines.
    pub fn new(parameters: &[Parameter]) -> Self {
        let settings = parameters.iter().map(|parameter| (parameter.name, parameter.default.clone()));
        Parameters { settings: settings.collect(), machine: Machine::PAPERS }
    }

    /// With `name` set to this.
    ///
    /// # Panics
    /// If there is no such parameter.
    #[must_use]
    pub fn with(mut self, name: &str, setting: Setting) -> Self {
        let found = self.settings.iter_mut().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no parameter {name}")).1 = setting;
        self
    }

    /// On another machine. [`Parameters::on`] has the defaults that come with it, too.
    #[must_use]
    pub(crate) fn with_machine(self, machine: Machine) -> Self {
        Parameters { machine, ..self }
    }

    /// What the experiment's machine is made of: the only numbers that it has beside its parameters.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// All, in the order of the experiment.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Setting)> {
        self.settings.iter().map(|(name, setting)| (*name, setting))
    }

    /// A [`Kind::Count`] or a [`Kind::PerSecond`].
    ///
    /// # Panics
    /// If it is none.
    pub fn count(&self, name: &str) -> u64 {
        match self.of(name) {
            Setting::Count(count) => *count,
            other => panic!("parameter {name} is no count but {other:?}"),
        }
    }

    /// A [`Kind::Count`] that fits 32 bits by its bounds; the most that does, if not.
    ///
    /// # Panics
    /// If it is none.
    pub fn count_u32(&self, name: &str) -> u32 {
        u32::try_from(self.count(name)).unwrap_or(u32::MAX)
    }

    /// A [`Kind::Limit`].
    ///
    /// # Panics
    /// If it is none.
    pub fn limit(&self, name: &str) -> Option<u64> {
        match self.of(name) {
            Setting::Limit(limit) => *limit,
            other => panic!("parameter {name} is no limit but {other:?}"),
        }
    }

    /// A [`Kind::Real`].
    ///
    /// # Panics
    /// If it is none.
    pub fn real(&self, name: &str) -> f64 {
        match self.of(name) {
            Setting::Real(number) => *number,
            other => panic!("parameter {name} is no real number but {other:?}"),
        }
    }

    /// A [`Kind::Time`].
    ///
    /// # Panics
    /// If it is none.
    pub fn time(&self, name: &str) -> Duration {
        match self.of(name) {
            Setting::Time(time) => *time,
            other => panic!("parameter {name} is no time but {other:?}"),
        }
    }

    /// A [`Kind::Choice`].
    ///
    /// # Panics
    /// If it is none.
    pub fn choice(&self, name: &str) -> &'static str {
        match self.of(name) {
            Setting::Choice(word) => word,
            other => panic!("parameter {name} is no choice but {other:?}"),
        }
    }

    /// A [`Kind::Trace`].
    ///
    /// # Panics
    /// If it is none.
    pub fn trace(&self, name: &str) -> Option<&Trace> {
        match self.of(name) {
            Setting::Trace(trace) => trace.as_ref(),
            other => panic!("parameter {name} is no trace but {other:?}"),
        }
    }

    fn of(&self, name: &str) -> &Setting {
        let found = self.settings.iter().find(|(known, _)| *known == name);
        &found.unwrap_or_else(|| panic!("no parameter {name}")).1
    }
}
