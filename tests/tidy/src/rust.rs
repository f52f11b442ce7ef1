//! Reading Rust sources, line by line.

use std::path::Path;

/// Whether a path ends in `.rs` and names a file.
pub fn is_source(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

/// Lines of code before the file's test module: blank lines and comments do not count.
pub fn code_lines(source: &str) -> usize {
    before_tests(source).filter(|line| is_code(line)).count()
}

/// The `//!` lines a file opens with, as one lower-case text without emphasis.
pub fn opening_doc(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| line.trim().replace('*', "").to_lowercase()).collect::<Vec<_>>().join(" ")
}

/// The lines before the module that `#[cfg(test)]` stands on.
pub fn before_tests(source: &str) -> impl Iterator<Item = &str> {
    let lines: Vec<&str> = source.lines().collect();
    let end = (0..lines.len()).find(|&index| opens_tests(lines.get(index..).unwrap_or_default()));
    let end = end.unwrap_or(lines.len());
    lines.into_iter().take(end)
}

fn is_code(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with("//")
}

/// `#[cfg(test)]` above `mod …`, with nothing but further attributes and comments between.
fn opens_tests(lines: &[&str]) -> bool {
    let mut lines = lines.iter().map(|line| line.trim());
    lines.next() == Some("#[cfg(test)]")
        && lines.find(|line| is_code(line) && !line.starts_with("#[")).is_some_and(|line| line.starts_with("mod "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blank_lines_and_tests_are_not_counted() {
        let source =
            "//! doc\n\nuse a;\n// why\nfn f() {\n    g(); // does g\n}\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
        assert_eq!(code_lines(source), 4);
    }

    #[test]
    fn only_a_module_ends_the_code() {
        assert_eq!(code_lines("#[cfg(test)]\nuse a;\nfn f() {}\n"), 3);
        assert_eq!(code_lines("fn f() {}\n#[cfg(test)]\n#[path = \"t.rs\"]\n// apart\nmod tests;\nfn g() {}\n"), 1);
    }

    #[test]
    fn the_opening_doc_ends_with_the_first_other_line() {
        assert_eq!(opening_doc("//! # a\n//! **What Lives** here\n\n//! b\n"), "# a what lives here");
    }
}
