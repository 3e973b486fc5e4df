//! Table 3, its relations and the statements of the text, on the reconstructed traces with several seeds, and
//! on two real recordings to which nothing was fitted.

use std::time::Duration;

use softtimers_core::{Timestamp, Trace, TraceBuilder};
use softtimers_poll::HipConfig;
use softtimers_poll::readings::{Costs, Deviation, Reading, Rounding};
use softtimers_poll::{AnyPolicy, Factor, Preset};

mod clock_period;
mod machine;

use super::paper::{self, TRACES};
use super::scheme::{Scheme, Schemes, Settings};
use super::{HIP, fit, traces};
use crate::engine::arrivals::{self, Bursts, SelfSimilar, SelfSimilarConfig};
use crate::engine::receiver::ReceiveStats;
use crate::{Parameters, Setting, Steps, Streams, Value};

const HIP_TRACES_OF: crate::constants::HipTraces = crate::constants::Machine::PAPERS.hip_traces;
const FITTED: [Bursts; 6] = traces::fitted(&HIP_TRACES_OF, Reading::Counter);
const FITTED_EVENT: [Bursts; 6] = traces::fitted(&HIP_TRACES_OF, Reading::Event);
const TABLE_3: [Scheme; 3] = [Scheme::Interrupts, Scheme::Polling, Scheme::Hip];
const SEEDS: std::ops::Range<u64> = 1..4;
const READINGS: [HipConfig; 2] = [HipConfig::preset(Preset::Paper), HipConfig::event()];

fn trace(index: usize, seed: u64) -> Trace {
    traces::lan(&HIP_TRACES_OF, &TRACES[index], FITTED[index]).trace(Streams::new(seed)).unwrap()
}

/// All of Table 1.
fn table_1(seed: u64) -> impl Iterator<Item = (&'static paper::PaperTrace, Trace)> {
    TRACES.iter().enumerate().map(move |(index, row)| (row, trace(index, seed)))
}

/// The packets that a workstation received, with payload and addresses removed: see `traces/README.md`.
fn recordings() -> [Trace; 2] {
    let files = [
        include_str!("../../../traces/pcappp_browse_rx.csv"),
        include_str!("../../../traces/pcappp_tls_rx.csv"),
    ];
    files.map(|text| {
        let mut builder = TraceBuilder::default();
        for (time, length) in text.lines().filter_map(|line| line.split_once(',')) {
            if let (Ok(micros), Ok(length)) = (time.parse(), length.parse()) {
                builder.push(Timestamp::from_micros(micros), length);
            }
        }
        builder.finish().unwrap()
    })
}

fn run(scheme: Scheme, settings: &Settings, trace: &Trace) -> ReceiveStats {
    settings.run(scheme, arrivals::of_trace(trace), 1, |_, _| ())
}

fn with(hip: HipConfig) -> Settings {
    Settings { hip, ..Settings::PAPER }
}

#[test]
fn interrupts_alone_are_exact() {
    for (index, row) in TRACES.iter().enumerate() {
        for seed in SEEDS {
            let account = run(Scheme::Interrupts, &Settings::PAPER, &trace(index, seed));
            let paper = row.found.interrupts_overhead;
            assert!((account.overhead_us() - paper).abs() <= 0.05, "{}: {}", row.name, account.overhead_us());
            // V_I + V(mean B), and the same delay.
            let exact = 5.0 + 0.5 * f64::from(row.bytes) / 1_500.0;
            assert!((account.overhead_us() - exact).abs() < 0.001, "{}: {exact}", row.name);
            assert!((account.delay_us() - exact).abs() < 0.001, "{}", row.name);
        }
    }
}

#[test]
fn polling_costs_more_the_less_there_is_to_poll() {
    let mut means = [0.0; 6];
    for seed in SEEDS {
        let found: Vec<f64> = (0..6)
            .map(|index| run(Scheme::Polling, &Settings::PAPER, &trace(index, seed)).overhead_us())
            .collect();
        let [high, medium, low] = [0, 2, 4].map(|class| (found[class] + found[class + 1]) / 2.0);
        assert!(high < medium && medium < low, "{found:?}");
        for index in [4, 5] {
            let interrupts = run(Scheme::Interrupts, &Settings::PAPER, &trace(index, seed)).overhead_us();
            assert!(found[index] > 3.0 * interrupts, "{found:?} by polls, {interrupts} by interrupts");
        }
        means.iter_mut().zip(found).for_each(|(mean, found)| *mean += found / SEEDS.count() as f64);
    }
    for (row, mean) in TRACES.iter().zip(means) {
        assert!((mean / row.found.polling_overhead - 1.0).abs() < 0.1, "{}: {mean}", row.name);
    }
}

