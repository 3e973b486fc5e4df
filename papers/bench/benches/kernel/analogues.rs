//! The paper's workloads that need programs of our own, each a further process of this program.
//!
//! An analogue does what the text says of the original (§5.2), not what its authors' binary did: a player that computes
//! and makes many small system calls; a file server that waits for its disk; a build.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use softtimers_measure::child;
use softtimers_measure::processor::Processor;
use softtimers_papers_bench::bench::Done;
use softtimers_trials::random::Random;

/// A process with all its children, until it is dropped.
#[derive(Debug)]
pub(crate) struct Running(Child);

impl Running {
    /// Starts it on this CPU, without output.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(processor: Processor, command: &mut Command) -> io::Result<Self> {
        let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let _kept = processor.keep()?;
        // A group of its own, so that its children can be ended too.
        silent.process_group(0).spawn().map(Running)
    }

    /// Starts the analogue of this name, which ends with this process; `under` another program that execs it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn analogue(processor: Processor, under: &[&str], words: [&str; 2]) -> io::Result<Self> {
        let itself = child::command()?;
        let mut words: Vec<&OsStr> = [itself.get_program()]
            .into_iter()
            .chain(itself.get_args())
            .chain(words.map(OsStr::new))
            .collect();
        words.splice(0..0, under.iter().map(OsStr::new));
        Running::start(processor, Command::new(words[0]).args(&words[1..]))
    }

    /// Says whether it has ended by itself, which it should not.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Acts as the analogue of this name until it is ended.
pub(crate) fn run(words: &[&str]) -> Done {
    let &[name, argument] = words else { return Err("a name and an argument are wanted".into()) };
    match name {
        "compute" => compute(),
        "player" => player()?,
        "spin" => spin(),
        "files" => files(argument)?,
        "files-client" => files_client(argument)?,
        "build" => build(Path::new(argument))?,
        other => return Err(format!("no analogue {other}").into()),
    }
    Ok(())
}

/// A tight loop without system calls.
fn compute() -> ! {
    let mut state = 1u64;
    loop {
        state = std::hint::black_box(work(state, 1_000));
    }
}

/// Takes some nanoseconds per step.
fn work(state: u64, steps: u32) -> u64 {
    (0..steps).fold(state, |state, step| {
        std::hint::black_box(state.wrapping_mul(31).rotate_left(7) ^ u64::from(step))
    })
}

/// Decodes a little, and makes small system calls: for input, for the time, for output. The time of a block depends on
/// its content, as with any compressed stream: uniformly up to twice the mean, and four times that for a block in
/// eight.
fn player() -> io::Result<()> {
    let (mut from, mut to) = (File::open("/dev/zero")?, OpenOptions::new().write(true).open("/dev/null")?);
    let (mut block, mut random) = ([0u8; 64], Random::new());
    let mut decoding = || {
        let steps = random.below(2 * DECODING) as u32;
        if random.below(8) == 0 { 4 * steps } else { steps }
    };
    let mut state = 1;
    loop {
        from.read_exact(&mut block)?;
        state = work(state, decoding());
        to.write_all(&block)?;
        let _ = rustix::process::getppid();
        state = work(state, decoding());
    }
}

/// The steps that most blocks take on average: about two microseconds of a recent CPU.
const DECODING: u64 = 1_500;

/// An idle loop that polls in each round, as the paper's did: each poll is a system call, the cheapest trigger state.
fn spin() -> ! {
    loop {
        let _ = rustix::process::getppid();
        std::hint::black_box(work(1, 300));
    }
}

/// Serves blocks of 8 KB that are on the disk before the answer is sent, as NFS version 2 requires.
fn files(port: &str) -> io::Result<()> {
    let socket = UdpSocket::bind(format!("127.0.0.1:{port}"))?;
    let path = disk().join(format!("softtimers-files-{}", std::process::id()));
    fs::create_dir_all(disk())?;
    let file = File::create_new(&path)?;
    // Its name is not needed, and it goes with the process.
    fs::remove_file(&path)?;
    let mut request = [0; 8 + BLOCK];
    loop {
        let (length, from) = socket.recv_from(&mut request)?;
        if length < request.len() {
            continue;
        }
        let number = u64::from_le_bytes(request[..8].try_into().unwrap_or_default()) % 1_024;
        file.write_all_at(&request[8..], number * BLOCK as u64)?;
        file.sync_data()?;
        socket.send_to(&request[..8], from)?;
    }
}

const BLOCK: usize = 8 << 10;

/// Returns the directory of the blocks, next to the build: the directory for temporary files is often in memory.
pub(crate) fn disk() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Says whether that is in memory too, where there is no disk to wait for.
pub(crate) fn disk_is_memory() -> bool {
    const TMPFS: u32 = 0x0102_1994;
    fs::create_dir_all(disk()).is_ok()
        && rustix::fs::statfs(disk()).is_ok_and(|system| system.f_type as u32 == TMPFS)
}

fn files_client(port: &str) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(format!("127.0.0.1:{port}"))?;
    // The server may not be there yet.
    socket.set_read_timeout(Some(std::time::Duration::from_millis(100)))?;
    let mut request = [0; 8 + BLOCK];
    for number in 0u64.. {
        request[..8].copy_from_slice(&number.wrapping_mul(7_919).to_le_bytes());
        let _ = socket.send(&request);
        let _ = socket.recv(&mut [0; 8]);
    }
    Ok(())
}

/// Repeatedly builds a kernel's worth of generated files from nothing: short ones with long headers, compiled one by
/// one by `make` with `-O`, as in FreeBSD 2.2.6, and linked.
fn build(directory: &Path) -> io::Result<()> {
    for file in 0..FILES {
        let headers = HEADERS.split(' ').map(|header| format!("#include <{header}.h>\n"));
        let mut text: String = headers.collect();
        for function in 0..24 {
            text += &format!(
                "int f{file}_{function}(int a, int b) {{ int s = {file}; for (int i = 0; i < a; i++) switch ((a ^ i) & 3) {{\n\
                 case 0: s += b * {function}; break; case 1: s ^= i; break; case 2: s -= f{file}_{}(b, i & 1); break;\n\
                 default: s += (int)strlen(\"text {function}\"); }} return s; }}\n",
                function / 2
            );
        }
        fs::write(directory.join(format!("{file}.c")), text)?;
    }
    let objects: Vec<String> = (0..FILES).map(|file| format!("{file}.o")).collect();
    let objects = objects.join(" ");
    let rules = format!(
        "all: {objects}\n\tld -r -o all {objects}\n%.o: %.c\n\tcc -O -w -c $< -o $@\nclean:\n\trm -f all {objects}\n"
    );
    fs::write(directory.join("Makefile"), rules)?;
    loop {
        for goal in ["clean", "all"] {
            if !Command::new("make").args(["-s", goal]).current_dir(directory).status()?.success() {
                return Err(io::Error::other("make refuses"));
            }
        }
    }
}

const FILES: u32 = 8;

/// Headers that any C library has.
const HEADERS: &str = "arpa/inet ctype dirent errno fcntl grp limits locale math net/if netdb netinet/in netinet/tcp poll \
     pthread pwd setjmp signal stdio stdlib string sys/ioctl sys/mman sys/param sys/resource sys/socket \
     sys/stat sys/time sys/types sys/uio sys/wait termios time unistd";
