//! The livelock paper's results, held against its digitised figures; and its tables as this model makes them, which are
//! kept beside this file: a change of a policy or of the model is a difference there. `BLESS=1 cargo test` writes them.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use softtimers_core::poll::{CpuLimitConfig, FeedbackConfig, Preset, Quota};
use softtimers_core::{Percent, Timestamp};
use softtimers_sim::livelock::{
    Closed, Config, Consumer, Kernel, Outcome, Router, TransmitPriority, points, series,
};
use softtimers_sim::{Parameters, Row, Setting, Steps, Streams, Value, experiment};

const SHORT: Duration = Duration::from_millis(200);

fn run(config: Config) -> Outcome {
    Router::new(Config { duration: SHORT, ..config }, Streams::new(1)).run()
}

fn output(config: Config) -> f64 {
    let found = run(config);
    found.rate(found.delivered)
}

fn kernel(kernel: Kernel, rate: u64) -> Config {
    Config::new(kernel, rate)
}

fn polled(quota: u32, rate: u64) -> Config {
    Config { quota: Quota::new(quota, quota), ..kernel(Kernel::Polled, rate) }
}

fn screend(config: Config) -> Config {
    Config { consumer: Consumer::Screend, ..config }
}

fn with_feedback(config: Config) -> Config {
    Config { feedback: FeedbackConfig::preset(Preset::Paper, 32).ok(), ..screend(config) }
}

fn limited(percent: u32, rate: u64) -> Config {
    let share = Percent::new(percent).unwrap();
    Config { user: true, limit: Some(CpuLimitConfig::preset(Preset::Paper, share)), ..polled(5, rate) }
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Count(count) => *count as f64,
        Value::Real(number) => *number,
        Value::Text(_) | Value::Missing => f64::NAN,
    }
}

