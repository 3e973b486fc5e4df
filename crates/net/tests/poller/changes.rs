//! Devices and queues that come and go.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::simulated::{Costs, SimulatedDevice};
use proptest::prelude::*;
use softtimers::{Clock, Monotonic, Percent, Random, Timestamp};
use softtimers_net::poller::{Device, Gauge, Poller, QueueId, UdpDevice};
use softtimers_net::udp::UdpSocket;
use softtimers_poll::{
    BusyWait, CpuLimitConfig, FeedbackConfig, Interrupts, Policy, Preset, Quota, SourceConfig, SourceId,
};

use super::{Simulated, at, flood, micros, policies, simulated};

/// The counts of a device, taken from outside.
#[derive(Default)]
struct Known {
    /// The number of its next packet is this or more: its ring may have run over.
    next: u64,
    received: u64,
    /// Packets that its output was given.
    sent: u64,
    /// Packets sent to a device that is gone, or to an output without room.
    refused: u64,
}

struct Model {
    poller: Simulated,
    clock: std::rc::Rc<softtimers::ManualClock>,
    there: BTreeMap<SourceId, Known>,
    gone: Vec<SourceId>,
    queues: Vec<(QueueId, Gauge)>,
    random: Random,
}

impl Model {
    fn new(seed: u64) -> Self {
        let (clock, mut poller) = simulated();
        poller.limit_cpu(Some(CpuLimitConfig::new(Percent::new(80).unwrap())));
        let (there, gone, queues) = (BTreeMap::new(), Vec::new(), Vec::new());
        Model { poller, clock, there, gone, queues, random: Random::stream(seed, 0) }
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }

    fn add(&mut self) {
        let (mut time, gap) = (self.clock.now().as_nanos(), 500 + self.random.below(40_000));
        let mut random = Random::stream(self.random.next_u64(), 1);
        let arrivals = std::iter::repeat_with(move || {
            time += 1 + random.below(gap);
            Timestamp::from_nanos(time)
        });
        let device = SimulatedDevice::new(&self.clock, Costs::default(), arrivals).with_ring(32).with_output(
            16,
            4,
            micros(1),
        );
        let kind = self.below(policies().len());
        let config = SourceConfig::new(policies().swap_remove(kind).1).with_quota(Quota::new(8, 8));
        let id = self.poller.add(device, config).unwrap();
        assert!(!self.gone.contains(&id) && self.there.insert(id, Known::default()).is_none(), "{id:?} anew");
    }

    fn any(&mut self) -> Option<SourceId> {
        let at = self.random.below(self.there.len().max(1) as u64) as usize;
        self.there.keys().nth(at).copied()
    }

    /// The device comes back with all that was its own.
    fn remove(&mut self) {
        let Some(id) = self.any() else { return };
        let (drops, stats) = (self.poller.drops(id).unwrap(), self.poller.source_stats(id));
        let known = self.there.remove(&id).unwrap();
        let mut device = self.poller.remove(id).unwrap();
        assert_eq!((drops.output, stats.packets), (known.refused, known.received));
        assert_eq!(device.sent() + device.queued() as u64, known.sent);
        let dropped = device.drops().unwrap().interface;
        assert_eq!(device.arrived(), known.received + device.waiting() as u64 + dropped);
        assert!(!device.is_armed());
        self.gone.push(id);
    }

    fn attach_or_detach(&mut self) {
        if self.queues.len() < 3 {
            let gauge = Gauge::new().unwrap();
            let sources: Vec<_> = self.any().into_iter().chain(self.gone.last().copied()).collect();
            let config = FeedbackConfig::preset(Preset::Paper, 8).unwrap();
            let queue = self.poller.attach_queue(&gauge, config, &sources).unwrap();
            gauge.put(8);
            self.queues.push((queue, gauge));
        } else {
            let at = self.below(3);
            let (queue, _) = self.queues.swap_remove(at);
            assert!(self.poller.detach_queue(queue));
            assert!(!self.poller.detach_queue(queue));
        }
    }

    /// Names of the past are of no use, and do no harm.
    fn use_what_is_gone(&mut self) {
        let Some(&id) = self.gone.last() else { return };
        let armed: Vec<_> = self.there.keys().map(|&id| self.poller.is_armed(id)).collect();
        self.poller.set_quota(id, Quota::NONE);
        assert!(self.poller.remove(id).is_none() && self.poller.devices().get(id).is_none());
        assert!(self.poller.drops(id).is_err() && !self.poller.is_armed(id));
        assert!(self.there.keys().map(|&id| self.poller.is_armed(id)).eq(armed));
    }

