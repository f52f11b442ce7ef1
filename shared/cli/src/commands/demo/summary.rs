//! What the demo has shown, and whether that is what it promises: one mail, whatever happened.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use stepwell_core::{Checkpoint, Phase, RunId, Status, Usage};
use stepwell_samples::outside::MailCounts;

use super::Crash;
use super::approval::Answer;
use crate::view::{Bytes, Coloured, count, line};

const WELL: Style = AnsiColor::Green.on_default().bold();
const BADLY: Style = AnsiColor::Red.on_default().bold();

/// What the demo knows beside the run itself.
pub(super) struct Facts {
    pub(super) crash: Crash,
    /// What was answered, and who wrote the draft.
    pub(super) answered: Option<(Answer, String)>,
    pub(super) took: Duration,
    pub(super) mail: MailCounts,
    pub(super) kept: Option<PathBuf>,
}

impl Facts {
    fn is_rejected(&self) -> bool {
        self.answered.as_ref().is_some_and(|(answer, _)| *answer == Answer::Rejected)
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Summary {
    status: Phase,
    run: RunId,
    steps: u64,
    effects_made: u64,
    effects_skipped: u64,
    mails_requested: u64,
    mails_delivered: u64,
    bytes_written: u64,
    writes: u64,
    seconds: f64,
    written_by: Option<String>,
    crashed: bool,
    rejected: bool,
    data: Option<PathBuf>,
    /// What is not as promised. Empty when all is well.
    problems: Vec<String>,
}

impl Summary {
    pub(super) fn of(stands: &Checkpoint, facts: Facts) -> Self {
        let problems = problems(&stands.progress.status, &facts);
        let Usage { effects_made, effects_skipped, bytes, writes, .. } = stands.progress.usage;
        Self {
            status: stands.progress.status.phase(),
            run: stands.run.clone(),
            steps: stands.progress.visit.0,
            effects_made,
            effects_skipped,
            mails_requested: facts.mail.requested,
            mails_delivered: facts.mail.delivered,
            bytes_written: bytes,
            writes,
            seconds: (facts.took.as_secs_f64() * 1_000.0).round() / 1_000.0,
            crashed: facts.crash == Crash::Done,
            rejected: facts.is_rejected(),
            written_by: facts.answered.map(|(_, writer)| writer),
            data: facts.kept,
            problems,
        }
    }

    pub(super) fn is_well(&self) -> bool {
        self.problems.is_empty()
    }

    /// With a folder that stays.
    pub(super) fn keeping(self, data: PathBuf) -> Self {
        Self { data: Some(data), ..self }
    }
}

/// Holds what happened against what was promised.
fn problems(status: &Status, facts: &Facts) -> Vec<String> {
    let Facts { crash, mail, .. } = facts;
    let mut problems = Vec::new();
    // A rejected brief ends as a failed run that has mailed nothing, and there was no mail to crash at.
    let rejected = facts.is_rejected();
    let (phase, delivered) = if rejected { (Phase::Failed, 0) } else { (Phase::Completed, 1) };
    if status.phase() != phase {
        let why = match status {
            Status::Failed { failure, .. } => format!(": {failure}"),
            Status::Parked { reason, .. } => format!(": {reason}"),
            Status::Created
            | Status::Running
            | Status::Waiting(_)
            | Status::Retrying { .. }
            | Status::Completed { .. }
            | Status::Cancelled { .. } => String::new(),
        };
        problems.push(format!("the run should have {phase}, but it is {}{why}", status.phase()));
    }
    if mail.delivered != delivered {
        problems.push(format!("mails delivered: {}, there should be {delivered}", mail.delivered));
    }
    match crash {
        Crash::Pending if !rejected => problems.push("the worker should have been killed, but it was not".into()),
        Crash::Done if mail.requested != 2 => {
            problems.push(format!(
                "mails requested: {}, there should be 2: one before the crash, one after it",
                mail.requested
            ));
        }
        Crash::Unwanted | Crash::Pending | Crash::Done => {}
    }
    problems
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(f, "run", format_args!("{} {}", self.run, Coloured(self.status)))?;
        let then = if self.status == Phase::Failed { " done, the next one has failed" } else { "" };
        line(f, "steps", format_args!("{}{then}", self.steps))?;
        let lost = if self.crashed { "; the call of the killed worker was never recorded" } else { "" };
        line(f, "effects", format_args!("{} recorded, {} skipped{lost}", self.effects_made, self.effects_skipped))?;
        line(f, "mails", format_args!("{} requested, {} delivered", self.mails_requested, self.mails_delivered))?;
        line(f, "written", format_args!("{} in {}", Bytes(self.bytes_written), count(self.writes, "write")))?;
        line(f, "time", format_args!("{:.2} s", self.seconds))?;
        self.written_by.iter().try_for_each(|writer| line(f, "written by", writer))?;
        match &self.data {
            Some(data) => line(f, "data", format_args!("kept in {}", data.display()))?,
            None => line(f, "data", "deleted (--keep keeps it)")?,
        }
        if self.is_well() {
            return write!(f, "\n{WELL}{}{WELL:#}", self.verdict());
        }
        write!(f, "\n{BADLY}THE DEMO WENT WRONG{BADLY:#}")?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n{BADLY}- {problem}{BADLY:#}"))
    }
}

impl Summary {
    const fn verdict(&self) -> &'static str {
        if self.rejected {
            "Rejected, so the run has failed, as its workflow says, and nothing was mailed."
        } else if self.crashed {
            "The worker died after the mail was accepted and before that was recorded. The next one asked again under the \
             same key: two requests, one mail."
        } else {
            "Every step is on disk, and the mail went out once. `demo --crash` kills the worker half-way."
        }
    }
}

#[cfg(test)]
mod tests {
    use stepwell_core::{Failure, FailureKind, Json, Payload, Timestamp};

