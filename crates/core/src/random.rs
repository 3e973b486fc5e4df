//! Random numbers in integer arithmetic: for a seed the same on every machine, in every version.

/// SplitMix64: a counter and a mixing function, so a seed is a state. 64 bits of state, passes the
/// usual batteries. Not for secrets.
///
/// Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014, figure 17.
///
/// ```
/// use softtimers_core::Random;
///
/// let mut loss = Random::stream(42, 0);
/// let mut delay = Random::stream(42, 1); // draws from one leave the other where it is
/// let six = (0..6_000).filter(|_| loss.below(6) == 5).count();
/// assert!((900..1_100).contains(&six));
/// assert_ne!(loss.next_u64(), delay.next_u64());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Random(u64);

impl Random {
    /// One in the fixed-point format of [`exponential`](Self::exponential): 48 fractional bits.
    pub const ONE: u64 = 1 << 48;

    /// Returns one of the 2⁶⁴ generators of a seed. They share one cycle, entered at unrelated points.
    pub fn stream(seed: u64, number: u64) -> Self {
        Random(mix(mix(seed).wrapping_add(number.wrapping_mul(GOLDEN))))
    }

    /// Returns a uniform 64-bit number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Returns a number below `bound`, uniform up to `bound` / 2⁶⁴; zero for a bound of zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns an exponentially distributed number of mean [`ONE`](Self::ONE): −ln u for u uniform in (0, 1],
    /// to 44 bits; at most 44.4.
    pub fn exponential(&mut self) -> u64 {
        minus_ln(self.next_u64())
    }

    /// Returns the sum of `count` such numbers, at most 8, with one logarithm: that of the product of `count`
    /// uniform ones. 64 bits hold the product, because a sum of 8 exceeds 30 only once in ten million times.
    pub(crate) fn sum_of_exponentials(&mut self, count: u32) -> u64 {
        let product = (0..count)
            .fold(u64::MAX, |product, _| ((u128::from(product) * u128::from(self.next_u64())) >> 64) as u64);
        minus_ln(product)
    }
}

fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// −ln(random / 2⁶⁴), where zero counts as one.
///
/// With random / 2⁶⁴ = m / 2ⁿ and m in [1, 2) it is n · ln 2 − ln m, and ln m = 2 artanh((m − 1)/(m + 1)),
/// a series that gains 3 bits a term since its argument is below a third.
fn minus_ln(random: u64) -> u64 {
    let random = random.max(1);
    let shift = random.leading_zeros();
    let mantissa = (random << shift) >> 1;
    let (above, sum) = (mantissa - HALF, mantissa + HALF);
    // Both with 62 fractional bits.
    let ratio = ((u128::from(above) << 62) / u128::from(sum)) as u64;
    let square = times(ratio, ratio);
    let series = RECIPROCALS.iter().rev().fold(0, |series, reciprocal| times(series, square) + reciprocal);
    let ln = 2 * times(series, ratio);
    let exponent = u128::from(shift + 1) * u128::from(LN_2);
    ((exponent - u128::from(ln)) >> 14) as u64
}

/// The product of two numbers with 62 fractional bits.
fn times(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 62) as u64
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// One with 62 fractional bits: half of the range of a 64-bit mantissa.
const HALF: u64 = 1 << 62;
/// ln 2 with 62 fractional bits, rounded up so that no difference from it is negative.
const LN_2: u64 = 0x2c5c_85fd_f473_de6b;
/// 1, 1/3, 1/5, …, with 62 fractional bits. The first term left out is below 2⁻⁴⁹.
const RECIPROCALS: [u64; 15] = {
    let mut reciprocals = [0; 15];
    let mut term = 0;
    while term < reciprocals.len() {
        reciprocals[term] = HALF / (2 * term as u64 + 1);
        term += 1;
    }
    reciprocals
};

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // The reference implementation from seed 1234567.
        let mut random = Random(1_234_567);
        let first: [u64; 3] = core::array::from_fn(|_| random.next_u64());
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn a_sum_has_the_mean_and_the_deviation_of_its_terms() {
        let (mut random, draws) = (Random(7), if cfg!(miri) { 100 } else { 100_000 });
        for count in [1, 4, 8] {
            let sums: std::vec::Vec<f64> =
                (0..draws).map(|_| random.sum_of_exponentials(count) as f64 / Random::ONE as f64).collect();
            let mean = sums.iter().sum::<f64>() / f64::from(draws);
            let variance = sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / f64::from(draws);
            let terms = f64::from(count);
            let slack = if cfg!(miri) { 0.5 } else { 0.03 };
            assert!((mean / terms - 1.0).abs() < slack, "{count}: mean {mean}");
            assert!(cfg!(miri) || (variance / terms - 1.0).abs() < slack, "{count}: variance {variance}");
        }
    }

    #[test]
    fn logarithms_are_exact_to_44_bits() {
        let mut random = Random(5);
        let cases = if cfg!(miri) { 100 } else { 100_000 };
        let edges = [0, 1, 2, 3, 1 << 62, 1 << 63, (1 << 63) - 1, (1 << 63) + 1, u64::MAX - 1, u64::MAX];
        for case in (0..cases).map(|shift| random.next_u64() >> (shift % 60)).chain(edges) {
            let exact = -((case.max(1) as f64 / 2f64.powi(64)).ln());
            let ours = minus_ln(case) as f64 / Random::ONE as f64;
            assert!((ours - exact).abs() < 2f64.powi(-44), "{case}: {ours} is not {exact}");
        }
        assert!(minus_ln(0) < 45 * Random::ONE && minus_ln(u64::MAX) < 32);
    }
}
