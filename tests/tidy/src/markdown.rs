//! Reading Markdown: what it names in `code`.

use crate::rust;

/// Every piece of code in a document: inline spans, and the lines of fenced blocks.
pub fn code(document: &str) -> Vec<Code<'_>> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in document.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            found.push(Code::Line(line.trim()));
        } else {
            found.extend(line.split('`').skip(1).step_by(2).map(|span| Code::Span(span.trim())));
        }
    }
    found
}

/// A piece of code in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code<'a> {
    /// Between two backticks.
    Span(&'a str),
    /// One line of a fenced block.
    Line(&'a str),
}

impl<'a> Code<'a> {
    /// The path in this repository that the span names, if it looks like one: from the root (`shared/core`), or the
    /// ending of a Rust file's path. `a/*` names the folder `a`; a line number behind it does not belong to it.
    pub fn path(self) -> Option<&'a str> {
        const ROOTS: [&str; 5] = ["shared/", "tests/", "functions/", "infra/", ".ci/"];
        let Self::Span(span) = self else { return None };
        let path = span.split(':').next().unwrap_or(span);
        let path = path.split_once('*').map_or(path, |(folder, _)| folder);
        let is_path = rust::is_source(path) || ROOTS.iter().any(|root| path.starts_with(root));
        let is_plain = !path.contains(|c: char| c.is_whitespace() || "…<>{}$".contains(c));
        (is_path && is_plain).then_some(path)
    }

    /// The targets that a `make` command in it names: `make lint test ARGS=x` names `lint` and `test`.
    pub fn make_targets(self) -> impl Iterator<Item = &'a str> {
        let (Self::Span(text) | Self::Line(text)) = self;
        let command = text.trim_start_matches("$ ").strip_prefix("make ").unwrap_or_default();
        let is_target = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        command.split_whitespace().take_while(is_target).filter(|word| !word.starts_with('-'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_fenced_lines_are_code() {
        let found = code("see `a` and `b c`\n```sh\nmake `x`\n```\nnot this, `this`");
        assert_eq!(found, [Code::Span("a"), Code::Span("b c"), Code::Line("make `x`"), Code::Span("this")]);
    }

    #[test]
    fn paths_are_told_from_other_words() {
        let path = |span| Code::Span(span).path();
        assert_eq!(path("shared/core/"), Some("shared/core/"));
        assert_eq!(path("decide.rs"), Some("decide.rs"));
        assert_eq!(path("shared/core/src/write.rs:12"), Some("shared/core/src/write.rs"));
        assert_eq!(path("functions/*"), Some("functions/"));
        assert_eq!(path("tests/<suite>"), None);
        assert_eq!(path(".rs"), None);
        assert_eq!(path("cargo run shared/cli"), None);
        assert_eq!(path("decide::commit"), None);
        assert_eq!(Code::Line("shared/core").path(), None);
    }

    #[test]
    fn make_commands_name_targets() {
        let targets = |text| Code::Line(text).make_targets().collect::<Vec<_>>();
        assert_eq!(targets("make lint test ARGS=x now"), ["lint", "test"]);
        assert_eq!(targets("$ make run    # starts it"), ["run"]);
        assert!(targets("makes sure").is_empty());
        assert!(targets("cmake run").is_empty());
    }
}
