//! Two hosts and a cable whose receive queue can be polled: [`Cable`], the server on one end and its clients on the other.
//!
//! A pair of virtual interfaces has a receive queue (NAPI) if receive offload is on and the other end does not segment
//! in hardware. It has no interrupt of its own: the sender's CPU receives for the other end. So RPS, the kernel's way
//! to move that work, hands each packet to the server's CPU by an inter-processor interrupt:
//!
//! ```text
//!   interrupts   clients' CPU ─ send ─ queue ─▶ interrupt ─▶ server's CPU: softirq: TCP ─▶ server
//!   deferred     clients' CPU ─ send ─ queue                 server's CPU: wait: poll: TCP ─▶ server
//!                                        └ later, if it is not polled ─▶ interrupt
//! ```
//!
//! The clients always poll their end as well, so that none of their packets is handled on the server's CPU.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use softtimers_measure::failure::Failure;
use softtimers_measure::processor::Processor;

use crate::bench::Done;
use crate::rig::hosts::{Hosts, ip, missing, threads};
use softtimers_trials::command::output;

/// The hosts of a server and of its clients, deleted when it is dropped.
#[derive(Debug)]
pub struct Cable(Hosts);

/// How the server's packets are received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Receiving {
    /// By interrupts on the server's CPU.
    Interrupts,
    /// By the server's own polls. An interrupt on its CPU comes this long after the last one.
    Deferred(Duration),
    /// By a kernel thread on the server's CPU (threaded NAPI).
    Thread,
    /// On the clients' CPU: the virtual interface's default.
    Elsewhere,
}

impl Cable {
    /// Creates the hosts, with [`SERVER`] and [`CLIENTS`] as addresses.
    ///
    /// # Errors
    /// A failure of the kind "not possible" where a machine lacks a requirement.
    pub fn lay() -> Done<Self> {
        missing().map_or(Ok(()), |reason| Err(Failure::not_possible(reason)))?;
        let hosts = Hosts::lay()?;
        for (host, end, address) in [("near", NEAR, CLIENTS), ("middle", MIDDLE, SERVER)] {
            let name = hosts.host(host);
            ip(&["-n", &name, "addr", "add", &format!("{address}/24"), "dev", end])?;
            // An answer is one packet, as with a segmenting network card.
            ip(&["-n", &name, "link", "set", end, "mtu", "9000"])?;
            hosts.at(host, &["ethtool", "-K", end, "tso", "off", "gro", "on"])?;
        }
        let defer = settings(NEAR, &[("napi_defer_hard_irqs", "1"), ("gro_flush_timeout", "20000000")]);
        hosts.at("near", &["sh", "-c", &defer])?;
        Ok(Cable(hosts))
    }

    /// Receives the server's packets in this way from now on; the server runs on the CPU `server`.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn receive(&self, receiving: Receiving, server: Processor) -> Done {
        let here = matches!(receiving, Receiving::Interrupts | Receiving::Deferred(_));
        let cpus = format!("{:x}", if here { 1u64 << server.number() } else { 0 });
        let (defer, flush) = match receiving {
            Receiving::Deferred(time) => ("1", time.as_nanos()),
            _ => ("0", 0),
        };
        let threaded = if receiving == Receiving::Thread { "1" } else { "0" };
        let script = settings(
            MIDDLE,
            &[
                ("queues/rx-0/rps_cpus", &cpus),
                ("napi_defer_hard_irqs", defer),
                ("gro_flush_timeout", &flush.to_string()),
                ("threaded", threaded),
            ],
        );
        self.0.at("middle", &["sh", "-c", &script])?;
        if receiving == Receiving::Thread {
            let ours = format!("napi/{MIDDLE}-");
            for (_, thread) in threads()?.into_iter().filter(|(name, _)| name.starts_with(&ours)) {
                output(Command::new("taskset").args(["-pc", &server.number().to_string(), &thread]))?;
            }
        }
        Ok(())
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

    fn move_to(&self, host: &str) -> io::Result<()> {
        let space = File::open(Path::new("/run/netns").join(self.0.host(host)))?;
        Ok(move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?)
    }
}

/// Opens a connection to `server` that is never used: a receive from it polls the clients' end of the cable.
///
/// # Errors
/// If no server listens there.
pub fn polled(server: SocketAddr) -> io::Result<TcpStream> {
    use softtimers_linux::sockopt;

    let stream = TcpStream::connect(server)?;
    stream.set_nonblocking(true)?;
    sockopt::set_busy_poll(stream.as_fd(), 1)?;
    sockopt::set_prefer_busy_poll(stream.as_fd(), true)?;
    sockopt::set_busy_poll_budget(stream.as_fd(), 64)?;
    Ok(stream)
}

