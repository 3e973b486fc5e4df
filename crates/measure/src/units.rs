//! Quantities as people type them: `12us`, `25kpps`, `1.5Gbit`, `64KiB`, `5%`.
//!
//! A number without a unit is refused, because a wrong guess between milliseconds and microseconds
//! floods somebody's network. Decimals are scaled in integers: `0.1ms` is 100,000 ns to the last
//! digit, and what is no whole number of the base unit is refused instead of rounded.
//!
//! The errors say what is allowed; the caller (clap, for a flag) puts the value in front.

use std::fmt;
use std::time::Duration;

use softtimers_core::{Percent, Rate, RateError, Speed};

/// A rate as typed. A bit rate says nothing about packets until their size is known.
///
/// ```
/// use softtimers_measure::units::{self, SendRate};
///
/// assert_eq!(units::rate("25kpps"), Ok(SendRate::PacketsPerSecond(25_000)));
/// let bits = units::rate("1Gbit")?;
/// assert_eq!(bits.of_packets(1_500).unwrap().interval().as_micros(), 12);
/// # Ok::<(), softtimers_measure::units::UnitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SendRate {
    /// A rate in datagrams a second.
    PacketsPerSecond(u64),
    /// Bits of payload a second.
    BitsPerSecond(u64),
}

impl SendRate {
    /// The rate of datagrams that carry `bytes` of payload each.
    ///
    /// # Errors
    /// [`RateError`] for a rate that is zero or beyond one datagram a nanosecond.
    pub fn of_packets(self, bytes: u32) -> Result<Rate, RateError> {
        match self {
            SendRate::PacketsPerSecond(packets) => Rate::per_second(packets),
            SendRate::BitsPerSecond(bits) => Rate::of_bits(bits, bytes),
        }
    }
}

/// As [`rate`] reads it, in the largest unit of which it is a whole number.
impl fmt::Display for SendRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (SendRate::PacketsPerSecond(value) | SendRate::BitsPerSecond(value)) = *self;
        let base = if matches!(self, SendRate::PacketsPerSecond(_)) { "pps" } else { "bit" };
        let units = RATE.units.iter().filter(|(name, _)| name.ends_with(base));
        let (name, size) = units.rev().find(|(_, size)| value % size == 0).unwrap_or(&("", 1));
        write!(f, "{}{name}", value / size)
    }
}

/// A length of time in whole nanoseconds, zero included: `12us`, `1.5ms`, `10s`.
///
/// ```
/// use std::time::Duration;
/// use softtimers_measure::units;
///
/// assert_eq!(units::duration("1.5ms"), Ok(Duration::from_micros(1_500)));
/// assert!(units::duration("12").is_err()); // of what?
/// ```
///
/// # Errors
/// [`UnitError`] for anything else, for a fraction of a nanosecond, and beyond 64 bits (584 years).
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    DURATION.parse(text).map(Duration::from_nanos)
}

/// As [`duration`], above zero.
///
/// # Errors
/// As [`duration`], and for zero.
pub fn positive_duration(text: &str) -> Result<Duration, UnitError> {
    DURATION.parse_positive(text).map(Duration::from_nanos)
}

/// The length of a run, above zero: as [`positive_duration`], but a number without a unit is seconds. Only for a time that
/// nobody means in microseconds.
///
/// ```
/// use std::time::Duration;
/// use softtimers_measure::units;
///
/// assert_eq!(units::run_time("10"), Ok(Duration::from_secs(10)));
/// assert_eq!(units::run_time("500ms"), Ok(Duration::from_millis(500)));
/// ```
///
/// # Errors
/// As [`positive_duration`], but for a number without a unit.
pub fn run_time(text: &str) -> Result<Duration, UnitError> {
    match positive_duration(text) {
        Err(UnitError { problem: Problem::NoUnit, .. }) => positive_duration(&format!("{text}s")),
        outcome => outcome,
    }
}

/// Packets or bits a second, above zero: `10kpps`, `83333pps`, `100Mbit`. Case does not matter.
///
/// # Errors
/// [`UnitError`] for anything else, for zero, a fraction of a packet or a bit, and beyond 64 bits.
pub fn rate(text: &str) -> Result<SendRate, UnitError> {
    let value = RATE.parse_positive(text)?;
    let packets = text.len() >= 3 && text.is_char_boundary(text.len() - 3) && {
        text[text.len() - 3..].eq_ignore_ascii_case("pps")
    };
    Ok(if packets { SendRate::PacketsPerSecond(value) } else { SendRate::BitsPerSecond(value) })
}

/// A number of bytes, zero included: `1200B`, `64KiB` (1,024), `64kB` (1,000). Case does not matter.
///
/// # Errors
/// [`UnitError`] for anything else, for a fraction of a byte, and beyond 64 bits.
pub fn bytes(text: &str) -> Result<u64, UnitError> {
    BYTES.parse(text)
}

