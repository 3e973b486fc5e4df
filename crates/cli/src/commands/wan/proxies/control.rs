//! The control socket of several proxies: the lines of a [single path](super::super::control), with a name in front.
//!
//! ```text
//!   set db both rtt 80ms loss 1%      ok
//!   show db                           {"name":"db",…}
//!   show                              {"proxies":[…],…}
//! ```

use std::io;
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use softtimers::{Clock, Monotonic, Timestamp};
use softtimers_measure::interrupt::Interrupt;

use super::registry::Registry;
use crate::control::{Control, DEAF};

/// Waits for a signal, or until this time, and meanwhile serves the control socket.
///
/// # Errors
/// If the system refuses to wait.
pub(super) fn attend(
    interrupt: &Interrupt,
    mut control: Option<Control>,
    until: Option<Timestamp>,
    registry: &Mutex<Registry>,
) -> io::Result<()> {
    let mut deaf_until: Option<Timestamp> = None;
    while !interrupt.arrived() {
        let now = Monotonic.now();
        if until.is_some_and(|until| now >= until) {
            break;
        }
        deaf_until = deaf_until.filter(|&until| now < until);
        let wake = until.into_iter().chain(deaf_until).min();
        let ready = ready(interrupt, control.as_ref(), deaf_until.is_none(), wake)?;
        let Some(control) = &mut control else { continue };
        for number in ready.connections {
            control.serve(number, |line| {
                answer(&mut registry.lock().unwrap_or_else(PoisonError::into_inner), line)
            });
        }
        // Without a descriptor for another connection the socket would be ready for ever.
        if ready.is_new && control.accept().is_err() {
            deaf_until = Some(Monotonic.now() + DEAF);
        }
    }
    Ok(())
}

/// Sources that are readable.
#[derive(Default)]
struct Ready {
    is_new: bool,
    connections: Vec<usize>,
}

/// Sleeps until a source is readable, or until this time.
fn ready(
    interrupt: &Interrupt,
    control: Option<&Control>,
    listens: bool,
    until: Option<Timestamp>,
) -> io::Result<Ready> {
    let left = until.map(|until| until.saturating_duration_since(Monotonic.now()));
    let left = left.map(Timespec::try_from).transpose().map_err(|_| io::ErrorKind::InvalidInput)?;
    let connections: Vec<_> = control.into_iter().flat_map(Control::connections).collect();
    let mut all = vec![PollFd::new(interrupt, PollFlags::IN)];
    all.extend(connections.iter().map(|(_, connection)| PollFd::new(connection, PollFlags::IN)));
    all.extend(control.filter(|_| listens).map(|control| PollFd::new(control, PollFlags::IN)));
    match poll(&mut all, left.as_ref()) {
        Ok(0) | Err(Errno::INTR) => return Ok(Ready::default()),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let is_ready = |poll: &PollFd<'_>| !poll.revents().is_empty();
    let served = connections.iter().zip(&all[1..]).filter(|(_, poll)| is_ready(poll));
    Ok(Ready {
        is_new: all.get(1 + connections.len()).is_some_and(is_ready),
        connections: served.map(|((number, _), _)| *number).collect(),
    })
}

/// Carries out a line, and returns the answer.
fn answer(registry: &mut Registry, line: &str) -> String {
    let line = line.trim();
    let (command, rest) = line.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((line, ""));
    let answer = match (command, rest.trim_start()) {
        ("show", "") => json(&registry.report()),
        ("show", name) => {
            registry.report_of(name).map_err(|refusal| refusal.words).and_then(|one| json(&one))
        }
        ("set", rest) => match registry.split_name(rest) {
            None => Err("set NAME, with the name of a proxy; 'show' has them all".to_owned()),
            Some((name, change)) => {
                let changed = registry.change_path(&name, change);
                changed.map(|()| "ok".to_owned()).map_err(|refusal| refusal.in_short().to_owned())
            }
        },
        _ => Err("the commands are: set NAME up|down|both SETTING VALUE …; show [NAME]".to_owned()),
    };
    answer.unwrap_or_else(|problem| format!("error: {problem}"))
}

fn json(report: &impl serde::Serialize) -> Result<String, String> {
    let text = serde_json::to_string(report).map_err(|error| error.to_string())?;
    if text.len() > LONGEST_ANSWER {
        return Err(format!(
            "an answer has at most {LONGEST_ANSWER} bytes, and there are many proxies; show NAME"
        ));
    }
    Ok(text)
}

/// The room in the socket of a slow reader.
const LONGEST_ANSWER: usize = 128 * 1_024;
