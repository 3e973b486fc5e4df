//! A page as a browser shows it: in the light and in the dark, with pictures in the palette's colours, and without a
//! request to anywhere.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use zune_png::PngDecoder;
use zune_png::zune_core::bytestream::ZCursor;
use zune_png::zune_core::colorspace::ColorSpace;
use zune_png::zune_core::result::DecodingResult;

use super::common::skipped;
use super::{Directory, SAVED, rendered};

const BROWSERS: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// What a screenshot has: its pixels, three bytes each.
struct Screenshot {
    pixels: Vec<u8>,
}

impl Screenshot {
    fn count(&self, colour: [u8; 3]) -> usize {
        self.pixels.chunks_exact(3).filter(|pixel| *pixel == colour).count()
    }
}

/// Shows a file, and what was asked of the network for it. `None` if the browser does not start here, as without a
/// sandbox it may not.
fn shown(browser: &str, file: &Path, dark: bool, directory: &Directory) -> Option<(Screenshot, Vec<String>)> {
    let (profile, log, picture) =
        (directory.file("profile"), directory.file("net.json"), directory.file("shown.png"));
    let _ = (fs::remove_dir_all(&profile), fs::remove_file(&log), fs::remove_file(&picture));
    let mut command = Command::new("timeout");
    command.args([
        "40",
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
    ]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
    ]);
    command.args([
        "--force-color-profile=srgb",
        "--window-size=1000,2400",
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ]);
    command.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)));
    command.arg(format!("--user-data-dir={}", profile.display()));
    command.arg(format!("--log-net-log={}", log.display()));
    command.arg(format!("--screenshot={}", picture.display()));
    command.arg(format!("file://{}", file.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    let mut decoder = PngDecoder::new(ZCursor::new(fs::read(&picture).ok()?));
    let DecodingResult::U8(pixels) = decoder.decode().ok()? else { return None };
    let pixels = match decoder.colorspace()? {
        ColorSpace::RGB => pixels,
        ColorSpace::RGBA => pixels.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
        other => panic!("{other:?}"),
    };
    // An event a line. What the browser asks for on its own account is not the page's.
    let log = fs::read_to_string(&log).ok()?;
    let of_page = log.lines().filter(|line| line.contains("\"network_isolation_key\":\"file:"));
    let addresses =
        of_page.filter_map(|line| Some(line.split_once("\"url\":\"")?.1.split('"').next()?.to_owned()));
    let asked =
        addresses.filter(|address| !address.starts_with("file:") && !address.starts_with("data:")).collect();
    Some((Screenshot { pixels }, asked))
}

/// The first series of a figure, and the page behind, in both schemes: the palette's and the sheet's.
const LIGHT: ([u8; 3], [u8; 3]) = ([0x00, 0x72, 0xB2], [0xFF, 0xFF, 0xFF]);
const DARK: ([u8; 3], [u8; 3]) = ([0x5A, 0xB4, 0xF0], [0x14, 0x17, 0x1B]);

#[test]
fn a_browser_shows_the_figures_in_light_and_dark_and_asks_nobody() {
    let Some(browser) = BROWSERS.into_iter().find(|path| Path::new(path).exists()) else {
        return skipped("no chromium");
    };
    let directory = Directory::new("browser");
    let _ = rendered(Path::new(SAVED), &directory, "--only livelock");
    let page = directory.file("page.html");
    let mut backs = vec![];
    for (dark, (first, back)) in [(false, LIGHT), (true, DARK)] {
        let Some((screenshot, asked)) = shown(browser, &page, dark, &directory) else {
            return skipped("chromium does not start here");
        };
        assert_eq!(asked, Vec::<String>::new());
        let all = screenshot.pixels.len() / 3;
        backs.push(screenshot.count(back) as f64 / all as f64);
        // Lines and marks, not only a legend; and they are not all there is.
        assert!(
            (500..all / 10).contains(&screenshot.count(first)),
            "dark {dark}: {}",
            screenshot.count(first)
        );
    }
    assert!(backs.iter().all(|back| *back > 0.5), "{backs:?}");
    // The same page without its lines is blank in this sense, and a page that asks for a picture is seen to.
    let text = fs::read_to_string(&page).unwrap();
    let without = text.replace("<polyline", "<desc").replace("<circle", "<desc").replace("</svg>", "");
    let without = without.replace("img-src data:", "img-src *");
    let without = without.replace("<h1>", "<img src=\"http://elsewhere.invalid/x.png\" alt=\"\"/><h1>");
    fs::write(&page, without).unwrap();
    let Some((screenshot, asked)) = shown(browser, &page, false, &directory) else {
        return skipped("chromium does not start here");
    };
    assert_eq!(asked, ["http://elsewhere.invalid/x.png"], "the check sees requests");
    assert!(screenshot.count(LIGHT.0) < 500, "the check sees blank figures: {}", screenshot.count(LIGHT.0));
}
