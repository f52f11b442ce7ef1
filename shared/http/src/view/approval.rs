//! Approvals: what is asked for, of whom, who has answered, and how that stands.

use serde::Serialize;
use stepwell_core::decide::{Approve, ApproveRefused};
use stepwell_core::{
    Answer, Approval, ApprovalId, Authority, Checkpoint, Digest, Payload, Phase, Reviewer, RunId, Standing, Status,
    Timestamp,
};
use stepwell_engine::{Client, ClientError};
use utoipa::ToSchema;

use super::{At, OfRun, Reach, Value};
use crate::schema;

/// One approval.
#[derive(Debug, Serialize, ToSchema)]
#[allow(clippy::struct_excessive_bools, reason = "each answers a question of its own, and is a field of the JSON")]
pub struct ApprovalView {
    /// The run that asks for it.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The step at which the run stands.
    pub step: String,
    /// By which it is answered. It is bound to the parameters.
    #[schema(value_type = schema::ApprovalId)]
    pub id: ApprovalId,
    /// What is to be done.
    pub action: String,
    /// With which parameters.
    pub parameters: Value,
    /// Their fingerprint.
    #[schema(value_type = schema::Fingerprint)]
    pub fingerprint: Digest,
    /// The version of the workflow that asks.
    pub version: u32,
    /// How it stands.
    pub status: &'static str,
    /// Whether the run waits for it now.
    pub awaited: bool,
    /// Whether the workflow allows that it is answered through a signed link.
    pub by_link: bool,
    /// Who may decide: any of these.
    pub by: Vec<AuthorityView>,
    /// Who may decide later, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = EscalationView)]
    pub escalation: Option<EscalationView>,
    /// How many have to allow it.
    pub quorum: u32,
    /// How many have.
    pub allowed: u64,
    /// The answers, oldest first.
    pub answers: Vec<AnswerView>,
    /// When it was asked for.
    pub asked_at: At,
    /// From when on no answer is taken.
    pub expires_at: At,
    /// For how long it may be used once it is given, in milliseconds.
    pub usable_ms: u64,
    /// Until when it may be used, once it is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = At)]
    pub usable_until: Option<At>,
    /// The one that was asked for in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::ApprovalId)]
    pub replaced_by: Option<ApprovalId>,
    /// What it was used for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = UsedView)]
    pub used: Option<UsedView>,
    /// Whether the run has ended, so that nothing comes of it any more unless it was used.
    #[serde(skip)]
    pub ended: bool,
    /// Whether the run is about to end, so that no answer is taken any more: it is cancelled, or takes back what it has done.
    #[serde(skip)]
    pub ending: bool,
    #[serde(skip)]
    record: Box<Approval>,
}

/// Why no link is made by which somebody answers an approval: it would do nothing.
#[derive(Clone, Copy, Debug)]
pub enum NoLink<'a> {
    /// The run has no such approval.
    NoSuch,
    /// Its workflow does not allow it.
    NotAllowed,
    /// It names nobody of this name.
    NotNamed(&'a Approval),
    /// No answer is awaited.
    NotOpen(&'a Approval),
}

/// The approval of a run, if a link by which this person answers it would do something.
///
/// # Errors
/// See [`NoLink`].
pub fn to_be_linked<'a>(
    run: &'a Checkpoint,
    id: &ApprovalId,
    person: &str,
    now: Timestamp,
) -> Result<&'a Approval, NoLink<'a>> {
    let approval = run.progress.approvals.iter().find(|approval| approval.id == *id).ok_or(NoLink::NoSuch)?;
    if !approval.by_link {
        return Err(NoLink::NotAllowed);
    }
    if !approval.names(person) {
        return Err(NoLink::NotNamed(approval));
    }
    let is_over = run.progress.status.phase().is_ended() || run.is_ending();
    if is_over || approval.standing(now) != Standing::Open { Err(NoLink::NotOpen(approval)) } else { Ok(approval) }
}

/// Who may decide.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AuthorityView {
    /// This person.
    Person(String),
    /// Everybody who has this role.
    Role(String),
}

/// From a time on, others may decide too.
#[derive(Debug, Serialize, ToSchema)]
pub struct EscalationView {
    /// From this time on.
    pub at: At,
    /// These.
    pub to: Vec<AuthorityView>,
}

