//! Whether what is at random has the distribution that it was told: 10⁵ packets, fixed seeds, and the
//! distance from what is expected (χ²) within what one sample in a thousand exceeds.

use std::time::Duration;

use softtimers_wan::{Direction, FourStates, GilbertElliott, Jitter, Loss, PathConfig, Probability, Spread};

use super::{at, drain, micros};

const PACKETS: u64 = 100_000;

/// Sends packets at this gap; what came out, by number and time under way.
fn run(path: PathConfig, seed: u64, gap: u64) -> (Direction<u64>, Vec<(u64, Duration)>) {
    let mut direction = Direction::new(path, seed).unwrap();
    for packet in 0..PACKETS {
        direction.offer(at(packet * gap), 100, packet);
    }
    let out = drain(&mut direction);
    let out = out.iter().map(|d| (d.packet, d.due.saturating_duration_since(d.offered))).collect();
    (direction, out)
}

/// For each packet whether it was lost.
fn losses(loss: Loss, seed: u64) -> Vec<bool> {
    let (_, out) = run(PathConfig::default().loss(loss), seed, 1);
    let mut lost = vec![true; PACKETS as usize];
    out.iter().for_each(|(packet, _)| lost[*packet as usize] = false);
    lost
}

/// Compares how often each class was observed with its probability. The last class is everything beyond, too, and
/// begins where less than five would be expected.
fn assert_distributed(observed: &[u64], probability: impl Fn(usize) -> f64, what: &str) {
    let total = observed.iter().sum::<u64>() as f64;
    let (mut chi_square, mut freedom) = (0f64, 0f64);
    let (mut left, mut expected_left) = (total, total);
    for (class, &count) in observed.iter().enumerate() {
        let expected = total * probability(class);
        if class + 1 == observed.len() || expected_left - expected < 5.0 {
            break;
        }
        chi_square += (count as f64 - expected).powi(2) / expected;
        freedom += 1.0;
        left -= count as f64;
        expected_left -= expected;
    }
    chi_square += (left - expected_left).powi(2) / expected_left;
    assert!(freedom >= 1.0, "{what}: too few classes");
    // Wilson and Hilferty's approximation; 3.09 is what one normal number in a thousand exceeds.
    let spread = 2.0 / (9.0 * freedom);
    let bound = freedom * (1.0 - spread + 3.09 * spread.sqrt()).powi(3);
    assert!(chi_square < bound, "{what}: {chi_square} with {freedom} degrees of freedom, bound {bound}");
}

/// The number of runs of `value` that have length 1, 2, …
fn run_lengths(sequence: &[bool], value: bool) -> Vec<u64> {
    let mut lengths = vec![0; 512];
    for run in sequence.chunk_by(|a, b| a == b).filter(|run| run[0] == value) {
        lengths[run.len().min(512) - 1] += 1;
    }
    lengths
}

/// The length of a run that ends with probability `end` after each packet.
fn geometric(end: f64) -> impl Fn(usize) -> f64 {
    move |class| end * (1.0 - end).powi(class as i32)
}

/// Each for itself: as many as asked for, in bursts and gaps as long as independence has them.
#[test]
fn random_loss_is_independent() {
    for (seed, per_million) in [(1, 10_000), (2, 50_000), (3, 300_000), (4, 500_000)] {
        let lost = losses(Loss::Random(Probability::per_million(per_million).unwrap()), seed);
        let share = f64::from(per_million) / 1e6;
        let count = lost.iter().filter(|lost| **lost).count() as u64;
        let what = format!("{share}, seed {seed}");
        assert_distributed(&[count, PACKETS - count], |class| [share, 1.0 - share][class], &what);
        assert_distributed(&run_lengths(&lost, true), geometric(1.0 - share), &format!("bursts of {what}"));
        assert_distributed(&run_lengths(&lost, false), geometric(share), &format!("gaps of {what}"));
    }
}

/// Gilbert's simple case: bursts and gaps are geometric, each with its own parameter.
#[test]
fn bursts_are_as_long_as_gilbert_has_them() {
    for (seed, to_bad, to_good) in [(1, 100, 3), (2, 20, 5), (3, 50, 2)] {
        let chain = GilbertElliott::bursts(Probability::once_in(to_bad), Probability::once_in(to_good));
        let loss = Loss::GilbertElliott(chain);
        let lost = losses(loss, seed);
        let [bad, good] = [to_bad, to_good].map(|packets| 1.0 / f64::from(packets));
        let what = format!("1/{to_bad}, 1/{to_good}, seed {seed}");
        assert_distributed(&run_lengths(&lost, true), geometric(good), &format!("bursts of {what}"));
        assert_distributed(&run_lengths(&lost, false), geometric(bad), &format!("gaps of {what}"));
        assert!((loss.mean() - bad / (bad + good)).abs() < 1e-9);
        // Losses come in bursts, so their number varies more than independent ones would.
        let count = lost.iter().filter(|lost| **lost).count() as f64 / PACKETS as f64;
        let deviation =
            (loss.mean() * (1.0 - loss.mean()) * (2.0 / (bad + good) - 1.0) / PACKETS as f64).sqrt();
        assert!((count - loss.mean()).abs() < 4.0 * deviation, "{what}: {count} is not {}", loss.mean());
    }
}

