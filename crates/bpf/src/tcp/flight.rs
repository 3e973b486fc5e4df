//! Registers the congestion control of `c/flight.bpf.c`: [`Flight`].
//!
//! aya does not load struct_ops. Its reader of objects does the reading and relocating; the calls of kernel functions,
//! the structure and its registration are done here. Writing them with libbpf would take a C compiler, libelf and zlib to
//! build the command.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use aya::Btf;
use aya_obj::Object;
use aya_obj::generated::bpf_insn;
use softtimers_linux::bpf::Instruction;
use softtimers_linux::bpf::operations::{KERNEL_CALL, Operations, load_operation};

use super::kernel_types::KernelTypes;
use crate::Error;
use crate::error::{line, refused};

/// The programs, compiled from `c/flight.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../../object/flight.bpf.o");

/// A registered congestion control; no new connection takes it once this is dropped.
#[derive(Debug)]
pub(crate) struct Flight {
    name: [u8; 16],
    limits_trains: bool,
    _operations: Operations,
    _link: OwnedFd,
}

impl Flight {
    /// Loads and registers it, with or without its limit of trains. `map` returns the descriptor of a map of the object that
    /// it shares them with.
    ///
    /// # Errors
    /// If the kernel lacks CUBIC, has it as a module, or is older than Linux 6.4.
    pub(crate) fn register(limits_trains: bool, map: impl Fn(&str) -> Option<RawFd>) -> Result<Self, Error> {
        let lacks = |what: String| Error::Refused { program: NAME.to_owned(), why: what };
        let types = KernelTypes::read()?;
        let structure = |name: &str| types.structure(name).ok_or_else(|| lacks(format!("no type {name}")));
        let (control, value) = (structure(CONTROL)?, structure(&format!("bpf_struct_ops_{CONTROL}"))?);
        let member = |name: &str| {
            control.member(name).ok_or_else(|| lacks(format!("{CONTROL} of this kernel has no {name}")))
        };
        let (_, data) = value.member("data").ok_or_else(|| lacks(format!("no data in {CONTROL}")))?;
        let mut bytes = vec![0; value.size];
        let mut programs = vec![];
        let made = programs_of(&types, map)?.into_iter();
        for (name, instructions) in made.filter(|(name, _)| limits_trains || name != "min_tso_segs") {
            let (number, offset) = member(&name)?;
            let program = load_operation(&instructions, control.id, number)
                .map_err(|error| refused(&format!("flight_{name}"), &error))?;
            put(&mut bytes, data + offset, &(program.as_raw_fd() as u64).to_ne_bytes());
            programs.push(program);
        }
        let (_, name_offset) = member("name")?;
        for _ in 0..NAMES {
            let name = any_name();
            put(&mut bytes, data + name_offset, &name);
            let operations = Operations::new(value.id, bytes.clone());
            match operations.and_then(|operations| Ok((operations.register()?, operations))) {
                Ok((_link, _operations)) => return Ok(Flight { name, limits_trains, _operations, _link }),
                // Names hold for the whole machine.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(refused(NAME, &error)),
            }
        }
        Err(lacks("every name is taken".to_owned()))
    }

    /// Returns the name that connections are given it by, with zeros behind it, and `has_control` of `struct setting`.
    pub(crate) fn control(&self) -> ([u8; 16], u32) {
        (self.name, 1 + u32::from(self.limits_trains))
    }
}

/// Returns the programs with the names of the members that they implement.
fn programs_of(
    types: &KernelTypes,
    map: impl Fn(&str) -> Option<RawFd>,
) -> Result<Vec<(String, Vec<Instruction>)>, Error> {
    let broken =
        |error: &dyn std::error::Error| Error::Refused { program: NAME.to_owned(), why: line(error) };
    let mut object = Object::parse(OBJECT).map_err(|error| broken(&error))?;
    let fields = Btf::from_sys_fs().map_err(|error| Error::NoBtf(line(&error)))?;
    object.relocate_btf(&fields).map_err(|error| broken(&error))?;
    let maps = object.maps.clone();
    let shared = maps.iter().filter_map(|(name, defined)| Some((name.as_str(), map(name)?, defined)));
    object.relocate_maps(shared, &HashSet::new()).map_err(|error| broken(&error))?;
    let functions = object.functions.values().map(|function| {
        let instructions: Result<_, Error> =
            function.instructions.iter().map(|instruction| with_number(instruction, types)).collect();
        let name = function.name.strip_prefix("flight_").unwrap_or(&function.name);
        Ok((name.to_owned(), instructions?))
    });
    functions.collect()
}

/// Returns an instruction with this kernel's number of the function that it calls.
fn with_number(instruction: &bpf_insn, types: &KernelTypes) -> Result<Instruction, Error> {
    let bpf_insn { code, off, imm, .. } = *instruction;
    let called = (code == KERNEL_CALL.0).then(|| imm.checked_sub(FIRST_FUNCTION)).flatten();
    let called = called.and_then(|number| KERNEL_FUNCTIONS.get(usize::try_from(number).ok()?));
    let Some(name) = called else {
        return Ok(Instruction::new(code, instruction.dst_reg(), instruction.src_reg(), off, imm));
    };
    let why = format!("no function {name}: CUBIC is missing, or a module");
    let id = types.function(name).ok_or(Error::Refused { program: NAME.to_owned(), why })?;
    Ok(Instruction::new(KERNEL_CALL.0, 0, KERNEL_CALL.1, 0, id as i32))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(there) = bytes.get_mut(at..at + value.len()) {
        there.copy_from_slice(value);
    }
}

/// Returns a name that no other run has, most likely.
fn any_name() -> [u8; 16] {
    let mut name = [0; 16];
    let random = RandomState::new().hash_one("name") as u32;
    put(&mut name, 0, format!("stpace_{random:08x}").as_bytes());
    name
}

const NAME: &str = "flight";
const CONTROL: &str = "tcp_congestion_ops";
/// Attempts to find a name.
const NAMES: usize = 8;
/// The functions of `c/flight.bpf.c`, by the numbers that they have there from this one on.
const FIRST_FUNCTION: i32 = 0x7f00_0000;
const KERNEL_FUNCTIONS: [&str; 7] = [
    "cubictcp_init",
    "cubictcp_recalc_ssthresh",
    "cubictcp_cong_avoid",
    "cubictcp_state",
    "cubictcp_cwnd_event",
    "cubictcp_acked",
    "tcp_reno_undo_cwnd",
];
