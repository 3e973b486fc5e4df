//! The path as it is now, on a terminal, with keys that change it: [`LiveScreen`].
//!
//! ```text
//!   rate up     ▁▁▂▄▆████████▇▇▇███   19.8 Mbit/s of 20 Mbit/s
//!   round trip  ▂▂▂▃▄▅▆▇▇▇▇▇▇▇▇▇▇▇▇   84.2 ms, 80 ms set
//!   w worse   b better   o outage   q end
//! ```
//!
//! Drawn by hand: a line of eight kinds of blocks needs no library. A frame goes to the thread that writes, which leaves
//! out frames for a slow terminal, so no packet waits for it.

use std::io::{self, IsTerminal};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};
use softtimers_wan::{Bottleneck, Loss, PathConfig, Probability};

use super::record::{Span, WaySpan};
use crate::run::output::print;
use crate::run::quantity::{bits, or_dash, setting, share, time};

/// The terminal while it shows the path; dropping it gives it back.
#[derive(Debug)]
pub(super) struct LiveScreen {
    before: Termios,
    title: String,
    has_scenario: bool,
    width: usize,
    /// The answer to the last key.
    said: String,
}

/// The action of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Worse,
    Better,
    Outage,
    NextStep,
    End,
}

impl LiveScreen {
    /// Says whether stdin and stdout are a terminal that is this process's: not in the background. To be asked before
    /// privileges are dropped.
    pub(super) fn is_possible() -> bool {
        let stdin = io::stdin();
        stdin.is_terminal()
            && io::stdout().is_terminal()
            && tcgetpgrp(&stdin).is_ok_and(|group| group == getpgrp())
            && std::env::var_os("TERM").is_some_and(|kind| kind != "dumb")
    }

