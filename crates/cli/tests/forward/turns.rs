//! Neither what the kernel forwards nor what is screened in user space starves the other, on one CPU.

use rustix::thread::{CpuSet, sched_setaffinity};

use super::*;

/// All of it is to happen on one CPU.
fn pin(thread: Option<Pid>) {
    let mut set = CpuSet::new();
    set.set(0);
    sched_setaffinity(thread, &set).unwrap();
}

fn pin_all(forwarder: &Forwarder) {
    for thread in fs::read_dir(format!("/proc/{}/task", forwarder.child.id())).unwrap() {
        let number = thread.unwrap().file_name().into_string().unwrap().parse().unwrap();
        pin(Pid::from_raw(number));
    }
}

/// Sends to a port, as fast as it can, on the CPU of the forwarder, while something else is done.
fn flooded(hosts: &Hosts, port: u16, meanwhile: impl FnOnce()) {
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let flood = hosts.at("near", move || {
        pin(None);
        let socket = UdpSocket::bind("10.98.1.9:0").unwrap();
        while !ended.load(Ordering::Relaxed) {
            (0..50).for_each(|_| _ = socket.send_to(b"flood", ("10.98.2.9", port)));
        }
    });
    meanwhile();
    over.store(true, Ordering::Relaxed);
    flood.join().unwrap();
}

/// A flood that is screened by a walk through thousands of rules, and then one of the fast path: the other kind arrives
/// meanwhile. Either may lose a packet to the kernel's own queues, and then it is sent again.
#[test]
fn a_slow_screen_and_the_fast_path_do_not_starve_each_other_on_one_cpu() {
    with_router("turns-both", |hosts| {
        for driver in fast(hosts) {
            set_offload(hosts, "near", Offload::SendChecksums, driver.ends_with("tc"));
            let walk = |at| format!("from 10.{}.{}.0/24 reject\n", 100 + at / 250, at % 250);
            let walks: String = (0..5_000).map(walk).collect();
            let text = format!("on b accept\nport 7000 accept\n{walks}accept");
            let rules = Scratch::new("both.rules", &text);
            let flags = format!("{driver} {} --rules {}", routing(), rules.0.display());
            let forwarder = Forwarder::start(hosts, &flags);
            pin_all(&forwarder);
            let near = bound(hosts, "near", "10.98.1.9:0");
            let (quick, slow) =
                (bound(hosts, "far", "10.98.2.9:7000"), bound(hosts, "far", "10.98.2.9:7001"));
            echoed(&near, &quick, b"found");
            flooded(hosts, 7_001, || {
                // The kernel forwards them whatever waits in the ring.
                for number in 0..100u32 {
                    arrival(&quick, &number.to_be_bytes(), || {
                        near.send_to(&number.to_be_bytes(), quick.local_addr().unwrap()).unwrap()
                    });
                }
            });
            flooded(hosts, 7_000, || (0..20).for_each(|_| echoed(&near, &slow, b"screened")));
            let report = forwarder.finish();
            assert!(count(&report, "/in_kernel/packets") > 120, "{driver}: {report}");
            let up = count(&report, "/out") - count(&report, "/in_kernel/packets");
            assert!(up >= 20, "{driver}: {report}");
        }
    });
}

/// A forwarder that gets no CPU at all, for whom frames wait: the kernel forwards a quota, and holds the rest back until its
/// next turn.
#[test]
fn the_kernel_forwards_no_more_than_a_quota_while_frames_wait_for_a_turn() {
    with_router("turns-none", |hosts| {
        for driver in fast(hosts) {
            set_offload(hosts, "near", Offload::SendChecksums, driver.ends_with("tc"));
            let forwarder = Forwarder::start(hosts, &format!("{driver} {} --quota 1", routing()));
            let (near, far) = (bound(hosts, "near", "10.98.1.9:0"), bound(hosts, "far", "10.98.2.9:7000"));
            echoed(&near, &far, b"found");
            let flood = || {
                let sent = SENT.to_be_bytes();
                let mut arrived = 0;
                far.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                for _ in 0..SENT / 100 {
                    (0..100).for_each(|_| _ = near.send_to(&sent, far.local_addr().unwrap()).unwrap());
                    far.set_nonblocking(true).unwrap();
                    while far.recv(&mut [0; 64]).is_ok() {
                        arrived += 1;
                    }
                    far.set_nonblocking(false).unwrap();
                }
                while far.recv(&mut [0; 64]).is_ok() {
                    arrived += 1;
                }
                arrived
            };
            // A quota of 256 frames on each CPU that a frame was sent on.
            let most = 256 * thread::available_parallelism().unwrap().get() as u32;
            // No frame waits for it, so it need not run; unless a frame of the hosts' own has come up meanwhile.
            let mut unhindered: u32 = 0;
            for _ in 0..5 {
                kill_process(forwarder.id(), Signal::STOP).unwrap();
                unhindered = flood();
                if unhindered > most {
                    break;
                }
                kill_process(forwarder.id(), Signal::CONT).unwrap();
                echoed(&near, &far, b"again");
            }
            // Pieces of a datagram come up.
            near.send_to(&[7; 2_000], far.local_addr().unwrap()).unwrap();
            let held: u32 = flood();
            kill_process(forwarder.id(), Signal::CONT).unwrap();
            let mut after: u32 = 0;
            for _ in 0..5 {
                echoed(&near, &far, b"its turn");
                after = flood();
                if after > most {
                    break;
                }
            }
            let report = forwarder.finish();
            assert!(held <= most && most < SENT, "{driver}: {held}: {report}");
            assert!(unhindered > most && after > most, "{driver}: {unhindered}, {after}: {report}");
            let counted = count(&report, "/held_back");
            assert!(counted >= u64::from(SENT - most), "{driver}: {counted}: {report}");
            assert!(counted <= count(&report, "/ends/0/dropped/ring"), "{driver}: {report}");
        }
    });
}

const SENT: u32 = 4_000;
