//! The built command `softtimers`, and other programs: [`Program`], [`Killed`].

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// The command to measure.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// Builds the command as users do, once per process, and finds it.
    ///
    /// # Errors
    /// If it does not build.
    pub fn build() -> Result<Self> {
        static BUILT: OnceLock<PathBuf> = OnceLock::new();
        if let Some(path) = BUILT.get() {
            return Ok(Program { path: path.clone() });
        }
        let path = build(&["--package", "softtimers-cli", "--bin", "softtimers"], "softtimers")?;
        Ok(Program { path: BUILT.get_or_init(|| path).clone() })
    }

    /// Returns the directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the command with these words, set to end with this process.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(["--with-parent", &std::process::id().to_string()]).args(words).stdin(Stdio::null());
        command
    }

    /// Runs `send` with these flags under `wrapper`, to its own `recv`, while `disturb` runs; returns the objects of
    /// both, `sent` and `received`.
    ///
    /// # Errors
    /// If either end does not start, or fails.
    pub fn stream(
        &self,
        wrapper: &[&str],
        flags: &str,
        disturb: impl FnOnce(u32) -> Result<()>,
    ) -> Result<Value> {
        // If the sender never comes, the receiver must end by itself.
        let mut receiver = self.command(&["recv", "127.0.0.1:0", "--once", "--json", "--duration", "30s"]);
        let (receiver, address) = announced(&mut receiver, "listening on ")?;
        let (path, this) = (self.path.to_string_lossy(), std::process::id().to_string());
        let mut words = wrapper.to_vec();
        words.extend([&*path, "--with-parent", &this, "send", &address, "--json"]);
        words.extend(flags.split(' '));
        let sender = start(Command::new(words[0]).args(&words[1..]))?;
        disturb(sender.id())?;
        Ok(json!({ "sent": sender.object()?, "received": receiver.object()? }))
    }

    /// Returns the object that the command prints for these words.
    ///
    /// # Errors
    /// If it fails, or prints none.
    pub fn object(&self, words: &str) -> Result<Value> {
        start(&mut self.command(&words.split(' ').collect::<Vec<_>>()))?.object()
    }
}

/// A child that does not outlive its trial.
#[derive(Debug)]
pub struct Killed {
    child: Child,
    /// Reads its stderr, so that a full pipe does not stop it.
    talk: Option<JoinHandle<String>>,
}

impl Killed {
    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the program is still running.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn runs(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Closes its stdin and waits for its end; returns its output, and its text on stderr.
    ///
    /// # Errors
    /// If it failed.
    pub fn output(mut self) -> Result<(Vec<u8>, String)> {
        drop(self.child.stdin.take());
        let mut output = Vec::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_end(&mut output)?;
        }
        let status = self.child.wait()?;
        let talk = self.talk.take().and_then(|talk| talk.join().ok()).unwrap_or_default();
        ensure!(status.success(), "a trial ended with {status}: {}", talk.trim());
        Ok((output, talk))
    }

    /// Waits for its end, and returns its object.
    ///
    /// # Errors
    /// If it failed, or printed no object.
    pub fn object(self) -> Result<Value> {
        serde_json::from_slice(&self.output()?.0).context("a trial printed no object")
    }

    /// Asks it to end, and returns its object.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn ended(self) -> Result<Value> {
        signal(self.id(), "TERM")?;
        self.object()
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a program that is killed when this is dropped.
///
/// # Errors
/// If it does not start.
pub fn start(command: &mut Command) -> Result<Killed> {
    Ok(announced(command, "")?.0)
}

/// Starts a program, and waits until it has printed these words on stderr; also returns the remainder of their line.
/// Without words it does not wait.
///
/// # Errors
/// If it does not start, or ends without them.
pub fn announced(command: &mut Command, words: &str) -> Result<(Killed, String)> {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = Killed { child: child.with_context(|| format!("{command:?}"))?, talk: None };
    let mut stderr = BufReader::new(child.child.stderr.take().context("piped")?);
    let (mut line, mut all) = (String::new(), String::new());
    while !line.contains(words) {
        all += &std::mem::take(&mut line);
        ensure!(stderr.read_line(&mut line)? > 0, "it did not begin: {}", all.trim());
    }
    let told = line.split_once(words).map_or("", |(_, rest)| rest).trim().to_owned();
    child.talk = Some(std::thread::spawn(move || {
        let mut rest = String::new();
        let _ = stderr.read_to_string(&mut rest);
        rest
    }));
    Ok((child, told))
}

/// Starts a program that computes on the first CPU, until it is dropped; `None` where `taskset` is missing.
///
/// # Errors
/// If it does not start.
pub fn hog() -> Result<Option<Killed>> {
    if !works(Command::new("taskset").arg("--version")) {
        return Ok(None);
    }
    start(Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"])).map(Some)
}

/// Sends a signal to a process.
///
/// # Errors
/// If it cannot be sent.
pub fn signal(process: u32, name: &str) -> Result<()> {
    let status = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status()?;
    ensure!(status.success(), "SIG{name} could not be sent");
    Ok(())
}

/// Waits while something is measured.
pub fn pause(time: Duration) {
    let (_never, wait) = std::sync::mpsc::channel::<()>();
    let _ = wait.recv_timeout(time);
}

/// Returns the root of the sources.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the directory that cargo builds in.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns `cargo` in the sources.
pub fn cargo(words: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(words).current_dir(root()).stdin(Stdio::null()).env("CARGO_TERM_COLOR", "never");
    cargo
}

/// Builds one program as users do, and returns its path.
///
/// # Errors
/// If it does not build.
pub fn build(words: &[&str], name: &str) -> Result<PathBuf> {
    let status = cargo(&["build", "--release"]).args(words).status().context("cargo")?;
    ensure!(status.success(), "{} does not build", words.join(" "));
    Ok(target().join("release").join(name))
}

/// Runs a program, and returns its standard output.
///
/// # Errors
/// If it does not start, or fails.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::piped()).output().with_context(|| format!("{command:?}"))?;
    let talk = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {}", output.status, talk.trim());
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns whether a program starts and succeeds; its output is discarded.
pub fn works(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
