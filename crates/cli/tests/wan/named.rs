//! Several named paths in one process, changed while they carry: those between interfaces, and the control socket that names
//! one. What lies between interfaces needs root and `ip`, and says so where it has not got them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{ask, scratch};
use crate::common::hosts::{self, Hosts, ip};
use crate::common::{command, refusal, run, skipped};

/// A file of proxies.
fn file(name: &str, proxies: &Value) -> PathBuf {
    let file = scratch(name);
    std::fs::write(&file, proxies.to_string()).unwrap();
    file
}

/// A `wan` with proxies that has begun: all that it says until then.
struct Running {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    said: Vec<String>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        use std::process::Stdio;
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = vec![];
        while !said.last().is_some_and(|line: &String| line.starts_with("API at http://")) {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "{said:?}");
            said.push(line);
        }
        Running { child, stderr, said }
    }

    fn api(&self) -> String {
        self.said.last().unwrap()["API at http://".len()..].trim().to_owned()
    }

    fn finish(mut self) -> Value {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), Signal::TERM).unwrap();
        let (mut text, mut said) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        self.stderr.read_to_string(&mut said).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{said}");
        serde_json::from_str(&text).unwrap()
    }
}

/// A request to the API: its status and answer.
fn request(api: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let mut stream = TcpStream::connect(api).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// Three namespaces, with both hosts in one network, and an echo at the far one.
fn with_echo(test: &str, body: impl FnOnce(&Hosts)) {
    hosts::with(test, |hosts| {
        for (host, address) in [("near", "10.97.0.1/24"), ("far", "10.97.0.2/24")] {
            ip(&["-n", &hosts.host(host), "addr", "add", address, "dev", "eth"]).unwrap();
        }
        let echo = hosts.at("far", || UdpSocket::bind("10.97.0.2:7000").unwrap()).join().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 64];
            while let Ok((length, from)) = echo.recv_from(&mut buffer) {
                let _ = echo.send_to(&buffer[..length], from);
            }
        });
        body(hosts);
    });
}

/// The time that a datagram takes to the far host and back; `None` if it does not come back for so long.
fn trip(hosts: &Hosts, wait: Duration) -> Option<Duration> {
    let ping = move || {
        let socket = UdpSocket::bind("10.97.0.1:0").unwrap();
        socket.connect("10.97.0.2:7000").unwrap();
        socket.set_read_timeout(Some(wait)).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a client's own clock")]
        let start = Instant::now();
        socket.send(b"ping").unwrap();
        socket.recv(&mut [0; 64]).ok().map(|_| start.elapsed())
    };
    hosts.at("near", ping).join().unwrap()
}

const WAIT: Duration = Duration::from_secs(30);
const MS: fn(u64) -> Duration = Duration::from_millis;