/// With losses in both states the share is that of the chain's two shares, weighted.
#[test]
fn elliotts_states_lose_each_their_share() {
    let share = |per_million| Probability::per_million(per_million).unwrap();
    let chain = GilbertElliott {
        to_bad: share(20_000),
        to_good: share(80_000),
        loss_good: share(10_000),
        loss_bad: share(400_000),
    };
    assert!((chain.mean() - 0.088).abs() < 1e-9);
    let lost = losses(Loss::GilbertElliott(chain), 5);
    let count = lost.iter().filter(|lost| **lost).count() as f64 / PACKETS as f64;
    // Variance of a share in a chain: that of independent losses, and twice the sum of the correlations.
    let variance = 0.088 * 0.912 + 2.0 * (0.2 * 0.8 * 0.39f64.powi(2)) * 0.9 / 0.1;
    assert!((count - 0.088).abs() < 4.0 * (variance / PACKETS as f64).sqrt(), "{count}");
    // The neighbour of a loss is lost more often than others are, by as much as the chain has it.
    let pairs = lost.windows(2).filter(|pair| pair[0]).count() as f64;
    let both = lost.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64;
    // In the bad state after a loss: 0.2 · 0.4 / 0.088; a step on, 0.9 of what that exceeds 0.2 by is left.
    let bad = 0.2 + 0.9 * (0.2 * 0.4 / 0.088 - 0.2);
    let expected = bad * 0.4 + (1.0 - bad) * 0.01;
    let deviation = (expected * (1.0 - expected) / pairs).sqrt();
    assert!((both / pairs - expected).abs() < 4.0 * deviation, "{} is not {expected}", both / pairs);
}

/// netem's chain: without p32 bursts are geometric; losses of p14 are alone; and the share is the one that the changes give.
#[test]
fn four_states_lose_as_netems() {
    let share = |per_million| Probability::per_million(per_million).unwrap();
    let chain = FourStates { p31: share(300_000), ..FourStates::new(share(10_000)) };
    let lost = losses(Loss::FourStates(chain), 1);
    assert_distributed(&run_lengths(&lost, true), geometric(0.3), "bursts without pauses");
    assert_distributed(&run_lengths(&lost, false), geometric(0.01), "gaps");
    let alone = FourStates { p14: share(50_000), ..FourStates::new(Probability::NEVER) };
    let lost = losses(Loss::FourStates(alone), 2);
    assert_eq!(run_lengths(&lost, true)[1..].iter().sum::<u64>(), 0, "each is alone");
    assert_distributed(&run_lengths(&lost, false), geometric(0.05), "between");
    let all = FourStates {
        p31: share(200_000),
        p32: share(100_000),
        p23: share(250_000),
        p14: share(5_000),
        p13: share(20_000),
    };
    for (chain, mean) in [
        (FourStates::new(share(30_000)), 0.03),
        (alone, 0.05 / 1.05),
        (all, (0.1 + 0.005) / (1.0 + 0.1 + 0.04 + 0.005)),
        (FourStates { p31: Probability::NEVER, ..all }, 0.25 / 0.35),
    ] {
        assert!((chain.mean() - mean).abs() < 1e-9, "{chain:?}: {}", chain.mean());
        let lost = losses(Loss::FourStates(chain), 3);
        let count = lost.iter().filter(|lost| **lost).count() as f64 / PACKETS as f64;
        // Bursts are short beside the run: some ten packets count as one.
        let deviation = (mean * (1.0 - mean) * 20.0 / PACKETS as f64).sqrt();
        assert!((count - mean).abs() < 4.0 * deviation, "{chain:?}: {count} is not {mean}");
    }
}

#[test]
fn four_states_that_cannot_be_are_refused() {
    let share = |percent: u32| Probability::per_million(percent * 10_000).unwrap();
    let usual = FourStates::new(share(1));
    for (chain, message) in [
        (FourStates { p32: share(2), ..usual }, "P31 and P32 are 0.99 and 0.02; together they are at most 1"),
        (
            FourStates { p14: Probability::ALWAYS, ..usual },
            "P13 and P14 are 0.01 and 1; together they are at most 1",
        ),
    ] {
        let mut direction = Direction::<()>::new(PathConfig::default(), 1).unwrap();
        let path = PathConfig::default().loss(Loss::FourStates(chain));
        assert_eq!(path.check().unwrap_err().to_string(), message);
        assert!(Direction::<()>::new(path.clone(), 1).is_err());
        assert!(direction.set(at(0), path).is_err() && direction.path().loss == Loss::None);
    }
    let all = FourStates { p32: share(1), p14: share(99), ..usual };
    assert_eq!(PathConfig::default().loss(Loss::FourStates(all)).check(), Ok(()));
}

