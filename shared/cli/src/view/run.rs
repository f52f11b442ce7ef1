//! One run: where it stands, what it waits for, what it has done.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use stepwell_core::{
    CancelRequest, Certificate, Checkpoint, Class, EffectRecord, Failure, Lease, Letter, Outcome, ParkReason, Phase,
    Place, Progress, RunId, Status, Timestamp, Trouble, Usage, Wait, WorkflowName,
};
use stepwell_engine::Client;

use super::contents::write_tree;
use super::history::EffectLineView;
use super::unknown::is_parked_for_want_of_an_answer;
use super::{At, BOLD, Bytes, Coloured, Contents, EntryView, Value, count, line};
use crate::program;

/// One run.
#[derive(Debug, Serialize)]
pub(crate) struct RunView {
    run: RunId,
    workflow: WorkflowName,
    version: u32,
    status: Phase,
    step: String,
    steps: u64,
    step_limit: u64,
    started_at: At,
    since: At,
    #[serde(skip_serializing_if = "Option::is_none")]
    wakes_at: Option<At>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<WorkerView>,
    detail: DetailView,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel: Option<CancelView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<TroubleView>,
    /// The input while the run has not begun, then the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Value>,
    signals: Vec<SignalView>,
    effects: Vec<EffectView>,
    effects_stored_apart: u64,
    usage: UsageView,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<Vec<EntryView>>,
    /// Whether a person has to say how effects ended.
    #[serde(skip)]
    wants_answers: bool,
    /// Whether people are shown the values in full.
    #[serde(skip)]
    in_full: bool,
}

#[derive(Debug, Serialize)]
struct WorkerView {
    id: String,
    since: At,
    lease_until: At,
}

/// What only some statuses have.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum DetailView {
    Created,
    Running,
    Waiting { signals: Vec<String>, until: Option<At> },
    Retrying { at: At },
    Parked { code: &'static str, reason: String },
    Completed { output: Value },
    Failed(FailureView),
    Cancelled(CertificateView),
}

#[derive(Debug, Serialize)]
struct FailureView {
    kind: &'static str,
    code: Option<String>,
    message: String,
}

#[derive(Debug, Serialize)]
struct CertificateView {
    confirmed: u64,
    failed: u64,
    uncertain: Vec<EffectLineView>,
    unfinished_step: String,
    /// Since when a worker that died may have called the outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_attempt: Option<At>,
}

#[derive(Debug, Serialize)]
struct CancelView {
    by: String,
    why: Option<String>,
    at: At,
}

#[derive(Debug, Serialize)]
struct TroubleView {
    failed_attempts: u32,
    incompatible: u32,
    since: At,
    last: FailureView,
}

/// A signal that was not consumed yet.
#[derive(Debug, Serialize)]
struct SignalView {
    id: String,
    name: String,
    at: At,
    payload: Value,
}

#[derive(Debug, Serialize)]
struct EffectView {
    name: String,
    class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_kept_ms: Option<u64>,
    key: String,
    of_run: bool,
    attempts: u32,
    outcome: OutcomeView,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum OutcomeView {
    Succeeded {
        result: Value,
    },
    Failed(FailureView),
    Unknown {
        since: At,
        /// When its last call gave up waiting, at the latest: before that it may still land.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<At>,
        evidence: String,
    },
}

#[derive(Debug, Serialize)]
struct UsageView {
    writes: u64,
    bytes: u64,
    effects_made: u64,
    effects_skipped: u64,
    effects_confirmed: u64,
    effects_failed: u64,
    step_ms: u64,
}

impl RunView {
    /// A run as it stands now, with its values loaded.
    pub(crate) async fn load(
        client: &Client,
        run: &Checkpoint,
        history: Option<Vec<EntryView>>,
        now: Timestamp,
    ) -> Self {
        let progress = &run.progress;
        let (input, state) = match &progress.place {
            Place::Fresh { input } => (Some(Value::load(client, input).await), None),
            Place::At { state, .. } => (None, Some(Value::load(client, state).await)),
        };
        let mut signals = Vec::new();
        for letter in &run.mailbox.letters {
            signals.push(SignalView::load(client, letter).await);
        }
        let mut effects = Vec::new();
        for record in progress.journal.iter().chain(&progress.ledger) {
            effects.push(EffectView::load(client, record).await);
        }
        Self {
            run: run.run.clone(),
            workflow: run.workflow.clone(),
            version: progress.version,
            status: run.phase(now),
            step: progress.place.step(),
            steps: progress.visit.0,
            step_limit: progress.step_limit,
            started_at: At(run.started_at),
            since: At(since(run)),
            wakes_at: run.wakes_at().map(At),
            worker: run.hold.lease.as_ref().filter(|lease| lease.until > now).map(WorkerView::from),
            detail: DetailView::load(client, &progress.status).await,
            cancel: run.cancel.as_ref().map(CancelView::from),
            trouble: progress.trouble.as_ref().map(TroubleView::from),
            input,
            state,
            signals,
            effects,
            effects_stored_apart: progress.spilled,
            usage: progress.usage.into(),
            history,
            wants_answers: is_parked_for_want_of_an_answer(&progress.status),
            in_full: false,
        }
    }

