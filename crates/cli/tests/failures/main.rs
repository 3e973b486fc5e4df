//! The failure matrix: each command of the program among each fault. Whatever is missing, refused or broken, it ends with one
//! of its four exit codes and a line that names the cause, never by a panic, a signal that nobody sent, or not at all; and
//! what it has written is whole.
//!
//! ```text
//!   commands ╳ faults ──▶ this test, started again: limits and a filter ──exec──▶ softtimers ──▶ judged
//! ```
//!
//! The matrix takes minutes, so it runs where `SOFTTIMERS_LONG` is set, as `.ci/run` does: then a sample of each kind of
//! fault, and all of them with `SOFTTIMERS_FULL=1`. `SOFTTIMERS_RESULTS=FILE` writes the counts, for `cargo xtask full
//! failures`.

mod calls;
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod fault;
mod outcome;
mod results;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use calls::{CLONE3, DESCRIPTORS, MEMORY, OPTIONAL, PROCESS, THREAD};
use commands::{LINES, Line, Place};
use fault::Fault;
use outcome::{Bench, Case, End, Out};
use results::{Cell, Cells, How};

fn main() -> ExitCode {
    // The first one is asked for by a script that also has the second, for the program that it starts last.
    if let Ok(name) = std::env::var(common::offloads::VARIABLE) {
        return common::offloads::take_frames(&name);
    }
    if let Ok(faults) = std::env::var(fault::VARIABLE) {
        return fault::become_faulty(&faults);
    }
    let mut arguments = Arguments::from_args();
    // They wait more than they compute.
    let at_once = 4 * thread::available_parallelism().map_or(1, usize::from);
    arguments.test_threads.get_or_insert(at_once);
    let matrix = match Matrix::laid() {
        Ok(matrix) => Arc::new(matrix),
        Err(error) => {
            eprintln!("laying the matrix out: {error}");
            return ExitCode::FAILURE;
        }
    };
    let own = |line: &&Line| common::is_of_papers(line.words) == common::IS_PAPERS;
    let trials = LINES.iter().filter(own).flat_map(|line| {
        let matrix = &matrix;
        let applies = |name: &str| name != "disk" || line.words.contains("DIR/");
        FAULTS.iter().filter(move |(name, _)| applies(name)).map(move |&(name, fault)| {
            let matrix = Arc::clone(matrix);
            Trial::ignorable_test(format!("{}::{name}", line.name), move || matrix.row(line, name, fault))
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    let written = matrix.end();
    written.and(Ok(conclusion.exit_code())).unwrap_or_else(|error| {
        eprintln!("SOFTTIMERS_RESULTS: {error}");
        ExitCode::FAILURE
    })
}

/// A kind of fault, and what tries it.
type Kind = fn(&Matrix, &Line, &mut Row<'_>);

const FAULTS: &[(&str, Kind)] = &[
    ("threads", threads),
    ("stdout", stdout),
    ("hangup", hangup),
    ("descriptors", descriptors),
    ("files", files),
    ("limits", limits),
    ("memory", memory),
    ("refused", refused),
    ("killed", killed),
    ("disk", disk),
];

/// Allows no more than 3, 4, 5, … descriptors, until that is enough.
fn descriptors(matrix: &Matrix, line: &Line, row: &mut Row<'_>) {
    let mut enough = 0;
    let all: Vec<u64> = (3..64).collect();
    for &most in matrix.some_of(&all, 6, line) {
        let end = row.tries(Case::of(format!("{most} descriptors"), [Fault::Nofile(most)]));
        enough = if end == Some(End::Code(0)) { enough + 1 } else { 0 };
        if enough == if matrix.full { 3 } else { 1 } {
            return;
        }
    }
}

/// The system has no descriptor left.
fn files(matrix: &Matrix, line: &Line, row: &mut Row<'_>) {
    let all = DESCRIPTORS.iter().map(|(_, call)| call.clone()).collect();
    row.tries(Case::of("ENFILE of all", [Fault::Refused(libc::ENFILE, all)]));
    for (name, call) in matrix.some_of(DESCRIPTORS, 2, line) {
        row.tries(Case::of(format!("ENFILE of {name}"), [Fault::Refused(libc::ENFILE, vec![call.clone()])]));
    }
}

/// Allows no thread, no process, and no more than 1 to 4 of them.
fn threads(matrix: &Matrix, line: &Line, row: &mut Row<'_>) {
    for (name, call) in matrix.some_of(&[("threads", THREAD), ("processes", PROCESS)], 2, line) {
        let faults =
            [Fault::Refused(libc::ENOSYS, vec![CLONE3]), Fault::Refused(libc::EAGAIN, vec![call.clone()])];
        let causes = faults[1].causes();
        row.tries(Case { causes, ..Case::of(format!("no {name}"), faults) });
    }
    if line.place == Place::Here && matrix.bench.is_root {
        for &most in matrix.some_of(&[1, 2, 3, 4], 1, line) {
            let faults = [Fault::User(matrix.stranger()), Fault::Nproc(most)];
            row.tries(Case::of(format!("{most} threads of its user"), faults));
        }
    }
}

/// Nothing of what is limited.
fn limits(matrix: &Matrix, line: &Line, row: &mut Row<'_>) {
    for fault in matrix.some_of(&[Fault::Sigpending, Fault::Memlock], 2, line) {
        let mut faults = vec![fault.clone()];
        // Root may lock memory.
        if line.place == Place::Here && matrix.bench.is_root {
            faults.push(Fault::User(matrix.stranger()));
        }
        row.tries(Case::of(format!("{:?} 0", faults[0]), faults));
    }
}

/// The kernel has no memory for a ring.
fn memory(matrix: &Matrix, line: &Line, row: &mut Row<'_>) {
    for (name, call) in matrix.some_of(MEMORY, 2, line) {
        row.tries(Case::of(format!("ENOMEM of {name}"), [Fault::Refused(libc::ENOMEM, vec![call.clone()])]));
    }
}

/// Each system call, by rights and by an old kernel.
fn refused(matrix: &Matrix, line: &Line, row: &mut Row<'_>) {
    let both =
        calls::all().flat_map(|named| [(named, "EPERM", libc::EPERM), (named, "ENOSYS", libc::ENOSYS)]);
    let both: Vec<_> = both.collect();
    let compiles = line.words.contains("--filter ");
    for ((name, call), word, number) in matrix.some_of(&both, 6, line) {
        // Rust's runtime starts another user's process so, and panics.
        if compiles && *name == "recvfrom" {
            continue;
        }
        let mut case = Case::of(format!("{word} of {name}"), [Fault::Refused(*number, vec![call.clone()])]);
        if compiles && *name == "write" {
            // It is the compiler who cannot, and does not say so.
            case.causes.push("tcpdump has printed nothing".to_owned());
        }
        row.tries(case);
    }
}

/// System calls that a run can do without are answered by killing.
fn killed(matrix: &Matrix, line: &Line, row: &mut Row<'_>) {
    for (name, call) in matrix.some_of(OPTIONAL, 2, line) {
        row.tries(Case::of(format!("SIGSYS of {name}"), [Fault::Killed(vec![call.clone()])]));
    }
}

/// Nobody takes what it prints.
fn stdout(matrix: &Matrix, line: &Line, row: &mut Row<'_>) {
    for &out in matrix.some_of(&[Out::Closed, Out::ReaderLeft, Out::HungUp, Out::Full], 4, line) {
        let end = row.tries(Case {
            stdout: out,
            causes: vec!["No space left on device".to_owned()],
            ..Case::of(format!("stdout {out:?}"), [])
        });
        let expected = if out == Out::Full { End::Code(1) } else { End::Code(0) };
        if end.is_some_and(|end| end != expected) {
            row.problems.push(format!("stdout {out:?}: {end:?}, not {expected:?}"));
        }
    }
}

/// No room for files, and no right to have any in /tmp; only lines that are given a file have this row.
fn disk(matrix: &Matrix, _: &Line, row: &mut Row<'_>) {
    if !matrix.bench.is_root {
        row.skipped = Some("a disk that is full takes root");
        return;
    }
    let causes = ["No space left on device", "Read-only file system"].map(str::to_owned);
    for (name, prepared) in [
        // Of them two are taken: a page each.
        ("a disk of 3 pages", "mount -t tmpfs -o size=12k none DIR && LAID"),
        ("a full disk", "mount -t tmpfs -o size=8k none DIR && LAID"),
        // The directory and these three.
        ("a disk of 4 files", "mount -t tmpfs -o size=1m,nr_inodes=4 none DIR && LAID"),
        ("/tmp to read", "mount --bind DIR DIR && mount --rbind /tmp /tmp && mount -o remount,bind,ro /tmp"),
    ] {
        let prepared = prepared.replace("LAID", LAID);
        row.tries(Case { prepared: Some(prepared), causes: causes.to_vec(), ..Case::of(name, []) });
    }
}

/// Whether tests may take minutes; they do in `.ci/run`.
fn takes_long() -> bool {
    std::env::var_os("SOFTTIMERS_LONG").is_some()
}

const WITHOUT_TIME: &str = "it takes minutes; SOFTTIMERS_LONG=1 runs it";

/// The directory that a run finds, on another disk; and a reader for the pipe.
const LAID: &str =
    "chmod 777 DIR && cp KEPT/recording.csv KEPT/rules DIR && mkfifo -m 666 DIR/fifo && exec 9<>DIR/fifo";

/// SIGHUP at any time.
fn hangup(matrix: &Matrix, line: &Line, row: &mut Row<'_>) {
    for &after in matrix.some_of(&[2, 5, 10, 15, 20, 25, 30, 40, 60], 2, line) {
        let after = Duration::from_millis(after);
        row.tries(Case { hangs_up: Some(after), ..Case::of(format!("SIGHUP after {after:?}"), []) });
    }
}

/// All there is to try, and what came of it.
struct Matrix {
    bench: Bench,
    full: bool,
    /// The commands of papers send to none.
    receiver: Option<Mutex<Child>>,
    cases: AtomicUsize,
    strangers: AtomicUsize,
    /// By the command's place.
    without_fault: Vec<OnceLock<Result<End, String>>>,
    cells: Mutex<Cells>,
}

/// The results of one kind of fault.
struct Row<'a> {
    matrix: &'a Matrix,
    line: &'static Line,
    ends: &'a mut BTreeMap<End, u32>,
    problems: Vec<String>,
    skipped: Option<&'static str>,
}

impl Row<'_> {
    fn tries(&mut self, case: Case) -> Option<End> {
        let number = self.matrix.cases.fetch_add(1, Ordering::Relaxed);
        match self.matrix.bench.tried(self.line, &case, number) {
            Ok(end) => {
                *self.ends.entry(end).or_default() += 1;
                Some(end)
            }
            Err(problem) => {
                // At once: a matrix that hangs should still say where.
                eprintln!("{problem}");
                self.problems.push(problem);
                None
            }
        }
    }
}

impl Matrix {
    fn laid() -> std::io::Result<Self> {
        let directory = std::env::temp_dir().join(format!("softtimers-failures-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
        // Where users find it who may not look into this one's directories.
        let built = Path::new(common::PROGRAM);
        let program = directory.join(built.file_name().unwrap_or_default());
        fs::copy(built, &program)?;
        let (receiver, to) = if common::IS_PAPERS {
            // A report measures with the other program; without it, its sections say so.
            let tools = built.with_file_name("softtimers");
            if tools.is_file() {
                fs::copy(tools, directory.join("softtimers"))?;
            }
            (None, String::new())
        } else {
            let (receiver, to) = receiver(&program)?;
            (Some(receiver), to)
        };
        let (sink, echo) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        let addresses =
            [("TO", to), ("SINK", sink.local_addr()?.to_string()), ("ECHO", echo.local_addr()?.to_string())];
        thread::spawn(move || {
            let mut buffer = [0; 2_048];
            while let Ok(length) = sink.recv(&mut buffer) {
                std::hint::black_box(length);
            }
        });
        thread::spawn(move || {
            let mut buffer = [0; 2_048];
            loop {
                match echo.recv_from(&mut buffer) {
                    Ok((length, from)) => drop(echo.send_to(&buffer[..length], from)),
                    // Whoever asked has gone.
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                    Err(_) => return,
                }
            }
        });
        let bench = Bench { program, directory, addresses: addresses.into(), is_root: may_do_all() };
        let full = std::env::var_os("SOFTTIMERS_FULL").is_some();
        let without_fault = LINES.iter().map(|_| OnceLock::new()).collect();
        Ok(Matrix {
            bench,
            full,
            receiver: receiver.map(Mutex::new),
            cases: 0.into(),
            strangers: 0.into(),
            without_fault,
            cells: Mutex::default(),
        })
    }

    fn row(&self, line: &'static Line, name: &'static str, kind: Kind) -> Result<Completion, Failed> {
        let mut ends = BTreeMap::new();
        let done = self.tried(line, kind, &mut ends);
        let how = match &done {
            Ok(Completion::Completed) => How::Passed,
            Ok(Completion::Ignored { reason }) => How::Skipped(reason.clone().unwrap_or_default()),
            Err(_) => How::Failed,
        };
        if let Ok(mut cells) = self.cells.lock() {
            cells.insert((line.name, name), Cell { how, ends });
        }
        done
    }

    fn tried(
        &self,
        line: &'static Line,
        kind: Kind,
        ends: &mut BTreeMap<End, u32>,
    ) -> Result<Completion, Failed> {
        if line.place == Place::Network && !self.bench.is_root {
            return Ok(Completion::ignored_with("a network of its own takes root"));
        }
        if !self.full && !takes_long() {
            return Ok(Completion::ignored_with(WITHOUT_TIME));
        }
        // Only what goes well here tells of a fault.
        match self.without_fault(line)? {
            End::Code(0) => {}
            End::Code(77) => {
                return Ok(Completion::ignored_with(format!(
                    "this machine lacks what it takes: {}",
                    line.words
                )));
            }
            end => return Err(Failed::from(format!("{}: without a fault it ends by {end:?}", line.name))),
        }
        let mut row = Row { matrix: self, line, ends, problems: vec![], skipped: None };
        kind(self, line, &mut row);
        match (row.problems.is_empty(), row.skipped) {
            (false, _) => Err(row.problems.join("\n").into()),
            (true, Some(why)) => Ok(Completion::ignored_with(why)),
            (true, None) => Ok(Completion::Completed),
        }
    }

    /// Returns how this command ends with nothing wrong: tried once.
    fn without_fault(&self, line: &Line) -> Result<End, String> {
        let Some(place) = LINES.iter().position(|other| other.name == line.name) else {
            return Ok(End::Code(0));
        };
        let tried = || {
            let number = self.cases.fetch_add(1, Ordering::Relaxed);
            self.bench.tried(line, &Case::of("nothing wrong", []), number)
        };
        self.without_fault[place].get_or_init(tried).clone()
    }

    /// Returns all of them in the full matrix, else about `most`, or one of a slow command: others with each line, so
    /// that together they have all.
    fn some_of<'a, T>(&self, all: &'a [T], most: usize, line: &Line) -> impl Iterator<Item = &'a T> {
        let place = LINES.iter().position(|other| other.name == line.name).unwrap_or(0);
        let most = if line.slow { 1 } else { most };
        let share = if self.full { 1 } else { all.len().div_ceil(most).max(1) };
        all.iter().skip(place % share).step_by(share)
    }

    /// A user whom nobody else is.
    fn stranger(&self) -> u32 {
        STRANGERS + self.strangers.fetch_add(1, Ordering::Relaxed) as u32
    }

    /// Ends what it has started, and leaves the counts where they are wanted.
    fn end(&self) -> std::io::Result<()> {
        if let Some(receiver) = &self.receiver {
            let _ = receiver.lock().map(|mut receiver| receiver.kill().and_then(|()| receiver.wait()));
        }
        let _ = fs::remove_dir_all(&self.bench.directory);
        let Some(path) = std::env::var_os("SOFTTIMERS_RESULTS").map(PathBuf::from) else { return Ok(()) };
        let cells = self.cells.lock().map_err(|_| std::io::Error::other("a test panicked"))?;
        fs::write(path, results::results(&cells, self.full).to_text()?)
    }
}

/// The first user that nothing else runs as.
const STRANGERS: u32 = 200_000;

/// Root in a container may lack what some faults need.
fn may_do_all() -> bool {
    let works = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    rustix::process::geteuid().is_root()
        && works(Command::new("unshare").args(["--mount", "--net", "true"]))
        && works(Command::new("true").uid(STRANGERS).gid(STRANGERS))
}

/// One that agrees to be sent to.
fn receiver(program: &PathBuf) -> std::io::Result<(Child, String)> {
    let mut receiver = Command::new(program)
        .args(["recv", "127.0.0.1:0", "--any"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    if let Some(stderr) = receiver.stderr.take() {
        let mut stderr = BufReader::new(stderr);
        stderr.read_line(&mut line)?;
        // Whatever it says is taken, as long as it lives.
        thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(drop));
    }
    let address = line.trim().strip_prefix("listening on ").map(str::to_owned);
    let address = address.ok_or_else(|| std::io::Error::other(format!("recv says {line:?}")))?;
    Ok((receiver, address))
}
