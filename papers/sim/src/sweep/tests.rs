//! Order, parts, rejected sweeps, and what a fingerprint distinguishes.

use super::*;
use crate::parameter::{Need, Parameter};
use crate::recording::Recording;
use crate::setting::Setting;
use crate::table::{Column, Value};
use softtimers_core::{Timestamp, TraceBuilder};

static SQUARE: Experiment = Experiment {
    name: "square",
    about: "",
    details: "",
    parameters: &[
        Parameter::count("x", "", 0..=100, 3),
        Parameter::count("y", "", 0..=100, 0).needs(SMALL_X),
        Parameter::trace("trace", ""),
    ],
    columns: &[Column::new("sum", ""), Column::new("drawn", "")],
    sweep: &[],
    check: lucky,
    run: square,
};
const SMALL_X: Need = Need { with: "an x below 50", met: |parameters| parameters.count("x") < 50 };

fn square(parameters: &Parameters, streams: Streams, _: &Steps) -> Result<Vec<Row>, RunError> {
    let (x, y) = (parameters.count("x"), parameters.count("y"));
    if x == 13 {
        return Err(RunError::new("x 13: brings bad luck"));
    }
    Ok(vec![vec![(x * x + y).into(), streams.of("drawn").below(1_000).into()]])
}

/// An experiment whose settings are checked without running it.
fn lucky(parameters: &Parameters) -> Result<(), RunError> {
    if parameters.count("x") == 17 { Err(RunError::new("x 17: a bad number")) } else { Ok(()) }
}

pub(crate) fn sweep(x: &[u64], y: &[u64]) -> Sweep {
    let axis = |name, values: &[u64]| Axis {
        name,
        values: values.iter().map(|&value| (value.to_string(), Setting::Count(value))).collect(),
    };
    Sweep::new(&SQUARE, Parameters::new(SQUARE.parameters), vec![axis("x", x), axis("y", y)], 7)
}

fn run(sweep: &Sweep, part: Part, threads: usize) -> (Vec<PointRows>, Result<(), PointError>) {
    let mut rows = vec![];
    let threads = NonZeroUsize::new(threads).unwrap();
    let result = sweep.run(part, threads, &Watch::new(), |found| {
        rows.push(found);
        Ok::<_, PointError>(())
    });
    (rows, result)
}

#[test]
fn rows_are_in_order_whatever_the_threads() {
    let sweep = sweep(&[1, 2, 3, 4, 5], &[10, 20]);
    let (one, result) = run(&sweep, Part::default(), 1);
    assert_eq!(result, Ok(()));
    assert_eq!(one.len(), 10);
    assert_eq!((one[3].point, &one[3].at[..]), (3, &["2".to_owned(), "20".to_owned()][..]));
    assert_eq!(one[3].rows[0][0], Value::Count(24));
    for threads in [2, 3, 8, 64] {
        assert_eq!(run(&sweep, Part::default(), threads).0, one);
    }
}

#[test]
fn parts_together_are_the_whole() {
    let sweep = sweep(&[1, 2, 3, 4, 5, 6, 7], &[10, 20, 30]);
    let whole = run(&sweep, Part::default(), 2).0;
    let mut parts: Vec<_> =
        (1..=4).flat_map(|number| run(&sweep, format!("{number}/4").parse().unwrap(), 2).0).collect();
    parts.sort_by_key(|found| found.point);
    assert_eq!(parts, whole);
    // More parts than points: some are empty.
    assert_eq!(run(&sweep, "30/32".parse().unwrap(), 2).0, []);
}

#[test]
fn what_was_found_before_an_impossible_point_is_kept() {
    let (rows, result) = run(&sweep(&[11, 12, 13, 14], &[0]), Part::default(), 3);
    assert_eq!(rows.len(), 2);
    assert_eq!(result.unwrap_err().to_string(), "at x=13 y=0: x 13: brings bad luck");
}

#[test]
fn whoever_takes_the_rows_can_end_it() {
    let sweep = sweep(&[1, 2, 3], &[0]);
    let mut taken = 0;
    let result = sweep.run(Part::default(), NonZeroUsize::MIN, &Watch::new(), |_| {
        taken += 1;
        if taken == 2 {
            Err(PointError { at: vec![], error: RunError::new("full"), others: 0 })
        } else {
            Ok(())
        }
    });
    assert_eq!((taken, result.unwrap_err().to_string()), (2, "full".to_owned()));
}

