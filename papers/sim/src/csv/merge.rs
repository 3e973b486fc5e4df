//! Joins the parts of a sweep: [`Merge`].

use std::collections::BTreeMap;
use std::fmt;

use super::HEAD;

/// The parts of one sweep, joined into exactly what a single run would have printed.
///
/// ```
/// use softtimers_sim::csv::Merge;
///
/// let mut merge = Merge::default();
/// merge.add("2.csv", "sweep,point,row,x\nab,2/2,1/1,6\n")?;
/// merge.add("1.csv", "sweep,point,row,x\nab,1/2,1/1,5\n")?;
/// assert_eq!(merge.finish()?, "sweep,point,row,x\nab,1/2,1/1,5\nab,2/2,1/1,6\n");
/// # Ok::<(), softtimers_sim::csv::MergeError>(())
/// ```
#[derive(Debug, Default)]
pub struct Merge {
    header: String,
    /// The fingerprint of the sweep, and how many points it has.
    sweep: Option<(String, usize)>,
    points: BTreeMap<usize, Lines>,
    files: usize,
}

/// The lines of a point.
#[derive(Debug)]
struct Lines {
    /// The file that they are from.
    file: usize,
    text: String,
    /// The rows found so far, and the number of rows of the point.
    rows: (usize, usize),
}

impl Merge {
    /// Adds the text of a file.
    ///
    /// # Errors
    /// Names the line that is invalid, belongs to another sweep, or is a duplicate.
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
            let Place { sweep, point, points, row, rows } =
                parsed(line).ok_or_else(|| wrong(number, &FORM))?;
            if fields(line) != fields(header) {
                return Err(wrong(number, &"not as many fields as there are columns"));
            }
            if self.sweep.get_or_insert_with(|| (sweep.to_owned(), points)) != &(sweep.to_owned(), points) {
                return Err(wrong(
                    number,
                    &"of another sweep: experiment, parameters, seeds, version or build differ",
                ));
            }
            let new = Lines { file: self.files, text: String::new(), rows: (0, rows) };
            let lines = self.points.entry(point).or_insert(new);
            if lines.file != self.files {
                return Err(wrong(number, &format_args!("point {point} is in an earlier file too")));
            }
            if (row, rows) != (lines.rows.0 + 1, lines.rows.1) {
                let (there, all) = lines.rows;
                return Err(wrong(
                    number,
                    &format_args!("row {row}/{rows} of point {point} does not follow row {there}/{all}"),
                ));
            }
            lines.rows.0 = row;
            lines.text.push_str(line);
        }
        let cut = self.points.iter().find(|(_, lines)| lines.rows.0 < lines.rows.1);
        if let Some((point, Lines { rows: (there, all), .. })) = cut {
            return Err(MergeError(format!(
                "file '{file}': cut off; point {point} has {there} of its {all} rows; run this part again"
            )));
        }
        self.files += 1;
        Ok(())
    }

    /// Returns all lines, in the order of the points.
    ///
    /// # Errors
    /// Says how many points are missing, and which is the first; or that nothing was added.
    pub fn finish(self) -> Result<String, MergeError> {
        if self.files == 0 {
            return Err(MergeError("nothing to merge: at least one part of a sweep".to_owned()));
        }
        let points = self.sweep.map_or(0, |(_, points)| points);
        // A file may claim any number of points, so only those present are visited.
        let count = points - self.points.len();
        if count > 0 {
            let first =
                (1..).zip(self.points.keys()).take_while(|(wanted, point)| wanted == *point).count() + 1;
            return Err(MergeError(format!("{count} of {points} points are missing, the first is {first}")));
        }
        let lines = self.points.into_values().map(|lines| lines.text);
        Ok(format!("{}\n{}", self.header, lines.collect::<String>()))
    }
}

/// Returns how many fields a line has; commas between quotes are part of one.
pub(super) fn fields(line: &str) -> usize {
    line.split('"').step_by(2).map(|outside| outside.matches(',').count()).sum::<usize>() + 1
}

/// The position of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place<'a> {
    pub(super) sweep: &'a str,
    pub(super) point: usize,
    pub(super) points: usize,
    /// The row of the point.
    pub(super) row: usize,
    pub(super) rows: usize,
}

/// The error for a line of another form.
pub(super) const FORM: &str = "not of the form SWEEP,POINT/POINTS,ROW/ROWS,…";

/// The first fields of a line.
pub(super) fn parsed(line: &str) -> Option<Place<'_>> {
    let mut fields = line.splitn(4, ',');
    let (sweep, point, row) = (fields.next()?, fields.next()?, fields.next()?);
    fields.next()?;
    let of = |field: &str| {
        let (at, all) = field.split_once('/')?;
        let (at, all): (usize, usize) = (at.parse().ok()?, all.parse().ok()?);
        (1..=all).contains(&at).then_some((at, all))
    };
    let ((point, points), (row, rows)) = (of(point)?, of(row)?);
    Some(Place { sweep, point, points, row, rows })
}

