use softtimers_core::Random;

use super::*;
use crate::{Setting, Value};

/// Returns these columns of a run with these settings.
fn found<const N: usize>(columns: [&str; N], settings: &[(&'static str, Setting)]) -> [f64; N] {
    let parameters = settings
        .iter()
        .fold(Parameters::new(RELAY.parameters), |all, (name, setting)| all.with(name, setting.clone()));
    let row = run(&parameters, Streams::new(7), &Steps::unwatched()).unwrap().remove(0);
    columns.map(|name| {
        let place = RELAY.columns.iter().position(|column| column.name == name).unwrap();
        match row[place] {
            Value::Count(number) => number as f64,
            Value::Real(number) => number,
            ref other => panic!("{name}: {other:?}"),
        }
    })
}

fn count(name: &'static str, number: u64) -> (&'static str, Setting) {
    (name, Setting::Count(number))
}

fn time(name: &'static str, nanos: u64) -> (&'static str, Setting) {
    (name, Setting::Time(Duration::from_nanos(nanos)))
}

fn even() -> (&'static str, Setting) {
    ("hash", Setting::Choice("even"))
}

/// A packet of a full turn takes a packet's time, the serial part, and its share of the turn's.
#[test]
fn one_poller_under_flood_carries_what_the_arithmetic_says() {
    let [relayed] = found(
        ["relayed_kpps"],
        &[
            count("pollers", 1),
            count("load", 200),
            count("quota", 50),
            time("packet", 1_500),
            time("turn", 20_000),
            time("shared", 100),
            time("duration", 100_000_000),
        ],
    );
    let expected = 1e6 / (1_500.0 + 20_000.0 / 50.0 + 100.0);
    assert!((relayed / expected - 1.0).abs() < 0.002, "{relayed} of {expected}");
}

/// With one packet a turn, and no cost of turns and wake-ups, it is a queue of Poisson arrivals with constant
/// service, M/D/1.
#[test]
fn one_poller_waits_as_a_queue_with_constant_service() {
    for load in [30, 60, 80] {
        let free = ["turn", "wake-up", "shared", "receive"].map(|name| time(name, 0));
        let own = [
            count("pollers", 1),
            count("load", load),
            count("quota", 1),
            time("packet", 1_000),
            time("duration", 500_000_000),
        ];
        let [delay] = found(["delay_us"], &[&free[..], &own].concat());
        let rho = load as f64 / 100.0;
        let expected = 1.0 + rho / (2.0 * (1.0 - rho));
        assert!((delay / expected - 1.0).abs() < 0.02, "{delay} of {expected} at {load}%");
    }
}

#[test]
fn without_a_shared_part_and_with_an_even_hash_n_are_n_times_as_fast() {
    for pollers in [1, 2, 8, 64] {
        let [share, busiest] = found(
            ["of_perfect", "busiest"],
            &[even(), count("pollers", pollers), count("load", 150), time("shared", 0)],
        );
        assert!((0.985..=1.005).contains(&share), "{share} with {pollers}");
        assert!((busiest * pollers as f64 - 1.0).abs() < 1e-9, "{busiest}");
    }
}

/// If the kernel receives on the pollers' CPUs, packets that it receives and drops take CPU time from the
/// pollers: receive livelock.
#[test]
fn a_flood_starves_pollers_whose_cpus_receive() {
    let at = |load| {
        let settings =
            [("softirq", Setting::Choice("same")), even(), count("load", load), time("receive", 500)];
        found(["of_perfect"], &settings)[0]
    };
    let (fits, flood, livelock) = (at(95), at(200), at(800));
    assert!(fits > 0.9 && flood < 0.9 && livelock < 0.1, "{fits} {flood} {livelock}");
}

/// The busiest poller fills first: its excess packets are lost while others sleep.
#[test]
fn few_clients_leave_pollers_idle() {
    let of = |clients| {
        found(["of_perfect"], &[count("pollers", 64), count("load", 100), count("clients", clients)])[0]
    };
    let (few, many) = (of(64), of(100_000));
    assert!(few < 0.75 && many > 0.9, "{few} {many}");
}

/// Amdahl: no more than N times one poller, and no more than the serial part allows.
#[test]
fn no_more_leaves_than_the_bounds_allow() {
    let mut random = Random::stream(32, 0);
    let mut between = |least: u64, most: u64| least + random.below(most - least + 1);
    for _ in 0..48 {
        let pollers = between(1, 64);
        let settings = [
            count("pollers", pollers),
            count("load", between(20, 300)),
            count("clients", between(1, 2_000)),
            time("packet", between(200, 3_000)),
            time("turn", between(0, 20_000)),
            time("shared", between(0, 500)),
            ("softirq", Setting::Choice(["same", "other"][between(0, 1) as usize])),
            time("duration", 5_000_000),
        ];
        let [relayed, of_perfect, bound] = found(["relayed_kpps", "of_perfect", "bound_kpps"], &settings);
        // A turn that began before the window may end in it, and packets received before it take less time.
        let turns = 64.0 * pollers as f64 / 4.5;
        assert!(relayed <= 1.02 * bound + turns, "{relayed} of {bound}: {settings:?}");
        assert!(of_perfect <= 1.02 + turns / bound, "{of_perfect}: {settings:?}");
    }
}

/// Each packet that came is relayed, lost, or waits in a buffer.
#[test]
fn packets_are_relayed_or_lost() {
    let mut random = Random::stream(32, 1);
    let mut between = |least: u64, most: u64| least + random.below(most - least + 1);
    for _ in 0..24 {
        let (pollers, buffer) = (between(1, 8), between(1, 500));
        let settings = [count("pollers", pollers), count("load", between(20, 300)), count("buffer", buffer)];
        let [offered, relayed, lost] = found(["offered_kpps", "relayed_kpps", "lost"], &settings);
        // In the 18 ms of the window; some also wait at its beginning, for the poller or to be received.
        let unaccounted = (offered * (1.0 - lost) - relayed).abs() * 18.0;
        assert!(unaccounted <= (2 * pollers * buffer) as f64 + 1.0, "{unaccounted}: {settings:?}");
    }
}

/// A seed gives the same rows.
#[test]
fn a_run_repeats() {
    let all = || found(["relayed_kpps", "delay_us", "p99_us", "busiest"], &[count("pollers", 8)]);
    assert_eq!(all().map(f64::to_bits), all().map(f64::to_bits));
}
