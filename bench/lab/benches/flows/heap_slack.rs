//! A heap of due times, and a wait until a slack after the earliest: a wake-up serves all flows due by then.
//!
//! A program without a timer library would write this to save wake-ups. The slack is the same as for `soft` here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use anyhow::Result;
use softtimers::epoll::{Epoll, Events, Waiting};
use softtimers::{Clock, Monotonic, PaceConfig, Rate, RateClock, TimerSlack};

use crate::Load;
use crate::lanes::Lanes;

pub(crate) fn run(load: &Load, mut lanes: Lanes) -> Result<Lanes> {
    let _slack = TimerSlack::hold(Duration::from_nanos(1))?;
    let mut epoll = Epoll::new(Waiting::Pwait2)?;
    let mut events = Events::with_capacity(1);
    let start = Monotonic.now() + SET_UP;
    let (mut clocks, mut heap) = (Vec::new(), BinaryHeap::new());
    for flow in 0..load.flows {
        let mut clock = RateClock::new(PaceConfig::new(Rate::every(load.interval(flow))?))?;
        heap.push(Reverse((clock.start(load.start(flow, start)), flow)));
        clocks.push(clock);
    }
    let end = start + load.time;
    loop {
        let now = Monotonic.now();
        if now >= end {
            return Ok(lanes);
        }
        while let Some(mut earliest) = heap.peek_mut().filter(|earliest| earliest.0.0 <= now) {
            let flow = earliest.0.1;
            let clock = &mut clocks[flow as usize];
            lanes.stage(flow, clock.place())?;
            *earliest = Reverse((clock.departed(now), flow));
        }
        lanes.flush()?;
        let wake = heap.peek().map_or(end, |earliest| (earliest.0.0 + SLACK).min(end));
        epoll.wait(&mut events, Some(wake.saturating_duration_since(Monotonic.now())))?;
    }
}

pub(crate) const SLACK: Duration = Duration::from_micros(20);
/// The same time as for the descriptors.
const SET_UP: Duration = Duration::from_millis(50);
