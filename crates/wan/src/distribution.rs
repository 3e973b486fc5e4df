//! Distributions of delays as tables, in the format of netem: [`DelayTable`].
//!
//! A table holds the quantiles of a distribution, in parts of 1/8192 of the jitter's size; each packet draws one:
//!
//! ```text
//!   # comment
//!   -5461 -5460 -5457 … 0 … 32767        each as likely; 8192 is one size later, -8192 one earlier
//! ```
//!
//! A [histogram](DelayTable::histogram) can be converted into one:
//!
//! ```text
//!   delay,count                          a first line with names is passed over
//!   0,70                                 70 of 100 packets are not later, 20 by one size, 10 by two and a half
//!   1,20
//!   2.5,10
//! ```
//!
//! The named tables here are computed in integers, so they are the same on every machine. Pareto is netem's, with an
//! exponent of 3 and cut off at four sizes, and so is its mixture of a quarter normal and three quarters of Pareto
//! (iproute2, `netem/pareto.c` and `netem/paretonormal.c`).

use std::fmt;
use std::sync::{Arc, LazyLock};

/// The quantiles of a distribution of delays. Clones share the data.
///
/// ```
/// use softtimers_wan::DelayTable;
///
/// let table = DelayTable::parse(b"# two of three packets come early\n-8192 -8192 16384\n")?;
/// assert_eq!(table.quantiles(), 3);
/// let problem = DelayTable::parse(b"1 2\n40000\n").unwrap_err();
/// assert_eq!(problem.to_string(), "line 2: 40000: a whole number from -32768 to 32767 is needed");
/// # Ok::<(), softtimers_wan::DelayTableError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DelayTable(Arc<[i32]>);

impl DelayTable {
    /// A deviation of one size.
    pub const ONE: i32 = 8_192;

    /// The most quantiles, as in netem.
    pub const MOST_QUANTILES: usize = 16_384;

