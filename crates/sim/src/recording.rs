//! Input from outside a run: [`Recording`], and [`Hashed`], which reads a file and keeps its SHA-256.

use std::fmt;
use std::io::{self, Read};

use sha2::{Digest as _, Sha256 as Hash};
use softtimers_core::Trace;

/// A recording that was read from a file.
///
/// Two are equal that have the same packets, whatever their files are called: a run cannot tell them apart.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The name that it was given by.
    pub name: String,
    /// The SHA-256 of the file.
    pub sha256: Sha256,
    /// Its packets.
    pub trace: Trace,
}

impl PartialEq for Recording {
    fn eq(&self, other: &Self) -> bool {
        self.trace == other.trace
    }
}

/// A recording that was made in the program and is in no file: the hash of nothing.
impl From<Trace> for Recording {
    fn from(trace: Trace) -> Self {
        Recording { name: "made here".to_owned(), sha256: Hashed::new(io::empty()).finish().0, trace }
    }
}

/// A SHA-256, which is shown as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sha256([u8; 32]);

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Reads, and hashes what was read.
///
/// ```
/// use std::io::Read as _;
/// use softtimers_sim::Hashed;
///
/// let mut file = Hashed::new("abc".as_bytes());
/// let mut first = [0];
/// file.read_exact(&mut first)?;
/// let (sha256, read) = file.finish();
/// read?;
/// assert!(sha256.to_string().starts_with("ba7816bf8f01cfea"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Hashed<R> {
    input: R,
    hash: Hash,
}

impl<R: Read> Hashed<R> {
    /// Hashes what is read from `input` from now on.
    pub fn new(input: R) -> Self {
        Hashed { input, hash: Hash::new() }
    }

    /// Reads the rest, and returns the hash of all of it, with the error that the rest could not be read for.
    pub fn finish(mut self) -> (Sha256, io::Result<()>) {
        let rest = io::copy(&mut self, &mut io::sink()).map(drop);
        (Sha256(self.hash.finalize().into()), rest)
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}