    /// With the contents of what its values refer to.
    pub(crate) async fn in_full(mut self, contents: &Contents<'_>) -> Self {
        self.in_full = true;
        if let DetailView::Completed { output } = self.detail {
            self.detail = DetailView::Completed { output: contents.resolve(output).await };
        }
        for value in [&mut self.input, &mut self.state] {
            if let Some(short) = value.take() {
                *value = Some(contents.resolve(short).await);
            }
        }
        self
    }
}

/// When the run came to stand as it does: its last commit, or its start.
fn since(run: &Checkpoint) -> Timestamp {
    let Progress { tail, .. } = &run.progress;
    let last = tail.entries.last();
    last.map_or(run.started_at, |last| tail.at.plus(Duration::from_millis(last.at)))
}

impl DetailView {
    async fn load(client: &Client, status: &Status) -> Self {
        match status {
            Status::Created => Self::Created,
            Status::Running => Self::Running,
            Status::Waiting(Wait { on, until, .. }) => {
                Self::Waiting { signals: on.iter().map(ToString::to_string).collect(), until: until.map(At) }
            }
            Status::Retrying { at } => Self::Retrying { at: At(*at) },
            Status::Parked { reason, .. } => parked(reason),
            Status::Completed { output, .. } => Self::Completed { output: Value::load(client, output).await },
            Status::Failed { failure, .. } => Self::Failed(failure.into()),
            Status::Cancelled { certificate, .. } => Self::Cancelled(certificate.into()),
        }
    }
}

fn parked(reason: &ParkReason) -> DetailView {
    DetailView::Parked { code: reason.code(), reason: reason.to_string() }
}

impl SignalView {
    async fn load(client: &Client, letter: &Letter) -> Self {
        let Letter { id, name, payload, at } = letter;
        let payload = Value::load(client, payload).await;
        Self { id: id.to_string(), name: name.to_string(), at: At(*at), payload }
    }
}

impl EffectView {
    async fn load(client: &Client, record: &EffectRecord) -> Self {
        let EffectRecord { key, name, class, attempts, outcome, until, of_run, parameters: _ } = record;
        let outcome = match outcome {
            Outcome::Succeeded(result) => OutcomeView::Succeeded { result: Value::load(client, result).await },
            Outcome::Failed(failure) => OutcomeView::Failed(failure.into()),
            Outcome::Unknown { since, evidence } => {
                OutcomeView::Unknown { since: At(*since), until: until.map(At), evidence: evidence.clone() }
            }
        };
        let key_kept_ms = match class {
            Class::Read | Class::Idempotent(None) | Class::Reconcilable | Class::Once => None,
            Class::Idempotent(Some(window)) => Some(*window),
        };
        let (name, key) = (name.clone(), key.to_string());
        Self { name, class: class.as_str(), key_kept_ms, key, of_run: *of_run, attempts: *attempts, outcome }
    }
}

impl From<&Lease> for WorkerView {
    fn from(Lease { owner, since, until }: &Lease) -> Self {
        Self { id: owner.to_string(), since: At(*since), lease_until: At(*until) }
    }
}

impl From<&Failure> for FailureView {
    fn from(Failure { kind, code, message }: &Failure) -> Self {
        Self { kind: kind.as_str(), code: code.clone(), message: message.clone() }
    }
}

impl From<&Certificate> for CertificateView {
    fn from(Certificate { confirmed, failed, uncertain, step, lost_attempt }: &Certificate) -> Self {
        let uncertain = uncertain.iter().map(EffectLineView::from).collect();
        let lost_attempt = lost_attempt.map(At);
        Self { confirmed: *confirmed, failed: *failed, uncertain, unfinished_step: step.clone(), lost_attempt }
    }
}

impl From<&CancelRequest> for CancelView {
    fn from(CancelRequest { by, why, at }: &CancelRequest) -> Self {
        Self { by: by.clone(), why: why.clone(), at: At(*at) }
    }
}

impl From<&Trouble> for TroubleView {
    fn from(Trouble { failed, incompatible, since, last }: &Trouble) -> Self {
        Self { failed_attempts: *failed, incompatible: *incompatible, since: At(*since), last: last.into() }
    }
}

impl From<Usage> for UsageView {
    fn from(usage: Usage) -> Self {
        let Usage { writes, bytes, effects_made, effects_skipped, effects_confirmed, effects_failed, step_ms } = usage;
        Self { writes, bytes, effects_made, effects_skipped, effects_confirmed, effects_failed, step_ms }
    }
}

impl fmt::Display for RunView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(f, "run", &self.run)?;
        line(f, "workflow", format_args!("{}, version {}", self.workflow, self.version))?;
        line(f, "status", format_args!("{} since {}", Coloured(self.status), self.since))?;
        line(f, "step", format_args!("{}, after {}", self.step, count(self.steps, "step")))?;
        line(f, "started", self.started_at)?;
        if let Some(WorkerView { id, lease_until, .. }) = &self.worker {
            line(f, "worker", format_args!("{id}, lease until {lease_until}"))?;
        }
        write!(f, "{}", self.detail)?;
        if let Some(CancelView { by, why, at }) = &self.cancel {
            let why = why.as_deref().unwrap_or("no reason given");
            line(f, "cancel", format_args!("by {by} at {at}: {why}"))?;
        }
        self.trouble.iter().try_for_each(|trouble| line(f, "trouble", trouble))?;
        if !self.in_full {
            self.input.iter().try_for_each(|input| line(f, "input", input))?;
            self.state.iter().try_for_each(|state| line(f, "state", state))?;
        }
        let consumed = if self.status.is_ended() { "never consumed" } else { "not consumed yet" };
        for SignalView { id, name, at, payload } in &self.signals {
            line(f, "signal", format_args!("{name} ({id}) at {at}, {consumed}: {payload}"))?;
        }
        self.effects.iter().try_for_each(|effect| line(f, "effect", effect))?;
        if self.wants_answers {
            let (name, run) = (program::name(), &self.run);
            line(f, "", format_args!("once it is known: `{name} resolve {run} KEY`, which says how an effect ended"))?;
        }
        if self.effects_stored_apart > 0 {
            line(f, "", format_args!("and {} stored apart", count(self.effects_stored_apart, "older effect")))?;
        }
        write!(f, "{}", self.usage)?;
        for entry in self.history.iter().flatten() {
            write!(f, "\n{entry}")?;
        }
        if self.in_full { self.write_values(f) } else { Ok(()) }
    }
}

