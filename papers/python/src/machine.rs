//! A machine for the simulator, as Python has it: [`defaults`] of a preset's name, or of what `tomllib` makes of `softtimers sim machine`.

use pyo3::prelude::*;
use pyo3::types::PyMapping;
use softtimers_sim::machine::{Key, MachineSpec, PRESETS};
use softtimers_sim::{Experiment, Hashed, Parameters};

use crate::plan::wrong;
use crate::setting;

/// Returns the defaults of an experiment on a machine.
///
/// # Errors
/// `ValueError` that names the key, and says what is allowed.
pub(crate) fn defaults(machine: &Bound<'_, PyAny>, experiment: &Experiment) -> PyResult<Parameters> {
    let (name, mut spec) = if let Ok(name) = machine.extract::<String>() {
        let spec = preset("machine", &name)?;
        (name, spec)
    } else {
        let keys = machine.cast::<PyMapping>()?;
        let mut spec = MachineSpec::new();
        if keys.contains(BASED_ON)? {
            let name: String = keys.get_item(BASED_ON)?.extract()?;
            spec = preset(BASED_ON, &name)?;
        }
        section(&mut spec, "", keys)?;
        ("machine".to_owned(), spec)
    };
    // As the command has it for a preset: the hash of what it is printed as.
    let printed = spec.to_string();
    spec.described_in(name, Hashed::new(printed.as_bytes()).finish().0);
    spec.parameters(experiment).map_err(wrong)
}

/// Sets the keys of a section and of those below it. Unknown sections are refused at once, so a mapping that contains itself
/// ends the recursion.
fn section(spec: &mut MachineSpec, name: &str, keys: &Bound<'_, PyMapping>) -> PyResult<()> {
    for item in keys.items()? {
        let (key, value): (String, Bound<'_, PyAny>) = item.extract()?;
        if let Ok(below) = value.cast::<PyMapping>() {
            let path = if name.is_empty() { key } else { format!("{name}.{key}") };
            Key::check_section(&path).map_err(wrong)?;
            section(spec, &path, below)?;
        } else if !(name.is_empty() && key == BASED_ON) {
            let known = Key::find(name, &key).map_err(wrong)?;
            let setting = setting::read_kind(known.kind, &format!("{name}.{key}"), &value)?;
            spec.set(name, &key, &setting).map_err(wrong)?;
        }
    }
    Ok(())
}

fn preset(what: &str, name: &str) -> PyResult<MachineSpec> {
    let preset = MachineSpec::preset(name);
    preset.ok_or_else(|| wrong(format!("{what}={name}: one of {}", PRESETS.join(", "))))
}

const BASED_ON: &str = "based-on";
