//! Streams and datagrams of tokio behind a path, on a paused clock.

use std::io::ErrorKind;
use std::time::Duration;

use proptest::prelude::*;
use softtimers_wan::tokio::Path;
use softtimers_wan::{
    Admission, Aqm, Bottleneck, CodelConfig, FqCodelConfig, Jitter, Loss, PathConfig, PieConfig, Probability,
    Queue, Wan, Way,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

/// A path that does all that a path can do to packets.
fn bad(seed: u64) -> PathConfig {
    let share = |parts: u64| Probability::per_million((seed >> parts) as u32 % 8 * 20_000).unwrap();
    let aqm = match seed % 4 {
        0 => Aqm::DropTail,
        1 => Aqm::Codel(CodelConfig::default()),
        2 => Aqm::FqCodel(FqCodelConfig::default()),
        _ => Aqm::Pie(PieConfig::default()),
    };
    let rate = 1_000_000 << (seed % 7);
    PathConfig::default()
        .bottleneck(Bottleneck::bits_per_second(rate).unwrap())
        .queue(Queue::packets(1 + seed as u32 % 50))
        .aqm(aqm)
        .delay(Duration::from_micros(seed % 40_000))
        .jitter(Jitter::uniform(Duration::from_micros(seed % 40_000 / 2)).reordering())
        .loss(Loss::Random(share(3)))
        .duplicate(share(6))
        .corrupt(share(9))
        .late(share(12), Duration::from_millis(seed % 100))
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length as u32).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Runs on a clock that jumps.
fn paused<F: Future>(test: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(test)
}

/// Sends both ways at once through a bad path; when each was whole, and what became of the packets.
async fn exchange(seed: u64, up: usize, down: usize) -> (Duration, [softtimers_wan::Counters; 2]) {
    let path = Path::new(Wan::builder().both(bad(seed)).seed(seed)).unwrap();
    let (client, server) = path.stream();
    let start = Instant::now();
    let each = |end, send: usize, receive: usize| async move {
        let (mut reader, mut writer) = tokio::io::split(end);
        let sent = async {
            for piece in bytes(send).chunks(1 + seed as usize % 9_000) {
                writer.write_all(piece).await.unwrap();
            }
            writer.shutdown().await.unwrap();
        };
        let mut got = Vec::new();
        let received = async { reader.read_to_end(&mut got).await.unwrap() };
        tokio::join!(sent, received);
        assert!(got == bytes(receive), "{} of {receive} bytes", got.len());
    };
    tokio::join!(each(client, up, down), each(server, down, up));
    (start.elapsed(), [path.counters(Way::Up), path.counters(Way::Down)])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the path does, a stream arrives whole and in order, and the same seed does the same again.
    #[test]
    fn no_byte_is_lost_or_overtaken(seed: u64, up in 0..200_000usize, down in 0..50_000usize) {
        let first = paused(exchange(seed, up, down));
        prop_assert_eq!(first, paused(exchange(seed, up, down)));
    }

    /// Every datagram that went in came out, was dropped, or is still there, and is counted as such.
    #[test]
    fn the_account_of_datagrams_is_exact(seed: u64, sizes in proptest::collection::vec(1..2_000usize, 0..300)) {
        paused(async {
            let path = Path::new(Wan::builder().both(bad(seed)).seed(seed)).unwrap();
            let (client, server) = path.datagrams();
            let mut dropped = 0;
            for &size in &sizes {
                let admission = client.send(&bytes(size));
                dropped += u64::from(matches!(admission, Admission::QueueFull | Admission::Overflow));
                if seed % 5 > 1 {
                    sleep(Duration::from_millis(seed % 5)).await;
                }
            }
            let mut received = 0;
            while let Ok(datagram) = timeout(Duration::from_secs(5), server.recv()).await {
                assert!(sizes.contains(&datagram.len()));
                received += 1;
            }
            let counters = path.counters(Way::Up);
            prop_assert_eq!(counters.offered, sizes.len() as u64);
            prop_assert_eq!(counters.delivered, received);
            prop_assert_eq!(server.missed(), 0);
            let gone = counters.queue_drops + counters.lost + counters.overflowed;
            prop_assert_eq!(counters.offered + counters.duplicated, received + gone);
            prop_assert!(counters.queue_drops + counters.overflowed >= dropped);
            prop_assert_eq!(counters.held, 0);
            Ok(())
        })?;
    }
}

/// A rate is kept to the nanosecond by tasks that are woken once a millisecond.
#[tokio::test(start_paused = true)]
async fn a_link_is_never_idle_while_somebody_writes() {
    let each = PathConfig::default()
        .bottleneck(Bottleneck::bits_per_second(100_000_000).unwrap())
        .queue(Queue::packets(2))
        .delay(Duration::from_millis(20));
    let path = Path::new(Wan::builder().both(each)).unwrap();
    let (mut client, mut server) = path.stream();
    let start = Instant::now();
    let sender = tokio::spawn(async move { client.write_all(&bytes(12_500_000)).await });
    let mut got = Vec::new();
    server.read_to_end(&mut got).await.unwrap();
    sender.await.unwrap().unwrap();
    // A second on the link, and the way; what the reader is later by is its timer's millisecond.
    let late = start.elapsed().checked_sub(Duration::from_millis(1_020)).unwrap();
    assert!(late <= Duration::from_millis(1), "{late:?}");
    assert_eq!(path.resent(Way::Up), 0);
}

/// The model of repair, to the millisecond: lost until the path is good again, tried after one, two and four round trips.
#[tokio::test(start_paused = true)]
async fn a_lost_segment_is_sent_again_after_one_two_and_four_round_trips() {
    let each = PathConfig::default().delay(Duration::from_millis(50));
    let path = Path::new(Wan::builder().both(each.clone())).unwrap();
    path.set(Way::Up, each.clone().loss(Loss::Random(Probability::ALWAYS))).unwrap();
    let (mut client, mut server) = path.stream();
    let start = Instant::now();
    client.write_all(b"hello").await.unwrap();
    sleep(Duration::from_millis(450)).await;
    // Lost at 0, 100 and 300; the next try is at 700.
    path.set(Way::Up, each).unwrap();
    let mut buffer = [0; 5];
    server.read_exact(&mut buffer).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(750));
    assert_eq!((path.counters(Way::Up).lost, path.resent(Way::Up)), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_an_hour_is_survived() {
    let each = PathConfig::default().delay(Duration::from_millis(10));
    let path = Path::new(Wan::builder().both(each.clone())).unwrap();
    let (mut client, mut server) = path.stream();
    path.set(Way::Up, each.clone().loss(Loss::Random(Probability::ALWAYS))).unwrap();
    client.write_all(&bytes(100_000)).await.unwrap();
    sleep(Duration::from_secs(3_600)).await;
    path.set(Way::Up, each).unwrap();
    let mut got = vec![0; 100_000];
    timeout(Duration::from_secs(61), server.read_exact(&mut got)).await.unwrap().unwrap();
    assert!(got == bytes(100_000));
}

#[tokio::test(start_paused = true)]
async fn ends_and_resets_take_the_way() {
    let path =
        Path::new(Wan::builder().both(PathConfig::default().delay(Duration::from_millis(50)))).unwrap();
    let (mut client, mut server) = path.stream();
    let start = Instant::now();
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(client.write(b"more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    let mut got = Vec::new();
    server.read_to_end(&mut got).await.unwrap();
    assert_eq!((got.as_slice(), start.elapsed().as_millis()), (&b"question"[..], 50));
    // The other direction goes on.
    server.write_all(b"answer").await.unwrap();
    let mut answer = [0; 6];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(start.elapsed().as_millis(), 100);
    // Nobody is there any more: the first bytes go, and a reset comes back.
    drop(client);
    server.write_all(b"one more thing").await.unwrap();
    sleep(Duration::from_millis(101)).await;
    assert_eq!(server.write(b"and one").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
}

/// Bytes that were written before the end was dropped still arrive.
#[tokio::test(start_paused = true)]
async fn what_was_written_outlives_its_writer() {
    let path = Path::new(Wan::builder().both(bad(77)).seed(1)).unwrap();
    let (mut client, mut server) = path.stream();
    client.write_all(&bytes(1_000)).await.unwrap();
    drop(client);
    let mut got = Vec::new();
    server.read_to_end(&mut got).await.unwrap();
    assert!(got == bytes(1_000));
}

/// Two streams and a pair of sockets share one link, and the streams share it evenly.
#[tokio::test(start_paused = true)]
async fn all_ends_share_the_link() {
    let each = PathConfig::default()
        .bottleneck(Bottleneck::bits_per_second(8_000_000).unwrap())
        .queue(Queue::packets(10));
    let path = Path::new(Wan::builder().both(each)).unwrap();
    let start = Instant::now();
    let streams = [path.stream(), path.stream()].map(|(mut client, mut server)| {
        tokio::spawn(async move { client.write_all(&bytes(1_000_000)).await });
        tokio::spawn(async move {
            let mut got = Vec::new();
            server.read_to_end(&mut got).await.unwrap();
            (got.len(), start.elapsed())
        })
    });
    for stream in streams {
        let (length, end) = stream.await.unwrap();
        assert_eq!(length, 1_000_000);
        assert!(end > Duration::from_millis(1_900) && end < Duration::from_millis(2_010), "{end:?}");
    }
}

/// A reader that waits stops its writer, once 16 MiB are held, and nothing is lost.
#[tokio::test(start_paused = true)]
async fn a_reader_that_waits_stops_its_writer() {
    let path = Path::new(Wan::builder()).unwrap();
    let (mut client, mut server) = path.stream();
    let chunk = bytes(1 << 20);
    let mut written = 0;
    while let Ok(length) = timeout(Duration::from_secs(1), client.write(&chunk)).await {
        written += length.unwrap();
        assert!(written <= 16 << 20);
    }
    let mut left = written;
    let mut buffer = vec![0; 1 << 20];
    while left > 0 {
        left -= server.read(&mut buffer).await.unwrap();
    }
    timeout(Duration::from_secs(1), client.write(&chunk)).await.unwrap().unwrap();
}

/// Who waits for room hears of it, too, if the reader goes and has not read.
#[tokio::test(start_paused = true)]
async fn a_writer_that_waits_hears_that_its_reader_is_gone() {
    let each = PathConfig::default().delay(Duration::from_millis(100));
    let path = Path::new(Wan::builder().both(each)).unwrap();
    let (mut client, server) = path.stream();
    let start = Instant::now();
    let sent = bytes(32 << 20);
    let writer = timeout(Duration::from_secs(60), client.write_all(&sent));
    let reader = async {
        sleep(Duration::from_millis(200)).await;
        drop(server);
    };
    let (written, ()) = tokio::join!(writer, reader);
    assert_eq!(written.unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
    // The reset takes the way back.
    assert!(start.elapsed() <= Duration::from_millis(301), "{:?}", start.elapsed());
}

/// The path's task ends with its last handle: then nothing is left that could run.
#[test]
fn nothing_is_left_behind() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let path = Path::new(Wan::builder()).unwrap();
        let (client, server) = path.stream();
        let sockets = path.datagrams();
        assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 1);
        drop((path, client, server, sockets));
        while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    });
}

/// On a clock that runs, too, and with threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_runs_will_do() {
    let each =
        PathConfig::default().delay(Duration::from_millis(5)).loss(Loss::Random(Probability::once_in(20)));
    let path = Path::new(Wan::builder().both(each).seed(3)).unwrap();
    let (mut client, mut server) = path.stream();
    let start = Instant::now();
    let sender = tokio::spawn(async move { client.write_all(&bytes(300_000)).await });
    let mut got = Vec::new();
    server.read_to_end(&mut got).await.unwrap();
    sender.await.unwrap().unwrap();
    assert!(got == bytes(300_000) && start.elapsed() >= Duration::from_millis(5));
}