impl RunView {
    fn write_values(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let output = match &self.detail {
            DetailView::Completed { output } => Some(output),
            DetailView::Created
            | DetailView::Running
            | DetailView::Waiting { .. }
            | DetailView::Retrying { .. }
            | DetailView::Parked { .. }
            | DetailView::Failed(_)
            | DetailView::Cancelled(_) => None,
        };
        for (label, value) in [("input", self.input.as_ref()), ("state", self.state.as_ref()), ("result", output)] {
            if let Some(value) = value {
                write!(f, "\n\n{BOLD}{label}{BOLD:#}")?;
                write_tree(f, value)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for TroubleView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { failed_attempts, incompatible, since, last } = self;
        if *failed_attempts > 0 || *incompatible == 0 {
            write!(f, "{}", count(u64::from(*failed_attempts), "failed attempt"))?;
        }
        if *failed_attempts > 0 && *incompatible > 0 {
            write!(f, ", ")?;
        }
        if *incompatible > 0 {
            write!(f, "{} by code that does not know it", count(u64::from(*incompatible), "turn"))?;
        }
        write!(f, " since {since}, the last one: {last}")
    }
}

impl fmt::Display for DetailView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created | Self::Running => Ok(()),
            Self::Waiting { signals, until } => {
                let signals =
                    if signals.is_empty() { "no signal".into() } else { format!("signal {}", signals.join(" or ")) };
                match until {
                    Some(until) => line(f, "waits for", format_args!("{signals}, until {until}")),
                    None => line(f, "waits for", format_args!("{signals}, without a deadline")),
                }
            }
            Self::Retrying { at } => line(f, "retry", format_args!("at {at}")),
            Self::Parked { code, reason } => line(f, "parked", format_args!("{code}: {reason}")),
            Self::Completed { output } => line(f, "result", output),
            Self::Failed(failure) => line(f, "failure", failure),
            Self::Cancelled(CertificateView { confirmed, failed, uncertain, unfinished_step, lost_attempt }) => {
                let known = format_args!("effects: {confirmed} confirmed, {failed} failed").to_string();
                line(f, "certificate", format_args!("ended at step {unfinished_step}; {known}"))?;
                if let Some(since) = lost_attempt {
                    let lost = format_args!("a worker died in that step, begun at {since}: it may have made calls")
                        .to_string();
                    line(f, "uncertain", lost)?;
                }
                uncertain.iter().try_for_each(|effect| line(f, "uncertain", effect.uncertain()))
            }
        }
    }
}

