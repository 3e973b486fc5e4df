//! Draws a stretch of gaps as a line of bars, so that unevenness, bursts and holes are easy to see.
//!
//! ```text
//!   gap / target   below 1/2  to 3/4  to 9/10  to 11/10  to 3/2  to 2   to 4   above
//!   bars               ▁         ▂       ▃        ▄         ▅      ▆      ▇      █
//!   ASCII              _         ,       -        =         +      *      #      @
//! ```
//! An even train is a flat line of ▄; a burst is low bars, a hole a high one.

/// The characters that the bars are drawn with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Alphabet {
    /// Blocks of eight heights.
    Blocks,
    /// For terminals and files that are not known to be UTF-8.
    Ascii,
}

impl Alphabet {
    /// Returns the alphabet for the locale of the variables that `variable` looks up, in order of precedence.
    pub(super) fn of_locale(variable: impl Fn(&str) -> Option<String>) -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(|name| variable(name));
        let decisive = locale.into_iter().find(|value| !value.is_empty()).unwrap_or_default();
        let decisive = decisive.to_ascii_lowercase();
        if decisive.contains("utf-8") || decisive.contains("utf8") {
            Alphabet::Blocks
        } else {
            Alphabet::Ascii
        }
    }

    fn bars(self) -> [char; 8] {
        match self {
            Alphabet::Blocks => ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Alphabet::Ascii => ['_', ',', '-', '=', '+', '*', '#', '@'],
        }
    }

    /// Explains in one line how to read it.
    pub(super) fn legend(self) -> String {
        let [floor, _, _, even, _, twice, _, hole] = self.bars();
        format!("{even} on target  {floor} back to back  {twice} up to twice  {hole} a hole of over four")
    }

    /// Draws one bar for each gap.
    pub(super) fn draw(self, gaps_ns: &[u64], target_ns: u64) -> String {
        gaps_ns.iter().map(|&gap| self.bars()[height(gap, target_ns)]).collect()
    }
}

/// Returns the step in the table above. A gap at the end of a step belongs to it, but half the target is not back to
/// back.
fn height(gap_ns: u64, target_ns: u64) -> usize {
    let (gap, target) = (u128::from(gap_ns) * 20, u128::from(target_ns));
    // In twentieths of the target.
    let steps = [15, 18, 22, 30, 40, 80];
    if gap < target * 10 { 0 } else { 1 + steps.iter().take_while(|&&step| gap > target * step).count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_train_is_flat_and_bursts_and_holes_stand_out() {
        let gaps = [40_000, 41_000, 38_000, 40_500, 19_999, 400_000, 22_500, 22_500, 35_000, 60_000, 80_000];
        assert_eq!(Alphabet::Blocks.draw(&gaps, 40_000), "▄▄▄▄▁█▂▂▃▅▆");
        assert_eq!(Alphabet::Ascii.draw(&gaps, 40_000), "====_@,,-+*");
        assert_eq!(Alphabet::Ascii.draw(&[], 40_000), "");
    }

    #[test]
    fn any_gap_and_any_target_have_a_height() {
        assert_eq!([0, 20_000, 30_000, 160_000, 160_001].map(|gap| height(gap, 40_000)), [0, 1, 1, 6, 7]);
        for (gap, target) in [(0, 0), (u64::MAX, 0), (u64::MAX, 1), (u64::MAX, u64::MAX), (0, u64::MAX)] {
            assert!(height(gap, target) < 8, "{gap} {target}");
        }
    }

    #[test]
    fn blocks_need_a_locale_that_has_them() {
        let of = |set: &[(&str, &str)]| {
            let set: Vec<(String, String)> =
                set.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
            Alphabet::of_locale(|wanted| {
                set.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
            })
        };
        assert_eq!(of(&[("LANG", "en_GB.UTF-8")]), Alphabet::Blocks);
        assert_eq!(of(&[("LANG", "en_GB.UTF-8"), ("LC_ALL", "C")]), Alphabet::Ascii);
        assert_eq!(of(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]), Alphabet::Blocks);
        assert_eq!(of(&[]), Alphabet::Ascii);
    }
}
