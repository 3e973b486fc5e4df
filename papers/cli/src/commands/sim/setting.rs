//! Values of an experiment's parameters, as typed.

use std::path::Path;

use softtimers_measure::units::{self, SendRate};
use softtimers_sim::{Hashed, Kind, Recording, Setting, Typed};

use softtimers_load::recording::{self, Changed, Fit};
use softtimers_run::file;
use softtimers_run::privileges::user::exceeds_caller;

/// Reads the value of a parameter of this kind.
///
/// # Errors
/// A few words about what is allowed; for a recording, the offset of the error.
pub(crate) fn parse(kind: Kind, text: &str) -> Result<Setting, String> {
    TYPED.setting(kind, text)
}

/// Reads times and rates as every command does, and recordings by their files.
pub(crate) const TYPED: Typed = Typed {
    time: |text| units::duration(text).map_err(|error| error.to_string()),
    per_second: |text| match units::rate(text) {
        Ok(SendRate::PacketsPerSecond(rate)) => Some(rate),
        _ => None,
    },
    recording,
};

fn recording(name: &str) -> Result<Recording, String> {
    let file = file::open(Path::new(name)).map_err(|error| error.to_string())?;
    let fit = Fit { quotes: !exceeds_caller(), ..Fit::AS_RECORDED };
    let mut file = Hashed::new(file);
    let read = recording::read(&mut file, &fit).map_err(|error| error.to_string())?;
    as_recorded(read.changed)?;
    let (sha256, rest) = file.finish();
    rest.map_err(|error| error.to_string())?;
    Ok(Recording { name: name.to_owned(), sha256, trace: read.trace })
}

/// Refuses a recording that would be simulated with changes.
fn as_recorded(changed: Changed) -> Result<(), String> {
    let Changed { out_of_order, cut, .. } = changed;
    if out_of_order > 0 {
        return Err(format!(
            "{out_of_order} of its packets are earlier than one before them; a recording in order of time is simulated: \
             sort it, a capture by reordercap"
        ));
    }
    if cut > 0 {
        return Err(format!("{cut} of its packets are longer than 65507 bytes; shorter ones are simulated"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_sim::experiments::ALL;
    use std::time::Duration;

    #[test]
    fn defaults_and_their_sweeps_can_be_typed() {
        for experiment in ALL {
            for parameter in experiment.parameters {
                let typed = parse(parameter.kind, &parameter.default.to_string());
                assert_eq!(typed.as_ref(), Ok(&parameter.default), "{} {}", experiment.name, parameter.name);
            }
            for (name, values) in experiment.sweep {
                let parameter =
                    experiment.parameters.iter().find(|parameter| parameter.name == *name).unwrap();
                for value in values.split(',') {
                    assert!(parse(parameter.kind, value).is_ok(), "{} {name}={value}", experiment.name);
                }
            }
        }
    }

    #[test]
    fn what_is_allowed_is_said() {
        let millis = Duration::from_millis;
        for (kind, good, bad, allowed) in [
            (
                Kind::Count { least: 1, most: 9 },
                &["1", "9"][..],
                &["0", "10", "-1", "x", ""][..],
                "from 1 to 9",
            ),
            (
                Kind::PerSecond { least: 0, most: 9_000 },
                &["0", "5000", "5kpps", "4.5kpps", "9000pps"],
                &["9001", "10kpps", "5k", "5Mbit", "-1", ""],
                "from 0 to 9000, such as 5000 or 5kpps",
            ),
            (Kind::Limit { least: 1, most: 9 }, &["1", "none"], &["0", "inf"], "or none"),
            (
                Kind::Real { least: 0.0, most: 1.0 },
                &["0", "0.5", "1"],
                &["nan", "inf", "1.1", "-0.1"],
                "from 0 to 1",
            ),
            (
                Kind::Time { least: millis(1), most: millis(2) },
                &["1ms", "1.5ms"],
                &["3ms", "1us"],
                "from 1ms to 2ms",
            ),
            (Kind::Choice(&["a", "b"]), &["a"], &["c", "A"], "one of a, b"),
            (Kind::Trace, &["none"], &["/nosuch/file"], "No such file"),
        ] {
            for text in good {
                assert!(parse(kind, text).is_ok(), "{text}");
            }
            for text in bad {
                assert!(parse(kind, text).unwrap_err().contains(allowed), "{text}");
            }
        }
    }
}
