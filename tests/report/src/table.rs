use std::fmt;

/// Rows of text under a head, with columns lined up: numbers to the right, words to the left.
///
/// ```
/// let mut table = stepwell_report::Table::new(&["suite", "passed"]);
/// table.row(&["everyday", "812"]);
/// assert_eq!(table.to_string(), "suite     passed\neveryday     812\n");
/// ```
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(head: &[&str]) -> Self {
        let mut table = Self { rows: Vec::new() };
        table.row(head);
        table
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[&str]) {
        self.rows.push(cells.iter().map(|&cell| cell.to_owned()).collect());
    }

    /// A column is set to the right when its first row holds a number.
    fn column(&self, index: usize) -> Column {
        let cells = || self.rows.iter().filter_map(|row| row.get(index));
        let width = cells().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let numbers = cells().nth(1).is_some_and(|cell| cell.starts_with(|c: char| c.is_ascii_digit()));
        Column { width, numbers }
    }
}

struct Column {
    width: usize,
    numbers: bool,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let columns: Vec<Column> = (0..columns).map(|index| self.column(index)).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&columns).map(|(cell, &Column { width, numbers })| {
                if numbers { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}
