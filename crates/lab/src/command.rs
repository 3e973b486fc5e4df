//! The command `softtimers` as it was built, and other programs beside it: [`Program`], [`Killed`].

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The command under measurement.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
}

/// A paced stream as both ends saw it.
#[derive(Debug)]
pub struct Stream {
    /// The sender's object.
    pub sent: Value,
    /// The receiver's.
    pub received: Value,
}

impl Program {
    /// Builds the command as users do, once for this process, and finds it.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The command with these words, to end with this process.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(["--with-parent", &std::process::id().to_string()]).args(words).stdin(Stdio::null());
        command
    }

    /// A run of `send` with these flags under `wrapper`, to a `recv` of its own, disturbed by `disturb`.
    ///
    /// # Errors
    /// If either end does not start, or ends badly.
    pub fn stream(
        &self,
        wrapper: &[&str],
        flags: &str,
        disturb: impl FnOnce(u32) -> Result<()>,
    ) -> Result<Stream> {
        // If the sender never comes, somebody must notice.
        let mut receiver = self.command(&["recv", "127.0.0.1:0", "--once", "--json", "--duration", "30s"]);
        let (receiver, line) = announced(&mut receiver)?;
        let Some(address) = line.strip_prefix("listening on ") else {
            bail!("the receiver did not start: {line}")
        };
        let (path, this) = (self.path.to_string_lossy(), std::process::id().to_string());
        let mut words = wrapper.to_vec();
        words.extend([&*path, "--with-parent", &this, "send", address, "--json"]);
        words.extend(flags.split(' '));
        let mut sender = Command::new(words[0]);
        let sender = sender.args(&words[1..]).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
        let process = sender.id();
        let sender = Killed::from(sender);
        disturb(process)?;
        Ok(Stream { sent: sender.object()?, received: receiver.object()? })
    }
}

impl Stream {
    /// Why it proves nothing, if either end says so.
    pub fn inconclusive(&self) -> Option<&str> {
        [&self.sent, &self.received].into_iter().find_map(|end| end["inconclusive"].as_str())
    }
}

/// A child that does not outlive its trial.
#[derive(Debug)]
pub struct Killed(Option<Child>);

impl From<Child> for Killed {
    fn from(child: Child) -> Self {
        Killed(Some(child))
    }
}

impl Killed {
    /// The child.
    ///
    /// # Errors
    /// None: it is there until it is released.
    pub fn child(&mut self) -> Result<&mut Child> {
        self.0.as_mut().context("it is still there")
    }

    /// The number of its process.
    ///
    /// # Errors
    /// As [`child`](Self::child).
    pub fn id(&self) -> Result<u32> {
        Ok(self.0.as_ref().context("it is still there")?.id())
    }

    /// Waits for its end: what it wrote, and on stderr.
    ///
    /// # Errors
    /// If it ended badly.
    pub fn output(mut self) -> Result<Vec<u8>> {
        let output = self.0.take().context("it is still there")?.wait_with_output()?;
        let talk = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "a trial ended with {}: {}", output.status, talk.trim());
        Ok(output.stdout)
    }

    /// The same, as an object.
    ///
    /// # Errors
    /// If it ended badly, or printed no object.
    pub fn object(self) -> Result<Value> {
        serde_json::from_slice(&self.output()?).context("a trial printed no object")
    }

    /// Asks it to end, and waits for its object.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn ended(self) -> Result<Value> {
        signal(self.id()?, "TERM")?;
        self.object()
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

/// Starts a program, and waits for its first line on stderr.
///
/// # Errors
/// If it does not start.
pub fn announced(command: &mut Command) -> Result<(Killed, String)> {
    let mut child = Killed::from(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
    let stderr = child.child()?.stderr.take().context("piped")?;
    let mut line = String::new();
    BufReader::new(stderr).read_line(&mut line)?;
    Ok((child, line.trim().to_owned()))
}

/// A program that computes on the first CPU, until it is dropped; `None` where `taskset` is missing.
///
/// # Errors
/// If it does not start.
pub fn hog() -> Result<Option<Killed>> {
    if !works(Command::new("taskset").arg("--version")) {
        return Ok(None);
    }
    let hog = Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn()?;
    Ok(Some(hog.into()))
}

/// Sends a signal.
///
/// # Errors
/// If it cannot be sent.
pub fn signal(process: u32, name: &str) -> Result<()> {
    let status = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status()?;
    ensure!(status.success(), "SIG{name} could not be sent");
    Ok(())
}

/// Waits: what is measured here is what happens meanwhile.
pub fn pause(time: Duration) {
    let (_never, wait) = std::sync::mpsc::channel::<()>();
    let _ = wait.recv_timeout(time);
}

/// The root of the sources.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Where cargo builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// `cargo` in the sources.
pub fn cargo(words: &[&str]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(words).current_dir(root()).stdin(Stdio::null()).env("CARGO_TERM_COLOR", "never");
    cargo
}

/// Builds one program as users do; where it is.
///
/// # Errors
/// If it does not build.
pub fn build(words: &[&str], name: &str) -> Result<PathBuf> {
    let status = cargo(&["build", "--release"]).args(words).status().context("cargo")?;
    ensure!(status.success(), "{} does not build", words.join(" "));
    Ok(target().join("release").join(name))
}

/// What a program writes to its standard output.
///
/// # Errors
/// If it does not start, or ends badly.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::piped()).output().with_context(|| format!("{command:?}"))?;
    let talk = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {}", output.status, talk.trim());
    Ok(String::from_utf8(output.stdout)?)
}

/// Whether a program starts and ends well; what it writes is thrown away.
pub fn works(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
