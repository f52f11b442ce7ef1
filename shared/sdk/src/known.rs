//! What is known of one effect, and what a call's end makes of it.

use core::future::Future;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use stepwell_core::budget::EFFECTS;
use stepwell_core::decide::NotAdmitted;
use stepwell_core::limits::JOURNAL_RECORDS_MAX;
use stepwell_core::{
    Amounts, ApprovalId, Class, Digest, EffectKey, EffectRecord, Failure, FailureKind, Json, Outcome, ParkReason,
    Payload, RetryPolicy, Scope, Timestamp,
};

use crate::effect::{Asked, Call, Classified};
use crate::error::CallErrorKind;
use crate::host::Intent;
use crate::secret::refuse_secrets;
use crate::terms::Terms;
use crate::watch::Goes;
use crate::{CallError, Cx, EffectError, redact};

/// What is seen of a call that has not ended.
pub(crate) const IN_FLIGHT: &str = "the call was in flight";

/// A call of an earlier attempt that may have happened.
pub(crate) struct Open {
    pub(crate) since: Timestamp,
    pub(crate) evidence: String,
    /// When it gave up waiting, where that is known.
    pub(crate) until: Option<Timestamp>,
}

/// A call that was made.
pub(crate) struct Made {
    pub(crate) attempt: u32,
    pub(crate) at: Timestamp,
    /// When it gives up waiting.
    pub(crate) until: Timestamp,
    /// An earlier one under its key, that may have happened.
    pub(crate) open: Option<Open>,
    /// What earlier ones have cost that this one does not replace.
    pub(crate) sunk: Amounts,
}

/// A call that is being made, until it has ended or was dropped.
pub(crate) struct InFlight<'a> {
    cx: &'a Cx,
    key: &'a EffectKey,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.cx.record().in_flight.retain(|key| key != self.key);
    }
}

/// An effect with everything but its call.
pub(crate) struct Known<'c> {
    pub(crate) cx: &'c Cx,
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    pub(crate) key: &'c EffectKey,
    pub(crate) of_run: bool,
    pub(crate) parameters: Option<Digest>,
    pub(crate) retry: Option<Box<RetryPolicy>>,
    pub(crate) settle_delay: Duration,
    pub(crate) across_runs: bool,
    /// The action that has to be approved, and the approval.
    pub(crate) approval: Option<Result<ApprovalId, String>>,
    pub(crate) costs: Amounts,
    pub(crate) undo: Option<Json>,
    pub(crate) no_return: bool,
}

impl<'c> Known<'c> {
    /// Everything about an effect but its call, if the terms can be met.
    pub(crate) fn of(cx: &'c Cx, terms: Terms, class: Class, settle_delay: Duration) -> Result<Self, EffectError> {
        let Terms {
            name,
            key,
            across_runs,
            parameters,
            deadline: _,
            retry,
            approved_by,
            approved_twice,
            costs,
            undo,
            no_return,
        } = terms;
        if approved_twice {
            let problem = "it names two approvals, and is made under one; ask for one with a quorum, or of both roles";
            return Err(misused(name, problem.into()));
        }
        let visiting = &cx.visiting;
        let scope = match &key {
            None => Scope::Visit(visiting.visit),
            Some(key) if across_runs => Scope::Business(key),
            Some(key) => Scope::Run(key),
        };
        let derived = cx.keys.keep(&EffectKey::derive(&visiting.run, &visiting.workflow, name, scope));
        let parameters =
            parameters.transpose().map_err(|problem| misused(name, format!("its parameters: {problem}")))?;
        // Whether there is one matters only if a call is made: what is on record needs none any more.
        let approval = approved_by.map(|action| cx.approval_for(action, derived));
        let undo = undo.map(|undo| cx.checked_undo(name, undo)).transpose()?;
        for counter in costs.keys() {
            refuse_secrets("a counter", counter.as_bytes()).map_err(|problem| misused(name, problem))?;
        }
        let mut costs = costs;
        if visiting.counts_effects {
            stepwell_core::budget::add(&mut costs, EFFECTS, 1);
        }
        let (key, of_run) = (derived, key.is_some());
        Ok(Self {
            cx,
            name,
            class,
            key,
            of_run,
            parameters,
            retry,
            settle_delay,
            across_runs,
            approval,
            costs,
            undo,
            no_return,
        })
    }

