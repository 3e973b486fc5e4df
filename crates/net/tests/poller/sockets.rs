//! The poller on real sockets. Nothing here asserts that anything was quick.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use softtimers::late::cpu_time;
use softtimers::{Clock, Config, Monotonic, Percent, Slack, SoftTimers, Timestamp, Token, TriggerState};
use softtimers_net::poller::{Device, Gauge, Packet, Poller, UdpDevice, UdpOutput};
use softtimers_net::udp::{SendBatch, UdpSocket};
use softtimers_poll::{
    CpuLimitConfig, DelayBound, DelayBoundConfig, FeedbackConfig, Hip, HipConfig, Interrupts, Policy, Preset,
    Quota, SourceConfig,
};

/// No wait is longer than this, whatever is lost.
const WAIT_LIMIT: Duration = Duration::from_secs(20);

const TICK: Duration = Duration::from_millis(2);

fn deadline() -> Timestamp {
    Monotonic.now() + WAIT_LIMIT
}

fn pair() -> (UdpSocket, UdpSocket) {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    client.as_ref().set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    (server, client)
}

/// A socket whose peer goes away with words unread fails in the middle of a turn: what was taken before is counted.
#[test]
fn an_error_in_the_middle_of_a_turn_loses_no_count() {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    for socket in [&theirs, &ours] {
        (0..3).for_each(|_| assert_eq!(send(socket, &[7; 40], SendFlags::empty()), Ok(40)));
    }
    let socket = UdpSocket::from(std::net::UdpSocket::from(ours));
    let mut device = UdpDevice::with_room(socket, 1, 64).unwrap();
    let (mut theirs, mut taken) = (Some(theirs), 0);
    let mut sink = |packet: Packet<'_, SocketAddr>, _: &mut UdpOutput| {
        assert_eq!(*packet.bytes, [7; 40]);
        taken += 1;
        theirs = None;
    };
    let turn = device.poll_rx(8, &mut sink).unwrap();
    assert_eq!((turn.done, turn.more), (1, true));
    let told = device.poll_rx(8, &mut sink).unwrap_err();
    assert_eq!(told.kind(), ErrorKind::ConnectionReset);
    // Told once; then the rest.
    assert_eq!(device.poll_rx(2, &mut sink).unwrap().done, 2);
    assert_eq!(taken, 3);
}

#[test]
fn an_echo_server_answers_under_every_kind_of_policy() {
    let policies: [Box<dyn Policy>; 3] = [
        Box::new(Interrupts),
        Box::new(Hip::new(HipConfig::default())),
        Box::new(DelayBound::new(DelayBoundConfig::default())),
    ];
    for policy in policies {
        let (server, client) = pair();
        let mut poller = Poller::new().unwrap();
        let device = UdpDevice::new(server).unwrap().with_timestamps().unwrap();
        let source = poller.add(device, SourceConfig::new(policy).with_quota(Quota::new(4, 4))).unwrap();
        let asker = thread::spawn(move || {
            let mut answer = [0; 64];
            for number in 0..500u32 {
                // Singly, and in bursts.
                let burst = 1 + number % 9;
                (0..burst).for_each(|_| _ = client.send(&number.to_be_bytes()).unwrap());
                (0..burst).for_each(|_| {
                    // Who stops the process interrupts a receive with a time-out.
                    let interrupted = |error: &io::Error| error.kind() == ErrorKind::Interrupted;
                    while client.recv(&mut answer).map_err(|error| assert!(interrupted(&error))).is_err() {}
                });
                assert_eq!(answer[..4], number.to_be_bytes());
            }
        });
        let (mut answered, until) = (0, deadline());
        while !asker.is_finished() && Monotonic.now() < until {
            poller
                .wait(Some(Monotonic.now() + Duration::from_millis(5)), |packet, outputs| {
                    let back = outputs.from();
                    answered += u32::from(outputs.send(back, packet.bytes, Some(packet.from)));
                })
                .unwrap();
        }
        asker.join().unwrap();
        let stats = poller.source_stats(source);
        assert_eq!((answered, stats.packets), (2_490, 2_490), "{stats:?}");
        assert!(stats.turns >= stats.packets.div_ceil(4), "a turn is four at the most: {stats:?}");
        assert_eq!(poller.drops(source).unwrap().total(), 0);
    }
}

