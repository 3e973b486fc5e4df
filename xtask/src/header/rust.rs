//! What is public in a border module, from its text.

use anyhow::{Context, Result, ensure};

/// Something that the header is to have.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) comment: Vec<String>,
    pub(super) kind: Kind,
}

/// Types are as they stand in Rust.
#[derive(Debug)]
pub(super) enum Kind {
    /// An object behind a pointer.
    Opaque,
    Callback,
    Constant(String),
    /// Comment, name and type of each field.
    Struct(Vec<(Vec<String>, String, String)>),
    Function {
        arguments: Vec<(String, String)>,
        result: String,
    },
}

/// The lines of a module's own comment.
pub(super) fn module_comment(text: &str) -> Vec<String> {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| line.trim().to_owned()).collect()
}

/// The items of a module, in order.
///
/// # Errors
/// If one has a form that is not known here, no comment, or a name that is not the library's.
pub(super) fn items(text: &str) -> Result<Vec<Item>> {
    let (mut items, mut comment) = (vec![], vec![]);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(words) = line.strip_prefix("///") {
            comment.push(words.trim().to_owned());
            continue;
        }
        // Attributes stand between a comment and what it is about.
        if line.starts_with("#[") {
            continue;
        }
        let mut item = None;
        if let Some(rest) = line.strip_prefix("pub extern \"C\" fn ") {
            let signature = until(rest, &mut lines, |line| line.ends_with('{') || line.ends_with("{}"));
            item = Some(function(&signature).with_context(|| signature)?);
        } else if let Some(rest) = line.strip_prefix("pub const ") {
            let whole = until(rest, &mut lines, |line| line.ends_with(';'));
            let (name, rest) = whole.split_once(':').context("a constant without a type")?;
            let value = rest.trim_end_matches(';').split_once('=').context("a constant without a value")?.1;
            item = Some((name.to_owned(), Kind::Constant(value.trim().to_owned())));
        } else if let Some(rest) = line.strip_prefix("pub type ") {
            let (name, what) = rest.split_once(" = ").context("a type without a meaning")?;
            let kind = if what.starts_with("Object<") { Kind::Opaque } else { Kind::Callback };
            item = Some((name.to_owned(), kind));
        } else if let Some(name) =
            line.strip_prefix("pub struct softtimers_").and_then(|l| l.strip_suffix(" {"))
        {
            let body: Vec<_> = lines.by_ref().take_while(|line| *line != "}").collect();
            item = Some((format!("softtimers_{name}"), Kind::Struct(fields(&body)?)));
        }
        let comment = std::mem::take(&mut comment);
        if let Some((name, kind)) = item {
            ensure!(name.to_lowercase().starts_with("softtimers_"), "{name} is not a name of the library");
            ensure!(!comment.is_empty(), "{name} has no comment");
            items.push(Item { name, comment, kind });
        }
    }
    Ok(items)
}

/// One line of what rustfmt has put on several.
fn until<'a>(
    first: &str,
    lines: &mut impl Iterator<Item = &'a str>,
    is_last: impl Fn(&str) -> bool,
) -> String {
    let mut whole = first.to_owned();
    while !is_last(&whole) {
        let Some(next) = lines.next() else { break };
        if !whole.ends_with('(') {
            whole.push(' ');
        }
        whole.push_str(next.trim());
    }
    whole
}

fn function(signature: &str) -> Result<(String, Kind)> {
    let (name, rest) = signature.split_once('(').context("no arguments")?;
    let (list, result) = rest.rsplit_once(')').context("no end of the arguments")?;
    let result = result.trim().trim_end_matches(['{', '}']).trim();
    let result = result.strip_prefix("-> ").unwrap_or("()").to_owned();
    let arguments = list.split(',').map(str::trim).filter(|argument| !argument.is_empty());
    let arguments = arguments.map(|argument| {
        let (name, kind) = argument.split_once(": ").context("an argument without a type")?;
        Ok((name.to_owned(), kind.to_owned()))
    });
    Ok((name.to_owned(), Kind::Function { arguments: arguments.collect::<Result<_>>()?, result }))
}

fn fields(body: &[&str]) -> Result<Vec<(Vec<String>, String, String)>> {
    let (mut fields, mut comment) = (vec![], vec![]);
    for line in body.iter().map(|line| line.trim()) {
        if let Some(words) = line.strip_prefix("///") {
            comment.push(words.trim().to_owned());
        } else if let Some(field) = line.strip_prefix("pub ") {
            let (name, kind) =
                field.trim_end_matches(',').split_once(": ").context("a field without a type")?;
            ensure!(!comment.is_empty(), "the field {name} has no comment");
            fields.push((std::mem::take(&mut comment), name.to_owned(), kind.to_owned()));
        }
    }
    Ok(fields)
}