/// The files are not the parts of one sweep; says which file and line, or which points are missing.
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
    fn a_merge_of_nothing_is_refused() {
        let refused = Merge::default().finish().unwrap_err();
        assert_eq!(refused.to_string(), "nothing to merge: at least one part of a sweep");
    }

    #[test]
    fn points_come_in_order_from_whichever_file() {
        let whole = "sweep,point,row,x\nab,1/3,1/1,5\nab,2/3,1/2,6\nab,2/3,2/2,7\nab,3/3,1/1,8\n";
        let parts = [
            "sweep,point,row,x\nab,2/3,1/2,6\nab,2/3,2/2,7\n",
            "sweep,point,row,x\nab,1/3,1/1,5\nab,3/3,1/1,8\n",
        ];
        assert_eq!(merged(&parts).unwrap(), whole);
        // A part without points is valid.
        assert_eq!(merged(&[whole, "sweep,point,row,x\n"]).unwrap(), whole);
    }

    /// Wherever a file was cut off, the merge is refused; the result is never incomplete.
    #[test]
    fn a_part_that_was_cut_off_is_refused_at_every_byte() {
        let first = "sweep,point,row,x\nab,1/3,1/2,5\nab,1/3,2/2,6\nab,3/3,1/2,7\nab,3/3,2/2,8\n";
        let second = "sweep,point,row,x\nab,2/3,1/1,9\n";
        assert!(merged(&[first, second]).is_ok());
        for end in 0..first.len() {
            let refused = merged(&[&first[..end], second]).unwrap_err();
            let why =
                ["no part of a sweep", "cut off", "points are missing", "not of the form", "other columns"];
            assert!(why.iter().any(|why| refused.contains(why)), "cut at {end}: {refused}");
        }
        let refused = merged(&[&first[..first.len() - "ab,3/3,2/2,8\n".len()], second]).unwrap_err();
        assert_eq!(refused, "file '0.csv': cut off; point 3 has 1 of its 2 rows; run this part again");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let head = "sweep,point,row,x\n";
        for (files, message) in [
            (vec!["a,b\n"], "0.csv', line 1: no part of a sweep"),
            (vec![""], "0.csv', line 1: no part of a sweep"),
            (vec!["sweep,point,x\nab,1/1,5\n"], "0.csv', line 1: no part of a sweep"),
            (vec!["sweep,point,row,x\nab,1/2,1/1,5\n"], "1 of 2 points are missing, the first is 2"),
            (
                vec!["sweep,point,row,x\nab,1/4,1/1,5\nab,3/4,1/1,5\n"],
                "2 of 4 points are missing, the first is 2",
            ),
            (
                vec!["sweep,point,row,x\nab,1/18446744073709551615,1/1,5\n"],
                "18446744073709551614 of 18446744073709551615 points are missing, the first is 2",
            ),
            (
                vec!["sweep,point,row,x\nab,1/1,1/1,5\n", "sweep,point,row,y\n"],
                "1.csv', line 1: other columns",
            ),
            (
                vec!["sweep,point,row,x\nab,1/2,1/1,5\n", "sweep,point,row,x\ncd,2/2,1/1,5\n"],
                "1.csv', line 2: of another sweep",
            ),
            (
                vec!["sweep,point,row,x\nab,1/1,1/1,5\n", "sweep,point,row,x\nab,1/1,1/1,5\n"],
                "point 1 is in an earlier file",
            ),
            (vec!["sweep,point,row,x\nab,1/1,1/1,5"], "line 2: the line is cut off"),
            (vec!["sweep,point,row,x\nab,2/1,1/1,5\n"], "line 2: not of the form"),
            (vec!["sweep,point,row,x\nab,1/1,2/1,5\n"], "line 2: not of the form"),
            (vec!["sweep,point,row,x\nab\n"], "line 2: not of the form"),
            (vec!["sweep,point,row,x,y\nab,1/1,1/1,\"5,6\"\n"], "line 2: not as many fields"),
            (vec!["sweep,point,row,x\nab,1/1,2/2,5\n"], "line 2: row 2/2 of point 1 does not follow row 0/2"),
            (
                vec!["sweep,point,row,x\nab,1/1,1/2,5\nab,1/1,1/2,5\n"],
                "line 3: row 1/2 of point 1 does not follow row 1/2",
            ),
        ] {
            let refused = merged(&files).unwrap_err();
            assert!(refused.contains(message), "{refused}: {message}");
        }
        assert_eq!(merged(&[head]).unwrap(), head);
    }
}