/// The kernel's drops and the received datagrams add up to those sent.
#[test]
fn the_kernels_drops_are_counted() {
    let (server, client) = pair();
    server.request_recv_buffer(8_192).unwrap();
    let mut batch = SendBatch::new(1, 64);
    for _ in 0..1_000 {
        batch.push(&[7; 64], None).unwrap();
        assert_eq!(client.send_batch(&mut batch).sent, 1);
    }
    let mut poller = Poller::new().unwrap();
    // The device counts from when it is made.
    let before = u64::from(server.drops().unwrap());
    let source = poller.add(UdpDevice::new(server).unwrap(), SourceConfig::new(Interrupts)).unwrap();
    (0..1_000).for_each(|_| client.send(&[7; 64]).map(|_| ()).unwrap());
    let (mut received, until) = (0, deadline());
    let drops = loop {
        poller.wait(Some(Monotonic.now()), |_, _| received += 1).unwrap();
        let drops = poller.drops(source).unwrap();
        if received + before + drops.ring >= 2_000 || Monotonic.now() >= until {
            break drops;
        }
    };
    assert!(drops.ring > 0 && drops.ring == drops.total());
    assert_eq!(received + before + drops.ring, 2_000);
}

/// A datagram that came before the wake-up was enabled wakes the poller.
#[test]
fn what_came_before_arming_is_seen() {
    let (server, client) = pair();
    let mut poller = Poller::new().unwrap();
    client.send(b"early").unwrap();
    poller.add(UdpDevice::new(server).unwrap(), SourceConfig::new(Interrupts)).unwrap();
    let (mut seen, until) = (0, deadline());
    while seen == 0 && Monotonic.now() < until {
        poller.wait(Some(until), |_, _| seen += 1).unwrap();
    }
    assert_eq!(seen, 1);
    assert!(Monotonic.now() < until, "it was not met by the end of patience only");
}

/// An unmodified source beside devices, and the poller inside another loop.
#[test]
fn other_descriptors_are_watched_beside_devices() {
    let ((server, client), (plain, plain_client)) = (pair(), pair());
    let mut poller = Poller::new().unwrap();
    poller.add(UdpDevice::new(server).unwrap(), SourceConfig::new(Interrupts)).unwrap();
    poller.watch(&plain, Token(7)).unwrap();
    assert_eq!(poller.watch(&plain, Token(1 << 32)).unwrap_err().kind(), ErrorKind::InvalidInput);
    plain_client.send(b"plain").unwrap();
    client.send(b"device").unwrap();

    let (mut of_device, mut of_plain, until) = (0, 0, deadline());
    while (of_device, of_plain) != (1, 1) && Monotonic.now() < until {
        poller.wait(Some(until), |_, _| of_device += 1).unwrap();
        if poller.ready() == [Token(7)] {
            assert_eq!(plain.recv(&mut [0; 64]).unwrap(), 5);
            of_plain += 1;
        }
    }
    assert_eq!((of_device, of_plain), (1, 1));
    poller.unwatch(&plain).unwrap();

    // Readable for a loop of one's own when a device has something.
    client.send(b"again").unwrap();
    let mut outer = softtimers::epoll::Epoll::new(softtimers::epoll::Waiting::Pwait2).unwrap();
    outer.add(poller.as_fd(), 1, softtimers::epoll::EventFlags::IN).unwrap();
    let mut events = softtimers::epoll::Events::with_capacity(1);
    outer.wait(&mut events, Some(WAIT_LIMIT)).unwrap();
    assert_eq!(events.len(), 1);
    poller.poll(|_, _| of_device += 1).unwrap();
    assert_eq!(of_device, 2);
}

