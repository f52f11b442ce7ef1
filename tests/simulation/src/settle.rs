//! The end of a world: what is left is gathered, and looked at.

use std::time::Duration;

use stepwell_core::time::millis;
use stepwell_core::write::Write;
use stepwell_core::{Revision, Status};
use stepwell_engine::{AuditQuery, Client, Found};
use stepwell_ports::CheckpointStore;
use stepwell_testkit::broken::SECRET;
use stepwell_testkit::faults::Gate;

use crate::check::{self, Evidence, Final};
use crate::tape::{Recorded, Seen};
use crate::world::World;
use crate::{Played, Wrong};

/// A sweep reminds once in a quarter of an hour, and sweeps are a minute apart.
const GRACE: Duration = Duration::from_mins(18);

/// Looks at all that is left.
pub(crate) async fn played(world: &World) -> Played {
    let client = world.client(&"auditor".into(), &Gate::open());
    let took = world.tape.elapsed();
    let (finals, mut wrong) = finals(world, &client).await;
    wrong.extend(audited(&client).await);
    let mut recorded = world.tape.take();
    leaks(world, &finals, &mut recorded).await;
    count(world, &finals, &mut recorded);
    let slowest = finals.iter().filter_map(|end| lasted(end, &recorded)).max().unwrap_or_default();
    let temper = (*world.temper).clone();
    let messages_left = world.queue.len();
    let mut evidence = Evidence { temper, recorded, finals, ended_at: world.tape.now(), messages_left };
    wrong.extend(check::all(&evidence));
    let (counts, events) = (evidence.recorded.counts, std::mem::take(&mut evidence.recorded.events));
    let most_messages = evidence.recorded.most_messages.0;
    Played { wrong, counts, took, slowest, most_messages, events }
}

async fn finals(world: &World, client: &Client) -> (Vec<Final>, Vec<Wrong>) {
    let (mut finals, mut wrong) = (Vec::new(), Vec::new());
    for customer in world.customers.clone() {
        let missing = |what: String| Wrong { invariant: None, what };
        let Some(checkpoint) = world.checkpoint(&customer.run).await else {
            wrong.push(missing(format!("{}: there is no run", customer.run)));
            continue;
        };
        let history = client.history(&customer.run, Revision(0)).await.unwrap_or_else(|error| {
            wrong.push(missing(format!("{}: its history cannot be read: {error}", customer.run)));
            Vec::new()
        });
        let output = match &checkpoint.progress.status {
            Status::Completed { output, .. } => client.value(output).await.ok().map(|json| json.text().to_owned()),
            Status::Created
            | Status::Running
            | Status::Waiting(_)
            | Status::Retrying { .. }
            | Status::Parked { .. }
            | Status::Failed { .. }
            | Status::Cancelled { .. } => None,
        };
        finals.push(Final { customer, checkpoint, history, output });
    }
    (finals, wrong)
}

/// Searches what is left for the secret: checkpoints, mailboxes, history, outputs. (Blobs and log entries are searched in `shared/engine/tests/secrets`.)
async fn leaks(world: &World, finals: &[Final], recorded: &mut Recorded) {
    for end in finals {
        let run = &end.checkpoint.run;
        let mut texts = vec![serde_json::to_string(&end.checkpoint.progress).unwrap_or_default()];
        texts.push(serde_json::to_string(&end.checkpoint.mailbox).unwrap_or_default());
        let segments = world.memory.history(run, Revision(0), 1_000).await.unwrap_or_default();
        texts.push(serde_json::to_string(&segments).unwrap_or_default());
        texts.extend(end.output.clone());
        if texts.iter().any(|text| text.contains(SECRET)) {
            recorded.leaks.push(format!("what is left of {run}"));
        }
    }
}

/// When it was started, and when it has ended.
fn lasted(end: &Final, recorded: &Recorded) -> Option<Duration> {
    let mut writes = recorded.writes.iter().filter(|seen| seen.request.run == end.checkpoint.run);
    let started = writes.next()?.at;
    let ended = writes.rfind(|seen| seen.after.progress.status.phase().is_ended())?.at;
    Some(ended.since(started))
}

fn count(world: &World, finals: &[Final], recorded: &mut Recorded) {
    let mut add = |what: &'static str, count: usize| {
        *recorded.counts.entry(what).or_default() += count as u64;
    };
    add("runs", finals.len());
    for end in finals {
        add(
            match end.checkpoint.progress.status {
                Status::Completed { .. } => "runs completed",
                Status::Failed { .. } => "runs failed",
                Status::Cancelled { .. } => "runs cancelled",
                Status::Created
                | Status::Running
                | Status::Waiting(_)
                | Status::Retrying { .. }
                | Status::Parked { .. } => "runs not ended",
            },
            1,
        );
    }
    add("worlds without a sweeper", usize::from(!world.temper.sweeps));
    add("worlds with clocks that differ", usize::from(world.temper.skew));
    let seconds = millis(world.tape.elapsed()) / 1_000;
    add("virtual seconds", usize::try_from(seconds).unwrap_or(usize::MAX));
    let lost = recorded.writes.iter().filter(|seen| is_lost_turn(seen)).count();
    *recorded.counts.entry("runs taken over").or_default() += lost as u64;
    let writes = recorded.writes.len() as u64;
    *recorded.counts.entry("writes").or_default() += writes;
}

/// Whether a run was acquired whose last holder has not let it go.
fn is_lost_turn(seen: &Seen) -> bool {
    let held = seen.before.as_ref().is_some_and(|before| before.hold.lease.is_some());
    held && matches!(seen.request.write, Write::Acquire(_))
}

/// The auditor's findings, every page.
async fn audited(client: &Client) -> Vec<Wrong> {
    let mut query = AuditQuery { workflow: None, grace: GRACE, limit: 2, after: None };
    let mut wrong = Vec::new();
    loop {
        let page = match client.audit(&query).await {
            Ok(page) => page,
            Err(error) => {
                wrong.push(Wrong { invariant: None, what: format!("the audit failed: {error}") });
                return wrong;
            }
        };
        wrong.extend(page.findings.into_iter().map(|Found { run, finding }| {
            let what = format!("the auditor says of {run}: {finding}");
            Wrong { invariant: Some(finding.invariant()), what }
        }));
        query.after = page.next;
        if query.after.is_none() {
            return wrong;
        }
    }
}
