//! The trigger states of the paper's busy web server, as a source of random intervals.

use core::time::Duration;

use crate::Random;

/// Intervals between the trigger states of a saturated web server, the workload of soft timers §5.2 whose
/// intervals were the longest (Apache on a Pentium II of 300 MHz): for tests, simulations, and experiments
/// that should check the clock as rarely as that machine did. An endless sequence of independent intervals.
///
/// The paper's table is lost. The text keeps a mean of 31.6 µs, a median of 18.5, a standard deviation of 31.6,
/// 5.1% above 100 µs, at most 1 ms (§5.2), and one wait: 65.9 µs for the first trigger state that comes at least
/// 35 µs after another (Table VIII). A reference model was fitted to these. Its waits for at least 12, 15, 20, 25,
/// 30 and 35 µs are 36.1, 41.6, 50.3, 55.5, 60.7 and 66.5 µs. The mixture of three gamma distributions here is the
/// best of 60 random searches for the least squares over the four figures of §5.2 and these six waits, which come
/// from the renewal equation. It gives 31.6, 18.5, 31.6, 5.2%, and 36.5, 41.6, 50.3, 55.4, 60.6 and 66.5.
///
/// ```
/// use softtimers_core::WebServer;
///
/// let micros: Vec<f64> = WebServer::new(1).take(50_000).map(|gap| gap.as_nanos() as f64 / 1e3).collect();
/// let mean = micros.iter().sum::<f64>() / micros.len() as f64;
/// assert!((mean - 31.6).abs() < 1.0);
/// assert!(micros.iter().all(|&gap| gap <= 1_000.0));
/// ```
///
/// # Cost
/// 8 bytes. An interval takes one to three logarithms in integer arithmetic, some 100 ns; the sequence of a seed
/// is the same on every machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WebServer {
    random: Random,
}

impl WebServer {
    /// Makes the server with the intervals of this seed.
    pub fn new(seed: u64) -> Self {
        WebServer { random: Random::stream(seed, 0) }
    }

    fn gap(&mut self) -> Duration {
        let which = self.random.next_u64();
        let part = PARTS.iter().find(|part| which <= part.up_to).unwrap_or(&PARTS[2]);
        let (mut sum, mut left) = (0u128, part.shape);
        while left > 0 {
            let count = left.min(AT_ONCE);
            sum += u128::from(self.random.sum_of_exponentials(count));
            left -= count;
        }
        // Shift out a power of two first: the remainder is divided in 64 bits.
        let nanos = (sum * u128::from(part.mean) / u128::from(Random::ONE)) as u64 / u64::from(part.shape);
        Duration::from_nanos(nanos.min(LONGEST_INTERVAL))
    }
}

impl Iterator for WebServer {
    type Item = Duration;

    /// Always returns an interval.
    fn next(&mut self) -> Option<Duration> {
        Some(self.gap())
    }
}

/// A gamma distribution of whole shape, the sum of as many exponential ones, and its share of the mixture.
struct Part {
    /// The share of this part and those before it, of 2⁶⁴.
    up_to: u64,
    shape: u32,
    /// The mean in nanoseconds.
    mean: u64,
}

const PARTS: [Part; 3] = [
    Part { up_to: u64::MAX / 1_000 * 403, shape: 22, mean: 16_050 },
    Part { up_to: u64::MAX / 1_000 * 806, shape: 2, mean: 23_990 },
    Part { up_to: u64::MAX, shape: 4, mean: 79_790 },
];
/// Exponential numbers to a logarithm.
const AT_ONCE: u32 = 8;
/// The backup tick of the paper's kernel.
const LONGEST_INTERVAL: u64 = 1_000_000;
