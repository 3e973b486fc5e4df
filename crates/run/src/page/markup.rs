//! Writes HTML that is also XML, and escapes all text in one place: a saved run may contain any text.

/// Elements and text, each closed and escaped.
#[derive(Clone, Debug, Default)]
pub struct Markup {
    text: String,
}

impl Markup {
    /// Adds an element with the content that `inside` adds. Names of elements and attributes are the program's own.
    pub fn within(
        &mut self,
        tag: &'static str,
        attributes: &[(&'static str, &str)],
        inside: impl FnOnce(&mut Self),
    ) {
        self.start(tag, attributes);
        self.text.push('>');
        inside(self);
        self.text.push_str("</");
        self.text.push_str(tag);
        self.text.push('>');
    }

    /// Adds an element with a text.
    pub fn leaf(&mut self, tag: &'static str, attributes: &[(&'static str, &str)], text: &str) {
        self.within(tag, attributes, |markup| markup.text(text));
    }

    /// Adds an element without content.
    pub fn void(&mut self, tag: &'static str, attributes: &[(&'static str, &str)]) {
        self.start(tag, attributes);
        self.text.push_str("/>");
    }

    /// Adds a text.
    pub fn text(&mut self, text: &str) {
        self.text.push_str(&escape(text));
    }

    /// Adds markup made by this program: a figure, a style sheet.
    pub fn made_here(&mut self, markup: &str) {
        self.text.push_str(markup);
    }

    /// Returns all of it.
    pub fn finish(self) -> String {
        self.text
    }

    fn start(&mut self, tag: &'static str, attributes: &[(&'static str, &str)]) {
        self.text.push('<');
        self.text.push_str(tag);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            self.text.push_str(&escape(value));
            self.text.push('"');
        }
    }
}

/// Escapes a text, so that it is neither markup nor the end of an attribute, and drops characters that XML cannot
/// express.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if is_xml(c) => escaped.push(c),
            _ => escaped.push('\u{FFFD}'),
        }
    }
    escaped
}

/// Says whether XML allows the character: not most control characters. Those that reverse the reading direction are
/// dropped too.
pub fn is_xml(c: char) -> bool {
    !matches!(c, '\u{0}'..='\u{8}' | '\u{B}'..='\u{1F}' | '\u{7F}'..='\u{9F}' | '\u{FFFE}' | '\u{FFFF}'
        | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_closed_and_texts_escaped() {
        let mut markup = Markup::default();
        markup.within("p", &[("class", "a\"b")], |markup| markup.text("1 < 2"));
        assert_eq!(markup.finish(), "<p class=\"a&quot;b\">1 &lt; 2</p>");
    }
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_comes_back_from_an_independent_reader(text in any::<String>()) {
            let mut markup = Markup::default();
            markup.within("p", &[("title", &text)], |markup| markup.text(&text));
            let markup = markup.finish();
            let document = roxmltree::Document::parse(&markup).unwrap();
            let expected: String =
                text.chars().map(|c| if is_xml(c) { c } else { '\u{FFFD}' }).collect();
            prop_assert_eq!(document.root_element().text().unwrap_or(""), expected);
        }
    }

    #[test]
    fn scripts_and_sections_end_nothing() {
        assert_eq!(escape("</script>]]>\u{1b}"), "&lt;/script&gt;]]&gt;\u{FFFD}");
    }
}
