//! Which frames are kept: an expression, compiled here, or a compiler's output.
//!
//! ```text
//!   --filter 'udp port 53'     ─▶ pktbaffle ─┐
//!   --filter-code FILE                       ├─▶ Filter, cut to the snap length ─▶ the kernel, which checks it
//!     4                        ─▶ here  ─────┘
//!     40 0 0 12                    as `tcpdump -ddd` prints
//!     …
//! ```
//!
//! libpcap, which others have their filters compiled by, would be a library in C to be installed. The compiler here
//! knows the most of its language. For what it does not know, `--filter-code` takes what libpcap has compiled.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use pktbaffle::{LinkType, Target, compile};
use softtimers::packet::Filter;

use crate::failure::Failure;

/// The filter of an expression.
///
/// # Errors
/// A usage failure for one that is none.
pub fn of_expression(expression: &str) -> Result<Filter, Failure> {
    let refused = |why: &dyn std::fmt::Display| {
        Failure::usage(format_args!("--filter '{expression}': {why}; 'udp port 53' is one"))
    };
    if expression.len() > LONGEST_EXPRESSION {
        return Err(Failure::usage(format_args!("--filter: {} bytes, not up to 4096", expression.len())));
    }
    // The kernel takes tags out of frames before a filter sees them, and only libpcap knows to ask for them.
    let tags = ["vlan", "inbound", "outbound"];
    let asks_for_tags = |word: &str| tags.contains(&word.to_ascii_lowercase().as_str());
    if let Some(word) =
        expression.split(|c: char| !c.is_ascii_alphanumeric()).find(|word| asks_for_tags(word))
    {
        return Err(refused(&format_args!(
            "{word} is not known here; --filter-code takes libpcap's own program"
        )));
    }
    let program =
        compile(expression, LinkType::Ethernet, Target::Classic).map_err(|error| refused(&error))?;
    let classic = program.as_classic().map_or(&[][..], |program| program.instructions());
    let instructions = classic.iter().map(|one| (one.code, one.jt, one.jf, one.k));
    Filter::new(instructions).map_err(|error| refused(&error))
}

/// The filter in a file.
///
/// # Errors
/// A usage failure if it cannot be read, or is none.
pub fn of_file(path: &Path) -> Result<Filter, Failure> {
    let refused = |why: &dyn std::fmt::Display| {
        Failure::usage(format_args!("--filter-code '{}': {why}", path.display()))
    };
    let mut text = String::new();
    let opened = File::open(path).map_err(|error| refused(&error))?;
    opened.take(LONGEST_FILE).read_to_string(&mut text).map_err(|error| refused(&error))?;
    of_decimal(&text).map_err(|problem| refused(&problem))
}

/// The filter that `tcpdump -ddd` has printed: how many instructions, then one in each line.
fn of_decimal(text: &str) -> Result<Filter, String> {
    let mut lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
    let count: usize = match lines.next() {
        Some((_, line)) => {
            line.parse().map_err(|_| format!("line 1: '{line}', not how many instructions follow"))?
        }
        None => return Err("it is empty; 'tcpdump -ddd EXPRESSION' prints one".to_owned()),
    };
    let instructions: Vec<_> = lines
        .map(|(at, line)| instruction(line).ok_or((at, line)))
        .collect::<Result<_, _>>()
        .map_err(|(at, line)| format!("line {}: '{line}', not four numbers", at + 1))?;
    if instructions.len() != count {
        return Err(format!("{} instructions, where line 1 says {count}", instructions.len()));
    }
    Filter::new(instructions).map_err(|error| error.to_string())
}

fn instruction(line: &str) -> Option<(u16, u8, u8, u32)> {
    let mut words = line.split_whitespace();
    let one = (
        words.next()?.parse().ok()?,
        words.next()?.parse().ok()?,
        words.next()?.parse().ok()?,
        words.next()?.parse().ok()?,
    );
    words.next().is_none().then_some(one)
}

const LONGEST_EXPRESSION: usize = 4_096;
/// 4,096 lines of the longest instructions, and some.
const LONGEST_FILE: u64 = 256 << 10;

#[cfg(test)]
mod beside_libpcap;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn expressions_are_compiled() {
        for expression in
            ["udp port 53", "host 192.0.2.1 and not tcp port 22", "ip6", "net 10.0.0.0/8 or arp"]
        {
            assert!(of_expression(expression).unwrap().len() > 2, "{expression}");
        }
        for (wrong, why) in
            [("udp prot 53", "--filter 'udp prot 53'"), ("", "--filter ''"), ("vlan 5", "--filter-code")]
        {
            let refused = of_expression(wrong).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn what_tcpdump_prints_is_read() {
        let udp = "4\n40 0 0 12\n21 0 1 2048\n6 0 0 262144\n6 0 0 0\n";
        assert_eq!(of_decimal(udp).unwrap().len(), 4);
        for (wrong, why) in [
            ("", "empty"),
            ("x\n", "line 1"),
            ("1\n6 0 0\n", "line 2: '6 0 0', not four numbers"),
            ("1\n6 0 0 256 1\n", "line 2"),
            ("1\n6 0 256 0\n", "line 2"),
            ("2\n6 0 0 0\n", "1 instructions, where line 1 says 2"),
            ("0\n", "0 instructions"),
        ] {
            let refused = of_decimal(wrong).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_filter_or_refused(text in "\\PC{0,60}", words in proptest::collection::vec(
            proptest::sample::select(vec!["tcp", "udp", "port", "host", "(", ")", "not", "and", "or", "[", "]", "ip", "0", "53",
                "10.0.0.0/8", "::1", "=", "<<", "&", "-", "net", "portrange", "1-2", "!", "ether", "proto", ":", "/33"]), 0..12)) {
            let _ = of_expression(&text);
            let _ = of_expression(&words.join(" "));
            let _ = of_decimal(&text);
        }
    }
}
