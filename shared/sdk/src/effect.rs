//! Effects: calls to the outside world, made under a key, recorded, with an honest outcome.

use core::fmt;
use core::future::Future;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use stepwell_core::limits::JOURNAL_RECORDS_MAX;
use stepwell_core::time::millis;
use stepwell_core::{
    Class, Digest, EffectKey, EffectRecord, Failure, FailureKind, Json, Outcome, ParkReason, Payload, RetryPolicy,
    Scope, Timestamp,
};

use crate::error::CallErrorKind;
use crate::host::HostError;
use crate::{CallError, Cx, EffectError, FingerprintError, fingerprint};

/// How long a call may take unless [`Effect::deadline`] says otherwise.
const DEADLINE_DEFAULT: Duration = Duration::from_secs(20);

/// An effect in the making. Its class is part of its type: there is no call before it was said.
#[must_use = "an effect is only made by `call`"]
pub struct Effect<'c, C> {
    cx: &'c Cx,
    name: &'static str,
    key: Option<String>,
    parameters: Option<Result<Digest, FingerprintError>>,
    deadline: Duration,
    retry: Option<Box<RetryPolicy>>,
    class: C,
}

/// The class was not said yet.
#[derive(Clone, Copy, Debug)]
pub struct Unclassified;

/// An effect whose class was said.
#[diagnostic::on_unimplemented(
    message = "this effect has no class yet",
    label = "say first what happens if the outside is asked twice",
    note = "`.read()`: asking again changes nothing; `.idempotent()`: the outside dedupes by the key; `.idempotent_for(window)`: it does so for this long"
)]
pub trait Classified {
    /// The class.
    fn class(&self) -> Class;
}

impl Classified for Class {
    fn class(&self) -> Class {
        *self
    }
}

/// What a call is told.
#[derive(Clone, Copy)]
pub struct Call<'c> {
    key: &'c str,
    attempt: u32,
    deadline: Duration,
}

impl<'c> Call<'c> {
    /// The idempotency key: the same in every attempt, after every crash. Hand it to the outside.
    pub const fn key(&self) -> &'c str {
        self.key
    }

    /// Which call under this key this is, from 1, as far as is recorded.
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How long the call may take. It is dropped after that.
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({}, attempt {})", self.key, self.attempt)
    }
}

impl<'c> Effect<'c, Unclassified> {
    pub(crate) fn new(cx: &'c Cx, name: &'static str) -> Self {
        let (key, parameters, retry) = (None, None, None);
        Self { cx, name, key, parameters, deadline: DEADLINE_DEFAULT, retry, class: Unclassified }
    }

    /// Asking again changes nothing outside.
    pub fn read(self) -> Effect<'c, Class> {
        self.with_class(Class::Read)
    }

    /// The outside dedupes by the key, for ever.
    pub fn idempotent(self) -> Effect<'c, Class> {
        self.with_class(Class::Idempotent(None))
    }

    /// The outside dedupes by the key for this long. A call that may have happened longer ago is not repeated: the run is
    /// parked with the question.
    pub fn idempotent_for(self, window: Duration) -> Effect<'c, Class> {
        self.with_class(Class::Idempotent(Some(millis(window))))
    }

    fn with_class(self, class: Class) -> Effect<'c, Class> {
        let Self { cx, name, key, parameters, deadline, retry, class: Unclassified } = self;
        Effect { cx, name, key, parameters, deadline, retry, class }
    }
}

impl<C> Effect<'_, C> {
    /// Makes it an effect of the run, by this key: coming back to it, in this step or another, returns the recorded result.
    /// Without a key it belongs to this visit of the step.
    pub fn key(mut self, key: impl fmt::Display) -> Self {
        self.key = Some(key.to_string());
        self
    }

    /// Ties the effect to its parameters: the same key with others is an error, not a second call.
    pub fn with<T: Serialize + ?Sized>(mut self, parameters: &T) -> Self {
        self.parameters = Some(fingerprint(parameters));
        self
    }

    /// How long one call may take; after that its outcome is unknown. Default: 20 seconds.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How the step is retried when this effect is why it failed. Default: the step's own policy.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(Box::new(policy));
        self
    }
}

