//! The length of README.md: who opens it has half a minute.

use crate::report::Outcome;
use crate::workspace::Page;

const PATH: &str = "README.md";

/// Words, as `wc -w` counts them, below which it stays; comments, which nobody is shown, are left out.
const BOUND: usize = 900;

/// Checks that it is shorter than the bound.
pub(crate) fn check(pages: &[Page]) -> Outcome {
    let Some(page) = pages.iter().find(|page| page.path == PATH) else {
        return Outcome::failed(format!("there is no {PATH}"));
    };
    let words = words(&page.text);
    let problem =
        (words >= BOUND).then(|| format!("{PATH} has {words} words; fewer than {BOUND} are allowed"));
    Outcome::of(problem.into_iter().collect(), format!("{words} words"))
}

fn words(page: &str) -> usize {
    let mut parts = page.split("<!--");
    let shown = parts.next().unwrap_or_default();
    let after = |part: &str| part.split_once("-->").map_or(0, |(_, rest)| rest.split_whitespace().count());
    shown.split_whitespace().count() + parts.map(after).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: String) -> Outcome {
        check(&[Page { path: PATH.into(), text }])
    }

    #[test]
    fn comments_are_no_words() {
        assert_eq!(words("a b\n<!-- c\nd -->\ne <!-- f --> `g`\n| h |\n<!-- i"), 7);
    }

    #[test]
    fn a_longer_page_is_told() {
        let well = format!("{}<!-- w w -->\n", "w ".repeat(BOUND - 1));
        assert_eq!(of(well.clone()), Outcome::passed("899 words"));
        let problem = "README.md has 900 words; fewer than 900 are allowed";
        assert_eq!(of(well + "w"), Outcome::failed(problem));
        assert_eq!(check(&[]), Outcome::failed("there is no README.md"));
    }
}
