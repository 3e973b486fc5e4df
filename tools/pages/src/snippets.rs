//! Compiles every Rust snippet of the pages: for rustdoc these pages are documentation of this crate, the only one that
//! depends on all others. A test finds missing pages, and snippets that ask to be ignored.

/// The pages with Rust snippets, by their paths from the root.
macro_rules! pages {
    ($($page:ident $path:literal)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("../../../", $path))]
            struct $page;
        )*

        #[cfg(test)]
        const PAGES: &[&str] = &[$($path),*];
    };
}

pages! {
    Readme "README.md"
    Contributing "CONTRIBUTING.md"
    Choose "docs/choose.md"
    ComingFrom "docs/coming-from.md"
    ControlLoop "docs/control-loop.md"
    Flows "docs/flows.md"
    Integrations "docs/integrations.md"
    Limit "docs/limit.md"
    Quinn "docs/quinn.md"
    Overload "docs/overload.md"
    Timeouts "docs/timeouts.md"
    Tokio "docs/tokio.md"
    Using "docs/using.md"
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::PAGES;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    /// Returns the fences that begin a snippet: those that rustdoc treats as Rust.
    fn rust_fences(page: &str) -> Vec<&str> {
        let fences = page.lines().filter_map(|line| line.trim_start().strip_prefix("```"));
        let opening = fences.step_by(2); // every other one closes
        opening
            .filter(|kind| kind.is_empty() || kind.starts_with("rust") || kind.starts_with("ignore"))
            .collect()
    }

    #[test]
    fn every_page_with_rust_is_compiled_and_none_of_it_is_left_out() {
        let mut seen = 0;
        for folder in ["", "docs", "examples", "papers/docs", "bench/docs", "xtask/docs"]
            .map(|folder| root().join(folder))
        {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_none_or(|extension| extension != "md") {
                    continue;
                }
                let page = fs::read_to_string(&path).unwrap();
                let fences = rust_fences(&page);
                let known = PAGES.iter().any(|page| path == root().join(page));
                assert!(known || fences.is_empty(), "{path:?} has Rust that nothing compiles");
                assert!(
                    fences.iter().all(|kind| !kind.contains("ignore")),
                    "{path:?} has Rust that is ignored"
                );
                seen += fences.len();
            }
        }
        assert!(seen > PAGES.len(), "no snippets were found");
    }

    #[test]
    fn rust_is_told_from_the_rest() {
        let page =
            "```sh\nls\n```\n\n```rust\n```\n  ```rust,ignore\n  ```\n```text\n```\n```\nfn main() {}\n```\n";
        assert_eq!(rust_fences(page), ["rust", "rust,ignore", ""]);
    }
}
