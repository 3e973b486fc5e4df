//! What a command prints: a table for people, or one JSON object; then the assertions.
//!
//! stdout is data and stderr is talk, so `softtimers recv --json ADDR > run.json` leaves a clean file
//! and still shows where it listens. A reader that goes away (`| head`) is no error.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};

use serde::Serialize;
use serde_json::Value;
use softtimers_measure::assertion::Assertion;
use softtimers_measure::distribution::Distribution;
use softtimers_measure::failure::Failure;
use softtimers_measure::machine::Machine;
use softtimers_measure::units::show_duration;

/// The findings of a command. Its keys are those of the JSON object, beside the ones of [`Run`].
pub trait Report: Serialize {
    /// `softtimers.NAME/VERSION`; the version changes when a key changes its meaning or goes.
    const SCHEMA: &'static str;

    /// The list whose length is known only after a run, if there is one: in an example, its first element stands for all.
    const ROWS: Option<&'static str> = None;

    /// The same findings for people.
    fn table(&self) -> Table;
}

/// A report with the circumstances it was made in.
#[derive(Debug)]
pub struct Run<'a, R, C> {
    /// Where.
    pub machine: &'a Machine,
    /// The number that decided what was random, if anything was.
    pub seed: Option<u64>,
    /// The configuration in effect, defaults filled in.
    pub config: &'a C,
    /// What did not work as asked and what was done instead, one sentence each.
    pub fallbacks: &'a [String],
    /// Why the figures prove nothing, if so.
    pub inconclusive: Option<String>,
    /// What was found.
    pub report: &'a R,
}

/// How to print a run, and what must hold for it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Output {
    /// One JSON object instead of a table.
    pub json: bool,
    /// A line of JSON a second while the command runs, see [`stream`](crate::stream), and the object on a line.
    pub stream: bool,
    /// Checked in this order after printing; all are checked.
    pub assertions: Vec<Assertion>,
}

impl Output {
    /// Refuses assertions on keys that the run's object will not have, before it is started.
    /// `example` is any run of the same kind.
    ///
    /// # Errors
    /// A usage failure for the first such key.
    pub fn check_keys<R: Report, C: Serialize>(&self, example: &Run<'_, R, C>) -> Result<(), Failure> {
        // A reason is a text, also where the example gives none.
        let example = Run { inconclusive: Some(String::new()), ..*example }.to_json()?;
        self.assertions.iter().try_for_each(|assertion| assertion.check_key(&example, R::ROWS))
    }

    /// Prints `run` to stdout and checks the assertions.
    ///
    /// # Errors
    /// A check failure that names all the assertions that do not hold, or if stdout cannot be
    /// written to.
    pub fn finish<R: Report, C: Serialize>(&self, run: &Run<'_, R, C>) -> Result<(), Failure> {
        let object = run.to_json()?;
        // Not from a `Value`, which has its keys in alphabetical order.
        if self.stream {
            let text = serde_json::to_string(&run.object()).map_err(no_json)?;
            tolerate_closed(print_line(&text))?;
        } else if self.json {
            tolerate_closed(print_line(&run.to_json_text()?))?;
        } else {
            print(&run.to_text())?;
        }
        let mut failed: Vec<Failure> =
            self.assertions.iter().filter_map(|assertion| assertion.check(&object).err()).collect();
        match failed.len() {
            0 => Ok(()),
            1 => Err(failed.remove(0)),
            _ => Err(Failure::check(failed.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))),
        }
    }
}

impl<R: Report, C: Serialize> Run<'_, R, C> {
    /// The whole object, as `--json` prints it.
    ///
    /// # Errors
    /// A check failure if the report cannot be written as JSON.
    pub fn to_json(&self) -> Result<Value, Failure> {
        serde_json::to_value(self.object()).map_err(no_json)
    }

    /// The same as `--json` prints it, with its keys in their order.
    ///
    /// # Errors
    /// As [`to_json`](Self::to_json).
    pub fn to_json_text(&self) -> Result<String, Failure> {
        serde_json::to_string_pretty(&self.object()).map_err(no_json)
    }

    fn object(&self) -> Object<'_, R, C> {
        Object {
            schema: R::SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            seed: self.seed,
            machine: self.machine,
            config: self.config,
            fallbacks: self.fallbacks,
            inconclusive: self.inconclusive.as_deref(),
            report: self.report,
        }
    }

    fn to_text(&self) -> String {
        let mut text = self.report.table().to_string();
        if let Some(seed) = self.seed {
            let _ = writeln!(text, "random: --seed {seed} repeats it");
        }
        for fallback in self.fallbacks {
            let _ = writeln!(text, "note: {fallback}");
        }
        if let Some(why) = &self.inconclusive {
            let _ = writeln!(text, "inconclusive: {why}");
        }
        let _ = writeln!(text, "{}", self.machine.line());
        text
    }
}

