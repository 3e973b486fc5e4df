//! From trials to findings: the loss-free rate, the capacity, the curve. [`Search`].

use std::time::Duration;

use softtimers_load::overload::{Bench, Offer, Point};
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_measure::units::show_duration;
use softtimers_poll::{Confirmation, Curve, LossFree, Point as CurvePoint};

use super::args::{BenchPlan, Offers};
use super::show::{BenchReport, CurveReport};

/// The trials of a plan.
#[derive(Debug)]
pub(super) struct Search<'a> {
    plan: &'a BenchPlan,
    bench: &'a mut Bench,
    interrupt: &'a Interrupt,
    /// The rate from which on the sender needs longer bursts, and their length.
    longer: Option<(f64, u32)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(plan: &'a BenchPlan, bench: &'a mut Bench, interrupt: &'a Interrupt) -> Self {
        Search { plan, bench, interrupt, longer: None }
    }

    /// Runs all trials, or as many as possible before a signal.
    ///
    /// # Errors
    /// The failure of a trial.
    pub(super) fn run(mut self) -> Result<BenchReport, Failure> {
        let work = self.bench.work_cost()?;
        let mut report = BenchReport { work_ns: nanos(work), ..BenchReport::default() };
        let rates: Vec<(Option<f64>, f64)> = match &self.plan.offers {
            Offers::Rates(rates) => rates.iter().map(|&rate| (None, rate as f64)).collect(),
            Offers::Multiples(multiples) => {
                let capacity = self.find(work, &mut report)?;
                multiples.iter().map(|&multiple| (Some(multiple), multiple * capacity)).collect()
            }
        };
        for (multiple, rate) in rates {
            let Some(point) = self.trial(rate, 1)? else { break };
            report.points.push(Point { multiple, ..point });
        }
        report.work_after_ns = nanos(self.bench.work_cost()?);
        report.conclude();
        Ok(report)
    }

    /// Searches for the loss-free rate and confirms it. Returns the highest rate delivered meanwhile.
    fn find(&mut self, work: Duration, report: &mut BenchReport) -> Result<f64, Failure> {
        let guess = 1.0 / (work.as_secs_f64() + BESIDE_WORK);
        let first =
            self.plan.receiver.cpu_limit.map_or(guess, |share| guess * f64::from(share.get()) / 100.0);
        let mut search = LossFree::new((first / 4.0) as u64, MOST_PACKETS_PER_SECOND);
        let mut capacity: f64 = 0.0;
        while let Some(rate) = search.rate() {
            let Some(point) = self.trial(rate as f64, 1)? else {
                report.search_ended = true;
                break;
            };
            report.search_trials += 1;
            capacity = capacity.max(point.delivered_pps);
            let reached = self.offer(rate as f64).was_reached(point.offered_pps);
            search.tried(point.loss_free && reached);
            if rate <= 1 {
                break;
            }
        }
        report.capacity_pps = (report.search_trials > 0).then_some(capacity);
        let mut confirmation = Confirmation::new(search.found());
        while let Some(rate) = confirmation.rate() {
            let Some(point) = self.trial(rate as f64, LONGER)? else {
                report.search_ended = true;
                break;
            };
            report.search_trials += 1;
            confirmation.tried(point.loss_free);
            // The rate actually sent is the confirmed one, not the requested one.
            report.mlfrr_pps = confirmation.confirmed().map(|rate| rate.min(point.offered_pps as u64));
        }
        Ok(capacity)
    }

    /// Runs one trial of `times` the usual length, in longer bursts where the sender does not reach the rate otherwise;
    /// `None` after a signal.
    fn trial(&mut self, rate: f64, times: u32) -> Result<Option<Point>, Failure> {
        let mut offer = self.offer(rate);
        offer.length *= times;
        loop {
            if self.interrupt.arrived() {
                return Ok(None);
            }
            let outcome = self.bench.trial(offer);
            // On a terminal, Ctrl-C also reaches the sender.
            if self.interrupt.arrived() {
                return Ok(None);
            }
            let point = outcome?;
            match offer.in_longer_bursts() {
                Some(longer) if !offer.was_reached(point.offered_pps) => {
                    offer = longer;
                    self.longer = Some((rate, offer.burst));
                }
                _ => return Ok(Some(point)),
            }
        }
    }

    fn offer(&self, rate: f64) -> Offer {
        let longer = self.longer.filter(|&(from, _)| rate >= from).map(|(_, burst)| burst);
        Offer { rate, burst: longer.unwrap_or(self.plan.burst), length: self.plan.trial.at(rate) }
    }
}

impl BenchReport {
    /// Returns why the figures contradict each other, if they do.
    pub(super) fn contradiction(&self) -> Option<String> {
        let costs = [self.work_ns, self.work_after_ns];
        let [before, after] = costs.map(|nanos| nanos as f64);
        let said = costs.map(|nanos| show_duration(Duration::from_nanos(nanos)));
        if before > 0.0 && (after / before - 1.0).abs() > MOST_DRIFT {
            let [before, after] = said;
            return Some(format!(
                "the work of a datagram took {before} before the trials and {after} after them"
            ));
        }
        let mlfrr = self.mlfrr_pps? as f64;
        // One CPU does the work for all datagrams.
        if mlfrr * before.min(after) / 1e9 > 1.0 + MOST_DRIFT {
            let [work, _] = said;
            return Some(format!("an MLFRR of {mlfrr:.0} packets/s leaves no time for {work} of work each"));
        }
        let worse = self.points.iter().find(|point| point.offered_pps <= mlfrr && !point.loss_free)?;
        let kept_up = worse.delivered_pps / worse.offered_pps.max(1.0);
        Some(format!(
            "at {:.0} packets/s, below the MLFRR of {mlfrr:.0}, {:.1}% were delivered in time",
            worse.offered_pps,
            kept_up * 100.0
        ))
    }