/// Overheads by [`TABLE_3`], each the mean of the [`DRAWINGS`] of a trace: the paper's is from one recording,
/// while a single sample of the model varies at random.
fn mean_overheads(settings: &Settings, fitted: &[arrivals::Bursts; 6]) -> [[f64; 3]; 6] {
    std::array::from_fn(|index| {
        let mut means = [0.0; 3];
        for seed in DRAWINGS {
            let trace =
                traces::lan(&HIP_TRACES_OF, &TRACES[index], fitted[index]).trace(Streams::new(seed)).unwrap();
            let found = TABLE_3.map(|scheme| run(scheme, settings, &trace).overhead_us());
            means.iter_mut().zip(found).for_each(|(mean, found)| *mean += found / DRAWINGS.count() as f64);
        }
        means
    })
}

const DRAWINGS: std::ops::Range<u64> = 1..9;

/// Table 3: "for lower input rates it consistently introduces a lower overhead than the interrupt-based and
/// polling-based schemes", and at high ones that of polling, 0.9, almost six times below interrupts (§6).
#[test]
fn the_hybrid_costs_least_and_a_sixth_at_high_rates() {
    for (config, fitted) in READINGS.into_iter().zip([&FITTED, &FITTED_EVENT]) {
        let means = mean_overheads(&with(config), fitted);
        for (row, [interrupts, polling, hip]) in TRACES.iter().zip(means) {
            let name = row.name;
            assert!(hip < interrupts, "{name}: {hip} and {interrupts}");
            if name.starts_with("t-high") {
                assert!((hip - row.found.overhead).abs() < 0.05, "{name}: {hip}");
                assert!((5.5..6.2).contains(&(interrupts / hip)), "{name}: {hip} of {interrupts}");
                // The paper prints the same for both. By the event reading polls alone cost a tenth less on T-High-1.
                let most = if config == READINGS[0] { polling } else { polling + 0.12 };
                assert!(hip < most, "{name}: {hip} and {polling}");
            } else {
                assert!(hip < polling, "{name}: {hip} and {polling}");
            }
        }
    }
    for trace in recordings() {
        let [interrupts, polling, hip] =
            TABLE_3.map(|scheme| run(scheme, &Settings::PAPER, &trace).overhead_us());
        assert!(hip < interrupts && hip < polling, "{interrupts} {polling} {hip}");
    }
}

#[test]
fn its_delay_is_below_pollings_and_about_a_millisecond() {
    for seed in SEEDS {
        for (row, trace) in table_1(seed) {
            let [polling, hip] =
                [Scheme::Polling, Scheme::Hip].map(|scheme| run(scheme, &Settings::PAPER, &trace).delay_us());
            assert!(hip < polling, "{}: {hip} and {polling}", row.name);
            assert!((300.0..1_800.0).contains(&hip), "{}: {hip}", row.name);
        }
    }
    for trace in recordings() {
        let [polling, hip] =
            [Scheme::Polling, Scheme::Hip].map(|scheme| run(scheme, &Settings::PAPER, &trace).delay_us());
        assert!(hip < polling, "{hip} and {polling}");
    }
}

#[test]
fn the_mix_of_interrupts_and_polls_is_the_papers() {
    for (index, row) in TRACES.iter().enumerate() {
        let accounts: Vec<_> =
            SEEDS.map(|seed| run(Scheme::Hip, &Settings::PAPER, &trace(index, seed))).collect();
        let mean = |of: fn(&ReceiveStats) -> u64| {
            accounts.iter().map(of).sum::<u64>() as f64 / accounts.len() as f64
        };
        for (found, paper) in [
            (mean(|account| account.interrupts), row.found.interrupts),
            (mean(|account| account.polls), row.found.polls),
            (mean(|account| account.unsuccessful), row.found.unsuccessful),
        ] {
            assert!((found / f64::from(paper) - 1.0).abs() < 0.25, "{}: {found} for {paper}", row.name);
        }
        for account in accounts {
            let share = account.unsuccessful_share();
            // 40 to 77% in the paper.
            assert!((0.39..0.79).contains(&share), "{}: {share} of polls in vain", row.name);
            assert!((account.packets_per_poll() - row.found.packets_per_poll).abs() < 0.25, "{}", row.name);
        }
    }
}