fn no_json(error: serde_json::Error) -> Failure {
    Failure::check(format_args!("writing JSON: {error}"))
}

#[derive(Serialize)]
struct Object<'a, R, C> {
    schema: &'static str,
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    machine: &'a Machine,
    config: &'a C,
    fallbacks: &'a [String],
    inconclusive: Option<&'a str>,
    #[serde(flatten)]
    report: &'a R,
}

/// Rows of a name and a value, printed in two columns.
///
/// ```
/// use softtimers_cli::output::Table;
///
/// let mut table = Table::default();
/// table.row("sent", 25_000);
/// table.share("back to back", Some(0.004));
/// assert_eq!(table.to_string(), "sent          25000\nback to back  0.40%\n");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    rows: Vec<(String, String)>,
}

impl Table {
    /// Adds a row.
    pub fn row(&mut self, name: &str, value: impl ToString) {
        self.rows.push((name.to_owned(), value.to_string()));
    }

    /// Adds the rows of another table.
    pub fn append(&mut self, mut other: Table) {
        self.rows.append(&mut other.rows);
    }

    /// Adds a share as a percentage, or a dash for what was not measured.
    pub fn share(&mut self, name: &str, share: Option<f64>) {
        self.row(name, share.map_or_else(|| "-".to_owned(), |share| format!("{:.2}%", share * 100.0)));
    }

    /// Adds a number, or a dash for what was not measured.
    pub fn number(&mut self, name: &str, number: Option<u64>) {
        self.row(name, number.map_or_else(|| "-".to_owned(), |number| number.to_string()));
    }

    /// Adds a text, broken between words into lines of 100 columns with the name's.
    pub fn text(&mut self, name: &str, text: &str) {
        let names = self.rows.iter().map(|(name, _)| name.chars().count());
        let width = WIDEST.saturating_sub(names.chain([name.chars().count()]).max().unwrap_or(0) + 2);
        let mut line = String::new();
        let mut name = name;
        for word in text.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                self.row(std::mem::take(&mut name), std::mem::take(&mut line));
            }
            line += if line.is_empty() { "" } else { " " };
            line += word;
        }
        self.row(name, line);
    }

    /// Adds a distribution of nanoseconds, to a thousandth of the unit that each is shown in: five times of any length
    /// have room on a line.
    pub fn distribution(&mut self, name: &str, distribution: &Distribution) {
        let parts = [
            ("min", distribution.min),
            ("p50", distribution.p50),
            ("p99", distribution.p99),
            ("p99.9", distribution.p999),
            ("max", distribution.max),
        ];
        let show = |(label, value): (&str, Option<u64>)| {
            let nanos = value?;
            let digit =
                [1_000_000_000, 1_000_000].into_iter().find(|&unit| nanos >= unit).unwrap_or(1_000) / 1_000;
            let rounded = nanos.saturating_add(digit / 2) / digit * digit;
            Some(format!("{label} {}", show_duration(std::time::Duration::from_nanos(rounded))))
        };
        let shown: Vec<String> = parts.into_iter().filter_map(show).collect();
        self.row(name, if shown.is_empty() { "-".to_owned() } else { shown.join("  ") });
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        self.rows.iter().try_for_each(|(name, value)| writeln!(f, "{name:width$}  {value}"))
    }
}

/// What a terminal of two pages side by side shows.
const WIDEST: usize = 100;

/// Writes to stdout. A closed pipe is success: the reader has what it wanted.
///
/// # Errors
/// A check failure for anything else, such as a full disk.
pub fn print(text: &str) -> Result<(), Failure> {
    tolerate_closed(write(text))
}

/// Writes a line to stdout, at once and whole.
///
/// # Errors
/// Whatever the system says, a closed pipe too: the caller may want to end its run then.
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
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::broke_off("writing to stdout", &error))
        }
        _ => Ok(()),
    }
}

