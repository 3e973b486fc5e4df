//! A server in another process on its CPU, under load: [`Contender`].

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::time::Duration;

use softtimers_lab::bench::Done;
use softtimers_lab::server::FILE;
use softtimers_lab::server::client::Answered;
use softtimers_lab::server::engine::{Engine, Looking, ServerStats};
use softtimers_lab::server::processes;
use softtimers_lab::server::request::Site;
use softtimers_measure::child;
use softtimers_measure::ticks::Ticks;
use softtimers_trials::command::announced;
use softtimers_trials::paired::Round;

use super::{Effort, beside};

/// The measured server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contender {
    Epoll,
    /// Busy-polls, and never sleeps.
    Spin,
    /// Polls with this quota.
    Polled(u32),
    /// A process for each connection.
    Processes,
}

/// Connections, and microseconds of work for each answer.
pub(crate) type Load = (usize, u64);

pub(crate) const RATE: &str = "kreq/s";
pub(crate) const BUSY: &str = "busy";

impl Contender {
    pub(crate) fn name(self) -> String {
        match self {
            Contender::Epoll => "epoll".to_owned(),
            Contender::Spin => "epoll, never asleep".to_owned(),
            Contender::Polled(quota) => format!("polled, quota {quota}"),
            Contender::Processes => "a process a connection".to_owned(),
        }
    }

    /// Runs a trial, and records its figures in this row: the server at `ports` ports of as many addresses, and the
    /// load by `clients`. Processes do not report what they did.
    pub(crate) fn trial(
        self,
        effort: &Effort,
        ports: u8,
        (connections, work): Load,
        (round, row): (&mut Round, &str),
        clients: impl FnOnce(&[SocketAddr]) -> io::Result<Answered>,
    ) -> Done<(Answered, Option<ServerStats>)> {
        let [here, there] = effort.processors;
        let addresses: Vec<String> = (1..=ports).map(|number| format!("127.0.0.{number}:0")).collect();
        let (kind, number) = match self {
            Contender::Epoll => ("epoll", 0),
            Contender::Spin => ("spin", 0),
            Contender::Polled(quota) => ("polled", quota as usize),
            Contender::Processes => ("processes", connections),
        };
        let words = [kind, &number.to_string(), &work.to_string(), &addresses.join(",")];
        let kept = here.keep()?;
        let mut command = child::command()?;
        let (server, addresses) = announced(command.args(words).stdin(Stdio::piped()), "listening on ")?;
        drop(kept);
        let addresses: Vec<SocketAddr> = addresses.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let kept = there.keep()?;
        let before = Ticks::now(Some(here.number()));
        let answered = clients(&addresses)?;
        let after = Ticks::now(Some(here.number()));
        drop(kept);
        let busy = before.zip(after).and_then(|(before, after)| {
            // Everything that ran there: programs, the kernel, interrupts; and the host, which kept the CPU from all of
            // them.
            let passed = after.since(before);
            passed.share(passed.all() - passed.idle)
        });
        let micros = |q| answered.latency.quantile(q).map(|nanos| nanos as f64 / 1e3);
        round.put(row, RATE, answered.rate() / 1e3);
        round.put(row, "p50 µs", micros(0.5));
        round.put(row, "p99 µs", micros(0.99));
        round.put(row, BUSY, busy);
        round.put(row, "errors", answered.errors as f64);
        let (told, _) = server.output()?;
        let stats = if told.trim_ascii().is_empty() { None } else { Some(serde_json::from_slice(&told)?) };
        Ok((answered, stats))
    }
}

/// The server: serves at these addresses until stdin ends, and then reports what it did.
pub(crate) fn serve(words: &[&str]) -> Done {
    if let Some(done) = beside::child(words) {
        return done;
    }
    let site = |work: &str| Done::Ok(Site::from_file(&FILE).with_work(Duration::from_micros(work.parse()?)));
    let (kind, number, work, addresses) = match *words {
        ["one", work] => return Ok(processes::serve(&site(work)?)?),
        [kind, number, work, addresses] => (kind, number, work, addresses),
        _ => return Err("what is to be served?".into()),
    };
    let listeners: Vec<TcpListener> =
        addresses.split(',').map(TcpListener::bind).collect::<Result<_, _>>()?;
    let addresses = listeners.iter().map(|listener| Ok(listener.local_addr()?.to_string()));
    let addresses = addresses.collect::<io::Result<Vec<_>>>()?.join(",");
    let looking = match kind {
        "spin" => Looking::Spin,
        "polled" => Looking::Polled(number.parse()?),
        "suspended" => Looking::Suspended,
        "napi" => Looking::Napi(number.parse()?),
        "processes" => {
            let _processes = processes::start(number.parse()?, &listeners[0], &["one", work])?;
            eprintln!("listening on {addresses}");
            io::stdin().read_to_end(&mut Vec::new())?;
            return Ok(());
        }
        _ => Looking::Epoll,
    };
    let site = site(work)?;
    let engine = Engine::new(&site, &listeners, Some(&io::stdin()))?;
    eprintln!("listening on {addresses}");
    println!("{}", serde_json::to_string(&engine.run(looking)?)?);
    Ok(())
}
