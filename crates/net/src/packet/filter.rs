//! [`Filter`]: which frames the kernel keeps for a socket, and how much of each.

use std::io;

use softtimers_linux::packet::Instruction;

/// A classic BPF program, which the kernel runs for each frame before copying it: it returns the number of
/// bytes to keep, zero to discard the frame.
///
/// It comes from a compiler (`tcpdump -ddd`, or a library), and the kernel checks it when it is attached:
/// jumps only go forward and stay inside, so it ends. Discarded frames cost a few instructions, and no
/// memory.
///
/// ```
/// use softtimers_net::packet::Filter;
///
/// // Load the ethertype; keep 68 bytes of IPv4 frames.
/// let ipv4 = [(0x28, 0, 0, 12), (0x15, 0, 1, 0x0800), (0x06, 0, 0, 68), (0x06, 0, 0, 0)];
/// assert_eq!(Filter::new(ipv4)?.len(), 4);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    program: Vec<Instruction>,
}

impl Filter {
    /// Makes a filter of instructions: operation, how many to skip if a jump's comparison holds and if not, constant.
    ///
    /// # Errors
    /// `InvalidInput` for none, or more than the 4,096 that the kernel takes.
    pub fn new(instructions: impl IntoIterator<Item = (u16, u8, u8, u32)>) -> io::Result<Self> {
        let instruction =
            |(operation, holds, fails, constant)| Instruction { operation, holds, fails, constant };
        let program: Vec<_> = instructions.into_iter().map(instruction).collect();
        if (1..=MOST_INSTRUCTIONS).contains(&program.len()) {
            return Ok(Filter { program });
        }
        let why = format!("a filter of {} instructions, not 1 to {MOST_INSTRUCTIONS}", program.len());
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }

    /// Makes a filter that keeps all frames, `bytes` of each.
    pub fn everything(bytes: u32) -> Self {
        Filter { program: vec![Instruction { operation: RETURN, holds: 0, fails: 0, constant: bytes }] }
    }

    /// Makes a filter that keeps no frame.
    pub(crate) fn nothing() -> Self {
        Filter { program: vec![Instruction { operation: RETURN, holds: 0, fails: 0, constant: 0 }] }
    }

    /// Returns a filter for the same frames that keeps at most `bytes` of each; at least one, because zero
    /// would discard them. Computed lengths are not changed: no compiler generates them.
    #[must_use]
    pub fn cut_to(mut self, bytes: u32) -> Self {
        let returns = self.program.iter_mut().filter(|instruction| instruction.operation == RETURN);
        returns.for_each(|instruction| instruction.constant = instruction.constant.min(bytes.max(1)));
        self
    }

    /// Returns the number of instructions.
    pub fn len(&self) -> usize {
        self.program.len()
    }

    /// Returns `false`: an empty program is refused.
    pub fn is_empty(&self) -> bool {
        self.program.is_empty()
    }

    pub(crate) fn program(&self) -> &[Instruction] {
        &self.program
    }
}

/// `BPF_RET | BPF_K`.
const RETURN: u16 = 0x06;
/// `BPF_MAXINSNS`.
const MOST_INSTRUCTIONS: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_wanted_stays_so_when_it_is_cut() {
        let filter = Filter::new([(0x15, 0, 1, 7), (0x06, 0, 0, 262_144), (0x06, 0, 0, 0)]).unwrap();
        let kept: Vec<u32> = filter.cut_to(68).program.iter().map(|i| i.constant).collect();
        assert_eq!(kept, [7, 68, 0]);
        assert_eq!(Filter::everything(100).cut_to(0).program[0].constant, 1);
    }

    #[test]
    fn programs_without_a_length_are_refused() {
        assert!(Filter::new([]).is_err());
        assert!(Filter::new((0..4_097).map(|_| (0x06, 0, 0, 1))).is_err());
        assert!(Filter::new((0..4_096).map(|_| (0x06, 0, 0, 1))).is_ok());
    }
}