/// Says something to people on stderr. Nobody listening is no error.
pub fn say(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use softtimers_measure::failure::Exit;

    #[derive(Serialize, Default)]
    struct Small {
        sent: u64,
        back_to_back: Option<f64>,
    }

    impl Report for Small {
        const SCHEMA: &'static str = "softtimers.small/1";

        fn table(&self) -> Table {
            let mut table = Table::default();
            table.row("sent", self.sent);
            table.share("back to back", self.back_to_back);
            table
        }
    }

    fn run<'a>(machine: &'a Machine, report: &'a Small) -> Run<'a, Small, ()> {
        Run { machine, seed: None, config: &(), fallbacks: &[], inconclusive: None, report }
    }

    #[test]
    fn an_object_has_the_keys_of_the_contract() {
        let machine = Machine::default();
        let object = run(&machine, &Small { sent: 3, back_to_back: None }).to_json().unwrap();
        for key in ["schema", "version", "machine", "config", "fallbacks", "sent", "back_to_back"] {
            assert!(object.get(key).is_some(), "{key}");
        }
        assert_eq!(object["schema"], "softtimers.small/1");
    }

    #[test]
    fn a_seed_is_told_where_one_was_used() {
        let (machine, small) = (Machine::default(), Small::default());
        let seeded = Run { seed: Some(7), ..run(&machine, &small) };
        assert_eq!(seeded.to_json().unwrap()["seed"], 7);
        assert!(seeded.to_text().contains("\nrandom: --seed 7 repeats it\n"), "{}", seeded.to_text());
        assert!(run(&machine, &small).to_json().unwrap().get("seed").is_none());
    }

    #[test]
    fn people_get_notes_and_the_machine() {
        let machine = Machine { kernel: "6.1".to_owned(), ..Machine::default() };
        let report = Small { sent: 3, back_to_back: Some(0.5) };
        let notes = ["no epoll_pwait2; timerfd instead".to_owned()];
        let text = Run { fallbacks: &notes, inconclusive: Some("busy".to_owned()), ..run(&machine, &report) }
            .to_text();
        assert!(text.starts_with("sent          3\nback to back  50.00%\nnote: no epoll_pwait2"), "{text}");
        assert!(text.contains("\ninconclusive: busy\nLinux 6.1"), "{text}");
    }

    #[test]
    fn unknown_keys_are_refused_before_the_run() {
        let machine = Machine::default();
        let output =
            |text: &str| Output { json: true, stream: false, assertions: vec![text.parse().unwrap()] };
        let example = Small::default();
        assert_eq!(output("sent>1").check_keys(&run(&machine, &example)), Ok(()));
        assert_eq!(output("back_to_back<0.1").check_keys(&run(&machine, &example)), Ok(()));
        assert_eq!(output("machine.cores>0").check_keys(&run(&machine, &example)), Ok(()));
        for text in ["snet>1", "inconclusive==0", "schema>1"] {
            let refused = output(text).check_keys(&run(&machine, &example)).unwrap_err();
            assert_eq!(refused.exit(), Exit::Usage, "{text}");
        }
    }

    #[test]
    fn only_a_closed_pipe_is_tolerated() {
        assert_eq!(tolerate_closed(Err(ErrorKind::BrokenPipe.into())), Ok(()));
        assert_eq!(tolerate_closed(Err(ErrorKind::StorageFull.into())).unwrap_err().exit(), Exit::Check);
    }

    #[test]
    fn long_texts_are_broken_between_words() {
        let mut table = Table::default();
        table.text("verdict", &"word ".repeat(30));
        table.text("none", "");
        let lines: Vec<String> = table.to_string().lines().map(str::to_owned).collect();
        assert_eq!(lines[0], format!("verdict  {}", ["word"; 18].join(" ")));
        assert_eq!(lines[1], format!("         {}", ["word"; 12].join(" ")));
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn distributions_fit_on_a_line() {
        let mut table = Table::default();
        let some = Distribution {
            min: Some(900),
            p50: Some(40_000),
            max: Some(2_500_000),
            ..Distribution::default()
        };
        table.distribution("gap", &some);
        table.distribution("late", &Distribution::default());
        assert_eq!(table.to_string(), "gap   min 900ns  p50 40us  max 2.5ms\nlate  -\n");
        let long = [43_902, 999_999, 9_732_095, 214_844_556, 31_247_759_108].map(Some);
        let [min, p50, p99, p999, max] = long;
        let mut table = Table::default();
        table.distribution("late", &Distribution { min, p50, p99, p999, max, ..Distribution::default() });
        let shown = "min 43.902us  p50 999.999us  p99 9.732ms  p99.9 214.845ms  max 31.248s";
        assert_eq!(table.to_string(), format!("late  {shown}\n"));
    }
}
