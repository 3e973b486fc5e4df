//! Two hosts and cables whose receive queues can be polled: [`Cable`], the server on one end and its clients on the other.
//!
//! A pair of virtual interfaces has a receive queue (NAPI) if receive offload is on and the other end does not segment
//! in hardware. It has no interrupt of its own: the sender's CPU receives for the other end. So RPS, the kernel's way
//! to move that work, hands each packet to the server's CPU by an inter-processor interrupt:
//!
//! ```text
//!   interrupts   clients' CPU ─ send ─ queue ─▶ interrupt ─▶ server's CPU: softirq: TCP ─▶ server
//!   polled       clients' CPU ─ send ─ queue                 server's CPU: soft event: poll: TCP ─▶ server
//! ```
//!
//! The clients always poll their end as well, so that none of their packets is handled on the server's CPU.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use softtimers_measure::failure::Failure;
use softtimers_measure::processor::Processor;
use softtimers_net::napi::{Deferral, Napi, Queue};

use crate::bench::Done;
use crate::rig::hosts::{Hosts, ip, missing, threads};
use softtimers_trials::command::output;

/// The hosts of a server and of its clients, deleted when it is dropped.
#[derive(Debug)]
pub struct Cable(Hosts);

/// How the server's packets are received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receiving {
    /// By interrupts on the server's CPU, unless it defers them itself.
    Interrupts,
    /// The same, suspended while waits of the server's `epoll` find events.
    Suspended,
    /// The same, each for N packets on average, as the queue's own timer is set beside the server.
    Timer(u32),
    /// By a kernel thread on the server's CPU (threaded NAPI).
    Thread,
    /// On the clients' CPU: the virtual interface's default.
    Elsewhere,
}

impl Cable {
    /// Creates the hosts, with [`SERVERS`] and their clients as addresses.
    ///
    /// # Errors
    /// A failure of the kind "not possible" where a machine lacks a requirement.
    pub fn lay() -> Done<Self> {
        missing().map_or(Ok(()), |reason| Err(Failure::not_possible(reason)))?;
        let hosts = Hosts::lay()?;
        let ends = (0..CABLES).flat_map(|cable| [("near", 'g', cable, 2), ("middle", 'r', cable, 1)]);
        for (host, side, cable, station) in ends {
            let (end, address) = (&*format!("{side}{cable}"), format!("10.77.{cable}.{station}"));
            let name = hosts.host(host);
            ip(&["-n", &name, "addr", "add", &format!("{address}/24"), "dev", end])?;
            // An answer is one packet, as with a segmenting network card.
            ip(&["-n", &name, "link", "set", end, "mtu", "9000"])?;
            hosts.at(host, &["ethtool", "-K", end, "tso", "off", "gro", "on"])?;
        }
        let defer = settings('g', &[("napi_defer_hard_irqs", "1"), ("gro_flush_timeout", "20000000")]);
        hosts.at("near", &["sh", "-c", &defer])?;
        Ok(Cable(hosts))
    }

