#!/bin/sh
# rustix's epoll::wait takes nanoseconds and waits in milliseconds; its poll waits as told, and so does the crate polling.
#
# Expected: a time-out of type Timespec reaches epoll_pwait2, which the kernel has had since 5.11.
# Found:    without the feature "linux_5_11" epoll::wait rounds it up to milliseconds for epoll_wait. mio, whose time-out is a
#           Duration, always does. rustix's poll is ppoll; polling arms a timerfd. All four on one kernel, for one Duration.
# Of:       rustix 1.0.7, mio 1.0.4, polling 3.7.4, Linux 6.18.44. Needs cargo and some minutes.
# Method:   100 waits of 100 us without anything to wait for; the median, in waits of rustix's poll.
#
# Seen:     rustix poll 1.0, polling 0.7, rustix epoll 6.4, mio 6.3
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v cargo > "$dir/found" || { echo "skipped: cargo is missing"; exit 77; }
cd "$dir"
mkdir src
cat > Cargo.toml <<'TOML'
[package]
name = "waits"
version = "0.0.0"
edition = "2021"

[dependencies]
rustix = { version = "=1.0.7", features = ["event"] }
mio = { version = "=1.0.4", features = ["os-poll"] }
polling = "=3.7.4"

[workspace]
TOML
cat > src/main.rs <<'RS'
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags};
use rustix::event::{poll, Timespec};

/// Returns the median of a hundred waits, in seconds.
fn median(mut wait: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..100)
        .map(|_| {
            let begin = Instant::now();
            wait();
            begin.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[50]
}

fn main() {
    let time = Timespec { tv_sec: 0, tv_nsec: 100_000 };
    let duration = Duration::from_micros(100);
    let by_poll = median(|| drop(poll(&mut [], Some(&time)).unwrap()));

    let poller = polling::Poller::new().unwrap();
    let mut events = polling::Events::new();
    let by_polling = median(|| drop(poller.wait(&mut events, Some(duration)).unwrap()));

    let set = epoll::create(CreateFlags::CLOEXEC).unwrap();
    let mut ready: Vec<epoll::Event> = Vec::with_capacity(4);
    let by_epoll =
        median(|| drop(epoll::wait(&set, rustix::buffer::spare_capacity(&mut ready), Some(&time)).unwrap()));

    let mut set = mio::Poll::new().unwrap();
    let mut ready = mio::Events::with_capacity(4);
    let by_mio = median(|| set.poll(&mut ready, Some(duration)).unwrap());

    let [polling, epoll, mio] = [by_polling, by_epoll, by_mio].map(|time| time / by_poll);
    println!("rustix poll 1.0, polling {polling:.1}, rustix epoll {epoll:.1}, mio {mio:.1}");
    let whole = [by_epoll, by_mio].iter().all(|&time| time > 0.001);
    if !(whole && epoll > 2.0 && mio > 2.0 && polling < 2.0) {
        println!("changed");
        std::process::exit(1);
    }
}
RS
cargo --version
CARGO_TARGET_DIR="$dir/target" cargo build --quiet > log 2>&1 ||
    { echo "skipped: the crates cannot be built: $(tail -n 1 log)"; exit 77; }
target/debug/waits
