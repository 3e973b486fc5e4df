//! Which frames are kept: by an expression that libpcap compiles, or by a program that it has compiled elsewhere.
//!
//! ```text
//!   --filter 'udp port 53'  ─▶ tcpdump -ddd ─┐
//!   --filter-code FILE                       ├─▶ Filter, cut to the snap length ─▶ the kernel, which checks it
//!     4                        ───────────────┘
//!     40 0 0 12
//!     …
//! ```
//!
//! libpcap's language is defined only by libpcap. A compiler that differs loses frames, or keeps others, without
//! notice; those in Rust that were compared with it did so even for expressions as plain as `udp or icmp`. Linking
//! libpcap would require a C library and its headers to install this command. So its own program is run once, before
//! anything is opened.

use std::io::{self, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use softtimers_measure::failure::Failure;
use softtimers_net::packet::Filter;

use crate::file::{self, quoted};
use crate::run::privileges::user::{User, as_caller};

/// Compiles an expression, in a process of the user who asked for the run, or of nobody if that is root; the user that
/// the capture becomes cannot affect it.
///
/// # Errors
/// A usage failure for an invalid expression; not-possible without tcpdump.
pub(crate) fn of_expression(expression: &str) -> Result<Filter, Failure> {
    let refused = |why: &dyn std::fmt::Display| {
        Failure::usage(format_args!("--filter '{expression}': {why}; 'udp port 53' is one"))
    };
    if let Some(word) = unknown(expression) {
        return Err(refused(&format_args!("{word} depends on the interface; --filter-code knows it")));
    }
    let mut command = Command::new("tcpdump");
    command.args(["-ddd", "-y", "EN10MB", "--", expression]).stdin(Stdio::null());
    if User::caller().map_err(Failure::usage)?.is_root() {
        let User { uid, gid } = User::NOBODY;
        command.uid(uid).gid(gid);
    }
    let output = as_caller(|| output(command)).map_err(|error| match error.kind() {
        // A search that passes a forbidden directory reports that, and not that there is no such program.
        ErrorKind::NotFound | ErrorKind::PermissionDenied => Failure::not_possible(format_args!(
            "--filter: tcpdump is needed, which compiles it ({error}); --filter-code takes what it has compiled elsewhere",
        )),
        ErrorKind::InvalidInput => refused(&"not an expression"),
        _ => Failure::broke_off("--filter: running tcpdump", &error),
    })?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().last().unwrap_or("tcpdump refuses it");
        return Err(refused(&last.trim_start_matches("tcpdump: ")));
    }
    if output.stdout.is_empty() {
        return Err(refused(&"tcpdump has printed nothing"));
    }
    of_decimal(&String::from_utf8_lossy(&output.stdout)).map_err(|problem| refused(&problem))
}

/// Runs the command, and returns its status and output. `Command::output` panics where a system call filter refuses to
/// wait for both pipes at once; this output is short and fits into one.
fn output(mut command: Command) -> io::Result<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (mut stdout, mut stderr) = (vec![], vec![]);
    let read = child.stdout.take().map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut stdout));
    let read = read.and_then(|_| child.stderr.take().map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut stderr)));
    if read.is_err() {
        let _ = child.kill();
    }
    let status = child.wait()?;
    read.map(|_| Output { status, stdout, stderr })
}

/// Returns a word that libpcap compiles differently if it knows the interface: the kernel takes tags out of frames
/// before a filter sees them, and a program has to ask for them.
fn unknown(expression: &str) -> Option<&str> {
    let mut words = expression.split(|c: char| !c.is_ascii_alphanumeric());
    words.find(|word| ["vlan", "inbound", "outbound", "ifindex"].contains(word))
}

/// Reads the filter in a file.
///
/// # Errors
/// A usage failure if it cannot be read or is invalid.
pub(crate) fn of_file(path: &Path) -> Result<Filter, Failure> {
    let refused = |why: &dyn std::fmt::Display| {
        Failure::usage(format_args!("--filter-code '{}': {why}", path.display()))
    };
    let mut text = String::new();
    let opened = file::open(path).map_err(|error| refused(&error))?;
    opened.take(LONGEST_FILE).read_to_string(&mut text).map_err(|error| refused(&error))?;
    of_decimal(&text).map_err(|problem| refused(&problem))
}

/// Parses the output of `tcpdump -ddd`: the number of instructions, then one on each line.
///
/// # Errors
/// The line that is wrong, and what is allowed there.
pub(crate) fn of_decimal(text: &str) -> Result<Filter, String> {
    let mut lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
    let count: usize = match lines.next() {
        Some((_, line)) => line
            .parse()
            .map_err(|_| format!("line 1: '{}', not how many instructions follow", quoted(line)))?,
        None => return Err("it is empty; 'tcpdump -ddd EXPRESSION' prints one".to_owned()),
    };
    let instructions: Vec<_> = lines
        .map(|(at, line)| instruction(line).ok_or((at, line)))
        .collect::<Result<_, _>>()
        .map_err(|(at, line)| format!("line {}: '{}', not four numbers", at + 1, quoted(line)))?;
    if instructions.len() != count {
        return Err(format!("{} instructions, where line 1 says {}", instructions.len(), quoted(count)));
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

/// More than 4,096 lines of the longest instructions.
const LONGEST_FILE: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn expressions_about_tags_are_refused() {
        assert_eq!(unknown("udp and(vlan 5)"), Some("vlan"));
        assert_eq!((unknown("host vlan5 or udp"), unknown("")), (None, None));
        let refused = of_expression("vlan 5").unwrap_err().to_string();
        assert!(refused.starts_with("--filter 'vlan 5': vlan depends"), "{refused}");
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
        fn any_text_is_a_program_or_refused(text in "\\PC{0,60}", lines in proptest::collection::vec("[0-9 ]{0,12}", 0..6)) {
            let _ = of_decimal(&text);
            let _ = of_decimal(&lines.join("\n"));
        }
    }
}