#[test]
fn another_sweep_has_another_fingerprint() {
    let one = sweep(&[1, 2], &[0]);
    assert_eq!(one.fingerprint(), sweep(&[1, 2], &[0]).fingerprint());
    assert_ne!(one.fingerprint(), sweep(&[1, 3], &[0]).fingerprint());
    let other_seed = Sweep::new(&SQUARE, one.base.clone(), one.axes.clone(), 8);
    assert_ne!(one.fingerprint(), other_seed.fingerprint());
}

/// Recordings of the same length, in packets and in time, are told apart by their packets.
#[test]
fn recordings_are_told_apart_by_their_packets() {
    let of = |micros: [u64; 3], last: u16| {
        let mut builder = TraceBuilder::default();
        for at in micros {
            builder.push(Timestamp::from_micros(at), 100 + last * u16::from(at > 0));
        }
        let base = Parameters::new(SQUARE.parameters)
            .with("trace", Setting::Trace(builder.finish().map(Recording::from)));
        Sweep::new(&SQUARE, base, vec![], 1).fingerprint()
    };
    assert_eq!(of([0, 10, 100], 0), of([0, 10, 100], 0));
    assert_ne!(of([0, 10, 100], 0), of([0, 90, 100], 0), "other times");
    assert_ne!(of([0, 10, 100], 0), of([0, 10, 100], 1), "other lengths");
}

#[test]
fn impossible_points_are_found_before_any_is_run() {
    assert_eq!(sweep(&[1, 13], &[0]).check(&[]), Ok(()));
    let refused = |x: &[u64], given: &[&str]| sweep(x, &[0, 1]).check(given).unwrap_err().to_string();
    assert_eq!(refused(&[1, 17], &[]), "at x=17 y=0: x 17: a bad number; one more point cannot be run");
    // A parameter that no point uses; one point that does is enough.
    assert_eq!(
        refused(&[50, 51], &["x", "y"]),
        "y: used with an x below 50 only; it would change nothing here"
    );
    assert_eq!(sweep(&[50, 51], &[0, 1]).check(&["x"]), Ok(()));
    assert_eq!(sweep(&[49, 51], &[0, 1]).check(&["x", "y"]), Ok(()));
}

/// The experiment's second column is random, by the seed.
fn seeded(runs: Runs) -> Sweep {
    let axis = |name, values: &[u64]| Axis {
        name,
        values: values.iter().map(|&value| (value.to_string(), Setting::Count(value))).collect(),
    };
    Sweep::new(&SQUARE, Parameters::new(SQUARE.parameters), vec![axis("x", &[1, 2, 3])], runs)
}

fn seeds(seeds: u32) -> Runs {
    Runs { seeds: seeds.try_into().unwrap(), ..Runs::from(7) }
}

/// Threads finish in any order, and parts run elsewhere: the digits of means and the early ends of points
/// stay the same.
#[test]
fn means_are_the_same_for_any_number_of_threads_and_parts() {
    let precision = "drawn=20%".parse().unwrap();
    for runs in [seeds(20), Runs { precision: Some(precision), ..seeds(400) }] {
        let sweep = seeded(runs);
        let (one, result) = run(&sweep, Part::default(), 1);
        assert_eq!((result, one.len()), (Ok(()), 3));
        for threads in [2, 3, 8, 64] {
            assert_eq!(run(&sweep, Part::default(), threads).0, one, "{threads} threads");
        }
        for parts in [2, 3] {
            let part = |number| run(&sweep, format!("{number}/{parts}").parse().unwrap(), 3).0;
            let mut all: Vec<_> = (1..=parts).flat_map(part).collect();
            all.sort_by_key(|found| found.point);
            assert_eq!(all, one, "{parts} parts");
        }
    }
}

#[test]
fn a_mean_is_that_of_its_seeds_run_one_by_one() {
    let found = run(&seeded(seeds(5)), Part::default(), 2).0;
    let one_by_one = (7..12).map(|seed| run(&seeded(Runs::from(seed)), Part::default(), 1).0);
    let drawn: Vec<f64> = one_by_one.map(|found| found[1].rows[0][1].number().unwrap()).collect();
    assert_eq!(found[1].rows[0][1], Value::Mean(crate::Mean::from_numbers(&drawn)));
    assert_eq!(found[1].seeds, 5);
}

