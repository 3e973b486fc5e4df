//! The lines of the control socket: changes of the path while packets flow.
//!
//! ```text
//!   $ printf 'set up delay 50ms loss 1%%\nshow\n' | socat - UNIX-CONNECT:wan.sock
//!   ok
//!   {"up":{…},"down":{…}}
//! ```

use softtimers_wan::{Change, Way};

use super::setting::Setting;

/// A request in one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// New values in one direction, or in both.
    Set(Option<Way>, Vec<Change>),
    /// Shows the whole report.
    Show,
}

/// Parses a line.
///
/// # Errors
/// Names the fault, and what is allowed.
pub(crate) fn request(line: &str) -> Result<Request, String> {
    let mut words = line.split_ascii_whitespace();
    match words.next() {
        Some("show") => match words.next() {
            None => Ok(Request::Show),
            Some(word) => Err(format!("show takes nothing, not {word:?}")),
        },
        Some("set") => {
            let way = match words.next() {
                Some("up") => Some(Way::Up),
                Some("down") => Some(Way::Down),
                Some("both") => None,
                _ => return Err("set up, set down or set both, then settings with their values".into()),
            };
            let mut changes = Vec::new();
            while let Some(name) = words.next() {
                changes.push(change(name, words.next())?);
            }
            if changes.is_empty() { Err("nothing is set".into()) } else { Ok(Request::Set(way, changes)) }
        }
        _ => Err("the commands are: set up|down|both SETTING VALUE …; show".into()),
    }
}

/// Parses a new value of the setting `name`. `rtt` is for two directions: half of it is the delay of each.
pub(super) fn change(name: &str, value: Option<&str>) -> Result<Change, String> {
    let is_rtt = name == "rtt";
    let setting = Setting::named(if is_rtt { "delay" } else { name }).ok_or_else(|| {
        let names: Vec<_> = super::setting::SETTINGS.iter().map(|setting| setting.flags[0]).collect();
        format!("no setting {name:?}; there are rtt, {}", names.join(", "))
    })?;
    let value = value.ok_or_else(|| format!("{name} needs a value, {}", setting.value))?;
    Ok(match setting.change(value).map_err(|error| format!("{name} {value}: {error}"))? {
        Change::Delay(rtt) if is_rtt => Change::Delay(rtt / 2),
        change => change,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lines_are_understood_or_named() {
        let delay = Change::Delay(Duration::from_millis(50));
        assert_eq!(request("set up delay 50ms"), Ok(Request::Set(Some(Way::Up), vec![delay.clone()])));
        assert_eq!(request("  set  both delay 50ms "), Ok(Request::Set(None, vec![delay.clone()])));
        assert_eq!(request("set both rtt 100ms"), Ok(Request::Set(None, vec![delay])));
        assert!(request("set both rtt 5").unwrap_err().starts_with("rtt 5: "));
        assert_eq!(request("show"), Ok(Request::Show));
        for line in
            ["", "set", "set up", "set left delay 1ms", "set up delay", "set up dealy 1ms", "show me", "\0"]
        {
            assert!(request(line).is_err(), "{line:?}");
        }
        assert_eq!(request("set up delay 5").unwrap_err().split(':').next(), Some("delay 5"));
    }
}
