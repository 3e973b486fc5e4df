//! The rules that make a page HTML, beyond XML: elements that HTML knows, each where it may stand, and closed as HTML closes
//! them. Not all of the standard, but what a slip of this program's own markup would break.

use roxmltree::Node;

use super::parsed;

/// Those without an inside, which alone may be closed by a stroke; an HTML reader takes any other as open.
const VOID: [&str; 3] = ["meta", "link", "br"];
/// The only elements that may stand in these.
const CHILDREN: [(&str, &[&str]); 11] = [
    ("html", &["head", "body"]),
    ("head", &["meta", "link", "title", "style"]),
    ("ul", &["li"]),
    ("ol", &["li"]),
    ("dl", &["dt", "dd"]),
    ("table", &["caption", "thead", "tbody"]),
    ("thead", &["tr"]),
    ("tbody", &["tr"]),
    ("tr", &["th", "td"]),
    ("p", &["a"]),
    ("summary", &[]),
];
/// The others that the page uses.
const KNOWN: [&str; 21] = [
    "body",
    "a",
    "header",
    "nav",
    "main",
    "footer",
    "section",
    "h1",
    "h2",
    "h3",
    "p",
    "div",
    "figure",
    "figcaption",
    "strong",
    "span",
    "details",
    "summary",
    "code",
    "em",
    "svg",
];

pub(super) fn check(page: &str) {
    let document = parsed(page);
    assert!(page.starts_with("<!DOCTYPE html>\n<html lang="), "{}", &page[..60]);
    closed_as_html_closes(page);
    for node in document.descendants().filter(Node::is_element) {
        let tag = node.tag_name().name();
        let in_svg = node.ancestors().skip(1).any(|above| above.has_tag_name("svg"));
        if in_svg {
            continue;
        }
        let of_lists = CHILDREN.iter().any(|(above, below)| *above == tag || below.contains(&tag));
        assert!(of_lists || VOID.contains(&tag) || KNOWN.contains(&tag), "HTML has no <{tag}> here");
        let children: Vec<&str> =
            node.children().filter(Node::is_element).map(|child| child.tag_name().name()).collect();
        if let Some((_, allowed)) = CHILDREN.iter().find(|(above, _)| *above == tag) {
            assert!(children.iter().all(|child| allowed.contains(child)), "{tag} has {children:?}");
        }
        let first = children.first().copied().unwrap_or_default();
        match tag {
            // A picture has words, and one that scrolls can be reached without a mouse.
            "figure" => assert_eq!(first, "figcaption"),
            "details" => assert_eq!(first, "summary"),
            // The keys of a legend stand beside their names.
            "svg" if node.attribute("aria-hidden") == Some("true") => {
                assert!(node.parent().is_some_and(|item| item.has_tag_name("li")));
            }
            "svg" => {
                let around = node.parent().unwrap();
                assert_eq!(
                    (around.attribute("class"), around.attribute("tabindex")),
                    (Some("plot"), Some("0"))
                );
                assert!(node.attribute("aria-labelledby").is_some(), "a picture without a title");
            }
            "table" => assert_eq!(first, "caption"),
            _ => {}
        }
    }
    let one = |tag: &'static str| document.descendants().filter(|node| node.has_tag_name(tag)).count();
    assert_eq!((one("h1"), one("main"), one("body")), (1, 1, 1));
    let titled = document.descendants().filter(|node| node.has_tag_name("head"));
    let titles = titled.flat_map(|head| head.children()).filter(|node| node.has_tag_name("title"));
    assert_eq!(titles.filter(|title| title.text().is_some_and(|text| !text.is_empty())).count(), 1);
}

/// Elements that HTML does not know as void are open until their end is written; pictures are XML.
fn closed_as_html_closes(page: &str) {
    let outside = page.split("</svg>").map(|text| text.split("<svg ").next().unwrap_or_default());
    for start in outside.flat_map(|text| text.split('<').skip(1)) {
        let element = start.split('>').next().unwrap_or_default();
        let tag = element.split([' ', '/']).next().unwrap_or_default();
        assert_eq!(element.ends_with('/'), VOID.contains(&tag), "<{element}> is closed otherwise");
    }
}
