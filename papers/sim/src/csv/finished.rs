//! Finds how much of a part a file already contains: [`finished`].

use super::merge::Place;
use super::{HEAD, MergeError, header};
use crate::sweep::{Part, Sweep};

/// Returns how many points of a part `text` has, and their lines, for a run that continues after them.
///
/// A point with missing rows is run again.
///
/// # Errors
/// Names the line that belongs to another sweep or part: experiment, parameters, seeds, version or build
/// differ.
pub fn finished<'a>(
    sweep: &Sweep,
    part: Part,
    file: &str,
    text: &'a str,
) -> Result<(usize, &'a str), MergeError> {
    let wrong = |line: usize, what: &str| Err(MergeError(format!("file '{file}', line {line}: {what}")));
    let first = header(sweep);
    // A file cut off within its first line has no points.
    let Some(rest) = text.strip_prefix(first.as_str()) else {
        let begun = first.starts_with(text);
        return if begun {
            Ok((0, ""))
        } else {
            wrong(1, &format!("no rows of this sweep, which begin with {HEAD}… and its columns"))
        };
    };
    let ours = format!("{:016x}", sweep.fingerprint());
    let mut points = part.indices(sweep.points());
    let (mut begun, mut count, mut kept, mut at) = (None, 0, first.len(), first.len());
    for (line, number) in rest.split_inclusive('\n').zip(2..) {
        if !line.ends_with('\n') {
            break;
        }
        let Some(Place { sweep: of, point, points: all, row, rows }) = super::merge::parsed(line) else {
            return wrong(number, super::merge::FORM);
        };
        if super::merge::fields(line) != super::merge::fields(&first) {
            return wrong(number, "not as many fields as there are columns");
        }
        if of != ours || all != sweep.points() {
            return wrong(number, "of another sweep: experiment, parameters, seeds, version or build differ");
        }
        let follows = match begun {
            None => row == 1 && points.next() == Some(point - 1),
            Some((of, before, all)) => (of, before + 1, all) == (point, row, rows),
        };
        if !follows {
            return wrong(
                number,
                &format!("row {row}/{rows} of point {point} is not the next one of this part"),
            );
        }
        begun = Some((point, row, rows)).filter(|_| row < rows);
        at += line.len();
        if begun.is_none() {
            (count, kept) = (count + 1, at);
        }
    }
    Ok((count, &text[..kept]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::lines;
    use crate::sweep::{PointError, tests as sweeps};
    use crate::{Steps, Watch};
    use std::num::NonZeroUsize;

    fn printed(sweep: &Sweep, part: Part) -> String {
        let mut text = header(sweep);
        let each = |found| {
            text.push_str(&lines(sweep, &found));
            Ok::<_, PointError>(())
        };
        sweep.run(part, NonZeroUsize::new(2).unwrap(), &Watch::new(), each).unwrap();
        let _ = Steps::unwatched();
        text
    }

    /// Wherever a file was cut off, the kept lines and those of the continued run are the whole.
    #[test]
    fn whatever_is_there_the_rest_makes_it_whole() {
        let sweep = sweeps::sweep(&[1, 2, 3], &[10, 20]);
        for part in [Part::default(), "2/2".parse().unwrap()] {
            let whole = printed(&sweep, part);
            for end in 0..=whole.len() {
                let (done, kept) = finished(&sweep, part, "f", &whole[..end]).unwrap();
                let rest = printed(&sweep, part.after(done));
                let rest = if kept.is_empty() { &rest } else { rest.split_once('\n').unwrap().1 };
                assert_eq!(format!("{kept}{rest}"), whole, "cut at {end}");
            }
        }
    }

    #[test]
    fn what_is_of_another_sweep_is_refused() {
        let sweep = sweeps::sweep(&[1, 2, 3], &[10, 20]);
        let refused = |sweep: &Sweep, text: &str| {
            finished(sweep, Part::default(), "f.csv", text).unwrap_err().to_string()
        };
        let whole = printed(&sweep, Part::default());
        let other = sweeps::sweep(&[1, 2, 4], &[10, 20]);
        assert!(refused(&other, &whole).starts_with("file 'f.csv', line 2: of another sweep"));
        let second = printed(&sweep, "2/2".parse().unwrap());
        assert_eq!(
            refused(&sweep, &second),
            "file 'f.csv', line 2: row 1/1 of point 2 is not the next one of this part"
        );
        let short = whole.replacen(",10", "", 1);
        assert_eq!(refused(&sweep, &short), "file 'f.csv', line 2: not as many fields as there are columns");
        assert!(refused(&sweep, "a,b\n").starts_with("file 'f.csv', line 1: no rows of this sweep"));
        let twice = format!("{whole}{}", whole.split_once('\n').unwrap().1);
        assert!(refused(&sweep, &twice).contains("line 8: row 1/1 of point 1 is not the next one"));
    }
}
