//! How the kernels behave: when they livelock, who starves, what becomes of each packet.

use super::*;

/// Livelock by definition, noticed by core's detector, and over when the load drops (§4.2).
#[test]
fn livelock_ends_when_the_load_drops() {
    let mut router = Router::new(screend(kernel(Kernel::Unmodified, 14_000)), Streams::new(1));
    router.run_until(Timestamp::from_micros(300_000));
    assert!(router.is_livelocked());
    let before = router.delivered_so_far();
    router.set_rate(1_000);
    router.run_until(Timestamp::from_micros(600_000));
    assert!(!router.is_livelocked());
    assert!(router.delivered_so_far() - before > 250);
}

#[test]
fn no_packet_is_lost_track_of() {
    for kernel in [Kernel::Unmodified, Kernel::NoPolling, Kernel::Polled, Kernel::HighIpl, Kernel::Clocked] {
        for consumer in [Consumer::Kernel, Consumer::Screend, Consumer::Monitor] {
            for rate in [3_000, 9_000] {
                let found = run(Config { consumer, ..Config::new(kernel, rate) });
                let drops = found.drops;
                let dropped = drops.ring + drops.ipintrq + drops.process + drops.output;
                // What was under way when the warm-up ended was not counted as arrived.
                let (came, went) =
                    (found.arrived + found.underway_before, found.delivered + dropped + found.underway);
                assert_eq!(came, went, "{kernel:?} {consumer:?} {rate}");
            }
        }
    }
}

/// A polled kernel drops in the interface, before anything was spent; the others behind it (§5.4, §6.4).
#[test]
fn what_is_accepted_is_finished() {
    let found = run(polled(5, 10_000)).drops;
    assert!(found.ring > 0 && found.ipintrq + found.process + found.output == 0, "{found:?}");
    let found = run(with_feedback(polled(10, 10_000))).drops;
    assert!(found.ring > 0 && found.process == 0, "{found:?}");
    let found = run(kernel(Kernel::Unmodified, 10_000)).drops;
    assert!(found.ring == 0 && found.ipintrq > 0, "{found:?}");
}

#[test]
fn without_a_quota_the_transmitter_starves() {
    let starved = |quota| {
        let found = run(polled(quota, 8_000));
        found.share(found.starved)
    };
    assert!(starved(u32::MAX) > 0.5 && starved(5) == 0.0 && starved(8) == 0.0);
    // Worse than the unmodified kernel, which does less for what it drops (§6.6).
    assert!(output(polled(u32::MAX, 8_000)) < 0.2 * output(kernel(Kernel::Unmodified, 8_000)));
}

/// §4.4, each of its three ways: the transmitter idles with packets waiting for it while its interrupts come after
/// received packets, by priority or because the driver looks for those first; above them it does not.
#[test]
fn by_priority_the_transmitter_starves_where_ip_does_not() {
    let at =
        |transmit, rate| run(Config { transmit, to_completion: true, ..kernel(Kernel::Unmodified, rate) });
    for transmit in [TransmitPriority::Equal, TransmitPriority::Lower] {
        let free = at(transmit, 4_000);
        assert!(free.delivered as f64 > 0.99 * free.arrived as f64 && free.starved.is_zero(), "{transmit:?}");
        // The CPU keeps up with all input, up to the output queue, and next to nothing leaves.
        let kept_up = at(transmit, 6_000);
        assert_eq!(kept_up.drops.ring + kept_up.drops.ipintrq, 0, "{transmit:?}");
        assert!(kept_up.drops.output as f64 > 0.8 * kept_up.arrived as f64, "{transmit:?}");
        assert!(kept_up.share(kept_up.starved) > 0.8, "{transmit:?}: {:?}", kept_up.starved);
        let flooded = at(transmit, 8_000);
        assert!(flooded.delivered == 0 && flooded.share(flooded.starved) == 1.0, "{transmit:?}");
    }
    for rate in [6_000, 8_000, 14_000] {
        let first = at(TransmitPriority::Higher, rate);
        assert!(first.starved.is_zero() && first.drops.output == 0 && first.drops.ring > 0, "{rate}");
        assert!(first.rate(first.delivered) > 4_300.0, "{rate}: {}", first.rate(first.delivered));
    }
}

