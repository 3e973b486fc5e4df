//! `cargo xtask header`: writes `softtimers.h` from the border modules of `softtimers-capi`, by cbindgen.
//!
//! Each module is a section below its own comment, in the order of `border.rs`. So the header cannot differ from the
//! library, and CI fails when it is out of date. cbindgen reads one module at a time and knows only its own types; the
//! few others are inserted afterwards:
//!
//! ```text
//!   type softtimers_timers = Object<Timers>          typedef struct softtimers_timers softtimers_timers;   at the top
//!   Option<&softtimers_timers>                       softtimers_timers *         it changes, though shared in Rust
//!   Option<&AnyObject>, Option<&In<itimerval>>       void *, const struct itimerval *
//! ```

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use cbindgen::{Builder, Config, Language};

use crate::report::Outcome;

const HEADER: &str = "crates/capi/include/softtimers.h";
const BORDER: &str = "crates/capi/src/border";

/// Writes the header.
///
/// # Errors
/// If a module cannot be read, or has a form that C does not.
pub(crate) fn write(root: &Path) -> Result<Outcome> {
    fs::write(root.join(HEADER), text(root)?).with_context(|| format!("cannot write {HEADER}"))?;
    Ok(Outcome::passed(format!("{HEADER} is written")))
}

/// Checks that the header is up to date with the modules.
///
/// # Errors
/// As [`write()`].
pub(crate) fn check(root: &Path) -> Result<Outcome> {
    let found = fs::read_to_string(root.join(HEADER)).unwrap_or_default();
    let stale = found != text(root)?;
    let problem = stale.then(|| format!("{HEADER} is not what {BORDER} says; run `cargo xtask header`"));
    Ok(Outcome::of(problem.into_iter().collect(), ""))
}

fn text(root: &Path) -> Result<String> {
    let border = fs::read_to_string(root.join(format!("{BORDER}.rs")))?;
    let names = border.lines().filter_map(|line| line.strip_prefix("pub(crate) mod ")?.strip_suffix(';'));
    let (mut objects, mut opaque, mut sections) = (vec![], String::new(), String::new());
    for name in names {
        let file = root.join(BORDER).join(name).with_extension("rs");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let own = self::objects(&text);
        opaque.extend(
            own.iter().map(|(name, about)| format!("/** {about} */\ntypedef struct {name} {name};\n\n")),
        );
        let own = own.into_iter().map(|(name, _)| name);
        sections += &section(&file, &text, own.clone().collect())?;
        objects.extend(own);
    }
    ensure!(!objects.is_empty(), "{BORDER} has no object");
    for object in &objects {
        sections = sections.replace(&format!("const {object} *"), &format!("{object} *"));
    }
    for (from, to) in [
        ("const AnyObject *", "void *"),
        ("const InOut<itimerval> *", "struct itimerval *"),
        ("const In<itimerval> *", "const struct itimerval *"),
    ] {
        sections = sections.replace(from, to);
    }
    Ok([include_str!("header/begin.h"), &opaque, &sections, include_str!("header/end.h")].concat())
}

/// Returns the types of a module that C has a pointer to, each with its contents.
fn objects(text: &str) -> Vec<(String, String)> {
    let lines: Vec<_> = text.lines().collect();
    let object = |pair: &[&str]| {
        let name = pair[1].strip_prefix("pub(crate) type ")?.split_once(" = Object<")?.0;
        Some((name.to_owned(), pair[0].strip_prefix("/// ")?.to_owned()))
    };
    lines.windows(2).filter_map(object).collect()
}

/// Returns a module in C, below its own comment.
fn section(file: &Path, text: &str, objects: Vec<String>) -> Result<String> {
    let mut config = Config {
        language: Language::C,
        no_includes: true,
        usize_is_size_t: true,
        line_length: 124,
        tab_width: 4,
        ..Config::default()
    };
    // Including types that only other modules use.
    let types = text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("pub(crate) ")?.split(' ');
        words.nth(1).filter(|name| name.starts_with("softtimers_")).map(str::to_owned)
    });
    config.export.include = types.filter(|name| !objects.contains(name)).collect();
    config.export.exclude = objects;
    let bindings = Builder::new().with_config(config).with_src(file).generate()?;
    let mut section = format!("/* {}\n", "-".repeat(87));
    for line in text.lines().map_while(|line| line.strip_prefix("//!")) {
        section += &format!("{}\n", format!(" *{line}").trim_end());
    }
    section += " */\n\n";
    let mut items = vec![];
    bindings.write(&mut items);
    Ok(section + String::from_utf8(items)?.trim() + "\n\n")
}
