//! `pace` on this kernel, over an emulated path between two hosts: three namespaces, with `wan` in the middle. Needs root,
//! `ip` and a kernel with struct_ops; says so where it has not got them.
//!
//! ```text
//!   near: pace -- server    eth ── wa :middle: wb ── eth    far: client
//!                              wan --ifaces wa,wb
//! ```
//!
//! The server is this program again, and chooses CUBIC itself: a namespace may not choose it where the machine's default is
//! another. It is as unmodified as any: it knows nothing of `pace`.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use common::hosts::{self, Hosts, ip};
use rustix::net::sockopt::{set_tcp_congestion, set_tcp_nodelay};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use softtimers::{Clock, Monotonic};
use softtimers_linux::sockopt::pacing_rate;

/// Bytes of a packet.
const PACKET: usize = 1_448;
const ROUND_TRIP: Duration = Duration::from_millis(100);

/// Not a test: the server, if it is asked for. To each request of four bytes it answers so many packets.
#[test]
fn serves() {
    let Some(addresses) = std::env::var_os("SOFTTIMERS_SERVES") else { return };
    let addresses = addresses.into_string().unwrap();
    let serve = |address: &str| {
        let listener = TcpListener::bind(address).unwrap();
        if set_tcp_congestion(&listener, "cubic").is_err() {
            println!("no cubic");
        }
        for client in listener.incoming() {
            let mut client = client.unwrap();
            set_tcp_nodelay(&client, true).unwrap();
            thread::spawn(move || {
                let mut request = [0; 4];
                while client.read_exact(&mut request).is_ok() {
                    let packets = u32::from_be_bytes(request) as usize;
                    if client.write_all(&vec![1; packets * PACKET]).is_err() {
                        break;
                    }
                }
            });
        }
    };
    thread::scope(|scope| {
        for address in addresses.split(',') {
            scope.spawn(move || serve(address));
        }
    });
}

/// A process of a host, which is ended with it.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two hosts and the path between them.
struct Scene<'a> {
    hosts: &'a Hosts,
    _wan: Process,
}

/// An emulated path is as good as the time that its process gets, so one at a time.
static ONE: Mutex<()> = Mutex::new(());

const V4: &str = "10.97.0.1:7000";
const V6: &str = "[fd97::1]:7000";

fn with_path(test: &str, rate: &str, queue: &str, body: impl FnOnce(&Scene<'_>)) {
    with_round_trip(test, &format!("100ms --rate {rate} --queue {queue}"), body);
}

fn with_round_trip(test: &str, path: &str, body: impl FnOnce(&Scene<'_>)) {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    hosts::with(test, |hosts| {
        for (host, v4, v6) in [("near", "10.97.0.1/24", "fd97::1/64"), ("far", "10.97.0.2/24", "fd97::2/64")]
        {
            let host = hosts.host(host);
            ip(&["-n", &host, "addr", "add", v4, "dev", "eth"]).unwrap();
            ip(&["-n", &host, "addr", "add", v6, "dev", "eth", "nodad"]).unwrap();
        }
        // Buffers that hold a path: what the kernel's own tuning makes of it is not the subject.
        for host in ["near", "far"] {
            let tuned = hosts.at(host, || {
                for name in ["tcp_rmem", "tcp_wmem"] {
                    fs::write(format!("/proc/sys/net/ipv4/{name}"), "4096 4000000 8000000").unwrap();
                }
            });
            tuned.join().unwrap();
        }
        let wan = hosts.command(&format!("wan --json --ifaces wa,wb --rtt {path}"));
        body(&Scene { hosts, _wan: started(wan, "relaying between") });
    });
}

/// Starts a command, and waits for its first line on stderr.
fn started(mut command: Command, word: &str) -> Process {
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with(word), "{line}");
    child.stderr = Some(stderr.into_inner());
    Process(child)
}

/// A server, under `pace` or not.
struct Server {
    process: Process,
    summary: PathBuf,
}

