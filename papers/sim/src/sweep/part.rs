//! A part of a sweep, to run on several machines or one after the other: [`Part`].

use std::str::FromStr;

/// One of `n` parts of a sweep: every n-th point, so that each part has cheap and expensive ones.
///
/// ```
/// use softtimers_sim::Part;
///
/// let part: Part = "2/3".parse()?;
/// assert!(part.indices(7).eq([1, 4]));
/// assert!(Part::default().indices(3).eq([0, 1, 2]));
/// assert!("4/3".parse::<Part>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The number of the part, from one.
    number: usize,
    of: usize,
    /// The points at its beginning that are not run.
    done: usize,
}

impl Part {
    /// Iterates over the indices of this part's points, of `points` in all.
    pub fn indices(self, points: usize) -> impl Iterator<Item = usize> {
        (self.number - 1..points).step_by(self.of).skip(self.done)
    }

    /// Returns the part without its first `done` points.
    #[must_use]
    pub fn after(self, done: usize) -> Self {
        Part { done, ..self }
    }
}

/// The whole sweep is one part.
impl Default for Part {
    fn default() -> Self {
        Part { number: 1, of: 1, done: 0 }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers =
            text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Part { number, of, done: 0 }),
            _ => Err("a part is I/N with 1 ≤ I ≤ N, such as 3/16".to_owned()),
        }
    }
}
