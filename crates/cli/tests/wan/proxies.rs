//! Several proxies with an HTTP API: Toxiproxy's documented requests, its own client, and who is refused.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::{check_exposition, command, refusal, run, skipped};

/// A `wan` with an API.
pub(super) struct Proxies {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    pub(super) api: SocketAddr,
    lines: Vec<String>,
}

impl Proxies {
    pub(super) fn start(flags: &str) -> Self {
        let line = format!("wan --api 127.0.0.1:0 --duration 60s --json {flags}");
        let mut child = command(&line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut lines = Vec::new();
        let mut line = String::new();
        while !line.starts_with("API at http://") {
            lines.push(std::mem::take(&mut line));
            assert!(stderr.read_line(&mut line).unwrap() > 0, "{lines:?}");
        }
        let api = line["API at http://".len()..].trim().parse().unwrap();
        Proxies { child, stderr, api, lines: lines.split_off(1) }
    }

    fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        request_at(self.api, method, path, headers, body)
    }

    pub(super) fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        ask_at(self.api, method, path, body)
    }

    /// Makes a proxy in front of a server.
    pub(super) fn create(&self, name: &str, upstream: SocketAddr) -> SocketAddr {
        let fields = json!({"name": name, "listen": "127.0.0.1:0", "upstream": upstream.to_string()});
        let (status, made) = self.ask("POST", "/proxies", &fields);
        assert_eq!(status, 201, "{made}");
        made["listen"].as_str().unwrap().parse().unwrap()
    }

    pub(super) fn finish(mut self) -> Value {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), Signal::TERM).unwrap();
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{said}");
        serde_json::from_str(&text).unwrap()
    }
}

/// A request with a body, and with these headers; its status and answer.
fn request_at(api: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(api).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n");
    // A refusal may come before all is sent.
    let _ = stream.write_all((head + body).as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    (status.unwrap_or_else(|| panic!("{answer:?}")), body)
}

/// A request to an API: its status and answer.
pub(super) fn ask_at(api: SocketAddr, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, text) = request_at(api, method, path, "Host: localhost:1\r\n", &body);
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

/// Sends back what comes, for each who connects.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut copy = stream.try_clone().unwrap();
                let _ = std::io::copy(&mut stream, &mut copy);
                let _ = copy.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

/// Sends `length` bytes and the end; returns what comes back, and in what time.
fn exchange(address: SocketAddr, length: usize) -> (std::io::Result<Vec<u8>>, Duration) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a client's own clock")]
    let start = Instant::now();
    let mut back = Vec::new();
    let done = stream
        .write_all(&vec![7; length])
        .and_then(|()| stream.shutdown(Shutdown::Write))
        .and_then(|()| stream.read_to_end(&mut back));
    (done.map(|_| back), start.elapsed())
}

/// Toxiproxy's own client, in Go, as it is published.
#[test]
fn toxiproxys_own_client_understands_the_api() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wan/toxiproxy");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("toxiproxy-client");
    let mut build = Command::new("go");
    build
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(&directory)
        .env("GOFLAGS", "-mod=readonly");
    match build.output() {
        Ok(built) if built.status.success() => {}
        Ok(built) => {
            let said = String::from_utf8_lossy(&built.stderr).into_owned();
            // Its own mistakes are no reason to skip.
            assert!(!said.contains("main.go:") || said.contains("no required module"), "{said}");
            return skipped(&format!("Toxiproxy's client cannot be had: {said}"));
        }
        Err(error) => return skipped(&format!("go: {error}")),
    }
    let proxies = Proxies::start("");
    let client = Command::new(&program).args([proxies.api.to_string(), echo().to_string()]).output().unwrap();
    let said = String::from_utf8_lossy(&client.stdout).into_owned();
    assert!(client.status.success() && said.contains("all held"), "{said}");
    proxies.finish();
}

/// What has passed is in the text for Prometheus, by proxy and direction; a web page does not get it.
#[test]
fn metrics_of_all_proxies_are_scraped() {
    let (proxies, upstream) = (Proxies::start(""), echo());
    let address = proxies.create("a \"name\"", upstream);
    proxies.create("idle", upstream);
    exchange(address, 1_000).0.unwrap();
    let scraped = |headers| proxies.request("GET", "/metrics", headers, "");
    let (status, text) = scraped("Host: localhost:1\r\n");
    assert_eq!(status, 200);
    check_exposition(&text);
    for line in [
        r#"softtimers_wan_enabled{proxy="idle"} 1"#,
        r#"softtimers_wan_bytes_total{proxy="a \"name\"",way="up"} 1000"#,
        r#"softtimers_wan_bytes_total{proxy="a \"name\"",way="down"} 1000"#,
        r#"softtimers_wan_bytes_total{proxy="idle",way="up"} 0"#,
        r#"softtimers_wan_clients_opened_total{proxy="a \"name\""} 1"#,
        r#"softtimers_wan_lost_total{proxy="idle",way="down"} 0"#,
    ] {
        assert!(text.lines().any(|other| other == line), "{line}: {text}");
    }
    assert_eq!(scraped("Host: localhost:1\r\nOrigin: http://evil.example\r\n").0, 403);
    assert_eq!(scraped("Host: evil.example\r\n").0, 403);
    assert_eq!(proxies.ask("POST", "/metrics", &Value::Null).0, 405);
    proxies.finish();
}

