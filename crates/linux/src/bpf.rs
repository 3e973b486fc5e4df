//! Programs in the kernel: loading, maps, attachment, and running them.
//!
//! Safe, because the kernel's verifier confines every program. Everything ends with its descriptor.

pub mod code;
pub mod operations;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use super::mapping::Mapping;
use super::optional::Optional;

/// Kinds of programs, as the kernel numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Program {
    /// On a socket: decides how much of a packet is kept.
    SocketFilter = 1,
    /// On an interface: decides what happens to a packet.
    Xdp = 6,
}

/// One instruction: operation, destination and source register, offset, constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Instruction {
    operation: u8,
    registers: u8,
    offset: i16,
    constant: i32,
}

impl Instruction {
    /// Makes an instruction of these five parts; [`code`] has names for the operations.
    pub const fn new(operation: u8, to: u8, from: u8, offset: i16, constant: i32) -> Self {
        // Two bit fields of four, whose order depends on the machine's byte order.
        let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
        Self { operation, registers, offset, constant }
    }
}

/// Words that programs and this process share (Linux 5.5).
#[derive(Debug)]
pub struct SharedWords {
    map: OwnedFd,
    memory: Mapping,
}

impl SharedWords {
    /// Creates `words` words, at most a page of them, all zero.
    pub fn new(words: usize) -> io::Result<Self> {
        let length = words * size_of::<u64>();
        let map = create_map(ARRAY, length, 1, MMAPABLE)?;
        let memory = Mapping::shared(map.as_fd(), length, 0)?;
        Ok(SharedWords { map, memory })
    }

    /// Returns the word of this number.
    pub fn get(&self, word: usize) -> u64 {
        self.memory.word(word * size_of::<u64>())
    }

    /// Sets the word of this number.
    pub fn set(&self, word: usize, value: u64) {
        self.memory.set_word(word * size_of::<u64>(), value);
    }
}

impl AsRawFd for SharedWords {
    fn as_raw_fd(&self) -> RawFd {
        self.map.as_raw_fd()
    }
}

/// A map of AF_XDP sockets, to which a program can redirect packets.
#[derive(Debug)]
pub struct SocketMap(OwnedFd);

impl SocketMap {
    /// Creates a map of `places` places, without sockets.
    pub fn new(places: u32) -> io::Result<Self> {
        create_map(SOCKETS, size_of::<u32>(), places, 0).map(Self)
    }

    /// Stores `socket` at an index.
    pub fn set(&self, place: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let mut value = socket.as_raw_fd();
        // SAFETY: the values of this map are as long as `value`, which outlives the call.
        unsafe { element(MAP_UPDATE, self.0.as_fd(), place, (&raw mut value).cast()) }
    }
}

impl AsRawFd for SocketMap {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Has the kernel verify and load a program. The verifier gives up with `EAGAIN` if the thread has a pending
/// signal, including a stop or a debugger's; then it is tried again.
pub fn load(kind: Program, instructions: &[Instruction]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: u64,
        licence: u64,
        no_log: [u32; 6],
        name: [u8; 16],
    }
    let attributes = Load {
        kind: kind as u32,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        licence: c"Dual MIT/GPL".as_ptr() as u64,
        no_log: [0; 6],
        name: *b"softtimers\0\0\0\0\0\0",
    };
    for _ in 1..LOADS {
        match bpf(PROG_LOAD, &attributes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
    }
    bpf(PROG_LOAD, &attributes)
}

/// The points on a packet's path at which a program can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Hook {
    /// In the driver, before the kernel has made a buffer of it.
    Driver = 4,
    /// Above the driver, so that every interface can.
    Generic = 2,
}

/// Runs `program` on each packet that the interface receives, for as long as the descriptor lives. Does not
/// replace an existing program.
pub fn attach_to_interface(interface: u32, program: BorrowedFd<'_>, hook: Hook) -> io::Result<OwnedFd> {
    bpf(LINK_CREATE, &[program.as_raw_fd() as u32, interface, ATTACH_XDP, hook as u32])
}