impl<'c, C> Effect<'c, C> {
    /// Makes the call, unless its result is recorded already.
    ///
    /// The closure is called at most once; its future borrows freely from the workflow and the state. What its error says
    /// about the outside is a [`CallError`]; any other error counts as "may have happened".
    ///
    /// # Errors
    /// See [`EffectError`]. Return it with `?`, or handle it.
    pub async fn call<T, E, F, Fut>(self, make: F) -> Result<T, EffectError>
    where
        // Here and not on the `impl`: only so does the compiler say what is missing.
        C: Classified,
        T: Serialize + DeserializeOwned + Send,
        E: Into<CallError>,
        F: FnOnce(Call<'c>) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        let Self { cx, name, key, parameters, deadline, retry, class } = self;
        let class = class.class();
        let visiting = &cx.visiting;
        let scope = key.as_deref().map_or(Scope::Visit(visiting.visit), Scope::Run);
        let derived = cx.keys.keep(&EffectKey::derive(&visiting.run, &visiting.workflow, name, scope));
        let parameters =
            parameters.transpose().map_err(|problem| misused(name, format!("its parameters: {problem}")))?;
        let effect = Known { cx, name, class, key: derived, of_run: key.is_some(), parameters, retry };

        // Before the first await: what is looked up must not be overtaken by a call beside this one.
        let _in_flight = effect.take_off()?;
        let before = effect.recorded().await?;
        if let Some(record) = &before
            && let Some(result) = effect.answer(record).await
        {
            return result;
        }
        let open = effect.left_open(before.as_ref());
        let since = open.as_ref().map(|open| open.since);
        effect.may_dispatch(since)?;
        let until = cx.host.now().plus(deadline);
        cx.host.hold_until(until).await?;
        if cx.host.is_cancelled() {
            return Err(EffectError::Cancelled { name: name.into() });
        }
        // The lease lasts until then, maybe no longer: what a slow store took of the time is the call's loss.
        let deadline = until.since(cx.host.now());
        if deadline.is_zero() {
            return Err(HostError::Passing(format!("effect {name}: the lease was extended too late to call")).into());
        }

        let attempt = before.as_ref().map_or(0, |record| record.attempts) + 1;
        let now = cx.host.now();
        // Written down as unknown before it starts: if the step is dropped meanwhile, that is the truth.
        effect.note(
            attempt,
            Outcome::Unknown { since: since.unwrap_or(now), evidence: "the call was in flight".into() },
        )?;
        cx.record().used.effects_made += 1;
        let call = Call { key: derived.as_str(), attempt, deadline };
        match within(cx, deadline, make(call)).await {
            Some(Ok(result)) => effect.succeeded(attempt, result),
            Some(Err(error)) => Err(effect.failed(attempt, open, now, error.into())),
            None => {
                let evidence = format!("no answer within {deadline:?}");
                Err(effect.failed(attempt, open, now, CallError::unknown(evidence)))
            }
        }
    }
}

/// A call of an earlier attempt that may have happened.
struct Open {
    since: Timestamp,
    evidence: String,
}

/// A call that is being made, until it has ended or was dropped.
struct InFlight<'a> {
    cx: &'a Cx,
    key: &'a EffectKey,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.cx.record().in_flight.retain(|key| key != self.key);
    }
}

/// An effect with everything but its call.
struct Known<'c> {
    cx: &'c Cx,
    name: &'static str,
    class: Class,
    key: &'c EffectKey,
    of_run: bool,
    parameters: Option<Digest>,
    retry: Option<Box<RetryPolicy>>,
}