#[test]
fn a_point_ends_when_its_mean_is_certain_enough() {
    let ends = |share: &str| {
        let precision = format!("drawn={share}").parse().unwrap();
        run(&seeded(Runs { precision: Some(precision), ..seeds(1_000) }), Part::default(), 2).0
    };
    let (coarse, fine) = (ends("40%"), ends("5%"));
    for (coarse, fine) in coarse.iter().zip(&fine) {
        assert!(10 <= coarse.seeds && coarse.seeds < fine.seeds && fine.seeds < 1_000);
        let Value::Mean(mean) = fine.rows[0][1] else { panic!("{fine:?}") };
        assert!(mean.interval.unwrap() <= 0.05 * mean.mean && mean.seeds == fine.seeds);
    }
}

#[test]
fn what_is_not_possible_is_skipped_where_that_is_wanted() {
    let skips = |x: &[u64]| {
        let sweep = sweep(x, &[0]);
        let axes = sweep.axes.clone();
        Sweep::new(&SQUARE, sweep.base.clone(), axes, Runs { skips: true, ..Runs::from(7) })
    };
    let sweep = skips(&[17, 12, 13, 14]);
    assert_eq!(sweep.check(&[]), Ok(()));
    let (found, result) = run(&sweep, Part::default(), 3);
    assert_eq!((result, found.len()), (Ok(()), 4));
    let reasons: Vec<_> = found.iter().map(|found| found.skipped.as_deref()).collect();
    assert_eq!(reasons, [Some("x 17: a bad number"), None, Some("x 13: brings bad luck"), None]);
    assert_eq!(
        (&found[0].rows[0], found[1].rows[0][0].clone()),
        (&vec![Value::Missing; 2], Value::Count(144))
    );
    // Without a possible point there is nothing to show.
    assert!(skips(&[17]).check(&[]).unwrap_err().to_string().contains("a bad number"));
}

#[test]
fn seeds_are_an_axis_too() {
    let values = [7, 8].map(|seed| (seed.to_string(), Setting::Count(seed))).to_vec();
    let axes = vec![Axis { name: "seed", values }];
    let found = run(&Sweep::new(&SQUARE, Parameters::new(SQUARE.parameters), axes, 1), Part::default(), 2).0;
    let alone = |seed| run(&seeded(Runs::from(seed)), Part::default(), 1).0[2].rows[0][1].clone();
    assert_eq!([&found[0].rows[0][1], &found[1].rows[0][1]], [&alone(7), &alone(8)]);
    assert_eq!(found[1].at, ["8"]);
}

/// Some of each file's lines: user-given names, hashes, numbers with their digits.
#[test]
fn lines_say_where_they_are_from() {
    let runs = Runs { skips: true, build: Some(crate::Hashed::new(&b"abc"[..]).finish().0), ..seeds(2) };
    let mut builder = TraceBuilder::default();
    builder.push(Timestamp::ZERO, 60);
    let base = Parameters::new(SQUARE.parameters)
        .with("trace", Setting::Trace(builder.finish().map(Recording::from)));
    let values = vec![("1".to_owned(), Setting::Count(1)), ("17".to_owned(), Setting::Count(17))];
    let sweep = Sweep::new(&SQUARE, base, vec![Axis { name: "x", values }], runs);
    let header = crate::csv::header(&sweep);
    assert_eq!(
        header,
        "sweep,point,row,build,seed,seeds,trace_sha256,x,sum,sum_sd,sum_ci95,sum_n,drawn,drawn_sd,drawn_ci95,drawn_n,reason\n"
    );
    let found = run(&sweep, Part::default(), 1).0;
    let fields = header.matches(',').count();
    for (point, line) in found.iter().map(|found| crate::csv::lines(&sweep, found)).enumerate() {
        assert_eq!(line.matches(',').count(), fields, "{line}");
        let wanted = [
            "ba7816bf8f01cfea",
            "e3b0c44298fc1c14",
            ["1,0,0,2", "17,,,,0"][point],
            ["\n", ": a bad number\n"][point],
        ];
        assert!(wanted.iter().all(|part| line.contains(part)), "{line}");
    }
}
