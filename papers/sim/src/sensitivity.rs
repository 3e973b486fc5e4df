//! Each constant moves the figures of its line, and no others.

mod runs;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::constants::{Constant, Figure, LIST, Machine};
use crate::engine::{Steps, Streams};
use crate::experiment::Experiment;
use crate::experiments::{self, traces_of};
use crate::parameter::Parameters;
use crate::table::Row;
use runs::Runs;

/// A machine with all of these changed, each by a different share, so that no two cancel out.
fn changed<'a>(constants: impl IntoIterator<Item = &'a Constant>) -> Machine {
    constants.into_iter().zip(0..).fold(Machine::PAPERS, |machine, (constant, number)| {
        (constant.changed)(&machine, 20 + number * 7 % 23)
    })
}

/// The defaults of an experiment on a machine, whose constants are the defaults of some flags.
fn parameters(experiment: &Experiment, machine: &Machine) -> Parameters {
    let mut all = Parameters::on(experiment.parameters, *machine);
    for constant in LIST {
        for (_, flag) in constant.flags.iter().filter(|(of, _)| *of == experiment.name) {
            let setting = (constant.setting)(machine);
            all = all.with(flag, setting.unwrap_or_else(|| panic!("{flag}: no value of a flag")));
        }
    }
    all
}

/// The rows of a reduced run of a figure on this machine: not the figure's values, but they change when those
/// do.
fn run(figure: Figure, machine: &Machine) -> Vec<Row> {
    // The distance from Table 3 takes too long.
    if figure == Figure::HipTraces {
        return traces_of(machine, Streams::new(1));
    }
    let Runs { experiment, sets, .. } = runs::of(figure);
    let experiment = experiments::find(experiment).expect("an experiment");
    let rows = sets.iter().flat_map(|set| {
        let base = parameters(experiment, machine);
        let parameters = set.iter().fold(base, |all, (name, setting)| all.with(name, setting.clone()));
        let found = (experiment.run)(&parameters, Streams::new(1), &Steps::unwatched());
        found.unwrap_or_else(|error| panic!("{figure:?}: {error}"))
    });
    rows.collect()
}

/// Runs all figures on two CPUs.
fn by_figure<T: Send>(found: impl Fn(Figure) -> T + Sync) -> Vec<(Figure, T)> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut all = vec![];
        while let Some(&figure) = Figure::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            all.push((figure, found(figure)));
        }
        all
    };
    thread::scope(|scope| {
        let workers = [(); 2].map(|()| scope.spawn(work));
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker ends")).collect()
    })
}

/// Each one alone moves its figures; a figure does not move when all others change together.
#[test]
fn each_constant_moves_the_figures_of_its_line_and_no_others() {
    let wrong = by_figure(|figure| {
        let before = run(figure, &Machine::PAPERS);
        let moves = |machine: &Machine| run(figure, machine) != before;
        let (of, others): (Vec<_>, Vec<_>) =
            LIST.iter().partition(|constant| constant.moves.contains(&figure));
        let idle = of.into_iter().filter(|constant| !moves(&changed([*constant])));
        let mut wrong: Vec<_> = idle.map(|constant| (constant, "does not move")).collect();
        if moves(&changed(others.iter().copied())) {
            let other = others.into_iter().filter(|constant| moves(&changed([*constant])));
            wrong.extend(other.map(|constant| (constant, "moves and does not list")));
        }
        wrong
    });
    let wrong: Vec<_> = wrong
        .iter()
        .flat_map(|(figure, wrong)| wrong.iter().map(move |found| (figure, found)))
        .map(|(figure, (constant, what))| format!("{}.{} {what} {figure:?}", constant.section, constant.name))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A figure that a constant was fitted to depends on it.
#[test]
fn a_fitted_constant_moves_what_it_was_fitted_to() {
    for constant in LIST {
        for figure in constant.fitted_to() {
            assert!(constant.moves.contains(figure), "{}.{}: {figure:?}", constant.section, constant.name);
        }
    }
}

/// The flag's default is the constant itself, not another number with the same value.
#[test]
fn flags_have_the_values_of_the_list() {
    for constant in LIST {
        for (experiment, flag) in constant.flags {
            let experiment = experiments::find(experiment).unwrap();
            let parameter = experiment.parameters.iter().find(|parameter| parameter.name == *flag).unwrap();
            let other = (constant.changed)(&Machine::PAPERS, 30);
            assert_eq!(Some(&parameter.default), (constant.setting)(&Machine::PAPERS).as_ref(), "{flag}");
            assert_ne!(Some(&parameter.default), (constant.setting)(&other).as_ref(), "{flag}");
        }
    }
}

/// A duration or a rate that is written down in a paper's experiment, or in what it runs on, is a constant that is not in the list.
#[test]
fn experiments_have_no_numbers_of_their_own() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = vec![];
    for file in ["engine", "experiments"].into_iter().flat_map(|folder| files(&sources.join(folder))) {
        // Its costs are not from a paper: they are defaults of its flags, with a note of where they were
        // measured.
        if file.ends_with("experiments/relay.rs") {
            continue;
        }
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        // Bounds and defaults of parameters belong to the user.
        let numbers = code.lines().filter(|line| {
            let line = line.trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
            let is_constant = line.starts_with("const ") || line.starts_with("pub const ");
            is_constant && (line.contains(": Duration =") || line.contains(": f64 ="))
        });
        found.extend(
            numbers.filter(|line| !METHODS.iter().any(|name| line.contains(name))).map(str::to_owned),
        );
    }
    assert!(found.is_empty(), "not in the list of constants: {found:#?}");
}

/// Lengths of runs, thresholds of definitions, and settings of a search are not part of a machine.
const METHODS: [&str; 10] = [
    "WARM_UP",
    "WINDOW",
    "SLICE",
    "LIVELOCK",
    "STARVED",
    "DRAINED",
    "DEVIATION",
    "DAMPING",
    "REACH",
    "WORTH_IT",
];

/// Returns all sources under a folder except tests.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let (folders, files): (Vec<_>, Vec<_>) = entries
        .filter(|path| path.file_stem().is_some_and(|name| name != "tests"))
        .partition(|path| path.is_dir());
    files.into_iter().chain(folders.iter().flat_map(|folder| self::files(folder))).collect()
}
