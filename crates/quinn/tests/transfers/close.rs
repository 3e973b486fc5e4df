//! Closing, with and without the gate.

use std::time::Duration;

use quinn::ConnectionError;
use softtimers_wan::{Bottleneck, PathConfig, Queue};

use crate::harness::{Pair, Path, run, size};

/// Of so many connections that are closed in the middle of a transfer, the ones whose close the server heard.
async fn heard(pair: &Pair, tries: u64) -> u64 {
    let link = PathConfig::default()
        .bottleneck(Bottleneck::bits_per_second(50_000_000).unwrap())
        .queue(Queue::packets(40))
        .delay(Duration::from_millis(5));
    let path = Path::to(&pair.server, link);
    let mut heard = 0;
    for attempt in 0..tries {
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
        // Anywhere within some round trips.
        tokio::time::sleep(Duration::from_millis(20 + 120 * attempt / tries)).await;
        client.close(7u32.into(), b"enough");
        let closed = tokio::time::timeout(Duration::from_millis(250), server.closed()).await;
        heard += u64::from(
            matches!(closed, Ok(ConnectionError::ApplicationClosed(close)) if close.error_code == 7u32.into()),
        );
        assert!(task.await.unwrap().is_err());
    }
    heard
}

/// quinn sends no close while congestion control has no room (quinn#2785), so neither hears all of them.
#[test]
fn a_close_in_the_middle_is_heard_as_often_as_with_stock() {
    run(async {
        let tries = size(24, 240);
        let stock = heard(&Pair::stock(), tries).await;
        let smooth = heard(&Pair::smooth(), tries).await;
        println!("of {tries} closes the server heard {smooth} with the gate and {stock} without");
        assert!(smooth + tries / 4 >= stock, "{smooth} and {stock}");
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
