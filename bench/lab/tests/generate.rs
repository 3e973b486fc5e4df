//! `cargo lab generate` over a cable between two namespaces: what arrives is what it says, and it goes nowhere else. Needs root
//! and `ip`; says so where it has not got them.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Once, mpsc};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use softtimers_linux::ethtool::{Offload, set_offload};
use softtimers_load::wire::Datagram;
use softtimers_net::packet::Interface;
use softtimers_net::poller::{Device, XdpDevice};

/// Two namespaces named after this process and the test; both are deleted when it is dropped.
struct Cable {
    near: String,
    far: String,
    /// The arguments for the near end, without a rate and an end.
    flags: String,
}

impl Cable {
    fn lay(test: &str) -> Result<Self, String> {
        let name = |end| format!("softtimers-{}-{test}-{end}", std::process::id());
        let mut cable = Cable { near: name("near"), far: name("far"), flags: String::new() };
        let Cable { near, far, .. } = &cable;
        ip(&format!("netns add {near}"))?;
        ip(&format!("netns add {far}"))?;
        ip(&format!("-n {near} link add eth type veth peer name eth netns {far}"))?;
        for (host, address) in [(near, "10.98.0.1/24"), (far, "10.98.0.2/24")] {
            ip(&format!("-n {host} addr add {address} dev eth"))?;
            // Without addresses of IPv6 little is sent that the test has not sent.
            ip(&format!("-n {host} link set eth addrgenmode none up"))?;
        }
        let far = at(far, || Interface::named("eth").unwrap());
        let mac = far.hardware_address().map(|byte| format!("{byte:02x}")).join(":");
        cable.flags = format!("10.98.0.2:9000 --iface eth --to-mac {mac} --from {SENDER}");
        Ok(cable)
    }

    /// The generator at the near end.
    fn command(&self, words: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.near, env!("CARGO_BIN_EXE_softtimers-lab"), "generate"]);
        command.args(words.split(' ')).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn generate(&self, words: &str) -> Child {
        self.command(&format!("{} {words}", self.flags)).spawn().unwrap()
    }

    /// Asserts that these arguments end with this exit code and these words.
    fn refuses(&self, words: &str, exit: i32, part: &str) {
        let output = self.command(words).output().unwrap();
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(exit), "{words}: {message}");
        assert!(message.contains(part) && output.stdout.is_empty(), "{words}: {message}");
    }

    /// A device at the far end, for whose sake that end takes frames of programs.
    fn device(&self) -> Option<XdpDevice> {
        match at(&self.far, || XdpDevice::on(&Interface::named("eth").unwrap(), 8_192)) {
            Ok(device) => Some(device),
            Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => {
                skipped(&error.to_string());
                None
            }
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for host in [&self.near, &self.far] {
            let _ = ip(&format!("netns del {host}"));
        }
    }
}

fn with_cable(test: &str, body: impl FnOnce(&Cable)) {
    static WATCHDOG: Once = Once::new();
    WATCHDOG.call_once(|| {
        thread::spawn(|| {
            let (_never_used, nothing) = mpsc::channel::<()>();
            let _ = nothing.recv_timeout(Duration::from_secs(240));
            let _ = writeln!(std::io::stderr(), "a test still waits after 240 s; giving up");
            std::process::abort();
        });
    });
    match Cable::lay(test) {
        Ok(cable) => body(&cable),
        Err(reason) => skipped(&format!("no two hosts: {reason}")),
    }
}

fn ip(words: &str) -> Result<(), String> {
    let output =
        Command::new("ip").args(words.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(format!("ip {words}: {}", stderr(&output).trim())) }
}