/// Compares with what is kept, or keeps it.
fn snapshot(name: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables").join(name);
    if std::env::var_os("BLESS").is_some() {
        return std::fs::write(&path, table).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    for (kept, made) in kept.lines().zip(table.lines()) {
        assert_eq!(made, kept, "{name}: not the table that is kept; BLESS=1 keeps this one");
    }
    assert_eq!(table.len(), kept.len(), "{name}: longer or shorter than the table that is kept");
}

fn curve(table: &mut String, name: &str, config: impl Fn(u64) -> Config) {
    let outputs = RATES.map(|rate| format!("{:6.0}", output(config(rate))));
    let _ = writeln!(table, "{name:24}{}", outputs.join(""));
}

const RATES: [u64; 12] =
    [1_000, 2_000, 3_000, 4_000, 4_500, 5_000, 6_000, 7_000, 8_000, 9_000, 10_000, 11_000];

/// Figures 2, 5, 6, 7 and 9 (6-1 to 6-6).
#[test]
fn output_by_input_is_the_table_that_is_kept() {
    let mut table = format!("{:24}{}\n", "input", RATES.map(|rate| format!("{rate:6}")).join(""));
    curve(&mut table, "unmodified", |rate| kernel(Kernel::Unmodified, rate));
    curve(&mut table, "no-polling", |rate| kernel(Kernel::NoPolling, rate));
    for quota in [2, 5, 8, 10, 20, 100, u32::MAX] {
        let name = if quota == u32::MAX { "none".to_owned() } else { quota.to_string() };
        curve(&mut table, &format!("polled, quota {name}"), |rate| polled(quota, rate));
    }
    curve(&mut table, "high-ipl", |rate| kernel(Kernel::HighIpl, rate));
    curve(&mut table, "clocked", |rate| kernel(Kernel::Clocked, rate));
    curve(&mut table, "screend, unmodified", |rate| screend(kernel(Kernel::Unmodified, rate)));
    curve(&mut table, "screend, polled", |rate| screend(polled(10, rate)));
    for quota in [5, 10, u32::MAX] {
        let name = if quota == u32::MAX { "none".to_owned() } else { quota.to_string() };
        curve(&mut table, &format!("screend, feedback, {name}"), |rate| with_feedback(polled(quota, rate)));
    }
    snapshot("output.txt", &table);
}

/// Figure 10 (7-1).
#[test]
fn user_share_is_the_table_that_is_kept() {
    let rates = [500, 1_000, 1_500, 2_000, 2_500, 3_000, 4_000, 6_000, 8_000, 10_000];
    let mut table = format!("{:24}{}\n", "input", rates.map(|rate| format!("{rate:6}")).join(""));
    for percent in [25, 50, 75, 100] {
        let shares = rates.map(|rate| {
            let found = run(limited(percent, rate));
            format!("{:6.1}", 100.0 * found.share(found.user))
        });
        let _ = writeln!(table, "threshold {percent:3}%          {}", shares.join(""));
    }
    snapshot("user.txt", &table);
}

/// All 543 points: how far the model is from them, on average and in the root of the mean square.
#[test]
fn the_distance_from_the_figures_is_the_table_that_is_kept() {
    let mut found: Vec<(&str, &str, Vec<[f64; 3]>)> = vec![];
    for point in points() {
        let config = Config { rate: point.input.round() as u64, ..series(point.series) };
        let outcome = Router::new(Config { duration: SHORT / 2, ..config }, Streams::new(1)).run();
        let user = 100.0 * outcome.share(outcome.user);
        let ours = if config.user { user } else { outcome.rate(outcome.delivered) };
        let at = [point.input, point.output, ours];
        match found.last_mut() {
            Some((figure, name, points)) if (*figure, *name) == (point.figure, point.series) => {
                points.push(at);
            }
            _ => found.push((point.figure, point.series, vec![at])),
        }
    }
    let mut table =
        format!("{:8}{:34}{:>6}{:>8}{:>8}{:>8}", "figure", "series", "points", "bias", "rms", "paper");
    table.push_str("   farthest, paper and model\n");
    for (figure, name, points) in found {
        let mean =
            |values: &dyn Fn(&[f64; 3]) -> f64| points.iter().map(values).sum::<f64>() / points.len() as f64;
        let error = |[_, paper, ours]: &[f64; 3]| ours - paper;
        let (bias, rms) = (mean(&error), mean(&|at| error(at) * error(at)).sqrt());
        let _ = write!(table, "{figure:8}{name:34}{:6}{bias:8.0}{rms:8.0}", points.len());
        let farthest = points.iter().max_by(|one, other| error(one).abs().total_cmp(&error(other).abs()));
        let [at, paper, ours] = farthest.expect("a series has a point");
        let _ = writeln!(table, "{:8.0}{at:11.0}{paper:8.0}{ours:8.0}", mean(&|[_, paper, _]| *paper));
    }
    snapshot("figures.txt", &table);
}

/// Sections 4.3 and 8.2, and the monitor of section 9.
#[test]
fn bursts_and_captures_are_the_tables_that_are_kept() {
    for (name, file) in [("livelock-burst", "burst.txt"), ("livelock-monitor", "monitor.txt")] {
        let mut table = String::new();
        for (rows, columns) in tables(name) {
            for row in rows {
                let cells = row
                    .iter()
                    .zip(columns)
                    .map(|(value, column)| format!("{:>12}", column.data(value).to_string()));
                let _ = writeln!(table, "{}", cells.collect::<String>().trim_end());
            }
        }
        snapshot(file, &table);
    }
}

/// The table of an experiment, as without `--sweep`.
fn tables(name: &str) -> Vec<(Vec<Row>, &'static [softtimers_sim::Column])> {
    let experiment = experiment::find(name).unwrap();
    let mut all = vec![Parameters::new(experiment.parameters)];
    if experiment.parameters.iter().any(|parameter| parameter.name == "duration") {
        all[0] = all[0].clone().with("duration", Setting::Time(SHORT));
    }
    for (axis, values) in experiment.sweep {
        let parameter = experiment.parameters.iter().find(|parameter| parameter.name == *axis).unwrap();
        let setting = |text: &str| match parameter.kind {
            softtimers_sim::Kind::Choice(words) => {
                Setting::Choice(words.iter().copied().find(|word| *word == text).unwrap())
            }
            _ => Setting::Count(text.parse().unwrap()),
        };
        let each = |base: &Parameters| {
            let base = base.clone();
            values.split(',').map(move |text| base.clone().with(axis, setting(text))).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(each).collect();
    }
    let run = |parameters| {
        ((experiment.run)(&parameters, Streams::new(1), &Steps::unwatched()).unwrap(), experiment.columns)
    };
    all.into_iter().map(run).collect()
}

/// Each digitised point of these series within a tenth.
fn within_a_tenth(figure: &str, wanted: impl Fn(&str) -> bool) -> usize {
    let mut compared = 0;
    for point in points().filter(|point| point.figure == figure && wanted(point.series)) {
        let model = output(Config { rate: point.input.round() as u64, ..series(point.series) });
        let error = model / point.output - 1.0;
        assert!(error.abs() <= 0.1, "{point:?}: {model:.0}");
        compared += 1;
    }
    compared
}

#[test]
fn the_plateau_of_quota_5_is_the_papers() {
    assert_eq!(within_a_tenth("6-3", |series| series == "polling quota=5"), 27);
}

#[test]
fn feedback_keeps_the_papers_plateau_whatever_the_quota() {
    let wanted = |series: &str| series.ends_with("screend+fb") && !series.starts_with("quota=5,");
    assert!(within_a_tenth("6-6", wanted) > 100);
    assert!(within_a_tenth("6-4", |series| series == "polling with feedback, screend") > 20);
}

#[test]
fn a_quota_of_seven_or_eight_is_best() {
    let most = |rates: &[u64], quota| {
        rates.iter().map(|&rate| output(polled(quota, rate)) as u64).max().unwrap_or(0)
    };
    let (rates, highest) = ([4_600, 4_800, 5_000, 5_200, 6_000], [10_700]);
    let best = |rates: &[u64]| (2..=20).max_by_key(|&quota| most(rates, quota)).unwrap();
    assert_eq!((best(&rates), best(&highest)), (8, 8), "peak and asymptote");
    let of_best = |quota: u32| most(&highest, quota) as f64 / most(&highest, 8) as f64;
    assert!(of_best(5) > 0.97 && of_best(7) > 0.99 && of_best(10) < 0.9 && of_best(20) < 0.5);
}

/// Below the best quota turns cost more, above it input starves output: one peak (§6.6.2).
#[test]
fn throughput_by_quota_has_one_peak() {
    let outputs: Vec<f64> = (2..=20).map(|quota| output(polled(quota, 10_700))).collect();
    let peak = outputs.iter().position(|&rate| outputs.iter().all(|&other| other <= rate)).unwrap();
    // A turn more or less within what is measured is no dip.
    let noise = 25.0;
    assert!(outputs[..=peak].windows(2).all(|pair| pair[0] <= pair[1] + noise), "{outputs:?}");
    assert!(outputs[peak..].windows(2).all(|pair| pair[0] + noise >= pair[1]), "{outputs:?}");
}

/// §6.2: it peaks near 4,700 packets/s; what comes through falls from there.
#[test]
fn the_unmodified_kernel_declines_from_its_peak() {
    let outputs =
        [3_000, 4_050, 5_000, 6_000, 8_000, 10_677].map(|rate| output(kernel(Kernel::Unmodified, rate)));
    let peak = outputs.iter().copied().fold(0.0, f64::max);
    assert!((0.85..1.1).contains(&(peak / 4_696.0)), "{peak}");
    assert!(outputs[1..].windows(2).all(|pair| pair[0] > pair[1]), "{outputs:?}");
    assert!((outputs[5] / 1_374.0 - 1.0).abs() < 0.1, "{outputs:?}");
}

#[test]
fn a_curve_has_its_rate_and_its_name() {
    let experiment = experiment::find("livelock-mlfrr").unwrap();
    let row = |kernel| {
        let parameters = Parameters::new(experiment.parameters)
            .with("kernel", Setting::Choice(kernel))
            .with("duration", Setting::Time(SHORT / 2));
        let row = (experiment.run)(&parameters, Streams::new(1), &Steps::unwatched()).unwrap().remove(0);
        let [found, closed, kept] = [1, 2, 5].map(|cell: usize| number(&row[cell]));
        let behaviour = if let Value::Text(word) = &row[6] { word.clone() } else { String::new() };
        (found, closed, kept, behaviour)
    };
    let ((unmodified, closed, _, behaviour), (polled, polled_closed, kept, beyond)) =
        (row("unmodified"), row("polled"));
    assert_eq!((behaviour.as_str(), beyond.as_str()), ("livelock", "realisable"));
    assert!((unmodified / closed - 1.0).abs() < 0.03 && (polled / polled_closed - 1.0).abs() < 0.03);
    assert!(polled >= unmodified && kept >= 0.95, "{unmodified} {polled} {kept}");
}

/// Of a kernel, with screend: the loss-free rate, and how it behaves beyond.
fn loss_free(kernel: &'static str, feedback: &'static str) -> (f64, String) {
    let experiment = experiment::find("livelock-mlfrr").unwrap();
    let parameters = Parameters::new(experiment.parameters)
        .with("kernel", Setting::Choice(kernel))
        .with("consumer", Setting::Choice("screend"))
        .with("quota", Setting::Limit(Some(10)))
        .with("feedback", Setting::Choice(feedback))
        .with("duration", Setting::Time(SHORT));
    let row = (experiment.run)(&parameters, Streams::new(1), &Steps::unwatched()).unwrap().remove(0);
    (number(&row[1]), if let Value::Text(word) = &row[6] { word.clone() } else { String::new() })
}

/// Input is shut, interrupts with it, and what was livelock is figure 6's plateau, 2,830 packets/s within 60 (§6.6.1).
#[test]
fn feedback_raises_the_loss_free_rate() {
    let ((with, plateau), (without, livelock)) = (loss_free("polled", "yes"), loss_free("polled", "no"));
    assert_eq!((plateau.as_str(), livelock.as_str()), ("realisable", "livelock"));
    assert!(with > 2_800.0 && with > 1.1 * without, "{with} {without}");
    for rate in [3_000, 4_000, 6_000, 9_000, 12_000, 14_880] {
        let found = output(with_feedback(polled(10, rate)));
        assert!((found - 2_830.0).abs() <= 60.0, "{rate}: {found}");
    }
    let found = run(with_feedback(polled(10, 9_000)));
    assert!(found.polling.shut > 0 && found.share(found.polling.shut_time) > 0.5, "{:?}", found.polling);
    // The receive interrupt is enabled again only when the ring was seen empty, which it never is.
    assert_eq!((found.polling.armed, found.polling.woken), (0, 0), "{:?}", found.polling);
}

/// The paper's is below 2,000 and rises with feedback by half (figure 6). This one is no lower than with feedback: what the
/// figures of the others leave for its steps takes two thirds of the 500 µs that 2,000 packets/s are apart.
#[test]
fn the_unmodified_kernel_loses_nothing_up_to_more_than_the_papers() {
    let (unmodified, behaviour) = loss_free("unmodified", "no");
    assert_eq!(behaviour, "livelock");
    assert!((2_800.0..3_100.0).contains(&unmodified), "{unmodified}");
}

#[test]
fn screend_livelocks_the_unmodified_kernel() {
    for rate in [6_100, 6_500, 7_000, 8_000, 9_000] {
        assert!(output(screend(kernel(Kernel::Unmodified, rate))) <= 450.0, "{rate}");
    }
    for rate in [9_100, 10_000, 12_000, 14_880] {
        assert!(output(screend(kernel(Kernel::Unmodified, rate))) < 100.0, "{rate}");
    }
}

#[test]
fn the_user_keeps_the_papers_share() {
    for (percent, paper) in [(25, 65.0), (50, 43.5), (75, 15.0), (100, 0.0)] {
        for rate in [5_000, 6_500, 8_000, 10_000] {
            let found = run(limited(percent, rate));
            let share = 100.0 * found.share(found.user);
            assert!((share - paper).abs() <= 6.0, "{percent}% at {rate}: {share}, not {paper}");
        }
    }
    // With next to no input, 94%.
    let idle = run(limited(50, 1));
    assert!((100.0 * idle.share(idle.user) - 94.0).abs() < 0.5);
}

/// Figure 10: the same share whatever comes, from where the limit is reached on; and at 75% the share falls
/// below that before it.
#[test]
fn beyond_the_limit_the_users_share_is_level() {
    let share = |percent, rate| {
        let found = run(limited(percent, rate));
        100.0 * found.share(found.user)
    };
    for percent in [25, 50, 75, 100] {
        let level = [5_000, 6_000, 7_000, 8_000, 9_000, 10_000].map(|rate| share(percent, rate));
        assert!(level.iter().all(|share| (share - level[0]).abs() < 0.5), "{percent}%: {level:?}");
    }
    let plateaus = [25, 50, 75, 100].map(|percent| share(percent, 8_000));
    assert!(plateaus.is_sorted_by(|low, high| low > high), "{plateaus:?}");
    assert!(share(50, 2_000) < share(50, 1_000) && share(75, 2_500) < share(75, 3_000));
}

#[test]
fn a_burst_delays_its_first_packet_by_interrupts_only() {
    let first = |kernel: &'static str, burst: u64| {
        let experiment = experiment::find("livelock-burst").unwrap();
        let parameters = Parameters::new(experiment.parameters)
            .with("kernel", Setting::Choice(kernel))
            .with("burst", Setting::Count(burst));
        let row = (experiment.run)(&parameters, Streams::new(1), &Steps::unwatched()).unwrap().remove(0);
        [2, 4, 5].map(|cell: usize| number(&row[cell]))
    };
    for (burst, paper) in [(1, 1_230.0), (2, 1_540.0), (4, 2_020.0), (16, 5_030.0)] {
        let [model, ..] = first("ultrix", burst);
        assert!((model / paper - 1.0f64).abs() < 0.05, "{burst}: {model}");
    }
    let slope = (first("ultrix", 16)[0] - first("ultrix", 1)[0]) / 15.0;
    assert!((240.0..260.0).contains(&slope), "{slope}");
    let flat: Vec<_> = [1, 3, 16].map(|burst| first("polled", burst)[0]).to_vec();
    assert!(flat.iter().all(|&time| time == flat[0]), "{flat:?}");
    // Of three: the first sooner, the second later for the active interface, and neither if that rule is broken.
    let [legacy, polled, eager] = ["no-polling", "polled", "eager"].map(|kernel| first(kernel, 3));
    assert!(polled[0] < legacy[0] && polled[1] > legacy[1], "{polled:?} {legacy:?}");
    assert!(eager[1] < legacy[1] && eager[2] < legacy[2], "{eager:?} {legacy:?}");
    // The rule delays the third as well, but not beyond the other kernel's: the paper has 978 against 949 µs.
    assert!(
        polled[2] > eager[2] + 150.0 && (-60.0..0.0).contains(&(polled[2] - legacy[2])),
        "{polled:?} {legacy:?}"
    );
}

/// §4.3: by interrupts the first packet waits longer the more come with it; polled it is the same microsecond.
#[test]
fn a_polled_burst_begins_at_once_whatever_its_size() {
    let experiment = experiment::find("livelock-burst").unwrap();
    let first = |kernel: &'static str| {
        [1, 2, 3, 4, 8, 16].map(|burst| {
            let parameters = Parameters::new(experiment.parameters)
                .with("kernel", Setting::Choice(kernel))
                .with("burst", Setting::Count(burst));
            number(&(experiment.run)(&parameters, Streams::new(1), &Steps::unwatched()).unwrap()[0][2])
        })
    };
    let [ultrix, legacy, polled, eager] = ["ultrix", "no-polling", "polled", "eager"].map(first);
    assert!(polled == [polled[0]; 6] && eager == polled, "{polled:?} {eager:?}");
    for first in [ultrix, legacy] {
        assert!(first.is_sorted() && first[4] > 2.0 * first[0], "{first:?}");
    }
}

