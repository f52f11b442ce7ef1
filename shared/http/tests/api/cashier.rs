//! A workflow that asks for leave, spends under it, and takes back what it has done.

use axum::http::StatusCode;
use serde_json::{Value, json};
use stepwell::prelude::*;
use stepwell_core::Digest;
use stepwell_http::Access;

use crate::bed::{Bed, KEY};

/// Has no role.
pub(crate) const EVE: &str = "eve";
/// Both have the role `finance`; the second is `cfo`, too.
pub(crate) const FAY: &str = "fay";
pub(crate) const GUS: &str = "gus";

/// Somebody without a key, who may answer by a link where the note begins with these words.
pub(crate) const MAIL: &str = "bea@example.org";
pub(crate) const BY_LINK: &str = "by link";

/// Other words for the note: what is asked for is another refund then.
const CHANGE: Signal<String> = Signal::new("change");

/// Reserves, asks, and refunds.
pub(crate) struct Cashier;

/// What the approval is of.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Refund {
    order: u32,
    cents: u64,
    note: String,
    quorum: u32,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Give {
    Reserve,
    Ask,
    Pay,
    Unreserve { order: u32 },
}

impl Workflow for Cashier {
    const NAME: &'static str = "cashier";
    type Input = Refund;
    type State = Refund;
    type Step = Give;
    type Output = String;

    fn begin(&self, refund: Refund) -> (Give, Refund) {
        (Give::Reserve, refund)
    }

    fn budget() -> Budget {
        Budget::none().of_run("cents", 100_000).of_step("tokens", 50).attempts(90).or_fail()
    }

    fn signals() -> Signals {
        Signals::none().and(CHANGE)
    }

    async fn step(&self, at: Give, refund: &mut Refund, cx: &Cx) -> StepResult<Self> {
        Ok(match at {
            Give::Reserve => {
                let reserve = cx.effect("reserve").key(refund.order).idempotent();
                let reserve = reserve.costs("cents", refund.cents).undo(&Give::Unreserve { order: refund.order });
                reserve.call(async |_| Ok::<_, CallError>("reserved".to_owned())).await?;
                goto(Give::Ask)
            }
            Give::Ask => {
                let asked =
                    Approval::of("refund", refund).by(role("finance")).or(person("key:ann")).quorum(refund.quorum);
                let asked = if refund.note.starts_with(BY_LINK) { asked.or(person(MAIL)).by_link() } else { asked };
                wait(Give::Pay)
                    .for_signal(CHANGE)
                    .or_approval(asked.escalate_after(days(1), role("cfo")).within(days(3)))
            }
            Give::Pay => match cx.approval("refund")? {
                Decision::Open => {
                    refund.note = cx.take(CHANGE).await?.unwrap_or_default();
                    goto(Give::Ask)
                }
                Decision::Approved { .. } => {
                    let pay = cx.effect("refund").key(refund.order).once().approved_by("refund", refund);
                    complete(pay.call(async |call| Ok::<_, CallError>(format!("paid {}", call.key()))).await?)
                }
                Decision::Rejected { by, reason } => {
                    return Err(StepError::terminal(format!("{by} says no: {reason}")));
                }
                Decision::Expired => return Err(StepError::terminal("nobody has decided")),
            },
            Give::Unreserve { order } if refund.note == "stuck" => {
                return Err(StepError::terminal(format!("the shop has closed, with order {order}")));
            }
            Give::Unreserve { .. } => undone(),
        })
    }
}

/// Whose keys open the API.
pub(crate) fn access() -> Access {
    let of = |key: &str| Digest::of(key.as_bytes());
    let keys = format!("ann:admin={},{EVE}:approver={},{FAY}:approver+finance={}", of(KEY), of(EVE), of(FAY));
    Access::from_text(&format!("{keys},{GUS}:approver+finance+cfo={}", of(GUS))).unwrap()
}

pub(crate) fn refund(note: &str, quorum: u32) -> Value {
    json!({"order": 7, "cents": 90_000, "note": note, "quorum": quorum})
}

/// A run that waits for so many, and the path to it and to its approval.
pub(crate) async fn asking(bed: &Bed, note: &str, quorum: u32) -> (String, String) {
    let started = bed.post_json("/v1/runs", &json!({"workflow": "cashier", "input": refund(note, quorum)})).await;
    assert_eq!(started.status, StatusCode::CREATED, "{started:?}");
    bed.settle().await;
    let path = format!("/v1/runs/{}", started.body["run"].as_str().unwrap());
    let approvals = bed.get(&format!("{path}/approvals")).await.body;
    let id = approvals["approvals"][0]["id"].as_str().unwrap();
    (path.clone(), format!("{path}/approvals/{id}"))
}
