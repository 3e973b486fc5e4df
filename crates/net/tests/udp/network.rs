//! A network of our own, with one slow device in it: where send buffers and queues really fill up.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::event::{Timespec, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use softtimers::Clock;
use softtimers::Monotonic;
use softtimers_net::udp::UdpSocket;

use crate::skipped::skipped;

/// The address behind the slow device; nothing has it, and its neighbour entry is written by hand.
const BEYOND: &str = "10.99.0.2:9";

pub(crate) fn slow_socket() -> UdpSocket {
    let socket = UdpSocket::bind("10.99.0.1:0").unwrap();
    socket.connect(BEYOND).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Runs `test` on a thread that is inside a network of its own, where packets leave through a token
/// bucket of `rate` with a queue of `limit` bytes. Skips it where that is not permitted.
pub(crate) fn in_slow_network(rate: &str, limit: u32, test: impl FnOnce() + Send + 'static) {
    let set_up = format!(
        "set -e
         echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
         ip link add slow type veth peer name end
         ip addr add 10.99.0.1/24 dev slow
         ip link set slow up
         ip link set end up
         ip neigh add 10.99.0.2 lladdr 02:00:00:00:00:01 dev slow
         tc qdisc add dev slow root tbf rate {rate} burst 2000 limit {limit}
         echo ready
         read end"
    );
    match Network::start(&set_up) {
        Ok(network) => {
            let inside = thread::spawn(move || {
                let namespace = File::open(format!("/proc/{}/ns/net", network.holder.id())).unwrap();
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                test();
            });
            inside.join().unwrap();
        }
        Err(reason) => skipped(&format_args!("no network of our own: {reason}")),
    }
}

/// A process that holds a network namespace.
struct Network {
    holder: Child,
}

impl Network {
    fn start(set_up: &str) -> Result<Self, String> {
        let holder = Command::new("unshare")
            .args(["--net", "sh", "-c", set_up])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let mut network = Self { holder };
        let mut line = String::new();
        BufReader::new(network.holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line == "ready\n" {
            return Ok(network);
        }
        let mut reason = String::new();
        io::Read::read_to_string(network.holder.stderr.as_mut().unwrap(), &mut reason).unwrap();
        Err(reason.trim().replace('\n', "; "))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The number of packets that have left the slow device, in this thread's network.
pub(crate) fn departed() -> u64 {
    let devices = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let counters = devices.lines().find_map(|line| line.trim().strip_prefix("slow:")).unwrap();
    counters.split_whitespace().nth(9).unwrap().parse().unwrap()
}

/// Waits until `count` packets have left the slow device since it was created, and no more.
pub(crate) fn wait_for_departures(count: u64) {
    let deadline = Monotonic.now() + SEND_TIME_LIMIT;
    while departed() < count {
        assert!(Monotonic.now() < deadline, "{} of {count} have left", departed());
        poll(&mut [], Some(&TICK)).unwrap();
    }
    assert_eq!(departed(), count);
}

/// Many times what any of these networks takes to send what is given to it.
pub(crate) const SEND_TIME_LIMIT: Duration = Duration::from_secs(20);

/// Between two looks, so that a wait that nothing ends is seen to last too long.
pub(crate) const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
