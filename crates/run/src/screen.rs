//! The output of a report: the width of lines, the use of colour, and whether it is a terminal.

use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};

/// A terminal, or a file or pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Screen {
    /// The columns of a line.
    pub width: usize,
    /// Whether colours may be used.
    pub colour: bool,
    /// Whether it is a terminal, where a user may watch the run.
    pub watched: bool,
}

/// Whether a figure is good or bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tone {
    /// Neither.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// Not as it should be.
    Bad,
}

impl Screen {
    /// A file or a pipe: as wide as the tables of the documentation.
    pub const PIPE: Screen = Screen { width: 100, colour: false, watched: false };

    /// The screen of stdout. It is examined once: a run that has dropped its privileges may not do it any more.
    pub fn stdout() -> Screen {
        static STDOUT: OnceLock<Screen> = OnceLock::new();
        *STDOUT.get_or_init(|| {
            let stdout = io::stdout();
            if !stdout.is_terminal() {
                return Screen::PIPE;
            }
            let columns = rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_col));
            let width = if columns == 0 { USUAL } else { columns.clamp(NARROWEST, WIDEST) };
            // NO_COLOR, CLICOLOR and a dumb terminal are respected there.
            let colour = AutoStream::choice(&stdout) != ColorChoice::Never;
            Screen { width, colour, watched: true }
        })
    }

    /// Returns the text in the colour of its tone.
    pub fn toned(&self, text: &str, tone: Tone) -> String {
        let style = match tone {
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Bad => AnsiColor::Red.on_default(),
            Tone::Plain => Style::new(),
        };
        if self.colour { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

impl Tone {
    /// Bad if there is any.
    pub fn bad_if(bad: bool) -> Tone {
        if bad { Tone::Bad } else { Tone::Plain }
    }
}

/// The width of a terminal that does not tell it.
const USUAL: usize = 80;
/// A narrower terminal wraps lines by itself.
const NARROWEST: usize = 60;
/// Wider lines are hard to read.
const WIDEST: usize = 120;
