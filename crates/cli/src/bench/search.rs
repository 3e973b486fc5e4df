//! From trials to findings: the loss-free rate, the capacity, the curve. [`Search`].

use softtimers::poll::{Curve, LossFree, Point as CurvePoint};

use super::load::Offer;
use super::report::{BenchReport, CurveReport, Point};
use super::trial::Bench;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::plan::{BenchPlan, Offers};

/// The trials of a plan.
#[derive(Debug)]
pub(super) struct Search<'a> {
    plan: &'a BenchPlan,
    bench: &'a mut Bench,
    interrupt: &'a Interrupt,
    /// From this rate on the sender needs bursts of so many.
    longer: Option<(f64, u32)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(plan: &'a BenchPlan, bench: &'a mut Bench, interrupt: &'a Interrupt) -> Self {
        Search { plan, bench, interrupt, longer: None }
    }

    /// Makes all trials, or as many as there is time for before a signal.
    ///
    /// # Errors
    /// What breaks a trial off.
    pub(super) fn run(mut self) -> Result<BenchReport, Failure> {
        let mut report = BenchReport::default();
        let rates: Vec<(Option<f64>, f64)> = match &self.plan.offers {
            Offers::Rates(rates) => rates.iter().map(|&rate| (None, rate as f64)).collect(),
            Offers::Multiples(multiples) => {
                let capacity = self.find(&mut report)?;
                multiples.iter().map(|&multiple| (Some(multiple), multiple * capacity)).collect()
            }
        };
        for (multiple, rate) in rates {
            let Some(point) = self.trial(rate)? else { break };
            report.points.push(Point { multiple, ..point });
        }
        report.conclude();
        Ok(report)
    }

    /// Searches the loss-free rate. Returns the most that was delivered meanwhile.
    fn find(&mut self, report: &mut BenchReport) -> Result<f64, Failure> {
        let guess = 1.0 / (self.plan.receiver.work.as_secs_f64() + BESIDE_WORK);
        let first =
            self.plan.receiver.cpu_limit.map_or(guess, |share| guess * f64::from(share.get()) / 100.0);
        let mut search = LossFree::new((first / 4.0) as u64, MOST);
        let mut capacity: f64 = 0.0;
        while let Some(rate) = search.rate() {
            let Some(point) = self.trial(rate as f64)? else { break };
            report.search_trials += 1;
            capacity = capacity.max(point.delivered_pps);
            let reached = self.offer(rate as f64).was_reached(point.offered_pps);
            search.tried(point.loss_free && reached);
            if rate <= 1 {
                break;
            }
        }
        report.mlfrr_pps = Some(search.found());
        report.capacity_pps = Some(capacity);
        Ok(capacity)
    }

    /// One trial, in longer bursts where the sender does not come up to the rate; `None` after a signal.
    fn trial(&mut self, rate: f64) -> Result<Option<Point>, Failure> {
        let mut offer = self.offer(rate);
        loop {
            if self.interrupt.arrived() {
                return Ok(None);
            }
            let outcome = self.bench.trial(offer);
            // On a terminal, Ctrl-C goes to the sender, too.
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
    /// What the points say together.
    fn conclude(&mut self) {
        let mut points: Vec<CurvePoint> = self.points.iter().map(CurvePoint::from).collect();
        points.sort_by_key(|point| point.offered);
        self.curve = Curve::of(&points).map(CurveReport::from);
        if let Some(capacity) = self.capacity_pps.filter(|&capacity| capacity > 0.0) {
            let multiples = self.points.iter().map(|point| point.offered_pps / capacity);
            self.highest_multiple = multiples.reduce(f64::max);
        }
        self.timer_share = self.points.iter().filter_map(|point| point.timer_share).reduce(f64::min);
        self.stalled_share =
            self.points.iter().filter_map(|point| point.livelock.stalled_share).reduce(f64::max);
    }
}

impl From<&Point> for CurvePoint {
    fn from(point: &Point) -> Self {
        let [offered, delivered] = point.rates().map(|rate| rate as u64);
        CurvePoint { offered, delivered }
    }
}

/// What a datagram costs beside the filter, in seconds: a guess that only decides where the search begins.
const BESIDE_WORK: f64 = 4e-6;
/// More than any machine of today receives from one sender.
const MOST: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

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
        for (points, behaviour, timer) in [(naive, "livelock", 0.0), (polled, "realisable", 1.0)] {
            let mut report = BenchReport {
                capacity_pps: Some(100_000.0),
                points: points.map(point).to_vec(),
                ..BenchReport::default()
            };
            report.conclude();
            assert_eq!(report.curve.map(|curve| curve.behaviour), Some(behaviour));
            assert_eq!((report.highest_multiple, report.timer_share), (Some(4.9), Some(timer)));
        }
        // In whatever order, and the end of a trial is no loss.
        let mut report = BenchReport {
            points: vec![
                point((490_000.0, 4_000.0, 0.0)),
                Point { loss_free: true, ..point((20_000.0, 19_800.0, 1.0)) },
            ],
            ..BenchReport::default()
        };
        report.conclude();
        assert_eq!(report.curve.map(|curve| curve.loss_free_pps), Some(20_000));
        // What a buffer held and let go of afterwards was not delivered at the rate at which it came.
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
        assert_eq!((curve.loss_free_pps, curve.peak_pps, curve.behaviour), (1_600, 3_150, "realisable"));
        let mut nothing = BenchReport::default();
        nothing.conclude();
        assert_eq!(nothing, BenchReport::default());
    }
}
