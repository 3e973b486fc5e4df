//! Receive queues polled by the program, on virtual cables in a network of the test's own. Needs root and `ip`; says so where
//! it has not got them.
//!
//! ```text
//!   test ──▶ near (another network) ═══ in ─▶ queue ─▶ device ─▶ poller
//! ```

#[path = "poller/network.rs"]
mod network;
#[path = "../src/skipped.rs"]
mod skipped;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use softtimers::{
    Clock, Config, EventLoop, Happening, Interest, LoopConfig, Monotonic, SoftTimers, Timestamp, Token,
};
use softtimers_linux::ethtool::{Offload, set_offload};
use softtimers_linux::sockopt::napi_id;
use softtimers_net::napi::{Deferral, Driven, Napi, NapiDevice, Queue, Steered};
use softtimers_net::poller::{Device, Poller, UdpDevice};
use softtimers_poll::{
    Aggregation, AggregationConfig, DelayBound, DelayBoundConfig, Policy, SourceConfig, SourceId,
};

use network::{enter, ip, with_network};
use skipped::skipped;

const HERE: &str = "10.97.0.2";
const MAX_DELAY: Duration = Duration::from_millis(5);
/// No wait for what must come is longer.
const WAIT: Duration = Duration::from_secs(20);

/// Runs `test` with a cable of two queues, `in` here, whose packets can be polled; unless this machine has no such queue.
fn with_cable(test: impl FnOnce(&Far) + Send + 'static) {
    with_network(|network| {
        ip("link del near").unwrap();
        let queues = "numrxqueues 2 numtxqueues 2";
        ip(&format!("link add near {queues} type veth peer name in {queues}")).unwrap();
        let host = network.host("near", "10.97.0.1/24");
        ip(&format!("addr add {HERE}/24 dev in")).unwrap();
        ip("link set in up").unwrap();
        gro(true);
        match Napi::all() {
            Ok(all) if all.len() == 2 => test(&Far::start(host)),
            other => skipped(&format_args!("no queues to be polled: {other:?}")),
        }
    });
}

fn gro(on: bool) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    set_offload(socket.as_fd(), "in", Offload::Gro, on).unwrap();
}

/// A thread at the other end, which sends what it is told: datagrams with the time at which they leave.
struct Far {
    host: String,
    /// One of its sockets, for tests that say themselves when a packet leaves.
    socket: UdpSocket,
    orders: Sender<Order>,
    done: Receiver<()>,
}

/// The number of the socket to send from, the address, how many datagrams, and the time between two.
type Order = (usize, SocketAddr, u32, Duration);

impl Far {
    fn start(host: String) -> Self {
        let name = host.clone();
        let ((orders, ordered), (finished, done)) = (channel::<Order>(), channel());
        let (give, given) = channel();
        let _: JoinHandle<()> = thread::spawn(move || {
            enter(&host);
            let sockets: Vec<_> = (0..32).map(|_| UdpSocket::bind("10.97.0.1:0").unwrap()).collect();
            set_offload(sockets[0].as_fd(), "near", Offload::Tso, false).unwrap();
            give.send(sockets[0].try_clone().unwrap()).unwrap();
            for (from, to, count, gap) in ordered {
                let begin = Monotonic.now();
                for number in 0..count {
                    while Monotonic.now() < begin + gap * number {
                        std::hint::spin_loop();
                    }
                    let _ = sockets[from].send_to(&Monotonic.now().as_nanos().to_ne_bytes(), to);
                }
                if finished.send(()).is_err() {
                    return;
                }
            }
        });
        Far { host: name, socket: given.recv().unwrap(), orders, done }
    }

    /// Begins to send; [`finish`](Self::finish) waits for its end.
    fn send(&self, from: usize, to: SocketAddr, count: u32, gap: Duration) {
        self.orders.send((from, to, count, gap)).unwrap();
    }

