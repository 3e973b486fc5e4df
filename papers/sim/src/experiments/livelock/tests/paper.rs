//! The paper's results, held against its digitised figures.

use super::*;

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
        [3_000, 4_450, 5_000, 6_000, 8_000, 10_677].map(|rate| output(kernel(Kernel::Unmodified, rate)));
    let peak = outputs.iter().copied().fold(0.0, f64::max);
    assert!((0.85..1.1).contains(&(peak / 4_696.0)), "{peak}");
    assert!(outputs[1..].windows(2).all(|pair| pair[0] > pair[1]), "{outputs:?}");
    assert!((outputs[5] / 1_374.0 - 1.0).abs() < 0.15, "{outputs:?}");
}

#[test]
fn a_curve_has_its_rate_and_its_name() {
    let experiment = experiments::find("livelock-mlfrr").unwrap();
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

/// The loss-free rate of a kernel with screend, and its behaviour beyond.
fn loss_free(kernel: &'static str, feedback: &'static str) -> (f64, String) {
    let experiment = experiments::find("livelock-mlfrr").unwrap();
    let parameters = Parameters::new(experiment.parameters)
        .with("kernel", Setting::Choice(kernel))
        .with("consumer", Setting::Choice("screend"))
        .with("quota", Setting::Limit(Some(10)))
        .with("feedback", Setting::Choice(feedback))
        .with("duration", Setting::Time(SHORT));
    let row = (experiment.run)(&parameters, Streams::new(1), &Steps::unwatched()).unwrap().remove(0);
    (number(&row[1]), if let Value::Text(word) = &row[6] { word.clone() } else { String::new() })
}

/// Input is shut, interrupts with it, and what was livelock is figure 6's plateau, 2,830 packets/s within 100 (§6.6.1).
#[test]
fn feedback_raises_the_loss_free_rate() {
    let ((with, plateau), (without, livelock)) = (loss_free("polled", "yes"), loss_free("polled", "no"));
    assert_eq!((plateau.as_str(), livelock.as_str()), ("realisable", "livelock"));
    assert!(with > 2_700.0 && with > 1.2 * without, "{with} {without}");
    for rate in [3_000, 4_000, 6_000, 9_000, 12_000, 14_880] {
        let found = output(with_feedback(polled(10, rate)));
        assert!((found - 2_830.0).abs() <= 100.0, "{rate}: {found}");
    }
    let found = run(with_feedback(polled(10, 9_000)));
    assert!(found.polling.shut > 0 && found.share(found.polling.shut_time) > 0.5, "{:?}", found.polling);
    // The receive interrupt is enabled again only when the ring was seen empty, which it never is.
    assert_eq!((found.polling.armed, found.polling.woken), (0, 0), "{:?}", found.polling);
}

/// The paper's is below 2,000 and rises with feedback by half (figure 6). This one is as high as with feedback: what the
/// figures of the others leave for its steps takes two thirds of the 500 µs that 2,000 packets/s are apart.
#[test]
fn the_unmodified_kernel_loses_nothing_up_to_more_than_the_papers() {
    let (unmodified, behaviour) = loss_free("unmodified", "no");
    assert_eq!(behaviour, "livelock");
    assert!((2_600.0..3_000.0).contains(&unmodified), "{unmodified}");
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
    // Missed: a limit of half is reached after six turns of five packets here, and leaves a third; there it was after five,
    // which leave 43.5%.
    for (percent, wanted, within) in [(25, 65.0, 3.0), (50, 33.0, 1.0), (75, 15.0, 3.0), (100, 0.0, 0.5)] {
        for rate in [5_000, 6_500, 8_000, 10_000] {
            let found = run(limited(percent, rate));
            let share = 100.0 * found.share(found.user);
            assert!((share - wanted).abs() <= within, "{percent}% at {rate}: {share}, not {wanted}");
        }
    }
    // With next to no input, 94%.
    let idle = run(limited(50, 1));
    assert!((100.0 * idle.share(idle.user) - 94.0).abs() < 0.5);
}

/// Figure 10: the same share whatever comes, from where the limit is reached on; and at 50 and 75% the share falls
/// below that before it, because interrupts and switches are not counted.
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
    assert!(share(50, 2_000) < share(50, 2_500) && share(75, 3_000) < share(75, 4_000));
}

#[test]
fn a_burst_delays_its_first_packet_by_interrupts_only() {
    let first = |kernel: &'static str, burst: u64| {
        let experiment = experiments::find("livelock-burst").unwrap();
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
    // The rule delays the third as well, and a little beyond the other kernel's: the paper has 978 against 949 µs.
    assert!(
        polled[2] > eager[2] + 150.0 && (0.0..60.0).contains(&(polled[2] - legacy[2])),
        "{polled:?} {legacy:?}"
    );
}

/// §4.3: by interrupts the first packet waits longer the more come with it; polled it is the same microsecond.
#[test]
fn a_polled_burst_begins_at_once_whatever_its_size() {
    let experiment = experiments::find("livelock-burst").unwrap();
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
        assert!(first.is_sorted() && first[4] > 1.5 * first[0], "{first:?}");
    }
}
