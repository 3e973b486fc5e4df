//! Programs in the kernel: loading them, their maps, and where they are attached.
//!
//! Safe, because the kernel's verifier lets no program touch what it may not. Everything ends with its
//! descriptor.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Kinds of programs, as the kernel numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Program {
    SocketFilter = 1,
    Xdp = 6,
    RawTracepoint = 17,
}

/// One instruction: operation, destination and source register, offset, constant.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Instruction {
    operation: u8,
    registers: u8,
    offset: i16,
    constant: i32,
}

impl Instruction {
    pub(crate) const fn new(operation: u8, to: u8, from: u8, offset: i16, constant: i32) -> Self {
        // Two bit fields of four, which the machine's byte order orders, too.
        let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
        Self { operation, registers, offset, constant }
    }
}

/// A number that programs can add to.
#[derive(Debug)]
pub(crate) struct Counter(OwnedFd);

impl Counter {
    /// At zero.
    pub(crate) fn new() -> io::Result<Self> {
        create_map(ARRAY, size_of::<u64>()).map(Self)
    }

    /// What it stands at.
    pub(crate) fn value(&self) -> io::Result<u64> {
        let mut value = 0u64;
        // SAFETY: the values of this map are as long as `value`, which outlives the call.
        unsafe { element(MAP_LOOKUP, self.0.as_fd(), (&raw mut value).cast()) }?;
        Ok(value)
    }
}

impl AsRawFd for Counter {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A place for one AF_XDP socket, to which a program can redirect packets.
#[derive(Debug)]
pub(crate) struct SocketMap(OwnedFd);

impl SocketMap {
    /// Without a socket.
    pub(crate) fn new() -> io::Result<Self> {
        create_map(SOCKETS, size_of::<u32>()).map(Self)
    }

    /// Puts `socket` there.
    pub(crate) fn set(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let mut value = socket.as_raw_fd();
        // SAFETY: the values of this map are as long as `value`, which outlives the call.
        unsafe { element(MAP_UPDATE, self.0.as_fd(), (&raw mut value).cast()) }
    }
}

impl AsRawFd for SocketMap {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Has the kernel verify and load a program.
pub(crate) fn load(kind: Program, instructions: &[Instruction]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: u64,
        licence: u64,
        no_log: [u32; 6],
    }
    let attributes = Load {
        kind: kind as u32,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        licence: c"Dual MIT/GPL".as_ptr() as u64,
        no_log: [0; 6],
    };
    bpf(PROG_LOAD, &attributes)
}

/// Runs `program` at a tracepoint for as long as the descriptor lives.
pub(crate) fn attach_to_tracepoint(name: &CStr, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Open {
        name: u64,
        program: u32,
        padding: u32,
    }
    let attributes = Open { name: name.as_ptr() as u64, program: program.as_raw_fd() as u32, padding: 0 };
    bpf(RAW_TRACEPOINT_OPEN, &attributes)
}

/// Runs `program` on each packet that the interface receives, for as long as the descriptor lives;
/// above the driver, so that every interface can.
pub(crate) fn attach_to_interface(interface: u32, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    bpf(LINK_CREATE, &[program.as_raw_fd() as u32, interface, ATTACH_XDP, XDP_FLAGS_SKB_MODE])
}

/// A map of one entry, its key a `u32`.
fn create_map(kind: u32, value: usize) -> io::Result<OwnedFd> {
    bpf(MAP_CREATE, &[kind, size_of::<u32>() as u32, value as u32, 1])
}

/// A command that makes a descriptor.
fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the attributes are valid for reads of their size; what they point to outlives the call,
    // and the kernel reads no more there than the attributes say.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    // SAFETY: the commands used here make a descriptor, which nobody else knows yet.
    unsafe { super::owned(fd) }
}

/// Reads or writes the only entry of a map.
///
/// # Safety
///
/// `value` must be valid for reads and writes of as many bytes as the map's values have.
unsafe fn element(command: libc::c_int, map: BorrowedFd<'_>, value: *mut libc::c_void) -> io::Result<()> {
    #[repr(C)]
    struct Element {
        map: u32,
        padding: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let key = 0u32;
    let (map, padding, flags) = (map.as_raw_fd() as u32, 0, 0);
    let attributes = Element { map, padding, key: (&raw const key) as u64, value: value as u64, flags };
    // SAFETY: the key has the size of every map's keys here, the caller vouches for the value, and the
    // attributes for no more than that.
    let outcome =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw const attributes, size_of::<Element>()) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const LINK_CREATE: libc::c_int = 28;
const ATTACH_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 2;
const ARRAY: u32 = 2;
const SOCKETS: u32 = 17;
