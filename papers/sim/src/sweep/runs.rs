//! The settings of a sweep's runs beside the parameters: [`Runs`].

use std::num::NonZeroU32;
use std::str::FromStr;

use crate::recording::Sha256;

/// The seeds of each point, the handling of impossible points, and the program's build.
#[derive(Clone, PartialEq, Debug)]
pub struct Runs {
    /// The first seed. A point may have another one, by an axis of the name `seed`.
    pub seed: u64,
    /// Number of consecutive seeds of each point; more than one give means.
    pub seeds: NonZeroU32,
    /// Ends a point before its last seed.
    pub precision: Option<Precision>,
    /// Gives an impossible point a row with the reason, instead of rejecting the sweep.
    pub skips: bool,
    /// The program's build, so that rows of different builds are not mixed.
    pub build: Option<Sha256>,
}

impl Default for Runs {
    fn default() -> Self {
        Runs::from(1)
    }
}

/// One run of each point, with this seed.
impl From<u64> for Runs {
    fn from(seed: u64) -> Self {
        Runs { seed, seeds: NonZeroU32::MIN, precision: None, skips: false, build: None }
    }
}

/// The required precision of a column's mean: half the length of its 95% interval, as a share of the mean, in
/// every row.
///
/// It is checked after ten seeds and then after every five. A point that ends early was checked several
/// times, so its interval contains the true mean slightly less often than 95 times in a hundred.
///
/// ```
/// use softtimers_sim::Precision;
///
/// let precision: Precision = "delay_us=2%".parse()?;
/// assert_eq!((precision.column.as_str(), precision.share), ("delay_us", 0.02));
/// assert!("delay_us".parse::<Precision>().is_err() && "delay_us=0".parse::<Precision>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Precision {
    /// The name of the column.
    pub column: String,
    /// The share, above zero and at most one.
    pub share: f64,
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').filter(|(column, _)| !column.is_empty());
        let share = |share: &str| match share.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().ok().map(|percent| percent / 100.0),
            None => share.parse().ok(),
        };
        let parsed = parts.and_then(|(column, text)| Some((column, share(text)?)));
        match parsed {
            Some((column, share)) if share > 0.0 && share <= 1.0 => {
                Ok(Precision { column: column.to_owned(), share })
            }
            _ => {
                Err("a precision is COLUMN=SHARE with a share above 0% and at most 100%, such as delay_us=2%"
                    .to_owned())
            }
        }
    }
}

/// Returns whether the precision is checked after `seeds` seeds.
pub(super) const fn is_look(seeds: usize) -> bool {
    seeds >= 10 && seeds % 5 == 0
}
