//! One run, for people: where it stands, what it waits for, what it has done.

use std::fmt;

use serde::Serialize;
use stepwell_core::{Budget, Checkpoint, Timestamp};
use stepwell_engine::{Client, ClientError};
use stepwell_http::view::{
    CancelView, Contents, DetailView, EntryView, FailureView, Reach, RunView, SignalView, TroubleView, UsageView,
    WorkerView,
};

use super::contents::write_tree;
use super::next::next_commands;
use super::undo::write_stack;
use super::{BOLD, Bytes, Coloured, Text, approval, count, harmless, line};

/// One run, with its values, and with its history if that was asked for.
#[derive(Debug, Serialize)]
pub(crate) struct ShownRun<'a> {
    #[serde(flatten)]
    run: RunView,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) history: Option<Vec<EntryView<'a>>>,
    /// What a person can do about it, if it stands still for want of one.
    #[serde(skip)]
    next: Vec<String>,
    /// By which people are told who may decide.
    #[serde(skip)]
    now: Timestamp,
    /// Whether people are shown the values in full.
    #[serde(skip)]
    in_full: bool,
}

impl ShownRun<'_> {
    /// A run as it stands now, with its values loaded. `flag` is what a command needs, to mean this place.
    pub(crate) async fn load(
        client: &Client,
        run: &Checkpoint,
        budget: Option<&Budget>,
        now: Timestamp,
        flag: &str,
    ) -> Result<Self, ClientError> {
        let next = next_commands(run, now, flag);
        let run = RunView::load(client, run, budget, now, Reach::All).await?;
        Ok(Self { run, history: None, next, now, in_full: false })
    }

    /// With the contents of what its values refer to.
    pub(crate) async fn in_full(mut self, contents: &Contents<'_>) -> Self {
        self.in_full = true;
        let RunView { detail, input, state, .. } = &mut self.run;
        let output = if let DetailView::Completed { output } = detail { Some(output) } else { None };
        for value in output.into_iter().chain(input).chain(state) {
            *value = contents.resolve(value.clone()).await;
        }
        self
    }
}

impl fmt::Display for ShownRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, history, next, now, in_full } = self;
        line(f, "run", &run.run)?;
        line(f, "workflow", format_args!("{}, version {}", run.workflow, run.version))?;
        line(f, "status", format_args!("{} since {}", Coloured(run.status), run.since))?;
        line(
            f,
            "step",
            format_args!("{}, after {}, at revision {}", harmless(&run.step), count(run.steps, "step"), run.revision),
        )?;
        line(f, "started", run.started_at)?;
        if let Some(WorkerView { id, lease_until, .. }) = &run.worker {
            line(f, "worker", format_args!("{id}, lease until {lease_until}"))?;
        }
        write!(f, "{}", Text(&run.detail))?;
        next.iter().try_for_each(|next| line(f, "", next))?;
        if let Some(CancelView { by, why, at }) = &run.cancel {
            let why = why.as_deref().unwrap_or("no reason given");
            line(f, "cancel", format_args!("by {} at {at}: {}", harmless(by), harmless(why)))?;
        }
        run.undoing.iter().try_for_each(|undoing| write!(f, "{}", Text(undoing)))?;
        for asked in &run.approvals {
            approval::write_short(f, asked, *now)?;
        }
        run.trouble.iter().try_for_each(|trouble| line(f, "trouble", Text(trouble)))?;
        if !in_full {
            run.input.iter().try_for_each(|input| line(f, "input", Text(input)))?;
            run.state.iter().try_for_each(|state| line(f, "state", Text(state)))?;
        }
        let consumed = if run.status.is_ended() { "never consumed" } else { "not consumed yet" };
        for SignalView { id, name, at, payload } in &run.signals {
            line(f, "signal", format_args!("{name} ({id}) at {at}, {consumed}: {}", Text(payload)))?;
        }
        run.effects.iter().try_for_each(|effect| line(f, "effect", Text(effect)))?;
        if run.effects_stored_apart > 0 {
            line(f, "", format_args!("and {} stored apart", count(run.effects_stored_apart, "older effect")))?;
        }
        write_stack(f, "to undo", &run.undo)?;
        write!(f, "{}{}", Text(&run.budget), Text(&run.usage))?;
        for entry in history.iter().flatten() {
            write!(f, "\n{}", Text(entry))?;
        }
        if *in_full { self.write_values(f) } else { Ok(()) }
    }
}

