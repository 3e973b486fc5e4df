//! Rust source without its comments and strings, so that other checks can count lines and braces.
//!
//! A parser would be exact, and a dependency of a few hundred thousand lines; what the checks ask
//! needs only to know where code is: blanked text has the same lines, with spaces for the rest.

use std::iter::Peekable;
use std::ops::Range;
use std::str::CharIndices;

/// `text` with comments, and the insides of strings and characters, replaced by spaces,
/// a byte each.
pub(crate) fn blanked(text: &str) -> String {
    Blank::of(text).out
}

/// Where the strings of `text` are, quotes included; raw ones are left out.
pub(crate) fn strings(text: &str) -> Vec<Range<usize>> {
    Blank::of(text).strings
}

struct Blank<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
    out: String,
    strings: Vec<Range<usize>>,
}

impl<'a> Blank<'a> {
    fn of(text: &'a str) -> Self {
        let (chars, out) = (text.char_indices().peekable(), String::with_capacity(text.len()));
        let mut blank = Blank { text, chars, out, strings: vec![] };
        while let Some((at, c)) = blank.chars.next() {
            blank.character(at, c);
        }
        blank
    }

    fn character(&mut self, at: usize, c: char) {
        let rest = &self.text[at..];
        if rest.starts_with("//") {
            self.skip(at, rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            self.skip(at, block_comment(rest));
        } else if let Some(length) = raw_string(rest).filter(|_| !self.in_word()) {
            self.skip(at, length);
        } else if c == '"' {
            let length = quoted(rest, '"');
            self.strings.push(at..at + length);
            self.skip(at, length);
        } else if c == '\'' && is_character(rest) {
            self.skip(at, quoted(rest, '\''));
        } else {
            self.out.push(c);
        }
    }

    /// Blanks `length` bytes from `start`, keeping line ends.
    fn skip(&mut self, start: usize, length: usize) {
        let bytes = self.text[start..start + length].bytes();
        self.out.extend(bytes.map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        while self.chars.next_if(|(at, _)| *at < start + length).is_some() {}
        // A literal is code: leave a mark, so that a line that holds only a string still counts.
        if !self.text[start..].starts_with('/') {
            self.out.pop();
            self.out.push('"');
        }
    }

    fn in_word(&self) -> bool {
        self.out.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    }
}

/// The length of a block comment, which may hold others.
fn block_comment(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// The length of the raw string that begins here, if one does: `r"…"`, `br#"…"#`.
fn raw_string(rest: &str) -> Option<usize> {
    let body =
        rest.strip_prefix("br").or_else(|| rest.strip_prefix("cr")).or_else(|| rest.strip_prefix('r'))?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let inside = body[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = rest.len() - inside.len();
    Some(inside.find(&end).map_or(rest.len(), |at| start + at + end.len()))
}

/// The length of a string or character that begins with `quote`.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Whether a `'` begins a character and not a lifetime.
fn is_character(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

/// Blanked text with the items under `#[cfg(test)]` taken out as well.
pub(crate) fn without_tests(blanked: &str) -> String {
    let mut text = blanked.to_owned();
    while let Some(start) = text.find("#[cfg(test)]") {
        let end = item_end(&text, start);
        let gap: String = text[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        text.replace_range(start..end, &gap);
    }
    text
}

/// Where the item that begins at `start` ends: after its braces, or its semicolon.
fn item_end(blanked: &str, start: usize) -> usize {
    let mut brackets = 0_i32;
    for (at, c) in blanked[start..].char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if brackets == 0 => return start + at + 1,
            '{' if brackets == 0 => return closing_brace(blanked, start + at),
            _ => {}
        }
    }
    blanked.len()
}

/// The end of the block whose `{` is at `open`.
fn closing_brace(blanked: &str, open: usize) -> usize {
    let mut depth = 0_i32;
    for (at, c) in blanked[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + at + 1;
        }
    }
    blanked.len()
}

/// Lines of blanked text that hold code.
pub(crate) fn code_lines(blanked: &str) -> usize {
    blanked.lines().filter(|line| !line.trim().is_empty()).count()
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) code_lines: usize,
}

/// Every function with a body in blanked text, from its `fn` to its closing brace.
pub(crate) fn functions(blanked: &str) -> Vec<Function> {
    let mut found = vec![];
    for (at, _) in blanked.match_indices("fn ") {
        if blanked[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let name: String =
            blanked[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let Range { start, end } = at..item_end(blanked, at);
        if !name.is_empty() && blanked[..end].ends_with('}') {
            let line = blanked[..start].matches('\n').count() + 1;
            found.push(Function { name, line, code_lines: code_lines(&blanked[start..end]) });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blanked_and_lines_kept() {
        let text = "let a = \"// no {\"; // yes {\n/* { /* } */ */ let b = '{'; let c: &'static str = r#\"}\"{\"#;\n";
        let blank = blanked(text);
        assert_eq!(blank.lines().count(), 2);
        assert!(!blank.contains(['{', '}']), "{blank}");
        assert!(blank.contains("let b =") && blank.contains("&'static str"), "{blank}");
    }

    #[test]
    fn strings_are_found_where_they_are() {
        let text = r#"f('"', "a\"b"); // "no"
        g("é");"#;
        let found: Vec<_> = strings(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, [r#""a\"b""#, "\"é\""]);
    }

    #[test]
    fn escapes_do_not_end_strings() {
        assert_eq!(blanked(r#"f("a\"{"); g('\''); h("\\"); {"#).matches('{').count(), 1);
        assert_eq!(blanked("let é = \"ü{\"; 'ü'; {").matches('{').count(), 1);
        assert_eq!(blanked("b\"{\"; br\"{\"; r\"\\\"; {").matches('{').count(), 1);
    }

    #[test]
    fn code_lines_leave_out_docs_blanks_and_tests() {
        let text =
            "//! doc\n\nfn f() {\n    // why\n    g();\n}\n\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
        assert_eq!(code_lines(&without_tests(&blanked(text))), 3);
        assert_eq!(code_lines(&without_tests("#[cfg(test)]\nuse a::b;\nfn f() {}\n")), 1);
        assert_eq!(code_lines(&blanked("f(\n\"only a string\",\n)")), 3);
    }

    #[test]
    fn functions_are_found_with_their_lengths() {
        let text = "trait T { fn none(&self); }\nfn a(x: [u8; 4]) -> u8 {\n    // {\n    1\n}\nimpl fn_like { fn b() {} }\n";
        let found = functions(&blanked(text));
        let short: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.code_lines)).collect();
        assert_eq!(short, [("a", 2, 3), ("b", 6, 1)]);
    }
}
