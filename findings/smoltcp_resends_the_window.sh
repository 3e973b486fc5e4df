#!/bin/sh
# smoltcp answers one lost segment by sending the whole window again, with CUBIC and Reno as well.
#
# Expected: a fast retransmission sends the lost segment, and the receiver keeps what came after it.
# Found:    three duplicate ACKs make the sender begin anew at the gap: all bytes in flight leave again, though the receiver has them.
#           The transfer is not slower on an empty path, so only a count of bytes shows it. On a full path they are what fills it.
# Of:       smoltcp 0.12.0. Needs cargo.
# Method:   400,000 bytes between two interfaces in virtual time, buffers of 65,536 bytes, 10 ms each way; the 100th segment is lost.
#
# Seen:     nothing lost: 275 segments, 400000 bytes
#           one lost:     320 segments, 465536 bytes
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v cargo > "$dir/found" || { echo "skipped: cargo is missing"; exit 77; }
cd "$dir"
mkdir src
cat > Cargo.toml <<'TOML'
[package]
name = "lose"
version = "0.0.0"
edition = "2021"

[dependencies.smoltcp]
version = "=0.12.0"
default-features = false
features = ["std", "medium-ip", "proto-ipv4", "socket-tcp", "socket-tcp-cubic"]

[workspace]
TOML
cat > src/main.rs <<'RS'
use std::collections::VecDeque;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

const TOTAL: usize = 400_000;
const BUFFER: usize = 65_536;
const ONE_WAY_MICROS: i64 = 10_000;
const HEADERS: usize = 40;

/// A device whose packets the loop below carries.
#[derive(Default)]
struct Port {
    arrived: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

struct Arrived(Vec<u8>);
struct Sent<'a>(&'a mut Vec<Vec<u8>>);

impl RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        self.0.push(vec![0; length]);
        write(self.0.last_mut().unwrap())
    }
}

impl Device for Port {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arrived, Sent<'_>)> {
        Some((Arrived(self.arrived.pop_front()?), Sent(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sent<'_>> {
        Some(Sent(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = 1500;
        capabilities
    }
}

struct Host {
    port: Port,
    interface: Interface,
    sockets: SocketSet<'static>,
    tcp: SocketHandle,
}

impl Host {
    fn new(last: u8) -> Self {
        let mut port = Port::default();
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut port, Instant::ZERO);
        let address = IpCidr::new(IpAddress::v4(10, 0, 0, last), 24);
        interface.update_ip_addrs(|addresses| addresses.push(address).unwrap());
        let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_congestion_control(tcp::CongestionControl::Cubic);
        let mut sockets = SocketSet::new(vec![]);
        let tcp = sockets.add(socket);
        Host { port, interface, sockets, tcp }
    }

    fn socket(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.tcp)
    }

    fn work(&mut self, now: Instant) {
        self.interface.poll(now, &mut self.port, &mut self.sockets);
    }
}

/// Returns the segments and bytes of data that it took.
fn transfer(lost: Option<usize>) -> (usize, usize) {
    let mut hosts = [Host::new(1), Host::new(2)];
    hosts[1].socket().listen(80).unwrap();
    let Host { interface, sockets, tcp, .. } = &mut hosts[0];
    let server = (IpAddress::v4(10, 0, 0, 2), 80);
    sockets.get_mut::<tcp::Socket>(*tcp).connect(interface.context(), server, 50_000).unwrap();
    let mut under_way: VecDeque<(i64, usize, Vec<u8>)> = VecDeque::new();
    let (mut written, mut read, mut segments, mut bytes, mut now) = (0, 0, 0, 0, 0);
    while read < TOTAL {
        while under_way.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, to, packet) = under_way.pop_front().unwrap();
            hosts[to].port.arrived.push_back(packet);
        }
        let instant = Instant::from_micros(now);
        for from in [0, 1] {
            hosts[from].work(instant);
            let socket = hosts[from].socket();
            while from == 0 && socket.can_send() && written < TOTAL {
                written += socket.send_slice(&vec![1; (TOTAL - written).min(16_384)]).unwrap();
            }
            while from == 1 && socket.can_recv() {
                read += socket.recv(|data| (data.len(), data.len())).unwrap();
            }
            hosts[from].work(instant);
            for packet in std::mem::take(&mut hosts[from].port.sent) {
                if from == 0 && packet.len() > 100 {
                    segments += 1;
                    bytes += packet.len() - HEADERS;
                    if lost == Some(segments) {
                        continue;
                    }
                }
                under_way.push_back((now + ONE_WAY_MICROS, 1 - from, packet));
            }
        }
        let timers = hosts.iter_mut().filter_map(|host| host.interface.poll_at(instant, &host.sockets));
        let next = timers.map(|at| at.total_micros()).chain(under_way.front().map(|(at, ..)| *at)).min();
        now = next.expect("both ends wait for each other").max(now + 1);
    }
    (segments, bytes)
}

fn main() {
    let (whole, lossy) = (transfer(None), transfer(Some(100)));
    println!("nothing lost: {} segments, {} bytes", whole.0, whole.1);
    println!("one lost:     {} segments, {} bytes", lossy.0, lossy.1);
    if whole.1 != TOTAL || lossy.1 < TOTAL + BUFFER / 2 {
        println!("changed");
        std::process::exit(1);
    }
}
RS
cargo --version
CARGO_TARGET_DIR="$dir/target" cargo build --quiet > log 2>&1 ||
    { echo "skipped: smoltcp 0.12.0 cannot be built: $(tail -n 1 log)"; exit 77; }
"$dir/target"/debug/lose
