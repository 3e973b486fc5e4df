//! `cargo xtask header`: writes `softtimers.h` from the border modules of `softtimers-capi`.
//!
//! Each module is a section, in the order in which `border.rs` names them, and what is public in it becomes C: constants,
//! types and functions, with their comments. So the header cannot say something else than the library does, and CI says
//! when it was not written anew. The modules are formatted by rustfmt and keep to few forms, so their text is enough:
//!
//! ```text
//!     /// Frees a set.                                        /** Frees a set. */
//!     #[unsafe(no_mangle)]                             ──▶    int softtimers_timers_free(softtimers_timers *timers);
//!     pub extern "C" fn softtimers_timers_free(
//!         timers: Option<&'static softtimers_timers>,
//!     ) -> c_int {
//! ```

mod rust;
mod types;

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::report::Outcome;
use crate::workspace::Workspace;
use rust::{Item, Kind};

const HEADER: &str = "crates/capi/include/softtimers.h";
const BORDER: &str = "crates/capi/src/border";
/// What the header begins and ends with.
const BEGIN: &str = include_str!("header/begin.h");
const END: &str = include_str!("header/end.h");
/// Where rustfmt ends a line, so does the header.
const WIDTH: usize = 110;

/// `cargo xtask header [--check]`.
///
/// # Errors
/// If the modules cannot be read, or have a form that is not known here.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let workspace = Workspace::load()?;
    let root = workspace.root();
    match arguments {
        [] => {
            std::fs::write(root.join(HEADER), written(root)?)
                .with_context(|| format!("cannot write {HEADER}"))?;
            Ok(true)
        }
        [flag] if flag == "--check" => {
            let outcome = check(root)?;
            if let Outcome::Failed(problems) = &outcome {
                problems.iter().for_each(|problem| eprintln!("{problem}"));
            }
            Ok(!matches!(outcome, Outcome::Failed(_)))
        }
        _ => bail!(crate::usage_of("header")),
    }
}

/// Whether the header is what the modules say.
pub(crate) fn check(root: &Path) -> Result<Outcome> {
    let wanted = written(root)?;
    let found = std::fs::read_to_string(root.join(HEADER)).unwrap_or_default();
    let problem =
        (found != wanted).then(|| format!("{HEADER} is not what {BORDER} says; run `cargo xtask header`"));
    Ok(Outcome::of(problem.into_iter().collect(), format!("{} functions", wanted.matches(");\n").count())))
}

fn written(root: &Path) -> Result<String> {
    let border = std::fs::read_to_string(root.join(format!("{BORDER}.rs")))
        .with_context(|| format!("no {BORDER}.rs"))?;
    let names: Vec<_> =
        border.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    ensure!(!names.is_empty(), "{BORDER}.rs names no module");
    let mut sections = vec![];
    for name in names {
        let path = format!("{BORDER}/{name}.rs");
        let text = std::fs::read_to_string(root.join(&path)).with_context(|| format!("no {path}"))?;
        sections.push((rust::module_comment(&text), rust::items(&text).with_context(|| path)?));
    }
    header(&sections)
}

/// The types of all sections come first, since a function may name one of a later section.
fn header(sections: &[(Vec<String>, Vec<Item>)]) -> Result<String> {
    let mut out = BEGIN.to_owned();
    let items = || sections.iter().flat_map(|(_, items)| items);
    let opaque: Vec<_> =
        items().filter(|item| matches!(item.kind, Kind::Opaque)).map(|item| item.name.as_str()).collect();
    for item in items().filter(|item| matches!(item.kind, Kind::Opaque)) {
        comment(&mut out, "", &item.comment);
        writeln!(out, "typedef struct {0} {0};\n", item.name)?;
    }
    for (about, items) in sections {
        out.push_str(
            "/* ---------------------------------------------------------------------------------------\n",
        );
        for line in about {
            writeln!(out, "{}", format!(" * {line}").trim_end())?;
        }
        out.push_str(" */\n\n");
        for item in items {
            one(&mut out, item, &opaque).with_context(|| item.name.clone())?;
        }
    }
    out.push_str(END);
    Ok(out)
}

