//! An assembler for the kernel's programs: one instruction after another.
//!
//! They are at most a few dozen instructions long, so neither a compiler nor its output is worth shipping.
//! Jumps name their target, and [`Code`] computes the distance:
//!
//! ```text
//!   code.jump(SKIP_IF_EQUAL, 2, 0, 0, "open");   // if r2 == 0 goto open
//!   …
//!   code.label("open");
//! ```
//!
//! r0 is a call's return value and the program's result, r1 to r5 are a call's arguments and clobbered by it,
//! r6 to r9 are preserved. At the start r1 is the program's context.

use std::os::fd::RawFd;

use super::Instruction;

/// A program being assembled.
#[derive(Debug, Default)]
pub struct Code {
    instructions: Vec<Instruction>,
    /// Jumps and their targets.
    jumps: Vec<(usize, Jump, &'static str)>,
    labels: Vec<(&'static str, usize)>,
}

/// A jump without its distance.
#[derive(Clone, Copy, Debug)]
struct Jump {
    operation: u8,
    to: u8,
    from: u8,
    constant: i32,
}

impl Code {
    /// Appends an instruction to the program.
    pub fn op(&mut self, operation: u8, to: u8, from: u8, offset: i16, constant: i32) -> &mut Self {
        self.instructions.push(op(operation, to, from, offset, constant));
        self
    }

    /// Adds the two instructions that load a descriptor's object: [`MAP`] or [`MAP_VALUE`].
    pub fn load_map(&mut self, to: u8, kind: u8, fd: RawFd) -> &mut Self {
        self.op(SET_LONG, to, kind, 0, fd).op(0, 0, 0, 0, 0)
    }

    /// Adds a jump to a label.
    pub fn jump(&mut self, operation: u8, to: u8, from: u8, constant: i32, label: &'static str) -> &mut Self {
        self.jumps.push((self.instructions.len(), Jump { operation, to, from, constant }, label));
        self.op(operation, to, from, 0, constant)
    }

    /// Names the next instruction.
    pub fn label(&mut self, label: &'static str) -> &mut Self {
        self.labels.push((label, self.instructions.len()));
        self
    }

    /// Returns the finished program.
    ///
    /// # Panics
    /// If a jump's label does not exist.
    pub fn finish(mut self) -> Vec<Instruction> {
        for &(at, Jump { operation, to, from, constant }, label) in &self.jumps {
            let target = self.labels.iter().find(|&&(name, _)| name == label);
            let &(_, target) = target.unwrap_or_else(|| panic!("no label {label}"));
            let distance = target as i64 - at as i64 - 1;
            self.instructions[at] = op(operation, to, from, distance as i16, constant);
        }
        self.instructions
    }
}

/// An instruction: operation, destination and source register, offset, constant.
pub const fn op(operation: u8, to: u8, from: u8, offset: i16, constant: i32) -> Instruction {
    Instruction::new(operation, to, from, offset, constant)
}

/// `to = constant`.
pub const SET: u8 = 0xb7;
/// `to = from`.
pub const COPY: u8 = 0xbf;
/// The first half of a load of 64 bits.
pub const SET_LONG: u8 = 0x18;
/// `to = *(from + offset)`, four bytes.
pub const LOAD_WORD: u8 = 0x61;
/// `*(to + offset) += from`, eight bytes, atomically.
pub const ADD_ATOMICALLY: u8 = 0xdb;
/// `if to == constant goto`. All comparisons are unsigned.
pub const SKIP_IF_EQUAL: u8 = 0x15;
/// `if to > constant goto`.
pub const SKIP_IF_GREATER: u8 = 0x25;
/// Calls the kernel's function of this number, such as [`REDIRECT_MAP`].
pub const CALL: u8 = 0x85;
/// Ends the program; its result is r0.
pub const EXIT: u8 = 0x95;

/// The constant of [`SET_LONG`] is a map's descriptor, and stands for the map.
pub const MAP: u8 = 1;
/// The constant of [`SET_LONG`] is a map's descriptor, and stands for the value of its first entry.
pub const MAP_VALUE: u8 = 2;

/// `bpf_redirect_map`: the packet goes to an entry of a map, such as a socket.
pub const REDIRECT_MAP: i32 = 51;

/// The result of an XDP program that drops the packet.
pub const XDP_DROP: i32 = 1;
/// The result of an XDP program that has redirected the packet.
pub const XDP_REDIRECT: i32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_find_their_labels() {
        let mut code = Code::default();
        code.label("begin").jump(SKIP_IF_EQUAL, 0, 0, 2, "end").op(SET, 0, 0, 0, 1).load_map(1, MAP, 3);
        code.jump(SKIP_IF_EQUAL, 1, 0, 7, "begin").label("end").op(EXIT, 0, 0, 0, 0);
        let expected = [
            op(SKIP_IF_EQUAL, 0, 0, 4, 2),
            op(SET, 0, 0, 0, 1),
            op(SET_LONG, 1, MAP, 0, 3),
            op(0, 0, 0, 0, 0),
            op(SKIP_IF_EQUAL, 1, 0, -5, 7),
            op(EXIT, 0, 0, 0, 0),
        ];
        assert_eq!(code.finish(), expected);
    }

    #[test]
    #[should_panic(expected = "no label there")]
    fn a_jump_to_nowhere_is_found() {
        let mut code = Code::default();
        code.jump(SKIP_IF_EQUAL, 0, 0, 0, "there");
        code.finish();
    }
}
