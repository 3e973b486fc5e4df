//! `pace` without the rights for BPF: the rate alone, over loopback, as a user who has no privileges.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use common::skipped;
use rustix::process::geteuid;
use serde_json::Value;
use softtimers::{Clock, Monotonic};
use softtimers_linux::sockopt::pacing_rate;

/// 3 MB take 300 ms at 80 Mbit/s; a few segments of 64 KiB leave at once.
const BYTES: usize = 3_000_000;
const FLAGS: &str = "--rate 80Mbit --to 127.0.0.0/8,::1/128";
const LEAST: Duration = Duration::from_millis(250);

/// Not a test: the command, if it is asked for. Its line is a role and an address.
#[test]
fn acts() {
    let Some(line) = std::env::var_os("SOFTTIMERS_ACTS") else { return };
    let line = line.into_string().unwrap();
    let (role, address) = line.split_once(' ').unwrap();
    match role {
        "sends" => TcpStream::connect(address).unwrap().write_all(&vec![1; BYTES]).unwrap(),
        "waits-and-sends" => {
            std::io::stdin().read_exact(&mut [0]).unwrap();
            TcpStream::connect(address).unwrap().write_all(&[1; 10]).unwrap();
        }
        // To each byte of one client, an answer.
        "serves" => {
            let listener = TcpListener::bind(address).unwrap();
            println!("port {}", listener.local_addr().unwrap().port());
            let mut client = listener.accept().unwrap().0;
            while client.read_exact(&mut [0]).is_ok() {
                client.write_all(&vec![1; BYTES]).unwrap();
            }
        }
        "udp" => {
            let socket = UdpSocket::bind(address).unwrap();
            socket.connect(address).unwrap();
            println!("port {}", pacing_rate(socket.as_fd()).unwrap());
        }
        other => panic!("{other}"),
    }
}