impl Scene<'_> {
    /// Starts the server on these addresses; under `pace` with these flags, if any.
    fn serve(&self, addresses: &str, pace: Option<&str>) -> Option<Server> {
        let summary = std::env::temp_dir().join(format!(
            "softtimers-{}-{}.json",
            self.hosts.host("pace"),
            addresses.len()
        ));
        let own = std::env::current_exe().unwrap();
        let mut command = match pace {
            Some(flags) => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_softtimers"));
                command
                    .args(["pace", "--force", "--summary"])
                    .arg(&summary)
                    .args(flags.split(' '))
                    .arg("--")
                    .arg(own);
                command
            }
            None => Command::new(own),
        };
        command.args(["serves", "--exact", "--nocapture"]).env("SOFTTIMERS_SERVES", addresses);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A thread's network is that of the programs that it starts.
        let child = self.hosts.at("near", move || command.spawn().unwrap()).join().unwrap();
        let mut server = Server { process: Process(child), summary };
        let first = addresses.split(',').next().unwrap().parse().unwrap();
        for _ in 0..600 {
            if let Ok(Some(status)) = server.process.0.try_wait() {
                let mut said = String::new();
                server.process.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                assert_eq!(status.code(), Some(77), "{said}");
                common::skipped(said.trim());
                return None;
            }
            if self.at_far(move || TcpStream::connect_timeout(&first, Duration::from_millis(200)).is_ok()) {
                return Some(server);
            }
        }
        panic!("nobody listens at {addresses}");
    }

    fn at_far<T: Send + 'static>(&self, act: impl FnOnce() -> T + Send + 'static) -> T {
        self.hosts.at("far", act).join().unwrap()
    }
}

impl Server {
    /// Ends it, and returns the summary of `pace`.
    fn end(mut self) -> Value {
        kill_process(Pid::from_raw(self.process.0.id() as i32).unwrap(), Signal::TERM).unwrap();
        self.process.0.wait().unwrap();
        let text = fs::read_to_string(&self.summary).unwrap();
        let _ = fs::remove_file(&self.summary);
        serde_json::from_str(&text).unwrap()
    }
}

/// Asks for packets on an open connection, and returns how long the answer took.
fn get(server: &mut TcpStream, packets: usize) -> Duration {
    let began = Monotonic.now();
    server.write_all(&(packets as u32).to_be_bytes()).unwrap();
    let mut all = vec![0; packets * PACKET];
    server.read_exact(&mut all).unwrap();
    Monotonic.now().saturating_duration_since(began)
}

fn connect(address: &str) -> TcpStream {
    let server = TcpStream::connect(address.parse::<SocketAddr>().unwrap()).unwrap();
    server.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    server
}

/// The least of several first answers, each on a connection of its own; a busy machine only adds to it.
fn first_answer(address: &str, packets: usize) -> Duration {
    (0..4).map(|_| get(&mut connect(address), packets)).min().unwrap()
}

/// A hundred packets take four round trips of slow start, and one with the window that the path holds; not less, and not
/// faster than the rate.
#[test]
fn the_first_flight_takes_one_round_trip() {
    for (name, address) in [("first4", V4), ("first6", V6)] {
        with_path(name, "50Mbit", "1000packets", |scene| {
            let Some(plain) = scene.serve(address, None) else { return };
            let slow_start = scene.at_far(move || first_answer(address, 100));
            drop(plain.process);
            let Some(server) = scene.serve(address, Some("--rate 50Mbit")) else { return };
            let paced = scene.at_far(move || first_answer(address, 100));
            // The last of a hundred has the transmission of all before it.
            let least = ROUND_TRIP + Duration::from_micros(100 * PACKET as u64 * 8 / 50);
            assert!(paced >= least, "{paced:?} < {least:?}");
            // Three round trips less, of which a busy machine may take two.
            assert!(paced + ROUND_TRIP < slow_start, "{paced:?} against {slow_start:?}");
            let report = server.end();
            assert!(report["connections"].as_u64() >= Some(4) && report["refused"] == 0, "{report}");
        });
    }
}