    fn finish(&self) {
        self.done.recv().unwrap();
    }

    fn send_all(&self, from: usize, to: SocketAddr, count: u32) {
        self.send(from, to, count, Duration::ZERO);
        self.finish();
    }
}

fn socket() -> (softtimers_net::udp::UdpSocket, SocketAddr) {
    let socket = softtimers_net::udp::UdpSocket::bind((HERE, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn device() -> (NapiDevice, SocketAddr) {
    let (socket, address) = socket();
    (NapiDevice::new(UdpDevice::new(socket).unwrap(), MAX_DELAY), address)
}

/// How long ago a datagram left.
fn delay(data: &[u8]) -> Duration {
    let left = Timestamp::from_nanos(u64::from_ne_bytes(data.try_into().unwrap()));
    Monotonic.now().saturating_duration_since(left)
}

fn aggregation(quota: u32) -> Aggregation {
    Aggregation::new(AggregationConfig { quota, longest: MAX_DELAY, ..AggregationConfig::default() })
}

/// Polls as a busy program does, until `enough`.
fn busy<P: Policy>(
    poller: &mut Poller<NapiDevice, P>,
    mut enough: impl FnMut(&Poller<NapiDevice, P>) -> bool,
) {
    let until = Monotonic.now() + WAIT;
    while !enough(poller) {
        assert!(Monotonic.now() < until, "nothing comes");
        poller.poll(|_, _| ()).unwrap();
    }
}

/// Returns a poller that polls its queue, and the address at which it receives: three thousand datagrams, to begin with.
fn polling(far: &Far) -> (Poller<NapiDevice, Aggregation>, SourceId, SocketAddr) {
    let (device, address) = device();
    let mut poller = Poller::new().unwrap();
    let id = poller.add(device, SourceConfig::new(aggregation(5))).unwrap();
    far.send(0, address, 3_000, Duration::from_micros(20));
    busy(&mut poller, |poller| matches!(poller.device(id).driven(), Driven::Polls));
    (poller, id, address)
}

/// The deferral of each queue of the cable.
fn deferrals() -> Vec<Deferral> {
    Napi::all().unwrap().into_iter().map(|napi| napi.deferral).collect()
}

fn is_readable(socket: &impl AsFd, within: Duration) -> bool {
    let within = Timespec::try_from(within).unwrap();
    poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&within)).unwrap() > 0
}

/// Returns a queue that is polled, of a socket with nothing to be received.
fn polled(far: &Far, max_delay: Duration) -> (SocketAddr, Queue, UdpDevice) {
    let (socket, address) = socket();
    far.send_all(0, address, 1);
    assert!(is_readable(&socket, WAIT));
    let mut device = UdpDevice::new(socket).unwrap();
    device.poll_rx(9, |_, _| ()).unwrap();
    let mut queue = Queue::of(&device, max_delay).unwrap();
    Queue::prepare(&device).unwrap();
    queue.busy(Timestamp::ZERO).unwrap();
    queue.busy(Timestamp::from_micros(1_000)).unwrap();
    // The first packet still interrupts, and leaves the interrupt off.
    far.send_all(0, address, 1);
    assert!(is_readable(&device, WAIT));
    device.poll_rx(9, |_, _| ()).unwrap();
    (address, queue, device)
}

#[test]
fn a_queue_is_polled_after_a_millisecond_without_idle_time_and_interrupts_come_back_with_it() {
    with_cable(|far| {
        let before = deferrals();
        let (address, mut queue, mut device) = polled(far, MAX_DELAY);
        assert!(queue.is_polled());
        let deferred = Deferral { polls: 1, flush: MAX_DELAY, suspend: Duration::ZERO };
        assert_eq!(deferrals().iter().filter(|&&one| one == deferred).count(), 1);
        queue.idle(&device).unwrap();
        assert!(!queue.is_polled());
        assert_eq!(deferrals(), before);
        for (micros, is_polled) in [(5_000, false), (5_999, false), (6_000, true)] {
            queue.busy(Timestamp::from_micros(micros)).unwrap();
            assert_eq!(queue.is_polled(), is_polled, "{micros}");
        }
        queue.busy(Timestamp::from_micros(9_000)).unwrap();
        assert_eq!(queue.switches(), 3);
        drop(queue);
        assert_eq!(deferrals(), before);
        far.send_all(0, address, 1);
        assert!(is_readable(&device, WAIT), "interrupts are back");
        assert_eq!(device.poll_rx(9, |_, _| ()).unwrap().done, 1);
    });
}

/// The second finds the queue as the first has set it.
#[test]
fn who_shares_a_queue_leaves_it_as_it_was() {
    with_cable(|far| {
        let before = deferrals();
        let (_, first, device) = polled(far, MAX_DELAY);
        let mut second = Queue::of(&device, MAX_DELAY).unwrap();
        assert_ne!(deferrals(), before, "the first is still polled");
        second.busy(Timestamp::ZERO).unwrap();
        second.busy(Timestamp::from_micros(1_000)).unwrap();
        drop(first);
        assert_ne!(deferrals(), before, "the second is still polled");
        second.idle(&device).unwrap();
        assert_eq!(deferrals(), before);
        drop(second);
        assert_eq!(deferrals(), before);
    });
}

/// Another process has it as long as its name is taken.
#[test]
fn a_queue_of_another_process_is_left_alone() {
    with_cable(|far| {
        let (socket, address) = socket();
        far.send_all(0, address, 1);
        assert!(is_readable(&socket, WAIT));
        let name = format!("softtimers-napi-{}", napi_id(socket.as_fd()).unwrap());
        let name = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
        let other = UnixDatagram::bind_addr(&name).unwrap();
        let refused = Queue::of(&socket, MAX_DELAY).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ResourceBusy, "{refused}");
        drop(other);
        drop(Queue::of(&socket, MAX_DELAY).unwrap());
        UnixDatagram::bind_addr(&name).expect("the name is given back");
    });
}

