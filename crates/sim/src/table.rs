//! The findings of a run: [`Row`]s of [`Value`]s under [`Column`]s, the papers' own.

use std::fmt;

/// One column of an experiment's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// The key in JSON and CSV, with the unit: `delay_us`, `output_pps`.
    pub name: &'static str,
    /// A few words of help, with the paper's name for the column.
    pub about: &'static str,
    /// The digits after the point, in data.
    pub digits: u8,
    /// Whether values are shares: fractions in data, where one is all of it, and percent for people.
    pub share: bool,
}

impl Column {
    /// Declares a column of whole numbers or words.
    pub const fn new(name: &'static str, about: &'static str) -> Self {
        Column { name, about, digits: 0, share: false }
    }

    /// Declares a column of shares, to a thousandth.
    ///
    /// ```
    /// use softtimers_sim::{Column, Value};
    ///
    /// let column = Column::share("lost", "of what came");
    /// let cell = Value::Real(0.0625);
    /// assert_eq!(column.data(&cell).to_string(), "0.062");
    /// assert_eq!(column.text(&cell).to_string(), "6.2%");
    /// ```
    pub const fn share(name: &'static str, about: &'static str) -> Self {
        Column { name, about, digits: 3, share: true }
    }

    /// Sets the digits after the point.
    #[must_use]
    pub const fn digits(self, digits: u8) -> Self {
        Column { digits, ..self }
    }

    /// Formats a cell for JSON and CSV; a missing value is empty.
    pub fn data<'a>(&self, value: &'a Value) -> impl fmt::Display + use<'a> {
        Shown { value, digits: self.digits, percent: false }
    }

    /// Formats a cell for people: a share in percent, to the same digit.
    pub fn text<'a>(&self, value: &'a Value) -> impl fmt::Display + use<'a> {
        Shown { value, digits: self.digits, percent: self.share }
    }
}

/// One row of a table: as many values as there are columns.
pub type Row = Vec<Value>;

/// The value of one cell.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// One or more words.
    Text(String),
    /// A whole number of things.
    Count(u64),
    /// A number, shown with the digits of its column.
    Real(f64),
    /// No value: the paper has no such figure, or nothing was measured.
    Missing,
}

struct Shown<'a> {
    value: &'a Value,
    digits: u8,
    percent: bool,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Value::Text(text) => f.write_str(text),
            Value::Count(count) => write!(f, "{count}"),
            Value::Real(share) if share.is_finite() && self.percent => {
                write!(f, "{:.*}%", usize::from(self.digits.saturating_sub(2)), 100.0 * share)
            }
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