    fn wait(&mut self) {
        let until = self.clock.now() + micros(self.random.below(300));
        let to = if self.random.below(3) == 0 { self.gone.last().copied() } else { self.any() };
        let there = &mut self.there;
        let mut answers = Vec::new();
        self.poller
            .wait(Some(until), |packet, outputs| {
                let from = outputs.from();
                let known = there.get_mut(&from).expect("a packet of a device that is gone");
                let number = u64::from_be_bytes(packet.bytes[..].try_into().unwrap());
                assert!(number >= known.next, "{from:?}: packet {number} after {}", known.next);
                (known.next, known.received) = (number + 1, known.received + 1);
                let to = to.unwrap_or(from);
                answers.push((from, to, outputs.send(to, packet.bytes, None)));
            })
            .unwrap();
        for (from, to, taken) in answers {
            match there.get_mut(&to).filter(|_| taken) {
                Some(to) => to.sent += 1,
                None => there.get_mut(&from).unwrap().refused += 1,
            }
        }
        for &id in there.keys() {
            // A wake-up may have come since.
            assert!(self.poller.is_armed(id) || !self.poller.device(id).is_armed());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes and goes in whatever order: each packet is its own device's, each device comes back with what
    /// was its own, and no name of the past reaches another device.
    #[test]
    fn a_name_never_reaches_another_device(steps in prop::collection::vec(0u8..10, 1..300), seed: u64) {
        let mut model = Model::new(seed);
        for step in steps {
            match step {
                0 if model.there.len() < 6 => model.add(),
                1 => model.remove(),
                2 => model.attach_or_detach(),
                3 => model.use_what_is_gone(),
                _ => model.wait(),
            }
        }
        let ids: Vec<_> = model.poller.devices().iter().map(|(id, _)| id).collect();
        prop_assert!(model.there.keys().copied().eq(ids));
        (0..model.there.len()).for_each(|_| model.remove());
    }
}

/// A queue that stays full shuts its sources; detached, it shuts nothing.
#[test]
fn a_queue_that_is_detached_holds_nothing_back() {
    let (clock, mut poller) = simulated();
    let device = SimulatedDevice::new(&clock, Costs::default(), flood(2_000, 30));
    let source = poller.add(device, SourceConfig::new(Box::new(BusyWait) as Box<dyn Policy>)).unwrap();
    let gauge = Gauge::new().unwrap();
    let mut config = FeedbackConfig::preset(Preset::Paper, 32).unwrap();
    config.time_out = softtimers_poll::TimeOut::After(Duration::from_secs(1));
    let queue = poller.attach_queue(&gauge, config, &[source]).unwrap();
    gauge.put(32);
    let run = |poller: &mut Simulated, until| {
        let mut packets = 0;
        while clock.now() < at(until) {
            poller.wait(Some(at(until)), |_, _| packets += 1).unwrap();
        }
        packets
    };
    assert_eq!(run(&mut poller, 10_000), 0);
    assert!(poller.detach_queue(queue));
    assert!(run(&mut poller, 20_000) > 4_000);
    poller.attach_queue(&gauge, config, &[source]).unwrap();
}

/// On sockets: a device comes back in working order, and its descriptor may be added again, to this poller and to others.
#[test]
fn a_socket_comes_back_and_may_be_added_again() {
    let deadline = || Monotonic.now() + Duration::from_secs(20);
    let [first, second, client] = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = first.local_addr().unwrap();
    let mut poller = Poller::new().unwrap();
    let one = poller.add(UdpDevice::new(first).unwrap(), SourceConfig::new(Interrupts)).unwrap();
    poller.wait(Some(Monotonic.now()), |_, _| {}).unwrap();
    assert!(poller.is_armed(one));
    // Its wake-up is on its way when it goes.
    client.send_to(b"early", address).unwrap();
    let device = poller.remove(one).unwrap();
    assert!(poller.remove(one).is_none());

    let two = poller.add(UdpDevice::new(second).unwrap(), SourceConfig::new(Interrupts)).unwrap();
    assert_eq!((two.index(), two == one), (one.index(), false));
    poller.wait(Some(Monotonic.now()), |_, _| panic!("nobody wrote to this one")).unwrap();
    assert!(poller.is_armed(two));
    assert_eq!(poller.source_stats(two).woken, 0, "the wake-up was the other's");

    let again = poller.add(device, SourceConfig::new(Interrupts)).unwrap();
    let (mut from, until) = (None, deadline());
    while from.is_none() && Monotonic.now() < until {
        poller
            .wait(Some(until), |packet, outputs| from = Some((outputs.from(), packet.bytes.to_vec())))
            .unwrap();
    }
    assert_eq!(from, Some((again, b"early".to_vec())));

    // A gauge that was detached may be attached elsewhere, or here again.
    let gauge = Gauge::new().unwrap();
    let config = FeedbackConfig::preset(Preset::Paper, 32).unwrap();
    let queue = poller.attach_queue(&gauge, config, &[two]).unwrap();
    assert!(poller.attach_queue(&gauge, config, &[two]).is_err(), "it is attached");
    assert!(poller.detach_queue(queue));
    poller.attach_queue(&gauge, config, &[again]).unwrap();
}