/// Where nobody polls, nothing comes: until the kernel's timer, if that is sooner.
#[test]
fn packets_come_by_polls_and_at_last_by_the_kernels_timer() {
    with_cable(|far| {
        let (address, queue, mut device) = polled(far, Duration::from_secs(4));
        Queue::poll(&device);
        far.send_all(0, address, 3);
        assert!(!is_readable(&device, Duration::from_millis(30)), "by an interrupt");
        assert_eq!(device.poll_rx(9, |_, _| ()).unwrap().done, 3);
        far.send_all(0, address, 3);
        assert!(is_readable(&device, WAIT), "not even by the timer");
        drop(queue);
    });
}

/// As after SIGKILL: nobody restores anything, and no setting belongs to a descriptor that closes.
#[test]
fn a_program_that_is_killed_leaves_interrupts_that_are_late_by_the_bound() {
    with_cable(|far| {
        let before = deferrals();
        let (address, queue, device) = polled(far, MAX_DELAY);
        std::mem::forget(queue);
        assert!(deferrals().iter().any(|one| one.flush == MAX_DELAY));
        far.send_all(0, address, 1);
        assert!(is_readable(&device, WAIT), "not by the timer");
        ip("link set in down").unwrap();
        ip("link set in up").unwrap();
        assert_eq!(deferrals(), before);
    });
}

/// Soft timers §4.2, on an interface: the interval between polls is what finds the quota.
#[test]
fn polls_find_the_quota_over_a_decade_of_rates() {
    with_cable(|far| {
        for quota in [1, 5, 15] {
            for gap in [200, 63, 20].map(Duration::from_micros) {
                let (found, wanted) = (found_a_poll(far, quota, gap), f64::from(quota));
                assert!((found / wanted - 1.0).abs() < 0.1, "quota {quota}, gap {gap:?}: {found}");
            }
        }
    });
}