/// `pace` as nobody, who has no rights, if there are any to give up.
fn pace(flags: &str) -> Command {
    common::watch();
    if !geteuid().is_root() {
        return common::command(&format!("pace {flags}"));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set", "-all"]);
    command.arg(common::PROGRAM).arg("pace").args(flags.split_whitespace());
    command
}

/// Starts this program in a role, as a child of `script`'s shell. `None`: not possible here.
fn acting(flags: &str, role: &str, script: &str) -> Option<Child> {
    let mut command = pace(&format!("{FLAGS} --json {flags}"));
    command.args(["--", "sh", "-c", script]).arg(std::env::current_exe().unwrap());
    command.args(["acts", "--exact", "--nocapture"]).env("SOFTTIMERS_ACTS", role);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    match command.spawn() {
        Ok(child) => Some(child),
        Err(error) => {
            skipped(&format!("setpriv: {error}"));
            None
        }
    }
}

/// A shell that has the role's process as its child.
const CHILD: &str = r#""$0" "$@"; true"#;

/// Returns the report, or `None` and the reason if the system has no such watch.
fn report(child: Child) -> Option<Value> {
    let output = child.wait_with_output().unwrap();
    let said = common::stderr(&output);
    if output.status.code() == Some(77) || said.contains("exec") {
        skipped(said.trim());
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    // Above it is what was said at the beginning.
    let (before, object) = said.split_at(said.find('{').unwrap());
    assert!(before.contains("softtimers: rate only, "), "{said}");
    let report: Value = serde_json::from_str(object).unwrap();
    assert!(report["rate_only"] == true && report["refused"] == 0, "{report}");
    assert!(report["fallbacks"][0].as_str().unwrap().starts_with("rate only, "), "{report}");
    Some(report)
}

/// Returns the number that the role prints.
fn number(child: &mut Child) -> Option<u64> {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    lines.find_map(|line| line.unwrap().split_once("port ")?.1.trim().parse().ok())
}

/// How long it takes until all bytes are there.
fn drain(mut from: &TcpStream) -> Duration {
    let began = Monotonic.now();
    from.read_exact(&mut vec![0; BYTES]).unwrap();
    Monotonic.now().saturating_duration_since(began)
}

/// A child of the command's child connects, over IPv4 and IPv6.
#[test]
fn a_child_of_a_child_sends_at_the_rate() {
    for own in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(own) else { return skipped(&format!("no {own}")) };
        let role = format!("sends {}", listener.local_addr().unwrap());
        let Some(child) = acting("", &role, CHILD) else { return };
        let peer = thread::spawn(move || drain(&listener.accept().unwrap().0));
        let Some(report) = report(child) else { return };
        let took = peer.join().unwrap();
        assert!(took >= LEAST, "{own}: {took:?}");
        assert_eq!(report["connections"], 1, "{report}");
    }
}

/// One whose parents have ended is still one of the command's, and its end is awaited.
#[test]
fn an_orphan_sends_at_the_rate() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let role = format!("sends {}", listener.local_addr().unwrap());
    let Some(child) = acting("", &role, r#"(sleep 0.2; "$0" "$@") & :"#) else { return };
    let peer = thread::spawn(move || drain(&listener.accept().unwrap().0));
    let Some(report) = report(child) else { return };
    assert_eq!(report["connections"], 1, "{report}");
    let took = peer.join().unwrap();
    assert!(took >= LEAST, "{took:?}");
}

/// What a server accepts has its pace, and another one from the moment that it is changed.
#[test]
fn accepted_connections_have_the_rate_and_its_changes() {
    for own in ["127.0.0.1:0", "[::1]:0"] {
        let socket = std::env::temp_dir().join(format!("softtimers-{}-rate.sock", std::process::id()));
        let flags = format!("--control {}", socket.display());
        let Some(mut child) = acting(&flags, &format!("serves {own}"), CHILD) else { return };
        let Some(port) = number(&mut child) else { return drop(report(child)) };
        let address = if own.starts_with('[') { "::1" } else { "127.0.0.1" };
        let mut client = TcpStream::connect((address, port as u16)).unwrap();
        client.write_all(&[0]).unwrap();
        let took = drain(&client);
        assert!(took >= LEAST, "{own}: {took:?}");
        let mut control = BufReader::new(UnixStream::connect(&socket).unwrap());
        let mut ask = |line: &str| {
            writeln!(control.get_mut(), "{line}").unwrap();
            let mut answer = String::new();
            control.read_line(&mut answer).unwrap();
            answer
        };
        assert_eq!(ask("set rate 40Mbit"), "ok\n");
        assert_eq!(ask("set window 0.5"), "error: window: this run has the rate only\n");
        assert!(ask("show").contains("\"listening\":1"));
        client.write_all(&[0]).unwrap();
        let took = drain(&client);
        assert!(took >= 2 * LEAST, "{own}: {took:?}");
        drop((client, control));
        let Some(report) = report(child) else { return };
        assert_eq!((&report["listening"], &report["connections"]), (&1.into(), &0.into()), "{report}");
        assert_eq!(report["config"]["rate_bps"], 40_000_000);
    }
}

/// Loopback is nobody's path, and so are networks that --to does not name.
#[test]
fn other_networks_are_left_alone() {
    for flags in ["--rate 8Mbit --json", "--rate 8Mbit --json --to 192.0.2.0/24"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut command = pace(flags);
        command.args(["--", "sh", "-c", CHILD]).arg(std::env::current_exe().unwrap());
        command.args(["acts", "--exact", "--nocapture"]);
        command.env("SOFTTIMERS_ACTS", format!("sends {}", listener.local_addr().unwrap()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let Ok(child) = command.spawn() else { return skipped("no setpriv") };
        let peer = thread::spawn(move || drain(&listener.accept().unwrap().0));
        let Some(report) = report(child) else { return };
        peer.join().unwrap();
        assert_eq!(report["connections"], 0, "{report}");
    }
}

/// UDP sockets have the rate, which fq would hold; that loopback has none is said once.
#[test]
fn udp_has_the_rate_and_where_nothing_holds_it_that_is_said() {
    let Some(mut child) = acting("", "udp 127.0.0.1:0", CHILD) else { return };
    let Some(rate) = number(&mut child) else { return drop(report(child)) };
    // Of data: a full packet's headers are left out.
    assert!(rate < 80_000_000 / 8 && rate > 9_000_000, "{rate}");
    let Some(report) = report(child) else { return };
    assert_eq!(report["udp"], 1, "{report}");
    let notes = report["fallbacks"].to_string();
    if !notes.contains("UDP was not paced: ") {
        skipped("loopback has the queue fq here");
    }
}

/// A run that is killed leaves its command able to connect.
#[test]
fn after_a_kill_the_command_can_still_connect() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let role = format!("waits-and-sends {}", listener.local_addr().unwrap());
    let Some(mut child) = acting("", &role, CHILD) else { return };
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    if !line.starts_with("softtimers: rate only") {
        return skipped(line.trim());
    }
    // Waiting would close it.
    let mut stdin = child.stdin.take().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    stdin.write_all(&[1]).unwrap();
    let mut got = vec![];
    listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), 10);
}

/// Where no watch is possible either: not possible here, and what is missing.
#[test]
fn without_a_watch_it_is_not_possible() {
    use seccompiler::{SeccompAction, SeccompFilter, apply_filter};
    let confined = thread::spawn(|| {
        let refused = SeccompAction::Errno(rustix::io::Errno::PERM.raw_os_error() as u32);
        let rules = [(libc::SYS_seccomp, vec![])].into();
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).unwrap();
        let filter: seccompiler::BpfProgram = filter.try_into().unwrap();
        apply_filter(&filter).unwrap();
        let mut command = pace("--rate 1Mbit");
        command.args(["--", "true"]).output()
    });
    match confined.join().unwrap() {
        Ok(output) if common::stderr(&output).starts_with("softtimers: ") => {
            let message = common::refusal(&output, 77);
            assert!(message.contains("CAP_BPF") && message.contains("seccomp"), "{message}");
        }
        Ok(output) => skipped(common::stderr(&output).trim()),
        Err(error) => skipped(&format!("setpriv: {error}")),
    }
}