/// Returns the commands that write an interface's settings.
fn settings(end: &str, settings: &[(&str, &str)]) -> String {
    let writes = settings.iter().map(|(name, value)| format!("echo {value} > /sys/class/net/{end}/{name}"));
    writes.collect::<Vec<_>>().join(" && ")
}

/// The server's address.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The clients' address.
pub const CLIENTS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// The clients' end of the cable, and the server's.
const NEAR: &str = "g0";
const MIDDLE: &str = "r0";

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use softtimers::epoll::{BusyPoll, Epoll, EventFlags, Events, Waiting};
    use softtimers::{Clock, Monotonic};
    use softtimers_linux::sockopt;

    use super::*;
    use crate::server::FILE;
    use crate::server::client::{Answered, Load};
    use crate::server::engine::{Engine, Looking, ServerStats};
    use crate::server::request::Site;

    /// Returns a cable, if this machine can have one and its kernel polls it. A process has one at a time.
    fn cable() -> Option<(Cable, MutexGuard<'static, ()>)> {
        static ONE: Mutex<()> = Mutex::new(());
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let laid = Cable::lay().map_err(|error| error.to_string()).and_then(|cable| {
            let epoll = Epoll::new(Waiting::Pwait2).map_err(|error| error.to_string())?;
            epoll.busy_poll().map(|_| cable).map_err(|_| "no EPIOCGPARAMS".to_owned())
        });
        let skipped = |reason| {
            let name = std::thread::current().name().unwrap_or("?").to_owned();
            let line = format!("skipped: {name}: {reason}\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
        };
        Some((laid.map_err(skipped).ok()?, one))
    }

    /// Returns the counts of a load's clients and of the server.
    fn served(cable: &Cable, looking: Looking, keep_alive: bool) -> (Answered, ServerStats) {
        let site = Site::of(&FILE);
        let (end, ends) = UnixStream::pair().unwrap();
        let (say, hear) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let server = scope.spawn(move || {
                cable.enter_as_server().unwrap();
                let listeners = [TcpListener::bind((SERVER, 0)).unwrap()];
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
                load.run_polling(Some(&polled)).unwrap()
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
                TcpListener::bind((SERVER, 0)).unwrap()
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
        let deferred = Receiving::Deferred(Duration::from_millis(1));
        let ways = [
            (Receiving::Interrupts, Looking::Epoll),
            (Receiving::Elsewhere, Looking::Spin),
            (Receiving::Thread, Looking::Epoll),
            (deferred, Looking::Napi(1)),
            (deferred, Looking::Napi(15)),
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

    /// Measures some exchanges of a byte, with a server whose waits poll or do not.
    fn exchanges(cable: &Cable, busy_poll: BusyPoll) -> Duration {
        let (say, hear) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                cable.enter_as_server().unwrap();
                let listener = TcpListener::bind((SERVER, 0)).unwrap();
                say.send(listener.local_addr().unwrap()).unwrap();
                let mut stream = listener.accept().unwrap().0;
                let (mut epoll, mut events) =
                    (Epoll::new(Waiting::Pwait2).unwrap(), Events::with_capacity(1));
                epoll.set_busy_poll(busy_poll).unwrap();
                epoll.add(stream.as_fd(), 0, EventFlags::IN).unwrap();
                for _ in 0..EXCHANGES {
                    epoll.wait(&mut events, None).unwrap();
                    stream.read_exact(&mut [0]).unwrap();
                    stream.write_all(b"y").unwrap();
                }
            });
            let address = hear.recv().unwrap();
            let client = scope.spawn(move || {
                cable.enter().unwrap();
                let mut stream = TcpStream::connect(address).unwrap();
                let began = Monotonic.now();
                for _ in 0..EXCHANGES {
                    stream.write_all(b"x").unwrap();
                    stream.read_exact(&mut [0]).unwrap();
                }
                Monotonic.now().saturating_duration_since(began)
            });
            client.join().unwrap()
        })
    }

    /// Where interrupts are deferred, a server that does not poll gets its packets when an interrupt comes at last.
    #[test]
    fn the_server_gets_its_packets_by_its_own_polls() {
        let Some((cable, _one)) = &cable() else { return };
        cable.receive(Receiving::Deferred(Duration::from_millis(300)), processor()).unwrap();
        let polls = BusyPoll { time: Duration::from_secs(10), budget: 5, prefer: true };
        // Either may be delayed by a machine that stands still.
        let enough = (0..10).any(|_| exchanges(cable, polls) * 2 < exchanges(cable, BusyPoll::default()));
        assert!(enough, "polls bring no packets");
    }

    #[test]
    fn without_a_server_there_is_nothing_to_poll() {
        let refused = polled(SocketAddr::from(([127, 0, 0, 1], 1))).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }

    const CONNECTIONS: usize = 8;
    const EXCHANGES: usize = 10;
}