/// One answer.
#[derive(Debug, Serialize, ToSchema)]
pub struct AnswerView {
    /// Whose.
    pub by: String,
    /// The roles that they had.
    pub roles: Vec<String>,
    /// What they said.
    pub answer: &'static str,
    /// Why.
    #[schema(required = true)]
    pub why: Option<String>,
    /// When.
    pub at: At,
}

/// What an approval was used for.
#[derive(Debug, Serialize, ToSchema)]
pub struct UsedView {
    /// The effect.
    pub key: String,
    /// When its intent was written.
    pub at: At,
}

/// What became of an answer.
#[derive(Debug, Serialize, ToSchema)]
pub struct AnsweredView {
    /// Of which run.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// Which approval was answered.
    #[schema(value_type = schema::ApprovalId)]
    pub approval: ApprovalId,
    /// Whether the same person had not said the same before.
    pub new: bool,
    /// What was said.
    pub answer: &'static str,
    /// By whom.
    pub by: String,
    /// With which roles.
    pub roles: Vec<String>,
    /// Why.
    #[schema(required = true)]
    pub why: Option<String>,
    /// How the approval stands now. Left out when that could not be read: the answer stands all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = StandsView)]
    pub stands: Option<StandsView>,
}

/// How an approval stands, in short.
#[derive(Debug, Serialize, ToSchema)]
pub struct StandsView {
    /// How.
    pub status: &'static str,
    /// How many have to allow it.
    pub quorum: u32,
    /// How many have.
    pub allowed: u64,
}

impl OfRun for ApprovalView {
    /// Those first that wait.
    const STATUSES: [Phase; 4] = [Phase::Waiting, Phase::Parked, Phase::Retrying, Phase::Running];

    /// All that the run keeps, oldest first. Parameters that lie in a blob are not read.
    fn of(run: &Checkpoint, now: Timestamp) -> Vec<Self> {
        run.progress.approvals.iter().map(|approval| Self::read(run, approval, now)).collect()
    }
}

impl ApprovalView {
    fn read(run: &Checkpoint, approval: &Approval, now: Timestamp) -> Self {
        let Approval { id, action, parameters, fingerprint, version, by, quorum, escalation, answers, .. } = approval;
        let standing = approval.standing(now);
        let awaits = |status: &Status| matches!(status, Status::Waiting(wait) if wait.approval.as_ref() == Some(id));
        let usable_until = match &standing {
            Standing::Approved { until, .. } => Some(At(*until)),
            Standing::Open
            | Standing::Rejected(_)
            | Standing::Expired { .. }
            | Standing::Replaced(_)
            | Standing::Used(_) => None,
        };
        Self {
            run: run.run.clone(),
            step: run.progress.place.step(),
            id: id.clone(),
            action: action.clone(),
            parameters: Value::of(parameters),
            fingerprint: *fingerprint,
            version: *version,
            status: standing.as_str(),
            awaited: awaits(&run.progress.status),
            by_link: approval.by_link,
            by: by.iter().map(AuthorityView::from).collect(),
            escalation: escalation.as_ref().map(|escalation| EscalationView {
                at: At(escalation.at),
                to: escalation.to.iter().map(AuthorityView::from).collect(),
            }),
            quorum: *quorum,
            allowed: allowed(approval),
            answers: answers.iter().map(AnswerView::from).collect(),
            asked_at: At(approval.asked_at),
            expires_at: At(approval.expires_at),
            usable_ms: approval.usable_ms,
            usable_until,
            replaced_by: approval.replaced_by.clone(),
            used: approval.used.as_ref().map(|used| UsedView { key: used.by.to_string(), at: At(used.at) }),
            ended: run.progress.status.phase().is_ended(),
            ending: run.is_ending(),
            record: Box::new(approval.clone()),
        }
    }

    /// Whether answers are awaited.
    pub fn is_open(&self) -> bool {
        self.status == Standing::Open.as_str() && !self.ended && !self.ending
    }

    /// Whether this person may decide at this time.
    pub fn may_decide(&self, reviewer: &Reviewer, at: Timestamp) -> bool {
        self.record.may_decide(reviewer, at)
    }

    /// Who may decide at this time, in words.
    pub fn deciders(&self, at: Timestamp) -> String {
        self.record.deciders(at)
    }