/// A path between interfaces stands in the file beside one of streams, and is changed by the API and by the control socket.
#[test]
#[allow(clippy::too_many_lines, reason = "one scene, from its setting to its end")]
fn interfaces_stand_beside_sockets_in_a_file() {
    with_echo("named", |hosts| {
        let proxies = json!([
            {"name": "lab", "protocol": "interfaces", "listen": "wa", "upstream": "wb", "path": ["both rtt 20ms"]},
            {"name": "web", "upstream": "127.0.0.1:9"},
        ]);
        let (file, control) = (file("lab.json", &proxies), scratch("lab.sock"));
        let line = format!(
            "wan --json --api 127.0.0.1:0 --duration 60s --proxies {} --control {}",
            file.display(),
            control.display()
        );
        let running = Running::start(hosts.command(&line));
        assert_eq!(running.said[0], "lab: wa to wb, interfaces\n", "{:?}", running.said);
        // The first asks for an address as well.
        assert!(trip(hosts, WAIT).is_some());
        assert!(trip(hosts, WAIT).unwrap() >= MS(20));

        assert_eq!(ask(&control, "set lab both rtt 60ms\n"), ["ok"]);
        assert!(trip(hosts, WAIT).unwrap() >= MS(60));
        let said =
            ask(&control, "show lab\nshow\nset lab both\nset web both corrupt 1%\nset nobody both rtt 1ms\n");
        let lab: Value = serde_json::from_str(&said[0]).unwrap();
        assert_eq!((&lab["protocol"], &lab["listen"]), (&json!("interfaces"), &json!("wa")));
        assert_eq!(lab["down"]["set"]["delay_ns"], 30_000_000);
        assert!(
            lab["up"]["measured"]["delivered"].as_u64() >= Some(2) && lab["interfaces"].is_object(),
            "{lab}"
        );
        let all: Value = serde_json::from_str(&said[1]).unwrap();
        assert_eq!(all["proxies"].as_array().unwrap().len(), 2);
        for (said, part) in
            said[2..].iter().zip(["nothing is set", "cannot have corruption", "'show' has them all"])
        {
            assert!(said.starts_with("error: ") && said.contains(part), "{said}");
        }

        let api = running.api();
        let asks = move |method: &'static str, path: &'static str, body: Value| {
            let api = api.clone();
            hosts.at("middle", move || request(&api, method, path, &body)).join().unwrap()
        };
        let (_, shown) = asks("GET", "/proxies/lab", Value::Null);
        assert_eq!(shown["path"], json!(["both rtt 60ms"]));
        assert_eq!((&shown["listen"], &shown["upstream"]), (&json!("wa"), &json!("wb")));
        let refused = |method, path, body, part: &str| {
            let (status, said) = asks(method, path, body);
            assert!(status == 400 && said["error"].as_str().unwrap().contains(part), "{said}");
        };
        refused("POST", "/proxies/lab/toxics", json!({"type": "latency"}), "of TCP streams");
        refused("POST", "/proxies/lab", json!({"upstream": "wc"}), "--proxies FILE");
        let new = json!({"name": "new", "protocol": "interfaces", "listen": "wa", "upstream": "wb"});
        refused("POST", "/proxies", new.clone(), "--proxies FILE");
        refused("POST", "/populate", json!([new]), "--proxies FILE");

        assert_eq!(asks("POST", "/proxies/lab", json!({"enabled": false})).1["enabled"], false);
        assert_eq!(trip(hosts, MS(200)), None);
        assert_eq!(asks("POST", "/reset", Value::Null).0, 204);
        assert!(trip(hosts, WAIT).unwrap() >= MS(60));
        let again = json!([{"name": "lab", "protocol": "interfaces", "listen": "wa", "upstream": "wb", "path": ["up rtt 8ms"]}]);
        assert_eq!(asks("POST", "/populate", again).1["proxies"][0]["path"], json!(["up rtt 8ms"]));
        assert!(trip(hosts, WAIT).is_some());
        let report = running.finish();
        let lab = &report["proxies"][0];
        assert_eq!((&lab["enabled"], &lab["up"]["set"]["delay_ns"]), (&json!(true), &json!(4_000_000)));
        assert!(lab["up"]["measured"]["lost"].as_u64() >= Some(1), "{lab}");
        assert!(!control.exists());
        std::fs::remove_file(file).unwrap();
    });
}

/// Interfaces of a file are guarded as those of `--ifaces` are, and need the same privilege.
#[test]
fn interfaces_of_a_file_are_guarded() {
    with_echo("named-guard", |hosts| {
        let lab = |name: &str, a: &str, b: &str| json!({"name": name, "protocol": "interfaces", "listen": a, "upstream": b});
        let refused = |proxies: Value, part: &str| {
            let file = file("guard.json", &proxies);
            let output = hosts.command(&format!("wan --proxies {}", file.display())).output().unwrap();
            let message = refusal(&output, 2);
            assert!(message.contains("--proxies, \"b\": ") && message.contains(part), "{message}");
        };
        refused(json!([lab("b", "wa", "nosuch0")]), "nosuch0");
        refused(json!([lab("b", "wa", "wa")]), "twice");
        refused(json!([lab("b", "wa", "")]), "two are needed");
        refused(json!([lab("a", "wa", "wb"), lab("b", "wb", "wa")]), "another proxy has the interface wb");
        let file = file("guard.json", &json!([lab("b", "wa", "wb")]));
        let middle = hosts.host("middle");
        let words =
            ["netns", "exec", &middle, "setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"];
        let mut command = Command::new("ip");
        command.args(words).arg(crate::common::PROGRAM).args(["wan", "--proxies"]).arg(&file);
        match command.output() {
            Ok(output) if String::from_utf8_lossy(&output.stderr).starts_with("softtimers: ") => {
                assert!(refusal(&output, 77).contains("CAP_NET_RAW"));
            }
            _ => skipped("no setpriv to give a privilege up"),
        }
        std::fs::remove_file(file).unwrap();
    });
}

