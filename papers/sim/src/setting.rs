//! Values that a user can set, and what each may be: [`Setting`] and [`Kind`].

use std::fmt;
use std::time::Duration;

use crate::recording::Recording;
use crate::table::Value;

/// The values that a parameter accepts. Bounds are themselves allowed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// A whole number within bounds.
    Count {
        /// The smallest value allowed.
        least: u64,
        /// The largest value allowed.
        most: u64,
    },
    /// A rate per second, with or without a unit: `5kpps`.
    PerSecond {
        /// The smallest value allowed.
        least: u64,
        /// The largest value allowed.
        most: u64,
    },
    /// A whole number, or `none` for no limit.
    Limit {
        /// The smallest value allowed.
        least: u64,
        /// The largest value allowed.
        most: u64,
    },
    /// A number with a fraction.
    Real {
        /// The smallest value allowed.
        least: f64,
        /// The largest value allowed.
        most: f64,
    },
    /// A time within bounds.
    Time {
        /// The shortest duration allowed.
        least: Duration,
        /// The longest duration allowed.
        most: Duration,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A recording that is read from a file, or `none`.
    Trace,
}

impl Kind {
    /// Returns whether a value is of this kind and within its bounds.
    pub fn holds(&self, setting: &Setting) -> bool {
        match (self, setting) {
            (Kind::Count { least, most } | Kind::PerSecond { least, most }, Setting::Count(count))
            | (Kind::Limit { least, most }, Setting::Limit(Some(count))) => (least..=most).contains(&count),
            (Kind::Limit { .. }, Setting::Limit(None)) | (Kind::Trace, Setting::Trace(_)) => true,
            (Kind::Real { least, most }, Setting::Real(number)) => (least..=most).contains(&number),
            (Kind::Time { least, most }, Setting::Time(time)) => (least..=most).contains(&time),
            (Kind::Choice(words), Setting::Choice(word)) => words.contains(word),
            _ => false,
        }
    }
}

/// Describes the allowed values: `a whole number from 1 to 9`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Count { least, most } => write!(f, "a whole number from {least} to {most}"),
            Kind::PerSecond { least, most } => {
                write!(f, "a rate from {least} to {most}, such as 5000 or 5kpps")
            }
            Kind::Limit { least, most } => write!(f, "a whole number from {least} to {most}, or none"),
            Kind::Real { least, most } => write!(f, "a number from {least} to {most}"),
            Kind::Time { least, most } => {
                write!(f, "a time from {} to {}", Setting::Time(*least), Setting::Time(*most))
            }
            Kind::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Kind::Trace => f.write_str("a file, or none"),
        }
    }
}

/// The value of one parameter.
#[derive(Clone, PartialEq, Debug)]
pub enum Setting {
    /// The value of a [`Kind::Count`] or a [`Kind::PerSecond`].
    Count(u64),
    /// The value of a [`Kind::Limit`]; `None` means no limit.
    Limit(Option<u64>),
    /// The value of a [`Kind::Real`].
    Real(f64),
    /// The value of a [`Kind::Time`].
    Time(Duration),
    /// The chosen word of a [`Kind::Choice`].
    Choice(&'static str),
    /// The recording of a [`Kind::Trace`], if one was given.
    Trace(Option<Recording>),
}

impl Setting {
    /// Returns the value as a cell of a table: a number, a word, or the name of a file.
    pub fn value(&self) -> Value {
        match self {
            Setting::Count(count) | Setting::Limit(Some(count)) => Value::Count(*count),
            Setting::Limit(None) | Setting::Trace(None) => Value::Without("none"),
            Setting::Real(number) => Value::Real(*number),
            Setting::Time(time) => Value::Time(*time),
            Setting::Choice(word) => Value::from(*word),
            Setting::Trace(Some(recording)) => Value::Text(recording.name.clone()),
        }
    }
}

/// Formats the value as it is typed on a command line.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Count(count) | Setting::Limit(Some(count)) => write!(f, "{count}"),
            Setting::Limit(None) | Setting::Trace(None) => f.write_str("none"),
            Setting::Real(number) => write!(f, "{number}"),
            Setting::Choice(word) => f.write_str(word),
            Setting::Trace(Some(Recording { trace, .. })) => {
                write!(f, "{} packets in {:?}", trace.packets(), trace.span())
            }
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
