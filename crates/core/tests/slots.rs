//! Departures collected at slots: a slot is a turn of its own time, each flow keeps its own, and a late check moves nobody
//! but those of its slot.

use core::time::Duration;

use proptest::prelude::*;
use softtimers_core::queue::{Departure, DepartureQueue, FlowConfig, FlowId, Popped, QueueConfig};
use softtimers_core::{PaceConfig, Rate, Timestamp};

fn queue(slot: Duration) -> DepartureQueue<u32> {
    DepartureQueue::new(QueueConfig { slot, ..QueueConfig::default() })
}

fn every(nanos: u64) -> FlowConfig {
    FlowConfig::new(PaceConfig::new(Rate::every(Duration::from_nanos(nanos)).unwrap()))
}

/// All that leaves at `now` in a turn of `turn`; each flow has its next packet at once.
fn sent(queue: &mut DepartureQueue<u32>, turn: Timestamp, now: Timestamp) -> Vec<Departure<u32>> {
    let turn = queue.turn(turn);
    let mut sent = Vec::new();
    while let Some(popped) = queue.pop_due_at(&turn, now) {
        let Popped::Departure(departure) = popped else { panic!("no flow has a limit on its delay") };
        queue.enqueue(now, departure.flow, 100, departure.token).unwrap();
        sent.push(departure);
    }
    sent
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// With slots a turn finds what one without finds at the latest slot, and says so before: its next due time is the first
    /// slot from that one's on.
    #[test]
    fn a_turn_is_that_of_the_latest_slot(
        slot in 1_000u64..300_000,
        intervals in prop::collection::vec(5_000u64..2_000_000, 1..80),
        steps in prop::collection::vec(prop_oneof![4 => 0u64..20_000, 2 => 0u64..500_000, 1 => 0u64..20_000_000], 1..80),
    ) {
        let (mut slotted, mut plain) =
            (queue(Duration::from_nanos(slot)), queue(Duration::ZERO));
        let start = Timestamp::from_micros(1_000);
        for (flow, &interval) in intervals.iter().enumerate() {
            for queue in [&mut slotted, &mut plain] {
                let id = queue.add_flow(every(interval)).unwrap();
                queue.enqueue_at(start, id, start + Duration::from_nanos(flow as u64 * 777), 100, flow as u32).unwrap();
            }
        }
        let mut now = start;
        for step in steps {
            let before = now;
            now += Duration::from_nanos(step);
            let latest = Timestamp::from_nanos(now.as_nanos() / slot * slot);
            let next = plain.next_due().unwrap().as_nanos().div_ceil(slot) * slot;
            prop_assert_eq!(slotted.next_due(), Some(Timestamp::from_nanos(next)));
            // The second turn of a slot finds nothing.
            let mut expected = if latest >= before { sent(&mut plain, latest, now) } else { Vec::new() };
            for departure in &mut expected {
                departure.due = Timestamp::from_nanos(departure.due.as_nanos().div_ceil(slot) * slot);
            }
            // A flow's id belongs to its queue; its token tells which it is.
            let told = |departure: &Departure<u32>| {
                let Departure { flow: _, token, bytes, place, due, lateness, ready, more } = *departure;
                (token, bytes, place, due, lateness, ready, more)
            };
            let found = sent(&mut slotted, now, now);
            prop_assert_eq!(
                found.iter().map(told).collect::<Vec<_>>(),
                expected.iter().map(told).collect::<Vec<_>>()
            );
        }
        prop_assert_eq!(slotted.stats(), plain.stats());
    }

    /// Checks that are late by less than seven sixteenths of the interval, and now and then by several slots: the flow's next
    /// packet is in its own slot again, and none is skipped.
    #[test]
    fn a_flow_keeps_its_slot(
        parts in 2u64..32,
        flows in 1u64..100,
        late in prop::collection::vec(prop_oneof![6 => 0u64..30_000, 1 => 0u64..430_000], 40..200),
    ) {
        let slot = 1_000_000 / parts;
        let interval = slot * parts;
        let mut queue = queue(Duration::from_nanos(slot));
        let start = Timestamp::from_nanos(slot * 5_000);
        let mut due: Vec<(FlowId, u64)> = Vec::new();
        for flow in 0..flows {
            let begin = start + Duration::from_nanos(flow * interval / flows);
            let id = queue.add_flow(every(interval)).unwrap();
            queue.enqueue_at(start, id, begin, 100, flow as u32).unwrap();
            due.push((id, begin.as_nanos().div_ceil(slot) * slot));
        }
        let mut now = start;
        for late in late {
            now = now.max(queue.poll_at().unwrap() + Duration::from_nanos(late));
            for departure in sent(&mut queue, now, now) {
                let (_, own) = &mut due[departure.token as usize];
                prop_assert!(*own <= now.as_nanos(), "before its slot");
                // It could have left at each slot since.
                prop_assert!(now.as_nanos() < *own + 430_000 + slot, "{departure:?} not in its slot, {own}");
                *own += interval;
            }
            // Nobody waits beyond the slot that was his.
            let next = queue.poll_at().unwrap().as_nanos();
            prop_assert_eq!(next, due.iter().map(|(_, own)| *own).min().unwrap());
        }
    }
}

/// A packet that ends an idle time leaves at the next slot, one that is overdue at once.
#[test]
fn what_is_overdue_waits_for_no_slot() {
    let at = Timestamp::from_micros;
    let mut queue = queue(Duration::from_micros(250));
    let flow = queue.add_flow(every(1_000_000)).unwrap();
    queue.enqueue(at(10_010), flow, 100, 1).unwrap();
    assert_eq!(queue.poll_at(), Some(at(10_250)));
    assert!(sent(&mut queue, at(10_249), at(10_249)).is_empty());
    assert_eq!(sent(&mut queue, at(10_900), at(10_900)).len(), 1);
    // Its place is at 11.010, and the burst interval ends later: 562.5 µs after it left.
    assert_eq!(queue.poll_at(), Some(at(11_500)));
}
