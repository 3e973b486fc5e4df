//! A file server and its client, both of which send evenly.
//!
//! `cargo run -p softtimers-quinn --example files [-- FILE]`

mod certificate;

use std::env;
use std::error::Error;
use std::time::Instant;

use quinn::{Connection, Endpoint, TransportConfig};
use softtimers_quinn::{SmoothRuntime, with_even_controller};

type Done = Result<(), Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Done {
    let (client_config, server_config) = certificate::for_server("files")?;
    // `server_with_transport` does the same; the runtime is kept for its counters.
    let runtime = SmoothRuntime::default();
    let server = runtime.server(
        server_config,
        with_even_controller(TransportConfig::default()),
        ([127, 0, 0, 1], 0).into(),
    )?;
    let address = server.local_addr()?;
    tokio::spawn(serve(server));

    let client = softtimers_quinn::client_with_transport(client_config, TransportConfig::default())?;
    let connection = client.connect(address, "files")?.await?;
    let (mut ask, mut answer) = connection.open_bi().await?;
    let program = env::current_exe()?.display().to_string();
    ask.write_all(env::args().nth(1).unwrap_or(program).as_bytes()).await?;
    ask.finish()?;
    #[expect(clippy::disallowed_methods, reason = "how long it took")]
    let start = Instant::now();
    let bytes = answer.read_to_end(1 << 30).await?;
    println!("{} bytes in {:?}; the server's gate: {:?}", bytes.len(), start.elapsed(), runtime.counters());
    connection.close(0u32.into(), b"thanks");
    client.wait_idle().await;
    Ok(())
}

async fn serve(server: Endpoint) -> Done {
    while let Some(incoming) = server.accept().await {
        tokio::spawn(answer(incoming.await?));
    }
    Ok(())
}

async fn answer(connection: Connection) -> Done {
    loop {
        let (mut answer, mut asked) = connection.accept_bi().await?;
        let name = String::from_utf8(asked.read_to_end(4_096).await?)?;
        answer.write_all(&std::fs::read(name)?).await?;
        answer.finish()?;
    }
}
