//! Changes at the interfaces while frames are forwarded: their MTU, their own addresses, those of the machine, and
//! whether they are on.

use etherparse::PacketBuilder;

use super::*;

/// Those that route, and several threads by one of them.
fn crews(hosts: &Hosts) -> Vec<String> {
    let mut all: Vec<_> = routers(hosts).into_iter().map(str::to_owned).collect();
    all.push("--driver packet --pollers 2".to_owned());
    all
}

fn station(text: &str) -> [u8; 6] {
    let bytes: Vec<u8> = text.split(':').map(|two| u8::from_str_radix(two, 16).unwrap()).collect();
    bytes.try_into().unwrap()
}

/// Returns a datagram from near to a port at far, not to be cut: the packet has `bytes` bytes.
fn whole(is_v4: bool, bytes: usize) -> Vec<u8> {
    let link = PacketBuilder::ethernet2(station(NEAR), station(WA));
    let mut frame = Vec::new();
    if is_v4 {
        let built = link.ipv4([10, 98, 1, 9], [10, 98, 2, 9], 9).udp(7_000, 7_000);
        built.write(&mut frame, &vec![7; bytes - 28]).unwrap();
    } else {
        let [from, to] = ["fd98:1::9", "fd98:2::9"].map(|ip| ip.parse::<std::net::Ipv6Addr>().unwrap());
        let built = link.ipv6(from.octets(), to.octets(), 9).udp(7_000, 7_000);
        built.write(&mut frame, &vec![7; bytes - 48]).unwrap();
    }
    frame
}

/// Does something until the socket has a packet for which `wanted` holds.
fn until(socket: &OwnedFd, act: impl Fn(), wanted: impl Fn(&[u8]) -> bool) {
    let short = Some(Duration::from_millis(100));
    rustix::net::sockopt::set_socket_timeout(socket, rustix::net::sockopt::Timeout::Recv, short).unwrap();
    let mut buffer = [0; 65_535];
    let found = (0..100).any(|_| {
        act();
        while let Ok((length, _)) = recv(socket, &mut buffer[..], RecvFlags::empty()) {
            if wanted(&buffer[..length]) {
                return true;
            }
        }
        false
    });
    assert!(found, "not told");
}

/// Else what is too long now is dropped in silence, and who sent it never learns why: a black hole.
#[test]
fn an_mtu_that_is_lowered_at_run_time_is_told_to_senders() {
    with_router("lowered", |hosts| {
        let middle = hosts.host("middle");
        for flags in crews(hosts) {
            let forwarder = Forwarder::start(hosts, &format!("{flags} {}", routing()));
            let sender = hosts.at("near", || FrameSender::on(&Interface::named("eth").unwrap()).unwrap());
            let sender = sender.join().unwrap();
            let far = [bound(hosts, "far", "10.98.2.9:7000"), bound(hosts, "far", "[fd98:2::9]:7000")];
            for mtu in [1_500u16, 1_400, 1_300, 1_500] {
                ip(&["-n", &middle, "link", "set", "wb", "mtu", &mtu.to_string()]).unwrap();
                for is_v4 in [true, false] {
                    let (family, icmp) = match is_v4 {
                        true => (AddressFamily::INET, ipproto::ICMP),
                        false => (AddressFamily::INET6, ipproto::ICMPV6),
                    };
                    let told = raw(hosts, "near", family, icmp);
                    let send = |bytes| sender.send(&whole(is_v4, bytes)).unwrap();
                    if mtu < 1_500 {
                        let [high, low] = mtu.to_be_bytes();
                        until(
                            &told,
                            || send(mtu as usize + 1),
                            |packet| match is_v4 {
                                // Destination unreachable, fragmentation needed; packet too big.
                                true => packet.get(20..22) == Some(&[3, 4]) && packet[26..28] == [high, low],
                                false => packet[0] == 2 && packet[4..8] == [0, 0, high, low],
                            },
                        );
                    }
                    // What is as long as it may be goes through.
                    let socket = &far[usize::from(!is_v4)];
                    let payload = vec![7; mtu as usize - if is_v4 { 28 } else { 48 }];
                    arrival(socket, &payload, || {
                        send(mtu as usize);
                        payload.len()
                    });
                }
            }
            let report = forwarder.finish();
            assert!(count(&report, "/refused/too_long") >= 4, "{report}");
            assert!(count(&report, "/made/told") >= 4, "{report}");
        }
    });
}