    /// Parses a file: whole numbers between spaces, and lines that begin with `#`. Their order does not matter.
    ///
    /// # Errors
    /// [`DelayTableError`], which names the line.
    pub fn parse(file: &[u8]) -> Result<Self, DelayTableError> {
        let (mut quantiles, mut last) = (Vec::new(), 1);
        for (line, number) in file.split(|&byte| byte == b'\n').zip(1..) {
            if line.first() == Some(&b'#') {
                continue;
            }
            for word in line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
                last = number;
                let value = std::str::from_utf8(word).ok().and_then(|word| word.parse::<i16>().ok());
                let Some(value) = value else {
                    let word =
                        String::from_utf8_lossy(&word[..word.len().min(20)]).escape_debug().to_string();
                    return Err(DelayTableError { line: number, problem: Problem::NoNumber(word) });
                };
                if quantiles.len() == Self::MOST_QUANTILES {
                    return Err(DelayTableError { line: number, problem: Problem::TooMany });
                }
                quantiles.push(i32::from(value));
            }
        }
        if quantiles.is_empty() {
            return Err(DelayTableError { line: last, problem: Problem::Empty });
        }
        quantiles.sort_unstable();
        Ok(DelayTable(quantiles.into()))
    }

    /// Parses a histogram: lines with a value in sizes, a comma, and a count. Values may have fractions and signs;
    /// lines that begin with `#`, and a first line that begins with a letter, are skipped. Counts that sum to more than
    /// [`MOST_QUANTILES`](Self::MOST_QUANTILES) are scaled to that number of quantiles.
    ///
    /// ```
    /// let table = softtimers_wan::DelayTable::histogram(b"ms,packets\n0,70\n1,20\n2.5,10\n")?;
    /// assert_eq!(table.quantiles(), 100);
    /// # Ok::<(), softtimers_wan::DelayTableError>(())
    /// ```
    ///
    /// # Errors
    /// [`DelayTableError`], which names the line.
    pub fn histogram(file: &[u8]) -> Result<Self, DelayTableError> {
        let (mut bins, mut last) = (Vec::new(), 1);
        for (line, number) in file.split(|&byte| byte == b'\n').zip(1..) {
            let line = line.trim_ascii();
            let is_title = last == 1 && bins.is_empty() && line.first().is_some_and(u8::is_ascii_alphabetic);
            if line.is_empty() || line.first() == Some(&b'#') || is_title {
                continue;
            }
            last = number;
            bins.push(bin(line).ok_or_else(|| {
                let text = String::from_utf8_lossy(&line[..line.len().min(20)]).escape_debug().to_string();
                DelayTableError { line: number, problem: Problem::NoBin(text) }
            })?);
        }
        bins.sort_unstable();
        let total: u128 = bins.iter().map(|&(_, count)| u128::from(count)).sum();
        let quantiles = total.min(Self::MOST_QUANTILES as u128);
        if quantiles == 0 {
            return Err(DelayTableError { line: last, problem: Problem::Empty });
        }
        let (mut bins, mut until) = (bins.into_iter(), 0);
        let mut deviation = 0;
        // The middle of each of the equal parts; if there are as many parts as counts, each is one count.
        Ok(DelayTable(
            (0..quantiles)
                .map(|quantile| {
                    let middle = (2 * quantile + 1) * total;
                    while 2 * until * quantiles <= middle {
                        let Some((next, count)) = bins.next() else { break };
                        (deviation, until) = (next, until + u128::from(count));
                    }
                    deviation
                })
                .collect(),
        ))
    }

    /// Returns a normal distribution of mean 0 and deviation 1, between −3.7 and 3.7.
    pub fn normal() -> Self {
        NORMAL.clone()
    }

    pub(crate) fn normal_values() -> &'static [i32] {
        &NORMAL.0
    }

    /// Returns netem's Pareto distribution; cut off, its mean is a thirtieth of the size below zero.
    pub fn pareto() -> Self {
        PARETO.clone()
    }

    /// Returns a quarter of [`normal`](Self::normal) and three quarters of [`pareto`](Self::pareto), as in netem.
    pub fn pareto_normal() -> Self {
        PARETO_NORMAL.clone()
    }

    /// Returns the number of quantiles: at least one.
    pub fn quantiles(&self) -> usize {
        self.0.len()
    }

    /// Returns the smallest deviation.
    pub(crate) fn least(&self) -> i32 {
        self.0[0]
    }

    /// Returns all deviations, sorted.
    pub(crate) fn values(&self) -> &[i32] {
        &self.0
    }

    /// Returns the deviation at this part of 2³².
    pub(crate) fn at(&self, part: u32) -> i32 {
        self.0[((u64::from(part) * self.0.len() as u64) >> 32) as usize]
    }

    /// Returns the part of 2³² that is below a deviation, and the part that equals it.
    pub(crate) fn below(&self, deviation: i32) -> (u64, u64) {
        let count = self.0.len() as u64;
        let below = self.0.partition_point(|&quantile| quantile < deviation) as u64;
        let until = self.0.partition_point(|&quantile| quantile <= deviation) as u64;
        ((below << 32) / count, ((until - below) << 32) / count)
    }
}

/// Parses a line of a histogram: the deviation, and its count.
fn bin(line: &[u8]) -> Option<(i32, u64)> {
    let (value, count) = std::str::from_utf8(line).ok()?.split_once(',')?;
    let value = value.trim().parse::<f64>().ok().filter(|value| value.abs() <= MOST_SIZES)?;
    let deviation = (value * f64::from(DelayTable::ONE)).round() as i32;
    Some((deviation, count.trim().parse().ok()?))
}

/// Prints a summary, not thousands of numbers.
impl fmt::Debug for DelayTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayTable").field("quantiles", &self.quantiles()).finish()
    }
}

/// Why a file is not a valid [`DelayTable`], and in which line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DelayTableError {
    line: u64,
    problem: Problem,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Problem {
    NoNumber(String),
    NoBin(String),
    TooMany,
    Empty,
}

impl DelayTableError {
    /// Returns the line, from one on.
    pub fn line(&self) -> u64 {
        self.line
    }
}

impl fmt::Display for DelayTableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.problem {
            Problem::NoNumber(word) => write!(f, "{word}: a whole number from -32768 to 32767 is needed"),
            Problem::NoBin(line) => {
                write!(
                    f,
                    "{line}: a value from -{MOST_SIZES} to {MOST_SIZES}, a comma and a whole number are needed"
                )
            }
            Problem::TooMany => write!(f, "more than {} numbers", DelayTable::MOST_QUANTILES),
            Problem::Empty => {
                f.write_str("no number; a table of netem has some thousands, a histogram a count above zero")
            }
        }
    }
}