/// A whole percentage: `0%` to `100%`.
///
/// ```
/// use softtimers_measure::units;
///
/// assert_eq!(units::percent("25%").unwrap().of_units(400), 100);
/// ```
///
/// # Errors
/// [`UnitError`] for anything else.
pub fn percent(text: &str) -> Result<Percent, UnitError> {
    let value = PERCENT.parse(text)?;
    let beyond = UnitError { problem: Problem::TooLarge, allowed: &PERCENT };
    u32::try_from(value).ok().and_then(|value| Percent::new(value).ok()).ok_or(beyond)
}

/// A share in parts of a billion: `1%`, `0.05%`, up to `100%`.
///
/// ```
/// assert_eq!(softtimers_measure::units::share("0.05%"), Ok(500_000));
/// ```
///
/// # Errors
/// [`UnitError`] for anything else.
pub fn share(text: &str) -> Result<u32, UnitError> {
    let billionths = SHARE.parse(text)?;
    let beyond = UnitError { problem: Problem::TooLarge, allowed: &SHARE };
    u32::try_from(billionths).ok().filter(|&share| share <= 1_000_000_000).ok_or(beyond)
}

/// Parses the speed at which a recording is replayed, in thousandths of its own speed: `2x`, `0.5x`, up to `1000x`.
///
/// # Errors
/// [`UnitError`] for anything else, and for zero.
pub fn speed(text: &str) -> Result<Speed, UnitError> {
    let thousandths = SPEED.parse_positive(text)?;
    let beyond = UnitError { problem: Problem::TooLarge, allowed: &SPEED };
    let speed = u32::try_from(thousandths).ok().filter(|&thousandths| thousandths <= 1_000_000);
    speed.and_then(|thousandths| Speed::new(thousandths, 1_000)).ok_or(beyond)
}

/// A decimal number without a unit, times `worth`: a field of a table whose head names the unit. `None`
/// for what is no such number, for no whole result, and beyond 64 bits.
pub fn scaled(number: &str, worth: u64) -> Option<u64> {
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.then(|| Decimal::parse(number).and_then(|decimal| decimal.times(worth)).ok()).flatten()
}

/// `12µs`, `1.5ms`, `3s`: the largest unit that leaves a number above one, for tables and messages.
///
/// ```
/// use std::time::Duration;
/// use softtimers_measure::units;
///
/// assert_eq!(units::show_duration(Duration::from_nanos(12_500)), "12.5us");
/// assert_eq!(units::duration("12.5us"), Ok(Duration::from_nanos(12_500)));
/// ```
pub fn show_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let (unit, name) = match nanos {
        0..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let (whole, rest) = (nanos / unit, nanos % unit);
    if rest == 0 {
        return format!("{whole}{name}");
    }
    let places = unit.ilog10() as usize;
    let fraction = format!("{rest:0places$}");
    format!("{whole}.{}{name}", fraction.trim_end_matches('0'))
}

/// Why a quantity was refused, and what is allowed instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitError {
    problem: Problem,
    allowed: &'static Quantity,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Problem {
    NoNumber,
    Negative,
    NoUnit,
    UnknownUnit,
    NotWhole,
    TooLarge,
    Zero,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quantity { noun, base, most, example, units, others } = self.allowed;
        match self.problem {
            Problem::NoNumber => write!(f, "not {noun}; write a number and a unit, such as {example}"),
            Problem::Negative => write!(f, "{noun} can't be negative"),
            Problem::NoUnit | Problem::UnknownUnit => {
                let what = if self.problem == Problem::NoUnit { "no unit" } else { "unknown unit" };
                write!(f, "{what}; {noun} ends in ")?;
                for (at, (name, _)) in units.iter().enumerate() {
                    let joint = if at == 0 { "" } else { ", " };
                    write!(f, "{joint}{name}")?;
                }
                write!(f, ", such as {example}{others}")
            }
            Problem::NotWhole => write!(f, "not a whole number of {base}"),
            Problem::TooLarge => write!(f, "too large; {noun} is at most {most}"),
            Problem::Zero => write!(f, "must be above zero, such as {example}"),
        }
    }
}

impl std::error::Error for UnitError {}

/// One kind of quantity: its units, each a multiple of the base unit.
#[derive(PartialEq, Eq, Debug)]
struct Quantity {
    noun: &'static str,
    base: &'static str,
    most: &'static str,
    example: &'static str,
    units: &'static [(&'static str, u64)],
    /// What the units of other programs are here, for the message about an unknown one.
    others: &'static str,
}