/// A cable does not hand over either what the other interface does not send.
#[test]
fn a_cable_counts_what_is_too_long_for_an_mtu_that_was_lowered() {
    with_cable("short", |hosts| {
        for driver in drivers(hosts) {
            let mut forwarder = Forwarder::start(hosts, driver);
            ip(&["-n", &hosts.host("middle"), "link", "set", "wb", "mtu", "1400"]).unwrap();
            assert_eq!(forwarder.says(), "wb: an MTU of 1400, 1500 before");
            let sent = hosts.at("near", || {
                let sender = FrameSender::on(&Interface::named("eth").unwrap()).unwrap();
                [1_401, 1_400].map(|bytes| sender.send(&whole(true, bytes)).unwrap())
            });
            sent.join().unwrap();
            let (near, far) = (bound(hosts, "near", "10.97.0.1:0"), bound(hosts, "far", "10.97.0.2:0"));
            echoed(&near, &far, b"behind it");
            let report = forwarder.finish();
            assert_eq!(count(&report, "/refused/too_long"), 1, "{report}");
            ip(&["-n", &hosts.host("middle"), "link", "set", "wb", "mtu", "1500"]).unwrap();
        }
    });
}

/// Longer frames go through as soon as both ends send them; where the driver's memory has no room, that is said.
#[test]
fn an_mtu_that_is_raised_holds_or_its_bound_is_said() {
    with_router("raised", |hosts| {
        let set = |mtu: &str| {
            let ends = [("near", "eth"), ("far", "eth"), ("middle", "wa"), ("middle", "wb")];
            for (host, end) in ends {
                ip(&["-n", &hosts.host(host), "link", "set", end, "mtu", mtu]).unwrap();
            }
        };
        for driver in routers(hosts) {
            let mut forwarder = Forwarder::start(hosts, &format!("{driver} {}", routing()));
            set("3000");
            let bound_by = match driver.ends_with("xdp") {
                true => "; longer frames than 1792 bytes are lost until a restart",
                false => "",
            };
            for end in ["wa", "wb"] {
                assert_eq!(forwarder.says(), format!("{end}: an MTU of 3000, 1500 before{bound_by}"));
            }
            let (near, far) = (bound(hosts, "near", "10.98.1.9:0"), bound(hosts, "far", "10.98.2.9:0"));
            echoed(&near, &far, &vec![7; if bound_by.is_empty() { 2_900 } else { 1_700 }]);
            forwarder.finish();
            set("1500");
        }
    });
}

/// A host that asks for the router's address is told the new station, which is where the interface listens.
#[test]
fn a_station_that_changes_is_followed() {
    with_router("station", |hosts| {
        let (near_host, middle) = (hosts.host("near"), hosts.host("middle"));
        for (driver, new) in
            routers(hosts).into_iter().zip(["02:00:00:00:01:77", "02:00:00:00:01:78", "02:00:00:00:01:79"])
        {
            let forwarder = Forwarder::start(hosts, &format!("{driver} {}", routing()));
            let (near, far) = (bound(hosts, "near", "10.98.1.9:0"), bound(hosts, "far", "10.98.2.9:0"));
            echoed(&near, &far, b"before");
            ip(&["-n", &middle, "link", "set", "wa", "address", new]).unwrap();
            let known = |_| {
                ip(&["-n", &near_host, "neigh", "flush", "all"]).unwrap();
                near.send_to(b"who has it", far.local_addr().unwrap()).unwrap();
                thread::park_timeout(Duration::from_millis(50));
                let shown =
                    Command::new("ip").args(["-n", &near_host, "neigh", "show", "10.98.1.1"]).output();
                String::from_utf8(shown.unwrap().stdout).unwrap().contains(new)
            };
            assert!((0..100).any(known), "{driver}: the old station is told");
            echoed(&near, &far, b"afterwards");
            forwarder.finish();
            ip(&["-n", &middle, "link", "set", "wa", "address", WA]).unwrap();
            flush_neighbours(hosts);
        }
    });
}

