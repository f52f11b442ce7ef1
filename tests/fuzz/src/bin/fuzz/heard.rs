//! What libFuzzer says.

/// What is to be known of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) executions: u64,
    pub(crate) per_second: u64,
    /// Edges of the code that were reached.
    pub(crate) edges: u64,
    /// The same, told apart by how often, and by what was compared.
    pub(crate) features: u64,
    /// Inputs that each reach something of their own.
    pub(crate) corpus: u64,
    /// The input that has broken something.
    pub(crate) input: Option<String>,
    /// What was wrong with it: the first line of the panic, or libFuzzer's word.
    pub(crate) wrong: Option<String>,
}

impl Heard {
    /// Reads what it has written to standard error.
    pub(crate) fn of(log: &str) -> Self {
        let mut heard = Self::default();
        let mut lines = log.lines().peekable();
        while let Some(line) = lines.next() {
            if let Some(number) = line.strip_prefix("stat::number_of_executed_units:") {
                heard.executions = number.trim().parse().unwrap_or_default();
            } else if let Some(number) = line.strip_prefix("stat::average_exec_per_sec:") {
                heard.per_second = number.trim().parse().unwrap_or_default();
            } else if line.starts_with('#') && line.contains(" cov: ") {
                heard.count(line);
            } else if let Some((_, input)) = line.split_once("Test unit written to ") {
                heard.input = Some(input.trim().to_owned());
            } else if line.starts_with("thread '") && line.contains(" panicked at ") && heard.wrong.is_none() {
                let place = line.split_once(" panicked at ").map_or(line, |(_, place)| place);
                let what = lines.peek().copied().unwrap_or_default();
                heard.wrong = Some(format!("{place} {what}"));
            } else if let Some((_, what)) = line.split_once("ERROR: libFuzzer: ") {
                heard.wrong = heard.wrong.or_else(|| Some(what.to_owned()));
            }
        }
        heard
    }

    /// `#2048 NEW    cov: 410 ft: 822 corp: 48/1903b lim: 64 exec/s: 0 rss: 41Mb L: 8/64 MS: 1 …`
    fn count(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            let to = match word {
                "cov:" => &mut self.edges,
                "ft:" => &mut self.features,
                "corp:" => &mut self.corpus,
                _ => continue,
            };
            let number = words.next().and_then(|number| number.split('/').next()?.parse().ok());
            *to = number.unwrap_or(*to);
        }
        let executed = line.trim_start_matches('#').split_whitespace().next();
        self.executions = executed.and_then(|number| number.parse().ok()).unwrap_or(self.executions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_ends_is_counted() {
        let log = "INFO: seed corpus: files: 3\n\
            #4\tINITED cov: 82 ft: 83 corp: 1/1b exec/s: 0 rss: 40Mb\n\
            #2048\tDONE   cov: 410 ft: 822 corp: 48/1903b lim: 64 exec/s: 256 rss: 41Mb\n\
            Done 2048 runs in 8 second(s)\n\
            stat::number_of_executed_units: 2049\n\
            stat::average_exec_per_sec:     256\n";
        let numbers =
            Heard { executions: 2_049, per_second: 256, edges: 410, features: 822, corpus: 48, ..Heard::default() };
        assert_eq!(Heard::of(log), numbers);
    }

    #[test]
    fn a_round_that_breaks_something_says_what_and_with_what() {
        let log = "#16\tNEW    cov: 9 ft: 9 corp: 2/3b lim: 4 exec/s: 0 rss: 40Mb L: 2/2 MS: 1 ChangeByte-\n\n\
            thread '<unnamed>' (7) panicked at tests/fuzz/src/link.rs:71:9:\n\"k1.e30.AA\"\n\
            ==9== ERROR: libFuzzer: deadly signal\n\
            artifact_prefix='found/'; Test unit written to found/crash-1\n";
        let heard = Heard::of(log);
        assert_eq!((heard.executions, heard.input.as_deref()), (16, Some("found/crash-1")));
        assert_eq!(heard.wrong.as_deref(), Some("tests/fuzz/src/link.rs:71:9: \"k1.e30.AA\""));
    }
}