/// Livelock by definition, noticed by core's detector, and over when the load drops (§4.2).
#[test]
fn livelock_ends_when_the_load_drops() {
    let mut router = Router::new(screend(kernel(Kernel::Unmodified, 14_000)), Streams::new(1));
    router.run_until(Timestamp::from_micros(300_000));
    assert!(router.is_livelocked());
    let before = router.delivered_so_far();
    router.set_rate(1_000);
    router.run_until(Timestamp::from_micros(600_000));
    assert!(!router.is_livelocked());
    assert!(router.delivered_so_far() - before > 250);
}

#[test]
fn no_packet_is_lost_track_of() {
    for kernel in [Kernel::Unmodified, Kernel::NoPolling, Kernel::Polled, Kernel::HighIpl, Kernel::Clocked] {
        for consumer in [Consumer::Kernel, Consumer::Screend, Consumer::Monitor] {
            for rate in [3_000, 9_000] {
                let found = run(Config { consumer, ..Config::new(kernel, rate) });
                let drops = found.drops;
                let dropped = drops.ring + drops.ipintrq + drops.process + drops.output;
                // What was under way when the warm-up ended was not counted as arrived.
                let (came, went) =
                    (found.arrived + found.underway_before, found.delivered + dropped + found.underway);
                assert_eq!(came, went, "{kernel:?} {consumer:?} {rate}");
            }
        }
    }
}