    /// Whether its intent has to stand before its call. Where other runs look at it, too: they must not take over what a call of which
    /// nothing is written may have done.
    fn has_intent(&self) -> bool {
        self.class.needs_intent()
            || self.across_runs
            || self.approval.is_some()
            || !self.costs.is_empty()
            || self.undo.is_some()
            || self.no_return
    }

    /// What is recorded under this key: in this visit, in the run's ledger, or beside the checkpoint.
    pub(crate) async fn recorded(&self) -> Result<Option<EffectRecord>, EffectError> {
        let visiting = &self.cx.visiting;
        let find = |records: &[EffectRecord]| records.iter().rev().find(|record| record.key == *self.key).cloned();
        let mut found = find(&self.cx.record().journal);
        if found.is_none() && self.of_run {
            found = find(&visiting.ledger);
            if found.is_none() && visiting.has_spilled {
                found = self.cx.host.find_effect(self.key).await?;
            }
        }
        if let Some(record) = &found
            && let (Some(then), Some(now)) = (record.parameters, self.parameters)
            && then != now
        {
            return Err(misused(
                self.name,
                "the same key was used with other parameters; give this call a key of its own".into(),
            ));
        }
        Ok(found)
    }

    /// The recorded answer; `None` when there is none and the call has to be made (again).
    pub(crate) async fn answer<T: DeserializeOwned>(&self, record: &EffectRecord) -> Option<Result<T, EffectError>> {
        let answer = match &record.outcome {
            Outcome::Unknown { .. } if record.signed_off.is_some() => Err(EffectError::SignedOff {
                name: self.name.into(),
                by: record.signed_off.clone().unwrap_or_default(),
            }),
            Outcome::Unknown { .. } => return None,
            Outcome::Failed(failure) => Err(self.refused(failure.clone())),
            Outcome::Succeeded(payload) => self.read(payload).await,
        };
        self.cx.record().used.effects_skipped += 1;
        Some(answer)
    }

    pub(crate) async fn read<T: DeserializeOwned>(&self, payload: &Payload) -> Result<T, EffectError> {
        self.hand_out()?;
        self.cx.value(payload).await?.parse().map_err(|error| {
            let problem =
                format!("its recorded result is not of the type asked for ({error}); give the new call a new name");
            misused(self.name, problem)
        })
    }

    /// A result goes to one call in an attempt, unless a key or parameters say that a second call means the same. Else a
    /// loop over one name would get its first result again and again.
    fn hand_out(&self) -> Result<(), EffectError> {
        if self.of_run || self.parameters.is_some() {
            return Ok(());
        }
        let handed_out = &mut self.cx.record().handed_out;
        if handed_out.contains(self.key) {
            let problem = "it was called twice in this step; give each call a name or a `.key(..)` of its own, or \
                           `.with(..)` its parameters if both are one call";
            return Err(misused(self.name, problem.into()));
        }
        handed_out.push(self.key.clone());
        Ok(())
    }

