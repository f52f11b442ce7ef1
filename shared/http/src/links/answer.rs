//! A link that answers an approval.

use axum::Json as Reply;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use stepwell_core::decide::{Approve, ApproveRefused};
use stepwell_core::{ApprovalId, Digest, Reviewer, RunId, Timestamp};
use stepwell_engine::{Client, ClientError};

use super::{gone, over, page, used};
use crate::access::Access;
use crate::problem::Problem;
use crate::request::says_nothing;
use crate::sent::From;
use crate::view::{AnsweredView, ApprovalView, OfRun as _, Value};

/// Bytes of parameters that a page shows. Where they do not fit nobody decides through a link: nobody has read them.
const PARAMETERS_BYTES_MAX: u64 = 256 * 1024;

/// Bytes of a reason.
const WHY_BYTES_MAX: usize = 700;

/// Characters that are kept of who has made a link.
const MAKER_CHARS_KEPT: usize = 64;

/// What a link asks, and whom.
pub(super) struct Asked {
    pub(super) id: ApprovalId,
    pub(super) fingerprint: Digest,
    pub(super) person: String,
    /// Who has made the link.
    pub(super) maker: String,
}

/// What the form sends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    decision: Word,
    #[serde(default)]
    why: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Approve,
    Reject,
}

pub(super) async fn show(
    client: &Client,
    access: &Access,
    run: &RunId,
    asked: &Asked,
    expires: Timestamp,
) -> Result<Response, Problem> {
    let approval = open(client, access, run, asked).await?;
    Ok(page::ask(&approval, &asked.person, expires))
}

pub(super) async fn act(
    client: &Client,
    access: &Access,
    run: &RunId,
    asked: Asked,
    from: From,
    request: Request,
) -> Result<Response, Problem> {
    // Before the body: whoever comes too late need not know how to answer.
    let approval = open(client, access, run, &asked).await?;
    let Answer { decision, why } = from.read(request).await?;
    let why = why.map(|why| why.trim().to_owned()).filter(|why| !says_nothing(why));
    let why = match (decision, why) {
        (Word::Reject, None) => return Err(Problem::fix("misfit", "`why` is missing: the run is told why it may not")),
        (_, Some(why)) if why.len() > WHY_BYTES_MAX => {
            return Err(Problem::fix("misfit", format!("`why` has more than {WHY_BYTES_MAX} bytes: shorten it")));
        }
        (_, Some(why)) => format!("{}: {why}", by_link(&asked.maker)),
        (Word::Approve, None) => by_link(&asked.maker),
    };
    let reviewer = Reviewer { name: asked.person, roles: Vec::new() };
    let act = Approve { approval: asked.id, reviewer, allows: decision == Word::Approve, why: Some(why) };
    let answer = client.approve(run, &act).await.map_err(|error| too_late(error, &act))?;
    if !answer.new {
        return Err(was_used(&act.reviewer.name));
    }
    // It is written: whether the run can be looked at now changes nothing.
    let after = client.get(run).await.ok();
    let answered = AnsweredView::of(run.clone(), act, true, after.as_ref(), access.now());
    Ok(match from {
        From::Program => Reply(answered).into_response(),
        From::Form => page::answered(&approval, &answered),
    })
}

/// What comes before the reason of somebody who came by a link: whoever made it could have used it.
fn by_link(maker: &str) -> String {
    format!("by a link that {} made", maker.chars().take(MAKER_CHARS_KEPT).collect::<String>())
}

/// The approval, if this person can answer it now and knows what they decide on.
async fn open(client: &Client, access: &Access, run: &RunId, asked: &Asked) -> Result<ApprovalView, Problem> {
    let Asked { id, fingerprint, person, maker: _ } = asked;
    let (checkpoint, now) = (client.get(run).await.map_err(gone)?, access.now());
    let kept = checkpoint.progress.approvals.iter().find(|kept| kept.id == *id && kept.fingerprint == *fingerprint);
    let Some(kept) = kept else { return Err(over("what this link was for is no longer asked")) };
    if kept.answers.iter().any(|answer| answer.reviewer.name == *person) {
        return Err(was_used(person));
    }
    let approval = ApprovalView::of(&checkpoint, now).into_iter().find(|view| view.id == *id && view.is_open());
    let Some(mut approval) = approval else {
        return Err(over(format!("no answer is awaited any more: the approval is {}", kept.standing(now).as_str())));
    };
    // Who may decide can change with the time; that links are allowed cannot, but it costs nothing to look.
    let reviewer = Reviewer { name: person.clone(), roles: Vec::new() };
    if !kept.by_link || !kept.names(person) || !kept.may_decide(&reviewer, now) {
        let detail = format!("{person} may not decide this now: it is for {}", kept.deciders(now));
        return Err(Problem::fix("no-authority", detail));
    }
    let mut left = PARAMETERS_BYTES_MAX;
    approval.load_within(client, &mut left).await?;
    match approval.parameters {
        Value::Here(_) if left > 0 => Ok(approval),
        Value::Here(_) | Value::Apart { .. } | Value::Lost { .. } => Err(Problem::fix(
            "no-links",
            "what is asked is too large to be shown here in full, so it is not decided here: ask whoever sent the link",
        )),
    }
}

fn too_late(error: ClientError, act: &Approve) -> Problem {
    match error {
        ClientError::NotTaken { why, .. } => match *why {
            ApproveRefused::Decided { first, .. } if first.reviewer.name == act.reviewer.name => {
                was_used(&first.reviewer.name)
            }
            why @ (ApproveRefused::Ended(_)
            | ApproveRefused::NoSuch(_)
            | ApproveRefused::Replaced { .. }
            | ApproveRefused::Expired { .. }
            | ApproveRefused::Decided { .. }) => over(why.to_string()),
            why @ (ApproveRefused::NoAuthority { .. } | ApproveRefused::Illegal(_)) => {
                Problem::fix("no-authority", why.to_string())
            }
        },
        error => gone(error),
    }
}

fn was_used(person: &str) -> Problem {
    used(format!("this link was used: {person} has answered, and one answer stands"))
}