/// Returns the mean that a busy program's polls find of datagrams that are `gap` apart, once the interval has settled.
///
/// The program sends them itself, between its polls. No time passes for them while this machine stands still, nor more than
/// half a gap a turn: a machine that is slow sends less often, and finds the quota all the same.
fn found_a_poll(far: &Far, quota: u32, gap: Duration) -> f64 {
    let (device, address) = device();
    let mut poller = Poller::new().unwrap();
    let id = poller.add(device, SourceConfig::new(aggregation(quota))).unwrap();
    let settled_after =
        u64::from(100 * quota) + (Duration::from_millis(150).as_nanos() / gap.as_nanos()) as u64;
    let mut settled = None;
    let (mut before, mut passed) = (Monotonic.now(), Duration::ZERO);
    let until = before + WAIT;
    loop {
        let now = Monotonic.now();
        passed += now.saturating_duration_since(before).min(gap / 2);
        before = now;
        if passed >= gap {
            passed -= gap;
            far.socket.send_to(&[0; 4], address).unwrap();
        }
        poller.poll(|_, _| ()).unwrap();
        let stats = poller.source_stats(id);
        assert!(now < until, "quota {quota}, gap {gap:?}: {stats:?}");
        if stats.packets < settled_after {
            continue;
        }
        let begin = *settled.get_or_insert(stats);
        if stats.packets >= settled_after * 3 {
            assert!(matches!(poller.device(id).driven(), Driven::Polls));
            assert_eq!(stats.woken, begin.woken, "a busy program is not woken up");
            return (stats.packets - begin.packets) as f64 / (stats.looks - begin.looks) as f64;
        }
    }
}

#[test]
fn an_idle_program_gets_interrupts_again_and_is_woken_up() {
    with_cable(|far| {
        let before = deferrals();
        let (mut poller, id, address) = polling(far);
        assert_ne!(deferrals(), before);
        far.finish();
        // A poll that is due comes first.
        while !poller.is_armed(id) {
            poller.poll(|_, _| ()).unwrap();
            poller.idle(|_, _| ()).unwrap();
        }
        assert!(matches!(poller.device(id).driven(), Driven::Interrupts));
        assert_eq!(deferrals(), before);
        let taken = poller.source_stats(id).packets;
        far.send_all(0, address, 1);
        while poller.source_stats(id).packets == taken {
            poller.wait(Some(Monotonic.now() + WAIT), |_, _| ()).unwrap();
        }
        assert!(poller.source_stats(id).woken > 0);
        let device = poller.remove(id).unwrap();
        drop(device);
        assert_eq!(deferrals(), before);
    });
}

/// A program that sleeps between polls: few wake-ups, and none by packets, as long as enough packets come.
#[test]
fn a_delay_bound_polls_while_the_load_is_worth_it_and_gives_interrupts_back_below() {
    with_cable(|far| {
        let before = deferrals();
        let (device, address) = device();
        let mut poller = Poller::new().unwrap();
        let policy =
            DelayBound::new(DelayBoundConfig { max_delay: MAX_DELAY, ..DelayBoundConfig::default() });
        let id = poller.add(device, SourceConfig::new(policy)).unwrap();
        let until = || Some(Monotonic.now() + Duration::from_millis(20));
        far.send(0, address, 20_000, Duration::from_micros(20));
        let (mut polls, mut delays) = (false, Vec::new());
        while poller.source_stats(id).packets < 10_000 {
            let mut found = Vec::new();
            poller.wait(until(), |packet, _| found.push(delay(packet.bytes))).unwrap();
            polls |= matches!(poller.device(id).driven(), Driven::Polls);
            if polls {
                delays.append(&mut found);
            }
        }
        far.finish();
        assert!(polls, "fifty thousand a second were not polled for");
        // Not of all: a machine that stands still is late.
        delays.sort_unstable();
        let half = delays[delays.len() / 2];
        assert!(half <= MAX_DELAY, "half of {} datagrams waited for {half:?}", delays.len());
        let again = Monotonic.now() + WAIT;
        while matches!(poller.device(id).driven(), Driven::Polls) {
            assert!(Monotonic.now() < again, "no interrupts");
            poller.wait(until(), |_, _| ()).unwrap();
        }
        assert_eq!(deferrals(), before);
    });
}

