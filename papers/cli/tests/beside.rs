//! Both programs, one beside the other: `softtimers` runs this one with the same words, and a report measures with `softtimers`.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{PROGRAM, has_tools, refusal, stderr};

/// A directory of its own, gone with it.
struct Folder(PathBuf);

/// One test at a time: a copy cannot be started while another test's child has inherited the descriptor that wrote it.
static ONE: Mutex<()> = Mutex::new(());

fn one() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Folder {
    /// With copies of these programs.
    fn with(name: &str, programs: &[&str]) -> Self {
        let path = std::env::temp_dir().join(format!("softtimers-beside-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        for program in programs {
            fs::copy(Path::new(PROGRAM).with_file_name(program), path.join(program)).unwrap();
        }
        Folder(path)
    }

    fn run(&self, program: &str, words: &str, path: &Path) -> Output {
        let mut command = Command::new(self.0.join(program));
        command.args(words.split(' ')).stdin(Stdio::null()).env("PATH", path).output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const NOWHERE: &str = "/nonexistent";
const WORDS: &str = "sim slowstart --packets 5 --csv";

#[test]
fn the_same_words_give_the_same_output_beside_and_on_path() {
    if !has_tools() {
        return;
    }
    let _one = one();
    let both = Folder::with("both", &["softtimers", "softtimers-papers"]);
    let direct = both.run("softtimers-papers", WORDS, Path::new(NOWHERE));
    assert!(direct.status.success(), "{}", stderr(&direct));
    let beside = both.run("softtimers", WORDS, Path::new(NOWHERE));
    assert_eq!((&beside.stdout, beside.status.code()), (&direct.stdout, Some(0)), "{}", stderr(&beside));
    let (tools, papers) =
        (Folder::with("tools", &["softtimers"]), Folder::with("papers", &["softtimers-papers"]));
    let on_path = tools.run("softtimers", WORDS, &papers.0);
    assert_eq!((&on_path.stdout, on_path.status.code()), (&direct.stdout, Some(0)), "{}", stderr(&on_path));
    // Help, manual pages, mistakes and exit codes are the other program's.
    for words in ["noise --help", "man sim hip", "sim --help"] {
        let [one, other] =
            ["softtimers", "softtimers-papers"].map(|name| both.run(name, words, Path::new(NOWHERE)));
        assert!(one.status.success() && one.stdout == other.stdout, "{words}: {}", stderr(&one));
    }
    let said = refusal(&both.run("softtimers", "sim hip --gama 2", Path::new(NOWHERE)), 2);
    assert!(said.starts_with("softtimers: unexpected argument '--gama' found"), "{said}");
}

#[test]
fn a_report_says_what_it_lacks_without_softtimers() {
    let _one = one();
    let alone = Folder::with("alone", &["softtimers-papers"]);
    let page = alone.0.join("r.html");
    let words = format!("report --quick --only costs --json --out {}", page.display());
    let done = alone.run("softtimers-papers", &words, Path::new(NOWHERE));
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.contains("softtimers is neither beside this program nor on PATH"), "{page}");
}

#[test]
fn a_report_measures_with_the_softtimers_beside_it() {
    if !has_tools() {
        return;
    }
    let _one = one();
    let both = Folder::with("measures", &["softtimers", "softtimers-papers"]);
    let page = both.0.join("r.html");
    let words = format!("report --quick --only costs --json --out {}", page.display());
    let done = both.run("softtimers", &words, Path::new(NOWHERE));
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["missing"], 0, "{report}");
}
