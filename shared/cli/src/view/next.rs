//! What a person can do about a run that stands still for want of one.

use stepwell_core::{Checkpoint, ParkReason, Place, Progress, Status, Timestamp};
use stepwell_http::view::{ApprovalView, OfRun as _, UnknownView};

use super::approval::how_to_answer;
use super::count;
use crate::program::command;

/// The next commands, each with what it does. `flag` is what a command needs, to mean this place.
pub(crate) fn next_commands(run: &Checkpoint, now: Timestamp, flag: &str) -> Vec<String> {
    match &run.progress.status {
        Status::Waiting(_) => {
            let approvals = ApprovalView::of(run, now);
            let awaited = approvals.iter().filter(|approval| approval.awaited && approval.is_open());
            awaited.map(|approval| format!("answer it with {}", how_to_answer(approval, flag))).collect()
        }
        Status::Parked { reason, .. } => {
            let mut next = parked(run, reason, now, flag);
            next.extend(repair(run, now, flag));
            next
        }
        Status::Failed { .. } => failed(run, flag),
        Status::Created
        | Status::Running
        | Status::Retrying { .. }
        | Status::Completed { .. }
        | Status::Cancelled { .. } => Vec::new(),
    }
}

fn parked(run: &Checkpoint, reason: &ParkReason, now: Timestamp, flag: &str) -> Vec<String> {
    let id = &run.run;
    let resume = command(format_args!("resume{flag} {id}"));
    let mut next = match reason {
        ParkReason::UnknownOutcome { .. } => Vec::new(),
        ParkReason::Budget(over) => vec![format!("{resume} allows {} more", over.more())],
        ParkReason::StepLimit { .. } => vec![format!("{resume} allows as many again")],
        ParkReason::Paused { .. } => vec![format!("{resume} lets it go on")],
        ParkReason::Undo { .. } => vec![format!("{resume} tries it again, once what hinders it is mended")],
        ParkReason::Poison { .. } | ParkReason::Incompatible { .. } | ParkReason::Data { .. } => {
            vec![format!("{resume} lets it go on, once that is mended")]
        }
    };
    let unknowns = UnknownView::of(run, now);
    let Progress { undoing, undo, .. } = &run.progress;
    if matches!(reason, ParkReason::UnknownOutcome { .. }) || run.is_ending() && !unknowns.is_empty() {
        next.extend(settle(run, &unknowns, flag));
    }
    // What may have happened comes first: nothing is let stand before that is known.
    if let (Some(_), Some(top), true) = (undoing, undo.last(), unknowns.is_empty()) {
        let let_stand = command(format_args!("let-stand{flag} {id} --why …"));
        next.push(format!("{let_stand} leaves effect {} as it is, or as somebody has made it by hand", top.key));
    }
    next
}

/// How a run is repaired that is to go on. Each act names the revision that is shown here.
fn repair(run: &Checkpoint, now: Timestamp, flag: &str) -> Vec<String> {
    let (id, Progress { place, revision, .. }) = (&run.run, &run.progress);
    if run.is_ending() {
        return Vec::new();
    }
    let revision = revision.0;
    let act = |verb: &str, rest: &str| command(format_args!("{verb}{flag} {id} --revision {revision} {rest}--why …"));
    let mut next = vec![format!("{} changes what it knows, before it goes on", act("edit", "--patch … "))];
    if !UnknownView::of(run, now).is_empty() {
        return next;
    }
    if matches!(place, Place::At { .. }) {
        next.push(format!("{} lets it go on at another step", act("move", "--to STEP ")));
    }
    next.push(format!("{} gives it up, and what it has done stands", act("discard", "")));
    next
}

/// A failed run goes on, unless it was given back what it had done.
fn failed(run: &Checkpoint, flag: &str) -> Vec<String> {
    if run.is_ending() {
        return Vec::new();
    }
    let (id, revision) = (&run.run, run.progress.revision.0);
    let retry = command(format_args!("retry{flag} {id}"));
    let edit = command(format_args!("edit{flag} {id} --revision {revision} --patch … --why …"));
    vec![
        format!("{retry} lets it go on where it has failed, once what it failed of is mended"),
        format!("{edit} changes what it knows; it is parked then, until it is resumed"),
    ]
}

/// How effects are settled that may have happened.
fn settle(run: &Checkpoint, unknowns: &[UnknownView], flag: &str) -> Vec<String> {
    let id = &run.run;
    let key = match unknowns {
        [only] => only.key.to_string(),
        _ => "KEY".into(),
    };
    let resolve = command(format_args!("resolve{flag} {id} {key}"));
    let mut next = vec![format!("once it is known: {resolve}, with how it ended")];
    if unknowns.len() > 1 {
        let all = command(format_args!("unknowns{flag} {id}"));
        next.push(format!("{all} shows all {}", count(unknowns.len() as u64, "effect")));
    }
    if run.cancel.is_some() {
        let sign_off = command(format_args!("resolve{flag} {id} {key} --sign-off --why …"));
        next.push(format!("if nobody can find out: {sign_off}, and the run ends with it in its certificate"));
    }
    next
}

#[cfg(test)]
mod tests {
    use stepwell_core::budget::Span;
    use stepwell_core::{CancelRequest, Cause, EffectKey, EffectRecord, Json, OverBudget, Undo, Undoing};

    use super::*;
    use crate::view::unknown_tests::{open, run};

