use super::*;

const fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// Returns the share that a loop spends, how often it was shut for too long, and its longest wait in µs.
/// A sleep costs `wake`, a turn 1 µs, and so does each packet, at most 64; one comes every `gap` ns.
fn looked_at(mut limit: CpuLimit, wake: u64, gap: u64) -> (u64, u64, u64) {
    let (mut now, mut spent, mut taken, mut longest, mut slept) = (0u64, 0u64, 0u64, 0u64, true);
    const END: u64 = 4_000_000_000;
    while now < END {
        let (came, began) = (now / gap, now);
        let packets = (came - taken).min(64);
        longest = longest.max(if packets > 0 { now - (taken + 1) * gap } else { 0 });
        taken += packets;
        now += 1_000 + 1_000 * packets + if slept { wake } else { 0 };
        spent += now - began;
        let more = now / gap > taken;
        let cost = Duration::from_nanos(now - began);
        let next = match limit.charge(Timestamp::from_nanos(now), cost, more) {
            Input::Shut(until) => until.as_nanos(),
            Input::Open => now.max((taken + 1) * gap),
        };
        slept = next > now;
        now = next;
        if came - taken > 4_096 {
            taken = came;
        }
    }
    (spent * 1_000 / END, limit.exceeded(), longest / 1_000)
}

const STRETCH: Duration = Duration::from_micros(200);

/// 65 µs for a wake-up with one packet, 1 µs each in a full turn: at 0.1, 1 and 5 times the capacity of
/// one at a time.
#[test]
fn wake_ups_are_charged_and_the_share_is_kept_at_any_load() {
    for percent in (10..=80).step_by(10) {
        for (load, gap) in [("0.1", 650_000), ("1", 65_000), ("5", 13_000), ("200", 325)] {
            let config = CpuLimitConfig::new(Percent::new(percent).unwrap()).stretched(STRETCH);
            let (spent, exceeded, longest) = looked_at(CpuLimit::new(config), 63_000, gap);
            let all = CpuLimitConfig::new(Percent::new(100).unwrap());
            let (wanted, ..) = looked_at(CpuLimit::new(all), 63_000, gap);
            let allowed = u64::from(percent) * 10;
            assert!(spent <= allowed + 5, "{percent}%, load {load}: {spent} thousandths");
            assert!(spent + 15 >= wanted.min(allowed), "{percent}%, load {load}: {spent} of {wanted}");
            // A poll each 200 µs costs 65 µs and its packets: a third of the time, plus the packets of a
            // flood.
            let can_hold = wanted <= allowed || (load != "200" && percent >= 50);
            assert!(exceeded == 0 || !can_hold, "{percent}%, load {load}: longer {exceeded} times");
            assert!(longest <= 330 || !can_hold, "{percent}%, load {load}: waited for {longest} µs");
            assert!(exceeded > 0 || can_hold || percent > 30, "{percent}%, load {load}");
        }
    }
}

#[test]
fn over_any_time_it_is_the_share_one_period_and_one_charge() {
    for stretch in [Duration::ZERO, STRETCH, Duration::from_secs(1)] {
        let mut limit = CpuLimit::new(CpuLimitConfig::new(Percent::new(25).unwrap()).stretched(stretch));
        let mut random = softtimers_core::Random::stream(3, 1);
        let (mut now, mut begins) = (0u64, alloc::vec::Vec::new());
        let mut spent = 0u64;
        for _ in 0..2_000 {
            begins.push((now, spent));
            let cost = random.below(300_000);
            (now, spent) = (now + cost, spent + cost);
            match limit.charge(Timestamp::from_nanos(now), Duration::from_nanos(cost), random.below(2) == 0) {
                Input::Shut(until) => now = until.as_nanos(),
                Input::Open => now += random.below(1_000_000),
            }
            for &(from, before) in begins.iter().step_by(17) {
                let bound = (now - from) / 4 + 2_500_000 + 300_000 + 1_000;
                assert!(spent - before <= bound, "{} in {} ns", spent - before, now - from);
            }
        }
        assert!(spent > 0);
    }
}

#[test]
fn a_share_that_is_spent_to_the_last_nanosecond_shuts_only_polls_that_are_moved_apart() {
    let mut limit = CpuLimit::new(CpuLimitConfig::new(Percent::new(25).unwrap()));
    assert_eq!(limit.charge(at(0), Duration::from_micros(2_500), true), Input::Open);
    assert_eq!(limit.charge(at(0), Duration::from_nanos(1), true), Input::Shut(at(10_000)));

    // What is carried over uses the next period to the last nanosecond, too.
    let mut limit = CpuLimit::new(CpuLimitConfig::new(Percent::new(25).unwrap()));
    assert_eq!(limit.charge(at(0), Duration::from_millis(5), true), Input::Shut(at(10_000)));
    assert_eq!(limit.input(at(10_000)), Input::Open);

    let stretched = CpuLimitConfig::new(Percent::new(25).unwrap()).stretched(STRETCH);
    let mut limit = CpuLimit::new(stretched);
    assert_eq!(limit.charge(at(0), Duration::from_micros(2_500), true), Input::Shut(at(200)));
    // 50 µs have drained. Near the limit half of it has to: 1,250 µs at a quarter of the time.
    assert_eq!(limit.charge(at(200), Duration::from_micros(50), true), Input::Shut(at(5_200)));
    assert_eq!((limit.inhibited(), limit.exceeded()), (2, 1));
    // Half of the limit has drained: polls follow each other again.
    assert_eq!(limit.charge(at(5_200), Duration::ZERO, false), Input::Open);

    // What takes exactly the stretch to drain does not exceed it.
    let mut limit = CpuLimit::new(stretched);
    assert_eq!(limit.charge(at(0), Duration::from_micros(2_550), true), Input::Shut(at(200)));
    assert_eq!((limit.inhibited(), limit.exceeded()), (1, 0));
    assert_eq!(limit.charge(at(200), Duration::from_micros(500), true), Input::Shut(at(7_200)));
    assert_eq!((limit.inhibited(), limit.exceeded()), (2, 1));
}