/// On a short round trip a connection goes on at its pace behind the first flight: the window of the handshake's round trip
/// is no limit for those that follow.
#[test]
fn behind_the_first_flight_the_pace_holds() {
    const SHORT: Duration = Duration::from_millis(20);
    with_round_trip("short", "20ms --rate 50Mbit --queue 1000packets", |scene| {
        let Some(plain) = scene.serve(V4, None) else { return };
        let slow_start = scene.at_far(|| first_answer(V4, 300));
        drop(plain.process);
        let Some(server) = scene.serve(V4, Some("--rate 50Mbit")) else { return };
        let paced = scene.at_far(|| first_answer(V4, 300));
        let least = SHORT + Duration::from_micros(300 * PACKET as u64 * 8 / 50);
        assert!(paced >= least, "{paced:?} < {least:?}");
        // Two round trips less, of which a busy machine may take one.
        assert!(paced + SHORT < slow_start, "{paced:?} against {slow_start:?}");
        drop(server.end());
    });
}

/// At 400 Mbit/s the kernel would hand over 33 packets at once, of which a queue of 20 drops a third. A busy machine only adds
/// losses, so the least of three runs; on a kernel that skips BPF programs now and then, an answer waits a round trip.
#[test]
fn the_first_flight_leaves_in_trains_that_a_short_queue_holds() {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
    if [numbers.next(), numbers.next()] < [Some(6), Some(18)] {
        return common::skipped("trains are limited from Linux 6.18 on");
    }
    with_path("trains", "400Mbit", "20packets", |scene| {
        let runs = (0..3).map_while(|_| {
            let server = scene.serve(V4, Some("--rate 400Mbit"))?;
            scene.at_far(|| get(&mut connect(V4), 1_000));
            server.end()["retransmitted"].as_u64()
        });
        let lost: Vec<u64> = runs.collect();
        assert!(lost.iter().min().is_none_or(|&least| least < 50), "{lost:?}");
    });
}

/// A tenth of what the path holds is 16 packets: a hundred take three round trips, and a connection's first answer one more,
/// for its handshake.
#[test]
fn a_fraction_of_the_capacity_begins_carefully() {
    with_path("fraction", "20Mbit", "1000packets", |scene| {
        let Some(server) = scene.serve(V4, Some("--rate 20Mbit --window 0.1")) else { return };
        let (all, answer) = scene.at_far(|| {
            let began = Monotonic.now();
            let answer = get(&mut connect(V4), 100);
            (Monotonic.now().saturating_duration_since(began), answer)
        });
        assert!(answer >= 3 * ROUND_TRIP && all >= answer + ROUND_TRIP, "{answer:?} of {all:?}");
        assert_eq!(server.end()["config"]["window_share"], 0.1);
    });
}

/// The pace is that of --rate where the path has more, also when it changes while a connection sends.
#[test]
fn the_rate_holds_and_changes_at_run_time() {
    with_path("rate", "50Mbit", "1000packets", |scene| {
        let socket = std::env::temp_dir().join(format!("{}.sock", scene.hosts.host("pace")));
        let flags = format!("--rate 20Mbit --control {}", socket.display());
        let Some(server) = scene.serve(V4, Some(&flags)) else { return };
        let took = |packets: usize| scene.at_far(move || get(&mut connect(V4), packets));
        // A fifth is left to bursts.
        let least = |rate: u64| ROUND_TRIP + Duration::from_micros(300 * PACKET as u64 * 8 / rate) * 4 / 5;
        let first = took(300);
        assert!(first >= least(20), "{first:?}");
        let mut control = BufReader::new(UnixStream::connect(&socket).unwrap());
        let mut ask = |line: &str| {
            writeln!(control.get_mut(), "{line}").unwrap();
            let mut answer = String::new();
            control.read_line(&mut answer).unwrap();
            answer
        };
        assert_eq!((ask("set rate 5Mbit"), ask("set window 0.5")), ("ok\n".to_owned(), "ok\n".to_owned()));
        let second = took(300);
        assert!(second >= least(5), "{second:?}");
        assert!(ask("set rate 5").starts_with("error: rate 5: "));
        assert!(ask("show").contains("\"connections\":"));
        assert!(socket.exists());
        let report = server.end();
        assert_eq!(report["config"]["rate_bps"], 5_000_000);
        assert!(!socket.exists());
    });
}

