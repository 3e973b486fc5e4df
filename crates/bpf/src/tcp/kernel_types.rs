//! The kernel's own description of its types (BTF), as far as struct_ops need it: [`KernelTypes`].
//!
//! aya reads it to relocate fields, and shows none of it to its users.

use std::fs;

use crate::Error;

/// The types of this kernel.
#[derive(Debug)]
pub(crate) struct KernelTypes {
    bytes: Vec<u8>,
    /// Where types end, and strings begin.
    strings: usize,
    /// The offset of each type; number 0 is `void`, and has none.
    types: Vec<usize>,
}

/// A structure.
#[derive(Debug)]
pub(crate) struct Structure {
    /// The number of its type.
    pub(crate) id: u32,
    pub(crate) size: usize,
    /// Names, with offsets in bytes.
    members: Vec<(String, usize)>,
}

impl Structure {
    /// Returns a member's number and offset.
    pub(crate) fn member(&self, name: &str) -> Option<(u32, usize)> {
        let number = self.members.iter().position(|(member, _)| member == name)?;
        Some((number as u32, self.members[number].1))
    }
}

impl KernelTypes {
    /// Reads the types of the running kernel.
    pub(crate) fn read() -> Result<Self, Error> {
        let bytes = fs::read("/sys/kernel/btf/vmlinux").map_err(|error| Error::NoBtf(error.to_string()))?;
        KernelTypes::parse(bytes).ok_or_else(|| Error::NoBtf("of another form".to_owned()))
    }

    /// Finds where each type begins; `None` if the bytes are not BTF.
    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        if word(0)? & 0xffff != MAGIC {
            return None;
        }
        let header = word(4)? as usize;
        let (begin, length, strings) = (word(8)? as usize, word(12)? as usize, word(16)? as usize);
        let (mut at, end) = (header.checked_add(begin)?, header.checked_add(begin)?.checked_add(length)?);
        let mut types = vec![0];
        while at < end {
            types.push(at);
            let info = word(at + 4)?;
            at = at.checked_add(TYPE + more(kind(info), count(info))?)?;
        }
        let strings = header.checked_add(strings)?;
        (strings <= bytes.len()).then_some(KernelTypes { bytes, strings, types })
    }

    /// Returns the number of a function.
    pub(crate) fn function(&self, name: &str) -> Option<u32> {
        self.find(FUNCTION, name).map(|(id, _)| id)
    }

    /// Returns a structure.
    pub(crate) fn structure(&self, name: &str) -> Option<Structure> {
        let (id, at) = self.find(STRUCTURE, name)?;
        let info = self.word(at + 4);
        let members = (0..count(info)).map(|number| {
            let at = at + TYPE + number * MEMBER;
            // With bit fields, the upper byte is their width.
            let bits = if info >> 31 == 1 { self.word(at + 8) & 0xff_ffff } else { self.word(at + 8) };
            (self.name(self.word(at)).to_owned(), bits as usize / 8)
        });
        Some(Structure { id, size: self.word(at + 8) as usize, members: members.collect() })
    }

    fn find(&self, wanted: u32, name: &str) -> Option<(u32, usize)> {
        let all = self.types.iter().enumerate().skip(1);
        all.map(|(id, &at)| (id as u32, at))
            .find(|&(_, at)| kind(self.word(at + 4)) == wanted && self.name(self.word(at)) == name)
    }

    /// The word at `at`; zero beyond the end.
    fn word(&self, at: usize) -> u32 {
        self.bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u32::from_ne_bytes(*word))
    }

    fn name(&self, offset: u32) -> &str {
        let text = self.bytes.get(self.strings + offset as usize..).unwrap_or_default();
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        std::str::from_utf8(&text[..end]).unwrap_or_default()
    }
}

fn kind(info: u32) -> u32 {
    info >> 24 & 0x1f
}

fn count(info: u32) -> usize {
    info as usize & 0xffff
}

/// Returns the bytes after a type of this kind; `None` for an unknown kind.
fn more(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // Integers, variables and tags of declarations.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structures, unions, sections and enumerations of 64 bits.
        4 | 5 | 15 | 19 => count * MEMBER,
        // Enumerations and prototypes.
        6 | 13 => count * 8,
        // Pointers, names, qualifiers, functions, floats.
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

const MAGIC: u32 = 0xeb9f;
/// The length of what every type has: name, kind and count, size or type.
const TYPE: usize = 12;
const MEMBER: usize = 12;
const STRUCTURE: u32 = 4;
const FUNCTION: u32 = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Types that every kernel has, as its headers state them.
    #[test]
    fn the_structures_of_this_kernel_are_found() {
        let types = match KernelTypes::read() {
            Ok(types) => types,
            Err(why) => {
                let name = std::thread::current().name().unwrap_or("?").to_owned();
                let line = format!("skipped: {name}: {why}\n");
                return std::io::stderr().write_all(line.as_bytes()).unwrap();
            }
        };
        let list = types.structure("list_head").unwrap();
        assert_eq!((list.size, list.member("next"), list.member("prev")), (16, Some((0, 0)), Some((1, 8))));
        assert_eq!((list.member("no such"), types.function("no such")), (None, None));
        assert!(types.structure("no such").is_none() && types.function("tcp_reno_ssthresh").is_some());
    }

    #[test]
    fn other_bytes_are_refused() {
        for bytes in
            [vec![], vec![0; 64], vec![0x9f, 0xeb, 1], [vec![0x9f, 0xeb, 1, 0], vec![0xff; 60]].concat()]
        {
            assert!(KernelTypes::parse(bytes.clone()).is_none(), "{bytes:?}");
        }
    }
}
