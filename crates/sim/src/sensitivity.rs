//! Each constant moves the figures of its line, and no others.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;

/// A machine with all of these changed, each by another share, so that no two cancel each other out.
fn changed<'a>(constants: impl IntoIterator<Item = &'a Constant>) -> Machine {
    constants.into_iter().zip(0..).fold(Machine::PAPERS, |machine, (constant, number)| {
        (constant.changed)(&machine, 20 + number * 7 % 23)
    })
}

/// The constants that move a figure, found one by one where their section does.
fn movers(figure: Figure) -> Vec<&'static Constant> {
    let before = figure.run(&Machine::PAPERS);
    let moves = |machine: &Machine| figure.run(machine) != before;
    let sections = LIST.chunk_by(|one, next| one.section == next.section);
    let moved = sections.filter(|section| moves(&changed(*section)));
    moved.flatten().filter(|constant| moves(&changed([*constant]))).collect()
}

/// On two processors.
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

/// One by one they move their figures; a figure does not move when all others change at once.
#[test]
fn each_constant_moves_the_figures_of_its_line_and_no_others() {
    let wrong = by_figure(|figure| {
        let before = figure.run(&Machine::PAPERS);
        let moves = |machine: &Machine| figure.run(machine) != before;
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

/// What a constant was fitted to depends on it, or it was not fitted.
#[test]
fn a_fitted_constant_moves_what_it_was_fitted_to() {
    for constant in LIST {
        for figure in constant.fitted_to() {
            assert!(constant.moves.contains(figure), "{}.{}: {figure:?}", constant.section, constant.name);
        }
    }
}

/// The flag's default is the constant, not another number that is like it.
#[test]
fn flags_have_the_values_of_the_list() {
    for constant in LIST {
        for (experiment, flag) in constant.flags {
            let experiment = crate::experiment::find(experiment).unwrap();
            let parameter = experiment.parameters.iter().find(|parameter| parameter.name == *flag).unwrap();
            let other = (constant.changed)(&Machine::PAPERS, 30);
            assert_eq!(Some(&parameter.default), (constant.setting)(&Machine::PAPERS).as_ref(), "{flag}");
            assert_ne!(Some(&parameter.default), (constant.setting)(&other).as_ref(), "{flag}");
        }
    }
}

/// A duration or a rate that is written down in an experiment is a constant that is not in the list.
#[test]
fn experiments_have_no_numbers_of_their_own() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = vec![];
    for file in ["livelock", "callout", "hip", "path", "host", "pacing"].into_iter().flat_map(|folder| {
        let files = fs::read_dir(sources.join(folder)).into_iter().flatten().flatten();
        files.map(|entry| entry.path()).chain([sources.join(folder).with_extension("rs")])
    }) {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        if file.ends_with("tests.rs") {
            continue;
        }
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        // Bounds and defaults of parameters are what a user sets.
        let lines = code.lines().filter(|line| line.starts_with("const ") || line.starts_with("pub const "));
        let numbers = lines.filter(|line| line.contains(": Duration =") || line.contains(": f64 ="));
        found.extend(
            numbers.filter(|line| !METHODS.iter().any(|name| line.contains(name))).map(str::to_owned),
        );
    }
    assert!(found.is_empty(), "not in the list of constants: {found:#?}");
}

/// How long a run is, and from when on something is called by its name: no part of a machine.
const METHODS: [&str; 5] = ["WARM_UP", "WINDOW", "SLICE", "LIVELOCK", "STARVED"];

#[test]
#[ignore = "prints what each constant moves, to write its line"]
fn print_what_each_constant_moves() {
    let found = by_figure(movers);
    for constant in LIST {
        let is = |other: &&Constant| std::ptr::eq(*other, constant);
        let figures: Vec<_> = found
            .iter()
            .filter(|(_, moved)| moved.iter().any(is))
            .map(|(figure, _)| format!("{figure:?}"))
            .collect();
        println!("MOVES {}.{} {}", constant.section, constant.name, figures.join(", "));
    }
}
