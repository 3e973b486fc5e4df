//! A server in another process on its processor: [`Contender`], [`Running`].

use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use softtimers_lab::server::engine::ServerStats;
use softtimers_measure::processor::Processor;

/// Who serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contender {
    Epoll,
    /// Without ever sleeping.
    Spin,
    /// With this quota.
    Polled(u32),
    /// One for each connection.
    Processes,
}

impl Contender {
    pub(crate) fn name(self) -> String {
        match self {
            Contender::Epoll => "epoll".to_owned(),
            Contender::Spin => "epoll, never asleep".to_owned(),
            Contender::Polled(quota) => format!("polled, quota {quota}"),
            Contender::Processes => "a process a connection".to_owned(),
        }
    }

    /// Starts it on `processor` for so many connections and with so many microseconds of work for each answer, at `ports`
    /// ports of as many addresses.
    pub(crate) fn start(
        self,
        processor: Processor,
        ports: u8,
        (connections, work): (usize, u64),
    ) -> Result<Running, Box<dyn Error>> {
        let addresses: Vec<String> = (1..=ports).map(|number| format!("127.0.0.{number}:0")).collect();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--parent", &std::process::id().to_string(), "--serve", &addresses.join(",")]);
        command.args(["--work", &work.to_string()]);
        match self {
            Contender::Epoll => {}
            Contender::Spin => _ = command.arg("--spin"),
            Contender::Polled(quota) => _ = command.args(["--quota", &quota.to_string()]),
            Contender::Processes => _ = command.args(["--processes", &connections.to_string()]),
        }
        let kept = processor.keep()?;
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        drop(kept);
        let mut running = Running { child: child?, addresses: Vec::new() };
        let mut line = String::new();
        if let Some(stderr) = running.child.stderr.take() {
            BufReader::new(stderr).read_line(&mut line)?;
        }
        let listed = line.trim().strip_prefix("listening on ");
        let listed = listed.ok_or_else(|| format!("{}: {:?}", self.name(), line.trim()))?;
        running.addresses = listed.split(',').map(str::parse).collect::<Result<_, _>>()?;
        Ok(running)
    }
}

/// A server that ends when this does.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Running {
    /// Ends it, and says what it did; processes do not.
    pub(crate) fn end(mut self) -> Result<Option<ServerStats>, Box<dyn Error>> {
        drop(self.child.stdin.take());
        let mut text = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_string(&mut text)?;
        }
        let status = self.child.wait()?;
        if !status.success() {
            return Err(format!("a server ended with {status}").into());
        }
        if text.trim().is_empty() { Ok(None) } else { Ok(Some(serde_json::from_str(&text)?)) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail for one that has ended and been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
