//! The end of a run: a report for people, or one JSON object; then the assertions.
//!
//! Results go to stdout and diagnostics to stderr, so `softtimers recv --json ADDR > run.json` leaves a clean file and
//! still shows the address. A reader that goes away (`| head`) is not an error.
//!
//! ```text
//!   send to 127.0.0.1:7000: 5.00 kpps of 1200 B …     header: on a terminal when the run begins, else with the rest
//!   Linux 6.18, 2 x …
//!     time     sent …                                 a line a second, on a terminal: see stream
//!   rate      5.00 kpps …                             the report's table
//!   inconclusive: …                                   the remarks of every report
//! ```

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};

use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use serde::Serialize;
use serde_json::Value;
use softtimers_measure::assertion::Assertion;
use softtimers_measure::failure::{Failure, one_line};
use softtimers_measure::machine::Machine;

use super::privileges::Sandbox;
use super::screen::{Screen, Tone};
use super::table::{Table, wrapped};

/// The findings of a command. Its keys are those of the JSON object, besides those of [`Object`].
///
/// It is the report of the command `C`: so a command can show what a library has counted, whose type is not its own.
pub trait Report<C: ?Sized>: Serialize {
    /// `softtimers.NAME/VERSION`; the version changes when a key changes its meaning or goes.
    const SCHEMA: &'static str;

    /// The list whose length is known only after a run, if there is one: in an example, its first element stands for
    /// all.
    const ROWS: Option<&'static str> = None;

    /// Whether others who use the CPUs could change it: not what is computed, or read from files.
    const IS_TIMED: bool = true;

    /// The same findings for people.
    fn table(&self) -> Table;
}

/// A report with its circumstances, ready to be printed.
#[derive(Debug)]
pub struct Object<'a, R, C> {
    /// The header, unless it has been printed already.
    pub header: Option<&'a str>,
    /// The machine on which it ran.
    pub machine: &'a Machine,
    /// The restrictions since privileges were dropped; a run keeps its privileges if its children need them.
    pub sandbox: Option<&'a Sandbox>,
    /// The seed, if anything was random.
    pub seed: Option<u64>,
    /// The configuration in effect, defaults filled in.
    pub config: &'a C,
    /// The fallbacks: each is a sentence that says what did not work as requested, and what was done instead.
    pub fallbacks: &'a [String],
    /// Why the figures are inconclusive, if they are.
    pub inconclusive: Option<String>,
    /// The report of the findings.
    pub report: &'a R,
}

/// How to print a run, and what must hold for it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Output {
    /// One JSON object instead of a table.
    pub json: bool,
    /// A line of JSON a second while the command runs, see [`stream`](super::stream), and the object on a line.
    pub stream: bool,
    /// Checked in this order after printing; all are checked.
    pub assertions: Vec<Assertion>,
    /// Whether the run must not be sandboxed.
    pub unconfined: bool,
}

impl Output {
    /// Refuses assertions on keys that the run's object will not have, before the run starts.
    /// `example` is any object of the same kind.
    ///
    /// # Errors
    /// A usage failure for the first such key.
    pub fn check_keys<O: ?Sized, R: Report<O>, C: Serialize>(
        &self,
        example: &Object<'_, R, C>,
    ) -> Result<(), Failure> {
        // A reason is a text, even if the example has none.
        let example = Object { inconclusive: Some(String::new()), ..*example }.to_json::<O>()?;
        self.assertions.iter().try_for_each(|assertion| assertion.check_key(&example, R::ROWS))
    }

    /// Prints `object` to stdout and checks the assertions.
    ///
    /// # Errors
    /// A check failure that names all assertions that do not hold, or if stdout cannot be written to.
    pub fn finish<O: ?Sized, R: Report<O>, C: Serialize>(
        &self,
        object: &Object<'_, R, C>,
    ) -> Result<(), Failure> {
        let json = object.to_json::<O>()?;
        // Not from a `Value`, whose keys are in alphabetical order.
        if self.stream {
            let text = serde_json::to_string(&object.keys::<O>()).map_err(no_json)?;
            tolerate_closed(print_line(&text))?;
        } else if self.json {
            tolerate_closed(print_line(&object.to_json_text::<O>()?))?;
        } else {
            print(&object.to_text::<O>(&Screen::stdout()))?;
        }
        self.check(&json)
    }

