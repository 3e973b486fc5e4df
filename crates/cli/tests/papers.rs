//! The commands of `softtimers-papers`, where that program is not there: one line says how to install it, whatever follows. Where it
//! is, the tests of papers/cli run both.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{PROGRAM, refusal};

/// A directory with nothing but the program, gone with it. One at a time: a file that a test writes cannot be started while
/// another test's child has inherited its descriptor.
struct Alone(PathBuf, #[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

static ONE: Mutex<()> = Mutex::new(());

impl Alone {
    fn new(name: &str) -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let path = std::env::temp_dir().join(format!("softtimers-papers-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::copy(PROGRAM, path.join("softtimers")).unwrap();
        Alone(path, one)
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(self.0.join("softtimers"));
        command.args(words.split(' ')).stdin(Stdio::null()).env("PATH", "/nonexistent");
        command
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn without_the_other_program_one_line_says_how_to_install_it() {
    let alone = Alone::new("without");
    for words in ["sim hip --json", "noise", "probe -- true", "report --quick", "sim --help", "man sim hip"] {
        let said = refusal(&alone.command(words).output().unwrap(), 2);
        let told = "softtimers: softtimers-papers is neither beside this program nor on PATH; in the sources, 'cargo install \
                    --locked --path papers/cli' installs it\n";
        assert_eq!(said, told, "{words}");
    }
}

/// A program that cannot be started is no reason to look further.
#[test]
fn a_program_that_cannot_be_started_is_told_with_its_path() {
    let alone = Alone::new("broken");
    let other = alone.0.join("softtimers-papers");
    fs::write(&other, "#!/nonexistent/interpreter\n").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    let said = refusal(&alone.command("sim hip").output().unwrap(), 2);
    assert!(said.contains(&format!("starting '{}': No such file or directory", other.display())), "{said}");
    // One that may not be executed is not taken for it.
    fs::set_permissions(&other, fs::Permissions::from_mode(0o644)).unwrap();
    let said = refusal(&alone.command("sim hip").output().unwrap(), 2);
    assert!(said.contains("neither beside this program nor on PATH"), "{said}");
}
