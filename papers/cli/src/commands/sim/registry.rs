//! The experiments under `sim` in this process: those passed to [`main`](crate::main), or else those of
//! `softtimers-sim`.

use std::iter;
use std::sync::OnceLock;

use clap::{Args as _, Command};
use softtimers_measure::failure::Failure;
use softtimers_sim::{Experiment, Kind, Parameter, experiments};

use super::common::{MACHINE, MERGE, SEED, SimCommonArgs};

static REGISTERED: OnceLock<Vec<&'static Experiment>> = OnceLock::new();

/// Sets the experiments, unless they are set already.
///
/// # Errors
/// A usage failure for a duplicate name.
pub(crate) fn register(experiments: &[&'static Experiment]) -> Result<(), Failure> {
    check(experiments).map_err(Failure::usage)?;
    REGISTERED.get_or_init(|| experiments.to_vec());
    Ok(())
}

/// Returns all experiments, in the order of the help.
pub(super) fn all() -> &'static [&'static Experiment] {
    REGISTERED.get().map_or(experiments::ALL, Vec::as_slice)
}

/// Finds an experiment by its name.
pub(super) fn find(name: &str) -> Option<&'static Experiment> {
    all().iter().copied().find(|experiment| experiment.name == name)
}

/// Refuses duplicate names, which would make flags ambiguous.
fn check(experiments: &[&'static Experiment]) -> Result<(), String> {
    let common = SimCommonArgs::augment_args(Command::new(""));
    // A flag is found by its id, which may differ from the typed name: `--sweep` is `sweeps`.
    let names = |flag: &clap::Arg| [flag.get_long().map(str::to_owned), Some(flag.get_id().to_string())];
    let flags: Vec<String> = common.get_arguments().flat_map(names).flatten().collect();
    for (place, experiment) in experiments.iter().enumerate() {
        let name = experiment.name;
        let is_word = |name: &str| {
            name.starts_with(|first: char| first.is_ascii_lowercase())
                && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        };
        if !is_word(name) {
            return Err(format!("experiment '{name}': a name is a-z, 0-9 and -, and begins with a letter"));
        }
        if [MERGE, MACHINE, "help"].contains(&name)
            || experiments[..place].iter().any(|other| other.name == name)
        {
            return Err(format!("experiment '{name}': another subcommand has this name"));
        }
        for (place, parameter) in experiment.parameters.iter().enumerate() {
            let flag = parameter.name;
            if !is_word(flag) {
                return Err(format!(
                    "experiment '{name}': parameter '{flag}': a name is a-z, 0-9 and -, and begins with a letter"
                ));
            }
            let taken = [SEED, "help", "version"].contains(&flag) || flags.iter().any(|known| known == flag);
            if taken || experiment.parameters[..place].iter().any(|other| other.name == flag) {
                return Err(format!("experiment '{name}': parameter '{flag}': another flag has this name"));
            }
        }
        check_columns(experiment)?;
    }
    Ok(())
}

/// Refuses duplicate keys, of which JSON's readers see only one.
fn check_columns(experiment: &Experiment) -> Result<(), String> {
    let mut known: Vec<String> = OF_EVERY_ROW.map(str::to_owned).to_vec();
    let is_recording = |parameter: &&Parameter| matches!(parameter.kind, Kind::Trace);
    let recordings = experiment.parameters.iter().filter(is_recording);
    known.extend(recordings.map(|parameter| format!("{}_sha256", parameter.name)));
    for column in experiment.columns {
        let of_means = ["sd", "ci95", "n"].map(|of| format!("{}_{of}", column.name));
        for key in iter::once(column.key().into_owned()).chain(of_means) {
            if known.contains(&key) {
                let (name, column) = (experiment.name, column.name);
                return Err(format!(
                    "experiment '{name}': column '{column}': another column has the key '{key}'"
                ));
            }
            known.push(key);
        }
    }
    Ok(())
}

/// The keys of every row besides those of the experiment.
const OF_EVERY_ROW: [&str; 8] =
    ["sweep", "point", "row", "build", "seed", "seeds", "machine_sha256", "reason"];

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_sim::{ALWAYS, Column};

    const EMPTY: Experiment = Experiment {
        name: "mine",
        about: "",
        details: "",
        parameters: &[],
        columns: &[],
        sweep: &[],
        check: ALWAYS,
        run: |_, _, _| Ok(vec![]),
    };
    static MINE: Experiment = EMPTY;
    static MERGES: Experiment = Experiment { name: "merge", ..EMPTY };
    static SHOUTED: Experiment = Experiment { name: "Mine", ..EMPTY };
    static SEEDED: Experiment =
        Experiment { name: "seeded", parameters: &[Parameter::count("seeds", "", 1..=2, 1)], ..EMPTY };
    static SWEPT: Experiment =
        Experiment { name: "swept", parameters: &[Parameter::switch("sweeps", "")], ..EMPTY };
    static REASONED: Experiment =
        Experiment { name: "reasoned", columns: &[Column::words("reason", "")], ..EMPTY };
    static SPREAD: Experiment =
        Experiment { name: "spread", columns: &[Column::new("x", ""), Column::new("x_sd", "")], ..EMPTY };
    static NUMBERED: Experiment =
        Experiment { name: "numbered", columns: &[Column::new("row", "")], ..EMPTY };
    static COUNTED: Experiment =
        Experiment { name: "counted", columns: &[Column::new("x_n", ""), Column::new("x", "")], ..EMPTY };
    static HASHED: Experiment = Experiment {
        name: "hashed",
        parameters: &[Parameter::trace("trace", "")],
        columns: &[Column::words("trace_sha256", "")],
        ..EMPTY
    };
    static TWICE: Experiment = Experiment {
        name: "twice",
        parameters: &[Parameter::switch("on", ""), Parameter::switch("on", "")],
        ..EMPTY
    };

    #[test]
    fn a_name_is_given_once() {
        assert_eq!(check(experiments::ALL), Ok(()));
        assert_eq!(
            check(&[&MINE, &SEEDED]),
            Err("experiment 'seeded': parameter 'seeds': another flag has this name".to_owned())
        );
        for (wrong, why) in [
            ([&MINE, &MINE], "another subcommand"),
            ([&MINE, &MERGES], "another subcommand"),
            ([&MINE, &SHOUTED], "begins with a letter"),
            ([&MINE, &TWICE], "another flag"),
            ([&MINE, &SWEPT], "another flag"),
            ([&MINE, &REASONED], "column 'reason': another column has the key 'reason'"),
            ([&MINE, &SPREAD], "column 'x_sd': another column has the key 'x_sd'"),
            ([&MINE, &NUMBERED], "column 'row': another column has the key 'row'"),
            ([&MINE, &COUNTED], "column 'x': another column has the key 'x_n'"),
            ([&MINE, &HASHED], "column 'trace_sha256': another column has the key 'trace_sha256'"),
        ] {
            assert!(check(&wrong).is_err_and(|refused| refused.contains(why)), "{why}");
        }
    }
}
