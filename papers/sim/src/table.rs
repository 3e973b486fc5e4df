//! The results of a run: [`Row`]s of [`Value`]s under the papers' own [`Column`]s.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::setting::Setting;

/// One column of an experiment's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// The displayed name, with the unit: `delay_us`, `output_pps`. See [`key`](Self::key).
    pub name: &'static str,
    /// A short help text, with the paper's name for the column.
    pub about: &'static str,
    /// The digits after the point in displayed tables.
    pub digits: u8,
    /// The kind of its cells.
    pub cells: Cells,
    /// Whether the value is the same for every seed: it repeats a parameter or the paper's value.
    pub given: bool,
    /// Whether several seeds give the greatest value, and none if one of them has none, rather than a mean.
    pub greatest: bool,
    /// The unit that ends its key, where the name is that of a parameter in this unit.
    pub unit: Option<&'static str>,
}

/// The kind of a column's cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cells {
    /// Numbers.
    Numbers,
    /// Shares: fractions of one in data, percent in displayed tables.
    Shares,
    /// Times: nanoseconds in data, and as typed in displayed tables.
    Times,
    /// Words.
    Words,
}

impl Column {
    /// Declares a column of numbers.
    pub const fn new(name: &'static str, about: &'static str) -> Self {
        Column { name, about, digits: 0, cells: Cells::Numbers, given: false, greatest: false, unit: None }
    }

    /// Declares a column of words.
    pub const fn words(name: &'static str, about: &'static str) -> Self {
        Column { cells: Cells::Words, ..Column::new(name, about) }
    }

    /// Declares a column that repeats a time that was set.
    ///
    /// ```
    /// use std::time::Duration;
    /// use softtimers_sim::{Column, Value};
    ///
    /// let column = Column::time("target", "the gap that is wanted");
    /// let cell = Value::Time(Duration::from_micros(40));
    /// assert_eq!((column.key().as_ref(), column.data(&cell).to_string().as_str()), ("target_ns", "40000"));
    /// assert_eq!(column.text(&cell).to_string(), "40us");
    /// ```
    pub const fn time(name: &'static str, about: &'static str) -> Self {
        Column { cells: Cells::Times, given: true, ..Column::new(name, about) }
    }

    /// Declares a column of shares, to a tenth of a percent.
    ///
    /// ```
    /// use softtimers_sim::{Column, Value};
    ///
    /// let column = Column::share("lost", "of what came");
    /// let cell = Value::Real(0.0625);
    /// assert_eq!(column.data(&cell).to_string(), "0.0625");
    /// assert_eq!(column.text(&cell).to_string(), "6.2%");
    /// ```
    pub const fn share(name: &'static str, about: &'static str) -> Self {
        Column { digits: 3, cells: Cells::Shares, ..Column::new(name, about) }
    }

    /// Sets the digits after the point in displayed tables.
    #[must_use]
    pub const fn digits(self, digits: u8) -> Self {
        Column { digits, ..self }
    }

    /// Declares that the value is the same for every seed: a parameter, or the paper's value.
    #[must_use]
    pub const fn given(self) -> Self {
        Column { given: true, ..self }
    }

    /// Declares that several seeds give the greatest value, and none if one of them has none, rather than a mean.
    #[must_use]
    pub const fn greatest(self) -> Self {
        Column { greatest: true, ..self }
    }

    /// Declares that it repeats a parameter that is in a unit.
    #[must_use]
    pub const fn in_unit(self, unit: &'static str) -> Self {
        Column { unit: Some(unit), given: true, ..self }
    }

    /// Returns the key in JSON and CSV: the name, with the unit of a time or of a parameter.
    pub fn key(&self) -> Cow<'static, str> {
        match (self.cells, self.unit) {
            (Cells::Times, _) => Cow::Owned(format!("{}_ns", self.name)),
            (_, Some(unit)) => Cow::Owned(format!("{}_{unit}", self.name)),
            _ => Cow::Borrowed(self.name),
        }
    }

    /// Formats a cell for CSV, as [`Value::data`].
    pub fn data<'a>(&self, value: &'a Value) -> impl fmt::Display + use<'a> {
        value.data()
    }

    /// Formats a cell with the displayed digits, a share as a fraction.
    pub fn rounded<'a>(&self, value: &'a Value) -> impl fmt::Display + use<'a> {
        Shown { value, digits: self.digits, percent: false, is_kept: true }
    }

    /// Formats a cell for display: a share in percent, to the same digit; a mean with half the length of its
    /// interval.
    ///
    /// ```
    /// use softtimers_sim::{Column, Value};
    ///
    /// // A value that is not zero is not shown as zero.
    /// assert_eq!(Column::new("per_poll", "").digits(2).text(&Value::Real(0.000_196)).to_string(), "0.0002");
    /// ```
    pub fn text<'a>(&self, value: &'a Value) -> impl fmt::Display + use<'a> {
        Shown { value, digits: self.digits, percent: self.cells == Cells::Shares, is_kept: false }
    }

    /// Returns whether seeds may differ in it, and their mean is meaningful.
    pub(crate) fn is_measured(&self) -> bool {
        !self.given && !self.greatest && matches!(self.cells, Cells::Numbers | Cells::Shares)
    }

    /// Returns whether a cell is of the column's kind.
    pub(crate) fn holds(&self, value: &Value) -> bool {
        match value {
            Value::Text(_) => self.cells == Cells::Words,
            Value::Time(_) => self.cells == Cells::Times,
            Value::Count(_) | Value::Mean(_) | Value::Real(_) | Value::Without(_) => {
                matches!(self.cells, Cells::Numbers | Cells::Shares)
            }
            Value::Missing => true,
        }
    }
}