/// Each request that Toxiproxy's page documents, with its status.
#[test]
fn the_documented_requests_are_answered() {
    let (proxies, upstream) = (Proxies::start("--seed 3"), echo());
    let address = proxies.create("a", upstream);
    let none = Value::Null;
    assert!(proxies.ask("GET", "/version", &none).1["version"].is_string());
    assert_eq!(proxies.ask("POST", "/proxies", &json!({"name": "a", "upstream": "127.0.0.1:1"})).0, 409);
    assert_eq!(proxies.ask("POST", "/proxies", &json!({"name": "b"})).0, 400);
    assert_eq!(proxies.ask("GET", "/proxies/nobody", &none).0, 404);
    assert_eq!(proxies.ask("PUT", "/proxies", &none).0, 405);
    assert_eq!(proxies.ask("GET", "/elsewhere", &none).0, 404);
    assert_eq!(proxies.ask("GET", "/proxies", &none).1["a"]["listen"], address.to_string());

    let toxic = json!({"type": "latency", "attributes": {"latency": 120}});
    let (status, made) = proxies.ask("POST", "/proxies/a/toxics", &toxic);
    assert_eq!((status, &made["name"], &made["toxicity"]), (200, &"latency_downstream".into(), &1.0.into()));
    assert_eq!(made["attributes"], json!({"latency": 120, "jitter": 0}));
    assert_eq!(proxies.ask("POST", "/proxies/a/toxics", &toxic).0, 409);
    assert_eq!(proxies.ask("POST", "/proxies/a/toxics", &json!({"type": "down"})).0, 400);
    assert_eq!(proxies.ask("POST", "/proxies/a/toxics", &json!({"type": "slicer", "stream": "left"})).0, 400);
    let (back, took) = exchange(address, 1_000);
    assert_eq!((back.unwrap().len(), took >= Duration::from_millis(120)), (1_000, true), "{took:?}");
    let path = "/proxies/a/toxics/latency_downstream";
    let change = json!({"attributes": {"jitter": 7}, "toxicity": 0.5});
    assert_eq!(proxies.ask("PATCH", path, &change).1["attributes"], json!({"latency": 120, "jitter": 7}));
    assert_eq!(proxies.ask("GET", path, &none).1["toxicity"], 0.5);
    assert_eq!(proxies.ask("GET", "/proxies/a/toxics", &none).1.as_array().unwrap().len(), 1);
    assert_eq!(proxies.ask("DELETE", path, &none).0, 204);
    assert_eq!(proxies.ask("DELETE", path, &none).0, 404);

    assert_eq!(proxies.ask("POST", "/proxies/a", &json!({"enabled": false})).1["enabled"], false);
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(proxies.ask("POST", "/reset", &none).0, 204);
    assert_eq!(exchange(address, 10).0.unwrap().len(), 10);
    let both = json!([
        {"name": "a", "listen": address.to_string(), "upstream": upstream.to_string()},
        {"name": "b", "upstream": upstream.to_string(), "enabled": false},
    ]);
    let (status, populated) = proxies.ask("POST", "/populate", &both);
    assert_eq!((status, populated["proxies"].as_array().unwrap().len()), (201, 2));
    let report = proxies.finish();
    assert_eq!(report["schema"], "softtimers.wan-proxies/1");
    let (a, b) = (&report["proxies"][0], &report["proxies"][1]);
    assert_eq!((&a["name"], &a["enabled"], &b["enabled"]), (&"a".into(), &true.into(), &false.into()));
    assert!(a["clients"]["opened"].as_u64().unwrap() >= 1);
}

