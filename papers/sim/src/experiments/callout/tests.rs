use super::*;
use crate::{Setting, Value};

/// A run's numbers, by column.
fn find(set: &[(&str, Setting)]) -> impl Fn(&str) -> f64 + use<> {
    let parameters = Parameters::new(CALLOUT.parameters);
    let parameters = set.iter().fold(parameters, |all, (name, setting)| all.with(name, setting.clone()));
    let row = run(&parameters, Streams::new(1), &Steps::unwatched()).unwrap().remove(0);
    move |name| {
        let at = CALLOUT.columns.iter().position(|column| column.name == name).unwrap();
        match row[at] {
            Value::Count(count) => count as f64,
            Value::Real(number) => number,
            _ => f64::NAN,
        }
    }
}

fn at(kernel: &'static str, outstanding: u64) -> impl Fn(&str) -> f64 {
    find(&[("kernel", Setting::Choice(kernel)), ("outstanding", Setting::Count(outstanding))])
}

/// A protocol's timers: a thousand a second, of half a second each, almost all cancelled after 30 ms by an
/// answer.
fn protocol(kernel: &'static str, more: &[(&'static str, Setting)]) -> impl Fn(&str) -> f64 + use<> {
    let mut set = vec![
        ("kernel", Setting::Choice(kernel)),
        ("call", Setting::Time(Duration::ZERO)),
        ("rate", Setting::Limit(Some(1_000))),
        ("timeout", Setting::Limit(Some(50))),
        ("answer", Setting::Time(Duration::from_millis(30))),
        ("cancelled", Setting::Real(98.0)),
        ("iterations", Setting::Count(20_000)),
    ];
    set.extend_from_slice(more);
    find(&set)
}

const PAPERS: [u64; 6] = [0, 200, 400, 600, 800, 1_000];

//= CV-025, CV-026 (BSD timers, Table I)
#[test]
fn table_1_is_met_in_all_cells() {
    for (kernel, most) in [("old", 0.015), ("hash", 0.03), ("handles", 0.015)] {
        for outstanding in PAPERS {
            let off = at(kernel, outstanding)("off");
            assert!(off.abs() <= most, "{kernel} with {outstanding} is {off} off");
        }
    }
}

//= CV-002, CV-025 (BSD timers, Table I)
#[test]
fn the_old_list_is_a_straight_line() {
    let costs = PAPERS.map(|outstanding| at("old", outstanding)("set_cancel_us"));
    for (pair, outstanding) in costs.windows(2).zip(PAPERS) {
        assert!((pair[1] - pair[0] - 264.0).abs() < 1.0, "from {outstanding}: {pair:?}");
    }
    for outstanding in PAPERS {
        // All of them and the kernel's five, once for the set and once for the cancel.
        assert_eq!(at("old", outstanding)("passed"), 2.0 * (outstanding + 5) as f64);
    }
}

//= CV-008, CV-023, CV-025 (BSD timers, Table I)
#[test]
fn the_wheel_is_flat_to_a_hundred_thousand_and_handles_cost_less_than_a_hash() {
    let costs = |kernel| [0, 200, 1_000, 10_000, 100_000].map(|n| at(kernel, n)("set_cancel_us"));
    let (hash, handles) = (costs("hash"), costs("handles"));
    for (hash_cost, handles_cost) in hash.iter().zip(&handles) {
        assert!((hash_cost / hash[0] - 1.0).abs() < 0.01, "{hash:?}");
        assert!((handles_cost / handles[0] - 1.0).abs() < 0.01, "{handles:?}");
        assert!(handles_cost < hash_cost, "{handles:?} {hash:?}");
    }
}

//= CV-031 (BSD timers, "Why redesign?")
#[test]
fn with_no_other_timers_nothing_is_lost() {
    let old = at("old", 0)("set_cancel_us");
    for kernel in ["hash", "handles"] {
        let new = at(kernel, 0)("set_cancel_us");
        assert!(new <= old, "{kernel}: {new}, {old} before");
    }
}

//= CV-012 (BSD timers, figure 5)
#[test]
fn interrupts_are_held_off_the_longer_the_more_timers_by_the_list_alone() {
    let longest = |kernel| [100, 1_000, 10_000].map(|n| at(kernel, n)("longest_us"));
    assert!(longest("old").windows(2).all(|pair| pair[1] > 8.0 * pair[0]), "{:?}", longest("old"));
    for kernel in ["hash", "handles"] {
        let [few, .., many] = longest(kernel);
        // At most one other timer in a chain of the hash table.
        assert!((many - few).abs() < 0.7, "{kernel}: {:?}", longest(kernel));
    }
    // Longer than a tick, and the clock loses time.
    let few = ("iterations", Setting::Count(500));
    let many = ("outstanding", Setting::Count(20_000));
    assert!(find(&[("kernel", Setting::Choice("old")), few.clone(), many.clone()])("lost_ticks") > 0.0);
    assert_eq!(find(&[("kernel", Setting::Choice("handles")), few, many])("lost_ticks"), 0.0);
}

//= CV-007 (BSD timers, "New timer algorithm")
#[test]
fn the_papers_wheel_has_the_next_power_of_two_of_buckets() {
    for (outstanding, buckets) in
        [(0, 8.0), (11, 16.0), (12, 32.0), (1_000, 1_024.0), (1_019, 1_024.0), (1_020, 2_048.0)]
    {
        let few = ("iterations", Setting::Count(10));
        let found = find(&[("outstanding", Setting::Count(outstanding)), few]);
        // The kernel's own five are among them.
        assert_eq!(found("buckets"), buckets, "{outstanding} and five timers");
    }
}