/// In the paper's own kernel IP is a thread below both interrupts: what starves first is IP, and a packet that has come
/// to the output queue finds its transmit interrupts serviced, whatever their priority.
#[test]
fn where_ip_is_a_thread_input_starves_it_before_the_transmitter() {
    for rate in [4_500, 6_000, 8_000, 11_000] {
        let at = |transmit| run(Config { transmit, ..kernel(Kernel::Unmodified, rate) });
        let [equal, lower, higher] =
            [TransmitPriority::Equal, TransmitPriority::Lower, TransmitPriority::Higher].map(at);
        for found in [&equal, &lower, &higher] {
            assert!(found.starved.is_zero() && found.drops.output == 0 && found.drops.ipintrq > 0, "{rate}");
        }
        assert!(lower.delivered as f64 > 0.85 * higher.delivered as f64, "{rate}");
    }
}

#[test]
fn batching_helps_and_does_not_save() {
    let slow = |batching, rate| output(Config { batching, percent: 150, ..kernel(Kernel::Unmodified, rate) });
    // A packet that arrives while its interrupt is serviced is taken in that one.
    assert!(slow(true, 10_000) > slow(false, 10_000) + 100.0);
    assert_eq!(slow(true, 14_000), 0.0);
}

#[test]
fn dearer_code_livelocks_earlier() {
    let closed = |percent| Closed::from_config(&Config { percent, ..kernel(Kernel::Unmodified, 0) });
    assert!(closed(150).loss_free() < closed(100).loss_free());
    assert!(closed(150).livelock() < closed(100).livelock());
    for percent in [50, 100, 200] {
        let free = closed(percent).loss_free();
        let at = |share: f64| {
            let rate = ((free * share) as u64).min(14_880);
            output(Config { percent, ..kernel(Kernel::Unmodified, rate) }) / rate as f64
        };
        assert!(at(0.95) > 0.98 && (percent == 50 || at(1.2) < 0.9), "{percent}%");
    }
}

/// A few divisions say what a million events do.
#[test]
fn the_closed_form_agrees() {
    for config in [
        kernel(Kernel::Unmodified, 0),
        kernel(Kernel::NoPolling, 0),
        polled(5, 0),
        polled(8, 0),
        polled(20, 0),
        Config { to_completion: true, transmit: TransmitPriority::Higher, ..kernel(Kernel::Unmodified, 0) },
    ] {
        let closed = Closed::from_config(&config);
        for rate in [2_000, 6_000, 8_000, 10_000] {
            let (form, model) = (closed.output(rate as f64), output(Config { rate, ..config }));
            let off = (form - model).abs();
            assert!(off <= 0.1 * closed.loss_free(), "{config:?}: {form:.0}, {model:.0}");
        }
    }
    let screend = Closed::from_config(&with_feedback(polled(10, 0)));
    assert!((screend.loss_free() / output(with_feedback(polled(10, 8_000))) - 1.0).abs() < 0.1);
}

/// §6.5. That the modified kernel with polling off is worse than the original is put in by a constant, so it is not asked.
#[test]
fn polling_raises_the_loss_free_rate() {
    let free = |config| Closed::from_config(&config).loss_free();
    let [original, polls] = [kernel(Kernel::Unmodified, 0), polled(5, 0)].map(free);
    assert!(original < polls, "{original} {polls}");
}

/// With this seed the process is within a switch as the warm-up ends, and gets no further after it.
#[test]
fn a_user_that_does_no_more_than_switch_has_nothing() {
    let config = Config { duration: Duration::from_secs(2), ..limited(100, 8_000) };
    assert_eq!(Router::new(config, Streams::new(12)).run().user, Duration::ZERO);
}

#[test]
fn everything_at_high_ipl_starves_the_user() {
    let found = run(Config { user: true, ..kernel(Kernel::HighIpl, 8_000) });
    assert!(found.rate(found.delivered) > 4_500.0 && found.share(found.user) < 0.01);
    // An interrupt of each device for a whole episode of polling.
    assert!(found.polling.woken <= found.polling.looks + 1, "{:?}", found.polling);
}

#[test]
fn the_limit_is_not_for_an_idle_processor() {
    let limit = CpuLimitConfig::preset(Preset::Paper, Percent::new(25).unwrap());
    // Nobody computes: 25% would be 1,200 packets/s.
    let found = run(Config { limit: Some(limit), ..polled(5, 3_000) });
    assert!(found.rate(found.delivered) > 2_900.0, "{}", found.rate(found.delivered));
}