impl std::error::Error for DelayTableError {}

/// The largest value of a histogram, in sizes; its parts fit into 32 bits.
const MOST_SIZES: f64 = 10_000.0;
/// The number of quantiles of the computed tables.
const COUNT: i64 = 4_096;

static NORMAL: LazyLock<DelayTable> = LazyLock::new(|| DelayTable(normal().into()));
static PARETO: LazyLock<DelayTable> = LazyLock::new(|| DelayTable((0..COUNT).map(pareto).collect()));
static PARETO_NORMAL: LazyLock<DelayTable> = LazyLock::new(|| {
    let mixed = NORMAL.0.iter().zip(PARETO.0.iter()).map(|(normal, pareto)| (normal + 3 * pareto) / 4);
    DelayTable(mixed.collect())
});

/// Returns (1/√³u − 3/2) · 4/3 at u = 1 − quantile / 4096, rounded.
fn pareto(quantile: i64) -> i32 {
    // 65,536 / u has 48 fractional bits, its cubic root 16.
    let cube = (1u128 << 64) / (16 * (COUNT - quantile) as u128);
    let root = cubic_root(cube) as i64;
    let scaled = (root - (3 << 15)) * 4 * i64::from(DelayTable::ONE) / 3;
    i32::try_from((scaled + (1 << 15)) >> 16).unwrap_or(i32::MAX).min(i32::from(i16::MAX))
}

/// Returns the integer part of the cubic root.
fn cubic_root(cube: u128) -> u128 {
    (0..43).rev().fold(0u128, |root, bit| {
        let next = root | 1 << bit;
        if next.pow(3) <= cube { next } else { root }
    })
}

