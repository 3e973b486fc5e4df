//! Through a relay that is open to strangers: a client gets three times the bytes that it sends, so an upload passes, and a
//! download only with trust in the client's network.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use softtimers_wan::udp::{ClientLimits, RelayConfig, RelayStats};
use softtimers_wan::{EdgeStats, Ended, Relay, Wan, Way};

use crate::harness::{Pair, WAIT, receive, run, send};

const TEN_MEGABYTES: u64 = 10_000_000;

/// A relay in a thread of its own. Loopback stands for addresses that may be forged.
struct Public {
    address: std::net::SocketAddr,
    stop: UnixStream,
    withholds: mpsc::Receiver<()>,
    thread: JoinHandle<Carried>,
}

/// The payload that it carried: from the client, and back.
struct Carried {
    sent: u64,
    got: u64,
    stats: RelayStats,
}

fn stats(relay: &Relay) -> RelayStats {
    let EdgeStats::Udp(stats) = relay.stats() else { panic!("it relays datagrams") };
    stats
}

impl Public {
    fn to(pair: &Pair, trust: &[&str]) -> Public {
        let trust = trust.iter().map(|network| network.parse().unwrap()).collect();
        let clients = ClientLimits { trust, trust_loopback: false, ..ClientLimits::default() };
        let config = RelayConfig { clients, ..RelayConfig::to(pair.direct()) };
        let (stop, stopped) = UnixStream::pair().unwrap();
        let (say, hear) = mpsc::channel();
        let (withhold, withholds) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut relay = Relay::udp(config, Wan::builder()).unwrap();
            relay.watch(&stopped, 7).unwrap();
            say.send(relay.local_addr().unwrap()).unwrap();
            while relay.run(Some(relay.now() + Duration::from_millis(10))).unwrap() == Ended::Time {
                if stats(&relay).withheld_budget >= 10 {
                    // The test may have ended.
                    let _ = withhold.send(());
                }
            }
            let [up, down] = [Way::Up, Way::Down].map(|way| relay.counters(way));
            let stats = stats(&relay);
            Carried { sent: up.offered_bytes, got: down.delivered_bytes - stats.withheld_bytes, stats }
        });
        Public { address: hear.recv_timeout(WAIT).unwrap(), stop, withholds, thread }
    }

    fn finish(mut self) -> Carried {
        self.stop.write_all(b"x").unwrap();
        self.thread.join().unwrap()
    }
}

#[test]
fn a_download_through_a_public_relay_passes_with_trust() {
    run(async {
        let pair = Pair::stock();
        let relay = Public::to(&pair, &["127.0.0.0/8"]);
        let (client, server) = pair.connect(relay.address).await;
        let (received, ()) = tokio::join!(receive(&client), send(&server, TEN_MEGABYTES));
        assert_eq!(received, TEN_MEGABYTES);
        let Carried { got, stats, .. } = relay.finish();
        assert!(got > TEN_MEGABYTES && stats.withheld_bytes == 0, "{stats:?}");
    });
}

/// The handshake passes, for the server keeps to the same bound until it knows that the client receives; the relay never knows.
#[test]
fn a_download_through_a_public_relay_stalls_without_trust() {
    run(async {
        let pair = Pair::stock();
        let relay = Public::to(&pair, &["192.0.2.0/24"]);
        let (client, server) = pair.connect(relay.address).await;
        let download = tokio::spawn(async move { send(&server, TEN_MEGABYTES).await });
        let receiving = tokio::spawn(async move { receive(&client).await });
        let Public { withholds, .. } = &relay;
        while withholds.try_recv().is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        download.abort();
        receiving.abort();
        assert!(receiving.await.is_err(), "ten megabytes have passed");
        let Carried { sent, got, stats } = relay.finish();
        assert!(got <= 3 * sent && got < TEN_MEGABYTES, "{got} bytes for {sent}, {stats:?}");
    });
}

#[test]
fn an_upload_through_a_public_relay_needs_no_trust() {
    run(async {
        let pair = Pair::stock();
        let relay = Public::to(&pair, &[]);
        let (client, server) = pair.connect(relay.address).await;
        let (received, ()) = tokio::join!(receive(&server), send(&client, TEN_MEGABYTES));
        assert_eq!(received, TEN_MEGABYTES);
        let Carried { sent, got, stats } = relay.finish();
        assert!(got <= 3 * sent && sent > TEN_MEGABYTES, "{got} bytes for {sent}, {stats:?}");
    });
}