    /// Takes the terminal, where that is [possible](Self::is_possible).
    pub(super) fn take(title: String, width: usize, has_scenario: bool) -> Option<Self> {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin).ok()?;
        let mut keys = before.clone();
        // Ctrl-C stays a signal; one that stops or kills this process would leave the terminal as it is now.
        keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        keys.special_codes[SpecialCodeIndex::VSUSP] = 0;
        keys.special_codes[SpecialCodeIndex::VQUIT] = 0;
        keys.special_codes[SpecialCodeIndex::VMIN] = 1;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&stdin, OptionalActions::Now, &keys).ok()?;
        let _ = print("\x1b[?1049h\x1b[?25l");
        Some(LiveScreen { before, title, has_scenario, width, said: String::new() })
    }

    /// Reads the keys that were pressed; to be called when stdin is readable. `End` also if the terminal is gone.
    pub(super) fn keys(&self) -> Vec<Key> {
        let mut some = [0; 64];
        // Not through the standard library's buffer, of which no readiness tells.
        let read = match rustix::io::read(io::stdin(), &mut some) {
            Err(Errno::INTR | Errno::AGAIN) => return vec![],
            Ok(0) | Err(_) => return vec![Key::End],
            Ok(read) => read,
        };
        some[..read]
            .iter()
            .filter_map(|&byte| KEYS.iter().find(|(key, ..)| *key == byte))
            .map(|&(_, key, _)| key)
            .collect()
    }

    /// Shows the answer to a key from now on.
    pub(super) fn say(&mut self, what: String) {
        self.said = what;
    }

    /// Returns the text that draws these spans, the last one on the right.
    pub(super) fn frame(&self, spans: &[Span]) -> String {
        let mut text = format!("\x1b[H{}", self.lines(spans).join("\x1b[K\n"));
        text.push_str("\x1b[K\x1b[J");
        text
    }

    fn lines(&self, spans: &[Span]) -> Vec<String> {
        let width = self.width.saturating_sub(NAME + FIGURE).clamp(10, MOST_COLUMNS);
        let shown = &spans[spans.len().saturating_sub(width)..];
        let Some(last) = shown.last() else { return vec![self.title.clone()] };
        let clip = |text: String| text.chars().take(self.width).collect::<String>();
        let tenths =
            |time: Duration| setting(Duration::from_millis((time.as_millis() as u64).next_multiple_of(100)));
        let mut lines = vec![
            clip(self.title.clone()),
            clip(format!("the last {} of {}", tenths(last.until - shown[0].from), tenths(last.until))),
            String::new(),
        ];
        let mut row = |name: &str, of: &dyn Fn(&Span) -> f64, figure: String| {
            let plot: String = blocks(&shown.iter().map(of).collect::<Vec<_>>());
            lines.push(clip(format!("{name:NAME$}{plot:>width$}  {figure}")));
        };
        let ways = [(0, "up"), (1, "down")];
        for (way, name) in ways {
            let rate = |span: &Span| span.ways[way].bits_out as f64 / span.seconds().max(1e-9);
            let set = last.ways[way].set_rate.map(|rate| format!(" of {}", bits(rate as f64)));
            row(&format!("rate {name}"), &rate, bits(rate(last)) + &set.unwrap_or_default());
        }
        for (way, name) in ways {
            let wait = |span: &Span| span.ways[way].wait.as_secs_f64();
            row(&format!("queue {name}"), &wait, time(last.ways[way].wait));
        }
        let trip = |span: &Span| {
            let [up, down] = [0, 1].map(|way| span.ways[way].delay.quantile(0.5));
            Some(up? + down?)
        };
        let set = last.ways.iter().map(|way| way.set_delay).sum();
        row(
            "round trip",
            &|span| trip(span).unwrap_or_default() as f64,
            format!("{}, {} set", or_dash(trip(last), time), setting(set)),
        );
        for (way, name) in ways {
            let lost = |way: &WaySpan| (way.lost + way.dropped) as f64 / way.offered.max(1) as f64;
            let set = &last.ways[way];
            let state = if set.outage {
                "outage".to_owned()
            } else {
                format!("{}, {} set", share(lost(set)), share(set.set_loss))
            };
            row(&format!("loss {name}"), &|span| lost(&span.ways[way]), state);
        }
        let keys = KEYS.iter().filter(|(_, key, _)| *key != Key::NextStep || self.has_scenario);
        let keys: Vec<String> = keys.map(|(key, _, what)| format!("{} {what}", *key as char)).collect();
        lines.extend([String::new(), clip(keys.join("   ")), clip(self.said.clone())]);
        lines
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        let _ = print("\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Makes a path half as bad again, or takes that back: delay, jitter, independent loss, and the time that a packet
/// takes on the link. One without a rate, delay or loss gets none of it, but one without any of them gets 10 ms.
pub(super) fn changed(path: &mut PathConfig, worse: bool) {
    let (more, less) = if worse { (3, 2) } else { (2, 3) };
    if worse && *path == PathConfig::default() {
        path.delay = FIRST_DELAY;
        return;
    }
    if !worse || path.delay.max(path.jitter.size) < WORST_DELAY {
        path.delay = path.delay * more / less;
        path.jitter.size = path.jitter.size * more / less;
    }
    if let (Some(rate), None) = (path.bottleneck.mean_bps(), path.bottleneck.recording()) {
        let rate = u128::from(rate) * u128::from(less) / u128::from(more);
        path.bottleneck = u64::try_from(rate)
            .ok()
            .and_then(|rate| Bottleneck::bits_per_second(rate).ok())
            .unwrap_or(path.bottleneck.clone());
    }
    if let Loss::Random(share) = &mut path.loss {
        let parts = u64::from(share.parts_per_billion()) * u64::from(more) / u64::from(less);
        *share = u32::try_from(parts)
            .ok()
            .and_then(|parts| Probability::per_billion(parts).ok())
            .unwrap_or(*share);
    }
}

/// Draws values as blocks of eight heights, the greatest as the highest.
fn blocks(values: &[f64]) -> String {
    let most = values.iter().copied().fold(0.0, f64::max);
    let height = |value: f64| if most > 0.0 { (value / most * 7.0).round() as usize } else { 0 };
    values.iter().map(|&value| BLOCKS[height(value).min(7)]).collect()
}

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Each key, and its meaning.
const KEYS: [(u8, Key, &str); 5] = [
    (b'w', Key::Worse, "worse"),
    (b'b', Key::Better, "better"),
    (b'o', Key::Outage, "outage"),
    (b'n', Key::NextStep, "next step"),
    (b'q', Key::End, "end"),
];
/// The columns of names and of figures.
const NAME: usize = 12;
const FIGURE: usize = 34;
/// A span of 100 ms each: ten seconds.
const MOST_COLUMNS: usize = 100;
const FIRST_DELAY: Duration = Duration::from_millis(10);
/// From here on a key makes no delay longer.
const WORST_DELAY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worse_and_better_again_is_the_path_of_before() {
        let before = PathConfig::default()
            .delay(Duration::from_millis(40))
            .bottleneck(Bottleneck::bits_per_second(30_000_000).unwrap())
            .loss(Loss::Random(Probability::per_million(2_000).unwrap()));
        let mut path = before.clone();
        changed(&mut path, true);
        assert_eq!((path.delay, path.bottleneck.mean_bps()), (Duration::from_millis(60), Some(20_000_000)));
        assert_eq!(path.loss, Loss::Random(Probability::per_million(3_000).unwrap()));
        changed(&mut path, false);
        assert_eq!(path, before);
        let mut wire = PathConfig::default();
        changed(&mut wire, true);
        assert_eq!(wire.delay, FIRST_DELAY);
        (0..1_000).for_each(|_| changed(&mut wire, true));
        assert!(wire.delay < 2 * WORST_DELAY, "{wire:?}");
    }

    #[test]
    fn values_are_blocks_of_their_height() {
        assert_eq!(blocks(&[0.0, 1.0, 3.5, 7.0]), "▁▂▅█");
        assert_eq!(blocks(&[0.0, 0.0]), "▁▁");
    }
}
