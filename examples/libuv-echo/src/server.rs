//! The C program: its source from the distribution, the patches, the compiler, and a running server.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use example_harness::Sorted;
use example_harness::trial::Done;
use softtimers::{Clock, Monotonic};

const PACKAGE: &str = "libuv1=1.44.2-1+deb12u1";
const PROGRAM: &str = "libuv1-1.44.2/docs/code/tcp-echo-server/main.c";
const SCRIPT: &str = include_str!("../source.sh");
const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/capi/include");
/// The time that an answer should take.
pub(crate) const SERVICE: Duration = Duration::from_micros(250);

/// The timer that delays an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    Uv,
    Soft,
}

impl Timer {
    pub(crate) const ALL: [Timer; 2] = [Timer::Uv, Timer::Soft];

    pub(crate) fn name(self) -> &'static str {
        if self == Timer::Uv { "uv_timer, 1 ms" } else { "softtimers.h, 250 µs" }
    }

    fn patch(self) -> &'static str {
        match self {
            Timer::Uv => concat!(env!("CARGO_MANIFEST_DIR"), "/uv-timer.patch"),
            Timer::Soft => concat!(env!("CARGO_MANIFEST_DIR"), "/softtimers.patch"),
        }
    }
}

/// Fetches the source, and builds a server with each timer.
///
/// # Errors
/// A line with the reason, where the source is not available, or a tool is missing.
pub(crate) fn build() -> Done<Vec<(Timer, PathBuf)>> {
    let place = std::env::current_exe()?.with_extension("build");
    fs::create_dir_all(&place)?;
    let source = place.join(PROGRAM);
    if !source.exists() {
        let fetch = ["--kill-after=5", "90", "sh", "-c", SCRIPT, "source.sh", PACKAGE];
        run(Command::new("timeout").args(fetch).current_dir(&place))?;
    }
    let flags = run(Command::new("pkg-config").args(["--cflags", "--libs", "libuv"]))?;
    let library = library()?;
    let build = |timer: Timer| {
        let (patched, program) = (place.join(format!("{timer:?}.c")), place.join(format!("{timer:?}")));
        let mut patch = Command::new("patch");
        run(patch.arg("--quiet").arg("--output").args([&patched, &source]).arg(timer.patch()))?;
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-I", HEADER, "-o"]).args([&program, &patched, &library]);
        run(compiler.args(flags.split_whitespace()).args(["-lpthread", "-lm", "-ldl"]))?;
        Ok((timer, program))
    };
    Timer::ALL.into_iter().map(build).collect()
}

/// Finds the C library that was built with this program: beside it, or below.
fn library() -> Done<PathBuf> {
    let program = std::env::current_exe()?;
    let beside = program.parent().ok_or("this program is nowhere")?;
    let places = [beside.join("libsofttimers_capi.a"), beside.join("deps/libsofttimers_capi.a")];
    places
        .into_iter()
        .find(|place| place.is_file())
        .ok_or_else(|| "libsofttimers_capi.a was not built".into())
}

/// Returns the output of a command, or its last error message as an error.
fn run(command: &mut Command) -> Done<String> {
    let name = Path::new(command.get_program()).display().to_string();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
    Err(format!("{name}: {}: {said}", output.status).into())
}

/// A server that runs until this is dropped, and a connection to it.
pub(crate) struct Server {
    child: Child,
    stream: TcpStream,
}

impl Server {
    pub(crate) fn start(program: &Path) -> Done<Self> {
        let address: SocketAddr = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let words = [u128::from(address.port()), SERVICE.as_micros()].map(|word| word.to_string());
        let mut child = Command::new(program).args(words).stdin(Stdio::null()).spawn()?;
        let give_up = Monotonic.now() + Duration::from_secs(20);
        let stream = loop {
            match TcpStream::connect(address) {
                Ok(stream) => break stream,
                Err(error) if Monotonic.now() > give_up || child.try_wait()?.is_some() => {
                    let _ = child.kill();
                    child.wait()?;
                    return Err(error.into());
                }
                Err(_) => std::thread::yield_now(),
            }
        };
        stream.set_nodelay(true)?;
        Ok(Server { child, stream })
    }

    /// Sends one request after another for this time; returns how long each answer took.
    pub(crate) fn ask(&mut self, time: Duration) -> Done<Sorted> {
        let (mut answers, end) = (Sorted::default(), Monotonic.now() + time);
        let (question, mut answer) = ([7; 64], [0; 64]);
        loop {
            let asked = Monotonic.now();
            if asked > end && !answers.is_empty() {
                return Ok(answers);
            }
            self.stream.write_all(&question)?;
            self.stream.read_exact(&mut answer)?;
            if answer != question {
                return Err("an answer is not the question".into());
            }
            answers.add_lateness(asked, Monotonic.now());
        }
    }

    /// Returns the server's CPU time so far, if the kernel reports it.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.child.id())).ok()?;
        Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