    /// Draws the conclusions from all points.
    fn conclude(&mut self) {
        let mut points: Vec<CurvePoint> = self.points.iter().map(of_curve).collect();
        points.sort_by_key(|point| point.offered);
        self.curve = Curve::from_points(&points).map(CurveReport::from);
        if let Some(capacity) = self.capacity_pps.filter(|&capacity| capacity > 0.0) {
            let multiples = self.points.iter().map(|point| point.offered_pps / capacity);
            self.highest_multiple = multiples.reduce(f64::max);
        }
        self.timer_share = self.points.iter().filter_map(|point| point.timer_share).reduce(f64::min);
        self.stalled_share =
            self.points.iter().filter_map(|point| point.livelock.stalled_share).reduce(f64::max);
    }
}

fn of_curve(point: &Point) -> CurvePoint {
    let [offered, delivered] = point.rates().map(|rate| rate as u64);
    CurvePoint { offered, delivered }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The length of the confirming trial, relative to those of the search.
const LONGER: u32 = 4;
/// The drift, by the host or other programs, beyond which the figures of one run are not comparable.
const MOST_DRIFT: f64 = 0.05;
/// The cost of a datagram apart from the filter, in seconds: a guess that only decides where the search begins.
const BESIDE_WORK: f64 = 4e-6;
/// More than any current machine receives from one sender.
const MOST_PACKETS_PER_SECOND: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use softtimers_poll::Behaviour;

    use super::*;

    #[test]
    fn a_rate_that_loses_below_the_loss_free_one_makes_a_run_inconclusive() {
        let point = |offered_pps, loss_free| Point {
            offered_pps,
            delivered_pps: 0.914 * offered_pps,
            loss_free,
            ..Point::default()
        };
        let report = |points: &[Point], after| BenchReport {
            mlfrr_pps: Some(100_000),
            work_ns: 9_800,
            work_after_ns: after,
            points: points.to_vec(),
            ..BenchReport::default()
        };
        let fine = [point(50_000.0, true), point(100_000.0, true), point(125_000.0, false)];
        assert_eq!(report(&fine, 10_000).contradiction(), None);
        assert_eq!(
            report(&[point(80_000.0, false)], 9_800).contradiction().unwrap(),
            "at 80000 packets/s, below the MLFRR of 100000, 91.4% were delivered in time"
        );
        assert_eq!(
            report(&fine, 11_000).contradiction().unwrap(),
            "the work of a datagram took 9.8us before the trials and 11us after them"
        );
        let fast = BenchReport { work_ns: 12_000, ..report(&fine, 12_000) };
        assert_eq!(
            fast.contradiction().unwrap(),
            "an MLFRR of 100000 packets/s leaves no time for 12us of work each"
        );
        assert_eq!(BenchReport::default().contradiction(), None, "nothing was measured");
    }

    #[test]
    fn points_say_together_what_each_says() {
        let point = |(offered_pps, delivered_pps, timer)| Point {
            offered_pps,
            delivered_pps,
            timer_share: Some(timer),
            ..Point::default()
        };
        let naive = [(20_000.0, 20_000.0, 1.0), (100_000.0, 90_000.0, 0.9), (490_000.0, 4_000.0, 0.0)];
        let polled = [(20_000.0, 20_000.0, 1.0), (100_000.0, 90_000.0, 1.0), (490_000.0, 88_000.0, 1.0)];
        for (points, behaviour, timer) in
            [(naive, Behaviour::Livelock, 0.0), (polled, Behaviour::Realisable, 1.0)]
        {
            let mut report = BenchReport {
                capacity_pps: Some(100_000.0),
                points: points.map(point).to_vec(),
                ..BenchReport::default()
            };
            report.conclude();
            assert_eq!(report.curve.map(|curve| curve.behaviour), Some(behaviour));
            assert_eq!((report.highest_multiple, report.timer_share), (Some(4.9), Some(timer)));
        }
        // In any order, and the end of a trial does not count as loss.
        let mut report = BenchReport {
            points: vec![
                point((490_000.0, 4_000.0, 0.0)),
                Point { loss_free: true, ..point((20_000.0, 19_800.0, 1.0)) },
            ],
            ..BenchReport::default()
        };
        report.conclude();
        assert_eq!(report.curve.map(|curve| curve.loss_free_pps), Some(20_000));
        // Datagrams that a buffer held and released later were not delivered at the rate at which they came.
        let absorbed = |(offered_pps, delivered_pps)| Point {
            sent: 1_000,
            delivered: 1_000,
            ..point((offered_pps, delivered_pps, 1.0))
        };
        let mut report = BenchReport {
            points: [(1_600.0, 1_600.0), (3_495.0, 3_150.0), (15_390.0, 2_990.0)].map(absorbed).to_vec(),
            ..BenchReport::default()
        };
        report.conclude();
        let curve = report.curve.unwrap();
        assert_eq!(
            (curve.loss_free_pps, curve.peak_pps, curve.behaviour),
            (1_600, 3_150, Behaviour::Realisable)
        );
        let mut nothing = BenchReport::default();
        nothing.conclude();
        assert_eq!(nothing, BenchReport::default());
    }
}