/// A polled kernel drops in the interface, before anything was spent; the others behind it (§5.4, §6.4).
#[test]
fn what_is_accepted_is_finished() {
    let found = run(polled(5, 10_000)).drops;
    assert!(found.ring > 0 && found.ipintrq + found.process + found.output == 0, "{found:?}");
    let found = run(with_feedback(polled(10, 10_000))).drops;
    assert!(found.ring > 0 && found.process == 0, "{found:?}");
    let found = run(kernel(Kernel::Unmodified, 10_000)).drops;
    assert!(found.ring == 0 && found.ipintrq > 0, "{found:?}");
}

#[test]
fn without_a_quota_the_transmitter_starves() {
    let starved = |quota| {
        let found = run(polled(quota, 8_000));
        found.share(found.starved)
    };
    assert!(starved(u32::MAX) > 0.5 && starved(5) == 0.0 && starved(8) == 0.0);
    // Worse than the unmodified kernel, which does less for what it drops (§6.6).
    assert!(output(polled(u32::MAX, 8_000)) < 0.2 * output(kernel(Kernel::Unmodified, 8_000)));
}

/// §4.4, each of its three ways: the transmitter idles with packets waiting for it while its interrupts come after
/// received packets, by priority or because the driver looks for those first; above them it does not.
#[test]
fn by_priority_the_transmitter_starves_where_ip_does_not() {
    let at =
        |transmit, rate| run(Config { transmit, to_completion: true, ..kernel(Kernel::Unmodified, rate) });
    for transmit in [TransmitPriority::Equal, TransmitPriority::Lower] {
        let free = at(transmit, 4_000);
        assert!(free.delivered as f64 > 0.99 * free.arrived as f64 && free.starved.is_zero(), "{transmit:?}");
        // The processor keeps up with all input, up to the output queue, and next to nothing leaves.
        let kept_up = at(transmit, 5_500);
        assert_eq!(kept_up.drops.ring + kept_up.drops.ipintrq, 0, "{transmit:?}");
        assert!(kept_up.drops.output as f64 > 0.9 * kept_up.arrived as f64, "{transmit:?}");
        assert!(kept_up.share(kept_up.starved) > 0.9, "{transmit:?}: {:?}", kept_up.starved);
        let flooded = at(transmit, 8_000);
        assert!(flooded.delivered == 0 && flooded.share(flooded.starved) == 1.0, "{transmit:?}");
    }
    for rate in [5_500, 8_000, 14_000] {
        let first = at(TransmitPriority::Higher, rate);
        assert!(first.starved.is_zero() && first.drops.output == 0 && first.drops.ring > 0, "{rate}");
        assert!(first.rate(first.delivered) > 4_300.0, "{rate}: {}", first.rate(first.delivered));
    }
}