/// One row of a table, with a value for each column.
pub type Row = Vec<Value>;

/// The value of one cell.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// One or more words.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A number, shown with the digits of its column.
    Real(f64),
    /// A time that was set.
    Time(Duration),
    /// The mean of several seeds.
    Mean(Mean),
    /// Not a number, such as a quota of none: a word in displayed tables, and no value in data.
    Without(&'static str),
    /// No value: the paper has no such figure, or nothing was measured.
    Missing,
}

/// The mean over several seeds, and its precision.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mean {
    /// The arithmetic mean.
    pub mean: f64,
    /// The standard deviation of a single seed; none if there was one only.
    pub deviation: Option<f64>,
    /// Half the length of the 95% confidence interval of the mean, by Student's t; none if there was one seed only.
    pub interval: Option<f64>,
    /// The seeds that had a value.
    pub seeds: u32,
}

impl Value {
    /// Formats the value with all its digits; a missing value is empty.
    pub fn data(&self) -> impl fmt::Display + '_ {
        Exact(self)
    }

    /// Returns the number, if it is one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Value::Count(count) => Some(*count as f64),
            Value::Real(number) => Some(*number).filter(|number| number.is_finite()),
            Value::Mean(mean) => Some(mean.mean),
            Value::Time(time) => Some(time.as_nanos() as f64),
            Value::Text(_) | Value::Without(_) | Value::Missing => None,
        }
    }
}

struct Exact<'a>(&'a Value);

impl fmt::Display for Exact<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Text(text) => f.write_str(text),
            Value::Count(count) => write!(f, "{count}"),
            Value::Real(number) if number.is_finite() => write!(f, "{number}"),
            Value::Time(time) => write!(f, "{}", time.as_nanos()),
            Value::Mean(mean) => write!(f, "{}", mean.mean),
            Value::Real(_) | Value::Without(_) | Value::Missing => Ok(()),
        }
    }
}

struct Shown<'a> {
    value: &'a Value,
    digits: u8,
    percent: bool,
    /// In a table that is stored, every number of a column has the same digits.
    is_kept: bool,
}

impl Shown<'_> {
    /// Writes `number` with `digits` digits, or with more if it would show as zero and is not.
    fn number(&self, f: &mut fmt::Formatter<'_>, number: f64, digits: u8) -> fmt::Result {
        let (number, digits) =
            if self.percent { (100.0 * number, digits.saturating_sub(2)) } else { (number, digits) };
        let lost = |digits: &u8| {
            !self.is_kept && number != 0.0 && (number * 10f64.powi((*digits).into())).abs() < 0.5
        };
        let digits = (digits..MOST_DIGITS).find(|digits| !lost(digits)).unwrap_or(digits);
        write!(f, "{number:.*}", usize::from(digits))
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Value::Text(text) => f.write_str(text)?,
            Value::Count(count) => write!(f, "{count}")?,
            Value::Real(number) if number.is_finite() => self.number(f, *number, self.digits)?,
            Value::Time(time) => Setting::Time(*time).fmt(f)?,
            Value::Mean(mean) => {
                let unit = if self.percent { 0.01 } else { 1.0 };
                let whole = mean.interval.is_none_or(|interval| interval >= 10.0 * unit);
                let tenth = self.digits + u8::from(self.digits == 0 && !whole && mean.mean.fract() != 0.0);
                self.number(f, mean.mean, tenth)?;
                if let Some(interval) = mean.interval.filter(|interval| *interval > 0.0) {
                    f.write_str(" ± ")?;
                    self.number(f, interval, tenth)?;
                }
            }
            Value::Without(word) => f.write_str(word)?,
            Value::Real(_) | Value::Missing => return Ok(()),
        }
        let is_number = !matches!(self.value, Value::Text(_) | Value::Time(_) | Value::Without(_));
        if self.percent && is_number && !matches!(self.value, Value::Count(_)) {
            f.write_str("%")?;
        }
        Ok(())
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

impl From<Duration> for Value {
    fn from(time: Duration) -> Self {
        Value::Time(time)
    }
}

impl<V: Into<Value>> From<Option<V>> for Value {
    fn from(value: Option<V>) -> Self {
        value.map_or(Value::Missing, Into::into)
    }
}

/// More digits than this carry no information.
const MOST_DIGITS: u8 = 12;
