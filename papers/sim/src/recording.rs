//! Input from outside a run: [`Recording`], and [`Hashed`], which reads a file and keeps its SHA-256.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use sha2::{Digest as _, Sha256 as Hash};
use softtimers_core::Trace;

/// A recording that was read from a file.
///
/// Two recordings are equal if they have the same packets, whatever the names of their files: a run cannot
/// distinguish them.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The name by which it was given.
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

/// Creates a recording from packets that are in no file; its hash is that of no input.
impl From<Trace> for Recording {
    fn from(trace: Trace) -> Self {
        Recording { name: "made here".to_owned(), sha256: Hashed::new(io::empty()).finish().0, trace }
    }
}

/// A SHA-256, displayed as 64 hexadecimal digits.
///
/// ```
/// use softtimers_sim::Sha256;
///
/// let digits = "0123456789abcdef".repeat(4);
/// assert_eq!(digits.parse::<Sha256>()?.to_string(), digits);
/// assert!("0123".parse::<Sha256>().is_err() && "xy".repeat(32).parse::<Sha256>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sha256([u8; 32]);

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Parses the displayed form.
impl FromStr for Sha256 {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut bytes = [0; 32];
        let digits = text.as_bytes();
        if digits.len() != 2 * bytes.len() || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err("a SHA-256 is 64 hexadecimal digits".to_owned());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().fold(0, |number, digit| number << 4 | value_of(*digit));
        }
        Ok(Sha256(bytes))
    }
}

/// The value of a hexadecimal digit.
fn value_of(digit: u8) -> u8 {
    if digit.is_ascii_digit() { digit - b'0' } else { (digit | 0x20) - b'a' + 10 }
}

/// A reader that hashes the data it reads.
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
    /// Creates a reader that hashes the data read from `input`.
    pub fn new(input: R) -> Self {
        Hashed { input, hash: Hash::new() }
    }

    /// Reads the rest, and returns the hash of all data, with the error that ended reading, if any.
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
