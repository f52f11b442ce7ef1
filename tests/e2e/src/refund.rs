//! The refund as a user has it: started over HTTP, approved over HTTP by a key that has the role, paid once per order whichever run asks,
//! let go again when it cannot be paid.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use stepwell_core::{Phase, RunId, WorkflowName};
use stepwell_report::Report;
use stepwell_samples::outside::shop::ShopBehaviour;

use crate::demo::is_over;
use crate::stack::Stack;

const SOON: Duration = Duration::from_mins(1);

/// The run of a key, before anybody has started it.
pub(crate) fn run_of(key: &str) -> RunId {
    RunId::for_key(&WorkflowName::new("refund").expect("a name"), key)
}

/// Refunds that were paid for this order.
pub(crate) fn paid_for(stack: &Stack, order: &str) -> usize {
    stack.world.refunds().iter().filter(|paid| paid.order == order).count()
}

/// Starts, approves if it is asked, and answers how the run stands in the end.
pub(crate) async fn drive(stack: &Stack, key: &str, order: &str, most: Duration) -> Result<Phase, String> {
    let run = start(stack, key, order).await?;
    let at = stack.until(&run, most, |phase| phase == Phase::Waiting || is_over(phase)).await;
    let at = at.ok_or_else(|| format!("{run} did not come to its approval in {most:?}"))?;
    if at.progress.status.phase() == Phase::Waiting {
        let (status, body) = answer(stack, &run, "approve").await?;
        if status != 200 {
            return Err(format!("approve: {status} {body}"));
        }
    }
    let at = stack.until(&run, most, is_over).await;
    let at = at.ok_or_else(|| format!("{run} did not end in {most:?} after its approval"))?;
    Ok(at.progress.status.phase())
}

async fn start(stack: &Stack, key: &str, order: &str) -> Result<RunId, String> {
    let start = json!({"workflow": "refund", "input": {"order": order, "reason": "arrived broken"}});
    let (status, body) = stack.ask(Method::POST, "/v1/runs", Some(key), Some(&start)).await;
    if status == 201 || status == 200 { Ok(run_of(key)) } else { Err(format!("start: {status} {body}")) }
}

/// Answers the approval that the run waits for.
async fn answer(stack: &Stack, run: &RunId, decision: &str) -> Result<(u16, Value), String> {
    let (status, body) = stack.ask(Method::GET, &format!("/v1/runs/{run}/approvals"), None, None).await;
    let id = body["approvals"][0]["id"].as_str().ok_or_else(|| format!("approvals: {status} {body}"))?.to_owned();
    let said = json!({"decision": decision, "why": "seen in the returns department"});
    Ok(stack.ask(Method::POST, &format!("/v1/runs/{run}/approvals/{id}"), None, Some(&said)).await)
}

pub(crate) async fn check(stack: &Stack, report: &mut Report, on: &str) {
    let order = "lamp-4500";
    let ended = drive(stack, "refund-small", order, SOON).await;
    report.check(&format!("{on}: a small refund needs nobody: {ended:?}"), ended == Ok(Phase::Completed));
    let ended = drive(stack, "refund-again", order, SOON).await;
    let paid = paid_for(stack, order);
    report.check(
        &format!("{on}: another run for the same order gets the same refund, paid {paid} times: {ended:?}"),
        ended == Ok(Phase::Completed) && paid == 1,
    );

    let ended = drive(stack, "refund-large", "sofa-90000", SOON).await;
    let paid = paid_for(stack, "sofa-90000");
    report.check(
        &format!("{on}: a large one is paid {paid} times once it is approved: {ended:?}"),
        ended == Ok(Phase::Completed) && paid == 1,
    );
    let (_, shown) = stack.ask(Method::GET, &format!("/v1/runs/{}", run_of("refund-large")), None, None).await;
    let (status, body) = answer(stack, &run_of("refund-large"), "reject").await.unwrap_or_default();
    report.check(&format!("{on}: an answer to a run that has ended is refused: {status} {body}"), status == 409);
    let told = shown.to_string();
    let ok = told.contains("key:e2e") && told.contains("seen in the returns department");
    report.check(&format!("{on}: the API shows who allowed it and why: {shown}"), ok);

    check_rejected(stack, report, on).await;
    check_refused(stack, report, on).await;
}

async fn check_rejected(stack: &Stack, report: &mut Report, on: &str) {
    let ended = match start(stack, "refund-rejected", "chair-20000").await {
        Ok(run) => {
            stack.until(&run, SOON, |phase| phase == Phase::Waiting).await;
            let said = answer(stack, &run, "reject").await;
            let again = answer(stack, &run, "approve").await;
            let refused = again.as_ref().is_ok_and(|(status, _)| *status == 409);
            report.check(&format!("{on}: what was rejected cannot be approved: {said:?}, then {again:?}"), refused);
            stack.until(&run, SOON, is_over).await.map(|at| at.progress.status.phase())
        }
        Err(why) => {
            report.check(&format!("{on}: {why}"), false);
            None
        }
    };
    let paid = paid_for(stack, "chair-20000");
    report.check(
        &format!("{on}: a rejected refund is paid {paid} times: {ended:?}"),
        ended == Some(Phase::Failed) && paid == 0,
    );
}

async fn check_refused(stack: &Stack, report: &mut Report, on: &str) {
    let order = "vase-3000";
    stack.world.set_shop(ShopBehaviour::Refuse);
    let ended = drive(stack, "refund-refused", order, SOON).await;
    stack.world.set_shop(ShopBehaviour::Normal);
    let (counts, held) = (stack.world.counts().shop, stack.world.is_held(order));
    report.check(
        &format!("{on}: when the shop refuses to pay, the order is let go again: {ended:?}, {counts:?}"),
        ended == Ok(Phase::Failed) && !held && counts.releases > 0,
    );
    let ended = drive(stack, "refund-refused-again", order, SOON).await;
    let paid = paid_for(stack, order);
    report.check(
        &format!("{on}: another run may try it then, and it is paid {paid} times: {ended:?}"),
        ended == Ok(Phase::Completed) && paid == 1,
    );
}
