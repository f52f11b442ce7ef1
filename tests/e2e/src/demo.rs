//! The demonstration as a user has it: started over HTTP, worked from the queue, approved over HTTP, one mail.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use stepwell_core::{Phase, RunId, WorkflowName};
use stepwell_report::Report;

use crate::stack::Stack;

/// How long a run may take to get where it has to wait.
const SOON: Duration = Duration::from_mins(1);

/// The run of a key, before anybody has started it.
pub(crate) fn run_of(key: &str) -> RunId {
    RunId::for_key(&WorkflowName::new("competitive-brief").expect("a name"), key)
}

/// What to start it with. The addressee tells its mail from others.
pub(crate) fn input(to: &str) -> Value {
    json!({"goal": "choose a vendor", "vendors": ["brindlepost", "ostermill", "quaylight"], "to": to})
}

/// Starts, waits until it is asked, approves, and answers how the run stands in the end.
pub(crate) async fn drive(stack: &Stack, key: &str, to: &str, most: Duration) -> Result<Phase, String> {
    let run = run_of(key);
    let start = json!({"workflow": "competitive-brief", "input": input(to)});
    let (status, body) = stack.ask(Method::POST, "/v1/runs", Some(key), Some(&start)).await;
    if status != 201 && status != 200 {
        return Err(format!("start: {status} {body}"));
    }
    let at = stack.until(&run, most, |phase| phase == Phase::Waiting || is_over(phase)).await;
    let at = at.ok_or_else(|| format!("{run} did not come to its approval in {most:?}"))?;
    if at.progress.status.phase() != Phase::Waiting {
        return Ok(at.progress.status.phase());
    }
    let approval =
        json!({"name": "approval", "payload": {"approved": true, "by": "ada"}, "id": format!("{key}-approval")});
    let (status, body) = stack.ask(Method::POST, &format!("/v1/runs/{run}/signals"), None, Some(&approval)).await;
    if status != 202 {
        return Err(format!("signal: {status} {body}"));
    }
    let at = stack.until(&run, most, is_over).await;
    let at = at.ok_or_else(|| format!("{run} did not end in {most:?} after its approval"))?;
    Ok(at.progress.status.phase())
}

/// Nothing more happens to the run by itself.
pub(crate) fn is_over(phase: Phase) -> bool {
    match phase {
        Phase::Completed | Phase::Failed | Phase::Cancelled | Phase::Parked => true,
        Phase::Created | Phase::Running | Phase::Waiting | Phase::Retrying | Phase::Cancelling => false,
    }
}

/// Mails that this addressee got.
pub(crate) fn mails_to(stack: &Stack, to: &str) -> usize {
    stack.world.mails().iter().filter(|mail| mail.mail.to == to).count()
}

pub(crate) async fn check(stack: &Stack, report: &mut Report, on: &str) {
    let to = "reader@example.com";
    let ended = drive(stack, "demo", to, SOON).await;
    report.check(&format!("{on}: the demonstration ends well: {ended:?}"), ended == Ok(Phase::Completed));
    report.check(&format!("{on}: one mail"), mails_to(stack, to) == 1);

    let (status, shown) = stack.ask(Method::GET, &format!("/v1/runs/{}", run_of("demo")), None, None).await;
    let ok = status == 200 && shown["status"] == "completed" && shown["detail"]["completed"]["output"]["to"] == to;
    report.check(&format!("{on}: the API shows the run and its output: {status} {shown}"), ok);
    let again = json!({"workflow": "competitive-brief", "input": input("another@example.com")});
    let (status, body) = stack.ask(Method::POST, "/v1/runs", Some("demo"), Some(&again)).await;
    report.check(&format!("{on}: its key with another input is refused: {status} {body}"), status == 409);
    let wrong = json!({"workflow": "competitive-brief", "input": {"goal": 1}});
    let (status, body) = stack.ask(Method::POST, "/v1/runs", None, Some(&wrong)).await;
    report.check(&format!("{on}: an input that does not fit is refused: {status} {body}"), status == 422);
    let status = stack.ask_as_stranger("/v1/runs").await;
    report.check(&format!("{on}: a caller without a key is refused: {status}"), status == 401);
    check_strangers(stack, report, on).await;
}

/// What is no message of ours does not hold up those that are.
async fn check_strangers(stack: &Stack, report: &mut Report, on: &str) {
    let bodies = ["no JSON", r#"{"v":9,"run":"a","ticket":1}"#, r#"{"v":1,"run":"nobody-knows-it","ticket":1}"#];
    for body in bodies {
        stack.send_raw(body).await;
    }
    let ended = drive(stack, "beside-strangers", "beside@example.com", SOON).await;
    report.check(&format!("{on}: a run beside strange messages ends well: {ended:?}"), ended == Ok(Phase::Completed));
    let mut left = stack.messages().await;
    for _ in 0..100 {
        if left == (0, bodies.len() as u64) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        left = stack.messages().await;
    }
    let ok = left == (0, bodies.len() as u64);
    report.check(
        &format!("{on}: {} strange messages are dead letters, nothing else is left: {left:?}", bodies.len()),
        ok,
    );
}
