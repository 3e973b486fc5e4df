//! `--driver tc` and `xdp-fast`: a router whose kernel forwards what needs nobody else.

use super::*;

/// Routes by `--driver tc` with these flags, if that works here.
fn with_route(test: &str, body: impl FnOnce(&Hosts)) {
    with_router(test, |hosts| {
        let line = format!("forward wa wb --duration 10ms --driver tc {}", routing());
        let output = hosts.command(&line).output().unwrap();
        let said = common::stderr(&output);
        match output.status.code() {
            Some(0) => body(hosts),
            code => {
                assert_eq!(code, Some(77), "{said}");
                skipped(said.trim_end());
            }
        }
    });
}

fn route(hosts: &Hosts, flags: &str) -> Forwarder {
    Forwarder::start(hosts, &format!("--driver tc {} {flags}", routing()))
}

#[test]
fn kernel_tcp_passes_with_its_offloads_in_both_families() {
    with_route("fast-tcp", |hosts| {
        let forwarder = route(hosts, "");
        streamed(hosts, "10.98.2.9:7000", 3_000_000);
        streamed(hosts, "[fd98:2::9]:7000", 3_000_000);
        let report = forwarder.finish();
        assert_eq!((count(&report, "/dropped/ring"), count(&report, "/dropped/output")), (0, 0), "{report}");
        // All of it, joined as it came.
        assert!(count(&report, "/in_kernel/bytes") > 6_000_000, "{report}");
        assert!(count(&report, "/in_kernel/packets") < 4_000, "{report}");
        // But for questions for addresses, which are answered.
        let up = count(&report, "/in") - count(&report, "/in_kernel/packets");
        assert_eq!(up, count(&report, "/dropped/rule"), "{report}");
        assert_is_quiet(hosts);
    });
}

/// Rules change as fast as they are taken up, while each datagram is decided by one of them.
#[test]
fn no_datagram_and_no_count_is_lost_while_rules_change() {
    with_router("fast-rules", |hosts| {
        for driver in fast(hosts) {
            set_offload(hosts, "near", Offload::SendChecksums, driver.ends_with("tc"));
            lose_nothing_while_rules_change(hosts, driver);
        }
    });
}