/// A socket, its address, and the number of the socket at the other end that sends to it.
type Sent = (softtimers_net::udp::UdpSocket, SocketAddr, usize);

/// Returns two sockets whose packets take different queues, if there are any.
fn two_queues(far: &Far) -> Option<[Sent; 2]> {
    let (one, address) = socket();
    far.send_all(0, address, 1);
    assert!(is_readable(&one, WAIT));
    let first = napi_id(one.as_fd()).unwrap();
    // Which queue a packet takes is up to its addresses and ports.
    let other = (1..32).find_map(|from| {
        let (other, address) = socket();
        far.send_all(from, address, 1);
        assert!(is_readable(&other, WAIT));
        (napi_id(other.as_fd()).unwrap() != first).then_some((other, address, from))
    });
    if other.is_none() {
        skipped(&"all packets take one queue");
    }
    Some([(one, address, 0), other?])
}

#[test]
fn two_queues_are_polled_by_a_thread_each() {
    with_cable(|far| {
        let before = deferrals();
        let Some(sockets) = two_queues(far) else { return };
        for (_, address, from) in &sockets {
            far.send(*from, *address, 2_000, Duration::from_micros(30));
        }
        // The second queue's packets come when the first's have ended.
        let threads = sockets.map(|(socket, ..)| {
            thread::spawn(move || {
                let mut poller = Poller::new().unwrap();
                let device = NapiDevice::new(UdpDevice::new(socket).unwrap(), MAX_DELAY);
                let id = poller.add(device, SourceConfig::new(aggregation(5))).unwrap();
                let mut polls = false;
                busy(&mut poller, |poller| {
                    polls |= matches!(poller.device(id).driven(), Driven::Polls);
                    polls && poller.source_stats(id).packets >= 200
                });
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
        far.finish();
        far.finish();
        assert_eq!(deferrals(), before);
    });
}

#[test]
fn two_queues_are_polled_by_one_thread() {
    with_cable(|far| {
        let before = deferrals();
        let Some(sockets) = two_queues(far) else { return };
        let mut poller = Poller::new().unwrap();
        let [one, two] = sockets.map(|(socket, address, from)| {
            let device = NapiDevice::new(UdpDevice::new(socket).unwrap(), MAX_DELAY);
            (poller.add(device, SourceConfig::new(aggregation(5))).unwrap(), address, from)
        });
        for (_, address, from) in [one, two] {
            far.send(from, address, 2_000, Duration::from_micros(30));
        }
        let mut both = false;
        busy(&mut poller, |poller| {
            let all = [one.0, two.0];
            both |= all.iter().all(|&id| matches!(poller.device(id).driven(), Driven::Polls));
            // A machine that stands still loses some.
            both && all.iter().all(|&id| poller.source_stats(id).packets >= 200)
        });
        assert!(deferrals().iter().all(|one| one.flush == MAX_DELAY));
        far.finish();
        far.finish();
        drop(poller);
        assert_eq!(deferrals(), before);
    });
}

/// By the end of receive offload, and then of the interface itself.
#[test]
fn a_device_that_loses_its_queue_says_so_and_goes_on_by_interrupts() {
    with_cable(|far| {
        let (mut poller, id, address) = polling(far);
        far.finish();
        gro(false);
        busy(&mut poller, |poller| matches!(poller.device(id).driven(), Driven::FellBack(_)));
        let Driven::FellBack(error) = poller.device(id).driven() else { unreachable!() };
        assert_eq!((error.kind(), &*error.to_string()), (ErrorKind::NotFound, "the queue is gone"));
        let taken = poller.source_stats(id).packets;
        far.send_all(0, address, 10);
        busy(&mut poller, |poller| poller.source_stats(id).packets >= taken + 10);
        ip("link del in").unwrap();
        for _ in 0..10 {
            poller.wait(Some(Monotonic.now() + Duration::from_millis(1)), |_, _| ()).unwrap();
        }
    });
}

#[test]
fn a_device_whose_interface_is_deleted_while_it_is_polled_says_so() {
    with_cable(|far| {
        let (mut poller, id, _) = polling(far);
        ip("link del in").unwrap();
        busy(&mut poller, |poller| matches!(poller.device(id).driven(), Driven::FellBack(_)));
        far.finish();
    });
}

#[test]
fn where_there_is_no_queue_a_device_says_so() {
    let receiver = softtimers_net::udp::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (address, sender) = (receiver.local_addr().unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let mut device = NapiDevice::new(UdpDevice::new(receiver).unwrap(), MAX_DELAY);
    assert!(matches!(device.driven(), Driven::Interrupts));
    sender.send_to(b"x", address).unwrap();
    assert!(is_readable(&device, WAIT));
    assert_eq!(device.poll_rx(9, |_, _| ()).unwrap().done, 1);
    assert!(matches!(device.driven(), Driven::FellBack(error) if error.kind() == ErrorKind::NotFound));
    assert!(device.arm().unwrap());
}

/// The right is looked for before anything is changed; a queue that root has set up needs none.
#[test]
fn without_the_right_only_a_queue_that_was_set_up_before_is_polled() {
    with_cable(|far| {
        let (socket, address) = socket();
        far.send_all(0, address, 1);
        assert!(is_readable(&socket, WAIT));
        let (all, net_admin) = (capabilities(None).unwrap(), CapabilitySet::NET_ADMIN);
        let mut fewer = all;
        fewer.effective.remove(net_admin);
        set_capabilities(None, fewer).unwrap();
        let refused = Queue::of(&socket, MAX_DELAY).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        assert!(refused.to_string().contains("CAP_NET_ADMIN"));
        set_capabilities(None, all).unwrap();
        // As root does it, for a queue that stays so.
        let mut guard = Queue::of(&socket, MAX_DELAY).unwrap();
        guard.busy(Timestamp::ZERO).unwrap();
        guard.busy(Timestamp::from_micros(1_000)).unwrap();
        let set_up = deferrals();
        set_capabilities(None, fewer).unwrap();
        let mut queue = Queue::of(&socket, MAX_DELAY).unwrap();
        queue.busy(Timestamp::ZERO).unwrap();
        queue.busy(Timestamp::from_micros(1_000)).unwrap();
        assert!(queue.is_polled());
        drop(queue);
        assert_eq!(deferrals(), set_up);
        set_capabilities(None, all).unwrap();
    });
}

/// An event loop's connections: polls bring their data, and interrupts are back when it is idle.
#[test]
fn the_queue_of_a_loops_connections_is_polled_through_one_of_them() {
    with_cable(|far| {
        let listener = TcpListener::bind((HERE, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (say, hear) = channel::<()>();
        let host = far.host.clone();
        let client = thread::spawn(move || {
            enter(&host);
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"x").unwrap();
            for () in hear {
                stream.write_all(b"y").unwrap();
            }
        });
        let stream = listener.accept().unwrap().0;
        stream.set_nonblocking(true).unwrap();
        assert!(is_readable(&stream, WAIT));
        let take = || (&stream).read(&mut [0; 9]);
        assert_eq!(take().unwrap(), 1);
        Queue::prepare(&stream).unwrap();
        let before = deferrals();
        let mut queue = Steered::new(aggregation(1), Duration::from_secs(4));
        let at = |millis: u64| Timestamp::from_micros(millis * 1_000);
        // The queue is found, then a millisecond begins, and ends.
        for (time, polls) in [(1, false), (2, false), (3, true)] {
            assert_eq!(queue.poll(at(time), &stream, 1), polls, "{:?}", queue.driven());
            assert_eq!(queue.poll_at().is_some(), polls);
        }
        // The first packet still interrupts, and leaves the interrupt off.
        say.send(()).unwrap();
        assert!(is_readable(&stream, WAIT));
        assert_eq!(take().unwrap(), 1);
        queue.poll(at(3), &stream, 1);
        say.send(()).unwrap();
        assert!(!is_readable(&stream, Duration::from_millis(30)), "by an interrupt");
        queue.poll(at(4), &stream, 1);
        assert!(is_readable(&stream, Duration::ZERO), "not by the poll");
        assert_eq!(take().unwrap(), 1);
        // A quarter of a millisecond in vain, and interrupts are better.
        for (micros, may_sleep) in [(4_100, false), (4_200, true)] {
            assert_eq!(queue.may_sleep(Timestamp::from_micros(micros)), may_sleep);
        }
        queue.idle(at(5), &stream);
        assert_eq!((queue.poll_at(), deferrals()), (None, before));
        say.send(()).unwrap();
        assert!(is_readable(&stream, WAIT), "interrupts are back");
        drop(say);
        client.join().unwrap();
    });
}

/// A server whose handlers leave it no idle time, and then all of it.
#[test]
fn a_saturated_event_loop_polls_and_an_idle_one_is_interrupted() {
    with_cable(|far| {
        let before = deferrals();
        let listener = TcpListener::bind((HERE, 0)).unwrap();
        let (address, host) = (listener.local_addr().unwrap(), far.host.clone());
        let client = thread::spawn(move || {
            enter(&host);
            let mut streams: Vec<_> = (0..CROWD).map(|_| TcpStream::connect(address).unwrap()).collect();
            // Each has a request under way while the others are served.
            for turn in 0..TURNS + 1 {
                for stream in &mut streams {
                    if turn > 0 {
                        stream.read_exact(&mut [0]).unwrap();
                    }
                    if turn < TURNS {
                        stream.write_all(b"x").unwrap();
                    }
                }
            }
            streams
        });
        let mut streams: Vec<TcpStream> = (0..CROWD).map(|_| listener.accept().unwrap().0).collect();
        let mut events = EventLoop::new(LoopConfig::default()).unwrap();
        let mut timers = SoftTimers::<()>::new(Config::default());
        for (number, stream) in streams.iter().enumerate() {
            Queue::prepare(stream).unwrap();
            events.register(stream, Token(number as u64), Interest::Readable).unwrap();
        }
        let mut queue = Steered::new(aggregation(5), MAX_DELAY);
        let (mut answered, mut polls, mut last) = (0, false, 0);
        while answered < CROWD * TURNS {
            queue.before_next(&mut events, &timers, &streams[last]).unwrap();
            polls |= queue.is_polled();
            let Happening::Ready { token: Token(number), .. } = events.next(&mut timers).unwrap() else {
                panic!()
            };
            last = number as usize;
            assert_eq!(streams[last].read(&mut [0; 9]).unwrap(), 1);
            let until = Monotonic.now() + Duration::from_micros(100);
            while Monotonic.now() < until {}
            streams[last].write_all(b"y").unwrap();
            answered += 1;
        }
        assert!(polls, "{:?}", queue.driven());
        let clients = client.join().unwrap();
        while queue.is_polled() {
            queue.before_next(&mut events, &timers, &streams[last]).unwrap();
        }
        assert_eq!(deferrals(), before);
        drop(clients);
    });
}

/// Clients, and requests of each: some milliseconds without idle time.
const CROWD: usize = 32;
const TURNS: usize = 20;