/// The control socket changes the proxy that a line names, and tells the API's users; names may have spaces.
#[test]
fn the_control_socket_names_a_proxy() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(WAIT)).unwrap();
    let upstream = server.local_addr().unwrap().to_string();
    let proxies = json!([
        {"name": "names", "protocol": "udp", "upstream": &upstream, "path": ["both delay 1ms", "up loss 1%"]},
        {"name": "names of old", "protocol": "udp", "upstream": &upstream},
    ]);
    let (file, control) = (file("named.json", &proxies), scratch("named.sock"));
    let line = format!(
        "wan --json --api 127.0.0.1:0 --duration 60s --proxies {} --control {}",
        file.display(),
        control.display()
    );
    let running = Running::start(command(&line));
    let api = running.api();
    let path = |name: &str| request(&api, "GET", &format!("/proxies/{name}"), &Value::Null).1["path"].clone();
    let said = ask(
        &control,
        "set names both delay 5ms rate 8Mbit\nset names of old up delay 9ms\nset names up loss 0%\n",
    );
    assert_eq!(said, ["ok"; 3]);
    // Each setting stands there once, however often it is set.
    for _ in 0..3 {
        assert_eq!(ask(&control, "set names both delay 30ms\n"), ["ok"]);
    }
    assert_eq!(path("names"), json!(["both rate 8Mbit", "up loss 0%", "both delay 30ms"]));
    assert_eq!(path("names%20of%20old"), json!(["up delay 9ms"]));
    // A change of both directions happens in both or in neither.
    let said = ask(
        &control,
        "set names up delay 2ms\nset names both jitter 3ms\nset names both dealy 1ms\nset\nhelp\n",
    );
    assert_eq!(said[0], "ok");
    for (said, part) in said[1..].iter().zip(["jitter", "no setting", "set NAME", "set NAME up|down|both"]) {
        assert!(said.starts_with("error: ") && said.contains(part), "{said}");
    }
    assert_eq!(path("names"), json!(["both rate 8Mbit", "up loss 0%", "both delay 30ms", "up delay 2ms"]));
    // Its owner may name a file; who reaches the API may not.
    let trace = scratch("named.trace");
    std::fs::write(&trace, "1\n2\n").unwrap();
    let line = format!("down trace {}", trace.display());
    assert_eq!(ask(&control, &format!("set names {line}\n")), ["ok"]);
    assert_eq!(request(&api, "PATCH", "/proxies/names", &json!({"path": [line]})).0, 400);
    let shown: Value = serde_json::from_str(&ask(&control, "show names of old")[0]).unwrap();
    assert_eq!(shown["up"]["set"]["delay_ns"], 9_000_000);
    let report = running.finish();
    assert_eq!(report["proxies"][0]["down"]["set"]["rate_bps"], 12_000_000);
    assert_eq!(report["config"]["control"], control.display().to_string());
    assert!(!control.exists());
    [file, trace].iter().for_each(|file| std::fs::remove_file(file).unwrap());
    let taken = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let refused = run(&format!("wan --api 127.0.0.1:0 --control {}", taken.display()));
    assert!(refusal(&refused, 2).contains("is no socket"));
}