/// Checks closer together than a drained nanosecond lose nothing.
#[test]
fn the_account_drains_by_the_share_however_often_it_is_looked_at() {
    for (percent, apart) in [(1, 50), (1, 99), (3, 33), (10, 7), (99, 1)] {
        let config = CpuLimitConfig::new(Percent::new(percent).unwrap()).stretched(STRETCH);
        let mut limit = CpuLimit::new(config);
        let spent = 50_000;
        limit.charge(Timestamp::ZERO, Duration::from_nanos(spent), true);
        let until = spent * 100 / u64::from(percent) / 2;
        for now in (0..=until).step_by(apart) {
            limit.input(Timestamp::from_nanos(now));
        }
        limit.input(Timestamp::from_nanos(until));
        let drained = Duration::from_nanos(until * u64::from(percent) / 100);
        assert_eq!(limit.used(), Duration::from_nanos(spent) - drained, "{percent}%, each {apart} ns");
    }
}

#[test]
fn extremes_do_not_overflow() {
    for (percent, stretch) in [(0, Duration::ZERO), (0, Duration::MAX), (100, Duration::MAX)] {
        let config = CpuLimitConfig::new(Percent::new(percent).unwrap()).stretched(stretch);
        let mut limit = CpuLimit::new(config);
        for now in [Timestamp::ZERO, Timestamp::MAX, Timestamp::ZERO] {
            for spent in [Duration::ZERO, Duration::MAX] {
                limit.charge(now, spent, true);
                limit.charge(now, spent, false);
            }
        }
    }
}

fn limit(percent: u32) -> CpuLimit {
    limit_of(Preset::Measured, percent)
}

fn limit_of(preset: Preset, percent: u32) -> CpuLimit {
    CpuLimit::new(CpuLimitConfig::preset(preset, Percent::new(percent).unwrap()))
}

/// Runs only turns of `turn` while allowed. Returns the share spent, and the most of a period.
fn flooded(mut limit: CpuLimit, turn: u64) -> (u64, u64) {
    let (mut now, mut cpu, mut most) = (0u64, 0u64, 0);
    while now < 1_000_000 {
        match limit.input(at(now)) {
            Input::Shut(until) => now = until.as_nanos() / 1_000,
            Input::Open => {
                limit.begin(Duration::from_micros(cpu));
                (now, cpu) = (now + turn, cpu + turn);
                limit.end(at(now), Duration::from_micros(cpu));
                most = most.max(limit.used().as_micros() as u64);
            }
        }
    }
    (cpu / 10_000, most)
}

#[test]
fn the_share_is_kept_and_overshot_by_one_turn_at_the_most() {
    for percent in [25, 50, 75] {
        for turn in [10, 100, 997] {
            let allowed = u64::from(percent) * 100;
            for (preset, over) in [(Preset::Paper, 10), (Preset::Measured, 1)] {
                let (share, most) = flooded(limit_of(preset, percent), turn);
                assert!(most <= allowed + turn, "{percent}%: {most} µs of a period, turns of {turn}");
                assert!((u64::from(percent)..=u64::from(percent) + over).contains(&share), "{share}%");
            }
        }
    }
    assert!(flooded(limit(100), 100).0 >= 99);
}

/// The share is kept even with turns longer than the share, and than the period.
#[test]
fn what_goes_over_is_paid_back_by_the_periods_that_follow() {
    for turn in [4_000, 26_000] {
        let (share, _) = flooded(limit(25), turn);
        assert!((23..=28).contains(&share), "{share}%, turns of {turn}");
    }
    let mut limit = limit(25);
    limit.begin(Duration::ZERO);
    assert_eq!(limit.end(at(9_000), Duration::from_millis(8)), Input::Shut(at(10_000)));
    // The first period allows 2.5 of the 8 ms, the second as much; the remaining 3 ms exceed the third as
    // well.
    assert_eq!(limit.input(at(10_000)), Input::Shut(at(20_000)));
    assert_eq!(limit.input(at(20_000)), Input::Shut(at(30_000)));
    assert_eq!((limit.input(at(30_000)), limit.used()), (Input::Open, Duration::from_micros(500)));
    assert_eq!(limit.inhibited(), 3);
    // Long after, the account is empty.
    assert_eq!((limit.input(at(70_000)), limit.used()), (Input::Open, Duration::ZERO));
}

#[test]
fn an_idle_processor_clears_the_total() {
    let mut limit = limit(25);
    limit.begin(Duration::ZERO);
    assert_eq!(limit.end(at(3_000), Duration::from_millis(3)), Input::Shut(at(10_000)));
    assert_eq!(limit.idle(), Input::Open);
    assert_eq!((limit.input(at(3_001)), limit.used()), (Input::Open, Duration::ZERO));
}

#[test]
fn a_count_that_goes_back_or_a_turn_without_a_beginning_is_nothing() {
    let mut limit = limit(25);
    limit.begin(Duration::from_secs(9));
    assert_eq!(limit.end(at(1), Duration::from_secs(8)), Input::Open);
    assert_eq!(limit.end(at(2), Duration::from_secs(9)), Input::Open);
}