/// Computes the middle of each of 4,096 equal parts under the bell curve, summed in steps of 1/1024 of a deviation.
fn normal() -> Vec<i32> {
    // exp(−h²) and exp(−h²/2) with 62 fractional bits, for h = 2⁻¹⁰, by their series.
    const SQUARE: u128 = (1 << 62) - (1 << 42) + (1 << 21);
    const HALF: u128 = (1 << 62) - (1 << 41) + (1 << 19);
    const STEPS: usize = 5 * 1_024;
    let (mut density, mut ratio, mut sum) = (1u128 << 62, HALF, 0u128);
    // Twice the area between the middle and each step.
    let mut areas = vec![0u128];
    for _ in 0..STEPS {
        let next = (density * ratio) >> 62;
        ratio = (ratio * SQUARE) >> 62;
        sum += density + next;
        areas.push(sum);
        density = next;
    }
    let half = COUNT / 2;
    let upper: Vec<i32> = (0..half)
        .map(|part| {
            let wanted = sum * (2 * part as u128 + 1) / (2 * half as u128);
            let step = areas.partition_point(|&area| area <= wanted).clamp(1, STEPS);
            let (low, high) = (areas[step - 1], areas[step]);
            // 8 parts of 1/8192 are a step of 1/1024.
            let within = (8 * (wanted - low) + (high - low) / 2) / (high - low);
            (8 * (step - 1)) as i32 + within as i32
        })
        .collect();
    upper.iter().rev().map(|deviation| -deviation).chain(upper.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(table: &DelayTable) -> (f64, f64) {
        let count = table.0.len() as f64;
        let one = f64::from(DelayTable::ONE);
        let mean = table.0.iter().map(|&value| f64::from(value) / one).sum::<f64>() / count;
        let square = table.0.iter().map(|&value| (f64::from(value) / one - mean).powi(2)).sum::<f64>();
        (mean, (square / count).sqrt())
    }

    /// The quantiles of the normal distribution are published. In the tails, a table of 4,096 has steps.
    #[test]
    fn quantiles_are_those_of_the_distributions() {
        let normal = DelayTable::normal();
        for (part, deviation) in
            [(0.5, 0.0), (0.75, 0.6745), (0.9, 1.2816), (0.95, 1.6449), (0.99, 2.3263), (0.999, 3.0902)]
        {
            let found = f64::from(normal.at((part * 2f64.powi(32)) as u32)) / 8_192.0;
            assert!((found - deviation).abs() < 0.002 + 0.04 * f64::from(part > 0.98), "{part}: {found}");
        }
        let (mean, deviation) = moments(&normal);
        assert!(mean.abs() < 1e-6 && (deviation - 1.0).abs() < 2e-3, "{mean} {deviation}");
        assert_eq!(normal.least(), -normal.at(u32::MAX));
        // netem's formula in floating point.
        let pareto = DelayTable::pareto();
        for quantile in 0..COUNT {
            let u = (65_536 - 16 * quantile) as f64 / 65_536.0;
            let theirs = ((1.0 / u.powf(1.0 / 3.0) - 1.5) * 4.0 / 3.0 * 8_192.0).min(32_767.0).round();
            assert!((f64::from(pareto.0[quantile as usize]) - theirs).abs() <= 1.0, "{quantile}");
        }
        assert!((moments(&pareto).0).abs() < 0.05 && pareto.least() == -5_461);
        assert!(DelayTable::pareto_normal().0.is_sorted());
    }

    /// Random histograms: each value is drawn by exactly its share of all random numbers, or one of 16,384 quantiles
    /// less.
    #[test]
    fn a_histogram_is_drawn_as_it_is() {
        for seed in 0..200 {
            let mut random = softtimers_core::Random::stream(seed, 0);
            let most = if seed % 2 == 0 { 600 } else { 1 << 40 };
            let bins: Vec<(i32, u64)> = (0..1 + random.below(25))
                .map(|bin| (bin as i32 * 3 - 20, random.below(most) + u64::from(bin == 0)))
                .collect();
            let file: String = bins.iter().map(|(value, count)| format!("{value}.5 , {count}\r\n")).collect();
            let table = DelayTable::histogram(file.as_bytes()).unwrap();
            let total: u64 = bins.iter().map(|&(_, count)| count).sum();
            let is_exact = total <= DelayTable::MOST_QUANTILES as u64;
            assert_eq!(is_exact, seed % 2 == 0);
            for &(value, count) in &bins {
                let deviation = (f64::from(value) + if value < 0 { -0.5 } else { 0.5 }) * 8_192.0;
                let (_, parts) = table.below(deviation as i32);
                let expected = (u128::from(count) << 32) / u128::from(total);
                let quantile = if is_exact { 1 } else { (1 << 32) / DelayTable::MOST_QUANTILES as u128 };
                assert!(u128::from(parts).abs_diff(expected) <= quantile, "seed {seed}: {parts} {expected}");
            }
        }
    }

    #[test]
    fn mistakes_in_a_histogram_name_their_line() {
        for (file, begin) in [
            (&b""[..], "line 1: no number"),
            (b"ms,count\n1,0\n", "line 2: no number"),
            (b"ms,count\n1,1\nx,2\n", "line 3: x,2: a value from -10000"),
            (b"1,1\n2\n", "line 2: 2: a value"),
            (b"1,-1\n", "line 1: 1,-1: "),
            (b"10001,1\n", "line 1: 10001,1: "),
            (b"NaN,1\n1,inf\n", "line 2: "),
        ] {
            let problem = DelayTable::histogram(file).unwrap_err().to_string();
            assert!(problem.starts_with(begin), "{problem}");
        }
    }

    #[test]
    fn mistakes_name_their_line() {
        for (file, begin) in [
            (&b""[..], "line 1: no number"),
            (b"# 1 2 3\n\n", "line 1: no number"),
            (b"1 2\n3 x\n", "line 2: x: a whole number"),
            (b"1\n\n0x10\n", "line 3: 0x10: "),
        ] {
            let problem = DelayTable::parse(file).unwrap_err().to_string();
            assert!(problem.starts_with(begin), "{problem}");
        }
        let many = "1 ".repeat(DelayTable::MOST_QUANTILES + 1);
        assert!(DelayTable::parse(many.as_bytes()).unwrap_err().to_string().contains("more than 16384"));
        assert_eq!(DelayTable::parse(b"3 -1\t2\r\n#x\n-4").unwrap().0[..], [-4, -1, 2, 3]);
    }
}