/// The reading of section 6, with the traffic fitted to it, reproduces the table too.
#[test]
fn the_other_reading_gives_the_table_too() {
    for ((row, bursts), most) in TRACES.iter().zip(FITTED_EVENT).zip([0.02, 0.02, 0.1, 0.02, 0.25, 0.25]) {
        let error = fit::error_of(&HIP_TRACES_OF, row, bursts, READINGS[1]);
        assert!(error < most, "{}: {error}", row.name);
    }
}

#[test]
fn no_delay_is_longer_than_the_longest_period_and_a_tick() {
    let costs = Costs::HIP;
    for config in READINGS {
        for shortest in [100, 1_000, 3_000] {
            let config = HipConfig { shortest: Duration::from_micros(shortest), ..config };
            let self_similar = SelfSimilarConfig::new(Duration::from_millis(3), 700);
            let mut builder = TraceBuilder::default();
            for packet in SelfSimilar::new(self_similar, Streams::new(2)).take(20_000) {
                builder.push(packet.at, packet.bytes as u16);
            }
            let made = [builder.finish().unwrap(), trace(0, 7), trace(3, 7), trace(5, 7)];
            for trace in recordings().into_iter().chain(made) {
                for scheme in [Scheme::Hip, Scheme::Polling] {
                    let account = run(scheme, &with(config), &trace);
                    // One look takes at most the packets of the longest period at the peak rate.
                    let peak = trace.peak(config.longest * 2) as u64;
                    let look = costs.interrupt_period(peak * 1_514);
                    let bound = config.longest + config.shortest + look;
                    assert!(account.longest_delay <= bound, "{scheme:?}: {:?}", account.longest_delay);
                }
            }
        }
    }
}

/// Overhead never rises and delay never falls, for each trace.
fn falls_and_rises(values: &[u32], config: impl Fn(Factor) -> HipConfig) {
    for (row, trace) in table_1(1) {
        let accounts: Vec<_> = values
            .iter()
            .map(|&value| run(Scheme::Hip, &with(config(Factor::thousandths(value))), &trace))
            .collect();
        let name = row.name;
        for pair in accounts.windows(2) {
            let [less, more] = [&pair[0], &pair[1]];
            assert!(more.overhead_us() <= less.overhead_us() * 1.001, "{name}: overhead {pair:?}");
            assert!(more.delay_us() >= less.delay_us() * 0.999, "{name}: delay {pair:?}");
        }
        let (first, last) = (&accounts[0], &accounts[accounts.len() - 1]);
        assert!(last.overhead_us() < first.overhead_us() && last.delay_us() > first.delay_us(), "{name}");
    }
}

#[test]
fn a_larger_gamma_polls_more() {
    falls_and_rises(&[250, 500, 1_000, 1_500, 2_000, 3_000, 4_000], |gamma| HipConfig {
        gamma,
        ..READINGS[0]
    });
}

#[test]
fn a_larger_phi_polls_less_often() {
    falls_and_rises(&[0, 500, 1_000, 2_000, 2_500, 3_000, 4_000, 5_000], |phi| HipConfig {
        phi,
        ..READINGS[0]
    });
}

/// Table 3 has figures only for the values of Table 2.
#[test]
fn the_papers_figures_stand_beside_the_papers_parameters_only() {
    let papers = |name, setting| {
        let parameters = Parameters::new(HIP.parameters)
            .with("synthetic", Setting::Choice("t-low-1"))
            .with("scheme", Setting::Choice("hip"))
            .with(name, setting);
        let row = (HIP.run)(&parameters, Streams::new(1), &Steps::unwatched()).unwrap().remove(0);
        let beside = row.into_iter().zip(HIP.columns).filter(|(_, column)| column.name.starts_with("paper_"));
        beside.filter(|(value, _)| *value != Value::Missing).count()
    };
    let millis = |millis| Setting::Time(Duration::from_millis(millis));
    for (name, of_paper, other) in [
        ("gamma", Setting::Real(2.0), Setting::Real(3.0)),
        ("phi", Setting::Real(2.5), Setting::Real(2.0)),
        ("t-min", millis(1), millis(2)),
        ("t-max", millis(10), millis(20)),
        ("costs", Setting::Choice("table-2"), Setting::Choice("cm5")),
    ] {
        assert_eq!((papers(name, of_paper), papers(name, other)), (6, 0), "{name}");
    }
    // The reading of the text is not a parameter of Table 2.
    assert_eq!(papers("reading", Setting::Choice("event")), 6);
}