    /// As [`finish`](Self::finish), but to stderr, for a run whose stdout is another program's.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn finish_aside<O: ?Sized, R: Report<O>, C: Serialize>(
        &self,
        object: &Object<'_, R, C>,
    ) -> Result<(), Failure> {
        let json = object.to_json::<O>()?;
        let text = if self.json { object.to_json_text::<O>()? } else { object.to_text::<O>(&Screen::PIPE) };
        say(format_args!("{}", text.trim_end()));
        self.check(&json)
    }

    fn check(&self, json: &Value) -> Result<(), Failure> {
        let mut failed: Vec<Failure> =
            self.assertions.iter().filter_map(|assertion| assertion.check(json).err()).collect();
        match failed.len() {
            0 => Ok(()),
            1 => Err(failed.remove(0)),
            _ => Err(Failure::check(failed.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))),
        }
    }
}

impl<R: Serialize, C: Serialize> Object<'_, R, C> {
    /// Returns the whole object, as `--json` prints it.
    ///
    /// # Errors
    /// A check failure if the report cannot be written as JSON.
    pub fn to_json<O: ?Sized>(&self) -> Result<Value, Failure>
    where
        R: Report<O>,
    {
        serde_json::to_value(self.keys::<O>()).map_err(no_json)
    }

    /// Returns the text that `--json` prints, with its keys in their order.
    ///
    /// # Errors
    /// As [`to_json`](Self::to_json).
    pub fn to_json_text<O: ?Sized>(&self) -> Result<String, Failure>
    where
        R: Report<O>,
    {
        serde_json::to_string_pretty(&self.keys::<O>()).map_err(no_json)
    }

    fn keys<O: ?Sized>(&self) -> Keys<'_, R, C>
    where
        R: Report<O>,
    {
        Keys {
            schema: R::SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            seed: self.seed,
            machine: MachineObject { machine: self.machine, sandbox: self.sandbox },
            config: self.config,
            fallbacks: self.fallbacks,
            inconclusive: self.inconclusive.as_deref(),
            report: self.report,
        }
    }

    /// Returns the text for people.
    pub fn to_text<O: ?Sized>(&self, screen: &Screen) -> String
    where
        R: Report<O>,
    {
        let begun = self.header.map(|header| head(header, self.machine, screen));
        let mut text = begun.unwrap_or_default() + &self.report.table().draw(screen);
        let seed = self.seed.map(|seed| format!("random: --seed {seed} repeats it"));
        let notes = self.fallbacks.iter().map(|fallback| format!("note: {fallback}"));
        let disturbed = self.machine.interference().filter(|_| R::IS_TIMED);
        let sandbox = self.sandbox.and_then(Sandbox::line);
        let inconclusive = self.inconclusive.as_ref().map(|why| (format!("inconclusive: {why}"), Tone::Bad));
        let plain =
            seed.into_iter().chain(notes).chain(disturbed).chain(sandbox).map(|line| (line, Tone::Plain));
        text.push('\n');
        for (line, tone) in inconclusive.into_iter().chain(plain) {
            for line in wrapped(&line, sentence(screen)) {
                let _ = writeln!(text, "{}", screen.toned(&line, tone));
            }
        }
        text
    }
}

/// Returns the lines above the report: the request, and the machine.
pub(crate) fn head(header: &str, machine: &Machine, screen: &Screen) -> String {
    let width = sentence(screen);
    let lines = [wrapped(&one_line(header), width), wrapped(&machine.place(), width)].concat();
    format!("{}\n\n", lines.join("\n"))
}

/// Returns the width of sentences: in a file or pipe a sentence is one line, which programs can find.
fn sentence(screen: &Screen) -> usize {
    if screen.watched { screen.width } else { usize::MAX }
}

fn no_json(error: serde_json::Error) -> Failure {
    Failure::check(format_args!("writing JSON: {error}"))
}

#[derive(Serialize)]
struct Keys<'a, R, C> {
    schema: &'static str,
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    machine: MachineObject<'a>,
    config: &'a C,
    fallbacks: &'a [String],
    inconclusive: Option<&'a str>,
    #[serde(flatten)]
    report: &'a R,
}

/// The `machine` object.
#[derive(Serialize)]
struct MachineObject<'a> {
    #[serde(flatten)]
    machine: &'a Machine,
    sandbox: Option<&'a Sandbox>,
}

/// Writes to stdout. A closed pipe counts as success, since the reader has what it wanted, and so does a closed
/// terminal.
///
/// # Errors
/// A check failure for anything else, such as a full disk.
pub fn print(text: &str) -> Result<(), Failure> {
    tolerate_closed(write(text))
}

