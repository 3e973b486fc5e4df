//! A Markdown table that is also readable as text.

/// Returns the rows under their header, each column as wide as its widest entry; the first is aligned to the left.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |entry: &str| entry.chars().count();
    let widest = |column: usize| {
        let entries = rows.iter().filter_map(|row| row.get(column)).map(|entry| width(entry));
        entries.chain([width(head[column])]).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..head.len()).map(widest).collect();
    let line = |entries: &mut dyn Iterator<Item = &str>| {
        let padded = entries.zip(&widths).enumerate().map(|(column, (entry, width))| match column {
            0 => format!(" {entry:<width$} |"),
            _ => format!(" {entry:>width$} |"),
        });
        format!("|{}\n", padded.collect::<String>())
    };
    let rule = widths.iter().enumerate().map(|(column, width)| match column {
        0 => format!("{}|", "-".repeat(width + 2)),
        _ => format!("{}:|", "-".repeat(width + 1)),
    });
    let mut text = line(&mut head.iter().copied());
    text.push_str(&format!("|{}\n", rule.collect::<String>()));
    rows.iter().for_each(|row| text.push_str(&line(&mut row.iter().map(String::as_str))));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_entry() {
        let rows = [vec!["µs".to_owned(), "1".to_owned()], vec!["at once".to_owned(), "23.5".to_owned()]];
        let text = table(&["way", "gap"], &rows);
        let expected = "| way     |  gap |\n|---------|-----:|\n| µs      |    1 |\n| at once | 23.5 |\n";
        assert_eq!(text, expected);
    }
}