/// Each late packet is overtaken, and no other: as many are reordered as were to be late.
#[test]
fn as_many_are_reordered_as_are_late() {
    for (seed, once_in) in [(1, 100), (2, 20), (3, 4)] {
        let share = Probability::once_in(once_in);
        let path = PathConfig::default().delay(micros(10_000)).late(share, micros(1_500));
        let (direction, out) = run(path, seed, 1_000);
        let late = out.iter().filter(|(_, delay)| *delay == micros(11_500)).count() as u64;
        assert!(out.iter().all(|(_, delay)| [10_000, 11_500].map(micros).contains(delay)));
        // By one packet if that is not late itself, and else by none: it is late by one gap and a half.
        let mut lates = vec![false; PACKETS as usize];
        out.iter().for_each(|(packet, delay)| lates[*packet as usize] = *delay > micros(10_000));
        let overtaken = lates.windows(2).filter(|pair| pair[0] && !pair[1]).count() as u64;
        assert_eq!(direction.counters().reordered, overtaken);
        let p = share.as_f64();
        assert_distributed(&[late, PACKETS - late], |class| [p, 1.0 - p][class], "late");
        assert_distributed(&run_lengths(&lates, true), geometric(1.0 - p), "runs of late ones");
    }
}

/// Copies and damage, and that the bit is anywhere in the packet.
#[test]
fn copies_and_damage_are_as_frequent_as_they_should_be() {
    let path = PathConfig::default().duplicate(Probability::once_in(8)).corrupt(Probability::once_in(4));
    let mut direction = Direction::new(path, 3).unwrap();
    for packet in 0..PACKETS {
        direction.offer(at(packet), 4, packet);
    }
    let out = drain(&mut direction);
    let copies = out.len() as u64 - PACKETS;
    assert_distributed(&[copies, PACKETS - copies], |class| [0.125, 0.875][class], "copies");
    let mut bits = vec![0; 32];
    out.iter().filter_map(|d| d.flipped).for_each(|bit| bits[bit as usize] += 1);
    let damaged = bits.iter().sum::<u64>();
    assert_eq!(damaged, direction.counters().corrupted);
    assert_distributed(&[damaged, out.len() as u64 - damaged], |class| [0.25, 0.75][class], "damage");
    assert_distributed(&bits, |_| 1.0 / 32.0, "bits");
}

/// Delays have the distribution that was asked for, where packets do not wait for each other.
#[test]
fn jitter_is_distributed_as_asked() {
    let (delay, size) = (100_000, 10_000);
    let by_spread = |spread, seed| {
        let jitter = Jitter::uniform(micros(size)).spread(spread).reordering();
        let (_, out) = run(PathConfig::default().delay(micros(delay)).jitter(jitter), seed, 1);
        out.into_iter().map(|(_, under_way)| under_way.as_nanos() as f64 / 1e3).collect::<Vec<f64>>()
    };
    // In twenty classes as wide as a tenth of the size.
    let uniform = by_spread(Spread::Uniform, 1);
    assert!(uniform.iter().all(|us| (90_000.0..=110_000.0).contains(us)));
    let mut classes = vec![0; 20];
    uniform.iter().for_each(|us| classes[(((us - 90_000.0) / 1_000.0) as usize).min(19)] += 1);
    assert_distributed(&classes, |_| 0.05, "uniform");

    let exponential = by_spread(Spread::Exponential, 2);
    let mut classes = vec![0; 64];
    exponential.iter().for_each(|us| classes[(((us - 100_000.0) / 2_000.0) as usize).min(63)] += 1);
    assert_distributed(&classes, geometric(1.0 - (-0.2f64).exp()), "exponential");

    // A sum of twelve: its mean and variance are those of the normal distribution, and 68.3% is within one.
    let normal = by_spread(Spread::Normal, 3);
    let count = normal.len() as f64;
    let mean = normal.iter().sum::<f64>() / count;
    let variance = normal.iter().map(|us| (us - mean).powi(2)).sum::<f64>() / count;
    assert!((mean - 100_000.0).abs() < 4.0 * 10_000.0 / count.sqrt(), "{mean}");
    assert!((variance.sqrt() / 10_000.0 - 1.0).abs() < 4.0 / (2.0 * count).sqrt(), "{}", variance.sqrt());
    let within = normal.iter().filter(|us| (**us - 100_000.0).abs() < 10_000.0).count() as f64 / count;
    assert!((within - 0.683).abs() < 0.01, "{within}");
}

/// In order means in order, however large the jitter is beside the gap; and without order it is not.
#[test]
fn jitter_reorders_only_where_it_may() {
    for (reorders, jitter) in
        [(false, Jitter::uniform(micros(5_000))), (true, Jitter::uniform(micros(5_000)).reordering())]
    {
        let (direction, out) = run(PathConfig::default().delay(micros(5_000)).jitter(jitter), 1, 10);
        assert_eq!(out.is_sorted_by_key(|(packet, _)| *packet), !reorders);
        assert_eq!(direction.counters().reordered > PACKETS / 2, reorders);
        assert_eq!(direction.counters().delivered, PACKETS);
    }
}
