//! The table in the document: between two marks, so that the rest is for people to write.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

const BEGIN: &str = "<!-- made by `make proof ARGS=--write`: begin -->\n";
const END: &str = "<!-- made by `make proof ARGS=--write`: end -->\n";

/// One broken engine.
pub(crate) struct Row {
    pub(crate) invariant: u8,
    pub(crate) what: &'static str,
    /// What model, simulator and auditor make of it.
    pub(crate) words: [&'static str; 3],
}

pub(crate) struct Document {
    path: PathBuf,
    before: String,
    table: String,
    after: String,
}

impl Document {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let marks = || io::Error::other(format!("{} lacks the marks of the table", path.display()));
        let (before, rest) = text.split_once(BEGIN).ok_or_else(marks)?;
        let (table, after) = rest.split_once(END).ok_or_else(marks)?;
        let [before, table, after] = [before, table, after].map(str::to_owned);
        Ok(Self { path: path.to_owned(), before, table, after })
    }

    pub(crate) fn has(&self, rows: &[Row]) -> io::Result<bool> {
        Ok(self.table == table(rows)?)
    }

    pub(crate) fn write(&self, rows: &[Row]) -> io::Result<()> {
        fs::write(&self.path, format!("{}{BEGIN}{}{END}{}", self.before, table(rows)?, self.after))
    }
}

fn table(rows: &[Row]) -> io::Result<String> {
    let mut text =
        "\n| | broken on purpose | model | simulator | its auditor |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for Row { invariant, what, words: [model, simulator, auditor] } in rows {
        writeln!(text, "| {invariant} | {what} | {model} | {simulator} | {auditor} |").map_err(io::Error::other)?;
    }
    Ok(text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("stepwell-proof-{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn the_table_is_between_its_marks_and_the_rest_stays() {
        let path = written("marks", &format!("before\n{BEGIN}old\n{END}after\n"));
        let rows = [Row { invariant: 2, what: "a fence is ignored", words: ["", "**notices**", "no"] }];
        let document = Document::open(&path).unwrap();
        assert!(!document.has(&rows).unwrap());
        document.write(&rows).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(Document::open(&path).unwrap().has(&rows).unwrap());
        assert!(text.starts_with("before\n") && text.ends_with("after\n"));
        assert!(text.contains("| 2 | a fence is ignored |  | **notices** | no |\n"), "{text}");
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_document_without_marks_is_refused() {
        let path = written("none", "words\n");
        assert!(Document::open(&path).is_err());
        fs::remove_file(path).unwrap();
    }
}