    /// One call under a key at a time: a second one beside it could overwrite what the first has recorded.
    pub(crate) fn take_off(&self) -> Result<InFlight<'_>, EffectError> {
        let in_flight = &mut self.cx.record().in_flight;
        if in_flight.contains(self.key) {
            let problem =
                "it is in flight already; await the first call, or give each a name or a `.key(..)` of its own";
            return Err(misused(self.name, problem.into()));
        }
        in_flight.push(self.key.clone());
        Ok(InFlight { cx: self.cx, key: self.key })
    }

    /// What earlier attempts left open: a recorded call whose outcome is unknown, or one that may have been made before its
    /// worker was lost, with nothing recorded.
    pub(crate) fn left_open(&self, before: Option<&EffectRecord>) -> Option<Open> {
        match before.map(|record| &record.outcome) {
            Some(Outcome::Unknown { since, evidence }) => {
                let until = before.and_then(|record| record.until);
                Some(Open { since: *since, evidence: evidence.clone(), until })
            }
            Some(Outcome::Succeeded(_) | Outcome::Failed(_)) => None,
            // Without its intent no attempt has called.
            None if self.has_intent() => None,
            None => self.cx.visiting.earlier_try.map(|since| Open {
                since,
                evidence: "an attempt whose worker was lost may have called".into(),
                until: None,
            }),
        }
    }

    /// Finds out about a call that may have happened and must not be repeated unasked. `None`: it did not happen.
    pub(crate) async fn look<C, T, Asking, E>(
        &self,
        asks: C,
        open: &Open,
        call: Call<'c>,
    ) -> Result<Option<T>, EffectError>
    where
        C: Classified<'c, T, Asking = Asking, Error = E>,
        Asking: Future<Output = Result<Asked<T>, E>> + Send,
        E: Into<CallError>,
    {
        let host = &self.cx.host;
        if self.class == Class::Once {
            return Err(self.unsettled(&format!("({}), and calling again would act again", open.evidence)));
        }
        // Not before that call can no longer land: what is absent now may not be then.
        let quiet = open.until.unwrap_or(open.since).plus(self.settle_delay);
        let left = quiet.since(host.now());
        if !left.is_zero() {
            let evidence = format!("{}; it is asked about when it can no longer land", open.evidence);
            return Err(self.unknown(evidence, None, Some(left)));
        }
        host.hold_until(host.now().plus(call.deadline())).await?;
        let watched = self.goes_out(Goes::Ask);
        let answer = within(self.cx, call.deadline(), asks.ask(call)).await;
        self.over(Goes::Ask, watched, answer.is_some());
        let why = match answer {
            Some(Ok(Asked::Happened(result))) => return Ok(Some(result)),
            Some(Ok(Asked::Absent)) => return Ok(None),
            Some(Ok(Asked::CannotTell(why))) => why,
            Some(Err(error)) => error.into().message,
            None => "there was no answer in time".into(),
        };
        Err(self.unknown(format!("{}; asked, and still not known: {why}", open.evidence), None, None))
    }

    /// For how long what is left open allows a call. If it allows none, that is written down, so that a person can settle it.
    pub(crate) fn may_dispatch(
        &self,
        before: Option<&EffectRecord>,
        open: Option<&Open>,
        deadline: Duration,
    ) -> Result<Duration, EffectError> {
        let now = self.cx.host.now();
        let Some(open) = open else { return Ok(deadline) };
        let left = self.class.repeatable_for(open.since, now);
        if !left.is_zero() {
            return Ok(deadline.min(left));
        }
        let (attempts, costs) = before.map(|record| (record.attempts, record.costs.clone())).unwrap_or_default();
        let outcome = Outcome::Unknown { since: open.since, evidence: open.evidence.clone() };
        self.note(attempts, open.until, costs, outcome)?;
        let ago = now.since(open.since).as_secs();
        Err(self.unsettled(&format!("{ago} s ago, and the outside no longer dedupes its key")))
    }

    /// All that has to stand before a call: the lease until its deadline, nobody has asked for the run's end, and where it
    /// is needed, the intent, which uses the approval and reserves the costs.
    pub(crate) async fn clear_to_call(
        &self,
        made: &Made,
        since: Timestamp,
        before: Option<&EffectRecord>,
    ) -> Result<(), EffectError> {
        let host = &self.cx.host;
        if host.is_cancelled() {
            return Err(self.cancelled(made, before)?);
        }
        if let Some(Err(problem)) = &self.approval {
            return Err(misused(self.name, problem.clone()));
        }
        if !self.has_intent() {
            host.hold_until(made.until).await?;
            return if host.is_cancelled() { Err(self.cancelled(made, before)?) } else { Ok(()) };
        }
        let in_flight = Outcome::Unknown { since, evidence: IN_FLIGHT.into() };
        self.note(made.attempt, Some(made.until), self.reserved(made), in_flight)?;
        let journal = self.cx.record().journal.clone();
        let intent = host.intend(journal, self.key, made.until).await;
        // Unless it is written nothing was called: the record says what it said before.
        let error = match intent {
            Ok(Intent::Written) => return Ok(()),
            Ok(Intent::Cancelled) => self.cancelled(made, before)?,
            Ok(Intent::Refused(NotAdmitted::NotApproved { approval, why })) => EffectError::NotApproved {
                name: self.name.into(),
                approval: approval.to_string(),
                why: why.to_string(),
            },
            Ok(Intent::Refused(NotAdmitted::OverBudget(over))) => {
                EffectError::OverBudget { name: self.name.into(), over, reached: self.cx.visiting.reached }
            }
            Err(error) => error.into(),
        };
        if !matches!(error, EffectError::Cancelled { .. }) {
            self.restore(before);
        }
        Err(error)
    }

    /// The run's end was asked for first. What was never sent is certified as that; what may have been sent before stays so.
    fn cancelled(&self, made: &Made, before: Option<&EffectRecord>) -> Result<EffectError, EffectError> {
        self.restore(before);
        if made.open.is_none() && self.class.acts() {
            let failure = Failure::new(FailureKind::NotSent, "the run was cancelled before it was sent");
            self.note(made.attempt - 1, None, Amounts::new(), Outcome::Failed(failure))?;
        }
        Ok(EffectError::Cancelled { name: self.name.into() })
    }

    /// Writes down again what was known before, since nothing was called.
    pub(crate) fn restore(&self, before: Option<&EffectRecord>) {
        let journal = &mut self.cx.record().journal;
        match (journal.iter().position(|record| record.key == *self.key), before) {
            (Some(at), Some(before)) => journal[at] = before.clone(),
            (Some(at), None) => drop(journal.remove(at)),
            (None, before) => journal.extend(before.cloned()),
        }
    }

    /// Writes down what is known of this effect now.
    pub(crate) fn note(
        &self,
        attempts: u32,
        until: Option<Timestamp>,
        costs: Amounts,
        outcome: Outcome,
    ) -> Result<(), EffectError> {
        let mut record = self.cx.record();
        let journal = &mut record.journal;
        let entry = EffectRecord {
            key: self.key.clone(),
            name: self.name.into(),
            class: self.class,
            parameters: self.parameters,
            attempts,
            outcome,
            until,
            of_run: self.of_run,
            approval: self.approval.clone().and_then(Result::ok),
            costs,
            undo: self.undo.clone(),
            no_return: self.no_return,
            signed_off: None,
        };
        match journal.iter().position(|old| old.key == *self.key) {
            Some(at) => journal[at] = entry,
            None if journal.len() >= JOURNAL_RECORDS_MAX => {
                let problem = format!("more than {JOURNAL_RECORDS_MAX} effects in one step; split the step");
                return Err(misused(self.name, problem));
            }
            None => journal.push(entry),
        }
        Ok(())
    }

    /// Writes down that another run has made it.
    pub(crate) fn note_made_elsewhere(&self, record: &EffectRecord) -> Result<(), EffectError> {
        self.note(0, None, Amounts::new(), record.outcome.clone())?;
        let mut mine = self.cx.record();
        if let Some(mine) = mine.journal.iter_mut().find(|mine| mine.key == *self.key) {
            (mine.approval, mine.undo) = (None, None);
        }
        Ok(())
    }

    pub(crate) fn succeeded<T: Serialize>(
        &self,
        attempt: u32,
        until: Option<Timestamp>,
        costs: Amounts,
        result: T,
    ) -> Result<T, EffectError> {
        match Json::of(&result) {
            Ok(json) => {
                // It happened, but is not written down either: the same as below.
                refuse_secrets("its result", json.text().as_bytes()).map_err(|problem| misused(self.name, problem))?;
                self.hand_out()?;
                self.note(attempt, until, costs, Outcome::Succeeded(Payload::Inline(json)))?;
                Ok(result)
            }
            // It happened, but what it answered cannot be recorded: the record says unknown, the author has to mend it.
            Err(error) => Err(misused(self.name, format!("its result cannot be written as JSON: {error}"))),
        }
    }

    pub(crate) fn failed(&self, made: Made, error: CallError) -> EffectError {
        let CallError { kind, message, code, at_least } = error;
        let (reserved, settled) = (self.reserved(&made), self.settled(&made));
        let Made { attempt, at, until, open, sunk } = made;
        let note = |costs: Amounts, outcome: Outcome, error: EffectError| match self.note(
            attempt,
            Some(until),
            costs,
            outcome,
        ) {
            Ok(()) => error,
            Err(problem) => problem,
        };
        // A read that may have happened has changed nothing: it leaves nothing open.
        let open = open.filter(|_| self.class != Class::Read);
        match (kind, self.class, open) {
            (CallErrorKind::Refused, _, None) => {
                let failure = Failure { code, ..Failure::new(FailureKind::Refused, message) };
                // It did not happen: it has cost what it says, and no more.
                let told = self.cx.record().told.contains_key(self.key.as_str());
                note(if told { settled } else { sunk }, Outcome::Failed(failure.clone()), self.refused(failure))
            }
            // This call did not happen. An earlier one may have, and no further call will tell.
            (CallErrorKind::Refused, _, Some(Open { since, evidence, .. })) => {
                let what = format!("({evidence}), and a later call under its key was refused: {message}");
                note(reserved, Outcome::Unknown { since, evidence }, self.unsettled(&what))
            }
            (CallErrorKind::Retry, _, None) | (CallErrorKind::Unknown, Class::Read, _) => {
                // Of a read that may have happened nothing is left but what it may have cost.
                let cost = if kind == CallErrorKind::Unknown { reserved } else { sunk };
                self.restore(None);
                if !cost.is_empty() && self.class == Class::Read {
                    self.note(attempt, Some(until), cost, Outcome::Unknown { since: at, evidence: message.clone() })
                        .ok();
                }
                let (name, policy) = (self.name.to_owned(), self.retry.clone());
                EffectError::NotDone { name, message, code, at_least, policy }
            }
            // This call did not happen; whether an earlier one did is as unknown as before.
            (CallErrorKind::Retry, _, Some(Open { since, evidence, .. })) => {
                let both = format!("{evidence}; a later call was not done: {message}");
                note(reserved, Outcome::Unknown { since, evidence }, self.unknown(both, code, at_least))
            }
            (CallErrorKind::Unknown, class, open) => {
                let evidence = Failure::new(FailureKind::Error, message).message;
                let since = open.map_or(at, |open| open.since);
                let error = match class {
                    Class::Once => self.unsettled(&format!("({evidence}), and calling again would act again")),
                    // Asking earlier would tell nothing.
                    Class::Reconcilable => {
                        let quiet = until.plus(self.settle_delay).since(self.cx.host.now());
                        self.unknown(evidence.clone(), code, Some(at_least.unwrap_or_default().max(quiet)))
                    }
                    Class::Read | Class::Idempotent(_) => self.unknown(evidence.clone(), code, at_least),
                };
                note(reserved, Outcome::Unknown { since, evidence }, error)
            }
        }
    }

    /// It may have happened; the step is tried again, and finds out.
    fn unknown(&self, evidence: String, code: Option<String>, at_least: Option<Duration>) -> EffectError {
        EffectError::Unknown {
            name: self.name.into(),
            evidence: redact(evidence),
            code,
            at_least,
            policy: self.retry.clone(),
        }
    }

    /// It may have happened, and only a person can find out.
    fn unsettled(&self, how: &str) -> EffectError {
        let what = format!("effect {} (key {}) may have happened {how}", self.name, self.key);
        EffectError::Unsettled(ParkReason::UnknownOutcome { what: redact(what) })
    }

    fn refused(&self, failure: Failure) -> EffectError {
        EffectError::Refused { name: self.name.into(), message: failure.message, code: failure.code }
    }
}

pub(crate) fn misused(name: &str, problem: String) -> EffectError {
    EffectError::Misused { name: name.into(), problem: redact(problem) }
}

/// The future's answer, or `None` when it takes longer than this. Time comes first, and by the clock, since a timer may not have
/// noticed yet: a process that stood still is not to send a request now for which others have stopped waiting. That an answer which came
/// meanwhile is not heard is the price; it is unknown then, and asked for.
pub(crate) async fn within<F: Future>(cx: &Cx, limit: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut timer = cx.host.sleep(limit);
    let end = cx.host.now().plus(limit);
    core::future::poll_fn(|context| {
        if timer.as_mut().poll(context).is_ready() || cx.host.now() >= end {
            return Poll::Ready(None);
        }
        future.as_mut().poll(context).map(Some)
    })
    .await
}