    /// Receives the server's packets in this way from now on; the server runs on the CPU `server`.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn receive(&self, receiving: Receiving, server: Processor) -> Done {
        let here = !matches!(receiving, Receiving::Thread | Receiving::Elsewhere);
        let cpus = format!("{:x}", if here { 1u64 << server.number() } else { 0 });
        let threaded = if receiving == Receiving::Thread { "1" } else { "0" };
        let script = settings('r', &[("queues/rx-0/rps_cpus", &cpus), ("threaded", threaded)]);
        self.0.at("middle", &["sh", "-c", &script])?;
        let suspended = Deferral { polls: 100, flush: Duration::from_micros(200), suspend: SUSPENDED };
        let deferral = if receiving == Receiving::Suspended { suspended } else { Deferral::default() };
        self.with_queues(move |queue| queue.defer(&deferral))?;
        if receiving == Receiving::Thread {
            for (_, thread) in threads()?.into_iter().filter(|(name, _)| name.starts_with("napi/r")) {
                output(Command::new("taskset").args(["-pc", &server.number().to_string(), &thread]))?;
            }
        }
        Ok(())
    }

    /// Does something with each of the server's queues.
    fn with_queues(&self, what: impl Fn(&Napi) -> io::Result<()> + Send) -> io::Result<()> {
        let queues = || {
            self.enter_as_server()?;
            Napi::all()?.iter().try_for_each(what)
        };
        // A thread of its own, since it stays there.
        thread::scope(|scope| scope.spawn(queues).join()).unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Returns a program with its words on the server's host.
    pub fn command(&self, program: &Path, words: &[&str]) -> Command {
        let program = program.to_string_lossy();
        self.0.command("middle", &[&[&*program], words].concat())
    }

    /// Moves the calling thread to the clients' host.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn enter(&self) -> io::Result<()> {
        self.move_to("near")
    }

    /// Moves the calling thread to the server's host.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn enter_as_server(&self) -> io::Result<()> {
        self.move_to("middle")
    }

    /// Returns what moves another thread there, which may outlive this.
    pub(super) fn entrance_of_server(&self) -> io::Result<impl FnOnce() -> io::Result<()> + Send + 'static> {
        let space = self.space("middle")?;
        Ok(move || Ok(move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?))
    }

    fn move_to(&self, host: &str) -> io::Result<()> {
        Ok(move_into_link_name_space(self.space(host)?.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    fn space(&self, host: &str) -> io::Result<File> {
        File::open(Path::new("/run/netns").join(self.0.host(host)))
    }
}

/// Opens a connection to `server` that is never used: a receive from it polls the clients' end of the cable.
///
/// # Errors
/// If no server listens there.
pub fn polled(server: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(server)?;
    stream.set_nonblocking(true)?;
    Queue::prepare(&stream)?;
    Ok(stream)
}

/// Returns the commands that write settings of a side's interfaces.
fn settings(side: char, settings: &[(&str, &str)]) -> String {
    let writes = (0..CABLES).flat_map(|cable| {
        settings
            .iter()
            .map(move |(name, value)| format!("echo {value} > /sys/class/net/{side}{cable}/{name}"))
    });
    writes.collect::<Vec<_>>().join(" && ")
}

/// The server's address at the first cable, and at the second one.
pub const SERVERS: [Ipv4Addr; CABLES] = [Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 77, 1, 1)];
const CABLES: usize = 2;
/// The kernel's documentation has this as an example.
const SUSPENDED: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::time::Duration;

    use softtimers_linux::sockopt;
    use softtimers_net::napi::Napi;

    use super::*;
    use crate::server::FILE;
    use crate::server::client::{Answered, Load};
    use crate::server::engine::{Engine, Looking, ServerStats};
    use crate::server::request::Site;

    /// Returns a cable, if this machine can have one and its kernel polls it. A process has one at a time.
    fn cable() -> Option<(Cable, MutexGuard<'static, ()>)> {
        static ONE: Mutex<()> = Mutex::new(());
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let laid = Cable::lay()
            .map_err(|error| error.to_string())
            .and_then(|cable| Napi::all().map(|_| cable).map_err(|error| error.to_string()));
        let skipped = |reason| {
            let name = std::thread::current().name().unwrap_or("?").to_owned();
            let line = format!("skipped: {name}: {reason}\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
        };
        Some((laid.map_err(skipped).ok()?, one))
    }

    /// Returns the counts of a load's clients and of the server.
    fn served(cable: &Cable, looking: Looking, keep_alive: bool) -> (Answered, ServerStats) {
        let site = Site::from_file(&FILE);
        let (end, ends) = UnixStream::pair().unwrap();
        let (say, hear) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let server = scope.spawn(move || {
                cable.enter_as_server().unwrap();
                let listeners = [TcpListener::bind((SERVERS[0], 0)).unwrap()];
                let engine = Engine::new(&site, &listeners, Some(&ends)).unwrap();
                say.send(listeners[0].local_addr().unwrap()).unwrap();
                engine.run(looking).unwrap()
            });
            let address = hear.recv().unwrap();
            let load = Load {
                clients: vec![(address, CONNECTIONS)],
                keep_alive,
                interval: None,
                time: Duration::from_millis(200),
            };
            let clients = scope.spawn(move || {
                cable.enter().unwrap();
                let polled = polled(address).unwrap();
                load.run_polling(&[polled]).unwrap()
            });
            let answered = clients.join().unwrap();
            drop(end);
            (answered, server.join().unwrap())
        })
    }

    fn processor() -> Processor {
        Processor::new(Processor::two().unwrap()[0]).unwrap()
    }

    #[test]
    fn a_connection_over_the_cable_comes_from_a_queue_that_can_be_polled() {
        let Some((cable, _one)) = &cable() else { return };
        std::thread::scope(|scope| {
            let bound = scope.spawn(|| {
                cable.enter_as_server().unwrap();
                TcpListener::bind((SERVERS[0], 0)).unwrap()
            });
            let listener = bound.join().unwrap();
            let address = listener.local_addr().unwrap();
            let client = scope.spawn(move || {
                cable.enter().unwrap();
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"x").unwrap();
                stream
            });
            let mut stream = listener.accept().unwrap().0;
            stream.read_exact(&mut [0]).unwrap();
            let client = client.join().unwrap();
            let queues = [&stream, &client].map(|end| sockopt::napi_id(end.as_fd()).unwrap());
            assert!(queues.iter().all(|&queue| queue > 0) && queues[0] != queues[1], "{queues:?}");
        });
    }

    #[test]
    fn every_request_is_answered_once_wherever_packets_are_received() {
        let Some((cable, _one)) = &cable() else { return };
        let ways = [
            (Receiving::Interrupts, Looking::Epoll),
            (Receiving::Elsewhere, Looking::Spin),
            (Receiving::Thread, Looking::Epoll),
            (Receiving::Interrupts, Looking::Napi(1)),
            (Receiving::Interrupts, Looking::Napi(15)),
        ];
        for (receiving, looking) in ways {
            cable.receive(receiving, processor()).unwrap();
            for keep_alive in [true, false] {
                let (answered, stats) = served(cable, looking, keep_alive);
                let case = format!("{receiving:?} {looking:?} {keep_alive} {stats:?}");
                assert_eq!(answered.errors, 0, "{case}");
                assert_eq!(answered.latency.count(), answered.answers[0], "{case}");
                // Requests under way when the clients left.
                let under_way = stats.answered[0].checked_sub(answered.answers[0]);
                assert!(under_way.is_some_and(|number| number <= CONNECTIONS as u64), "{case}");
                if keep_alive {
                    assert_eq!(stats.accepted, CONNECTIONS as u64 + 1, "{case}");
                }
            }
        }
    }

    #[test]
    fn without_a_server_there_is_nothing_to_poll() {
        let refused = polled(SocketAddr::from(([127, 0, 0, 1], 1))).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }

    const CONNECTIONS: usize = 8;
}
