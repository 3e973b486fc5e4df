//! Ranges of a sweep: `2000..14000:2000`, `20us..60us:10us`, `1..10`.
//!
//! Numbers are decimals, added up exactly, so that a range has the values that one would type.

/// The most values of one range.
const MOST_POINTS: u128 = 100_000;

/// Returns the values of `FROM..TO:STEP`, or of `FROM..TO` in steps of one; `None` if it is not a range.
///
/// # Errors
/// Says what is wrong with it.
pub(super) fn values(text: &str) -> Option<Result<Vec<String>, String>> {
    let (from, rest) = text.split_once("..")?;
    Some(spread(from, rest).ok_or_else(|| WRITTEN.to_owned()))
}

const WRITTEN: &str = "a range is FROM..TO or FROM..TO:STEP, such as 1..10 or 20us..60us:10us, upwards, \
                       in one unit, of at most 100000 values";

fn spread(from: &str, rest: &str) -> Option<Vec<String>> {
    let (to, step) = rest.split_once(':').map_or((rest, None), |(to, step)| (to, Some(step)));
    let (from, to) = (Number::from_text(from)?, Number::from_text(to)?);
    let step = match step {
        Some(step) => Number::from_text(step)?,
        None => Number { digits: 1, decimals: 0, unit: from.unit },
    };
    let decimals = from.decimals.max(to.decimals).max(step.decimals);
    let [first, last, by] = [&from, &to, &step].map(|number| number.at(decimals));
    let (first, last, by) = (first?, last?, by?);
    let is_of_one_unit = from.unit == to.unit && from.unit == step.unit;
    if !is_of_one_unit || by == 0 || first > last || (last - first) / by >= MOST_POINTS {
        return None;
    }
    let one = 10_u128.checked_pow(decimals)?;
    let shown = |value: u128| {
        let part = format!("{:0width$}", value % one, width = decimals as usize);
        let part = part.trim_end_matches('0');
        let point = if part.is_empty() { "" } else { "." };
        format!("{}{point}{part}{}", value / one, from.unit)
    };
    Some((0..=(last - first) / by).map(|k| shown(first + k * by)).collect())
}

/// A decimal and its unit.
struct Number<'a> {
    digits: u128,
    decimals: u32,
    unit: &'a str,
}

impl<'a> Number<'a> {
    fn from_text(text: &'a str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{part}");
        // Times and rates have fewer.
        let is_short = (1..=24).contains(&digits.len()) && !whole.is_empty();
        Some(Number { digits: digits.parse().ok().filter(|_| is_short)?, decimals: part.len() as u32, unit })
    }

    /// Returns its digits with this many decimals.
    fn at(&self, decimals: u32) -> Option<u128> {
        self.digits.checked_mul(10_u128.checked_pow(decimals - self.decimals)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_the_values_that_one_would_type() {
        let all = |text| values(text).unwrap().unwrap().join(",");
        assert_eq!(all("1..4"), "1,2,3,4");
        assert_eq!(all("2000..9000:2000"), "2000,4000,6000,8000");
        assert_eq!(all("20us..60us:20us"), "20us,40us,60us");
        assert_eq!(all("10us..12us"), "10us,11us,12us");
        assert_eq!(all("0.1..0.5:0.2"), "0.1,0.3,0.5");
        assert_eq!(all("1.5..3:0.5"), "1.5,2,2.5,3");
        assert_eq!(all("10..10"), "10");
        assert_eq!(values("none"), None);
        assert_eq!(values("40us"), None);
    }

    #[test]
    fn what_is_no_range_is_refused_and_never_long() {
        for text in [
            "3..1",
            "1..",
            "..3",
            "1..3:0",
            "1us..3ms",
            "1us..3us:1ms",
            "1..1000000",
            "a..b",
            "1..2..3",
            "1..3:",
            "0..999999999999999999999999:0.000000000000000000000001",
            "1.2.3..4",
        ] {
            assert!(values(text).unwrap().is_err(), "{text}");
        }
    }
}