/// In the paper's own kernel IP is a thread below both interrupts: what starves first is IP, and a packet that has come
/// to the output queue finds its transmit interrupts serviced, whatever their priority.
#[test]
fn where_ip_is_a_thread_input_starves_it_before_the_transmitter() {
    for rate in [4_500, 6_000, 8_000, 11_000] {
        let at = |transmit| run(Config { transmit, ..kernel(Kernel::Unmodified, rate) });
        let [equal, lower, higher] =
            [TransmitPriority::Equal, TransmitPriority::Lower, TransmitPriority::Higher].map(at);
        for found in [&equal, &lower, &higher] {
            assert!(found.starved.is_zero() && found.drops.output == 0 && found.drops.ipintrq > 0, "{rate}");
        }
        assert!(lower.delivered as f64 > 0.85 * higher.delivered as f64, "{rate}");
    }
}

#[test]
fn batching_helps_and_does_not_save() {
    let slow = |batching, rate| output(Config { batching, percent: 150, ..kernel(Kernel::Unmodified, rate) });
    // A packet that arrives while its interrupt is serviced is taken in that one.
    assert!(slow(true, 10_000) > slow(false, 10_000) + 100.0);
    assert_eq!(slow(true, 14_000), 0.0);
}

#[test]
fn dearer_code_livelocks_earlier() {
    let closed = |percent| Closed::of(&Config { percent, ..kernel(Kernel::Unmodified, 0) });
    assert!(closed(150).loss_free() < closed(100).loss_free());
    assert!(closed(150).livelock() < closed(100).livelock());
    for percent in [50, 100, 200] {
        let free = closed(percent).loss_free();
        let at = |share: f64| {
            let rate = ((free * share) as u64).min(14_880);
            output(Config { percent, ..kernel(Kernel::Unmodified, rate) }) / rate as f64
        };
        assert!(at(0.95) > 0.98 && (percent == 50 || at(1.2) < 0.9), "{percent}%");
    }
}