/// A web page reaches loopback, too: what may come from one is refused, and what is too long.
#[test]
fn a_web_page_is_refused() {
    let proxies = Proxies::start("");
    let status = |headers: &str, body: &str| proxies.request("POST", "/reset", headers, body).0;
    assert_eq!(status("Host: 127.0.0.1:8474\r\n", ""), 204);
    assert_eq!(status("Host: [::1]\r\n", ""), 204);
    assert_eq!(status("Host: localhost\r\nOrigin: http://evil.example\r\n", ""), 403);
    assert_eq!(status("Host: localhost\r\nOrigin: null\r\n", ""), 403);
    assert_eq!(status("Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", ""), 403);
    assert_eq!(status("Host: localhost\r\nSec-Fetch-Site: none\r\n", ""), 204);
    assert_eq!(status("Host: rebound.example:8474\r\n", ""), 403);
    assert_eq!(status("Host: localhost.evil.example\r\n", ""), 403);
    assert_eq!(status("", ""), 403);
    assert_eq!(status("Host: localhost\r\n", &" ".repeat(300_000)), 413);
    let outside = json!({"name": "a", "listen": "0.0.0.0:0", "upstream": "127.0.0.1:1"});
    let (status, said) = proxies.ask("POST", "/proxies", &outside);
    assert!(status == 400 && said["error"].as_str().unwrap().contains("--public"), "{said}");
    for change in ["both trace /etc/passwd", "both jitter 1ms:dist=/etc/passwd"] {
        let file = json!({"name": "a", "upstream": "127.0.0.1:1", "path": [change]});
        let (status, said) = proxies.ask("POST", "/proxies", &file);
        assert!(status == 400 && said["error"].as_str().unwrap().contains("may name a file"), "{said}");
    }
    proxies.finish();
    assert!(refusal(&run("wan --api 0.0.0.0:0"), 2).contains("loopback"));
    assert!(refusal(&run("wan --api 127.0.0.1:0 --tcp"), 2).contains("--tcp"));
}

/// Proxies that would send to each other for ever are refused; a chain of them is not.
#[test]
fn a_loop_of_proxies_is_refused() {
    let proxies = Proxies::start("");
    for protocol in ["udp", "tcp"] {
        let make = |name: &str, upstream: &str| {
            let name = format!("{protocol}-{name}");
            let fields =
                json!({"name": name, "listen": "127.0.0.1:0", "upstream": upstream, "protocol": protocol});
            let (status, made) = proxies.ask("POST", "/proxies", &fields);
            assert_eq!(status, 201, "{made}");
            made["listen"].as_str().unwrap().to_owned()
        };
        let last = make("last", "127.0.0.1:9");
        let middle = make("middle", &last);
        let first = make("first", &middle);
        for back in [&first, &middle, &last] {
            let name = format!("/proxies/{protocol}-last");
            let (status, said) = proxies.ask("POST", &name, &json!({ "upstream": back }));
            assert!(status == 400 && said["error"].as_str().unwrap().contains("in a loop"), "{said}");
        }
        let (_, kept) = proxies.ask("GET", &format!("/proxies/{protocol}-last"), &Value::Null);
        assert_eq!((&kept["upstream"], &kept["enabled"]), (&json!("127.0.0.1:9"), &json!(true)));
        let own =
            json!({"name": "own", "listen": "127.0.0.1:9", "upstream": "127.0.0.1:9", "protocol": protocol});
        assert_eq!(proxies.ask("POST", "/proxies", &own).0, 400);
        // Any port is the one that it has.
        let any = json!({ "listen": "127.0.0.1:0", "upstream": &first });
        let (status, said) = proxies.ask("POST", &format!("/proxies/{protocol}-last"), &any);
        assert!(status == 400 && said["error"].as_str().unwrap().contains("in a loop"), "{said}");
        let any = json!({ "listen": "127.0.0.1:0", "upstream": "127.0.0.1:7" });
        let (status, said) = proxies.ask("POST", &format!("/proxies/{protocol}-last"), &any);
        assert_eq!((status, said["listen"].as_str().unwrap()), (200, &*last), "{said}");
    }
    proxies.finish();
}

/// If proxies share an address, each may be the one that is enabled later.
#[test]
fn a_loop_by_way_of_a_disabled_proxy_is_refused() {
    let proxies = Proxies::start("");
    let make = |name: &str, listen: &str, upstream: &str, enabled: bool| {
        let fields = json!({"name": name, "listen": listen, "upstream": upstream, "enabled": enabled});
        proxies.ask("POST", "/proxies", &fields)
    };
    let [shared, third] = ["127.0.0.1:7000", "127.0.0.1:7001"];
    assert_eq!(make("a", shared, "127.0.0.1:9", false).0, 201);
    assert_eq!(make("b", shared, third, false).0, 201);
    let (status, said) = make("c", third, shared, false);
    assert!(status == 400 && said["error"].as_str().unwrap().contains("in a loop"), "{said}");
    assert_eq!(make("d", third, "127.0.0.1:9", false).0, 201);
    proxies.finish();
}