/// With the default settings: against the clock in either reading, on the traffic of either and on
/// recordings.
#[test]
fn on_soft_timers_it_decides_alike_and_delays_less() {
    let event = TRACES.iter().zip(FITTED_EVENT);
    let event =
        event.map(|(row, bursts)| traces::lan(&HIP_TRACES_OF, row, bursts).trace(Streams::new(1)).unwrap());
    for trace in table_1(1).map(|(_, trace)| trace).chain(event).chain(recordings()) {
        let soft = run(Scheme::HipSoft, &Settings::PAPER, &trace);
        for config in READINGS {
            let clock = run(Scheme::Hip, &with(config), &trace);
            assert!(soft.delay_us() < clock.delay_us(), "{} {}", soft.delay_us(), clock.delay_us());
            let most = if config == READINGS[1] { 1.06 } else { 1.1 };
            assert!(soft.overhead_us() < clock.overhead_us() * most, "{soft:?} {clock:?}");
            let share = |account: &ReceiveStats| account.by_poll as f64 / account.packets() as f64;
            assert!((share(&soft) - share(&clock)).abs() < 0.05, "{} {}", share(&soft), share(&clock));
        }
        // A trigger state comes within a millisecond.
        let bound = READINGS[1].longest + Duration::from_millis(1) + Duration::from_micros(50);
        assert!(soft.longest_delay <= bound, "{:?}", soft.longest_delay);
    }
}

/// The other reading of section 5: the event is set at a poll and left alone. Periods are longer because no
/// tick cuts them short.
#[test]
fn on_soft_timers_a_period_that_is_left_alone_saves_polls_and_not_time() {
    let left_alone = Settings { soft_reading: Reading::Counter, ..Settings::PAPER };
    for (row, trace) in table_1(1) {
        let [clock, soft] = [Scheme::Hip, Scheme::HipSoft].map(|scheme| run(scheme, &left_alone, &trace));
        assert!(soft.delay_us() > clock.delay_us() && soft.polls < clock.polls, "{}", row.name);
    }
    // When a period would be shorter than a tick, a finer one saves time in this reading too.
    let often = || {
        (1..=20_000).map(|packet| arrivals::Arrival { at: Timestamp::from_micros(200 * packet), bytes: 900 })
    };
    let [clock, soft] =
        [Scheme::Hip, Scheme::HipSoft].map(|scheme| left_alone.run(scheme, often(), 1, |_, _| ()));
    assert!(soft.delay_us() < 0.5 * clock.delay_us(), "{} {}", soft.delay_us(), clock.delay_us());
}

#[test]
fn the_baselines_are_what_they_are() {
    let trace = trace(0, 1);
    let seconds = trace.span().as_secs_f64();
    for hertz in [500u64, 1_000, 4_000] {
        let settings = Settings { period: Duration::from_nanos(1_000_000_000 / hertz), ..Settings::PAPER };
        let [constant, clocked] =
            [Scheme::Constant, Scheme::Clocked].map(|scheme| run(scheme, &settings, &trace));
        let ticks = seconds * hertz as f64;
        assert!((clocked.polls as f64 - ticks).abs() <= 2.0, "{hertz} Hz: {}", clocked.polls);
        assert_eq!((clocked.polls, clocked.interrupts), (constant.polls, 0));
        // Each tick of a separate clock is an interrupt, whether or not a packet arrived.
        let more = (clocked.busy_nanos() - constant.busy_nanos()) as f64 / clocked.polls as f64;
        assert!((more - 5_000.0).abs() < 1.0, "{more}");
        // On average half a period.
        let delay = clocked.delay_us() / (500_000.0 / hertz as f64);
        assert!((0.9..1.2).contains(&delay), "{hertz} Hz: {delay}");
    }
    let watchdog = run(Scheme::Watchdog, &Settings { costs: Costs::MANNA, ..Settings::PAPER }, &trace);
    assert!(watchdog.longest_delay <= Duration::from_micros(50) + Costs::MANNA.interrupt);
    assert!(watchdog.interrupts > 0 && watchdog.by_poll > watchdog.by_interrupt);
    let busy = run(Scheme::BusyWait, &Settings::PAPER, &trace);
    assert!(busy.cpu_share() > 0.999 && busy.longest_delay <= Duration::from_micros(2));
    let spin = run(Scheme::Spin, &Settings::PAPER, &trace);
    assert!(spin.longest_delay < Duration::from_micros(10) && spin.unsuccessful > spin.by_poll);
}