    use super::*;

    fn completed() -> Status {
        Status::Completed { output: Payload::Inline(Json::of(&()).unwrap()), at: Timestamp(1) }
    }

    fn failed() -> Status {
        Status::Failed { failure: Failure::new(FailureKind::Terminal, "rejected"), at: Timestamp(1) }
    }

    fn facts(crash: Crash, answer: Answer, requested: u64, delivered: u64) -> Facts {
        let mail = MailCounts { requested, delivered, ..MailCounts::default() };
        Facts { crash, answered: Some((answer, "template".into())), took: Duration::from_secs(1), mail, kept: None }
    }

    #[test]
    fn only_one_mail_is_well() {
        let plain = |status: &Status, requested, delivered| {
            problems(status, &facts(Crash::Unwanted, Answer::Approved, requested, delivered)).len()
        };
        assert_eq!(plain(&completed(), 1, 1), 0);
        assert_eq!(plain(&completed(), 2, 2), 1);
        assert_eq!(plain(&completed(), 0, 0), 1);
        assert_eq!(plain(&failed(), 1, 1), 1);
    }

    #[test]
    fn a_crash_means_two_requests_and_one_mail() {
        let crash = |requested, delivered| {
            problems(&completed(), &facts(Crash::Done, Answer::Approved, requested, delivered)).len()
        };
        assert_eq!(crash(2, 1), 0);
        assert_eq!(crash(1, 1), 1);
        assert_eq!(crash(3, 1), 1);
        assert_eq!(crash(2, 2), 1);
        let never = facts(Crash::Pending, Answer::Approved, 2, 1);
        assert_eq!(problems(&completed(), &never), ["the worker should have been killed, but it was not"]);
    }

    #[test]
    fn a_rejection_fails_the_run_and_mails_nothing() {
        let rejected = |status: &Status, crash, requested, delivered| {
            problems(status, &facts(crash, Answer::Rejected, requested, delivered)).len()
        };
        assert_eq!(rejected(&failed(), Crash::Unwanted, 0, 0), 0);
        assert_eq!(rejected(&failed(), Crash::Pending, 0, 0), 0);
        assert_eq!(rejected(&failed(), Crash::Unwanted, 1, 1), 1);
        assert_eq!(rejected(&completed(), Crash::Unwanted, 0, 0), 1);
    }
}
