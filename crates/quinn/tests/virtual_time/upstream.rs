//! The claims of crates/quinn/UPSTREAM.md about quinn-proto itself. When one of these fails, quinn has changed, and the page must.

use std::time::Duration;

use softtimers_wan::Way;

use crate::network::{Kind, Link, Network};

/// The longest time without growth of quinn's window between one second and four after the beginning, in milliseconds.
fn longest_stand(kind: Kind) -> u64 {
    let mut network = Network::new(Link::new(100, 20, 20), 0);
    network.open(kind, Duration::ZERO, 1 << 40);
    network.run(Duration::from_secs(4));
    let (mut longest, mut since, mut last) = (0, 0, 0);
    for sample in &network.flows[0].samples {
        let now = sample.at.as_nanos() / 1_000_000;
        if sample.window != last {
            (since, last) = (now, sample.window);
        }
        if now > 300 {
            longest = longest.max(now - since);
        }
    }
    longest
}

/// Two cuts in a row, and the window stands still until the curve has come up to it: K is computed from W_max alone.
#[test]
fn quinns_cubic_stands_still_after_two_cuts() {
    let [stock, even] = [Kind::Stock, Kind::Both].map(longest_stand);
    println!(
        "the window of quinn's CUBIC stands still for {stock} ms, that of the even controller for {even} ms"
    );
    assert!(stock >= 300, "{stock} ms");
    assert!(even <= 100, "{even} ms");
}

/// After a pause ten packets leave back to back, at 10 Mbit/s as well, where a bucket of 2 ms would be two. Beyond the first window,
/// which any stack may send at once; while the link is busy, ACKs let four leave at a time.
#[test]
fn quinns_pacer_sends_ten_packets_after_a_pause() {
    let mut network = Network::new(Link::new(10, 200, 20), 0);
    network.open(Kind::Stock, Duration::ZERO, 60_000);
    network.run(Duration::from_millis(400));
    assert!(network.flows[0].finished.is_some());
    network.more(0, 60_000);
    let mut most = 0;
    for _ in 0..500 {
        let before = network.wan.queued(Way::Down, network.now);
        network.run(Duration::from_micros(200));
        most = most.max(network.wan.queued(Way::Down, network.now).saturating_sub(before));
    }
    println!("up to {most} packets within 200 µs at 10 Mbit/s");
    assert!(most >= 8, "{most}");
}

/// Ten megabytes by BBR over a path whose queue is short: a third of what it sends is dropped. While it starts, it compares its gain
/// with a window in bytes, so the window grows with each ACK whatever the target.
#[test]
fn quinns_bbr_drops_a_third_over_a_short_queue() {
    let mut network = Network::new(Link::new(100, 20, 20), 0);
    network.open(Kind::Bbr, Duration::ZERO, 10_000_000);
    network.run_to_end(Duration::from_secs(60));
    let drops = network.flows[0].drops();
    println!("quinn's BBR: {drops:.0}% dropped");
    assert!(drops > 33.0, "{drops:.1}%");
}
