use std::mem;

/// What a test command has said so far, read from its output line by line.
///
/// Cargo names each test binary before it runs it, and libtest ends each with a `test result:` line. Colours are
/// ignored.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    line: Vec<u8>,
    pub(crate) binaries: Vec<Binary>,
    /// Tests that failed or were ignored, each with its binary.
    pub(crate) troubles: Vec<String>,
    /// Packages that did not compile.
    pub(crate) uncompiled: Vec<String>,
}

/// One test binary, or the doc tests of one crate.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Binary {
    pub(crate) name: String,
    pub(crate) counts: Option<Counts>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Tally {
    /// Takes the next piece of output, cut anywhere.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    /// Takes what stands after the last line break.
    pub(crate) fn end_line(&mut self) {
        let line = plain_text(&mem::take(&mut self.line));
        let line = line.trim();
        if let Some(counts) = result(line) {
            self.add(counts);
        } else if let Some(name) = running(line) {
            self.binaries.push(Binary { name, counts: None });
        } else if let Some(trouble) = trouble(line) {
            let binary = self.binaries.last().map_or("", |binary| &binary.name);
            self.troubles.push(format!("{binary}: {trouble}"));
        } else if let Some(rest) = line.strip_prefix("error: could not compile ") {
            let package = rest.split('`').nth(1).unwrap_or(rest);
            // Said once for the library and once more for its tests.
            if !self.uncompiled.iter().any(|known| known == package) {
                self.uncompiled.push(package.to_owned());
            }
        }
    }

    /// The sum over all binaries.
    pub(crate) fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.binaries.iter().filter_map(|binary| binary.counts).for_each(|counts| total.add(counts));
        total
    }

    /// A crate's doc tests may end with more than one result: they are summed.
    fn add(&mut self, counts: Counts) {
        if self.binaries.is_empty() {
            self.binaries.push(Binary { name: "tests".to_owned(), counts: None });
        }
        if let Some(binary) = self.binaries.last_mut() {
            binary.counts.get_or_insert_default().add(counts);
        }
    }
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; …`
fn result(line: &str) -> Option<Counts> {
    let (_verdict, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count =
        |word: &str| counts.split(';').find_map(|part| part.trim().strip_suffix(word)?.trim().parse::<u64>().ok());
    Some(Counts { passed: count("passed")?, failed: count("failed")?, ignored: count("ignored")? })
}

/// `test lease::expires ... FAILED`, or `… ignored`, or `… ignored, because`.
fn trouble(line: &str) -> Option<String> {
    let (test, verdict) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    match verdict {
        "FAILED" => Some(test.to_owned()),
        _ if verdict.starts_with("ignored") => Some(format!("{test} is ignored: run it or delete it")),
        _ => None,
    }
}

/// `Running unittests src/lib.rs (target/debug/deps/stepwell_core-0123456789abcdef)`, or `Doc-tests stepwell_core`.
fn running(line: &str) -> Option<String> {
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{name} (docs)"));
    }
    let (source, path) = line.strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once(" (")?;
    let file = path.rsplit(['/', '\\']).next()?.trim_end_matches(".exe");
    let name = file.rsplit_once('-').map_or(file, |(name, _hash)| name);
    Some(format!("{name} ({})", source.trim_start_matches("unittests ")))
}

/// The line without the terminal's colour sequences (`ESC [ … letter`).
fn plain_text(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| {
        plain + part.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).get(1..).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "   Compiling stepwell-core v0.1.0
     Running unittests src/lib.rs (target/debug/deps/stepwell_core-0123456789abcdef)

running 2 tests
test ids::tests::sorted ... ok
test time::tests::later ... FAILED

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

     Running tests/lease.rs (/elsewhere/debug/deps/lease-0123456789abcdef)
test slow ... ignored, takes long
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s
   Doc-tests stepwell_core
test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s

test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.30s
";

    fn tally(output: &str) -> Tally {
        let mut tally = Tally::default();
        tally.feed(output.as_bytes());
        tally.end_line();
        tally
    }

    fn binary(name: &str, passed: u64, failed: u64, ignored: u64) -> Binary {
        Binary { name: name.to_owned(), counts: Some(Counts { passed, failed, ignored }) }
    }

    #[test]
    fn counts_go_to_the_binary_that_was_running() {
        let tally = tally(RUN);
        let expected = [
            binary("stepwell_core (src/lib.rs)", 1, 1, 0),
            binary("lease (tests/lease.rs)", 3, 0, 1),
            binary("stepwell_core (docs)", 9, 0, 0),
        ];
        assert_eq!(tally.binaries, expected);
        assert_eq!(tally.total(), Counts { passed: 13, failed: 1, ignored: 1 });
        let troubles = [
            "stepwell_core (src/lib.rs): time::tests::later",
            "lease (tests/lease.rs): slow is ignored: run it or delete it",
        ];
        assert_eq!(tally.troubles, troubles);
    }

    #[test]
    fn output_may_be_cut_anywhere() {
        let mut cut = Tally::default();
        RUN.as_bytes().chunks(3).for_each(|piece| cut.feed(piece));
        assert_eq!(cut.binaries, tally(RUN).binaries);
    }

    #[test]
    fn colours_are_ignored() {
        let tally = tally(
            "\u{1b}[1m\u{1b}[92m     Running\u{1b}[0m unittests src/lib.rs (target/debug/deps/x-0a)\n\
             test result: \u{1b}[32mok\u{1b}[m. 7 passed; 0 failed; 0 ignored; 0 measured",
        );
        assert_eq!(tally.binaries, [binary("x (src/lib.rs)", 7, 0, 0)]);
    }

    #[test]
    fn a_binary_that_died_has_no_counts() {
        let tally = tally("     Running tests/crash.rs (target/debug/deps/crash-0a)\nrunning 1 test\n");
        assert_eq!(tally.binaries, [Binary { name: "crash (tests/crash.rs)".to_owned(), counts: None }]);
    }

    #[test]
    fn a_package_that_does_not_compile_is_named_once() {
        let line = "error: could not compile `stepwell-core` (lib test) due to 1 previous error\n";
        let tally = tally(&line.repeat(2));
        assert_eq!(tally.uncompiled, ["stepwell-core"]);
    }

    #[test]
    fn words_of_a_test_are_no_results() {
        let tally = tally("Running late (again)\nthe test result: ok. 9 passed; 0 failed; 0 ignored\nRunning on\n");
        assert_eq!(tally.total(), Counts::default());
    }
}
