//! softtimers' own parts as a program combines them: a `DepartureQueue`, and an `EventLoop` whose only event is the
//! queue's next departure.
//!
//! Up to eight datagrams leave in a row, as in the command, so that a stall is made up in short trains. With slots, as many as
//! a slot collects.

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::Result;
use softtimers::queue::{DepartureQueue, FlowConfig, Popped, QueueConfig};
use softtimers::{
    Clock, Config, EventLoop, Happening, LoopConfig, Monotonic, PaceConfig, Rate, Slack, SoftTimers,
};

use softtimers_load::train::TrainLimit;

use crate::Load;
use crate::heap_slack::SLACK;
use crate::lanes::Lanes;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Departures,
    End,
}

/// Each flow at its own times, within a slack.
pub(crate) fn run(load: &Load, lanes: Lanes) -> Result<Lanes> {
    send(load, lanes, QueueConfig::default(), (TRAIN, SLACK))
}

/// Departures collected at slots.
pub(crate) fn slots(load: &Load, lanes: Lanes) -> Result<Lanes> {
    let config = QueueConfig { slot: load.slot(IN_SLOT.get()), ..QueueConfig::default() };
    send(load, lanes, config, (IN_SLOT, Duration::ZERO))
}

fn send(
    load: &Load,
    mut lanes: Lanes,
    config: QueueConfig,
    (train, most_slack): (NonZeroU32, Duration),
) -> Result<Lanes> {
    let mut queue = DepartureQueue::new(QueueConfig { packets: u32::MAX, ..config });
    let mut events = EventLoop::new(LoopConfig::default())?;
    let mut timers = SoftTimers::new(Config::default());
    let start = Monotonic.now() + SET_UP;
    for flow in 0..load.flows {
        let id = queue.add_flow(FlowConfig::new(PaceConfig::new(Rate::every(load.interval(flow))?)))?;
        queue.enqueue_at(Monotonic.now(), id, load.start(flow, start), load.bytes, flow)?;
    }
    let mut limit = TrainLimit::new(train, load.common_interval() * 9 / 16);
    timers.schedule_at(events.now(), start + load.time, Slack::EXACT, Event::End);
    timers.schedule_at(events.now(), start, Slack::EXACT, Event::Departures);
    loop {
        let Happening::Due(fired) = events.next(&mut timers)? else { continue };
        if fired.event == Event::End {
            return Ok(lanes);
        }
        let mut now = fired.due + fired.lateness;
        // What falls due meanwhile leaves before the loop polls, as in the command.
        for _ in 0..TURNS {
            let turn = queue.turn(now);
            let room = limit.room(now);
            let mut left = 0;
            while left < room {
                let Some(popped) = queue.pop_due(&turn) else { break };
                // Without a limit on the delay no packet expires.
                let Popped::Departure(departure) = popped else { continue };
                lanes.stage(departure.token, departure.place)?;
                queue.enqueue(now, departure.flow, load.bytes, departure.token)?;
                left += 1;
            }
            lanes.flush()?;
            let after = events.now();
            limit.departed(now, after, left);
            now = after;
            let due = queue.next_due().unwrap_or(after);
            if due.max(limit.earliest()) > now {
                break;
            }
        }
        let due = queue.next_due().unwrap_or(now);
        // A datagram that waits for its train has used up its slack.
        let earliest = due.max(limit.earliest());
        let slack = Slack::within(most_slack.saturating_sub(earliest.saturating_duration_since(due)));
        timers.schedule_at(now, earliest, slack, Event::Departures);
    }
}

/// The most calls before the loop polls.
const TURNS: u32 = 8;
const IN_SLOT: NonZeroU32 = NonZeroU32::new(16).unwrap();
const TRAIN: NonZeroU32 = NonZeroU32::new(8).unwrap();
/// The same time as for the descriptors.
const SET_UP: Duration = Duration::from_millis(50);