/// Does something on a host.
fn at<T: Send>(host: &str, what: impl FnOnce() -> T + Send) -> T {
    let host = format!("/run/netns/{host}");
    let inside = || {
        let namespace = File::open(host).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        what()
    };
    thread::scope(|scope| scope.spawn(inside).join().unwrap())
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Says that this test could not run, past the harness's capture, so that it is counted.
fn skipped(reason: &str) {
    let test = thread::current().name().unwrap_or("?").to_owned();
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

/// The object of a run that succeeded.
fn report(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Looks again for a while: the kernel may be a little later with a frame than its sender was.
fn look_until(mut is_there: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if is_there() {
            return;
        }
        thread::park_timeout(Duration::from_millis(5));
    }
}

/// Takes frames of the generator until there are `wanted`, each with the number and the due time that it carries.
fn take(device: &mut XdpDevice, wanted: u64, mut each: impl FnMut(&mut [u8], u64, u64)) -> u64 {
    let mut arrived = 0;
    look_until(|| {
        let polled = device.poll_rx(100_000, |packet, _| {
            // The near end's kernel may have something to say as well.
            if packet.bytes.get(26..30) != Some(&[192, 0, 2, 7]) {
                return;
            }
            let Ok(Datagram::Data { sequence, scheduled, .. }) = Datagram::parse(&packet.bytes[42..]) else {
                panic!("{:?}", packet.bytes)
            };
            each(packet.bytes, sequence, scheduled.as_nanos());
            arrived += 1;
        });
        polled.unwrap();
        arrived >= wanted
    });
    arrived
}

/// As many as were asked for, each once and with its number and its time; the rest is counted.
#[test]
fn the_generator_sends_what_it_says() {
    with_cable("says", |cable| {
        let Some(mut device) = cable.device() else { return };
        for (count, burst) in [(1_000u64, 1), (2_000, 4), (1_999, 64)] {
            let words = format!("--rate 20kpps --quantum {burst} --count {count} --catch-up 20s --size 60");
            let report = report(cable.generate(&words));
            let counts = ["sent", "refused", "forfeited", "bursts"].map(|key| report[key].as_u64().unwrap());
            assert_eq!(counts, [count, 0, 0, count.div_ceil(burst)]);
            let (mut next, mut due, mut first) = (0, 0, None);
            let arrived = take(&mut device, count, |bytes, sequence, scheduled| {
                assert_eq!(sequence, next);
                if next % burst == 0 {
                    assert!(scheduled >= due + if next > 0 { burst * 50_000 } else { 0 }, "{next}");
                    due = scheduled;
                }
                assert_eq!(scheduled, due);
                let rest = (bytes[..42].to_vec(), bytes[74..].to_vec());
                assert_eq!(*first.get_or_insert_with(|| rest.clone()), rest);
                next += 1;
                // The same memory is used again, and what was written there is not.
                bytes[..14].fill(0xee);
            });
            assert_eq!((arrived, next), (count, count));
            // At the rate, and never before its place.
            let places = (count - 1) / burst * burst * 50_000;
            let span = report["span_ns"].as_u64().unwrap() + report["late_ns"]["max"].as_u64().unwrap();
            assert!(span + 1_000 >= places, "{report}");
        }
    });
}

/// No faster than asked, also with an address of its own.
#[test]
fn every_datagram_of_the_program_arrives() {
    with_cable("all", |cable| {
        let Some(mut device) = cable.device() else { return };
        for (quantum, rate) in [(1, 20_000u64), (4, 50_000)] {
            let words = format!("--rate {rate}pps --quantum {quantum} --count 4000 --catch-up 1h");
            let report = report(cable.generate(&words));
            let arrived = take(&mut device, 4_000, |_, _, _| {});
            assert_eq!((&report["sent"], arrived), (&4_000.into(), 4_000), "{report}");
            assert_eq!(report["forfeited"], 0);
            // From its first datagram on it is caught up with, if the first was late.
            let latest = report["late_ns"]["max"].as_f64().unwrap() / 1e9;
            let lasting = 4_000.0 / rate as f64;
            let fastest = rate as f64 * lasting / (lasting - latest).max(lasting / 1e3);
            let achieved = report["achieved_pps"].as_f64().unwrap();
            assert!(achieved > 0.0 && achieved <= fastest * 1.01, "{report}");
        }
    });
}

/// The same traffic as that of a socket: a far kernel's socket understands it.
#[test]
fn a_far_socket_gets_the_datagrams_of_the_program() {
    with_cable("socket", |cable| {
        let gro = |socket: &UdpSocket| set_offload(socket.as_fd(), "eth", Offload::Gro, true);
        let socket = at(&cable.far, || {
            let socket = UdpSocket::bind("10.98.0.2:9000").unwrap();
            // Room for all of them: a frame of a program takes a page, and this thread may have no CPU for a while.
            set_socket_recv_buffer_size_force(&socket, 16 << 20).map_err(io::Error::from)?;
            gro(&socket).map(|()| socket)
        });
        let socket = match socket {
            Ok(socket) => socket,
            Err(error) => return skipped(&format!("eth: generic receive offload: {error}")),
        };
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let child = cable.generate("--rate 5kpps --count 1000 --catch-up 1h");
        let reader = thread::spawn(move || {
            // Once each: the kernel may hand over frames of two CPUs in another order.
            let (mut bytes, mut seen) = ([0; 64], [false; 1_000]);
            while seen.contains(&false) {
                let (length, from) = socket.recv_from(&mut bytes).expect("it arrives");
                assert_eq!(from.to_string(), SENDER);
                let Ok(Datagram::Data { sequence, .. }) = Datagram::parse(&bytes[..length]) else {
                    panic!("{bytes:?}")
                };
                assert!(!std::mem::replace(&mut seen[sequence as usize], true), "{sequence}");
            }
        });
        let output = child.wait_with_output().unwrap();
        if output.status.code() == Some(77) {
            return skipped(&stderr(&output));
        }
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        reader.join().unwrap();
    });
}

/// No other interface, and nothing that would be ignored.
#[test]
fn the_program_is_kept_to_cables() {
    with_cable("guard", |cable| {
        let with = |one: &str, other: &str| cable.flags.replace(one, other) + " --rate 1kpps --count 1";
        cable.refuses(&with("--iface eth", "--iface lo"), 2, "--iface lo: ");
        cable.refuses(&with("--iface eth", "--iface no0"), 2, "--iface no0: no such");
        cable.refuses(&with("10.98.0.2:9000", "[::1]:9"), 2, "[::1]:9");
        cable.refuses(&(with("", "") + " --size 1473"), 2, "32 to 1472 bytes");
        cable.refuses(&(with("", "") + " --quantum 65"), 2, "bursts of 65");
        cable.refuses(&format!("{} --rate 1kpps", cable.flags), 2, "--duration");
        let mut plain = Command::new("ip");
        plain.args(["netns", "exec", &cable.near, "setpriv", "--bounding-set", "-bpf,-sys_admin"]);
        plain.args(["--inh-caps", "-bpf,-sys_admin", env!("CARGO_BIN_EXE_softtimers-lab"), "generate"]);
        match plain.args(with("", "").split(' ')).output() {
            Ok(output) if stderr(&output).starts_with("cargo lab generate: ") => {
                assert_eq!(output.status.code(), Some(77), "{}", stderr(&output));
                assert!(stderr(&output).contains("CAP_BPF"), "{}", stderr(&output));
            }
            _ => skipped("no setpriv to give a privilege up"),
        }
    });
}

/// It sends only where it may, and says when nobody takes it.
#[test]
fn the_generator_refuses_what_is_no_cable() {
    with_cable("refuse", |cable| {
        // Whichever other kind this kernel has.
        let near = &cable.near;
        let mut others = ["dummy", "bridge"].into_iter();
        if others.any(|kind| ip(&format!("-n {near} link add d0 type {kind}")).is_ok()) {
            let words = cable.flags.replace("--iface eth", "--iface d0") + " --rate 1kpps --count 1";
            cable.refuses(&words, 2, "d0 is no virtual cable");
        }
        // Nobody takes frames of programs at the other end.
        let words = format!("{} --rate 10kpps --count 100", cable.flags);
        cable.refuses(&words, 77, "ethtool -K PEER gro on");
        // With a program there it does.
        let Some(device) = cable.device() else { return };
        assert_eq!(report(cable.command(&words).spawn().unwrap())["sent"], 100);
        drop(device);
        ip(&format!("-n {near} link set eth down")).unwrap();
        cable.refuses(&words, 2, "eth is down");
    });
}

/// Ctrl-C ends it with what was sent.
#[test]
fn a_signal_ends_the_program() {
    with_cable("signal", |cable| {
        let Some(mut device) = cable.device() else { return };
        let child = cable.generate("--rate 1kpps --duration 100s");
        let mut arrived = 0;
        // The watchdog ends this if nothing ever comes.
        while arrived < 100 {
            arrived += take(&mut device, 1, |_, _, _| {});
        }
        kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
        let report = report(child);
        let sent = report["sent"].as_u64().unwrap();
        arrived += take(&mut device, sent - arrived, |_, _, _| {});
        assert_eq!(arrived, sent, "{report}");
    });
}

/// Where the datagrams come from: the network that is set aside for documentation.
const SENDER: &str = "192.0.2.7:77";
