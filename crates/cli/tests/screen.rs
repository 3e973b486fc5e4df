//! Output on a terminal and into a pipe: the real ones, on a pseudo-terminal of 80 and of 120 columns.

mod common;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use common::{command, run, stderr};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

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
fn on_terminal(mut command: Command, columns: u16) -> String {
    let (mut ours, theirs) = terminal(columns);
    command.env("TERM", "xterm").stdin(Stdio::null()).stdout(Stdio::from(theirs)).stderr(Stdio::null());
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

/// Somebody who says nothing, until the tests are over.
fn sink() -> SocketAddr {
    static SINK: OnceLock<UdpSocket> = OnceLock::new();
    SINK.get_or_init(|| UdpSocket::bind("127.0.0.1:0").expect("a port")).local_addr().expect("its address")
}

/// Short runs that need no privileges and nobody else.
fn runs() -> Vec<(&'static str, String)> {
    let recording = std::env::temp_dir().join(format!("softtimers-screen-{}.csv", std::process::id()));
    std::fs::write(&recording, "t_us,len\n0,100\n1000,100\n2000,100\n").unwrap();
    let to = sink();
    vec![
        ("send", format!("send {to} --rate 1kpps --duration 1200ms --no-handshake")),
        ("recv", "recv 127.0.0.1:0 --duration 1200ms".to_owned()),
        ("replay", format!("replay {} {to} --no-handshake", recording.display())),
        ("wan", format!("wan --listen 127.0.0.1:0 --to {to} --delay 1ms --duration 1200ms")),
        ("forward", format!("forward --udp 127.0.0.1:0 --to {to} --duration 1200ms")),
        ("bench", "bench --at 1kpps,2kpps,4kpps --trial 40ms".to_owned()),
    ]
}

#[test]
fn every_line_fits_the_terminal() {
    for (name, words) in runs() {
        for columns in [80, 120] {
            let text = on_terminal(command(&words), columns);
            let (text, _) = plain(&text);
            assert!(text.starts_with(name), "a header: {text}");
            for line in text.lines() {
                // A path in the header has no place to be broken at.
                let forced = line.starts_with("replay") || line.contains("softtimers-screen");
                assert!(forced || line.chars().count() <= usize::from(columns), "{words}: {line:?}");
            }
        }
    }
}

#[test]
fn a_line_a_second_is_for_who_watches() {
    for (name, words) in runs().into_iter().filter(|(name, _)| ["send", "wan"].contains(name)) {
        // Long enough for a machine that is late with the first line.
        let words = words.replace("1200ms", "2500ms");
        let (watched, _) = plain(&on_terminal(command(&words), 80));
        assert!(watched.contains("\n  time  ") && watched.contains("\n   1 s  "), "{watched}");
        let piped = run(&words);
        let text = String::from_utf8(piped.stdout.clone()).unwrap();
        assert!(text.starts_with(name) && !text.contains("  time  "), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}

/// A terminal of its own, as a user's: stdin, too.
#[test]
fn a_terminal_shows_the_path_and_its_keys_change_it() {
    let (mut ours, theirs) = terminal(100);
    let before = tcgetattr(&ours).unwrap().local_modes;
    let words = format!("wan --listen 127.0.0.1:0 --to {} --rtt 20ms --rate 3Mbit", sink());
    let plain = command(&words);
    let mut command = Command::new("setsid");
    command.arg("--ctty").arg(plain.get_program()).args(plain.get_args()).env("TERM", "xterm");
    command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap()).stderr(Stdio::null());
    let mut child = command.spawn().expect("setsid, of util-linux");
    drop(command);
    let mut keys = ours.try_clone().unwrap();
    let mut until = |wanted: &str| {
        let (mut shown, mut some) = (String::new(), [0; 4096]);
        while !shown.contains(wanted) {
            assert!(shown.len() < 1 << 20, "no {wanted:?} in {shown}");
            let read = ours.read(&mut some).expect("it runs");
            shown.push_str(&String::from_utf8_lossy(&some[..read]));
        }
    };
    until("q end");
    assert!(!tcgetattr(&keys).unwrap().local_modes.contains(LocalModes::ECHO));
    for (key, then) in [
        (b"w", "30 ms set"),
        (b"b", "20 ms set"),
        (b"o", "outage: nothing gets through"),
        (b"n", "no further step"),
        (b"q", "\u{1b}[?1049l"),
    ] {
        keys.write_all(key).unwrap();
        until(then);
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(tcgetattr(&keys).unwrap().local_modes, before);
    drop(theirs);
}

/// A timer of milliseconds cannot keep 20,000 a second without skipping some, and what is skipped is bad.
#[test]
fn colours_are_for_terminals_that_want_them() {
    let words =
        format!("send {} --rate 20kpps --duration 300ms --timer ms --catch-up none --no-handshake", sink());
    let mut with = command(&words);
    with.env_remove("NO_COLOR").env_remove("CLICOLOR");
    let (text, coloured) = plain(&on_terminal(with, 80));
    assert!(coloured, "{text}");
    let mut without = command(&words);
    without.env("NO_COLOR", "1");
    let (text, coloured) = plain(&on_terminal(without, 80));
    assert!(!coloured, "{text}");
}

#[test]
fn manual_pages_explain_the_labels() {
    let page = run("man send");
    assert_eq!(page.status.code(), Some(0), "{}", stderr(&page));
    let page = String::from_utf8(page.stdout).unwrap();
    for label in ["back to back", "skipped", "fired by"] {
        assert!(page.contains(&format!("\\fB{label}\\fR")), "{label}: {page}");
    }
}