    /// Reads its parameters from their blob if they have one, whatever their size. What cannot be read says why, with where it lies.
    pub async fn load(&mut self, client: &Client) {
        self.parameters = Value::load(client, &self.record.parameters).await;
    }

    /// The same while they fit into what is left of an answer, in bytes, and in words for whoever is not to know where values lie.
    ///
    /// # Errors
    /// When they cannot be read now: the whole is worth another attempt.
    pub async fn load_within(&mut self, client: &Client, left: &mut u64) -> Result<(), ClientError> {
        match &self.record.parameters {
            Payload::Inline(json) => *left = left.saturating_sub(json.text().len() as u64),
            Payload::Blob(blob) if blob.size <= *left => {
                *left -= blob.size;
                self.parameters = Reach::Answer.output(client, &self.record.parameters).await?;
            }
            Payload::Blob(_) => {}
        }
        Ok(())
    }
}

/// How many people have allowed it who may decide.
fn allowed(approval: &Approval) -> u64 {
    let counts = |answer: &&Answer| answer.allows && approval.may_decide(&answer.reviewer, answer.at);
    approval.answers.iter().filter(counts).count() as u64
}

impl AnsweredView {
    /// What became of an answer, and how the approval stands now if that can be read.
    pub fn of(run: RunId, act: Approve, new: bool, after: Option<&Checkpoint>, now: Timestamp) -> Self {
        let Approve { approval, reviewer, allows, why } = act;
        let stands = after.and_then(|after| StandsView::of(after, &approval, now));
        let AnswerView { by, roles, answer, why, at: _ } = AnswerView::from(&Answer { reviewer, allows, why, at: now });
        Self { run, approval, new, answer, by, roles, why, stands }
    }
}

impl StandsView {
    /// How this approval of a run stands. `None`: the run keeps it no longer.
    pub fn of(run: &Checkpoint, id: &ApprovalId, now: Timestamp) -> Option<Self> {
        let approval = run.progress.approvals.iter().find(|approval| approval.id == *id)?;
        Some(Self { status: approval.standing(now).as_str(), quorum: approval.quorum, allowed: allowed(approval) })
    }
}

impl AnswerView {
    /// The answer that stands, where one came too late.
    pub fn that_stands(error: &ClientError) -> Option<Self> {
        match error {
            ClientError::NotTaken { why, .. } => match &**why {
                ApproveRefused::Decided { first, .. } => Some(first.into()),
                ApproveRefused::Ended(_)
                | ApproveRefused::NoSuch(_)
                | ApproveRefused::Replaced { .. }
                | ApproveRefused::Expired { .. }
                | ApproveRefused::NoAuthority { .. }
                | ApproveRefused::Illegal(_) => None,
            },
            ClientError::UnknownWorkflow { .. }
            | ClientError::Misfit(_)
            | ClientError::Name(_)
            | ClientError::Value(_)
            | ClientError::NoSuchRun(_)
            | ClientError::KeyConflict { .. }
            | ClientError::Ended { .. }
            | ClientError::SignalConflict { .. }
            | ClientError::MailboxFull(_)
            | ClientError::NotParked { .. }
            | ClientError::NotOpen { .. }
            | ClientError::OnItsWay { .. }
            | ClientError::NotUndoing { .. }
            | ClientError::NotRepaired { .. }
            | ClientError::BadPatch(_)
            | ClientError::BadStep(_)
            | ClientError::NotKept { .. }
            | ClientError::MovedOn(_)
            | ClientError::Store(_)
            | ClientError::Blob(_)
            | ClientError::NotSent { .. }
            | ClientError::Queue(_)
            | ClientError::Illegal(_) => None,
        }
    }
}

impl From<&Answer> for AnswerView {
    fn from(answer: &Answer) -> Self {
        let Answer { reviewer: Reviewer { name, roles }, allows: _, why, at } = answer;
        let (by, roles, why) = (name.clone(), roles.clone(), why.clone());
        Self { by, roles, answer: answer.as_str(), why, at: At(*at) }
    }
}

impl From<&Authority> for AuthorityView {
    fn from(authority: &Authority) -> Self {
        match authority {
            Authority::Person(name) => Self::Person(name.clone()),
            Authority::Role(role) => Self::Role(role.clone()),
        }
    }
}
