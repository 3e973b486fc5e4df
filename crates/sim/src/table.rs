//! What a run found: [`Row`]s of [`Value`]s under [`Column`]s, the papers' own.

use std::fmt;

/// What a number of each row is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its key in JSON and CSV, with its unit: `delay_us`, `output_pps`.
    pub name: &'static str,
    /// What it is, in a few words, with the paper's name for it.
    pub about: &'static str,
    /// Digits after the point.
    pub digits: u8,
}

impl Column {
    /// A column of whole numbers or words.
    pub const fn new(name: &'static str, about: &'static str) -> Self {
        Column { name, about, digits: 0 }
    }

    /// With so many digits after the point.
    #[must_use]
    pub const fn digits(self, digits: u8) -> Self {
        Column { digits, ..self }
    }
}

/// One row: as many values as there are columns.
pub type Row = Vec<Value>;

/// What stands in a cell.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A word.
    Text(String),
    /// A whole number.
    Count(u64),
    /// Any number, shown with the digits of its column.
    Real(f64),
    /// Nothing to say: the paper has no such figure, or nothing was measured.
    Missing,
}

impl Value {
    /// With the digits of its column; nothing for what is missing.
    pub fn show(&self, digits: u8) -> impl fmt::Display + '_ {
        Shown { value: self, digits }
    }
}

struct Shown<'a> {
    value: &'a Value,
    digits: u8,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Value::Text(text) => f.write_str(text),
            Value::Count(count) => write!(f, "{count}"),
            Value::Real(number) if number.is_finite() => write!(f, "{number:.*}", usize::from(self.digits)),
            Value::Real(_) | Value::Missing => Ok(()),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::Text(text)
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Value::Count(count)
    }
}

impl From<u32> for Value {
    fn from(count: u32) -> Self {
        Value::Count(count.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Real(number)
    }
}

impl<V: Into<Value>> From<Option<V>> for Value {
    fn from(value: Option<V>) -> Self {
        value.map_or(Value::Missing, Into::into)
    }
}
