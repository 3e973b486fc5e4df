use softtimers_core::{Timestamp, TraceBuilder};

use super::*;
use crate::{Setting, Value};
use softtimers_core::Histogram;

fn find(nodes: u64, set: &[(&str, Setting)]) -> [f64; 8] {
    let parameters = Parameters::new(NOISE.parameters).with("nodes", Setting::Count(nodes));
    let parameters = set.iter().fold(parameters, |all, (name, setting)| all.with(name, setting.clone()));
    let rows = run(&parameters, Streams::new(1), &Steps::unwatched()).unwrap();
    std::array::from_fn(|index| match rows[0][index] {
        Value::Count(count) => count as f64,
        Value::Real(number) => number,
        _ => f64::NAN,
    })
}

#[test]
fn one_in_a_hundred_holds_up_two_phases_of_three_on_a_hundred_nodes() {
    let [_, p, undelayed, drawn, ..] = find(100, &[]);
    assert!((p - 0.01).abs() < 1e-9 && (undelayed - 0.366).abs() < 0.0005, "{p} {undelayed}");
    assert!((drawn - undelayed).abs() < 0.02, "{drawn}");
}

#[test]
fn an_order_of_magnitude_below_one_in_n_is_enough() {
    for nodes in [10, 100, 1_000, 100_000] {
        assert!((wanted(nodes) - 0.1 / nodes as f64).abs() < 1e-12);
        // e^-0.1, whatever n is.
        assert!((0.9..0.91).contains(&undelayed(wanted(nodes), nodes)), "{nodes}");
    }
    assert!((undelayed(0.001, 100) - 0.905).abs() < 0.0005);
}

#[test]
fn the_job_is_slower_the_more_nodes_it_has() {
    let few = [("phases", Setting::Count(2_000))];
    let slowdowns = [1, 10, 32, 100, 320, 1_000, 3_200].map(|nodes| {
        let [.., drawn, expected, _, _] = find(nodes, &few);
        assert!((drawn / expected - 1.0).abs() < 0.02, "{nodes}: {drawn} for {expected}");
        drawn
    });
    assert!(slowdowns.is_sorted_by(|less, more| less < more), "{slowdowns:?}");
    // 1.6 when a delayed phase is certain, towards 2 when a rare long one is.
    assert!((1.55..1.75).contains(&slowdowns[4]), "{slowdowns:?}");
    assert!(slowdowns[6] > 1.85 && slowdowns[6] <= 2.0, "{slowdowns:?}");
}

#[test]
fn phases_of_a_histogram_and_of_stamps_are_those_that_were_seen() {
    let mut histogram = Histogram::new();
    histogram.record_many(1_000, 9);
    histogram.record_many(4_000, 1);
    let phases = Phases::of_histogram(&histogram).unwrap();
    assert_eq!(phases.share_above(2_000), 0.1);
    let mut stamps = TraceBuilder::default();
    for micros in [5, 6, 7, 8, 11, 12] {
        stamps.push(Timestamp::from_micros(micros), 0);
    }
    let stamps = stamps.finish().unwrap();
    let phases = Phases::of_stamps(&stamps).unwrap();
    assert_eq!((phases.median(), phases.share_above(1_000), phases.share_above(3_000)), (1_000, 0.2, 0.0));
    let [_, p, ..] = find(1, &[("stamps", Setting::Trace(Some(stamps.into())))]);
    assert!((p - 0.2).abs() < 1e-9);
}

#[test]
fn what_cannot_be_is_refused() {
    let mut one = TraceBuilder::default();
    one.push(Timestamp::from_micros(5), 0);
    let parameters =
        Parameters::new(NOISE.parameters).with("stamps", Setting::Trace(one.finish().map(Into::into)));
    let error = run(&parameters, Streams::new(1), &Steps::unwatched()).unwrap_err().to_string();
    assert_eq!(error, "stamps: a phase needs at least two time stamps");
    let many = Parameters::new(NOISE.parameters)
        .with("nodes", Setting::Count(1_000_000))
        .with("phases", Setting::Count(1_000_000));
    assert!(
        run(&many, Streams::new(1), &Steps::unwatched())
            .unwrap_err()
            .to_string()
            .starts_with("nodes 1000000 times phases")
    );
    assert_eq!(Phases::new([(5, 0)]), None);
}
