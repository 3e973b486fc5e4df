//! The parts of a sweep become the whole: [`Merge`].

use std::collections::BTreeMap;
use std::fmt;

use super::HEAD;

/// Parts of one sweep, which become the whole: bit for bit what one run would have printed.
///
/// ```
/// use softtimers_sim::csv::Merge;
///
/// let mut merge = Merge::default();
/// merge.add("2.csv", "sweep,point,x\nab,2/2,6\n")?;
/// merge.add("1.csv", "sweep,point,x\nab,1/2,5\n")?;
/// assert_eq!(merge.finish()?, "sweep,point,x\nab,1/2,5\nab,2/2,6\n");
/// # Ok::<(), softtimers_sim::csv::MergeError>(())
/// ```
#[derive(Debug, Default)]
pub struct Merge {
    header: String,
    /// The fingerprint of the sweep, and how many points it has.
    sweep: Option<(String, usize)>,
    /// The lines of each point, and the file that they are from.
    points: BTreeMap<usize, (usize, String)>,
    files: usize,
}

impl Merge {
    /// Adds the text of a file.
    ///
    /// # Errors
    /// Names the line that is wrong, of another sweep, or there already.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), MergeError> {
        let wrong =
            |line: usize, what: &dyn fmt::Display| MergeError(format!("file '{file}', line {line}: {what}"));
        let (header, rest) = text.split_once('\n').unwrap_or((text, ""));
        if !header.starts_with(HEAD) {
            return Err(wrong(1, &format_args!("no part of a sweep, which begins with {HEAD}…")));
        }
        if !self.header.is_empty() && self.header != header {
            return Err(wrong(1, &"other columns than in the file before"));
        }
        header.clone_into(&mut self.header);
        for (line, number) in rest.split_inclusive('\n').zip(2..) {
            if !line.ends_with('\n') {
                return Err(wrong(number, &"the line is cut off; run this part again"));
            }
            let (sweep, point, points) =
                parsed(line).ok_or_else(|| wrong(number, &"not of the form SWEEP,POINT/POINTS,…"))?;
            if fields(line) != fields(header) {
                return Err(wrong(number, &"not as many fields as there are columns"));
            }
            if self.sweep.get_or_insert_with(|| (sweep.to_owned(), points)) != &(sweep.to_owned(), points) {
                return Err(wrong(
                    number,
                    &"of another sweep: experiment, parameters, seeds, version or build differ",
                ));
            }
            let (from, lines) = self.points.entry(point).or_insert((self.files, String::new()));
            if *from != self.files {
                return Err(wrong(number, &format_args!("point {point} is in an earlier file too")));
            }
            lines.push_str(line);
        }
        self.files += 1;
        Ok(())
    }

    /// Returns all lines, in the order of the points.
    ///
    /// # Errors
    /// Says how many points are missing, and the first of them.
    pub fn finish(self) -> Result<String, MergeError> {
        let points = self.sweep.map_or(0, |(_, points)| points);
        // A file may claim any number of points: only those that are there are walked.
        let count = points - self.points.len();
        if count > 0 {
            let first =
                (1..).zip(self.points.keys()).take_while(|(wanted, point)| wanted == *point).count() + 1;
            return Err(MergeError(format!("{count} of {points} points are missing, the first is {first}")));
        }
        let lines = self.points.into_values().map(|(_, lines)| lines);
        Ok(format!("{}\n{}", self.header, lines.collect::<String>()))
    }
}

/// How many fields a line has; commas between quotes are part of one.
pub(super) fn fields(line: &str) -> usize {
    line.split('"').step_by(2).map(|outside| outside.matches(',').count()).sum::<usize>() + 1
}

/// The sweep of a line, its point, and of how many.
pub(super) fn parsed(line: &str) -> Option<(&str, usize, usize)> {
    let mut fields = line.splitn(3, ',');
    let (sweep, point) = (fields.next()?, fields.next()?);
    fields.next()?;
    let (point, points) = point.split_once('/')?;
    let (point, points) = (point.parse().ok()?, points.parse().ok()?);
    (1..=points).contains(&point).then_some((sweep, point, points))
}

/// Files that are not the parts of one sweep: says which file and line, or which points are missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MergeError(pub(super) String);

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MergeError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(files: &[&str]) -> Result<String, String> {
        let mut merge = Merge::default();
        let added =
            files.iter().zip(0..).try_for_each(|(text, number)| merge.add(&format!("{number}.csv"), text));
        added.and_then(|()| merge.finish()).map_err(|error| error.to_string())
    }

    #[test]
    fn points_come_in_order_from_whichever_file() {
        let whole = "sweep,point,x\nab,1/3,5\nab,2/3,6\nab,2/3,7\nab,3/3,8\n";
        let parts = ["sweep,point,x\nab,2/3,6\nab,2/3,7\n", "sweep,point,x\nab,1/3,5\nab,3/3,8\n"];
        assert_eq!(merged(&parts).unwrap(), whole);
        // A part without points is one.
        assert_eq!(merged(&[whole, "sweep,point,x\n"]).unwrap(), whole);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let head = "sweep,point,x\n";
        for (files, message) in [
            (vec!["a,b\n"], "0.csv', line 1: no part of a sweep"),
            (vec![""], "0.csv', line 1: no part of a sweep"),
            (vec!["sweep,point,x\nab,1/2,5\n"], "1 of 2 points are missing, the first is 2"),
            (vec!["sweep,point,x\nab,1/4,5\nab,3/4,5\n"], "2 of 4 points are missing, the first is 2"),
            (
                vec!["sweep,point,x\nab,1/18446744073709551615,5\n"],
                "18446744073709551614 of 18446744073709551615 points are missing, the first is 2",
            ),
            (vec!["sweep,point,x\nab,1/1,5\n", "sweep,point,y\n"], "1.csv', line 1: other columns"),
            (
                vec!["sweep,point,x\nab,1/2,5\n", "sweep,point,x\ncd,2/2,5\n"],
                "1.csv', line 2: of another sweep",
            ),
            (vec!["sweep,point,x\nab,1/1,5\n", "sweep,point,x\nab,1/1,5\n"], "point 1 is in an earlier file"),
            (vec!["sweep,point,x\nab,1/1,5"], "line 2: the line is cut off"),
            (vec!["sweep,point,x\nab,2/1,5\n"], "line 2: not of the form"),
            (vec!["sweep,point,x\nab\n"], "line 2: not of the form"),
            (vec!["sweep,point,x,y\nab,1/1,\"5,6\"\n"], "line 2: not as many fields"),
        ] {
            let refused = merged(&files).unwrap_err();
            assert!(refused.contains(message), "{refused}: {message}");
        }
        assert_eq!(merged(&[head]).unwrap(), head);
    }
}