/// Livelock §7.1: a server whose worker is another thread, with feedback from its queue: input sleeps while the
/// queue is full, and the worker's progress wakes it up.
#[test]
fn a_worker_that_drains_its_queue_wakes_the_poller() {
    let (server, client) = pair();
    let mut poller = Poller::new().unwrap();
    let config = SourceConfig::new(Interrupts).with_quota(Quota::new(4, 4));
    let source = poller.add(UdpDevice::new(server).unwrap(), config).unwrap();
    let gauge = Gauge::new().unwrap();
    // A time-out beyond the test's patience: only the low mark can open.
    let feedback = FeedbackConfig {
        time_out: softtimers_poll::TimeOut::After(2 * WAIT_LIMIT),
        ..FeedbackConfig::preset(Preset::Measured, 16).unwrap()
    };
    let queue = poller.attach_queue(&gauge, feedback, &[source]).unwrap();
    let (hand, work) = std::sync::mpsc::channel::<Vec<u8>>();
    let worker = thread::spawn({
        let gauge = gauge.clone();
        move || {
            let mut done = 0u32;
            while let Ok(packet) = work.recv() {
                std::hint::black_box(packet);
                gauge.took(1);
                done += 1;
            }
            done
        }
    });
    let (mut received, until) = (0, deadline());
    for _ in 0..40 {
        (0..50).for_each(|_| client.send(b"work").map(|_| ()).unwrap());
        let wanted = received + 50;
        while received < wanted && Monotonic.now() < until {
            poller
                .wait(Some(until), |packet, _| {
                    gauge.put(1);
                    hand.send(packet.bytes.to_vec()).unwrap();
                    received += 1;
                })
                .unwrap();
        }
    }
    drop(hand);
    assert_eq!((received, worker.join().unwrap()), (2_000, 2_000));
    // The last packets may have shut it, where the worker stood still.
    while poller.queue_stats(queue).resumed < poller.queue_stats(queue).shut && Monotonic.now() < until {
        poller.wait(Some(until), |_, _| panic!("all have come")).unwrap();
    }
    let stats = poller.queue_stats(queue);
    assert_eq!((stats.timed_out, stats.shut), (0, stats.resumed), "{stats:?}");
}

/// Livelock §8.2: a server of a pool of threads, with more packets than the pool can handle. Its queue does not run over,
/// what came in is finished, and a timer never waits for more than two rounds.
#[test]
#[allow(clippy::too_many_lines, reason = "one scene, from its setting to its end")]
fn a_pool_of_workers_is_fed_no_more_than_it_can_take() {
    const QUOTA: u32 = 16;
    const ROOM: u32 = 64;
    let (server, client) = pair();
    let mut poller = Poller::new().unwrap();
    let config = SourceConfig::new(DelayBound::new(DelayBoundConfig::default()));
    let config = config.with_quota(Quota::new(QUOTA, QUOTA));
    let source = poller.add(UdpDevice::new(server).unwrap(), config).unwrap();
    let gauge = Gauge::new().unwrap();
    let feedback = FeedbackConfig {
        time_out: softtimers_poll::TimeOut::After(2 * WAIT_LIMIT),
        ..FeedbackConfig::preset(Preset::Measured, ROOM).unwrap()
    };
    let queue = poller.attach_queue(&gauge, feedback, &[source]).unwrap();
    let (hand, take) = mpsc::sync_channel::<Vec<u8>>(ROOM as usize);
    let (take, stop, until) = (Mutex::new(take), AtomicBool::new(false), deadline());

    let (received, finished, most_overdue, ticks) = thread::scope(|scope| {
        let pool = [(); 3].map(|()| {
            scope.spawn(|| {
                let mut finished = 0u64;
                loop {
                    let Ok(packet) = take.lock().unwrap().recv() else { return finished };
                    gauge.took(1);
                    (0..3_000).for_each(|rule| _ = std::hint::black_box((rule, &packet)));
                    finished += 1;
                }
            })
        });
        scope.spawn(|| {
            let mut batch = SendBatch::new(64, 64);
            while !stop.load(Ordering::Relaxed) && Monotonic.now() < until {
                while batch.push(&[7; 64], None).is_ok() {}
                // What the socket has no room for is sent again.
                let _ = client.send_batch(&mut batch);
            }
        });
        let mut timers = SoftTimers::new(Config::default());
        timers.schedule(Monotonic.now(), TICK, Slack::EXACT, ());
        let (mut received, mut overdue, mut most_overdue, mut ticks) = (0u64, 0, 0, 0);
        // Enough of a flood: the queue was full some times, and the timer had its turns.
        while (poller.queue_stats(queue).resumed < 5 || ticks < 20) && Monotonic.now() < until {
            let turn = timers.trigger(TriggerState::HandlerExit, Monotonic.now());
            while let Some(event) = timers.next(&turn) {
                (ticks, overdue) = (ticks + 1, 0);
                timers.schedule(event.due.max(Monotonic.now()), TICK, Slack::EXACT, ());
            }
            let due = timers.poll_at().unwrap();
            poller
                .wait(Some(due), |packet, _| {
                    received += 1;
                    overdue += u32::from(Monotonic.now() > due);
                    most_overdue = most_overdue.max(overdue);
                    gauge.put(1);
                    hand.try_send(packet.bytes.to_vec()).expect("the queue ran over");
                })
                .unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        drop(hand);
        let finished: u64 = pool.into_iter().map(|worker| worker.join().unwrap()).sum();
        (received, finished, most_overdue, ticks)
    });
    let stats = poller.queue_stats(queue);
    assert!(stats.resumed >= 5 && ticks >= 20, "{stats:?}, {ticks} ticks");
    assert_eq!((received, gauge.depth(), stats.timed_out), (finished, 0, 0));
    // A wait does two rounds where the first opens what was shut.
    assert!(most_overdue <= 2 * QUOTA, "{most_overdue} packets while a timer was due");
    assert_eq!(poller.drops(source).unwrap().output, 0);
}

/// An answer that nobody listens to, and an address that cannot be sent to, stop nothing.
#[test]
fn what_concerns_one_datagram_does_not_stop_the_device() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = {
        let gone = UdpSocket::bind("127.0.0.1:0").unwrap();
        gone.local_addr().unwrap()
    };
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    let mut poller = Poller::new().unwrap();
    let source = poller.add(UdpDevice::new(server).unwrap(), SourceConfig::new(Interrupts)).unwrap();
    let (mut seen, until) = (0, deadline());
    for round in 1..=3 {
        client.send(b"x").unwrap();
        while seen < round && Monotonic.now() < until {
            poller
                .wait(Some(until), |packet, outputs| {
                    seen += 1;
                    let here = outputs.from();
                    outputs.send(here, packet.bytes, Some(nobody));
                    // No route leads to port zero.
                    outputs.send(here, packet.bytes, Some("127.0.0.1:0".parse().unwrap()));
                })
                .unwrap();
        }
    }
    // The last answers are sent in the rounds after.
    for _ in 0..3 {
        poller.wait(Some(Monotonic.now()), |_, _| {}).unwrap();
    }
    assert_eq!(seen, 3);
    assert_eq!(poller.drops(source).unwrap().output, 3);
    assert_eq!(poller.device_mut(source).transmitter().waiting(), 0);
}