fn one(out: &mut String, item: &Item, opaque: &[&str]) -> Result<()> {
    let name = &item.name;
    if !matches!(item.kind, Kind::Opaque) {
        comment(out, "", &item.comment);
    }
    match &item.kind {
        Kind::Opaque => {}
        Kind::Constant(value) => writeln!(out, "#define {name} {}\n", types::constant(value)?)?,
        Kind::Callback => writeln!(out, "typedef void (*{name})(void *argument);\n")?,
        Kind::Struct(fields) => {
            writeln!(out, "typedef struct {name} {{")?;
            for (about, field, kind) in fields {
                comment(out, "    ", about);
                writeln!(out, "    {};", types::declared(kind, field, opaque)?)?;
            }
            writeln!(out, "}} {name};\n")?;
        }
        Kind::Function { arguments, result } => {
            let arguments = arguments
                .iter()
                .map(|(argument, kind)| types::declared(kind, argument, opaque))
                .collect::<Result<Vec<_>>>()?;
            let begin = types::declared(result, name, opaque)?;
            let list = if arguments.is_empty() { "void".into() } else { arguments.join(", ") };
            let line = format!("{begin}({list});\n\n");
            if line.trim_end().len() <= WIDTH {
                out.push_str(&line);
            } else {
                write!(out, "{begin}(\n    {});\n\n", arguments.join(",\n    "))?;
            }
        }
    }
    Ok(())
}

fn comment(out: &mut String, indent: &str, lines: &[String]) {
    match lines {
        [] => {}
        [line] => out.push_str(&format!("{indent}/** {line} */\n")),
        [first, rest @ ..] => {
            out.push_str(&format!("{indent}/** {first}\n"));
            rest.iter().for_each(|line| out.push_str(&format!("{indent} *  {line}\n")));
            out.push_str(&format!("{indent} */\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = r#"//! A section.
//!
//! More of it.

use std::ffi::c_int;

/// A thing.
pub type softtimers_thing = Object<Thing>;

/// Not of the header: it is generic.
pub struct Thing(u32);

/// A record.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct softtimers_record {
    /// When.
    pub at: u64,
    /// Where
    /// to.
    pub to: *mut c_void,
}

/// Never.
pub const SOFTTIMERS_NEVER: u64 = u64::MAX;

/// Does it.
/// -EINVAL: never.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_do(
    thing: Option<&softtimers_thing>,
    record: Option<&softtimers_record>,
    out: Option<&mut MaybeUninit<*mut softtimers_thing>>,
) -> c_int {
    0
}

/// Frees it.
#[unsafe(no_mangle)]
pub extern "C" fn softtimers_free(thing: Option<&'static softtimers_thing>) {}

pub(crate) fn inside() {}
"#;

    #[test]
    fn a_module_becomes_a_section() {
        let sections = [(rust::module_comment(MODULE), rust::items(MODULE).unwrap())];
        let header = header(&sections).unwrap();
        let middle = header.strip_prefix(BEGIN).unwrap().strip_suffix(END).unwrap();
        let wanted = "/** A thing. */
typedef struct softtimers_thing softtimers_thing;

/* ---------------------------------------------------------------------------------------
 * A section.
 *
 * More of it.
 */

/** A record. */
typedef struct softtimers_record {
    /** When. */
    uint64_t at;
    /** Where
     *  to.
     */
    void *to;
} softtimers_record;

/** Never. */
#define SOFTTIMERS_NEVER UINT64_MAX

/** Does it.
 *  -EINVAL: never.
 */
int softtimers_do(softtimers_thing *thing, const softtimers_record *record, softtimers_thing **out);

/** Frees it. */
void softtimers_free(softtimers_thing *thing);

";
        assert_eq!(middle, wanted);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for form in [
            "/// X.\n#[unsafe(no_mangle)]\npub extern \"C\" fn softtimers_x(a: &str) -> c_int {\n",
            "/// X.\n#[unsafe(no_mangle)]\npub extern \"C\" fn softtimers_x() -> Result<u32, ()> {\n",
            "#[unsafe(no_mangle)]\npub extern \"C\" fn softtimers_x() -> c_int {\n",
            "/// X.\n#[unsafe(no_mangle)]\npub extern \"C\" fn other() -> c_int {\n",
            "/// X.\npub const SOFTTIMERS_X: u64 = f(3);\n",
        ] {
            let refused = rust::items(form).and_then(|items| header(&[(vec![], items)]));
            assert!(refused.is_err(), "{form}");
        }
    }
}