impl Quantity {
    fn parse(&'static self, text: &str) -> Result<u64, UnitError> {
        let error = |problem| UnitError { problem, allowed: self };
        if text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
            return Err(error(Problem::Negative));
        }
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let number = Decimal::parse(number).map_err(error)?;
        if unit.is_empty() {
            return Err(error(Problem::NoUnit));
        }
        let worth = self.units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        let &(_, worth) = worth.ok_or(error(Problem::UnknownUnit))?;
        number.times(worth).map_err(error)
    }

    fn parse_positive(&'static self, text: &str) -> Result<u64, UnitError> {
        match self.parse(text)? {
            0 => Err(UnitError { problem: Problem::Zero, allowed: self }),
            value => Ok(value),
        }
    }
}

/// `digits` ÷ 10^`places`, without a trailing zero after the point.
struct Decimal {
    digits: u128,
    places: u32,
}

impl Decimal {
    fn parse(text: &str) -> Result<Self, Problem> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
            return Err(Problem::NoNumber);
        }
        let fraction = fraction.trim_end_matches('0');
        let mut digits = 0u128;
        for digit in whole.bytes().chain(fraction.bytes()) {
            let shifted = digits.checked_mul(10).ok_or(Problem::TooLarge)?;
            digits = shifted.checked_add(u128::from(digit - b'0')).ok_or(Problem::TooLarge)?;
        }
        let places = u32::try_from(fraction.len()).map_err(|_| Problem::NotWhole)?;
        Ok(Decimal { digits, places })
    }

    fn times(&self, worth: u64) -> Result<u64, Problem> {
        let scaled = self.digits.checked_mul(u128::from(worth)).ok_or(Problem::TooLarge)?;
        let power = 10u128.checked_pow(self.places).ok_or(Problem::NotWhole)?;
        if scaled % power != 0 {
            return Err(Problem::NotWhole);
        }
        u64::try_from(scaled / power).map_err(|_| Problem::TooLarge)
    }
}

static DURATION: Quantity = Quantity {
    noun: "a duration",
    base: "nanoseconds",
    most: "18446744073709551615ns (584 years)",
    example: "12us or 1.5ms",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
    others: "",
};

static RATE: Quantity = Quantity {
    noun: "a rate",
    base: "packets or bits per second",
    most: "18446744073709551615 (64 bits)",
    example: "10kpps or 100Mbit",
    units: &[
        ("pps", 1),
        ("kpps", 1_000),
        ("Mpps", 1_000_000),
        ("bit", 1),
        ("kbit", 1_000),
        ("Mbit", 1_000_000),
        ("Gbit", 1_000_000_000),
        ("Tbit", 1_000_000_000_000),
    ],
    others: "; 20M of iperf3 is 20Mbit, and 20mbps is 20Mbit too, except for tc, where it is bytes and so 160Mbit",
};

static BYTES: Quantity = Quantity {
    noun: "a size",
    base: "bytes",
    most: "18446744073709551615B (64 bits)",
    example: "1200B or 64KiB",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
    others: "",
};

static PERCENT: Quantity = Quantity {
    noun: "a share",
    base: "percent",
    most: "100%",
    example: "25%",
    units: &[("%", 1)],
    others: "",
};

static SHARE: Quantity = Quantity {
    noun: "a share",
    base: "parts of a billion",
    most: "100%",
    example: "1% or 0.05%",
    units: &[("%", 10_000_000)],
    others: "",
};

