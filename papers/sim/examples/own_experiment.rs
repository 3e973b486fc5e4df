//! An experiment of your own, with sweeps, seeds, intervals and CSV: `cargo run --manifest-path papers/Cargo.toml -p softtimers-sim --example own_experiment`.
//!
//! Packets arrive at random at a queue that serves one each millisecond, and are lost when it is full. How
//! many are lost, by the queue's length?

use std::num::{NonZeroU32, NonZeroUsize};

use softtimers_sim::{
    ALWAYS, Axis, Column, Experiment, Parameter, Parameters, Part, PointError, Row, RunError, Runs, Setting,
    Steps, Streams, Sweep, Watch, csv,
};

static QUEUE: Experiment = Experiment {
    name: "queue",
    about: "Packets lost by a short queue",
    details: "",
    parameters: &[
        Parameter::count("length", "packets that fit into the queue", 1..=1_000, 4),
        Parameter::real("load", "packets that arrive while one is served", 0.0..=10.0, 0.9),
        Parameter::count("slots", "packet service times to simulate", 1..=1_000_000, 10_000),
    ],
    columns: &[
        Column::share("lost", "share of the packets that arrived"),
        Column::new("waiting", "on average").digits(2),
    ],
    sweep: &[],
    check: ALWAYS,
    run,
};

fn run(parameters: &Parameters, streams: Streams, steps: &Steps) -> Result<Vec<Row>, RunError> {
    let (length, slots) = (parameters.count("length"), parameters.count("slots"));
    let mut random = streams.of("arrivals");
    let threshold = (parameters.real("load") / 16.0 * 65_536.0) as u64;
    let (mut queue, mut came, mut lost, mut waited) = (0, 0u64, 0u64, 0u64);
    for slot in 0..slots {
        if slot % 1_024 == 0 && !steps.go_on(slot, slots) {
            break;
        }
        for _ in (0..16).filter(|_| random.below(65_536) < threshold) {
            came += 1;
            if queue < length { queue += 1 } else { lost += 1 }
        }
        queue -= queue.min(1);
        waited += queue;
    }
    if came == 0 {
        return Err(RunError::new("load 0: no packet came; above zero is possible"));
    }
    Ok(vec![vec![(lost as f64 / came as f64).into(), (waited as f64 / slots as f64).into()]])
}

fn main() -> Result<(), PointError> {
    let lengths = [1, 2, 4, 8, 16].map(|length| (length.to_string(), Setting::Count(length)));
    let axes = vec![Axis { name: "length", values: lengths.to_vec() }];
    let runs = Runs { seeds: NonZeroU32::new(20).expect("twenty"), ..Runs::default() };
    let sweep = Sweep::new(&QUEUE, Parameters::new(QUEUE.parameters), axes, runs);
    print!("{}", csv::header(&sweep));
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    sweep.run(Part::default(), threads, &Watch::new(), |found| {
        print!("{}", csv::lines(&sweep, &found));
        Ok(())
    })
}
