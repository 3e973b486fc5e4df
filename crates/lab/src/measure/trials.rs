//! The trials: rounds of `doctor`, a sender that is stopped, and a sender beside a CPU hog.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::figures::{Bar, Figures};

/// The command under measurement.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
}

/// A paced stream as both ends saw it.
pub(super) struct Stream {
    pub(super) sent: Value,
    pub(super) received: Value,
}

impl Program {
    pub(super) fn at(path: PathBuf) -> Result<Self> {
        ensure!(path.exists(), "{} was not built", path.display());
        Ok(Program { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds `rounds` quiet rounds, if they are to be had in three times as many tries.
    pub(super) fn doctor_rounds(
        &self,
        rounds: usize,
        trial: &str,
        batch: usize,
        figures: &mut Figures,
    ) -> Result<()> {
        for round in 0..TRIES * rounds {
            if figures.quiet_rounds() == rounds {
                break;
            }
            let mut doctor = Command::new(&self.path);
            doctor.args(["doctor", "--json", "--duration", trial, "--echo-batch", &batch.to_string()]);
            doctor.args(["--rotate", &round.to_string(), "--idle-interval", IDLE_INTERVAL]);
            figures.add(object(doctor.stderr(Stdio::inherit()))?);
            eprintln!("echo batch {batch}: {} of {rounds} quiet rounds", figures.quiet_rounds());
        }
        Ok(())
    }

    /// SIGSTOP for 50 ms in the middle of a busy run.
    pub(super) fn stall(&self, rounds: usize) -> Result<Vec<Bar>> {
        // A stopped sender uses no time, so its stop is no interference.
        let streams = quiet(rounds, Stream::is_conclusive, || {
            self.stream(&[], BUSY, |sender| {
                pause(Duration::from_secs(1));
                signal(sender, "STOP")?;
                pause(Duration::from_millis(50));
                signal(sender, "CONT")
            })
        })?;
        // 50 ms less the 10 ms that are made up, in places of 40 µs: at least this many are given up.
        let mut bars = bursts("stopped for 50 ms", &streams);
        bars.push(Bar::at_least(
            "stopped for 50 ms: places forfeited".into(),
            900.0,
            median(&streams, |stream| stream.sent["forfeited"].as_f64()),
        ));
        bars.push(Bar::at_least(
            "stopped for 50 ms: departures counted as late by a stop".into(),
            1.0,
            median(&streams, |stream| stream.sent["late"]["stopped"]["count"].as_f64()),
        ));
        Ok(bars)
    }

    /// A process that computes on the same core.
    pub(super) fn hog(&self, rounds: usize) -> Result<Vec<Bar>> {
        let taskset = Command::new("taskset").arg("--version").stdout(Stdio::null()).status();
        let rounds = if taskset.is_ok() { rounds } else { 0 };
        if rounds == 0 {
            eprintln!("skipped: no taskset, so no hog on the same core");
        }
        let streams = quiet(rounds, Stream::has_the_host, || {
            let hog = Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn()?;
            let _hog = Killed(Some(hog));
            self.stream(&["taskset", "-c", "0"], BUSY, |_| Ok(()))
        })?;
        let mut bars = bursts("beside a hog", &streams);
        bars.push(Bar::at_least(
            "beside a hog: departures counted as late by the scheduler".into(),
            1.0,
            median(&streams, |stream| stream.sent["late"]["scheduler"]["count"].as_f64()),
        ));
        Ok(bars)
    }

    /// A run with these flags under `wrapper`, disturbed by `disturb`.
    pub(super) fn stream(
        &self,
        wrapper: &[&str],
        flags: &str,
        disturb: impl FnOnce(u32) -> Result<()>,
    ) -> Result<Stream> {
        let this = std::process::id().to_string();
        let mut receiver = Command::new(&self.path);
        receiver.args(["--with-parent", &this, "recv", "127.0.0.1:0", "--once", "--json"]);
        // If the sender never comes, somebody must notice.
        receiver.args(["--duration", "30s"]);
        let mut receiver = Killed(Some(receiver.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?));
        let stderr = receiver
            .0
            .as_mut()
            .and_then(|child| child.stderr.take())
            .context("the receiver has no stderr")?;
        let mut line = String::new();
        BufReader::new(stderr).read_line(&mut line)?;
        let Some(address) = line.trim().strip_prefix("listening on ") else {
            bail!("the receiver did not start: {line}");
        };

        let path = self.path.to_string_lossy();
        let mut words = wrapper.to_vec();
        words.extend([&*path, "--with-parent", &this, "send", address, "--json"]);
        words.extend(flags.split(' '));
        let mut sender = Command::new(words[0]);
        let sender = sender.args(&words[1..]).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
        let process = sender.id();
        let sender = Killed(Some(sender));
        disturb(process)?;
        let sent = read(sender.release().context("the sender is gone")?)?;
        let received = read(receiver.release().context("the receiver is gone")?)?;
        Ok(Stream { sent, received })
    }
}

impl Stream {
    /// Nobody took time from either end.
    pub(super) fn is_conclusive(&self) -> bool {
        self.sent["inconclusive"].is_null() && self.received["inconclusive"].is_null()
    }

    /// The host took no time; other programs may have, where one is part of the trial.
    pub(super) fn has_the_host(&self) -> bool {
        [&self.sent, &self.received]
            .iter()
            .all(|end| end["machine"]["steal_share"].as_f64().is_none_or(|share| share <= MOST_STEAL))
    }
}

/// Makes streams until `rounds` of them are quiet. If three times as many tries do not yield them,
/// there are none: some would be those that chance had spared.
pub(crate) fn quiet<T>(
    rounds: usize,
    is_quiet: fn(&T) -> bool,
    mut make: impl FnMut() -> Result<T>,
) -> Result<Vec<T>> {
    let mut streams = Vec::new();
    for _ in 0..TRIES * rounds {
        let stream = make()?;
        if is_quiet(&stream) {
            streams.push(stream);
        }
        if streams.len() == rounds {
            return Ok(streams);
        }
    }
    eprintln!("only {} of {rounds} rounds were quiet", streams.len());
    Ok(Vec::new())
}

fn bursts(what: &str, streams: &[Stream]) -> Vec<Bar> {
    // The receiver's own interrupts can bring two stamps together; more would be the sender's doing.
    vec![
        Bar::at_most(
            format!("{what}: longest burst, sender's"),
            1.0,
            median(streams, |stream| stream.sent["longest_burst"].as_f64()),
        ),
        Bar::at_most(
            format!("{what}: longest burst, receiver's"),
            2.0,
            median(streams, |stream| stream.received["longest_burst"].as_f64()),
        ),
    ]
}

pub(crate) fn median<T>(streams: &[T], figure: impl Fn(&T) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = streams.iter().filter_map(figure).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

pub(super) fn object(command: &mut Command) -> Result<Value> {
    read(command.stdout(Stdio::piped()).spawn()?)
}

fn read(child: Child) -> Result<Value> {
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "a trial ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("a trial printed no object")
}

pub(crate) fn signal(process: u32, name: &str) -> Result<()> {
    let status = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status()?;
    ensure!(status.success(), "SIG{name} could not be sent");
    Ok(())
}

/// Waits: what is measured here is what happens meanwhile.
pub(crate) fn pause(time: Duration) {
    let (_never, wait) = std::sync::mpsc::channel::<()>();
    let _ = wait.recv_timeout(time);
}

/// A child that does not outlive its trial.
#[derive(Debug)]
pub(crate) struct Killed(pub(crate) Option<Child>);

impl Killed {
    /// The child itself, which is about to end by itself.
    fn release(mut self) -> Option<Child> {
        self.0.take()
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A busy run of three seconds.
const BUSY: &str = "--interval 40us --duration 3s --busy echo";
/// Tries for each round that is wanted.
const TRIES: usize = 3;
/// Well above the cost of a wake-up, so that sleeping can work: what the bars are about.
const IDLE_INTERVAL: &str = "120us";

/// As the command's own reports have it.
const MOST_STEAL: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stream(inconclusive: Option<&str>, steal: f64) -> Stream {
        let end = json!({ "inconclusive": inconclusive, "machine": { "steal_share": steal } });
        Stream { sent: end.clone(), received: end }
    }

    #[test]
    fn noisy_streams_are_repeated_up_to_a_limit() {
        let mut made = 0;
        let mut every = |nth: usize, rounds: usize| {
            made = 0;
            let streams = quiet(rounds, Stream::is_conclusive, || {
                made += 1;
                Ok(stream((made % nth != 0).then_some("busy"), 0.0))
            });
            (streams.unwrap().len(), made)
        };
        assert_eq!(every(1, 5), (5, 5));
        assert_eq!(every(3, 5), (5, 15));
        assert_eq!(every(4, 5), (0, 15), "too few are none");
        assert_eq!(every(1, 0), (0, 0));
    }

    #[test]
    fn beside_a_hog_only_the_host_disturbs() {
        let hog = stream(Some("other programs used 50.0% of the processors' time"), 0.01);
        assert!(hog.has_the_host() && !hog.is_conclusive());
        let stolen = stream(Some("the host took 9.0% of the processors' time"), 0.09);
        assert!(!stolen.has_the_host());
        assert!(stream(None, 0.0).is_conclusive());
        assert_eq!(median::<Stream>(&[], |_| Some(1.0)), None);
    }
}
