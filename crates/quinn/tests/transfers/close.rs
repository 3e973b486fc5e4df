//! Closing, with and without the gate.

use std::time::Duration;

use quinn::ConnectionError;
use softtimers_wan::{Bottleneck, PathConfig, Queue};

use crate::harness::{Pair, Path, run, size};

/// Connects, closes in the middle of a transfer, `after` so long, and says whether the server heard it.
async fn heard(pair: &Pair, path: &Path, after: Duration) -> bool {
    let (client, server) = pair.connect(path.address).await;
    let sending = client.clone();
    let task = tokio::spawn(async move {
        let mut stream = sending.open_uni().await?;
        loop {
            stream.write_all(&[0x55; 8_192]).await?;
        }
        #[expect(unreachable_code, reason = "it names the type of errors")]
        Ok::<_, std::io::Error>(())
    });
    tokio::time::sleep(after).await;
    client.close(7u32.into(), b"enough");
    let closed = tokio::time::timeout(Duration::from_millis(250), server.closed()).await;
    assert!(task.await.unwrap().is_err());
    matches!(closed, Ok(ConnectionError::ApplicationClosed(close)) if close.error_code == 7u32.into())
}

/// quinn sends no close while congestion control has no room (quinn#2785), so neither hears all of them. They take turns,
/// for how often that is depends on what else the machine does; if these say nothing, more runs do.
#[test]
fn a_close_in_the_middle_is_heard_as_often_as_with_stock() {
    run(async {
        let link = PathConfig::default()
            .bottleneck(Bottleneck::bits_per_second(50_000_000).unwrap())
            .queue(Queue::packets(40))
            .delay(Duration::from_millis(5));
        let pairs = [Pair::stock(), Pair::smooth()];
        let paths = [0, 1].map(|kind| Path::to(&pairs[kind].server, link.clone()));
        let (least, most) = (size(24, 240), size(72, 480));
        let (mut tries, mut counts) = (0, [0; 2]);
        while tries < least || (counts[1] + tries / 4 < counts[0] && tries < most) {
            // Anywhere within some round trips.
            let after = Duration::from_millis(20 + 120 * (tries % least) / least);
            for (count, (pair, path)) in counts.iter_mut().zip(pairs.iter().zip(&paths)) {
                *count += u64::from(heard(pair, path, after).await);
            }
            tries += 1;
        }
        let [stock, smooth] = counts;
        println!("of {tries} closes the server heard {smooth} with the gate and {stock} without");
        assert!(smooth + tries / 4 >= stock, "{smooth} and {stock} of {tries}");
    });
}

/// The last words after a transfer, when nothing is in the way: all of them.
#[test]
fn a_close_at_the_end_is_always_heard() {
    run(async {
        let pair = Pair::smooth();
        for _ in 0..10 {
            let (client, server) = pair.connect(pair.direct()).await;
            let mut stream = client.open_uni().await.unwrap();
            stream.write_all(&[0x55; 100_000]).await.unwrap();
            stream.finish().unwrap();
            stream.stopped().await.unwrap();
            client.close(7u32.into(), &[b'x'; 600]);
            let ConnectionError::ApplicationClosed(close) = server.closed().await else {
                panic!("not heard")
            };
            assert_eq!((close.error_code, close.reason.len()), (7u32.into(), 600));
        }
    });
}
