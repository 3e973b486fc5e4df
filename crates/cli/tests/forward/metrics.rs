//! `--metrics` among peers that behave badly: each scraper is answered, and no packet waits for one.

use std::collections::{BTreeSet, VecDeque};
use std::net::Shutdown;

use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

use super::*;

/// A relay with metrics, and where they are.
fn with_metrics(flags: &str) -> (UdpSocket, Relay, String) {
    let server = socket();
    let mut relay = Relay::start(&server, &format!("--metrics 127.0.0.1:0 {flags}"));
    let said = relay.says();
    let address = said.strip_prefix("metrics on http://").and_then(|rest| rest.strip_suffix("/metrics"));
    let address = address.unwrap_or_else(|| panic!("{said}")).to_owned();
    (server, relay, address)
}

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";

fn connected(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Idle connections, more than there is room for, and a request that never ends: who asks is
/// answered while they are still there.
#[test]
fn idle_connections_delay_nobody() {
    let (_server, relay, address) = with_metrics("");
    let idle: Vec<_> = (0..300).map(|_| connected(&address)).collect();
    let mut slow = connected(&address);
    slow.write_all(b"GET /metrics HT").unwrap();
    for _ in 0..3 {
        assert!(http(&address, GET).starts_with("HTTP/1.1 200 OK\r\n"));
    }
    // None of those that came last has been given up meanwhile.
    let last = idle.last().unwrap();
    last.set_nonblocking(true).unwrap();
    let open = (&*last).read(&mut [0; 1]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    assert!(open, "the scrapes waited until idle connections ended");
    // Each ends by itself after its time.
    let ended = slow.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
    assert!(matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset)), "{ended:?}");
    relay.finish();
}

/// Connections that ask for nothing come all the time, hundreds for each scrape: no scrape is cut off for one of them.
#[test]
fn idle_connections_end_no_scrape() {
    let (_server, relay, address) = with_metrics("");
    let over = Arc::new(AtomicBool::new(false));
    let idlers: Vec<_> = (0..2)
        .map(|_| {
            let (address, over) = (address.clone(), Arc::clone(&over));
            std::thread::spawn(move || {
                let (mut held, mut connects) = (VecDeque::new(), 0);
                while !over.load(Ordering::Relaxed) || connects < 500 {
                    connects += 1;
                    held.push_back(connected(&address));
                    if held.len() > 200 {
                        held.pop_front();
                    }
                }
            })
        })
        .collect();
    for scrape in 0..20 {
        let mut stream = connected(&address);
        stream.write_all(GET.as_bytes()).unwrap();
        let mut text = String::new();
        let outcome = stream.read_to_string(&mut text);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
        let length = format!("content-length: {}", body.len());
        let whole = head.lines().any(|line| line.eq_ignore_ascii_case(&length));
        assert!(whole && head.starts_with("HTTP/1.1 200 OK\r\n"), "scrape {scrape}: {outcome:?}: {text}");
    }
    over.store(true, Ordering::Relaxed);
    idlers.into_iter().for_each(|idler| idler.join().unwrap());
    relay.finish();
}

#[test]
fn many_scrapers_are_answered_at_once() {
    let (server, relay, address) = with_metrics("");
    let client = socket();
    echoed(&client, &server, relay.address, b"text");
    let scrapers: Vec<_> = (0..40)
        .map(|number| {
            let address = address.clone();
            std::thread::spawn(move || {
                let mut stream = connected(&address);
                stream.write_all(GET.as_bytes()).unwrap();
                if number % 2 == 0 {
                    stream.shutdown(Shutdown::Write).unwrap();
                }
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                text
            })
        })
        .collect();
    for scraper in scrapers {
        let text = scraper.join().unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("\nsofttimers_forward_in_total 2\n"), "{text}");
    }
    relay.finish();
}