/// A proxy that is disabled or removed has left its port when the answer comes, also under traffic.
#[test]
fn what_is_stopped_listens_no_more() {
    let proxies = Proxies::start("");
    let server = echo();
    for round in 0..3 {
        let name = format!("p{round}");
        let address = proxies.create(&name, server);
        let client = TcpStream::connect(address).unwrap();
        let busy = std::thread::spawn(move || while (&client).write_all(&[7; 65_536]).is_ok() {});
        assert_eq!(proxies.ask("POST", &format!("/proxies/{name}"), &json!({"enabled": false})).0, 200);
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        busy.join().unwrap();
        assert_eq!(proxies.ask("POST", &format!("/proxies/{name}"), &json!({"enabled": true})).0, 200);
        assert_eq!(proxies.ask("DELETE", &format!("/proxies/{name}"), &Value::Null).0, 204);
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
    proxies.finish();
}

/// A file names the proxies to begin with, of streams and of datagrams; each has a path of its own, which the API changes.
#[test]
fn a_file_names_streams_and_datagrams() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("proxies.json");
    let fields = json!([
        {"name": "names", "protocol": "udp", "upstream": server.local_addr().unwrap().to_string(), "path": ["both rtt 60ms"]},
        {"name": "web", "upstream": echo().to_string()},
    ]);
    std::fs::write(&file, fields.to_string()).unwrap();
    let proxies = Proxies::start(&format!("--delay 15ms --proxies {}", file.display()));
    let none = Value::Null;
    assert!(
        proxies.lines[0].starts_with("names: 127.0.0.1:") && proxies.lines[0].contains("udp"),
        "{:?}",
        proxies.lines
    );
    let all = proxies.ask("GET", "/proxies", &none).1;
    let address = |name: &str| all[name]["listen"].as_str().unwrap().parse::<SocketAddr>().unwrap();
    let (client, mut buffer) = (UdpSocket::bind("127.0.0.1:0").unwrap(), [0; 16]);
    client.send_to(b"hello", address("names")).unwrap();
    server.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(server.recv(&mut buffer).unwrap(), 5);
    let (back, took) = exchange(address("web"), 100);
    assert!(back.unwrap().len() == 100 && took >= Duration::from_millis(30), "{took:?}");
    let slower = json!({"path": ["both delay 40ms"]});
    assert_eq!(proxies.ask("PATCH", "/proxies/web", &slower).1["path"], slower["path"]);
    let (_, took) = exchange(address("web"), 100);
    assert!(took >= Duration::from_millis(80), "{took:?}");
    let said = proxies.ask("PATCH", "/proxies/web", &json!({"path": ["both duplicate 1%"]})).1;
    assert!(said["error"].as_str().unwrap().contains("cannot have duplicates"), "{said}");
    assert_eq!(proxies.ask("POST", "/proxies/names/toxics", &json!({"type": "timeout"})).0, 400);
    let report = proxies.finish();
    let delay = |at: usize, key: &str| report["proxies"][at]["up"][key]["delay_ns"].clone();
    assert_eq!((delay(0, "set"), delay(1, "set")), (30_000_000.into(), 40_000_000.into()));
    assert!(report["proxies"][0]["up"]["measured"]["delay_ns"]["min"].as_u64().unwrap() >= 30_000_000);
}

/// Without an API, too, an upstream may be a name.
#[test]
fn a_file_may_have_names_and_says_what_is_wrong() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("named-proxies.json");
    let line = format!("wan --proxies {} --duration 100ms --json", file.display());
    let write = |upstream: &str| {
        let fields = json!([{"name": "web", "upstream": upstream}]);
        std::fs::write(&file, fields.to_string()).unwrap();
    };
    write("localhost:9");
    let done = run(&line);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["proxies"][0]["upstream"], "localhost:9");
    write("localhost");
    let said = refusal(&run(&line), 2);
    assert!(said.contains("--proxies, \"web\": address 'localhost': no port"), "{said}");
}

/// No headers are headers of no bytes; and a proxy of datagrams does not become one of streams.
#[test]
fn an_overhead_and_a_protocol_are_as_they_were_asked_for() {
    let proxies = Proxies::start("--overhead 0B");
    let fields = |protocol: &str| json!({"name": "a", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:1", "protocol": protocol});
    assert_eq!(proxies.ask("POST", "/proxies", &fields("udp")).0, 201);
    let (status, said) = proxies.ask("PATCH", "/proxies/a", &fields("tcp"));
    assert!(status == 400 && said["error"].as_str().unwrap().contains("protocol"), "{said}");
    assert_eq!(proxies.ask("PATCH", "/proxies/a", &fields("udp")).1["protocol"], "udp");
    assert_eq!(proxies.ask("POST", "/populate", &json!([fields("tcp")])).0, 201);
    assert_eq!(proxies.ask("GET", "/proxies/a", &Value::Null).1["protocol"], Value::Null);
    let report = proxies.finish();
    assert_eq!(report["proxies"][0]["protocol"], "tcp");
    assert_eq!(report["proxies"][0]["up"]["set"]["overhead_bytes"], 0);
}