impl Known<'_> {
    /// What is recorded under this key: in this visit, in the run's ledger, or beside the checkpoint.
    async fn recorded(&self) -> Result<Option<EffectRecord>, EffectError> {
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
    async fn answer<T: DeserializeOwned>(&self, record: &EffectRecord) -> Option<Result<T, EffectError>> {
        let answer = match &record.outcome {
            Outcome::Unknown { .. } => return None,
            Outcome::Failed(failure) => Err(self.refused(failure.clone())),
            Outcome::Succeeded(payload) => self.read(payload).await,
        };
        self.cx.record().used.effects_skipped += 1;
        Some(answer)
    }

    async fn read<T: DeserializeOwned>(&self, payload: &Payload) -> Result<T, EffectError> {
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
    fn take_off(&self) -> Result<InFlight<'_>, EffectError> {
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
    fn left_open(&self, before: Option<&EffectRecord>) -> Option<Open> {
        match before.map(|record| &record.outcome) {
            Some(Outcome::Unknown { since, evidence }) => Some(Open { since: *since, evidence: evidence.clone() }),
            Some(Outcome::Succeeded(_) | Outcome::Failed(_)) => None,
            None => self
                .cx
                .visiting
                .earlier_try
                .map(|since| Open { since, evidence: "an attempt whose worker was lost may have called".into() }),
        }
    }

    fn may_dispatch(&self, since: Option<Timestamp>) -> Result<(), EffectError> {
        let now = self.cx.host.now();
        match since.filter(|since| !self.class.may_repeat(*since, now)) {
            Some(since) => Err(EffectError::Unsettled(ParkReason::UnknownOutcome {
                what: format!(
                    "effect {} (key {}) may have happened {} s ago, and the outside no longer dedupes its key",
                    self.name,
                    self.key,
                    now.since(since).as_secs()
                ),
            })),
            None => Ok(()),
        }
    }

    /// Writes down what is known of this effect now.
    fn note(&self, attempts: u32, outcome: Outcome) -> Result<(), EffectError> {
        let mut record = self.cx.record();
        let journal = &mut record.journal;
        let entry = EffectRecord {
            key: self.key.clone(),
            name: self.name.into(),
            class: self.class,
            parameters: self.parameters,
            attempts,
            outcome,
            of_run: self.of_run,
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

    fn succeeded<T: Serialize>(&self, attempt: u32, result: T) -> Result<T, EffectError> {
        match Json::of(&result) {
            Ok(json) => {
                self.hand_out()?;
                self.note(attempt, Outcome::Succeeded(Payload::Inline(json)))?;
                Ok(result)
            }
            // It happened, but what it answered cannot be recorded: the record says unknown, the author has to mend it.
            Err(error) => Err(misused(self.name, format!("its result cannot be written as JSON: {error}"))),
        }
    }

    fn failed(&self, attempt: u32, open: Option<Open>, now: Timestamp, error: CallError) -> EffectError {
        let CallError { kind, message, code, at_least } = error;
        let (name, policy) = (self.name.to_string(), self.retry.clone());
        // A read that may have happened has changed nothing: it leaves nothing open.
        let open = open.filter(|_| self.class != Class::Read);
        match (kind, self.class, open) {
            (CallErrorKind::Refused, _, None) => {
                let failure = Failure { code, ..Failure::new(FailureKind::Refused, message) };
                let noted = self.note(attempt, Outcome::Failed(failure.clone()));
                noted.map_or_else(|problem| problem, |()| self.refused(failure))
            }
            // This call did not happen. An earlier one may have, and no further call will tell.
            (CallErrorKind::Refused, _, Some(Open { since, evidence })) => {
                let what = format!(
                    "effect {name} (key {}) may have happened ({evidence}), and a later call under its key was refused: {message}",
                    self.key
                );
                let noted = self.note(attempt, Outcome::Unknown { since, evidence });
                noted.map_or_else(|problem| problem, |()| EffectError::Unsettled(ParkReason::UnknownOutcome { what }))
            }
            (CallErrorKind::Retry, _, None) | (CallErrorKind::Unknown, Class::Read, _) => {
                self.cx.record().journal.retain(|record| record.key != *self.key);
                EffectError::NotDone { name, message, code, at_least, policy }
            }
            // This call did not happen; whether an earlier one did is as unknown as before.
            (CallErrorKind::Retry, _, Some(Open { since, evidence })) => {
                let both = format!("{evidence}; a later call was not done: {message}");
                let noted = self.note(attempt, Outcome::Unknown { since, evidence });
                let error = EffectError::Unknown { name, evidence: both, code, at_least, policy };
                noted.map_or_else(|problem| problem, |()| error)
            }
            (CallErrorKind::Unknown, Class::Idempotent(_), open) => {
                let evidence = Failure::new(FailureKind::Error, message).message;
                let since = open.map_or(now, |open| open.since);
                let noted = self.note(attempt, Outcome::Unknown { since, evidence: evidence.clone() });
                let error = EffectError::Unknown { name, evidence, code, at_least, policy };
                noted.map_or_else(|problem| problem, |()| error)
            }
        }
    }

    fn refused(&self, failure: Failure) -> EffectError {
        EffectError::Refused { name: self.name.into(), message: failure.message, code: failure.code }
    }
}

fn misused(name: &str, problem: String) -> EffectError {
    EffectError::Misused { name: name.into(), problem }
}

/// The future's answer, or `None` when it takes longer than this.
async fn within<F: Future>(cx: &Cx, limit: Duration, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut timer = cx.host.sleep(limit);
    core::future::poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        timer.as_mut().poll(context).map(|()| None)
    })
    .await
}