impl fmt::Display for FailureView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, code, message } = self;
        write!(f, "{kind}: {message}")?;
        code.iter().try_for_each(|code| write!(f, " [{code}]"))
    }
}

impl fmt::Display for EffectView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, class, key, attempts, outcome, .. } = self;
        write!(f, "{name} ({class}), {}, key {key}: ", count(u64::from(*attempts), "call"))?;
        match outcome {
            OutcomeView::Succeeded { result } => write!(f, "succeeded with {result}"),
            OutcomeView::Failed(failure) => write!(f, "failed, {failure}"),
            OutcomeView::Unknown { since, until, evidence } => {
                write!(f, "may have happened since {since}: {evidence}")?;
                until.iter().try_for_each(|until| write!(f, "; its call waited until {until} at the latest"))
            }
        }
    }
}

impl fmt::Display for UsageView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writes, bytes, effects_made, effects_skipped, step_ms, .. } = self;
        let written = format_args!("{}, {}", count(*writes, "write"), Bytes(*bytes)).to_string();
        let effects = format_args!("{}, {effects_skipped} skipped", count(*effects_made, "effect call")).to_string();
        write!(f, "{}{:<11}{:#} {written}; {effects}; {step_ms} ms in steps", super::BOLD, "used", super::BOLD)
    }
}

#[cfg(test)]
mod tests {
    use stepwell_core::FailureKind;

    use super::*;

    #[test]
    fn trouble_tells_failed_attempts_from_code_that_is_too_old() {
        let told = |failed, incompatible| {
            let last = Failure::new(FailureKind::Error, "it broke");
            TroubleView::from(&Trouble { failed, incompatible, since: Timestamp(0), last }).to_string()
        };
        assert!(told(2, 0).starts_with("2 failed attempts since 1970"), "{}", told(2, 0));
        assert!(told(0, 1).starts_with("1 turn by code that does not know it since 1970"), "{}", told(0, 1));
        assert!(told(1, 2).starts_with("1 failed attempt, 2 turns by code that does not know it since"));
    }
}