/// A few divisions say what a million events do.
#[test]
fn the_closed_form_agrees() {
    for config in [
        kernel(Kernel::Unmodified, 0),
        kernel(Kernel::NoPolling, 0),
        polled(5, 0),
        polled(8, 0),
        polled(20, 0),
        Config { to_completion: true, transmit: TransmitPriority::Higher, ..kernel(Kernel::Unmodified, 0) },
    ] {
        let closed = Closed::of(&config);
        for rate in [2_000, 6_000, 8_000, 10_000] {
            let (form, model) = (closed.output(rate as f64), output(Config { rate, ..config }));
            let off = (form - model).abs();
            assert!(off <= 0.1 * closed.loss_free(), "{config:?}: {form:.0}, {model:.0}");
        }
    }
    let screend = Closed::of(&with_feedback(polled(10, 0)));
    assert!((screend.loss_free() / output(with_feedback(polled(10, 8_000))) - 1.0).abs() < 0.1);
}

/// §6.5. That the modified kernel with polling off is worse than the original is put in by a constant, so it is not asked.
#[test]
fn polling_raises_the_loss_free_rate() {
    let free = |config| Closed::of(&config).loss_free();
    let [original, polls] = [kernel(Kernel::Unmodified, 0), polled(5, 0)].map(free);
    assert!(original < polls, "{original} {polls}");
}

