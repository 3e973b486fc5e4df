//! The site as a browser shows it: each page on a narrow and on a wide screen, in the light and in the dark.
//!
//! A page of ours loads all others one after the other into a frame, and a script looks at each ([shown.js](shown.js)):
//!
//! ```text
//!   chromium, light ─┐                    ┌ 400 ─┐ ┌ 1,200 ────────┐
//!                    ├─ target/site-shown ┤ page │ │ page          │   nothing cut off, words and strokes that can be read
//!   chromium, dark ──┘                    └──────┘ └───────────────┘
//! ```
//!
//! In the dark the site has its dark theme, and the pictures their dark colours, since both follow the browser.

use std::panic::resume_unwind;
use std::path::Path;
use std::{fs, thread};

use anyhow::{Context, Result, ensure};

use super::addresses::pages_of;
use crate::program::{self, program as command};
use crate::report::Outcome;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
const WIDTHS: [u32; 2] = [400, 1_200];
/// Seconds of a colour scheme, after which the browser hangs.
const LIMIT_S: &str = "300";
const SCRIPT: &str = include_str!("shown.js");

/// Looks at every page of a site, in both colour schemes at once; `place` keeps the pages that do so. Skipped without Chromium.
///
/// # Errors
/// If the site cannot be read.
pub(super) fn look(site: &Path, place: &Path) -> Result<Outcome> {
    let found = BROWSERS.into_iter().find(|name| program::works(command(name, site).arg("--version")));
    let Some(browser) = found else {
        return Ok(Outcome::skipped("no chromium"));
    };
    // It is shown in a frame, for readers without scripts.
    let pages: Vec<String> = pages_of(site)?.into_iter().filter(|page| page != "toc.html").collect();
    let everything = format!("looked {} ", pages.len() * WIDTHS.len());
    let (mut problems, mut pictures) = (vec![], String::new());
    let schemes = [("light", false), ("dark", true)];
    let answers = thread::scope(|scope| {
        let look = |(name, dark)| {
            let (pages, place) = (&pages, place.join(name));
            scope.spawn(move || said(browser, site, pages, dark, &place))
        };
        schemes.map(look).map(|looking| looking.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    for said in answers {
        let Some(said) = said? else {
            return Ok(Outcome::skipped("chromium does not start here"));
        };
        let (found, end) = said.rsplit_once('\n').unwrap_or(("", &said));
        problems.extend(found.lines().map(str::to_owned));
        match end.strip_prefix(&everything) {
            Some(count) => pictures = count.to_owned(),
            None => problems.push(format!("it did not look at everything: {end}")),
        }
    }
    let (pages, [narrow, wide]) = (pages.len(), WIDTHS);
    let note = format!("{pages} pages at {narrow} and {wide} pixels, {pictures} pictures, light and dark");
    Ok(Outcome::of(problems, note))
}

/// What the script says in this colour scheme: problems, and at the end how much it has looked at. Nothing if the browser does
/// not start.
fn said(browser: &str, site: &Path, pages: &[String], dark: bool, place: &Path) -> Result<Option<String>> {
    let addresses: Vec<String> = pages.iter().map(|page| format!("{}/{page}", site.display())).collect();
    let addresses = serde_json::to_string(&addresses)?;
    let page = format!(
        "<!DOCTYPE html><meta charset=\"utf-8\"><title>The site, looked at</title><pre></pre>\
         <iframe style=\"height:2000px;border:0\"></iframe>\
         <script>const PAGES={addresses},DARK={dark},WIDTHS={WIDTHS:?};\n{SCRIPT}</script>"
    );
    fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
    let file = place.join("look.html");
    fs::write(&file, page).with_context(|| format!("cannot write {}", file.display()))?;
    let mut chromium = command("timeout", place);
    chromium.args([LIMIT_S, browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
    // Its own business is not the site's.
    chromium.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    // The frame's page is of another origin otherwise, which no script may look at.
    chromium.args(["--allow-file-access-from-files", "--hide-scrollbars", "--force-color-profile=srgb"]);
    chromium.args(["--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1300,2100"]);
    chromium.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)));
    chromium.arg(format!("--user-data-dir={}", place.join("profile").display()));
    // Time is the browser's own, which stands still while something loads: enough for every wait of the script.
    chromium.args(["--virtual-time-budget=600000", "--dump-dom"]);
    chromium.arg(format!("file://{}", file.display()));
    let shown = chromium.output().context("cannot start `timeout`")?;
    ensure!(shown.status.code() != Some(124), "{browser} takes more than {LIMIT_S} seconds");
    let shown = String::from_utf8_lossy(&shown.stdout);
    let said =
        shown.split_once("<pre>").and_then(|(_, rest)| rest.split_once("</pre>")).map(|(said, _)| said);
    Ok(said.map(|said| said.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::PathBuf;

    use super::*;

    /// A directory that goes with the test.
    struct Directory(PathBuf);

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const PICTURE: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 480 100\" width=\"480\" height=\"100\">\
        <style>.ground{fill:#fff}text{font:14px sans-serif}@media(prefers-color-scheme:dark){.ground{fill:#000}}</style>\
        <rect class=\"ground\" width=\"100%\" height=\"100%\"/>";

    #[test]
    fn what_is_cut_pale_or_missing_is_found_and_nothing_else() {
        let root = Directory(std::env::temp_dir().join(format!("softtimers-shown-{}", std::process::id())));
        let site = root.0.join("site");
        fs::create_dir_all(&site).unwrap();
        let page = |name: &str, content: &str| {
            let page = format!(
                "<!DOCTYPE html><meta charset=\"utf-8\"><style>body{{background:#fff}}@media(prefers-color-scheme:dark){{body{{background:#000;color:#fff}}}}</style><body class=\"alone\"><main>{content}</main>"
            );
            fs::write(site.join(name), page).unwrap();
        };
        page(
            "good.html",
            "<p>words<div style=\"overflow-x:auto\"><div style=\"width:3000px\">scrolls</div></div>",
        );
        page("wide.html", "<div style=\"width:900px\">a table</div>");
        page(
            "cut.html",
            "<div style=\"width:100px;overflow:hidden;white-space:nowrap\">many words that are not shown</div>",
        );
        let cell = "<td style=\"overflow-wrap:anywhere\">many_words_that_are_not_broken";
        page(
            "squeezed.html",
            &format!("<table style=\"width:200px\"><tr><td style=\"min-width:190px\">a{cell}</table>"),
        );
        page("pale.html", "<p style=\"background:#fff;color:#ccc\">pale");
        page(
            "picture.html",
            "<img src=\"a.svg\" alt=\"a\" style=\"max-width:100%\"><img src=\"none.svg\" alt=\"b\">",
        );
        let picture = format!(
            "{PICTURE}<text x=\"450\" y=\"20\">outside</text><path stroke=\"#f00\" d=\"M0,0L9,9\"/></svg>"
        );
        fs::write(site.join("a.svg"), picture).unwrap();
        let problems = match look(&site, &root.0.join("place")).unwrap() {
            Outcome::Failed(problems) => problems,
            Outcome::Skipped(reason) => {
                let test = std::thread::current().name().unwrap_or("?").to_owned();
                let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
                return;
            }
            Outcome::Passed(note) => panic!("nothing was found: {note}"),
        };
        let of = |words: &str| problems.iter().filter(|problem| problem.contains(words)).count();
        assert_eq!(of("good.html"), 0, "{problems:#?}");
        assert_eq!(of("wide.html, 400 pixels, light: 9"), 1, "{problems:#?}");
        assert_eq!(
            (of("beside the window: <div> 'a table'"), of("wide.html, 1200")),
            (2, 0),
            "{problems:#?}"
        );
        assert_eq!(of("cuts its text: <div> 'many words"), 4, "{problems:#?}");
        assert_eq!(of("squeezed.html, 400 pixels, dark: squeezed to"), 1, "{problems:#?}");
        assert_eq!(of("a contrast of 1.6: <p> 'pale'"), 2, "{problems:#?}");
        assert_eq!(of("does not come: none.svg"), 4, "{problems:#?}");
        assert_eq!(of("outside of the picture: <text> 'outside'"), 2, "{problems:#?}");
        // Black words are read on white, and not on black.
        assert_eq!(
            (of("a.svg, dark: a contrast of 1.0"), of("a.svg, light: a contrast")),
            (1, 0),
            "{problems:#?}"
        );
    }
}
