//! A page as a browser shows it: in the light, in the dark and on a small screen, each picture with its series in their
//! colours, and without a request to anywhere.
//!
//! All pictures of all sections are looked at in one screenshot. So that each is found in it, the copy that is shown has
//! a frame around each picture, in a colour that says its number, and leaves out what is no picture:
//!
//! ```text
//!   ┌ 254,1,0 ───────┐  ┌ 254,1,1 ───────┐
//!   │ :  plot        │  │ :  plot        │      pixels of each series' colour, counted
//!   └────────────────┘  └────────────────┘
//! ```

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use zune_png::PngDecoder;
use zune_png::zune_core::bytestream::ZCursor;
use zune_png::zune_core::colorspace::ColorSpace;
use zune_png::zune_core::result::DecodingResult;

use serde_json::Value;

use super::common::skipped;
use super::{Directory, SAVED, rendered};

const BROWSERS: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

type Colour = [u8; 3];

/// A screenshot's pixels, three bytes each.
struct Screenshot {
    pixels: Vec<u8>,
    width: usize,
}

/// A part of it: from left to right, from above to below.
type Place = [usize; 4];

impl Screenshot {
    fn count(&self, colour: Colour) -> usize {
        self.pixels.chunks_exact(3).filter(|pixel| *pixel == colour).count()
    }

    /// Where the frame of each picture is.
    fn frames(&self, count: usize) -> Vec<Option<Place>> {
        let mut frames: Vec<Option<Place>> = vec![None; count];
        for (at, pixel) in self.pixels.chunks_exact(3).enumerate() {
            if let [254, 1, number] = *pixel {
                let (x, y) = (at % self.width, at / self.width);
                let Some(frame) = frames.get_mut(usize::from(number)) else { continue };
                let [left, right, top, bottom] = frame.unwrap_or([x, x, y, y]);
                *frame = Some([left.min(x), right.max(x), top, bottom.max(y)]);
            }
        }
        frames
    }

    /// Pixels of this colour in a part, those that have at least half of it and else what is behind: a line may be narrower
    /// than a pixel.
    fn near(&self, colour: Colour, back: Colour, [left, right, top, bottom]: Place) -> usize {
        let [colour, back] = [colour, back].map(|of| of.map(i32::from));
        let widest = (0..3).max_by_key(|&at| (colour[at] - back[at]).abs()).unwrap_or(0);
        let near = |pixel: &[u8]| {
            let pixel = [0, 1, 2].map(|at| i32::from(pixel[at]));
            let part = f64::from(pixel[widest] - back[widest]) / f64::from(colour[widest] - back[widest]);
            let mixed = |at: usize| f64::from(back[at]) + part * f64::from(colour[at] - back[at]);
            (0.5..1.1).contains(&part) && (0..3).all(|at| (mixed(at) - f64::from(pixel[at])).abs() <= 20.0)
        };
        let row =
            |y: usize| self.pixels[3 * (y * self.width + left)..3 * (y * self.width + right)].chunks_exact(3);
        (top..bottom).flat_map(row).filter(|pixel| near(pixel)).count()
    }
}

