//! Each toxic at its limits, changed and removed while bytes are held: what the real Toxiproxy does, as observed, and
//! that it is the same here. The table is `toxiproxy/observed.json`; `here` in a row is a difference, which docs/wan.md
//! lists, or stands beside a fault of the real server.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::proxies::{Proxies, ask_at};
use crate::common::skipped;

/// What a server has received, and how its connection stands.
#[derive(Clone, Debug, Default)]
struct Received(Arc<Mutex<(u64, &'static str)>>);

impl Received {
    fn now(&self) -> Value {
        let (bytes, end) = *self.0.lock().unwrap();
        json!([bytes, end])
    }
}

/// Reads all of one connection, and ends it when the other side has.
fn sink() -> (SocketAddr, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let received = Received(Arc::new(Mutex::new((0, "open"))));
    let shared = received.clone();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 65_536];
        loop {
            let read = stream.read(&mut buffer);
            let mut now = shared.0.lock().unwrap();
            match read {
                Ok(0) => now.1 = "end",
                Ok(length) => now.0 += length as u64,
                Err(_) => now.1 = "reset",
            }
            if now.1 != "open" {
                return;
            }
        }
    });
    (address, received)
}

/// Waits until a value is the expected one and stays it, or for half a minute; returns it.
fn settles(expected: &Value, mut now: impl FnMut() -> Value) -> Value {
    for _ in 0..600 {
        if now() == *expected {
            std::thread::park_timeout(Duration::from_millis(200));
            return now();
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    now()
}

/// Does what a row says, and returns what happened; where it does not settle on what is expected, after a while.
fn play(api: SocketAddr, name: &str, row: &Value, expected: &Value) -> Value {
    let (server, received) = sink();
    let fields = json!({"name": name, "listen": "127.0.0.1:0", "upstream": server.to_string()});
    let (status, made) = ask_at(api, "POST", "/proxies", &fields);
    assert_eq!(status, 201, "{made}");
    let mut toxic = row["toxic"].clone();
    toxic["name"] = "t".into();
    if toxic.get("Stream").is_none() {
        toxic["stream"] = "upstream".into();
    }
    let all = format!("/proxies/{name}/toxics");
    let add = || ask_at(api, "POST", &all, &toxic).0;
    let change = |change: &Value| match change.as_str() {
        Some(_) => ask_at(api, "DELETE", &format!("{all}/t"), &Value::Null).0,
        None => ask_at(api, "PATCH", &format!("{all}/t"), change).0,
    };
    let mut found = json!({});
    let opened_before = row["opened_before"] == true;
    if !opened_before {
        found["status"] = add().into();
    }
    let mut client = TcpStream::connect(made["listen"].as_str().unwrap()).unwrap();
    if opened_before {
        client.write_all(&[7; 10]).unwrap();
        settles(&json!([10, "open"]), || received.now());
        found["status"] = add().into();
    }
    // It may be reset meanwhile.
    let _ = client.write_all(&[7; 1_000]);
    found["sent"] = settles(&expected["sent"], || received.now());
    if let Some(then) = row.get("then") {
        found["then"] = change(then).into();
        found["changed"] = settles(&expected["changed"], || received.now());
    }
    let _ = client.shutdown(Shutdown::Write);
    if let Some(then) = row.get("at_end") {
        std::thread::park_timeout(Duration::from_millis(100));
        found["then"] = change(then).into();
    }
    found["ended"] = settles(&expected["ended"], || received.now());
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    // Once it has ended, a later call says nothing about how.
    let mut end = None;
    found["client"] = settles(&expected["client"], || {
        let now = end.unwrap_or_else(|| match client.read(&mut [0; 16]) {
            Ok(0) => "end",
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => "open",
            Err(_) => "reset",
            Ok(_) => "bytes",
        });
        end = (now != "open").then_some(now);
        now.into()
    });
    found
}

fn rows() -> Vec<Value> {
    let table: Value = serde_json::from_str(include_str!("toxiproxy/observed.json")).unwrap();
    table["rows"].as_array().unwrap().clone()
}

/// Plays rows, each against what it expects, all at once; and returns those that are not so.
fn wrong(api: SocketAddr, rows: &[(&Value, &Value)]) -> Vec<String> {
    std::thread::scope(|scope| {
        let runs: Vec<_> = rows
            .iter()
            .enumerate()
            .map(|(number, &(row, expected))| {
                scope.spawn(move || {
                    let found = play(api, &format!("row{number}"), row, expected);
                    (found != *expected).then(|| format!("{}: {found}, expected {expected}", row["toxic"]))
                })
            })
            .collect();
        runs.into_iter().filter_map(|run| run.join().unwrap()).collect()
    })
}

#[test]
fn toxics_do_what_the_real_ones_do() {
    let (proxies, rows) = (Proxies::start(""), rows());
    let expected: Vec<_> = rows.iter().map(|row| (row, row.get("here").unwrap_or(&row["real"]))).collect();
    let wrong = wrong(proxies.api, &expected);
    assert!(wrong.is_empty(), "{wrong:#?}");
    proxies.finish();
}

/// The real server, which `go install` builds.
struct Real(Child, SocketAddr);

impl Real {
    fn start() -> Result<Self, String> {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("toxiproxy-server");
        let package = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0";
        let built = Command::new("go").args(["install", package]).env("GOBIN", &directory).output();
        let built = built.map_err(|error| format!("go: {error}"))?;
        if !built.status.success() {
            return Err(format!("it cannot be had: {}", String::from_utf8_lossy(&built.stderr)));
        }
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut server = Command::new(directory.join("server"));
        let server = server.args(["-host", "127.0.0.1", "-port", &free.port().to_string()]);
        let child =
            server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?;
        for _ in 0..200 {
            if TcpStream::connect(free).is_ok() {
                return Ok(Real(child, free));
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        Err("it does not listen".to_owned())
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The table is not out of date: the real server still does what was observed, faults left out.
#[test]
fn the_table_is_what_the_real_server_does() {
    let real = match Real::start() {
        Ok(real) => real,
        Err(why) => return skipped(&format!("Toxiproxy's server: {why}")),
    };
    let rows = rows();
    let expected: Vec<_> =
        rows.iter().filter(|row| row["real"].get("fault").is_none()).map(|row| (row, &row["real"])).collect();
    let wrong = wrong(real.1, &expected);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// As in Toxiproxy, a client whose upstream is dead is accepted, and its connection ends in order.
#[test]
fn a_dead_upstream_is_an_orderly_end() {
    let proxies = Proxies::start("");
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = proxies.create("dead", dead);
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(client.read(&mut [0; 16]).unwrap(), 0);
    let report = proxies.finish();
    let clients = &report["proxies"][0]["clients"];
    assert_eq!(
        (&clients["upstream_refused"], &clients["closed"], &clients["reset"]),
        (&1.into(), &1.into(), &0.into())
    );
}

/// Requests that the real server takes are taken, and answered with the same words.
#[test]
fn unusual_requests_are_taken_as_there() {
    let proxies = Proxies::start("");
    proxies.create("q", "127.0.0.1:9".parse().unwrap());
    let add = |toxic: Value| proxies.ask("POST", "/proxies/q/toxics", &toxic);
    let latency = |attributes: Value| json!({"type": "latency", "attributes": attributes});
    for refused in [
        latency(json!({"latency": "soon"})),
        latency(json!({"latency": 1.5})),
        latency(json!([1])),
        json!({"type": "nothing"}),
        json!({}),
        json!({"type": "latency", "stream": "left"}),
        json!({"type": "latency", "stream": ""}),
        json!({"type": "latency", "toxicity": "x"}),
    ] {
        assert_eq!(add(refused.clone()).0, 400, "{refused}");
    }
    let (status, made) = add(json!({"type": "noop", "stream": "UPSTREAM", "toxicity": 2}));
    assert_eq!((status, &made["name"], &made["stream"]), (200, &"noop_UPSTREAM".into(), &"UPSTREAM".into()));
    assert_eq!((&made["toxicity"], &made["attributes"]), (&json!(2.0), &json!({})));
    let (_, made) = add(json!({"type": "latency", "toxicity": null, "attributes": {"LATENCY": -7}}));
    assert_eq!((&made["toxicity"], &made["attributes"]), (&json!(1.0), &json!({"latency": -7, "jitter": 0})));
    let change = json!({"name": "other", "stream": "upstream", "attributes": {"jitter": 2}});
    let (status, changed) = proxies.ask("POST", "/proxies/q/toxics/latency_downstream", &change);
    assert_eq!(
        (status, &changed["name"], &changed["stream"]),
        (200, &"latency_downstream".into(), &"downstream".into())
    );
    proxies.finish();
}