#[test]
fn the_quota_is_found_while_running() {
    let config = Config { auto_quota: true, duration: Duration::from_secs(12), ..polled(40, 9_000) };
    let found = Router::new(config, Streams::new(1)).run();
    assert!(found.quota.is_some_and(|quota| quota.abs_diff(8) <= 1), "{:?}", found.quota);
}

/// §8.2: more hand-overs, and no livelock.
#[test]
fn eager_transmission_starts_the_device_more_often() {
    let starts = |eager, rate| {
        let found = run(Config { eager, ..polled(5, rate) });
        (found.starts as f64 / found.delivered as f64, found.rate(found.delivered))
    };
    let ((late, _), (eager, output)) = (starts(false, 9_000), starts(true, 9_000));
    assert!(eager > 2.0 * late && output > 4_000.0, "{late} {eager} {output}");
    // Below saturation, too, where all of them leave in either way: once packets wait for each other at all.
    for (rate, more) in [(1_000, 1.0), (2_000, 1.0), (3_000, 1.0), (3_500, 1.1), (4_000, 1.5)] {
        let ((late, passed), (eager, output)) = (starts(false, rate), starts(true, rate));
        assert!(eager >= more * late, "{rate}: {late} and {eager} starts a packet");
        assert!(passed.min(output) > 0.99 * rate as f64, "{rate}: {passed} and {output} packets/s");
    }
}

#[test]
fn a_monitor_captures_more_with_feedback() {
    let process = Some((Duration::from_micros(20), Duration::from_micros(75)));
    let feedback = FeedbackConfig::monitor(32, 8).ok();
    let disk = Config { consumer: Consumer::Monitor, process, feedback, ..polled(10, 0) };
    let capture =
        |rate, feedback: bool| run(Config { rate, feedback: disk.feedback.filter(|_| feedback), ..disk });
    let mut last = 0.0;
    for rate in [4_000, 6_000, 7_000, 8_000, 9_000, 11_000] {
        let (with, without) = (capture(rate, true), capture(rate, false));
        assert!(with.delivered >= without.delivered, "{rate}");
        assert!(with.rate(with.delivered) >= 0.99 * last, "{rate}: it goes on at what it can");
        last = with.rate(with.delivered);
        // Losses without feedback are at the filter's queue.
        assert_eq!(without.drops.ring, 0, "{rate}");
    }
    // With feedback the paper loses them there, too, and hardly any at the interface (§9): so it is where the turn that closes
    // input takes its quota. A turn that ends leaves all of them to the interface.
    let [ends, runs_on] = [false, true].map(|runs_on| run(Config { rate: 9_000, runs_on, ..disk }).drops);
    assert!(ends.process == 0 && ends.ring > 0, "{ends:?}");
    assert!(runs_on.process > 0 && runs_on.ring == 0, "{runs_on:?}");
    // To the null device nothing is lost up to where the paper's generator ends.
    let config = Config {
        process: Some((Duration::from_micros(20), Duration::from_micros(22))),
        rate: 10_700,
        ..disk
    };
    let null = run(config);
    assert!(null.delivered as f64 > 0.99 * null.arrived as f64);
    let at_9000 = capture(9_000, true);
    assert!((at_9000.rate(at_9000.delivered) / 7_700.0 - 1.0).abs() < 0.05);
}

/// Figure 9 is flat without a quota: for screend a turn ends when input is closed.
#[test]
fn a_turn_that_ran_on_would_livelock_without_a_quota() {
    let config = |runs_on| Config { runs_on, ..with_feedback(polled(u32::MAX, 9_000)) };
    let [ends, runs_on] = [false, true].map(|runs_on| output(config(runs_on)));
    assert!(ends > 2_700.0 && runs_on < 0.5 * ends, "{ends} {runs_on}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let once = |seed| {
        let found = Router::new(Config { duration: SHORT, ..polled(5, 6_000) }, Streams::new(seed)).run();
        (found.arrived, found.delivered, found.interrupts, found.latency.quantile(0.5))
    };
    assert_eq!(once(1), once(1));
    assert_ne!(once(1), once(2));
}