/// Shows a file, and what was asked of the network for it. `None` if the browser does not start here, as without a
/// sandbox it may not.
fn shown(
    browser: &str,
    file: &Path,
    (dark, size): (bool, (u32, u32)),
    directory: &Directory,
) -> Option<(Screenshot, Vec<String>)> {
    let (profile, log, picture) =
        (directory.file("profile"), directory.file("net.json"), directory.file("shown.png"));
    let _ = (fs::remove_dir_all(&profile), fs::remove_file(&log), fs::remove_file(&picture));
    let mut command = Command::new("timeout");
    command.args([
        "90",
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
    command.args(["--force-color-profile=srgb", "--host-resolver-rules=MAP * ~NOTFOUND"]);
    command.arg(format!("--window-size={},{}", size.0, size.1));
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
    let width = decoder.dimensions()?.0;
    // An event a line. What the browser asks for on its own account is not the page's.
    let log = fs::read_to_string(&log).ok()?;
    let of_page = log.lines().filter(|line| line.contains("\"network_isolation_key\":\"file:"));
    let addresses =
        of_page.filter_map(|line| Some(line.split_once("\"url\":\"")?.1.split('"').next()?.to_owned()));
    let asked =
        addresses.filter(|address| !address.starts_with("file:") && !address.starts_with("data:")).collect();
    Some((Screenshot { pixels, width }, asked))
}

/// The series' colours as the palette has them, and as the style sheet dresses them in the dark; grey, which words are, too,
/// is not told from these.
const SERIES: [[Colour; 2]; 8] = [
    [[0x00, 0x72, 0xB2], [0x5a, 0xb4, 0xf0]],
    [[0xD5, 0x5E, 0x00], [0xff, 0x8f, 0x50]],
    [[0x00, 0x9E, 0x73], [0x3f, 0xcf, 0x9f]],
    [[0xCC, 0x79, 0xA7], [0xf0, 0xa5, 0xcd]],
    [[0x8A, 0x6A, 0x00], [0xd8, 0xb3, 0x43]],
    [[0x56, 0xB4, 0xE9], [0xa5, 0xdc, 0xff]],
    [[0x4B, 0x4B, 0x4B], [0xc4, 0xc4, 0xc4]],
    [[0xE6, 0x9F, 0x00], [0xff, 0xc9, 0x4d]],
];
const GREY: u64 = 6;
const BACKS: [Colour; 2] = [[0xFF, 0xFF, 0xFF], [0x14, 0x17, 0x1B]];
/// A picture as the report's object has it.
struct Picture {
    title: String,
    colours: Vec<usize>,
}

/// All pictures of the page, in their order.
fn pictures(object: &Value) -> Vec<Picture> {
    let sections = object["sections"].as_array().unwrap();
    let first = &object["overview"]["picture"];
    let first = sections.iter().filter(|section| section["name"] == first[0]);
    let first = first.map(|section| &section["figures"][first_place(object)]);
    let figures = sections.iter().flat_map(|section| section["figures"].as_array().unwrap());
    let picture = |figure: &Value| {
        let series = figure["series"].as_array().unwrap().iter();
        // What was disturbed is grey; what was only short is not.
        let grey = |series: &&Value| series["unfit"]["short"] == false;
        let series = series.filter(|series| series["mark"] != "rule" && !grey(series));
        let colours = series.filter_map(|series| series["colour"].as_u64()).filter(|&colour| colour != GREY);
        let mut colours: Vec<usize> = colours.map(|colour| colour as usize % SERIES.len()).collect();
        colours.sort_unstable();
        colours.dedup();
        Picture { title: figure["title"].as_str().unwrap().to_owned(), colours }
    };
    first.chain(figures).map(picture).collect()
}

fn first_place(object: &Value) -> usize {
    object["overview"]["picture"][1].as_u64().unwrap() as usize
}

/// Returns the page with frames around its pictures and nothing else, `columns` beside each other.
fn framed(page: &str, columns: u32) -> String {
    let rules = format!(
        "nav,footer,h1,h2,h3,p,dl,.numbers,.lacks,.notes,.scrolls,details,figcaption,.legend,.skip{{display:none!important}}\
         header,main,section{{display:contents}}\
         body{{max-width:none!important;padding:0!important;display:grid;grid-template-columns:repeat({columns},minmax(0,1fr))}}.plot{{max-width:none!important}}\
         figure{{margin:0!important;padding:0!important;border-radius:0!important;border-width:3px!important}}"
    );
    let mut framed = page.replace("</style>", &format!("{rules}</style>"));
    let mut number = 0;
    while let Some(at) = framed.find("<figure>") {
        let start = format!("<figure style=\"border-color:rgb(254,1,{number})\">");
        framed.replace_range(at..at + "<figure>".len(), &start);
        number += 1;
    }
    framed
}

/// For each picture, how many of its series are seen, and how many pixels they have; and whether nothing is asked for.
fn seen(screenshot: &Screenshot, pictures: &[Picture], dark: bool) -> Vec<(usize, usize)> {
    let frames = screenshot.frames(pictures.len());
    let of_picture = |(picture, frame): (&Picture, &Option<Place>)| {
        let Some([left, right, top, bottom]) = *frame else { return (0, 0) };
        let counts = picture.colours.iter().map(|&colour| {
            screenshot.near(
                SERIES[colour][usize::from(dark)],
                BACKS[usize::from(dark)],
                [left + 3, right - 3, top + 3, bottom - 3],
            )
        });
        let counts: Vec<usize> = counts.filter(|&count| count >= FEWEST).collect();
        (counts.len(), counts.iter().sum())
    };
    pictures.iter().zip(&frames).map(of_picture).collect()
}

/// Fewer than a mark has.
const FEWEST: usize = 8;

/// Returns how wide the page is on a screen of `screen` pixels, with everything unfolded, and what is wider than the
/// screen outside the boxes that scroll. A copy of it, with a script and without the policy that would keep it from
/// running, tells the page around it.
fn widths(browser: &str, page: &str, screen: u32, directory: &Directory) -> Option<String> {
    let script = "<script>addEventListener('load',()=>{const wide=[...document.querySelectorAll('body *')].filter(e=>\
                  !e.closest('.plot,.scrolls,.skip')&&e.getBoundingClientRect().right>innerWidth).map(e=>e.tagName);\
                  parent.postMessage(`${document.documentElement.scrollWidth<=innerWidth} ${wide.join()}`,'*')})</script>";
    let policy = page.find("<meta http-equiv").expect("a policy");
    let end = policy + page[policy..].find("/>").unwrap() + 2;
    let copy = format!("{}{}", &page[..policy], &page[end..]).replace("<details>", "<details open=\"\">");
    fs::write(directory.file("copy.html"), copy.replace("</body>", &format!("{script}</body>"))).unwrap();
    let around = format!(
        "<!DOCTYPE html><title>none</title><script>addEventListener('message',e=>{{document.title=e.data}})</script>\
         <iframe src=\"copy.html\" style=\"width:{screen}px;height:30000px\"></iframe>"
    );
    fs::write(directory.file("around.html"), around).unwrap();
    let mut command = Command::new("timeout");
    command.args(["90", browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
    command.args(["--virtual-time-budget=5000", "--window-size=1300,3000", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", directory.file("profile").display()));
    command.arg(format!("file://{}", directory.file("around.html").display()));
    let shown = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let shown = String::from_utf8_lossy(&shown.stdout);
    let title = shown.split_once("<title>")?.1.split("</title>").next()?;
    Some(title.trim().to_owned()).filter(|title| title != "none")
}

#[test]
fn nothing_is_cut_off_on_a_narrow_screen() {
    let Some(browser) = BROWSERS.into_iter().find(|path| Path::new(path).exists()) else {
        return skipped("no chromium");
    };
    let directory = Directory::new("narrow");
    let (page, _) = rendered(Path::new(SAVED), &directory, "");
    for screen in [400, 320] {
        let Some(widths) = widths(browser, &page, screen, &directory) else {
            return skipped("chromium does not start here");
        };
        assert_eq!(widths, "true", "{screen} pixels");
    }
    let wide = page.replace("overflow-x:auto", "overflow-x:visible").replace(".scrolls{", ".other{");
    let widths = widths(browser, &wide, 400, &directory).expect("it has started before");
    assert!(widths.starts_with("false"), "the check sees what is too wide: {widths}");
}

#[test]
fn a_browser_shows_each_figure_in_light_and_dark_and_on_a_small_screen_and_asks_nobody() {
    let Some(browser) = BROWSERS.into_iter().find(|path| Path::new(path).exists()) else {
        return skipped("no chromium");
    };
    let directory = Directory::new("browser");
    let (text, object) = rendered(Path::new(SAVED), &directory, "");
    let page = directory.file("page.html");
    let pictures = pictures(&object);
    assert!(pictures.len() > 30 && pictures.len() < 256, "{}", pictures.len());
    let wide = (1_500, 5_200);
    for (dark, columns, size) in [(false, 3, wide), (true, 3, wide), (false, 1, (400, 16_000))] {
        fs::write(&page, framed(&text, columns)).unwrap();
        let Some((screenshot, asked)) = shown(browser, &page, (dark, size), &directory) else {
            return skipped("chromium does not start here");
        };
        assert_eq!(asked, Vec::<String>::new());
        let back = screenshot.count(BACKS[usize::from(dark)]);
        assert!(back > screenshot.pixels.len() / 6, "dark {dark}: the page behind");
        for (picture, (series, pixels)) in pictures.iter().zip(seen(&screenshot, &pictures, dark)) {
            let Picture { title, colours, .. } = picture;
            // One line may hide another; on a small screen a part is to the right and scrolls.
            let enough = if columns > 1 { colours.len().div_ceil(2) } else { colours.len().min(1) };
            assert!(
                series >= enough,
                "dark {dark}, {columns} columns: '{title}' shows {series} of {colours:?}, {pixels} pixels"
            );
        }
    }
    // The same page without its lines and marks is blank in this sense, and a page that asks for a picture is seen to.
    let without = framed(&text, 3).replace("<path", "<desc");
    let without = without.replace("img-src data:", "img-src *");
    let without = without.replace("<main ", "<img src=\"http://elsewhere.invalid/x.png\" alt=\"\"/><main ");
    fs::write(&page, without).unwrap();
    let Some((screenshot, asked)) = shown(browser, &page, (false, wide), &directory) else {
        return skipped("chromium does not start here");
    };
    assert_eq!(asked, ["http://elsewhere.invalid/x.png"], "the check sees requests");
    let frames = screenshot.frames(pictures.len());
    assert!(frames.iter().filter(|frame| frame.is_some()).count() > 30, "the frames are there");
    let seen = seen(&screenshot, &pictures, false);
    assert!(seen.iter().all(|&(series, _)| series == 0), "the check sees blank figures: {seen:?}");
}
