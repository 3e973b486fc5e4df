//! Rows of columns below a header, for things with several figures each.
//!
//! A grid fits the screen. Names of several words are stacked above their figures; if that is not enough, the columns
//! are split into blocks below each other, each with the columns that identify a row:
//!
//! ```text
//!   hz  fps  late    max       hz  fps  late
//!               late            1    2     3
//!    1    2     3      4       hz  fps   max late
//!                               1    2          4
//! ```

use softtimers_measure::failure::one_line;

use super::screen::{Screen, Tone};

/// A table with a header.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Grid {
    columns: Vec<Column>,
    /// The number of leading columns that identify a row.
    keys: usize,
    rows: Vec<(Vec<String>, Tone)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Column {
    name: String,
    words: bool,
}

impl Grid {
    /// Creates a grid without rows. The first column identifies a row by words; the others are figures, aligned to the
    /// right.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let column = |(at, name): (usize, &str)| Column { name: name.to_owned(), words: at == 0 };
        let columns = names.into_iter().enumerate().map(column).collect();
        Grid { columns, keys: 1, rows: vec![] }
    }

    /// Aligns this column to the left, for words.
    pub fn words(mut self, at: usize) -> Self {
        self.columns[at].words = true;
        self
    }

    /// Puts figures in the first column.
    pub fn numbered(mut self) -> Self {
        self.columns[0].words = false;
        self
    }

    /// Makes the first `keys` columns identify a row.
    pub fn keys(mut self, keys: usize) -> Self {
        self.keys = keys;
        self
    }

    /// Adds a row, with a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.toned(cells, Tone::Plain);
    }

    /// Adds a row that is good or bad.
    pub fn toned(&mut self, cells: impl IntoIterator<Item = String>, tone: Tone) {
        let cells: Vec<String> = cells.into_iter().map(|cell| one_line(&cell)).collect();
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push((cells, tone));
    }

    /// Says whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The names of the columns.
    #[cfg(any(test, feature = "checks"))]
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// Draws it: names on one line if that fits, otherwise stacked, then closer together, then in blocks.
    pub fn draw(&self, screen: &Screen) -> String {
        let whole = |widths: &[usize], between: usize| {
            widths.iter().map(|width| width + between).sum::<usize>() - between
        };
        let (heads, widths) = self.measured(usize::MAX);
        if whole(&widths, 2) <= screen.width {
            return self.block(&Vec::from_iter(0..widths.len()), &heads, &widths, "  ", screen);
        }
        let (heads, widths) = self.measured(0);
        let between =
            if whole(&widths, 2) > screen.width && whole(&widths, 1) <= screen.width { " " } else { "  " };
        let blocks = blocks(&widths, self.keys.min(widths.len()), between.len(), screen.width);
        let drawn = blocks.iter().map(|block| self.block(block, &heads, &widths, between, screen));
        drawn.collect::<Vec<_>>().join("\n")
    }

    /// Returns the lines of each name and the width of each column, where a name may have this much room or that of its
    /// figures.
    fn measured(&self, room: usize) -> (Vec<Vec<String>>, Vec<usize>) {
        let measured = self.columns.iter().enumerate().map(|(at, column)| {
            let cells = self.rows.iter().map(|(cells, _)| cells[at].chars().count()).max().unwrap_or(0);
            let head = stacked(&column.name, cells.max(room));
            let width = head.iter().map(|line| line.chars().count()).max().unwrap_or(0).max(cells);
            (head, width)
        });
        measured.unzip()
    }

    fn block(
        &self,
        block: &[usize],
        heads: &[Vec<String>],
        widths: &[usize],
        between: &str,
        screen: &Screen,
    ) -> String {
        let line = |cell: &dyn Fn(usize) -> String| {
            let cells = block.iter().map(|&at| {
                let (cell, width) = (cell(at), widths[at]);
                if self.columns[at].words { format!("{cell:width$}") } else { format!("{cell:>width$}") }
            });
            cells.collect::<Vec<_>>().join(between).trim_end().to_owned()
        };
        let height = block.iter().map(|&at| heads[at].len()).max().unwrap_or(0);
        // Short names are placed directly above the figures.
        let name = |at: usize, row: usize| heads[at].get((row + heads[at].len()).wrapping_sub(height));
        let heads = (0..height).map(|row| line(&|at| name(at, row).cloned().unwrap_or_default()));
        let rows = self.rows.iter().map(|(cells, tone)| screen.toned(&line(&|at| cells[at].clone()), *tone));
        heads.chain(rows).map(|line| line + "\n").collect()
    }
}

/// Returns the lines of a name above cells of this width.
fn stacked(name: &str, width: usize) -> Vec<String> {
    let parts: Vec<&str> = name.split([' ', '_']).collect();
    let room = parts.iter().map(|part| part.chars().count()).max().unwrap_or(0).max(width);
    let mut lines: Vec<String> = vec![];
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + part.chars().count() <= room => {
                line.push(if name.contains('_') { '_' } else { ' ' });
                line.push_str(part);
            }
            _ => lines.push(part.to_owned()),
        }
    }
    lines
}

/// Returns the columns of each block.
fn blocks(widths: &[usize], keys: usize, between: usize, room: usize) -> Vec<Vec<usize>> {
    let own: Vec<usize> = (0..keys).collect();
    let taken: usize = own.iter().map(|&at| widths[at] + between).sum();
    let (mut blocks, mut block, mut used) = (vec![], own.clone(), taken);
    for (at, width) in widths.iter().enumerate().skip(keys) {
        if used + width > room && block.len() > keys {
            blocks.push(std::mem::replace(&mut block, own.clone()));
            used = taken;
        }
        block.push(at);
        used += width + between;
    }
    blocks.push(block);
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let mut grid = Grid::new(["scheme", "packets", "longest_delay_us", "gap p50"]);
        grid.row(["polling", "4502", "9993.0", "2.55"].map(str::to_owned));
        grid.row(["hip", "8", "7.1", "-"].map(str::to_owned));
        grid
    }

    #[test]
    fn names_are_stacked_where_they_have_no_room() {
        let wide = grid().draw(&Screen::PIPE);
        assert!(wide.starts_with("scheme   packets  longest_delay_us  gap p50\n"), "{wide}");
        let drawn = grid().draw(&Screen { width: 32, ..Screen::PIPE });
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[0], "                  longest");
        assert_eq!(lines[1], "                    delay   gap");
        assert_eq!(lines[2], "scheme   packets       us   p50");
        assert_eq!(lines[3], "polling     4502   9993.0  2.55");
        assert_eq!(lines[4], "hip            8      7.1     -");
    }

    #[test]
    fn a_narrow_screen_gets_blocks_with_their_keys() {
        let drawn = grid().draw(&Screen { width: 26, ..Screen::PIPE });
        assert!(drawn.lines().all(|line| line.len() <= 26), "{drawn}");
        assert_eq!(drawn.matches("polling").count(), 2, "{drawn}");
    }
}
