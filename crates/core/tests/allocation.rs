//! After warm-up nothing allocates: not an empty turn, not scheduling, firing, re-arming, cancelling,
//! and not pacing, of one flow or of ten thousand.

use core::time::Duration;

use softtimers_core::queue::{DepartureQueue, FlowConfig, FlowId, Popped, QueueConfig};
use softtimers_core::{
    Config, KeyedTimers, PaceConfig, Rate, RateClock, Slack, SoftTimers, TimerId, Timestamp, TriggerState,
};

/// Everything a busy program does with its timers, for a while.
fn busy(timers: &mut SoftTimers<u32>, clock: &mut RateClock, now: &mut Timestamp) {
    for event in 0..1_000 {
        let id = timers.schedule(*now, Duration::from_micros(u64::from(event % 97)), Slack::DEFAULT, event);
        if event % 3 == 0 {
            timers.reschedule(*now, id, Duration::from_micros(40), Slack::micros(5)).unwrap();
        }
        if event % 5 == 0 {
            timers.cancel(id);
        }
        *now += Duration::from_micros(1);
        let turn = timers.trigger(TriggerState::HandlerExit, *now);
        while timers.next(&turn).is_some() {
            clock.departed(*now);
        }
    }
    *now += Duration::from_secs(1);
    let turn = timers.trigger(TriggerState::Backup, *now);
    while timers.next(&turn).is_some() {}
    assert!(timers.is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "counts the calls of an allocator that Miri replaces")]
fn nothing_allocates_after_warm_up() {
    let mut timers = SoftTimers::new(Config::default().intervals(true));
    let mut clock = RateClock::new(PaceConfig::new(Rate::per_second(25_000).unwrap())).unwrap();
    let mut now = clock.start(Timestamp::from_micros(7));
    busy(&mut timers, &mut clock, &mut now);
    let after_warm_up = allocation_counter::measure(|| busy(&mut timers, &mut clock, &mut now));
    assert_eq!(after_warm_up.count_total, 0);
}

#[test]
#[cfg_attr(miri, ignore = "counts the calls of an allocator that Miri replaces")]
fn an_empty_turn_does_not_allocate() {
    let mut timers = SoftTimers::new(Config::default());
    timers.schedule(Timestamp::ZERO, Duration::from_secs(1), Slack::EXACT, ());
    let allocated = allocation_counter::measure(|| {
        for micros in 0..1_000 {
            let turn = timers.trigger(TriggerState::SyscallExit, Timestamp::from_micros(micros));
            assert!(timers.next(&turn).is_none());
        }
    });
    assert_eq!(allocated.count_total, 0);
}

/// Reserved memory is enough, wherever the timers belong; and keys have room for all that were named.
#[test]
#[cfg_attr(miri, ignore = "counts the calls of an allocator that Miri replaces")]
fn what_was_reserved_is_not_allocated_again() {
    for many in [10, 1_000, 50_000u64] {
        for span in [1_000, 3_000_000, 30_000_000_000] {
            let (mut timers, mut keys) =
                (SoftTimers::new(Config::default()), KeyedTimers::new(Duration::from_micros(1)));
            timers.reserve(many as usize);
            keys.reserve(many as u32);
            let due = |event: u64| Timestamp::from_nanos(1_000 + event * 7_919 % many * (span / many));
            let allocated = allocation_counter::measure(|| {
                for event in 0..many {
                    timers.schedule_at(Timestamp::ZERO, due(event), Slack::DEFAULT, event);
                    keys.set(Timestamp::ZERO, event as u32, due(event));
                }
            });
            assert_eq!(allocated.count_total, 0, "{many} within {span} ns");
            let turn = timers.trigger(TriggerState::Backup, Timestamp::MAX);
            assert_eq!(std::iter::from_fn(|| timers.next(&turn)).count() as u64, many);
        }
    }
}

