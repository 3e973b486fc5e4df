//! The colours of figures. A figure is drawn in these and in no others, and the page's style sheet gives each
//! another value in the dark and on paper: `svg [stroke="#0072B2"] { stroke: var(--s0) }`. So a figure also
//! looks right without the sheet, and no text is searched for colours that happen to be in it.
//!
//! They are Okabe and Ito's (*Color universal design*, 2008), whose pairs can be told apart by all common kinds of colour
//! vision; yellow, which white swallows, is a brown here. Series also differ by shape and dash.

use plotters::style::RGBColor;

/// A colour on white, and its counterpart on black.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ink {
    pub(super) light: RGBColor,
    pub(super) dark: &'static str,
    /// The dash of lines, as SVG has it; empty for a solid one.
    pub(super) dash: &'static str,
}

/// Of series, in turn.
pub(super) const SERIES: [Ink; 8] = [
    ink(0x00, 0x72, 0xB2, "#5ab4f0", ""),
    ink(0xD5, 0x5E, 0x00, "#ff8f50", "7 3"),
    ink(0x00, 0x9E, 0x73, "#3fcf9f", "2 3"),
    ink(0xCC, 0x79, 0xA7, "#f0a5cd", "9 3 2 3"),
    ink(0x8A, 0x6A, 0x00, "#d8b343", "5 2"),
    ink(0x56, 0xB4, 0xE9, "#a5dcff", "12 4"),
    ink(0x4B, 0x4B, 0x4B, "#c4c4c4", "1 4"),
    ink(0xE6, 0x9F, 0x00, "#ffc94d", "9 3 2 3 2 3"),
];
/// Of what cannot be compared: see [`SERIES`].
pub(super) const GREY: usize = 6;
/// Of words and axes.
pub(super) const TEXT: Ink = ink(0x22, 0x26, 0x2B, "#e6e8ea", "");
/// Of the lines behind.
pub(super) const GRID: Ink = ink(0xDD, 0xE1, 0xE6, "#3a4048", "");

const fn ink(red: u8, green: u8, blue: u8, dark: &'static str, dash: &'static str) -> Ink {
    Ink { light: RGBColor(red, green, blue), dark, dash }
}

/// The one of a series.
pub(super) fn of(colour: usize) -> Ink {
    SERIES[colour % SERIES.len()]
}

/// A colour as figures have it in their attributes.
fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// The rules that dress figures: the colours of the light, of the dark, and the dashes.
pub(super) fn rules() -> String {
    use std::fmt::Write as _;
    let inks = || SERIES.iter().chain([&TEXT, &GRID]).enumerate();
    let mut rules = String::new();
    let values = |value: &dyn Fn(&Ink) -> String| {
        inks().map(|(at, ink)| format!("--i{at}:{};", value(ink))).collect::<String>()
    };
    let _ = writeln!(rules, ":root{{{}}}", values(&|ink| hex(ink.light)));
    let dark = values(&|ink| ink.dark.to_owned());
    let _ = writeln!(rules, "@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}");
    for (at, ink) in inks() {
        let hex = hex(ink.light);
        for kind in ["stroke", "fill"] {
            let _ = writeln!(rules, "svg [{kind}=\"{hex}\"]{{{kind}:var(--i{at})}}");
        }
        if !ink.dash.is_empty() {
            let _ = writeln!(
                rules,
                "svg polyline[opacity=\"1\"][stroke=\"{hex}\"]{{stroke-dasharray:{}}}",
                ink.dash
            );
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WCAG's relative luminance.
    fn luminance(RGBColor(red, green, blue): RGBColor) -> f64 {
        let part = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue)
    }

    #[test]
    fn each_colour_is_another_and_has_a_rule_for_each_use() {
        let all: std::collections::BTreeSet<String> =
            SERIES.iter().chain([&TEXT, &GRID]).map(|ink| hex(ink.light)).collect();
        assert_eq!(all.len(), 10);
        let rules = rules();
        for hex in all {
            assert!(
                rules.contains(&format!("[stroke=\"{hex}\"]"))
                    && rules.contains(&format!("[fill=\"{hex}\"]"))
            );
        }
        assert!(!rules.contains(['<', '&']), "the rules stand in XML");
    }

    #[test]
    fn words_can_be_read_in_the_light_and_in_the_dark() {
        let dark = u32::from_str_radix(&TEXT.dark[1..], 16).unwrap();
        let dark = RGBColor((dark >> 16) as u8, (dark >> 8) as u8, dark as u8);
        let contrast = |one: f64, other: f64| (one.max(other) + 0.05) / (one.min(other) + 0.05);
        assert!(contrast(luminance(TEXT.light), 1.0) > 7.0);
        assert!(contrast(luminance(dark), luminance(RGBColor(0x14, 0x17, 0x1B))) > 7.0);
    }
}