impl ShownRun<'_> {
    fn write_values(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RunView { detail, input, state, .. } = &self.run;
        let output = match detail {
            DetailView::Completed { output } => Some(output),
            DetailView::Created
            | DetailView::Running
            | DetailView::Waiting { .. }
            | DetailView::Retrying { .. }
            | DetailView::Parked { .. }
            | DetailView::Failed(_)
            | DetailView::Cancelled(_) => None,
        };
        for (label, value) in [("input", input.as_ref()), ("state", state.as_ref()), ("result", output)] {
            if let Some(value) = value {
                write!(f, "\n\n{BOLD}{label}{BOLD:#}")?;
                write_tree(f, value)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Text<'_, TroubleView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TroubleView { failed_attempts, incompatible, since, last } = self.0;
        if *failed_attempts > 0 || *incompatible == 0 {
            write!(f, "{}", count(u64::from(*failed_attempts), "failed attempt"))?;
        }
        if *failed_attempts > 0 && *incompatible > 0 {
            write!(f, ", ")?;
        }
        if *incompatible > 0 {
            write!(f, "{} by code that does not know it", count(u64::from(*incompatible), "turn"))?;
        }
        write!(f, " since {since}, the last one: {}", Text(last))
    }
}

impl fmt::Display for Text<'_, DetailView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            DetailView::Created | DetailView::Running => Ok(()),
            DetailView::Waiting { signals, approval, until } => {
                let signals = (!signals.is_empty()).then(|| format!("signal {}", signals.join(" or ")));
                let approval = approval.as_ref().map(|id| format!("approval {id}"));
                let any: Vec<String> = approval.into_iter().chain(signals).collect();
                let any = if any.is_empty() { "no signal".into() } else { any.join(" or ") };
                match until {
                    Some(until) => line(f, "waits for", format_args!("{any}, until {until}")),
                    None => line(f, "waits for", format_args!("{any}, without a deadline")),
                }
            }
            DetailView::Retrying { at } => line(f, "retry", format_args!("at {at}")),
            DetailView::Parked { code, reason } => line(f, "parked", format_args!("{code}: {}", harmless(reason))),
            DetailView::Completed { output } => line(f, "result", Text(output)),
            DetailView::Failed(failure) => line(f, "failure", Text(failure)),
            DetailView::Cancelled(certificate) => write!(f, "{}", Text(certificate)),
        }
    }
}

impl fmt::Display for Text<'_, FailureView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailureView { kind, code, message } = self.0;
        write!(f, "{kind}: {}", harmless(message))?;
        code.iter().try_for_each(|code| write!(f, " [{}]", harmless(code)))
    }
}

impl fmt::Display for Text<'_, UsageView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UsageView { writes, bytes, effects_made, effects_skipped, step_ms, .. } = self.0;
        let written = format_args!("{}, {}", count(*writes, "write"), Bytes(*bytes)).to_string();
        let effects = format_args!("{}, {effects_skipped} skipped", count(*effects_made, "effect call")).to_string();
        write!(f, "{BOLD}{:<11}{BOLD:#} {written}; {effects}; {step_ms} ms in steps", "used")
    }
}

#[cfg(test)]
mod tests {
    use stepwell_core::{Failure, FailureKind, Trouble};

    use super::*;

    #[test]
    fn trouble_tells_failed_attempts_from_code_that_is_too_old() {
        let told = |failed, incompatible| {
            let last = Failure::new(FailureKind::Error, "it broke");
            Text(&TroubleView::from(&Trouble { failed, incompatible, since: Timestamp(0), last })).to_string()
        };
        assert!(told(2, 0).starts_with("2 failed attempts since 1970"), "{}", told(2, 0));
        assert!(told(0, 1).starts_with("1 turn by code that does not know it since 1970"), "{}", told(0, 1));
        assert!(told(1, 2).starts_with("1 failed attempt, 2 turns by code that does not know it since"));
    }
}