/// Everything a server with thousands of connections does, for a while: the wheel, not the run of a few.
fn churn(timers: &mut SoftTimers<u64>, ids: &mut [TimerId], now: &mut Timestamp, random: &mut u64) {
    let mut below = |limit: u64| {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*random >> 33) % limit
    };
    for _ in 0..100_000 {
        *now += Duration::from_micros(1);
        let turn = timers.trigger(TriggerState::HandlerExit, *now);
        while let Some(fired) = timers.next(&turn) {
            let delay = Duration::from_micros(2_000 + below(40_000));
            ids[fired.event as usize] = timers.schedule(*now, delay, Slack::DEFAULT, fired.event);
        }
        let delay = Duration::from_micros(2_000 + below(40_000));
        let index = below(ids.len() as u64);
        if index % 3 == 0 {
            timers.cancel(ids[index as usize]).unwrap();
            ids[index as usize] = timers.schedule(*now, delay, Slack::EXACT, index);
        } else {
            timers.reschedule(*now, ids[index as usize], delay, Slack::DEFAULT).unwrap();
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "counts the calls of an allocator that Miri replaces")]
fn a_wheel_of_thousands_does_not_allocate_after_warm_up() {
    let mut timers = SoftTimers::new(Config::default());
    let (mut now, mut random) = (Timestamp::from_micros(7), 1);
    let mut ids: Vec<TimerId> = (0..5_000)
        .map(|event| timers.schedule(now, Duration::from_micros(1 + event * 8), Slack::DEFAULT, event))
        .collect();
    churn(&mut timers, &mut ids, &mut now, &mut random);
    churn(&mut timers, &mut ids, &mut now, &mut random);
    let after_warm_up = allocation_counter::measure(|| churn(&mut timers, &mut ids, &mut now, &mut random));
    assert_eq!(after_warm_up.count_total, 0);
}

/// Thirty-two bytes for the record, with an event of eight in it, and five in a chunk; no copy while it grows.
#[test]
#[cfg_attr(miri, ignore = "counts the calls of an allocator that Miri replaces")]
fn a_timer_takes_less_than_forty_bytes_and_gives_them_back() {
    const TIMERS: u64 = 200_000;
    let mut timers = None;
    let peak = allocation_counter::measure(|| {
        let mut filled = SoftTimers::new(Config::default());
        for event in 0..TIMERS {
            let delay = Duration::from_micros(event * 7_919 % 1_000_000);
            filled.schedule(Timestamp::ZERO, delay, Slack::DEFAULT, event);
        }
        timers = Some(filled);
    });
    let each = peak.bytes_max as f64 / TIMERS as f64;
    assert!(each < 40.0, "{each} bytes for each timer");
    let mut timers = timers.unwrap();
    let freed = allocation_counter::measure(|| {
        let turn = timers.trigger(TriggerState::Backup, Timestamp::from_micros(1_000_000));
        while timers.next(&turn).is_some() {}
        timers.shrink_to_fit();
    });
    assert!(
        peak.bytes_current + freed.bytes_current < 20_000,
        "{} kept",
        peak.bytes_current + freed.bytes_current
    );
    timers.schedule(Timestamp::ZERO, Duration::ZERO, Slack::EXACT, 0);
}

/// The memory that keys took is given back but for those up to the largest one that is pending, which then comes as
/// ever.
#[test]
#[cfg_attr(miri, ignore = "counts the calls of an allocator that Miri replaces")]
fn keys_give_back_what_a_peak_took() {
    const KEYS: u32 = 200_000;
    let (at, mut kept) = (Timestamp::from_micros, None);
    let measured = allocation_counter::measure(|| {
        let mut timers = KeyedTimers::new(Duration::from_micros(1));
        for key in 0..KEYS {
            timers.set(at(0), key, at(1 + u64::from(key)));
        }
        let turn = timers.turn(at(u64::from(KEYS)));
        while timers.next(&turn).is_some() {}
        // All at once, and not from a slot.
        (0..KEYS).for_each(|key| timers.set(at(250_000), key, at(250_000)));
        let turn = timers.turn(at(250_000));
        while timers.next(&turn).is_some() {}
        timers.set(at(300_000), 5, at(400_000));
        timers.shrink_to_fit();
        kept = Some(timers);
    });
    assert!(measured.bytes_max > 32 * u64::from(KEYS));
    assert!(measured.bytes_current < 200_000, "{} kept", measured.bytes_current);
    let mut timers = kept.expect("it was measured");
    timers.set(at(300_000), KEYS, at(350_000));
    let turn = timers.turn(at(400_000));
    let came: Vec<_> = std::iter::from_fn(|| timers.next(&turn)).collect();
    assert_eq!(came, [(KEYS, at(350_000)), (5, at(400_000))]);
}

