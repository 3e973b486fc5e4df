//! A runtime that ends in the middle of it.

use std::time::Duration;

use crate::harness::Pair;

/// quinn's tasks hold locks while they poll timers: a timer that panicked would end the process.
#[test]
fn a_runtime_that_ends_under_load_ends() {
    for _ in 0..10 {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
        runtime.block_on(async {
            let pair = Pair::smooth();
            for _ in 0..8 {
                let (client, server) = pair.connect(pair.direct()).await;
                tokio::spawn(async move {
                    let mut stream = client.open_uni().await?;
                    stream.write_all(&[0x55; 1 << 20]).await
                });
                tokio::spawn(async move {
                    let mut stream = server.accept_uni().await?;
                    while let Ok(Some(_)) = stream.read_chunk(1 << 20, true).await {}
                    Ok::<_, quinn::ConnectionError>(())
                });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        });
        drop(runtime);
    }
}
