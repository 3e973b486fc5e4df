//! Which kernel features work: each feature is used once, in a process of its own.
//!
//! A sandbox may answer a system call by killing its caller, and a probe's state must be gone when the probe ends for
//! any reason. So each probe is a process of this program with a hidden command:
//!
//! ```text
//!   doctor ──▶ softtimers --with-parent … probe-feature af_xdp ──▶ one finding on stdout
//!      └ no output in time, or killed: that is the finding
//! ```

use std::time::Duration;

use clap::Args;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use serde::{Deserialize, Serialize};
use softtimers_measure::child::Process;
use softtimers_measure::failure::Failure;
use softtimers_measure::interrupt::Interrupt;
use softtimers_net::kernel::{self, Feature};

use crate::run::output::print;
use crate::run::table::Table;

/// A feature of the kernel, and whether it works.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FeatureReport {
    /// The name of the feature.
    pub(crate) name: String,
    /// Whether it was seen to work for this user.
    pub(crate) works: bool,
    /// The evidence, or the reason why it does not work.
    pub(crate) how: String,
}

impl From<kernel::Finding> for FeatureReport {
    fn from(finding: kernel::Finding) -> Self {
        FeatureReport { name: finding.feature.name().to_owned(), works: finding.works, how: finding.how }
    }
}

impl FeatureReport {
    fn not(feature: Feature, why: impl ToString) -> Self {
        FeatureReport { name: feature.name().to_owned(), works: false, how: why.to_string() }
    }
}

/// Probes all features, one after another, until a signal arrives.
///
/// # Cost
/// About half a second; each probe has at most two.
pub(super) fn all(interrupt: &Interrupt) -> Vec<FeatureReport> {
    let probed = |&feature: &Feature| {
        let found = (!interrupt.arrived()).then(|| in_a_child(feature));
        // On a terminal, Ctrl-C ends the child too; that is not a finding.
        let found = found.filter(|_| !interrupt.arrived());
        found.unwrap_or_else(|| FeatureReport::not(feature, NOT_PROBED))
    };
    Feature::ALL.iter().map(probed).collect()
}

/// Returns the findings of a probe that has not run.
pub(super) fn blank() -> Vec<FeatureReport> {
    Feature::ALL.iter().map(|&feature| FeatureReport::not(feature, "")).collect()
}

const NOT_PROBED: &str = "not probed: interrupted";

/// Adds the findings for people: working features first. The evidence is shown with `verbose`.
pub(super) fn add_to(features: &[FeatureReport], verbose: bool, table: &mut Table) {
    let label_of = |found: &FeatureReport| match (found.works, found.how.as_str()) {
        (true, _) => "works here",
        (false, NOT_PROBED) => "not probed",
        (false, _) => "failed here",
    };
    for label in ["works here", "failed here", "not probed"] {
        let found: Vec<_> = features.iter().filter(|found| label_of(found) == label).collect();
        if found.is_empty() {
            continue;
        }
        let names: Vec<&str> = found.iter().map(|found| found.name.as_str()).collect();
        let all = features.len();
        if !verbose {
            table.row(label, format!("{} of {all}: {}", found.len(), names.join(", ")));
            continue;
        }
        table.row(label, format!("{} of {all}", found.len()));
        for FeatureReport { name, how, .. } in found {
            table.row("", format!("{name}: {how}"));
        }
    }
}

/// `softtimers probe-feature`.
#[derive(Args, Debug, Clone)]
pub(crate) struct ProbeFeatureArgs {
    /// The feature, by its name in `doctor`'s report
    #[arg(value_name = "NAME", value_parser = feature)]
    pub(crate) feature: Feature,
}

/// `softtimers probe-feature`: probes one feature in this process.
///
/// # Errors
/// If stdout cannot be written to.
pub(crate) fn run(args: &ProbeFeatureArgs) -> Result<(), Failure> {
    let feature = args.feature;
    // A process killed by a sandbox must not leave a core file behind.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let may_have_networks =
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    if feature.wants_own_network() && !may_have_networks {
        // Where users may not create namespaces, the probe itself will report it.
        let _ = kernel::own_user_namespace();
    }
    let found = serde_json::to_string(&FeatureReport::from(feature.probe()))
        .map_err(|error| Failure::check(format_args!("writing JSON: {error}")))?;
    print(&format!("{found}\n"))
}

fn feature(name: &str) -> Result<Feature, String> {
    Feature::named(name).ok_or_else(|| {
        let names = Feature::ALL.map(Feature::name).join(", ");
        format!("the features are {names}")
    })
}

fn in_a_child(feature: Feature) -> FeatureReport {
    let words = ["probe-feature", feature.name()].map(str::to_owned);
    Process::start("the probe".to_owned(), &words)
        .and_then(|child| child.finish_within(PROBE_PATIENCE))
        .unwrap_or_else(|failure| FeatureReport::not(feature, failure))
}

/// Several times the longest wait of a probe, on a loaded machine.
const PROBE_PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::screen::Screen;

    #[test]
    fn what_works_is_told_apart_and_fits() {
        let how = "a word and another ".repeat(12);
        let all: Vec<FeatureReport> = Feature::ALL
            .iter()
            .map(|&feature| FeatureReport {
                works: feature != Feature::BusyPoll,
                ..FeatureReport::not(feature, &how)
            })
            .collect();
        let mut table = Table::default();
        add_to(&all, true, &mut table);
        let text = table.draw(&Screen::PIPE);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let at = |word: &str| text.lines().position(|line| line.trim_start().starts_with(word));
        assert!(at("works here") < at("gso") && at("gso") < at("failed") && at("failed") < at("busy_poll"));
    }

    #[test]
    fn what_a_signal_left_untried_is_not_called_broken() {
        let feature = |feature, why| FeatureReport::not(feature, why);
        let found = [feature(Feature::Bpf, "Operation not permitted"), feature(Feature::Gso, NOT_PROBED)];
        let mut table = Table::default();
        add_to(&found, false, &mut table);
        let text = table.draw(&Screen::PIPE);
        assert!(text.contains("failed here  1 of 2: bpf"), "{text}");
        assert!(text.contains("not probed   1 of 2: gso"), "{text}");
    }
}
