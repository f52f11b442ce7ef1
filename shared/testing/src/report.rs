//! What a crash test has found: tables for people, and the same as JSON.

use std::fmt;

use serde::Serialize;

use crate::fault::Fault;

/// Lines of one kind that are printed; all of them are in the fields.
const SHOWN_MAX: usize = 12;

/// What a crash test has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Of which workflow.
    pub workflow: String,
    /// How its run ends without faults.
    pub without_faults: String,
    /// Port calls of the worker without faults, those included that wait for a message in vain.
    pub port_calls: u64,
    /// Messages without faults.
    pub messages: u64,
    /// Worlds beside the one without faults.
    pub worlds: u64,
    /// By what went wrong.
    pub faults: Vec<FaultRow>,
    /// By effect.
    pub effects: Vec<EffectRow>,
    /// Where a run was parked that would have gone on without faults.
    pub questions: Vec<Question>,
    /// What no author expects.
    pub surprises: Vec<Surprise>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

/// The worlds in which this went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FaultRow {
    /// What.
    pub fault: Fault,
    /// How many worlds.
    pub worlds: u64,
    /// In how many the run ended as it does without faults.
    pub ended_alike: u64,
    /// In how many it was parked with the question whether an effect has happened, as the effect's class announces.
    pub asked_a_person: u64,
    /// In how many there was a surprise.
    pub surprises: u64,
}

impl FaultRow {
    pub(crate) const fn new(fault: Fault) -> Self {
        Self { fault, worlds: 0, ended_alike: 0, asked_a_person: 0, surprises: 0 }
    }
}

/// What has become of one effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EffectRow {
    /// Its name.
    pub effect: String,
    /// Its class.
    pub class: String,
    /// Calls without faults.
    pub without_faults: u64,
    /// Worlds in which it was called.
    pub worlds: u64,
    /// Worlds in which it was called more often than without faults.
    pub more_often: u64,
    /// Most calls in one world.
    pub most: u64,
    /// Worlds in which the outside was asked about an earlier call.
    pub asked: u64,
    /// Worlds that ended with nobody knowing whether it has happened.
    pub left_unknown: u64,
    /// What its class promises, and whether that was kept.
    pub promise: String,
}

/// A reason for which runs were parked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Question {
    /// The reason.
    pub reason: String,
    /// At which points.
    pub at: Vec<String>,
}

/// Something that no author expects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Surprise {
    /// What went wrong in that world.
    pub at: String,
    /// What is not as it should be.
    pub what: String,
}

impl Report {
    /// Passes if every world was as its author was promised.
    ///
    /// # Panics
    /// With the whole report, if an effect was called more often than its class allows, under another key or with other parameters,
    /// or if a run did not end as it does without faults, but for a question to a person that an effect's class announces.
    #[track_caller]
    pub fn assert_no_surprises(&self) {
        assert!(self.surprises.is_empty(), "{self}");
    }

    /// The row of this effect.
    pub fn effect(&self, name: &str) -> Option<&EffectRow> {
        self.effects.iter().find(|row| row.effect == name)
    }

    /// The row of this fault.
    pub fn fault(&self, fault: Fault) -> Option<&FaultRow> {
        self.faults.iter().find(|row| row.fault == fault)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workflow, without_faults, port_calls, messages, worlds, .. } = self;
        let (calls, messages, worlds) =
            (count(*port_calls, "port call"), count(*messages, "message"), count(*worlds, "world"));
        writeln!(f, "crash test of workflow {workflow}: {calls}, {messages}, {worlds}")?;
        writeln!(f, "without faults {without_faults}\n")?;
        let mut table = Table::new(&["what goes wrong", "worlds", "ended alike", "asked a person", "surprises"]);
        for FaultRow { fault, worlds, ended_alike, asked_a_person, surprises } in &self.faults {
            table.row([fault.as_str().to_owned()], [*worlds, *ended_alike, *asked_a_person, *surprises], []);
        }
        writeln!(f, "{table}")?;
        if self.effects.is_empty() {
            writeln!(f, "it calls nothing outside")?;
        } else {
            let head =
                ["effect", "class", "without faults", "worlds", "more often in", "most calls", "left unknown in"];
            let mut table = Table::new(&[&head[..], &["what its class promises"]].concat());
            for row in &self.effects {
                let EffectRow { effect, class, without_faults, worlds, more_often, most, left_unknown, .. } = row;
                let numbers = [*without_faults, *worlds, *more_often, *most, *left_unknown];
                table.row([effect.clone(), class.clone()], numbers, [row.promise.clone()]);
            }
            write!(f, "{table}")?;
        }
        for Question { reason, at } in &self.questions {
            writeln!(f, "\nparked in {}: {reason}", count(at.len() as u64, "world"))?;
            lines(f, at)?;
        }
        for note in &self.notes {
            writeln!(f, "\nnote: {note}")?;
        }
        if self.surprises.is_empty() {
            return f.write_str("\nno surprises");
        }
        writeln!(f, "\n{}:", count(self.surprises.len() as u64, "surprise"))?;
        lines(f, &self.surprises)?;
        f.write_str("\nnot as its author was promised")
    }
}

impl fmt::Display for Surprise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// So many of them, in words.
pub(crate) fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn lines(f: &mut fmt::Formatter<'_>, lines: &[impl fmt::Display]) -> fmt::Result {
    for line in lines.iter().take(SHOWN_MAX) {
        writeln!(f, "  {line}")?;
    }
    let more = lines.len().saturating_sub(SHOWN_MAX);
    if more > 0 { writeln!(f, "  and {more} more") } else { Ok(()) }
}

/// Columns as wide as they have to be; numbers stand to the right.
struct Table {
    rows: Vec<Vec<(String, bool)>>,
}

impl Table {
    fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|&cell| (cell.to_owned(), false)).collect()] }
    }

    fn row<const A: usize, const B: usize, const C: usize>(
        &mut self,
        before: [String; A],
        numbers: [u64; B],
        after: [String; C],
    ) {
        let text = |cell: String| (cell, false);
        let numbers = numbers.iter().map(|number| (number.to_string(), true));
        self.rows.push(before.into_iter().map(text).chain(numbers).chain(after.into_iter().map(text)).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|(cell, _)| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let cells =
                row.iter().zip(&widths).map(
                    |((cell, right), &width)| {
                        if *right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
                    },
                );
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}
