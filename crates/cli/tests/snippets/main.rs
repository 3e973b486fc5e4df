//! The command lines of the documentation. All are read, and understood by the real command; each snippet that can run on
//! such a machine runs as it stands on its page, in a network of its own.
//!
//! ```text
//!   docs/wan.md:43 ──▶ bash, in a place of its own ── softtimers … ──▶ this test, again ──▶ the real one, and Ctrl-C
//!                                                                           └ how it ended ──▶ judged
//! ```
//!
//! The snippets that call a command of `softtimers-papers`, and those of its pages, are run by the tests of that program, which
//! are these, compiled there.
//!
//! Calls end with 0, with 77 where this machine lacks something, or with 1 because an `--assert` does not hold. Other
//! programs end with 0. `SOFTTIMERS_SHOW=1` shows what each snippet prints; a part of a page's name chooses among them.

mod call;
#[path = "../common/captures.rs"]
mod captures;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod pages;
mod place;
mod read;
mod run;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use files::Files;
use pages::{Page, Snippet};
use run::{LEFT_OUT, left_out};

/// They wait more than they compute.
const AT_ONCE: usize = 8;

fn main() -> ExitCode {
    let called = std::env::args_os().next().unwrap_or_default();
    if Path::new(&called).ends_with("softtimers") {
        return call::stand_in().unwrap_or_else(|error| {
            eprintln!("in place of softtimers: {error}");
            ExitCode::FAILURE
        });
    }
    if let Ok(name) = std::env::var(common::offloads::VARIABLE) {
        return common::offloads::take_frames(&name);
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let bench = Arc::new(Bench::new());
    let conclusion = libtest_mimic::run(&arguments, bench.trials());
    conclusion.exit_code()
}

/// What the tests share.
struct Bench {
    pages: Vec<Page>,
    files: Files,
    /// The reason for which no snippet can run here, if there is one.
    lacks: OnceLock<Option<String>>,
}

impl Bench {
    fn new() -> Self {
        let pages = pages::pages();
        Bench { files: Files::of(&pages), pages, lacks: OnceLock::new() }
    }

    /// The longest first, so that none is left for the end.
    fn trials(self: &Arc<Self>) -> Vec<Trial> {
        let mut snippets: Vec<Snippet> = self.pages.iter().flat_map(|page| page.snippets("sh")).collect();
        snippets.retain(|snippet| snippet.is_of_papers() == common::IS_PAPERS);
        snippets.retain(|snippet| snippet.commands().iter().any(|command| left_out(command).is_none()));
        snippets.sort_by_key(|snippet| std::cmp::Reverse(length(snippet)));
        let mut trials: Vec<Trial> = snippets.into_iter().map(|snippet| self.trial(snippet)).collect();
        let bench = Arc::clone(self);
        trials.push(Trial::ignorable_test("every_command_line_of_the_pages_is_understood", move || {
            if !place::has("bash") {
                return Ok(Completion::ignored_with("there is no bash"));
            }
            read::every_command_line_is_understood(&bench.pages, &bench.files).map(|()| Completion::Completed)
        }));
        let bench = Arc::clone(self);
        trials.push(Trial::test("each_row_of_what_is_left_out_is_needed", move || bench.counted()));
        let bench = Arc::clone(self);
        if common::IS_PAPERS {
            return trials;
        }
        trials.push(Trial::ignorable_test("what_goes_wrong_is_told", move || bench.wrong()));
        trials.push(Trial::ignorable_test("calls_are_found_in_pipes_and_wrong_ones_are_told", || {
            if !place::has("bash") {
                return Ok(Completion::ignored_with("there is no bash"));
            }
            read::calls_are_found_in_pipes_and_wrong_ones_are_told().map(|()| Completion::Completed)
        }));
        trials
    }

    fn trial(self: &Arc<Self>, snippet: Snippet) -> Trial {
        let bench = Arc::clone(self);
        Trial::ignorable_test(snippet.place.clone(), move || match bench.lacks() {
            Some(why) => Ok(Completion::ignored_with(why)),
            None => run::run(&snippet, &bench.files),
        })
    }

    fn lacks(&self) -> Option<&String> {
        common::watch();
        let lacks = || {
            let is_there = call::tools().is_file();
            if is_there {
                place::lacks(&self.files)
            } else {
                Some("softtimers is not built beside".to_owned())
            }
        };
        self.lacks.get_or_init(lacks).as_ref()
    }

    /// Counts the commands that are left out.
    fn counted(&self) -> Result<(), Failed> {
        let commands = self.pages.iter().flat_map(|page| page.snippets("sh"));
        let commands: Vec<String> = commands.flat_map(|snippet| snippet.commands()).collect();
        let rows: Vec<usize> = commands.iter().filter_map(|command| left_out(command)).collect();
        let unused = (0..LEFT_OUT.len()).filter(|row| !rows.contains(row)).map(|row| LEFT_OUT[row].0);
        let unused: Vec<&str> = unused.collect();
        if !unused.is_empty() {
            return Err(format!("no page has a command that begins with {unused:?}").into());
        }
        let mut reasons = BTreeMap::new();
        rows.iter().for_each(|&row| *reasons.entry(LEFT_OUT[row].1).or_insert(0) += 1);
        let run = commands.len() - rows.len();
        println!("{run} commands of {} are run; left out are {reasons:?}", commands.len());
        if run < 100 { Err(format!("only {run} commands are run").into()) } else { Ok(()) }
    }

    /// Runs snippets that are wrong.
    fn wrong(&self) -> Result<Completion, Failed> {
        if let Some(why) = self.lacks() {
            return Ok(Completion::ignored_with(why));
        }
        for (text, told) in [
            ("softtimers recv 127.0.0.1:9 --onec", "exit code 2: "),
            ("softtimers sim machine none | cat", "exit code 2: "),
            ("ls nothing", "ls nothing: exit code 2"),
            ("if true; then", "the shell ended before"),
            ("true && true # exit\nexit 0 && softtimers --version", "no call of softtimers --version"),
            ("touch /softtimers-test", "exit code 1"),
        ] {
            let snippet = Snippet { place: format!("wrong-{}", told.len()), text: text.to_owned() };
            match run::run(&snippet, &self.files) {
                Err(why) if why.message().is_some_and(|why| why.contains(told)) => {}
                Err(why) => return Err(format!("{text}: {told:?} is not in {:?}", why.message()).into()),
                Ok(_) => return Err(format!("{text}: nothing was told").into()),
            }
        }
        Ok(Completion::Completed)
    }
}

/// About how many seconds it takes.
fn length(snippet: &Snippet) -> usize {
    let seconds = |command: &String| match () {
        () if command.contains("doctor") && command.contains(" > ") => 10,
        () if command.contains("python3 -c") => 9,
        () if command.contains("-- iperf3") => 3,
        () => 1,
    };
    snippet.commands().iter().filter(|command| left_out(command).is_none()).map(seconds).sum()
}