#[test]
fn a_tick_looks_through_as_many_timers_as_there_are_by_buckets() {
    let buckets = [16, 64, 256, 1_024, 4_096];
    let scans = buckets.map(|buckets| {
        let found = find(&[
            ("outstanding", Setting::Count(2_000)),
            ("buckets", Setting::Limit(Some(buckets))),
            ("rate", Setting::Limit(Some(100))),
        ]);
        let (scan, expected) = (found("scan"), found("expected_scan"));
        assert!((scan / expected - 1.0).abs() < 0.1, "{buckets} buckets: {scan}, not {expected}");
        assert!((expected * buckets as f64 / 2_005.0 - 1.0).abs() < 0.01, "{buckets} buckets: {expected}");
        [scan, found("scan_us")]
    });
    for pair in scans.windows(2) {
        assert!(pair[1][0] < pair[0][0] / 3.0 && pair[1][1] < pair[0][1], "{scans:?}");
    }
    // However full a bucket is, it is scanned 100 steps at a time.
    let full = [("buckets", Setting::Limit(Some(1))), ("steps", Setting::Limit(Some(100)))];
    assert_eq!(find(&full)("scan_us"), 12.0 * 100.0 * 0.06);
}

//= CV-012 (BSD timers, figure 5)
#[test]
fn a_hundred_thousand_timers_in_one_bucket_hold_interrupts_off_no_longer_than_a_thousand() {
    let longest = |outstanding, steps| {
        find(&[
            ("outstanding", Setting::Count(outstanding)),
            ("buckets", Setting::Limit(Some(1))),
            ("steps", Setting::Limit(Some(steps))),
            ("rate", Setting::Limit(Some(100))),
            ("iterations", Setting::Count(10)),
        ])("scan_us")
    };
    for steps in [10, 100, 1_000] {
        assert_eq!(longest(1_000, steps), longest(100_000, steps), "{steps} steps");
    }
    assert!(longest(100_000, 100) * 10.0 == longest(100_000, 1_000), "it is the steps that decide");
}

#[test]
fn a_timer_is_cancelled_or_expires() {
    for kernel in ["old", "hash", "handles"] {
        let shares = [0.0, 50.0, 98.0, 100.0].map(|share| {
            let found = protocol(kernel, &[("cancelled", Setting::Real(share))]);
            let cancelled = found("cancelled");
            assert!((cancelled - share / 100.0).abs() < 0.01, "{kernel}: {cancelled}, not {share}%");
            let gone = cancelled * 20_000.0 + found("expired");
            // Those of the last half second are still there.
            assert!((19_400.0..=20_000.0).contains(&gone), "{kernel}: {gone}");
            found("expired")
        });
        assert!(shares.is_sorted_by(|more, less| more > less), "{kernel}: {shares:?}");
    }
}

#[test]
fn all_kernels_expire_the_same_timers() {
    let expired = ["old", "hash", "handles"].map(|kernel| protocol(kernel, &[])("expired"));
    assert!(expired.iter().all(|count| *count == expired[0]), "{expired:?}");
}

//= CV-030 (BSD timers, "Why redesign?")
#[test]
fn forty_thousand_packets_a_second_are_within_reach_of_a_wheel() {
    let many = [("rate", Setting::Limit(Some(40_000))), ("outstanding", Setting::Count(1_000))];
    let wheel = protocol("handles", &many)("cpu_share");
    assert!((0.2..0.4).contains(&wheel), "{wheel} of the machine of 1995");
    let old = protocol("old", &many)("cpu_share");
    assert!(old > 0.99, "{old}");
}

/// The wheel cascades a few timers at a time, which is all that a tick does for them.
#[test]
fn moves_are_few_and_paced() {
    let found = |outstanding| {
        find(&[
            ("kernel", Setting::Choice("handles")),
            ("hz", Setting::Count(10_000)),
            ("far", Setting::Count(400_000)),
            ("rate", Setting::Limit(Some(100))),
            ("iterations", Setting::Count(4_000)),
            ("outstanding", Setting::Count(outstanding)),
        ])
    };
    // Up to 1,024 are in no slot.
    let (few, many) = (found(2_000), found(20_000));
    assert!(few("expired") > 1_800.0 && many("expired") > 18_000.0);
    assert!(many("moves") > 0.0 && many("moves") < 0.1, "{} a tick", many("moves"));
    assert!(many("longest_us") <= 3.0 * few("longest_us"), "{} {}", many("longest_us"), few("longest_us"));
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |set: &[(&str, Setting)]| {
        let parameters = Parameters::new(CALLOUT.parameters);
        let parameters = set.iter().fold(parameters, |all, (name, value)| all.with(name, value.clone()));
        run(&parameters, Streams::new(1), &Steps::unwatched()).unwrap_err().to_string()
    };
    assert!(refused(&[("buckets", Setting::Limit(Some(100)))]).contains("buckets 100"));
    let old = [("kernel", Setting::Choice("old")), ("outstanding", Setting::Count(200_000))];
    assert!(refused(&old).contains("at most 1000000000"));
}