/// The CPU time that the kernel has charged to this thread so far, user and system: `getrusage` has the same figures.
/// In ticks of 10 ms.
fn charged() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let words: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = words[11..13].iter().map(|word| word.parse::<u64>().unwrap()).sum();
    Duration::from_millis(10 * ticks)
}

/// Livelock §5.1: the counter read at the begin and at the end of each turn, added up, is the CPU time that the
/// kernel charges for it; within 5% of a second, whoever else wants the CPU. What the thread does beside is not in it.
#[test]
fn turns_are_charged_what_the_kernel_charges() {
    let (server, client) = pair();
    let mut poller = Poller::new().unwrap();
    let config = SourceConfig::new(Interrupts).with_quota(Quota::new(8, 8));
    poller.add(UdpDevice::new(server).unwrap(), config).unwrap();
    assert_eq!(poller.cpu_used(), Duration::ZERO);
    // It counts, and never shuts, for longer than the CPU is ever withheld.
    let share = Percent::new(100).unwrap();
    poller.limit_cpu(Some(CpuLimitConfig { share, period: 180 * WAIT_LIMIT, carry: false, stretch: None }));
    let compute = |time: Duration| {
        let until = cpu_time() + time;
        while cpu_time() < until {}
    };
    let before = charged();
    // What it does beside is little, unless the machine stands still just then.
    let (mut handled, mut beside) = (0, Duration::ZERO);
    // A turn is long against what is done between two of them, on a machine that is busy otherwise, too. How long it all
    // takes by the clock is up to who else wants the CPU; a round ends by itself.
    for _ in 0..2_400 {
        if handled >= 240 {
            break;
        }
        let before = cpu_time();
        client.send(b"work").unwrap();
        let soon = Monotonic.now() + TICK;
        beside += cpu_time() - before;
        poller
            .wait(Some(soon), |_, _| {
                handled += 1;
                compute(Duration::from_millis(5));
            })
            .unwrap();
    }
    let (charged_so_far, used) = (charged() - before - beside, poller.cpu_used());
    assert!(handled >= 240 && used >= Duration::from_millis(1_200), "{handled} of 240, {used:?}");
    let apart = used.abs_diff(charged_so_far);
    assert!(apart * 20 < charged_so_far, "{used:?} of turns, and the kernel says {charged_so_far:?}");

    // A computation between turns, which find nothing.
    let before = charged();
    while charged() - before < Duration::from_millis(300) {
        compute(Duration::from_millis(5));
        poller.poll(|_, _| ()).unwrap();
    }
    let grown = poller.cpu_used() - used;
    assert!(grown * 20 < Duration::from_millis(300), "{grown:?} of 300 ms");
}