/// Each has a text of megabytes coming, and takes none of it.
#[test]
fn scrapers_that_read_nothing_hold_up_no_packet_and_no_other_scraper() {
    let lines: String = (0..10_000).map(|port| format!("from 10.0.0.0/8 port {port} accept\n")).collect();
    let rules = Scratch::new("stalled.rules", &format!("from 127.0.0.0/8 accept\n{lines}reject\n"));
    let (server, relay, address) = with_metrics(&format!("--rules {}", rules.0.display()));
    let stalled: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = connected(&address);
            stream.write_all(GET.as_bytes()).unwrap();
            stream
        })
        .collect();
    let client = socket();
    (0..100).for_each(|_| echoed(&client, &server, relay.address, b"text"));
    let text = http(&address, GET);
    assert!(text.len() > 1_000_000 && text.contains("\nsofttimers_forward_in_total 200\n"));
    drop(stalled);
    relay.finish();
}

#[test]
fn a_request_that_is_too_long_is_refused() {
    let (_server, relay, address) = with_metrics("");
    let mut stream = connected(&address);
    let head = format!("GET /metrics HTTP/1.1\r\nCookie: {}", "x".repeat(100_000));
    // It may not take all of it.
    let _ = stream.write_all(head.as_bytes());
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    assert!(text.is_empty() || text.starts_with(b"HTTP/1.1 431 "), "{}", String::from_utf8_lossy(&text));
    assert!(http(&address, GET).starts_with("HTTP/1.1 200 OK\r\n"));
    relay.finish();
}

#[test]
fn without_descriptors_a_scraper_waits() {
    let (_server, relay, address) = with_metrics("");
    let id = Pid::from_raw(relay.child.id() as i32);
    let before = getrlimit(Resource::Nofile);
    let open = || {
        let listed = std::fs::read_dir(format!("/proc/{}/fd", relay.child.id())).unwrap();
        let numbers =
            listed.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse::<u64>().unwrap());
        numbers.collect::<BTreeSet<u64>>()
    };
    // The lowest free number, once it has opened and closed all that it begins with: with a lower limit than it has descriptors,
    // poll(2) would refuse those as well.
    let settled = || {
        for _ in 0..200 {
            let before = open();
            #[expect(clippy::disallowed_methods, reason = "nothing tells that no more is opened")]
            std::thread::sleep(Duration::from_millis(300));
            if before == open() {
                return (0..).find(|number| !before.contains(number)).unwrap();
            }
        }
        panic!("descriptors come and go: {:?}", open());
    };
    let asks = || {
        prlimit(id, Resource::Nofile, Rlimit { current: Some(settled()), maximum: before.maximum }).unwrap();
        let mut stream = connected(&address);
        stream.write_all(GET.as_bytes()).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let answered = stream.read(&mut [0; 1]).is_ok();
        (stream, answered)
    };
    // An accept under way when the limit comes has its descriptor already, and a connection that ends leaves one free below the
    // limit: some may still be answered.
    let mut answered = Vec::new();
    let mut waits = loop {
        match asks() {
            (stream, true) => answered.push(stream),
            (stream, false) => break stream,
        }
        assert!(answered.len() < 20, "all are answered");
    };
    prlimit(id, Resource::Nofile, before).unwrap();
    waits.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut text = String::new();
    waits.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    relay.finish();
}

/// As the format's description says: what a metric is stands before its samples, which are together and differ.
#[test]
fn the_text_is_in_the_format() {
    let rule = "from 127.0.0.0/8 rate 1Mpps burst 1s accept";
    let rules = Scratch::new("format.rules", &format!("{rule}\n{rule}\nreject\n"));
    let (server, relay, address) = with_metrics(&format!("--rules {}", rules.0.display()));
    let client = socket();
    (0..5).for_each(|_| echoed(&client, &server, relay.address, b"text"));
    let response = http(&address, GET);
    let (head, text) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("text/plain; version=0.0.4") && text.ends_with('\n'));
    super::common::check_exposition(text);
    for line in [
        "softtimers_forward_received_packets_total{side=\"clients\"} 5",
        "softtimers_forward_received_bytes_total{side=\"clients\"} 20",
        "softtimers_forward_sent_bytes_total{side=\"upstream\"} 20",
        "softtimers_forward_dropped_packets_total{side=\"clients\",stage=\"ring\"} 0",
        "softtimers_forward_dropped_bytes_total{side=\"upstream\",stage=\"output\"} 0",
        &format!("softtimers_forward_rule_bytes_total{{line=\"1\",rule=\"{rule}\"}} 20"),
    ] {
        assert!(text.lines().any(|other| other == line), "{line}: {text}");
    }
    relay.finish();
}