fn lose_nothing_while_rules_change(hosts: &Hosts, driver: &str) {
    let text = |change: usize| {
        let first = if change.is_multiple_of(2) { "port 9 reject\n" } else { "" };
        format!("{first}port 7001 reject\nfrom 10.98.1.0/24 protocol udp port 7000 accept\naccept")
    };
    let rules = Scratch::new("fast.rules", &text(0));
    let mut forwarder =
        Forwarder::start(hosts, &format!("{driver} {} --rules {}", routing(), rules.0.display()));
    let (near, far) = (bound(hosts, "near", "10.98.1.9:0"), bound(hosts, "far", "10.98.2.9:7000"));
    echoed(&near, &far, b"found");
    let (over, all_sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let arrived = Arc::new(AtomicU64::new(0));
    let sender = thread::spawn({
        let (over, arrived) = (Arc::clone(&over), Arc::clone(&arrived));
        move || send_until(&near, &over, &arrived)
    });
    let receiver = thread::spawn({
        let (all_sent, arrived) = (Arc::clone(&all_sent), Arc::clone(&arrived));
        move || receive_until(&far, &all_sent, &arrived)
    });
    for change in 1..=6 {
        super::super::rewrite(&rules.0, &text(change));
        assert_eq!(forwarder.says(), format!("rules reloaded: {} of them", 4 - change % 2));
    }
    over.store(true, Ordering::Relaxed);
    let sent = sender.join().unwrap();
    all_sent.store(true, Ordering::Release);
    receiver.join().unwrap();
    let received = arrived.load(Ordering::Relaxed);
    let report = forwarder.finish();
    let matched = |rule: &str| {
        let entries = report["rules"]["entries"].as_array().unwrap().iter();
        entries
            .filter(|entry| entry["rule"].as_str().unwrap().contains(rule))
            .map(|entry| count(entry, "/matched"))
            .sum::<u64>()
    };
    assert_eq!(matched("port 7001"), sent, "{driver}: {report}");
    // And what was sent to find the other, one way.
    let found = matched("port 7000") - sent;
    assert!((1..100).contains(&found), "{driver}: {report}");
    assert_eq!(received, sent, "{driver}: {report}");
    assert_eq!(count(&report, "/refused/rejected"), sent, "{driver}: {report}");
    assert!(count(&report, "/in_kernel/packets") >= sent, "{driver}: {report}");
    assert_eq!(count(&report, "/dropped/output"), 0, "{driver}: {report}");
}

/// Pairs of datagrams, one to a port that is rejected, and how many pairs. The receive buffer has room for all under way.
fn send_until(near: &UdpSocket, over: &AtomicBool, arrived: &AtomicU64) -> u64 {
    let mut sent = 0u64;
    while !over.load(Ordering::Relaxed) {
        if sent >= arrived.load(Ordering::Relaxed) + 100 {
            thread::park_timeout(Duration::from_millis(1));
            continue;
        }
        for port in [7_000, 7_001] {
            near.send_to(&sent.to_be_bytes(), ("10.98.2.9", port)).unwrap();
        }
        sent += 1;
        if sent.is_multiple_of(20) {
            thread::park_timeout(Duration::from_millis(1));
        }
    }
    sent
}

/// Counts what arrives until nothing has for half a second after all was sent.
fn receive_until(far: &UdpSocket, all_sent: &AtomicBool, arrived: &AtomicU64) {
    let mut buffer = [0; 64];
    far.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    loop {
        let is_last = all_sent.load(Ordering::Acquire);
        match far.recv_from(&mut buffer) {
            Ok((length, _)) => _ = arrived.fetch_add(u64::from(length == 8), Ordering::Relaxed),
            Err(_) if is_last => return,
            Err(_) => {}
        }
    }
}

/// Packets that the kernel does not forward by itself: the last hop, pieces, packets for the router.
#[test]
fn exceptions_come_up() {
    with_route("fast-up", |hosts| {
        let forwarder = route(hosts, "");
        let told = raw(hosts, "near", AddressFamily::INET, ipproto::ICMP);
        let (near, far) = (bound(hosts, "near", "10.98.1.9:0"), bound(hosts, "far", "10.98.2.9:7000"));
        // Two pieces of each way.
        echoed(&near, &far, &[7; 2_000]);
        set_hops(&near, 1);
        near.send_to(b"too far", far.local_addr().unwrap()).unwrap();
        first(&told, |packet| packet.get(20) == Some(&11));
        let report = forwarder.finish();
        assert_eq!(count(&report, "/refused/hop_limit"), 1, "{report}");
        assert!(count(&report, "/out") - count(&report, "/in_kernel/packets") >= 4, "{report}");
    });
}

/// Rules with a rate are kept in user space, and the others are not slower for it.
#[test]
fn a_rate_is_kept_and_what_has_none_does_not_come_up() {
    with_route("fast-rate", |hosts| {
        let rules =
            Scratch::new("rate.rules", "port 7001 rate 10pps burst 0s accept\nport 7001 reject\naccept");
        let forwarder = route(hosts, &format!("--rules {}", rules.0.display()));
        let (near, far) = (bound(hosts, "near", "10.98.1.9:0"), bound(hosts, "far", "10.98.2.9:7000"));
        echoed(&near, &far, b"found");
        for _ in 0..1_000 {
            near.send_to(b"slow", "10.98.2.9:7001").unwrap();
            near.send_to(b"fast", far.local_addr().unwrap()).unwrap();
        }
        // Pieces come up behind them, so all have been taken.
        echoed(&near, &far, &[7; 2_000]);
        let report = forwarder.finish();
        assert!(count(&report, "/in_kernel/packets") >= 1_000, "{report}");
        assert!(count(&report, "/refused/rejected") >= 900, "{report}");
    });
}

/// More addresses than a policy had room for.
#[test]
fn a_machine_with_many_addresses_goes_on() {
    with_route("fast-own", |hosts| {
        let mut forwarder = route(hosts, "");
        let added = |at| format!("addr add 10.50.{}.{}/32 dev wa\n", at / 200, 1 + at % 200);
        let added = Scratch::new("own.batch", &(0..600).map(added).collect::<String>());
        ip(&["-n", &hosts.host("middle"), "-batch", added.0.to_str().unwrap()]).unwrap();
        for _ in 0..600 {
            assert!(forwarder.says().starts_with("wa: this machine has the address 10.50."));
        }
        let (near, far) = (bound(hosts, "near", "10.98.1.9:0"), bound(hosts, "far", "10.98.2.9:7000"));
        for _ in 0..10 {
            thread::park_timeout(Duration::from_millis(20));
            echoed(&near, &far, b"here");
        }
        let report = forwarder.finish();
        assert!(count(&report, "/in_kernel/packets") >= 20, "{report}");
    });
}

/// Its links end with it, and nothing is pinned.
#[test]
fn nothing_is_left_in_the_kernel_when_it_is_killed() {
    with_router("fast-kill", |hosts| {
        for driver in fast(hosts).repeat(2) {
            set_offload(hosts, "near", Offload::SendChecksums, driver.ends_with("tc"));
            let mut forwarder = Forwarder::start(hosts, &format!("{driver} {}", routing()));
            let (near, far) = (bound(hosts, "near", "10.98.1.9:0"), bound(hosts, "far", "10.98.2.9:7000"));
            echoed(&near, &far, b"here");
            kill_process(forwarder.id(), Signal::KILL).unwrap();
            forwarder.child.wait().unwrap();
            assert_is_quiet(hosts);
            far.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            // The last links go when no program can be running any more.
            let is_over = || {
                near.send_to(b"anybody", far.local_addr().unwrap()).unwrap();
                far.recv(&mut [0; 64]).is_err()
            };
            assert!((0..200).any(|_| is_over()), "{driver}: it forwards still");
        }
    });
}

/// Frames whose checksums are done are forwarded before the kernel has made its own of them, so that no packet socket sees
/// them; others at tc, where those of TCP arrive whole.
#[test]
fn complete_frames_are_forwarded_at_xdp_and_others_at_tc() {
    with_router("fast-whole", |hosts| {
        if !fast(hosts).contains(&"--driver xdp-fast") {
            return;
        }
        for (are_left, families) in
            [(true, ["10.98.2.9", "[fd98:2::9]"]), (false, ["10.98.2.9", "[fd98:2::9]"])]
        {
            let set = |host| set_offload(hosts, host, Offload::SendChecksums, are_left);
            if !["near", "far"].into_iter().all(set) {
                return;
            }
            let forwarder = Forwarder::start(hosts, &format!("--driver xdp-fast {}", routing()));
            families.into_iter().for_each(|to| streamed(hosts, &format!("{to}:7000"), 500_000));
            for (near, far) in [("10.98.1.9:0", "10.98.2.9:7001"), ("[fd98:1::9]:0", "[fd98:2::9]:7001")] {
                let (near, far) = (bound(hosts, "near", near), bound(hosts, "far", far));
                echoed(&near, &far, b"found");
                let seen =
                    hosts.at("middle", || FrameReceiver::on(&Interface::named("wa").unwrap()).unwrap());
                let seen = seen.join().unwrap();
                for number in 0..50u32 {
                    near.send_to(&[&b"SEEN?"[..], &number.to_be_bytes()].concat(), far.local_addr().unwrap())
                        .unwrap();
                }
                let mut buffer = [0; 64];
                (0..50).for_each(|_| _ = far.recv(&mut buffer).unwrap());
                let seen = seen_of(&seen, b"SEEN?");
                assert_eq!(seen, if are_left { 50 } else { 0 }, "checksums left: {are_left}");
            }
            let report = forwarder.finish();
            // Both families' questions for addresses aside, all was forwarded in the kernel.
            let up = count(&report, "/in") - count(&report, "/in_kernel/packets");
            assert_eq!(up, count(&report, "/dropped/rule"), "checksums left: {are_left}: {report}");
            assert_eq!(
                count(&report, "/in_kernel/packets"),
                count(&report, "/out"),
                "checksums left: {are_left}: {report}"
            );
            assert!(count(&report, "/in_kernel/packets") > 200, "checksums left: {are_left}: {report}");
            assert_is_quiet(hosts);
        }
    });
}

/// The frames that a packet socket has got, by what is in them.
fn seen_of(receiver: &FrameReceiver, what: &[u8]) -> usize {
    let mut seen = 0;
    let mut batch = FrameBatch::new(64);
    while receiver.recv_batch(&mut batch).is_ok() {
        seen += batch.iter().filter(|frame| frame.bytes.windows(what.len()).any(|part| part == what)).count();
    }
    seen
}

/// An output that takes no frames of programs is said, and gets its frames from tc.
#[test]
fn an_output_that_takes_nothing_at_xdp_is_served_at_tc() {
    with_router("fast-gro", |hosts| {
        if !fast(hosts).contains(&"--driver xdp-fast")
            || !set_offload(hosts, "near", Offload::SendChecksums, false)
        {
            return;
        }
        let mut forwarder = Forwarder::start(hosts, &format!("--driver xdp-fast {}", routing()));
        let (near, far) = (bound(hosts, "near", "10.98.1.9:0"), bound(hosts, "far", "10.98.2.9:7000"));
        for (joins, said) in
            [(false, "wb: it takes no frames at XDP"), (true, "wb: frames to it are forwarded at XDP")]
        {
            echoed(&near, &far, b"before");
            assert!(set_offload(hosts, "far", Offload::Gro, joins));
            let words = forwarder.says();
            assert!(words.starts_with(said), "{words}");
            echoed(&near, &far, b"after");
        }
        forwarder.finish();
    });
}

#[test]
fn auto_says_what_it_picks_and_why() {
    with_route("fast-auto", |hosts| {
        let said = |flags: &str| {
            let line = format!("forward wa wb --duration 10ms --driver auto --json {flags}");
            let output = hosts.command(&line).output().unwrap();
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            (common::stderr(&output), report["config"]["driver"].as_str().unwrap().to_owned())
        };
        for (flags, words, driver) in [
            (String::new(), "driver packet: a cable is not routed", "packet"),
            (format!("{} --cpu-limit 50%", routing()), "driver packet: --cpu-limit 50%", "packet"),
            (format!("{} --count 5", routing()), "driver packet: --count", "packet"),
            (routing(), "driver tc: ", "tc"),
        ] {
            let (said, chosen) = said(&flags);
            assert!(said.starts_with(words) && chosen == driver, "{chosen}: {said}");
        }
        let refused = hosts.command("forward wa wb --duration 10ms --driver tc").output().unwrap();
        assert!(common::refusal(&refused, 77).contains("a cable is not routed"));
    });
}