/// After a pause the window is there again, and nothing is lost: no slow start again, and no burst.
#[test]
fn after_a_pause_a_flight_begins_with_the_whole_window() {
    with_path("idle", "20Mbit", "1000packets", |scene| {
        let after_pauses = |scene: &Scene<'_>| {
            scene.at_far(|| {
                let mut server = connect(V4);
                get(&mut server, 100);
                let times = (0..3).map(|_| {
                    // Longer than the timeout of a retransmission, after which CUBIC cuts its window.
                    thread::park_timeout(Duration::from_millis(1_200));
                    get(&mut server, 100)
                });
                times.min().unwrap()
            })
        };
        let Some(plain) = scene.serve(V4, None) else { return };
        let slow_start = after_pauses(scene);
        drop(plain.process);
        let Some(server) = scene.serve(V4, Some("--rate 20Mbit")) else { return };
        let paced = after_pauses(scene);
        let report = server.end();
        if report["fallbacks"].to_string().contains("after a pause connections begin") {
            return common::skipped(&report["fallbacks"].to_string());
        }
        assert!(paced >= ROUND_TRIP && paced + ROUND_TRIP < slow_start, "{paced:?} against {slow_start:?}");
        assert!(report["restored"].as_u64() >= Some(3), "{report}");
    });
}

/// A pace leaves much of the window unused at first, for which the kernel halves it once in a while where requests come more
/// often than its timeout. Each of them takes one round trip all the same.
#[test]
fn a_window_that_the_pace_does_not_fill_at_once_stays() {
    with_path("kept", "20Mbit", "1000packets", |scene| {
        let Some(server) = scene.serve(V4, Some("--rate 20Mbit")) else { return };
        let slowest = scene.at_far(|| {
            let attempt = || {
                let mut server = connect(V4);
                let times = (0..6).map(|_| {
                    thread::park_timeout(Duration::from_millis(50));
                    get(&mut server, 110)
                });
                times.max().unwrap()
            };
            // A busy machine makes the slowest of an attempt slower.
            (0..4).map(|_| attempt()).min().unwrap()
        });
        let report = server.end();
        assert!(slowest < 2 * ROUND_TRIP, "{slowest:?}: {report}");
    });
}

/// Four at once have a quarter of the rate each, and of the window: at a queue of a tenth of the path hardly anything is
/// lost.
#[test]
fn the_capacity_is_shared_among_those_that_send() {
    with_path("share", "20Mbit", "200packets", |scene| {
        let socket = std::env::temp_dir().join(format!("{}.sock", scene.hosts.host("pace")));
        let flags = format!("--rate 20Mbit --control {}", socket.display());
        let Some(server) = scene.serve(V4, Some(&flags)) else { return };
        let took = scene.at_far(|| {
            let mut all: Vec<TcpStream> = (0..4).map(|_| connect(V4)).collect();
            let began = Monotonic.now();
            thread::scope(|scope| {
                for server in &mut all {
                    scope.spawn(move || get(server, 200));
                }
            });
            Monotonic.now().saturating_duration_since(began)
        });
        let least = ROUND_TRIP + Duration::from_micros(800 * PACKET as u64 * 8 / 20);
        assert!(took >= least, "{took:?} < {least:?}");
        // The last acknowledgement of each is still on the way; then none is active.
        let mut control = BufReader::new(UnixStream::connect(&socket).unwrap());
        let mut is_idle = || {
            writeln!(control.get_mut(), "show").unwrap();
            let mut answer = String::new();
            control.read_line(&mut answer).unwrap();
            answer.contains("\"active\":0,")
        };
        while !is_idle() {
            thread::park_timeout(Duration::from_millis(10));
        }
        drop(control);
        assert_eq!(server.end()["most_active"], 4);
    });
}

/// Half the path that was told: the connections notice, all bytes arrive, and the report says so.
#[test]
fn a_smaller_path_gives_the_connections_back() {
    with_path("half", "10Mbit", "30packets", |scene| {
        let Some(server) = scene.serve(V4, Some("--rate 20Mbit")) else { return };
        scene.at_far(|| [500, 500].map(|packets| get(&mut connect(V4), packets)));
        let report = server.end();
        assert!(report["given_back"].as_u64() >= Some(1), "{report}");
        assert!(report["fallbacks"].to_string().contains("less than --rate for"), "{report}");
    });
}