/// An address that the machine has got meanwhile is its own affair, and not the next hop's.
#[test]
fn an_address_that_the_machine_gets_is_not_forwarded_to() {
    with_router("address", |hosts| {
        let middle = hosts.host("middle");
        ip(&["-n", &hosts.host("near"), "addr", "add", "10.98.1.77/24", "dev", "eth"]).unwrap();
        for driver in routers(hosts) {
            let mut forwarder = Forwarder::start(hosts, &format!("{driver} {}", routing()));
            let (near, far) = (bound(hosts, "near", "10.98.1.9:0"), bound(hosts, "far", "10.98.2.9:0"));
            let other = bound(hosts, "near", "10.98.1.77:0");
            let to = other.local_addr().unwrap();
            arrival(&other, b"before", || far.send_to(b"before", to).unwrap());
            ip(&["-n", &middle, "addr", "add", "10.98.1.77/32", "dev", "wa"]).unwrap();
            assert_eq!(forwarder.says(), "wa: this machine has the address 10.98.1.77 there");
            // Each poller takes it up by itself, and so does the kernel: until then some arrive.
            other.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            let (mut sent, mut came) = (0u64, 0u64);
            while sent - came < 5 {
                assert!(sent < 200, "{driver}: {came} of {sent} are forwarded");
                far.send_to(b"meanwhile", to).unwrap();
                sent += 1;
                // Pieces come up behind it, so it has been decided about.
                echoed(&near, &far, &[7; 2_000]);
                let mut buffer = [0; 64];
                while let Ok((length, _)) = other.recv_from(&mut buffer) {
                    came += u64::from(&buffer[..length] == b"meanwhile");
                }
            }
            ip(&["-n", &middle, "addr", "del", "10.98.1.77/32", "dev", "wa"]).unwrap();
            assert_eq!(forwarder.says(), "wa: this machine has the address 10.98.1.77 there no more");
            arrival(&other, b"afterwards", || far.send_to(b"afterwards", to).unwrap());
            let report = forwarder.finish();
            assert!(count(&report, "/refused/not_for_us") >= sent - came, "{driver}: {report}");
        }
    });
}

/// Switched off here, or cut at the other end: both are outages, with either driver, and of how many one is.
#[test]
fn outages_are_counted_for_both_drivers() {
    with_cable("outages", |hosts| {
        for driver in drivers(hosts) {
            let mut forwarder = Forwarder::start(hosts, driver);
            let (near, far) = (bound(hosts, "near", "10.97.0.1:0"), bound(hosts, "far", "10.97.0.2:0"));
            let (middle, near_host) = (hosts.host("middle"), hosts.host("near"));
            for (host, end, name) in [(&middle, "wb", "wb"), (&near_host, "eth", "wa"), (&middle, "wb", "wb")]
            {
                for (state, said) in [("down", "down"), ("up", "up again")] {
                    ip(&["-n", host, "link", "set", end, state]).unwrap();
                    assert_eq!(forwarder.says(), format!("{name}: {said}"), "{driver}");
                }
            }
            echoed(&near, &far, b"on again");
            assert_eq!(forwarder.finish()["outages"], serde_json::json!([1, 2]), "{driver}");
        }
    });
}
