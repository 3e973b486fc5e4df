//! A file over HTTP/3 through a short queue, from a server of h3 on quinn: paced by quinn, and by
//! softtimers-quinn.
//!
//! Server, client and cryptography are as published; the path is this project's, in real time, on loopback:
//!
//! ```text
//!   client, h3 ◀── delay ◀── link ▐ queue ◀── relay ◀── file server, h3
//! ```

mod client;
mod files;
mod path;

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use example_harness::Spacing;
use example_harness::trial::{Done, Software, Trial};
use files::By;
use path::Path;
use quinn::ServerConfig;
use softtimers_measure::usage::Usage;
use softtimers_trials::result::Table;
use softtimers_wan::Counters;
use tokio::sync::oneshot;

const FIGURES: [(&str, usize); 5] = [
    ("goodput Mbit/s", 1),
    ("drops %", 2),
    ("back to back %", 1),
    ("longest burst", 0),
    ("CPU µs a packet", 2),
];
const SOFTWARE: Software = Software::new(
    "h3 0.0.8 on quinn 0.11",
    "[quinn #2627](https://github.com/quinn-rs/quinn/issues/2627): bursts meet short queues, and tokio's timers are a millisecond",
    include_str!("files.rs"),
);
const FILE: &str = "film";

/// A folder with the file, until it is dropped.
struct Folder {
    path: PathBuf,
    content: Vec<u8>,
}

impl Folder {
    /// Creates a file of the size that the link carries in this time.
    fn new(time: Duration) -> Done<Self> {
        let content = 0..(path::RATE as f64 / 8.0 * time.as_secs_f64()) as usize;
        let content: Vec<u8> = content.map(|at| (at / 7) as u8).collect();
        let path = std::env::temp_dir().join(format!("http3-files-{}-{}", std::process::id(), content.len()));
        fs::create_dir_all(&path)?;
        fs::write(path.join(FILE), &content)?;
        Ok(Folder { path, content })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The results of a download.
struct Transfer {
    took: Duration,
    /// The server's CPU time.
    cpu: Duration,
    path: Counters,
    spacing: Spacing,
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Serves until it is told to stop; returns the CPU time.
fn serve(
    by: By,
    config: ServerConfig,
    folder: &Folder,
    say: &mpsc::Sender<std::net::SocketAddr>,
    stop: oneshot::Receiver<()>,
) -> Done<Duration> {
    let before = Usage::now();
    runtime()?.block_on(async {
        let endpoint = by.listen(config, (Ipv4Addr::LOCALHOST, 0).into())?;
        say.send(endpoint.local_addr()?)?;
        tokio::select! {
            () = files::serve(endpoint, Arc::from(folder.path.as_path())) => {}
            _ = stop => {}
        }
        Done::Ok(())
    })?;
    Ok(Usage::now().since(&before).cpu)
}

fn transfer(by: By, folder: &Folder) -> Done<Transfer> {
    let (client, server) = client::configs()?;
    let ((say, hear), (stop, stopped)) = (mpsc::channel(), oneshot::channel());
    thread::scope(|scope| {
        let serving =
            scope.spawn(move || serve(by, server, folder, &say, stopped).map_err(|error| error.to_string()));
        let through = Path::to(hear.recv_timeout(Duration::from_secs(20))?)?;
        let downloaded = runtime()?.block_on(client::download(through.address, client, FILE));
        let _ = stop.send(());
        let cpu = serving.join().map_err(|_| "the server has panicked")??;
        let (path, spacing) = through.finish()?;
        let (bytes, took) = downloaded.map_err(|error| error.to_string())?;
        if bytes == folder.content {
            Ok(Transfer { took, cpu, path, spacing })
        } else {
            Err("it is another file".into())
        }
    })
}

fn run(trial: &Trial) -> Done<Vec<Table>> {
    let folder = Folder::new(trial.time)?;
    let measured = trial.contest(&[()], &mut By::ALL.to_vec(), |(), by, round| {
        let Transfer { took, cpu, path, spacing } = transfer(*by, &folder)?;
        let packets = path.offered.max(1) as f64;
        let figures = [
            folder.content.len() as f64 * 8e-6 / took.as_secs_f64(),
            100.0 * path.queue_drops as f64 / packets,
            spacing.back_to_back_percent(),
            spacing.longest_burst as f64,
            cpu.as_secs_f64() * 1e6 / packets,
        ];
        FIGURES.iter().zip(figures).for_each(|((name, _), figure)| round.put(by.name(), name, figure));
        Done::Ok(())
    })?;
    let both = By::ALL.map(|by| by.name().to_owned());
    let table = Table::of("http3-files", &measured, both.iter(), &FIGURES);
    let lines = [(0, "goodput at 100 Mbit/s, Mbit/s"), (1, "packets dropped by a queue of 20, %")];
    let lines = lines.map(|(figure, said)| (said.to_owned(), FIGURES[figure].0, both.clone()));
    Ok(vec![table, SOFTWARE.summary(&measured, FIGURES[4].0, &lines)])
}

fn main() -> Done {
    let trial = Trial::asked()?;
    trial.show("http3-files", run(&trial)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file arrives complete either way, through a queue that drops packets.
    #[test]
    fn the_file_arrives() {
        let text = run(&Trial::short()).unwrap()[0].markdown(&[], |_| true).unwrap();
        assert!(By::ALL.iter().all(|by| text.contains(by.name())), "{text}");
    }
}