/// Writes a line to stdout, at once and whole.
///
/// # Errors
/// The system's error, also if [the reader is gone](is_unread): the caller may want to end its run then.
pub fn print_line(line: &str) -> io::Result<()> {
    write(&format!("{line}\n"))
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

fn tolerate_closed(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if !is_unread(&error) => Err(Failure::broke_off("writing to stdout", &error)),
        _ => Ok(()),
    }
}

/// Says whether writing to stdout failed because its reader is gone: of a pipe, or a closed terminal, which gives EIO.
/// A disk gives that for a defect.
pub fn is_unread(error: &io::Error) -> bool {
    let is_terminal = || {
        fstat(io::stdout())
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice)
    };
    error.kind() == ErrorKind::BrokenPipe || (Errno::from_io_error(error) == Some(Errno::IO) && is_terminal())
}

/// Prints a message on stderr. A missing reader is not an error.
pub fn say(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::{or_dash, share};
    use softtimers_measure::failure::Exit;

    #[derive(Serialize, Default)]
    struct Small {
        sent: u64,
        back_to_back: Option<f64>,
    }

    impl Report<()> for Small {
        const SCHEMA: &'static str = "softtimers.small/1";

        fn table(&self) -> Table {
            let mut table = Table::default();
            table.row("sent", self.sent);
            table.row("back to back", or_dash(self.back_to_back, share));
            table
        }
    }

    fn object<'a>(machine: &'a Machine, report: &'a Small) -> Object<'a, Small, ()> {
        Object {
            header: None,
            machine,
            sandbox: None,
            seed: None,
            config: &(),
            fallbacks: &[],
            inconclusive: None,
            report,
        }
    }

    #[test]
    fn an_object_has_the_keys_of_the_contract() {
        let machine = Machine::default();
        let object = object(&machine, &Small { sent: 3, back_to_back: None }).to_json().unwrap();
        for key in ["schema", "version", "machine", "config", "fallbacks", "sent", "back_to_back"] {
            assert!(object.get(key).is_some(), "{key}");
        }
        assert_eq!(object["schema"], "softtimers.small/1");
    }

    #[test]
    fn a_seed_is_told_where_one_was_used() {
        let (machine, small) = (Machine::default(), Small::default());
        let seeded = Object { seed: Some(7), ..object(&machine, &small) };
        assert_eq!(seeded.to_json().unwrap()["seed"], 7);
        let text = seeded.to_text(&Screen::PIPE);
        assert!(text.contains("\nrandom: --seed 7 repeats it\n"), "{text}");
        assert!(object(&machine, &small).to_json().unwrap().get("seed").is_none());
    }

    #[test]
    fn people_get_notes_and_the_machine() {
        let machine = Machine { kernel: "6.1".to_owned(), ..Machine::default() };
        let report = Small { sent: 3, back_to_back: Some(0.5) };
        let notes = ["no epoll_pwait2; timerfd instead".to_owned()];
        let object = Object {
            header: Some("small: nothing at all"),
            fallbacks: &notes,
            inconclusive: Some("busy".to_owned()),
            ..object(&machine, &report)
        };
        let text = object.to_text(&Screen::PIPE);
        assert!(text.starts_with("small: nothing at all\nLinux 6.1"), "{text}");
        assert!(
            text.contains(
                "\n\nsent          3\nback to back  50.0%\n\ninconclusive: busy\nnote: no epoll_pwait2"
            ),
            "{text}"
        );
        let narrow = object.to_text(&Screen { width: 30, watched: true, ..Screen::PIPE });
        assert!(narrow.contains("\nnote: no epoll_pwait2; timerfd\ninstead\n"), "{narrow}");
    }

    #[test]
    fn unknown_keys_are_refused_before_the_run() {
        let machine = Machine::default();
        let output =
            |text: &str| Output { json: true, assertions: vec![text.parse().unwrap()], ..Output::default() };
        let example = Small::default();
        assert_eq!(output("sent>1").check_keys(&object(&machine, &example)), Ok(()));
        assert_eq!(output("back_to_back<0.1").check_keys(&object(&machine, &example)), Ok(()));
        assert_eq!(output("machine.cores>0").check_keys(&object(&machine, &example)), Ok(()));
        for text in ["snet>1", "inconclusive==0", "schema>1"] {
            let refused = output(text).check_keys(&object(&machine, &example)).unwrap_err();
            assert_eq!(refused.exit(), Exit::Usage, "{text}");
        }
    }

    #[test]
    fn only_a_closed_pipe_is_tolerated() {
        assert_eq!(tolerate_closed(Err(ErrorKind::BrokenPipe.into())), Ok(()));
        assert_eq!(tolerate_closed(Err(ErrorKind::StorageFull.into())).unwrap_err().exit(), Exit::Check);
    }
}
