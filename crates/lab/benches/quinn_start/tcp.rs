//! The kernel's TCP over the same path, in real time: three network namespaces, and the path between two cables.
//!
//! ```text
//!   near: eth ── wa :middle: wb ── eth :far
//!   client          Bridge           server
//! ```
//!
//! Needs root and `ip`. What it makes is gone at its end.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::set_tcp_congestion;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use softtimers::{Backup, Clock, Monotonic};
use softtimers_lab::start::{PACKET, Path};
use softtimers_wan::interfaces::{Bridge, BridgeConfig};
use softtimers_wan::{Bottleneck, PathConfig, Queue, Wan};

type Failure = Box<dyn Error + Send + Sync>;

/// Seconds for answers of so many packets, without set-up and with it.
pub(crate) fn times(path: Path, control: &str, sizes: &[u64]) -> Result<Vec<[f64; 2]>, Failure> {
    let hosts = Hosts::lay()?;
    let (mut stop, stopped) = UnixStream::pair()?;
    let (say, hear) = mpsc::channel();
    let middle = hosts.at("middle", move || carry(path, &stopped, || _ = say.send(())))?;
    let server = hosts.at("far", {
        let control = control.to_owned();
        move || serve(&control)
    })?;
    hear.recv_timeout(Duration::from_secs(5)).map_err(|_| "the path did not come up")?;
    let sizes = sizes.to_vec();
    let client = hosts.at("near", move || sizes.into_iter().map(ask).collect::<Result<Vec<_>, Failure>>())?;
    let times = joined(client);
    stop.write_all(b"x")?;
    joined(middle)?;
    // It waits for connections until its namespace and this process are gone, unless it never listened.
    if server.is_finished() {
        joined(server)?;
    }
    times
}

fn joined<T>(thread: JoinHandle<Result<T, Failure>>) -> Result<T, Failure> {
    thread.join().map_err(|_| "a thread has panicked")?
}

fn carry(path: Path, stopped: &UnixStream, ready: impl FnOnce()) -> Result<(), Failure> {
    let delayed = PathConfig::default().delay(Duration::from_millis(50));
    // A frame is 14 bytes longer than its packet, of which 1,500 are to take as long as in virtual time.
    let link = Bottleneck::bits_per_second(path.mbit * 1_000_000 / 1_500 * 1_514)?;
    let answers = delayed.clone().bottleneck(link).queue(Queue::packets(20_000));
    let config = BridgeConfig { interfaces: ["wa".into(), "wb".into()], take: false };
    let problem = |problem| format!("{problem:?}");
    let mut bridge = Bridge::new(&config, Wan::builder().up(delayed).down(answers)).map_err(problem)?;
    bridge.watch(stopped, 1)?;
    ready();
    bridge.run(None).map_err(problem)?;
    Ok(())
}

/// Answers each request, which is a number of bytes.
fn serve(control: &str) -> Result<(), Failure> {
    let listener = TcpListener::bind(server())?;
    set_tcp_congestion(&listener, control)?;
    for stream in listener.incoming() {
        let mut stream = stream?;
        thread::spawn(move || -> io::Result<()> {
            stream.set_nodelay(true)?;
            loop {
                let mut request = [0; 8];
                stream.read_exact(&mut request)?;
                let bytes = u64::from_be_bytes(request);
                io::copy(&mut io::repeat(0x55).take(bytes), &mut stream)?;
            }
        });
    }
    Ok(())
}

/// Waits for an answer of so many packets on a connection that is there, and on a new one.
fn ask(packets: u64) -> Result<[f64; 2], Failure> {
    let mut there = TcpStream::connect(server())?;
    pause()?;
    let asked = Monotonic.now();
    request(&mut there, packets)?;
    let without = Monotonic.now().saturating_duration_since(asked);
    let asked = Monotonic.now();
    request(&mut TcpStream::connect(server())?, packets)?;
    let with = Monotonic.now().saturating_duration_since(asked);
    Ok([without, with].map(|time| time.as_secs_f64()))
}

fn request(stream: &mut TcpStream, packets: u64) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let bytes = packets * PACKET;
    stream.write_all(&bytes.to_be_bytes())?;
    let mut read = 0;
    let mut buffer = vec![0; 256 << 10];
    while read < bytes {
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            some => read += some as u64,
        }
    }
    Ok(())
}

/// Until the connection has been there for a while.
fn pause() -> io::Result<()> {
    let mut backup = Backup::deadline()?;
    let end = Monotonic.now() + Duration::from_millis(300);
    backup.arm(Monotonic.now(), Some(end))?;
    rustix::event::poll(&mut [rustix::event::PollFd::new(&backup, rustix::event::PollFlags::IN)], None)?;
    Ok(())
}

fn server() -> SocketAddr {
    ([10, 98, 0, 2], 4433).into()
}

/// Three namespaces named after this process.
struct Hosts(String);

impl Hosts {
    fn lay() -> Result<Self, Failure> {
        let hosts = Hosts(format!("softtimers-start-{}", std::process::id()));
        let [near, middle, far] = ["near", "middle", "far"].map(|host| hosts.name(host));
        for host in [&near, &middle, &far] {
            ip(&["netns", "add", host])?;
            ip(&["-n", host, "link", "set", "lo", "up"])?;
        }
        for (host, end, address) in [(&near, "wa", "10.98.0.1/24"), (&far, "wb", "10.98.0.2/24")] {
            ip(&["-n", host, "link", "add", "eth", "type", "veth", "peer", "name", end, "netns", &middle])?;
            ip(&["-n", host, "addr", "add", address, "dev", "eth"])?;
            ip(&["-n", host, "link", "set", "eth", "up"])?;
            ip(&["-n", &middle, "link", "set", end, "up"])?;
        }
        Ok(hosts)
    }

    fn name(&self, host: &str) -> String {
        format!("{}-{host}", self.0)
    }

    /// Does something on a host, in a thread that stays there.
    fn at<T: Send + 'static>(
        &self,
        host: &str,
        what: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> io::Result<JoinHandle<Result<T, Failure>>> {
        let namespace = File::open(format!("/run/netns/{}", self.name(host)))?;
        Ok(thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            what()
        }))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in ["near", "middle", "far"] {
            let _ = ip(&["netns", "del", &self.name(host)]);
        }
    }
}

fn ip(arguments: &[&str]) -> Result<(), Failure> {
    let output = Command::new("ip").args(arguments).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into())
}
