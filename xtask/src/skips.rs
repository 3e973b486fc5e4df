//! Which skipped tests `.ci/run` accepts. A test that skips itself for lack of a program that a package would have
//! brought looks like a pass to everybody who does not read the list, so only what a package cannot bring may be missing.

use crate::report::Outcome;

/// Set by `.ci/run` once it has installed the packages that CONTRIBUTING lists.
const COMPLETE: &str = "SOFTTIMERS_COMPLETE";

/// How a test says that it had no CPU, and how many may say so.
const STILL: &str = "the machine stood still";
const MOST_STILL: usize = 8;

/// Parts of reasons, each with what the machine lacks.
const ALLOWED: &[(&str, &str)] = &[
    ("--timer kernel", "the queueing discipline fq, a part of the kernel"),
    ("Toxiproxy's server", "a Go compiler newer than Debian's, or the modules that it downloads"),
    ("no fq", "the queueing discipline fq, a part of the kernel"),
    ("performance counter", "the CPU's performance counters"),
    (STILL, "a CPU, in the moment of the run: another one finds it"),
    ("open tun socket", "tun devices, a part of the kernel, which pasta and slirp4netns make"),
];

/// Checks the `name: reason` of skipped tests, where the machine is to be complete.
pub(crate) fn check(skipped: &[String]) -> Outcome {
    if std::env::var_os(COMPLETE).is_none() {
        return Outcome::skipped(format!("{COMPLETE} is not set: packages may be missing"));
    }
    judge(skipped)
}

fn judge(skipped: &[String]) -> Outcome {
    let avoidable = skipped.iter().filter(|line| !ALLOWED.iter().any(|(part, _)| line.contains(part)));
    let problems = avoidable.map(|line| format!("skipped on a complete machine: {line}"));
    // One test may meet a bad moment; where many do, they prove nothing.
    let still = skipped.iter().filter(|line| line.contains(STILL)).count();
    let stands = (still > MOST_STILL).then(|| format!("{still} tests were skipped because {STILL}"));
    Outcome::of(
        problems.chain(stands).collect(),
        "the skipped tests want another kernel or CPU, or a quieter moment",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_package_brings_may_be_missing() {
        let fq = "softtimers-bpf::egress::fq_keeps_the_times: no fq here: unknown".to_owned();
        let busy = "softtimers-cli::bench::a: the machine stood still: 9 were sent".to_owned();
        assert!(matches!(judge(&[fq.clone(), busy.clone()]), Outcome::Passed(_)));
        assert!(matches!(judge(&vec![busy; 9]), Outcome::Failed(_)));
        let dig = "softtimers-cli::wan::names: there is no dig".to_owned();
        assert_eq!(
            judge(&[fq, dig.clone()]),
            Outcome::failed(format!("skipped on a complete machine: {dig}"))
        );
    }
}