    fn told(reason: ParkReason, change: impl FnOnce(&mut Checkpoint)) -> Vec<String> {
        let mut parked = run();
        parked.progress.status = Status::Parked { reason, at: Timestamp(0) };
        change(&mut parked);
        next_commands(&parked, Timestamp(0), " --aws")
    }

    /// How a run is repaired that has not begun.
    fn repairs() -> [String; 2] {
        let (edit, discard) = ("edit --aws r1 --revision 0 --patch … --why …", "discard --aws r1 --revision 0 --why …");
        [
            format!("{} changes what it knows, before it goes on", command(edit)),
            format!("{} gives it up, and what it has done stands", command(discard)),
        ]
    }

    #[test]
    fn each_reason_has_its_command() {
        let resume = |then: &str| {
            let [edit, discard] = repairs();
            vec![format!("{} {then}", command("resume --aws r1")), edit, discard]
        };
        let mended = resume("lets it go on, once that is mended");
        assert_eq!(told(ParkReason::Poison { acquires: 5 }, |_| {}), mended);
        assert_eq!(told(ParkReason::Incompatible { missing: "v2".into() }, |_| {}), mended);
        assert_eq!(told(ParkReason::Data { what: "a page".into() }, |_| {}), mended);
        assert_eq!(told(ParkReason::StepLimit { limit: 9 }, |_| {}), resume("allows as many again"));
        let over = OverBudget { span: Span::Run, counter: "cents".into(), limit: 1, spent: 2 };
        assert_eq!(told(ParkReason::Budget(over), |_| {}), resume("allows 2 more"));
        assert_eq!(told(ParkReason::Paused { what: "by ada".into() }, |_| {}), resume("lets it go on"));
    }

    #[test]
    fn a_run_that_has_begun_can_be_moved_and_a_failed_one_tried_again() {
        let begun = |run: &mut Checkpoint| {
            let state = stepwell_core::Payload::Inline(Json::of(&()).unwrap());
            run.progress.place = Place::At { cursor: Json::of(&"Pay").unwrap(), state };
            run.progress.revision = stepwell_core::Revision(7);
        };
        let parked = told(ParkReason::Poison { acquires: 5 }, begun);
        let moves = command("move --aws r1 --revision 7 --to STEP --why …");
        assert_eq!((parked.len(), &parked[2]), (4, &format!("{moves} lets it go on at another step")), "{parked:?}");

        let mut failed = run();
        let failure = stepwell_core::Failure::new(stepwell_core::FailureKind::Error, "no");
        failed.progress.status = Status::Failed { failure, at: Timestamp(0) };
        let next = next_commands(&failed, Timestamp(0), "");
        let edit = command("edit r1 --revision 0 --patch … --why …");
        let (retried, edited) = (
            format!("{} lets it go on where it has failed, once what it failed of is mended", command("retry r1")),
            format!("{edit} changes what it knows; it is parked then, until it is resumed"),
        );
        assert_eq!(next, [retried, edited]);
        failed.cancel = Some(CancelRequest { by: "ada".into(), why: None, at: Timestamp(0) });
        assert_eq!(next_commands(&failed, Timestamp(0), ""), [""; 0]);
    }

    #[test]
    fn what_may_have_happened_is_settled_and_what_cannot_be_undone_let_stand() {
        let unknown = || ParkReason::UnknownOutcome { what: "pay".into() };
        let (pay, mail) = (open("pay", None), open("mail", None));
        let one = told(unknown(), |run| run.progress.journal = vec![pay.clone()]);
        let resolve = command(format_args!("resolve --aws r1 {}", pay.key));
        let [edit, _] = repairs();
        assert_eq!(one, [format!("once it is known: {resolve}, with how it ended"), edit]);
        let two = told(unknown(), |run| {
            run.progress.journal = vec![pay, mail];
            run.cancel = Some(CancelRequest { by: "ada".into(), why: None, at: Timestamp(0) });
        });
        assert_eq!(two.len(), 3, "{two:?}");
        assert!(two[0].contains("resolve --aws r1 KEY`") && two[1].contains("unknowns --aws r1` shows all 2 effects"));
        assert!(two[2].contains("resolve --aws r1 KEY --sign-off --why …`"), "{two:?}");

        let key = EffectKey::parse(&"0".repeat(32)).unwrap();
        let stuck = |journal: Vec<EffectRecord>| {
            told(ParkReason::Undo { what: "reserve".into() }, |run| {
                run.progress.journal = journal;
                let (step, name) = (Json::of(&"Unreserve").unwrap(), "reserve".into());
                run.progress.undo = vec![Undo {
                    key: key.clone(),
                    name,
                    class: stepwell_core::Class::Once,
                    attempts: 1,
                    step,
                    behind: vec![],
                }];
                run.progress.undoing = Some(Box::new(Undoing {
                    cause: Cause::Cancelled,
                    step: "Pay".into(),
                    undone: Vec::new(),
                    stands: Vec::new(),
                    never_sent: Vec::new(),
                    lost_attempt: None,
                }));
            })
        };
        let waiting = stuck(vec![open("release", None)]);
        let stuck = stuck(vec![]);
        assert!(stuck[0].contains("resume --aws r1` tries it again"), "{stuck:?}");
        assert!(stuck[1].contains(&format!("let-stand --aws r1 --why …` leaves effect {key}")), "{stuck:?}");
        let told = waiting.iter().any(|next| next.contains("once it is known: "));
        assert!(told && waiting.iter().all(|next| !next.contains("let-stand")), "{waiting:?}");
    }
}
