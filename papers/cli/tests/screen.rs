//! Output on a terminal: a real one, on a pseudo-terminal of 80 and of 120 columns.

mod common;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use common::{command, run, skipped, stderr};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Returns a pseudo-terminal of `columns` columns: our end, and a program's.
fn terminal(columns: u16) -> (File, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
    grantpt(&ours).expect("it is ours");
    unlockpt(&ours).expect("it is ours");
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&ours, size).expect("it is a terminal");
    let name = ptsname(&ours, Vec::new()).expect("its name");
    let theirs = open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("its other end");
    (File::from(ours), theirs)
}

/// The output of a command on a terminal.
fn on_terminal(command: Command, columns: u16) -> String {
    with_errors(command, columns, |_| Stdio::null())
}

/// The same, with its errors where `errors` says, given the terminal.
fn with_errors(mut command: Command, columns: u16, errors: impl FnOnce(&OwnedFd) -> Stdio) -> String {
    let (mut ours, theirs) = terminal(columns);
    let errors = errors(&theirs);
    command.env("TERM", "xterm").stdout(Stdio::from(theirs)).stderr(errors);
    let mut child = command.spawn().expect("the command starts");
    // Its end is the child's alone from now on.
    drop(command);
    let (mut bytes, mut some) = (vec![], [0; 4096]);
    loop {
        match ours.read(&mut some) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&some[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Nobody has its other end any more.
            Err(_) => break,
        }
    }
    assert_eq!(child.wait().expect("our child").code(), Some(0));
    String::from_utf8(bytes).expect("UTF-8").replace("\r\n", "\n")
}

/// A text without colours, and whether it had any.
fn plain(text: &str) -> (String, bool) {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest: Vec<&str> = parts.collect();
    let shown = rest.iter().map(|part| part.split_once('m').expect("a colour").1);
    (first + &shown.collect::<String>(), !rest.is_empty())
}

/// A second view that erased its own rows erased these.
#[test]
fn a_probe_leaves_the_lines_of_its_seconds() {
    let tried = run("probe --duration 10ms --json");
    if tried.status.code() == Some(77) {
        return skipped(stderr(&tried).trim());
    }
    let both = |terminal: &OwnedFd| Stdio::from(terminal.try_clone().expect("a descriptor"));
    let text = with_errors(command("probe --duration 2500ms"), 120, both);
    let moves = text
        .split("\u{1b}[")
        .skip(1)
        .filter(|code| !code.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m'));
    assert_eq!(moves.count(), 0, "nothing moves the cursor: {text:?}");
    let (plain, _) = plain(&text);
    let seconds = plain.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
    assert!(seconds.count() >= 2, "{plain}");
}

#[test]
fn every_line_fits_the_terminal() {
    for columns in [80, 120] {
        let text = on_terminal(command("noise --phases 100 --phase 100us"), columns);
        let (text, _) = plain(&text);
        assert!(text.starts_with("noise"), "a header: {text}");
        for line in text.lines() {
            assert!(line.chars().count() <= usize::from(columns), "{line:?}");
        }
    }
}