#[test]
fn everything_at_high_ipl_starves_the_user() {
    let found = run(Config { user: true, ..kernel(Kernel::HighIpl, 8_000) });
    assert!(found.rate(found.delivered) > 4_500.0 && found.share(found.user) < 0.01);
    // An interrupt of each device for a whole episode of polling.
    assert!(found.polling.woken <= found.polling.looks + 1, "{:?}", found.polling);
}

#[test]
fn the_limit_is_not_for_an_idle_processor() {
    let limit = CpuLimitConfig::preset(Preset::Paper, Percent::new(25).unwrap());
    // Nobody computes: 25% would be 1,200 packets/s.
    let found = run(Config { limit: Some(limit), ..polled(5, 3_000) });
    assert!(found.rate(found.delivered) > 2_900.0, "{}", found.rate(found.delivered));
}

#[test]
fn the_quota_is_found_while_running() {
    let config = Config { auto_quota: true, duration: Duration::from_secs(12), ..polled(40, 9_000) };
    let found = Router::new(config, Streams::new(1)).run();
    assert!(found.quota.is_some_and(|quota| quota.abs_diff(8) <= 1), "{:?}", found.quota);
}

/// §8.2: more hand-overs, and no livelock.
#[test]
fn eager_transmission_starts_the_device_more_often() {
    let starts = |eager, rate| {
        let found = run(Config { eager, ..polled(5, rate) });
        (found.starts as f64 / found.delivered as f64, found.rate(found.delivered))
    };
    let ((late, _), (eager, output)) = (starts(false, 9_000), starts(true, 9_000));
    assert!(eager > 2.0 * late && output > 4_000.0, "{late} {eager} {output}");
    // Below saturation, too, where all of them leave in either way: once packets wait for each other at all.
    for (rate, more) in [(1_000, 1.0), (2_000, 1.0), (3_000, 1.001), (4_000, 2.0)] {
        let ((late, passed), (eager, output)) = (starts(false, rate), starts(true, rate));
        assert!(eager >= more * late, "{rate}: {late} and {eager} starts a packet");
        assert!(passed.min(output) > 0.99 * rate as f64, "{rate}: {passed} and {output} packets/s");
    }
}