/// Every policy of the library is a scheme, by its name.
#[test]
fn every_policy_of_the_library_takes_every_packet() {
    let trace = trace(0, 1);
    for (name, _) in AnyPolicy::ALL {
        let parameters = Parameters::new(HIP.parameters).with("scheme", Setting::Choice(name));
        let Schemes::One(scheme) = parameters.choice("scheme") else { panic!("{name}") };
        let account = run(scheme, &Settings { quota: 5, ..Settings::PAPER }, &trace);
        assert_eq!((scheme.name(), account.packets()), (*name, trace.packets() as u64));
    }
}

#[test]
fn irregular_traffic_is_bounded_by_the_limit_of_polls_in_vain() {
    let self_similar = SelfSimilarConfig::new(Duration::from_millis(20), 400);
    let mut builder = TraceBuilder::default();
    for packet in SelfSimilar::new(self_similar, Streams::new(5)).take(10_000) {
        builder.push(packet.at, packet.bytes as u16);
    }
    let made = [builder.finish().unwrap(), trace(2, 9), trace(4, 9)];
    for trace in recordings().into_iter().chain(made) {
        let [interrupts, hip] =
            [Scheme::Interrupts, Scheme::Hip].map(|scheme| run(scheme, &Settings::PAPER, &trace));
        // P_U max is V_I / V_P: a polled packet costs no more than an interrupt, and each polling phase ends
        // with at most ten empty polls and two changes of mode.
        let times = u128::from(hip.switches.div_ceil(2));
        let bound = interrupts.busy_nanos() + times * (10 * 500 + 2 * 1_000);
        // With interrupts alone, one interrupt may take two packets.
        let shared = u128::from(interrupts.packets() - interrupts.interrupts) * 5_000;
        assert!(hip.busy_nanos() <= bound + shared, "{} of {bound}", hip.busy_nanos());
    }
}

#[test]
fn the_cheaper_deviation_gives_the_same_table() {
    for (row, trace) in table_1(1) {
        let cheap = HipConfig { deviation: Deviation::MeanError, ..READINGS[0] };
        let [exact, cheap] = [READINGS[0], cheap].map(|config| run(Scheme::Hip, &with(config), &trace));
        let ratio = cheap.overhead_us() / exact.overhead_us();
        assert!((0.85..1.15).contains(&ratio), "{}: {ratio}", row.name);
        let ratio = cheap.delay_us() / exact.delay_us();
        assert!((0.6..1.6).contains(&ratio), "{}: {ratio}", row.name);
    }
}

#[test]
fn each_way_to_round_is_possible_and_up_is_the_slowest() {
    let trace = trace(0, 1);
    let polls = [Rounding::Down, Rounding::Nearest, Rounding::Up]
        .map(|rounding| run(Scheme::Hip, &with(HipConfig { rounding, ..READINGS[0] }), &trace).polls);
    assert!(polls.is_sorted_by(|more, fewer| more > fewer), "{polls:?}");
}

#[test]
fn other_costs_change_the_overhead_and_nothing_else() {
    let trace = trace(0, 1);
    let [paper, cm5] = [Costs::HIP, Costs::CM5]
        .map(|costs| run(Scheme::Hip, &Settings { costs, ..Settings::PAPER }, &trace));
    assert!(cm5.overhead_us() > paper.overhead_us());
    assert_eq!(cm5.packets(), paper.packets());
    let interrupts = run(Scheme::Interrupts, &Settings { costs: Costs::CM5, ..Settings::PAPER }, &trace);
    assert!(
        (interrupts.overhead_us() - (19.0 + 904.0 / 1_500.0)).abs() < 0.01,
        "{}",
        interrupts.overhead_us()
    );
}

#[test]
fn a_search_finds_no_worse_and_the_same_again() {
    let (row, config) = (&TRACES[0], READINGS[0]);
    let start = Bursts::new(3_000, 1_500, 500, 20_000, 6_000, 500, 100);
    let before = fit::error_of(&HIP_TRACES_OF, row, start, config);
    let found = fit::fit(&HIP_TRACES_OF, row, start, 12, Streams::new(3), config, &Steps::unwatched());
    assert!(found.error <= before);
    assert_eq!(fit::fit(&HIP_TRACES_OF, row, start, 12, Streams::new(3), config, &Steps::unwatched()), found);
    // The published numbers are better than any that such a short search finds.
    assert!(fit::error_of(&HIP_TRACES_OF, row, FITTED[0], config) < found.error.min(0.02));
}
