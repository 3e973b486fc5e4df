//! A kernel structure of functions, implemented by programs (struct_ops), such as a congestion control of TCP.
//!
//! ```text
//!   load_operation   a program for each member ──▶ Operations::new   a map whose one value is the structure
//!                                              ──▶ register          the kernel uses it, until the link is closed
//! ```
//!
//! Numbers of types and members are those of the kernel's BTF.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::{Instruction, LINK_CREATE, MAP_CREATE, MAP_UPDATE, PROG_LOAD, bpf, element};

/// A call of a kernel function, by its BTF number in [`Instruction::new`]'s constant: operation and source register.
pub const KERNEL_CALL: (u8, u8) = (super::code::CALL, 2);

/// Has the kernel verify and load a program for member number `member` of the structure of type `structure`.
///
/// # Errors
/// The system's; if the verifier rejects it, with the last line of its reasons.
pub fn load_operation(instructions: &[Instruction], structure: u32, member: u32) -> io::Result<OwnedFd> {
    let mut log = vec![0u8; LOG];
    let mut attributes = Load {
        kind: STRUCT_OPS_PROGRAM,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        licence: c"Dual MIT/GPL".as_ptr() as u64,
        name: *b"softtimers\0\0\0\0\0\0",
        member,
        structure,
        ..Load::default()
    };
    let error = match bpf(PROG_LOAD, &attributes) {
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => error,
        outcome => return outcome,
    };
    (attributes.log_level, attributes.log_size, attributes.log) =
        (1, log.len() as u32, log.as_mut_ptr() as u64);
    bpf(PROG_LOAD, &attributes).map_err(|_| {
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]);
        let lines = || log.lines().filter(|line| !line.is_empty());
        // The last lines are statistics.
        let reason = lines().rev().find(|line| !line.starts_with("processed "));
        reason.map_or(error, |reason| io::Error::other(reason.to_owned()))
    })
}

/// A structure in a map.
#[derive(Debug)]
pub struct Operations {
    map: OwnedFd,
}

impl Operations {
    /// Puts the structure into a map of type `value`: `bytes` long, with a program's descriptor for each function.
    ///
    /// # Errors
    /// The kernel's refusal, such as a function that is missing (Linux 6.4).
    pub fn new(value: u32, mut bytes: Vec<u8>) -> io::Result<Self> {
        let mut attributes = [0u32; 16];
        attributes[..5].copy_from_slice(&[STRUCT_OPS_MAP, 4, bytes.len() as u32, 1, LINKED]);
        // The kernel wants types of the program's own besides, and looks at none of them.
        let types = load_types()?;
        (attributes[12], attributes[15]) = (types.as_raw_fd() as u32, value);
        let map = bpf(MAP_CREATE, &attributes)?;
        // SAFETY: the values of this map are as long as `bytes`, which outlive the call.
        unsafe { element(MAP_UPDATE, map.as_fd(), 0, bytes.as_mut_ptr().cast()) }?;
        Ok(Operations { map })
    }

    /// Registers the structure for as long as the link lives; what uses it already goes on.
    ///
    /// # Errors
    /// `AlreadyExists` if there is one of that name.
    pub fn register(&self) -> io::Result<OwnedFd> {
        bpf(LINK_CREATE, &[self.map.as_raw_fd() as u32, 0, ATTACH_STRUCT_OPS, 0])
    }
}

impl AsFd for Operations {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

/// Loads a description of types that has only an integer.
fn load_types() -> io::Result<OwnedFd> {
    #[repr(C)]
    struct LoadTypes {
        types: u64,
        log: u64,
        size: u32,
        log_size: u32,
        log_level: u32,
        padding: u32,
    }
    // Header: magic and version, its length; offset and length of types, then of strings.
    let mut types = [0x0001_eb9fu32, 24, 0, 16, 16, 8, 1, 1 << 24, 4, 1 << 24 | 32, 0, 0];
    let name = |bytes: [u8; 4]| u32::from_ne_bytes(bytes);
    (types[10], types[11]) = (name(*b"\0int"), 0);
    let size = size_of_val(&types) as u32;
    let attributes =
        LoadTypes { types: types.as_ptr() as u64, log: 0, size, log_size: 0, log_level: 0, padding: 0 };
    bpf(BTF_LOAD, &attributes)
}

/// `union bpf_attr` of a load, up to the type that the program is for.
#[derive(Default)]
#[repr(C)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    /// `expected_attach_type`.
    member: u32,
    no_types: [u32; 2],
    no_functions: [u64; 1],
    no_function_count: u32,
    no_line_size: u32,
    no_lines: u64,
    no_line_count: u32,
    /// `attach_btf_id`.
    structure: u32,
}

const BTF_LOAD: libc::c_int = 18;
const STRUCT_OPS_PROGRAM: u32 = 27;
const STRUCT_OPS_MAP: u32 = 26;
/// `BPF_STRUCT_OPS`.
const ATTACH_STRUCT_OPS: u32 = 44;
/// `BPF_F_LINK`: registered by a link, not by the map.
const LINKED: u32 = 1 << 13;
/// Room for the verifier's reasons.
const LOG: usize = 1 << 18;
