//! Known capacity for TCP, in this kernel: the programs load, are there by name while they are held, and count
//! connections of a cgroup. Without the privileges or the kernel for it, each test says so.

use std::io::Write;
use std::num::NonZeroU64;

use softtimers_bpf::{Error, TcpCapacity, TcpCounts, TcpPace, TcpWindow};

fn skipped(reason: &str) {
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    let line = format!("skipped: {name}: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

fn capacity() -> TcpCapacity {
    TcpCapacity { rate: NonZeroU64::new(100_000_000).unwrap(), window: TcpWindow::OfPath(1.0), to: vec![] }
}

/// Two at once have names of their own, and nothing is counted without a cgroup.
#[test]
fn two_are_loaded_at_once() {
    let mut loaded = vec![];
    for _ in 0..2 {
        match TcpPace::load(&capacity()) {
            Ok(pace) => loaded.push(pace),
            Err(error @ (Error::Privilege { .. } | Error::TooOld { .. })) => {
                return skipped(&error.to_string());
            }
            Err(error) => panic!("{error}"),
        }
    }
    for pace in &mut loaded {
        if let Some(why) = pace.lacks() {
            skipped(&format!("windows are not kept here: {why}"));
        }
        pace.set(&TcpCapacity { window: TcpWindow::Bytes(65_536), ..capacity() }).unwrap();
        assert_eq!(pace.counts().unwrap(), TcpCounts::default());
    }
}
