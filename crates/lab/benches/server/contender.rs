//! A server in another process on its processor: [`Contender`], [`Running`].

use std::error::Error;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use softtimers_lab::command::{Killed, announced};
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
        let started = announced(command.stdin(Stdio::piped()));
        drop(kept);
        let (child, line) = started?;
        let listed = line.strip_prefix("listening on ");
        let listed = listed.ok_or_else(|| format!("{}: {line:?}", self.name()))?;
        Ok(Running { child, addresses: listed.split(',').map(str::parse).collect::<Result<_, _>>()? })
    }
}

/// A server that ends when this does.
#[derive(Debug)]
pub(crate) struct Running {
    child: Killed,
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Running {
    /// Ends it, and says what it did; processes do not.
    pub(crate) fn end(mut self) -> Result<Option<ServerStats>, Box<dyn Error>> {
        drop(self.child.child()?.stdin.take());
        let text = self.child.output()?;
        if text.trim_ascii().is_empty() { Ok(None) } else { Ok(Some(serde_json::from_slice(&text)?)) }
    }
}
