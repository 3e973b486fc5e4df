//! The units of systemd in docs/ are as their pages say.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::skipped;

const UNITS: [&str; 2] = ["softtimers-forward.service", "softtimers-wan.service"];
/// The path where a unit expects the command.
const INSTALLED: &str = "/usr/local/bin/softtimers";

fn unit(name: &str) -> String {
    let docs: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    fs::read_to_string(docs.join(name)).unwrap()
}

/// The values of a setting, of the unit itself and of what is to be added to it for more.
fn values<'a>(unit: &'a str, setting: &str) -> Vec<&'a str> {
    let lines = unit.lines().map(|line| line.trim_start_matches(['#', ' ']));
    lines
        .filter_map(|line| line.strip_prefix(setting)?.strip_prefix('='))
        .filter(|value| !value.is_empty())
        .collect()
}

#[test]
fn units_start_again_what_broke_off_and_nothing_else() {
    for name in UNITS {
        let unit = unit(name);
        // Of systemd.service(5): each exit code but 0 and those listed, and a kill; that all signals of the three come to 0,
        // the tests of signals show.
        assert_eq!(values(&unit, "Restart"), ["on-failure"], "{name}");
        assert_eq!(values(&unit, "RestartPreventExitStatus"), ["2 77"], "{name}");
        assert_eq!(values(&unit, "RestartSec"), ["1"], "{name}");
        for setting in ["ExecReload", "KillSignal", "SuccessExitStatus", "RestartForceExitStatus"] {
            assert!(values(&unit, setting).is_empty(), "{name}: {setting}");
        }
    }
}

/// systemd.exec(5) allows what a later line names, also where an earlier one forbids it.
#[test]
fn units_may_give_their_rights_up() {
    for name in UNITS {
        let unit = unit(name);
        let filters = values(&unit, "SystemCallFilter");
        let forbidden = filters.iter().position(|value| value.starts_with('~')).unwrap();
        let later: Vec<&str> = filters[forbidden + 1..].iter().flat_map(|value| value.split(' ')).collect();
        for call in
            ["capset", "seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"]
        {
            assert!(later.contains(&call), "{name}: {call}");
        }
    }
}

#[test]
fn systemd_understands_them() {
    let place = std::env::temp_dir().join(format!("softtimers-units-{}", std::process::id()));
    fs::create_dir_all(&place).unwrap();
    for name in UNITS {
        let path = place.join(name);
        fs::write(&path, unit(name).replace(INSTALLED, common::PROGRAM)).unwrap();
        match Command::new("systemd-analyze").arg("verify").arg(&path).output() {
            Ok(output) => assert!(output.status.success() && output.stderr.is_empty(), "{output:?}"),
            Err(error) => skipped(&format!("systemd-analyze: {error}")),
        }
    }
    fs::remove_dir_all(place).unwrap();
}