/// Within a minute, connections to the same address begin as CUBIC has it, and are counted.
#[test]
fn a_smaller_path_is_remembered_for_the_connections_that_follow() {
    with_path("memory", "10Mbit", "30packets", |scene| {
        let Some(server) = scene.serve(V4, Some("--rate 20Mbit")) else { return };
        scene.at_far(|| [500, 500, 20].map(|packets| get(&mut connect(V4), packets)));
        let report = server.end();
        let [given_back, remembered] = ["given_back", "remembered"].map(|key| report[key].as_u64().unwrap());
        assert!(given_back >= 1 && remembered >= 1, "{report}");
        assert!(given_back + remembered <= report["connections"].as_u64().unwrap(), "{report}");
        assert!(report["fallbacks"].to_string().contains("within a minute began as"), "{report}");
    });
}

/// A few losses are others on the path, for whom connections make room.
#[test]
fn a_few_losses_make_room() {
    with_round_trip("room", "20ms --rate 20Mbit --queue 1000packets --loss 1.5%", |scene| {
        let Some(server) = scene.serve(V4, Some("--rate 20Mbit")) else { return };
        scene.at_far(|| get(&mut connect(V4), 1_000));
        let report = server.end();
        assert!(report["made_room"].as_u64() >= Some(1), "{report}");
    });
}

/// Not a test: a command that sends UDP, if it is asked for, and prints the paces of its sockets.
#[test]
fn sends_udp() {
    let Some(address) = std::env::var_os("SOFTTIMERS_SENDS_UDP") else { return };
    let address: SocketAddr = address.into_string().unwrap().parse().unwrap();
    let sockets = [(); 2].map(|()| UdpSocket::bind((address.ip(), 0)).unwrap());
    sockets[0].connect(address).unwrap();
    sockets[1].send_to(&[1], address).unwrap();
    for socket in sockets {
        println!("pace {}", pacing_rate(socket.as_fd()).unwrap());
    }
}

/// Connected or not, a UDP socket has the rate; that no queue here holds it is said.
#[test]
fn udp_sockets_have_the_rate() {
    for address in ["127.0.0.1:9", "[::1]:9"] {
        let mut command = common::command("pace --rate 80Mbit --to 127.0.0.0/8,::1/128 --json --");
        command.arg(std::env::current_exe().unwrap()).args(["sends_udp", "--exact", "--nocapture"]);
        let output = command.env("SOFTTIMERS_SENDS_UDP", address).output().unwrap();
        let said = common::stderr(&output);
        let Some(report) = said.find('{').map(|at| serde_json::from_str::<Value>(&said[at..]).unwrap())
        else {
            return common::skipped(said.trim());
        };
        if report["rate_only"] == true {
            return common::skipped(&report["fallbacks"][0].to_string());
        }
        let notes = report["fallbacks"].to_string();
        if notes.contains("UDP is not paced: ") {
            return common::skipped(&notes);
        }
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.matches("pace 10000000\n").count(), 2, "{printed} {said}");
        assert!(report["udp"] == 2 && report["refused"] == 0, "{report}");
        if !notes.contains("UDP was not paced: ") {
            common::skipped("loopback has the queue fq here");
        }
    }
}

/// Only what --to names: others keep the kernel's own window and pace.
#[test]
fn other_networks_are_left_alone() {
    with_path("to", "20Mbit", "1000packets", |scene| {
        let Some(server) = scene.serve(V4, Some("--rate 20Mbit --to 10.98.0.0/16,fd98::/16")) else { return };
        scene.at_far(|| get(&mut connect(V4), 100));
        assert_eq!(server.end()["connections"], 0);
        let Some(server) = scene.serve(V4, Some("--rate 20Mbit --to 10.97.0.0/31,10.97.0.2/32")) else {
            return;
        };
        scene.at_far(|| get(&mut connect(V4), 100));
        assert!(server.end()["connections"].as_u64() >= Some(1));
    });
}