/// Returns the name of a loaded program; empty if it has none.
pub fn name_of(program: u32) -> io::Result<String> {
    let program = bpf(PROG_GET_BY_ID, &[program])?;
    // `struct bpf_prog_info`, as far as the name.
    let mut info = [0u8; INFO_NAME + 16];
    #[repr(C)]
    struct Info {
        program: u32,
        length: u32,
        info: u64,
    }
    let program = program.as_raw_fd() as u32;
    let mut attributes = Info { program, length: info.len() as u32, info: (&raw mut info) as u64 };
    // SAFETY: the kernel writes no more than `length` bytes there.
    unsafe { command(GET_INFO, &raw mut attributes) }?;
    let name = info[INFO_NAME..].split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Runs an XDP program `times` over copies of `frame`, `batch` of them at a time, and applies its verdicts:
/// they are sent, received or dropped. Every copy is reused, as modified. Returns when that is done, or with
/// `Interrupted` when a signal comes (Linux 5.18).
pub fn run_live(program: BorrowedFd<'_>, frame: &[u8], times: u32, batch: u32) -> io::Result<()> {
    #[derive(Default)]
    #[repr(C)]
    struct Run {
        program: u32,
        result: u32,
        frame_length: u32,
        no_output_length: u32,
        frame: u64,
        no_output: u64,
        times: u32,
        duration: u32,
        no_context: [u32; 2],
        no_contexts: [u64; 2],
        flags: u32,
        no_processor: u32,
        batch: u32,
        padding: u32,
    }
    let mut attributes = Run {
        program: program.as_raw_fd() as u32,
        frame_length: frame.len() as u32,
        frame: frame.as_ptr() as u64,
        times,
        flags: LIVE_FRAMES,
        batch,
        ..Run::default()
    };
    // SAFETY: the kernel reads no more of the frame than its length, and writes nothing but the attributes.
    unsafe { command(PROG_TEST_RUN, &raw mut attributes) }
}

/// Creates a map with a `u32` as its key.
fn create_map(kind: u32, value: usize, entries: u32, flags: u32) -> io::Result<OwnedFd> {
    bpf(MAP_CREATE, &[kind, size_of::<u32>() as u32, value as u32, entries, flags])
}

/// Runs a command that makes a descriptor.
fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    Optional::Bpf.check()?;
    // SAFETY: the attributes are valid for reads of their size; the memory they point to outlives the call,
    // and the kernel reads no more there than the attributes say.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    // SAFETY: the commands used here make a descriptor, which has no other owner yet.
    unsafe { super::owned(fd) }
}

/// Runs a command that makes no descriptor.
///
/// # Safety
///
/// All memory that the attributes point to must be valid for the command's use of it.
unsafe fn command<T>(command: libc::c_int, attributes: *mut T) -> io::Result<()> {
    Optional::Bpf.check()?;
    // SAFETY: the attributes are valid for reads and writes of their size, and the caller guarantees the same
    // of the memory they point to.
    let outcome = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Writes an entry of a map.
///
/// # Safety
///
/// `value` must be valid for reads and writes of as many bytes as the map's values have.
unsafe fn element(
    command: libc::c_int,
    map: BorrowedFd<'_>,
    key: u32,
    value: *mut libc::c_void,
) -> io::Result<()> {
    #[repr(C)]
    struct Element {
        map: u32,
        padding: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let (map, padding, flags) = (map.as_raw_fd() as u32, 0, 0);
    let mut attributes = Element { map, padding, key: (&raw const key) as u64, value: value as u64, flags };
    // SAFETY: the key has the size of every map's keys here, the caller guarantees the value, and the
    // attributes name nothing else.
    unsafe { self::command(command, &raw mut attributes) }
}

/// How often to retry the verifier while signals keep coming.
const LOADS: usize = 8;
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const PROG_TEST_RUN: libc::c_int = 10;
const PROG_GET_BY_ID: libc::c_int = 13;
const GET_INFO: libc::c_int = 15;
const LINK_CREATE: libc::c_int = 28;
const ATTACH_XDP: u32 = 37;
const ARRAY: u32 = 2;
const SOCKETS: u32 = 17;
/// `BPF_F_MMAPABLE`.
const MMAPABLE: u32 = 1 << 10;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 2;
/// The offset of the name in `struct bpf_prog_info`.
const INFO_NAME: usize = 64;
