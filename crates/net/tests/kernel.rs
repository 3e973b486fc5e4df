//! Probing from within a program: it leaves the program as it was. One test only, because it counts
//! the threads and descriptors of the whole process.

use std::fs;
use std::time::Duration;

use softtimers::{Clock, Monotonic};
use softtimers_net::kernel::{self, Feature};

#[test]
fn a_program_that_probes_is_afterwards_as_it_was() {
    let state = || {
        let entries = |directory: &str| fs::read_dir(directory).unwrap().count();
        let network = fs::read_link("/proc/thread-self/ns/net").unwrap();
        let user = fs::read_link("/proc/thread-self/ns/user").unwrap();
        let slack = fs::read_to_string("/proc/thread-self/timerslack_ns").ok();
        let scheduling = fs::read_to_string("/proc/thread-self/sched")
            .ok()
            .and_then(|sched| sched.lines().find(|line| line.starts_with("se.slice")).map(str::to_owned));
        (entries("/proc/self/task"), entries("/proc/self/fd"), network, user, slack, scheduling)
    };
    let before = state();
    let findings = kernel::all();
    assert_eq!(findings.iter().map(|finding| finding.feature).collect::<Vec<_>>(), Feature::ALL);
    for finding in &findings {
        assert!(!finding.how.is_empty(), "{finding:?}");
        assert_eq!(Feature::named(finding.feature.name()), Some(finding.feature));
    }
    // A thread that has been joined may still be on its way out.
    let patience = Monotonic.now() + Duration::from_secs(30);
    while state() != before {
        assert!(Monotonic.now() < patience, "{:?}, was {before:?}", state());
        std::thread::yield_now();
    }
}
