//! The departure queue as its documentation reads, with nothing shared: plain lists, searched from end
//! to end, and whole nanoseconds.

use std::collections::VecDeque;

/// Even departures, by the exact-deadline rule. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelConfig {
    /// The interval of one packet, or of one byte.
    pub(crate) interval: u64,
    pub(crate) by_bytes: bool,
    pub(crate) burst: Option<u64>,
    pub(crate) catch_up: u64,
    pub(crate) quantum: ModelQuantum,
    pub(crate) most_packets: usize,
    pub(crate) longest_wait: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelQuantum {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) time: u64,
    pub(crate) alike: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ModelFlow {
    pub(crate) config: ModelConfig,
    place: u64,
    release: u64,
    /// The packets that left last: when, how many, how many bytes.
    last: (u64, u64, u64),
    beginning: bool,
    pub(crate) waiting: VecDeque<ModelPacket>,
    filed: (u64, u64),
    pub(crate) forfeited: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ModelPacket {
    pub(crate) ready: u64,
    pub(crate) bytes: u64,
    pub(crate) token: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ModelPopped {
    Departure { flow: usize, token: u32, place: u64, more: bool },
    Expired { flow: usize, token: u32, waited: u64 },
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) flows: Vec<Option<ModelFlow>>,
    leaving: Option<(usize, Vec<ModelPacket>, u64)>,
    latest: u64,
    sequence: u64,
}

impl ModelFlow {
    fn places(&self, packets: u64, bytes: u64) -> u64 {
        if self.config.by_bytes { bytes } else { packets }
    }

    /// The burst interval of what left last.
    pub(crate) fn shortest(&self) -> u64 {
        let (_, packets, bytes) = self.last;
        let gap = self.places(packets, bytes) * self.config.interval;
        match self.config.burst {
            Some(burst) => (burst * packets).min(gap),
            None if self.config.by_bytes => gap * 9 / 16,
            None => (self.config.interval * 9 / 16) * packets,
        }
    }

    fn departed(&mut self, now: u64, packets: u64, bytes: u64) {
        let interval = self.config.interval;
        self.place += self.places(packets, bytes) * interval;
        let most = self.config.catch_up / interval;
        while now > self.place && (now - self.place).div_ceil(interval) > most {
            let lost = (now - self.place).div_ceil(interval) - most;
            self.place += lost * interval;
            self.forfeited += lost;
        }
        self.last = (now, packets, bytes);
        self.beginning = false;
        self.release = self.place.max(now + self.shortest());
    }

    fn set_rate(&mut self, now: u64, interval: u64) {
        let (at, packets, bytes) = self.last;
        let places = self.places(packets, bytes);
        let (old, new) = (places * self.config.interval, places * interval);
        if !self.beginning && old != 0 && old != new {
            let share = |time: u64| (u128::from(time) * u128::from(new) / u128::from(old)) as u64;
            self.place = if self.place > now {
                now + new - share(old.saturating_sub(self.place - now))
            } else {
                now.saturating_sub(share(now - self.place))
            };
        }
        self.config.interval = interval;
        self.release = self.place.max(at + self.shortest());
    }

    fn head(&mut self) {
        let ready = self.waiting[0].ready;
        if ready > self.release {
            (self.place, self.release, self.beginning) = (ready, ready, true);
        }
    }

    fn joins(&self, leaving: &[ModelPacket], next: ModelPacket, now: u64) -> bool {
        let ModelQuantum { packets, bytes, time, alike } = self.config.quantum;
        let count = leaving.len() as u64 + 1;
        let sum = leaving.iter().map(|packet| packet.bytes).sum::<u64>() + next.bytes;
        let first = leaving[0].bytes;
        next.ready <= now
            && now - next.ready <= self.config.longest_wait
            && count <= packets
            && sum <= bytes
            && self.places(count, sum) * self.config.interval <= time
            && (!alike || (leaving.iter().all(|packet| packet.bytes == first) && next.bytes <= first))
    }
}

impl Model {
    pub(crate) fn add(&mut self, config: ModelConfig) -> usize {
        self.flows.push(Some(ModelFlow {
            config,
            place: 0,
            release: 0,
            last: (0, 0, 0),
            beginning: true,
            waiting: VecDeque::new(),
            filed: (0, 0),
            forfeited: 0,
        }));
        self.flows.len() - 1
    }

    /// Any operation that is given a time has seen it, also one that is refused.
    pub(crate) fn see(&mut self, now: u64) {
        self.latest = self.latest.max(now);
    }

    pub(crate) fn remove(&mut self, flow: usize) -> Vec<u32> {
        if self.leaving.as_ref().is_some_and(|(of, ..)| *of == flow) {
            self.leaving = None;
        }
        let flow = self.flows[flow].take().unwrap();
        flow.waiting.into_iter().map(|packet| packet.token).collect()
    }

    /// Takes the packet with this token out.
    pub(crate) fn remove_packet(&mut self, flow: usize, token: u32) -> bool {
        let packets = &mut self.flows[flow].as_mut().unwrap().waiting;
        let Some(index) = packets.iter().position(|packet| packet.token == token) else { return false };
        packets.remove(index);
        if self.leaving.as_ref().is_some_and(|(of, ..)| *of == flow) {
            self.left();
        } else if index == 0 {
            self.file(flow);
        }
        true
    }

    pub(crate) fn enqueue(&mut self, now: u64, flow: usize, not_before: u64, bytes: u64, token: u32) -> bool {
        self.see(now);
        let (latest, index) = (self.latest, flow);
        let flow = self.flows[flow].as_mut().unwrap();
        let ready = not_before.max(latest);
        let ahead = flow.waiting.iter().map(|packet| packet.bytes).sum::<u64>();
        let wait =
            flow.release.max(latest) + flow.places(flow.waiting.len() as u64, ahead) * flow.config.interval;
        let held = flow.waiting.iter().map(|packet| packet.ready).max();
        let wait = wait.max(held.unwrap_or(0));
        if flow.waiting.len() >= flow.config.most_packets
            || wait.saturating_sub(ready) > flow.config.longest_wait
        {
            return false;
        }
        flow.waiting.push_back(ModelPacket { ready, bytes, token });
        if flow.waiting.len() == 1 {
            self.file(index);
        }
        true
    }

    pub(crate) fn set_rate(&mut self, now: u64, flow: usize, interval: u64) {
        self.see(now);
        if self.leaving.as_ref().is_some_and(|(of, ..)| *of == flow) {
            self.left();
        }
        let latest = self.latest;
        self.flows[flow].as_mut().unwrap().set_rate(latest, interval);
        self.file(flow);
    }

    pub(crate) fn restart(&mut self, now: u64, flow: usize) {
        self.see(now);
        if self.leaving.as_ref().is_some_and(|(of, ..)| *of == flow) {
            self.left();
        }
        let restarted = self.flows[flow].as_mut().unwrap();
        restarted.release = restarted.release.max(self.latest);
        (restarted.place, restarted.beginning) = (restarted.release, true);
        self.file(flow);
    }

    pub(crate) fn turn(&mut self, now: u64) -> (u64, u64) {
        self.left();
        self.see(now);
        (self.latest, self.sequence)
    }

    pub(crate) fn pop(&mut self, turn: (u64, u64)) -> Option<ModelPopped> {
        let (filed, index) = self.first()?;
        if filed >= turn {
            return None;
        }
        let now = turn.0;
        let flow = self.flows[index].as_mut().unwrap();
        let packet = flow.waiting.pop_front().unwrap();
        let place = flow.place;
        let next = flow.waiting.front().copied();
        if self.leaving.is_none() && now - packet.ready > flow.config.longest_wait {
            match next {
                Some(next) if next.ready <= now => flow.head(),
                _ => self.file(index),
            }
            return Some(ModelPopped::Expired {
                flow: index,
                token: packet.token,
                waited: now - packet.ready,
            });
        }
        let (_, leaving, at) = self.leaving.get_or_insert_with(|| (index, Vec::new(), now));
        leaving.push(packet);
        *at = now;
        let more = next.is_some_and(|next| flow.joins(leaving, next, now));
        if !more {
            self.left();
        }
        Some(ModelPopped::Departure { flow: index, token: packet.token, place, more })
    }

    /// The least of the times at which flows were inserted, and the flow.
    pub(crate) fn first(&self) -> Option<((u64, u64), usize)> {
        let flows = self.flows.iter().enumerate();
        flows
            .filter_map(|(index, flow)| Some((flow.as_ref()?, index)))
            .filter(|(flow, _)| !flow.waiting.is_empty())
            .map(|(flow, index)| (flow.filed, index))
            .min()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.flows.iter().flatten().map(|flow| flow.waiting.len()).sum()
    }

    fn left(&mut self) {
        if let Some((index, packets, at)) = self.leaving.take() {
            let bytes = packets.iter().map(|packet| packet.bytes).sum();
            self.flows[index].as_mut().unwrap().departed(at, packets.len() as u64, bytes);
            self.file(index);
        }
    }

    fn file(&mut self, index: usize) {
        let (latest, sequence) = (self.latest, self.sequence);
        let flow = self.flows[index].as_mut().unwrap();
        if flow.waiting.is_empty() {
            return;
        }
        flow.head();
        flow.filed = (flow.release.max(latest), sequence);
        self.sequence += 1;
    }
}