static SPEED: Quantity = Quantity {
    noun: "a speed",
    base: "thousandths",
    most: "1000x",
    example: "2x or 0.5x",
    units: &[("x", 1_000)],
    others: "",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties;
    use proptest::prelude::*;

    fn message<T: fmt::Debug>(result: Result<T, UnitError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn the_units_of_the_manual() {
        let nanos = |text| duration(text).map(|duration| duration.as_nanos());
        assert_eq!(nanos("12us"), Ok(12_000));
        assert_eq!(nanos("12µs"), Ok(12_000));
        assert_eq!(nanos("1ms"), Ok(1_000_000));
        assert_eq!(nanos("10s"), Ok(10_000_000_000));
        assert_eq!(nanos("500ns"), Ok(500));
        assert_eq!(nanos("0.1ms"), Ok(100_000));
        assert_eq!(nanos("1.000000001s"), Ok(1_000_000_001));
        assert_eq!(nanos("0.50min"), Ok(30_000_000_000));
        assert_eq!(rate("83333pps"), Ok(SendRate::PacketsPerSecond(83_333)));
        assert_eq!(rate("10kpps"), Ok(SendRate::PacketsPerSecond(10_000)));
        assert_eq!(rate("100Mbit"), Ok(SendRate::BitsPerSecond(100_000_000)));
        assert_eq!(rate("1.5gbit"), Ok(SendRate::BitsPerSecond(1_500_000_000)));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("1.5kB"), Ok(1_500));
        assert_eq!(percent("100%").map(Percent::get), Ok(100));
    }

    #[test]
    fn refusals_say_what_is_allowed() {
        assert_eq!(
            message(duration("12")),
            "no unit; a duration ends in ns, us, µs, ms, s, min, h, such as 12us or 1.5ms"
        );
        assert_eq!(
            message(rate("10mbps")),
            "unknown unit; a rate ends in pps, kpps, Mpps, bit, kbit, Mbit, Gbit, Tbit, such as 10kpps or 100Mbit; \
             20M of iperf3 is 20Mbit, and 20mbps is 20Mbit too, except for tc, where it is bytes and so 160Mbit"
        );
        assert_eq!(message(rate("0pps")), "must be above zero, such as 10kpps or 100Mbit");
        assert_eq!(
            message(rate("18446744073709551616pps")),
            "too large; a rate is at most 18446744073709551615 (64 bits)"
        );
        assert_eq!(message(duration("0.5ns")), "not a whole number of nanoseconds");
        assert_eq!(message(positive_duration("0s")), "must be above zero, such as 12us or 1.5ms");
        assert_eq!(
            message(duration("fast")),
            "not a duration; write a number and a unit, such as 12us or 1.5ms"
        );
        assert_eq!(message(percent("101%")), "too large; a share is at most 100%");
        assert_eq!(message(duration("-1ms")), "a duration can't be negative");
        assert_eq!(message(rate("-5pps")), "a rate can't be negative");
        assert!(message(duration("-ms")).starts_with("not a duration"));
    }

    #[test]
    fn only_the_length_of_a_run_has_seconds_without_saying_so() {
        assert_eq!(run_time("10"), Ok(Duration::from_secs(10)));
        assert_eq!(run_time("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(run_time("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(message(run_time("0")), "must be above zero, such as 12us or 1.5ms");
        assert_eq!(message(run_time("-1")), "a duration can't be negative");
        assert!(message(run_time("1e3")).starts_with("unknown unit"));
        assert!(message(positive_duration("10")).starts_with("no unit"));
    }

    #[test]
    fn speeds_are_exact_thousandths() {
        assert_eq!(speed("2x"), Ok(Speed::new(2_000, 1_000).unwrap()));
        assert_eq!(speed("0.001X"), Ok(Speed::new(1, 1_000).unwrap()));
        assert_eq!(speed("1000x"), Ok(Speed::new(1_000_000, 1_000).unwrap()));
        assert_eq!(message(speed("2")), "no unit; a speed ends in x, such as 2x or 0.5x");
        assert_eq!(message(speed("0x")), "must be above zero, such as 2x or 0.5x");
        assert_eq!(message(speed("1001x")), "too large; a speed is at most 1000x");
        assert_eq!(message(speed("0.0005x")), "not a whole number of thousandths");
    }

    #[test]
    fn what_is_no_number_is_refused() {
        assert_eq!((scaled("12.5", 1_000), scaled("12", 1)), (Some(12_500), Some(12)));
        for text in ["", ".", "1.", "-1", "1e3", " 1", "1.0005", "99999999999999999999"] {
            assert_eq!(scaled(text, 1_000), None, "{text:?}");
        }
        for text in
            ["", "s", ".5s", "5.s", "1.2.3s", "-1s", "+1s", "1e3s", " 1s", "1 s", "1s ", "٣s", "1_000ms"]
        {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn sixty_four_bits_are_the_limit() {
        assert_eq!(duration("18446744073709551615ns"), Ok(Duration::from_nanos(u64::MAX)));
        assert_eq!(duration("18446744073.709551615s"), Ok(Duration::from_nanos(u64::MAX)));
        assert!(duration("18446744073.709551616s").is_err());
        assert!(duration(&format!("{}s", "9".repeat(1_000))).is_err());
        assert!(duration(&format!("0.{}1s", "0".repeat(1_000))).is_err());
        assert_eq!(duration(&format!("0.1{}s", "0".repeat(1_000))), Ok(Duration::from_millis(100)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_parsed_or_refused(text in "\\PC*") {
            properties::units(&text);
        }

        #[test]
        fn near_misses_are_parsed_or_refused(text in "[0-9.]{0,40}(ns|us|µs|ms|s|h|[kKmMgG]?(pps|bit|iB|B)|%|x)?") {
            properties::units(&text);
        }

        #[test]
        fn decimals_are_exact(whole in 0u64..1_000_000, nanos in 0u64..1_000_000_000) {
            let exact = Duration::new(whole, nanos as u32);
            prop_assert_eq!(duration(&format!("{whole}.{nanos:09}s")), Ok(exact));
        }

        #[test]
        fn what_is_shown_reads_back(nanos in any::<u64>()) {
            let exact = Duration::from_nanos(nanos);
            prop_assert_eq!(duration(&show_duration(exact)), Ok(exact));
        }
    }
}