/// A few timers are kept without a wheel: no level, no chunk, and records for as many as there are.
#[test]
#[cfg_attr(miri, ignore = "counts the calls of an allocator that Miri replaces")]
fn three_timers_take_no_wheel() {
    let bytes = |timers: u64| {
        let measured = allocation_counter::measure(|| {
            let mut few = SoftTimers::new(Config::default());
            for event in 0..timers {
                few.schedule(Timestamp::ZERO, Duration::from_secs(1 << event), Slack::DEFAULT, event);
            }
            for seconds in [1, 2, 1_000] {
                let turn = few.trigger(TriggerState::Idle, Timestamp::from_micros(seconds * 1_000_000));
                while few.next(&turn).is_some() {}
            }
        });
        measured.bytes_max
    };
    let (none, three) = (bytes(0), bytes(3));
    assert!(three < none + 2_000, "{none} bytes without a timer, {three} with three");
}

/// Returns the most bytes that a hundred far timers take, and `batches` batches that are set and cancelled meanwhile,
/// half of them within 4 ms and half within 16 s.
fn bytes_beside_cancels(batches: u64) -> u64 {
    let now = Timestamp::from_micros(7);
    let measured = allocation_counter::measure(|| {
        let mut timers = SoftTimers::new(Config::default());
        for event in 0..100u64 {
            timers.schedule(now, Duration::from_secs(100 + event), Slack::EXACT, event);
        }
        for batch in 0..batches {
            let spans = [batch * 211 % 4_000, batch * 7_919 % 16_000_000];
            // More than wait to be inserted at any time.
            let ids: [TimerId; 40] = core::array::from_fn(|event| {
                let delay = Duration::from_micros(5 + spans[event % 2] + event as u64);
                timers.schedule(now, delay, Slack::EXACT, batch)
            });
            assert!(ids.into_iter().all(|id| timers.cancel(id) == Some(batch)));
        }
    });
    measured.bytes_max
}

/// A timer that is cancelled leaves nothing in its slot, wherever that is: nearly every slot of the lower levels has had
/// some, which would be a megabyte if each kept its chunk, and its row.
#[test]
#[cfg_attr(miri, ignore = "counts the calls of an allocator that Miri replaces")]
fn cancelled_timers_leave_no_memory_behind() {
    let (few, many) = (bytes_beside_cancels(1), bytes_beside_cancels(20_000));
    assert!(many < few + 50_000, "{few} bytes, after many cancels {many}");
}

/// Turns of many flows, each departure answered by the flow's next packet; rates change meanwhile.
fn paced(queue: &mut DepartureQueue<u32>, flows: &[FlowId], now: &mut Timestamp) {
    for round in 0..2_000 {
        *now += Duration::from_micros(31);
        let turn = queue.turn(*now);
        while let Some(popped) = queue.pop_due(&turn) {
            let Popped::Departure(departure) = popped else { panic!("nothing expires here") };
            queue.enqueue(*now, departure.flow, departure.bytes, departure.token).unwrap();
        }
        let rate = Rate::per_second(50 + round % 100).unwrap();
        queue.set_rate(*now, flows[round as usize % flows.len()], rate).unwrap();
    }
}

#[test]
#[cfg_attr(miri, ignore = "counts the calls of an allocator that Miri replaces")]
fn a_departure_queue_does_not_allocate_after_warm_up() {
    let mut queue = DepartureQueue::new(QueueConfig::default());
    let mut now = Timestamp::from_micros(7);
    let pace = PaceConfig::new(Rate::per_second(100).unwrap());
    let flows: Vec<FlowId> = (0..10_000).map(|_| queue.add_flow(FlowConfig::new(pace)).unwrap()).collect();
    for &flow in &flows {
        queue.enqueue(now, flow, 1_200, 1).unwrap();
        queue.enqueue(now, flow, 1_200, 2).unwrap();
    }
    let before = queue.stats().sent;
    let after_warm_up = allocation_counter::measure(|| paced(&mut queue, &flows, &mut now));
    assert_eq!(after_warm_up.count_total, 0);
    assert!(queue.stats().sent > before + 10_000);
}