/// Two runs at once have names, groups and rates of their own.
#[test]
fn two_runs_stand_beside_each_other() {
    with_path("two", "50Mbit", "1000packets", |scene| {
        let other = "10.97.0.1:70";
        let Some(slow) = scene.serve(V4, Some("--rate 5Mbit")) else { return };
        let Some(fast) = scene.serve(other, Some("--rate 25Mbit")) else { return };
        let [one, two] = [V4, other].map(|address| scene.at_far(move || get(&mut connect(address), 200)));
        // A fifth is left to bursts: at the path's rate it would be a tenth of this.
        assert!(one >= ROUND_TRIP + Duration::from_micros(200 * PACKET as u64 * 8 / 5) * 4 / 5, "{one:?}");
        assert!(two < one, "{two:?}, {one:?}");
        for report in [slow.end(), fast.end()] {
            assert!(report["connections"].as_u64() >= Some(1) && report["refused"] == 0, "{report}");
        }
    });
}

/// The cgroup of a process, by its own number in the name.
fn group_of(run: u32) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?.split(' ').nth(1)?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(mount).join(own).join(format!("softtimers-pace-{run}")))
}

/// After SIGKILL there is no command, no cgroup, no program and no congestion control.
#[test]
fn nothing_is_left_after_a_kill() {
    with_path("kill", "20Mbit", "1000packets", |scene| {
        let Some(mut server) = scene.serve(V4, Some("--rate 20Mbit")) else { return };
        let run = server.process.0.id();
        let group = group_of(run).unwrap();
        let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap();
        assert!(!processes.is_empty());
        let programs = programs_of(run);
        assert!(!programs.is_empty());
        server.process.0.kill().unwrap();
        server.process.0.wait().unwrap();
        let is_gone = || {
            let loaded: Vec<u32> =
                aya::programs::loaded_programs().flatten().map(|program| program.id()).collect();
            !group.exists()
                && programs.iter().all(|program| !loaded.contains(program))
                && processes.lines().all(|id| !Path::new("/proc").join(id).exists())
        };
        for _ in 0..1_000 {
            if is_gone() {
                let _ = fs::remove_file(&server.summary);
                return;
            }
            thread::park_timeout(Duration::from_millis(10));
        }
        panic!("left after ten seconds: {} {programs:?}", group.display());
    });
}

/// The numbers of the programs that a process holds.
fn programs_of(process: u32) -> Vec<u32> {
    let held = fs::read_dir(format!("/proc/{process}/fdinfo")).unwrap().flatten();
    let texts = held.filter_map(|file| fs::read_to_string(file.path()).ok());
    texts
        .flat_map(|text| {
            let ids = text.lines().filter_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
            ids.collect::<Vec<u32>>()
        })
        .collect()
}

/// A run waits, and looks for nothing in vain: that would be the CPU time of each byte.
#[test]
fn it_sleeps_while_its_command_does() {
    let mut command = common::command("pace --rate 10Mbit -- sleep 2");
    let mut run = Process(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let state = |process: u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
    };
    let mut slept = 0;
    while run.0.try_wait().unwrap().is_none() {
        slept += u32::from(state(run.0.id()) == Some('S'));
        thread::park_timeout(Duration::from_millis(10));
    }
    // A loop that waits for nothing is never seen asleep, and this one is hardly ever seen awake.
    assert!(slept >= 20, "{slept}");
}

/// The exit code is the command's, and a command that is not there has a shell's.
#[test]
fn it_ends_as_the_command_does() {
    let run = |words: &[&str]| {
        let mut command = common::command("pace --rate 10Mbit --json --");
        command.args(words).output().unwrap()
    };
    let output = run(&["sh", "-c", "echo out; exit 7"]);
    if output.status.code() == Some(77) {
        return common::skipped(common::stderr(&output).trim());
    }
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(7), &b"out\n"[..]),
        "{}",
        common::stderr(&output)
    );
    let report: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!((&report["exit_code"], &report["connections"]), (&7.into(), &0.into()));
    // Also of one that goes into the background, whose end is awaited.
    let began = Monotonic.now();
    assert_eq!(run(&["sh", "-c", "sleep 1 & exit 3"]).status.code(), Some(3));
    assert!(Monotonic.now().saturating_duration_since(began) >= Duration::from_secs(1));
    let missing = run(&["/no/such/command"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(common::stderr(&missing).contains("/no/such/command"));
}