#[test]
fn a_monitor_captures_more_with_feedback() {
    let process = Some((Duration::from_micros(20), Duration::from_micros(75)));
    let feedback = FeedbackConfig::monitor(32, 8).ok();
    let disk = Config { consumer: Consumer::Monitor, process, feedback, ..polled(10, 0) };
    let capture =
        |rate, feedback: bool| run(Config { rate, feedback: disk.feedback.filter(|_| feedback), ..disk });
    let mut last = 0.0;
    for rate in [4_000, 6_000, 7_000, 8_000, 9_000, 11_000] {
        let (with, without) = (capture(rate, true), capture(rate, false));
        assert!(with.delivered >= without.delivered, "{rate}");
        assert!(with.rate(with.delivered) >= 0.99 * last, "{rate}: it goes on at what it can");
        last = with.rate(with.delivered);
        // Losses without feedback are at the filter's queue.
        assert_eq!(without.drops.ring, 0, "{rate}");
    }
    // To the null device nothing is lost up to where the paper's generator ends.
    let config = Config {
        process: Some((Duration::from_micros(20), Duration::from_micros(22))),
        rate: 10_700,
        ..disk
    };
    let null = run(config);
    assert!(null.delivered as f64 > 0.99 * null.arrived as f64);
    let at_9000 = capture(9_000, true);
    assert!((at_9000.rate(at_9000.delivered) / 7_700.0 - 1.0).abs() < 0.05);
}

#[test]
fn the_same_seed_is_the_same_run() {
    let once = |seed| {
        let found = Router::new(Config { duration: SHORT, ..polled(5, 6_000) }, Streams::new(seed)).run();
        (found.arrived, found.delivered, found.events, found.latency.quantile(0.5))
    };
    assert_eq!(once(1), once(1));
    assert_ne!(once(1), once(2));
}
