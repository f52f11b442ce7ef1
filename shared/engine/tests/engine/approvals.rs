//! Approvals, from the question to the effect that is made under the answer.

use std::time::Duration;

use stepwell::{Registry, days, hours};
use stepwell_core::decide::ApproveRefused;
use stepwell_core::history::EntryKind;
use stepwell_core::{FailureKind, Phase, Status};
use stepwell_engine::ClientError;
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{T0, one_step, secs};
use crate::shop::{Ask, Do, Does, GO, Kind, Order, Set, Shop, Thing, approve, ask, buy};

const CENTS: u64 = 900;

fn pay_back(cents: u64) -> Do {
    Do::Buy(buy(Thing::Seat, Kind::Idempotent).approved(cents))
}

fn plain() -> [Do; 3] {
    [Do::Ask(ask(CENTS)), Do::Decide, pay_back(CENTS)]
}

/// One that waits for its answer.
async fn asked(plan: &[Do]) -> Set {
    let set = Set::settled(plan, Shop::default()).await;
    assert_eq!((set.bed.phase(&set.run).await, set.standing().await), (Phase::Waiting, "open"));
    set
}

fn code(answer: Result<stepwell_engine::ApproveAnswer, ClientError>) -> &'static str {
    answer.expect_err("the answer is taken").code()
}

/// Why the run has failed; nothing was called.
async fn failed_before_any_call(set: &Set) -> String {
    let failure = set.bed.failure(&set.run).await;
    assert_eq!(set.shop.requests(), Vec::<&str>::new());
    assert_eq!((failure.kind, failure.code.as_deref()), (FailureKind::Terminal, Some("not-approved")), "{failure}");
    failure.message
}

#[tokio::test(start_paused = true)]
async fn what_was_approved_is_done_once_and_the_approval_is_used_up() {
    let set = asked(&plain()).await;
    // Nobody works on it meanwhile.
    assert_eq!(set.bed.messages().await, []);
    let asked_at = set.approval().await.asked_at;
    tokio::time::advance(hours(1)).await;

    assert!(set.answers("ann", "finance", true).await.unwrap().new);
    assert_eq!((set.standing().await, set.bed.phase(&set.run).await), ("approved", Phase::Running));
    set.bed.settle().await;
    assert_eq!(set.bed.output::<Vec<String>>(&set.run).await, ["approved by ann", "a seat"]);
    assert_eq!((set.shop.requests(), set.standing().await), (vec!["seat"], "used"));

    // Who has allowed what, when, and what came of it.
    let approval = set.approval().await;
    let (used, answer) = (approval.used.clone().unwrap(), approval.answers[0].clone());
    assert_eq!(used.by.as_str(), set.shop.books().requests[0].1);
    assert_eq!(
        (answer.reviewer.name.as_str(), &answer.reviewer.roles[..], answer.allows),
        ("ann", &["finance".to_owned()][..], true)
    );
    assert!(approval.asked_at == asked_at && answer.at >= asked_at.plus(hours(1)) && used.at == answer.at);
    assert_eq!(set.bed.client().value(&approval.parameters).await.unwrap().text(), "900");
    let history = set.bed.history(&set.run).await;
    let note = |kind| {
        let entry = history.iter().find(|entry| entry.entry.kind == kind).expect("it is not in the history");
        (entry.at, entry.entry.more.note.clone().unwrap_or_default())
    };
    let asking = format!("approval {} of refund is asked of role finance", approval.id);
    assert_eq!(note(EntryKind::Waited), (asked_at, asking));
    let said = format!("approved refund (parameters {}, version 1) by ann (finance)", approval.fingerprint.short(16));
    assert_eq!(note(EntryKind::Answered), (answer.at, said));
    assert_eq!(set.bed.witness.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_the_workflows_to_handle() {
    let set = asked(&plain()).await;
    assert!(set.answers("bob", "finance", false).await.unwrap().new);
    set.bed.settle().await;
    assert_eq!(set.bed.failure(&set.run).await.message, "rejected by bob: too much");
    assert_eq!((set.shop.requests().len(), set.standing().await), (0, "rejected"));
    // For one that has ended there is nothing to answer.
    assert_eq!(code(set.answers("ann", "finance", true).await), "ended");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_ignores_a_rejection_is_stopped_at_the_effect() {
    let set = asked(&[Do::Ask(ask(CENTS)), pay_back(CENTS)]).await;
    set.answers("bob", "finance", false).await.unwrap();
    set.bed.settle().await;
    let why = failed_before_any_call(&set).await;
    assert!(why.contains("it was rejected by bob"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn nobodys_answer_ends_the_wait_in_time() {
    let set = asked(&plain()).await;
    let expires_at = set.approval().await.expires_at;
    let _worker = set.bed.worker("w");
    tokio::time::sleep(hours(71)).await;
    set.bed.until_phase(&set.run, Phase::Failed).await;
    let late = set.bed.now().since(expires_at);
    assert!(set.bed.now() >= expires_at && late < secs(2), "{late:?}");
    assert_eq!(set.bed.failure(&set.run).await.message, "nobody decided");
}

#[tokio::test(start_paused = true)]
async fn no_answer_is_taken_after_its_time_though_nobody_has_looked_yet() {
    let set = asked(&plain()).await;
    tokio::time::advance(days(3)).await;
    assert_eq!(set.bed.phase(&set.run).await, Phase::Waiting);
    assert_eq!(code(set.answers("ann", "finance", true).await), "expired");
    assert_eq!(set.approval().await.answers, []);
}

#[tokio::test(start_paused = true)]
async fn others_may_decide_once_nobody_has() {
    let set = asked(&[Do::Ask(Ask { escalates: true, ..ask(CENTS) }), Do::Decide, pay_back(CENTS)]).await;
    let refused = set.answers("eve", "cfo", true).await.unwrap_err();
    assert!(
        refused.to_string().contains("eve may not decide") && refused.to_string().ends_with("role finance"),
        "{refused}"
    );
    assert_eq!(refused.code(), "no-authority");
    tokio::time::advance(hours(4)).await;
    assert!(set.answers("eve", "cfo", true).await.unwrap().new);
    set.bed.settle().await;
    assert_eq!(set.bed.output::<Vec<String>>(&set.run).await[0], "approved by eve");
}

#[tokio::test(start_paused = true)]
async fn as_many_people_as_are_asked_for_have_to_allow_it_and_one_can_reject_it() {
    let plan = [Do::Ask(Ask { quorum: 2, ..ask(CENTS) }), Do::Decide, pay_back(CENTS)];
    for second_allows in [true, false] {
        let set = asked(&plan).await;
        assert!(set.answers("ann", "finance", true).await.unwrap().new);
        // The same person counts once.
        assert!(!set.answers("ann", "finance", true).await.unwrap().new);
        set.bed.settle().await;
        assert_eq!((set.bed.phase(&set.run).await, set.standing().await), (Phase::Waiting, "open"));
        assert_eq!(code(set.answers("ann", "finance", false).await), "decided");
        set.answers("bob", "finance", second_allows).await.unwrap();
        set.bed.settle().await;
        if second_allows {
            assert_eq!(set.bed.output::<Vec<String>>(&set.run).await[0], "approved by ann and bob");
        } else {
            assert_eq!(set.bed.failure(&set.run).await.message, "rejected by bob: too much");
            assert_eq!(set.shop.requests().len(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn asked_again_with_other_parameters_the_old_question_is_void() {
    let first = Ask { or_go: true, ..ask(CENTS) };
    let set = asked(&[Do::Ask(first), Do::Ask(ask(700)), Do::Decide, pay_back(700)]).await;
    let old = set.approval().await;
    set.bed.signal(&set.run, GO, ()).await;
    set.bed.settle().await;
    let new = set.approval().await;
    assert!(old.id != new.id && set.bed.phase(&set.run).await == Phase::Waiting);
    let refused = set.answers_to(&old, "ann", "finance", true).await.unwrap_err();
    let ClientError::NotTaken { why, .. } = &refused else { panic!("{refused}") };
    assert_eq!(**why, ApproveRefused::Replaced { id: old.id, by: new.id.clone() });
    set.answers("ann", "finance", true).await.unwrap();
    set.bed.settle().await;
    assert_eq!((set.bed.phase(&set.run).await, set.shop.requests()), (Phase::Completed, vec!["seat"]));
}

#[tokio::test(start_paused = true)]
async fn asked_again_for_the_same_the_answer_that_is_there_counts() {
    let first = Ask { or_go: true, ..ask(CENTS) };
    let set = asked(&[Do::Ask(first), Do::Nap(60), Do::Ask(ask(CENTS)), Do::Decide, pay_back(CENTS)]).await;
    set.bed.signal(&set.run, GO, ()).await;
    set.bed.turn(&one_step()).await;
    // It naps, and is answered meanwhile: that wakes nobody.
    set.answers("ann", "finance", true).await.unwrap();
    assert_eq!(set.bed.phase(&set.run).await, Phase::Waiting);
    set.bed.settle().await;
    assert_eq!(set.bed.output::<Vec<String>>(&set.run).await, ["approved by ann", "a seat"]);
    assert_eq!(set.bed.checkpoint(&set.run).await.progress.approvals.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_effect_needs_the_very_parameters_that_were_approved() {
    let set = asked(&[Do::Ask(ask(CENTS)), pay_back(CENTS + 1)]).await;
    set.answers("ann", "finance", true).await.unwrap();
    set.bed.settle().await;
    let why = failed_before_any_call(&set).await;
    assert!(why.contains("it was given for other parameters"), "{why}");
    assert_eq!(set.standing().await, "approved");
}

#[tokio::test(start_paused = true)]
async fn an_effect_needs_the_very_code_that_asked() {
    let set = asked(&plain()).await;
    set.answers("ann", "finance", true).await.unwrap();
    let bed = set.bed.deployed(Registry::new().with(Order::<2>(set.shop.clone())));
    bed.settle().await;
    let why = failed_before_any_call(&set).await;
    assert!(why.contains("it was given to version 1 of the code, and this is version 2"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn an_approval_that_is_not_used_in_time_is_worth_nothing() {
    let question = Ask { usable_hours: 1, ..ask(CENTS) };
    let set = asked(&[Do::Ask(question), Do::Nap(7_200), pay_back(CENTS)]).await;
    set.answers("ann", "finance", true).await.unwrap();
    let _worker = set.bed.worker("w");
    tokio::time::sleep(hours(2)).await;
    set.bed.until_phase(&set.run, Phase::Failed).await;
    let why = failed_before_any_call(&set).await;
    assert!(why.contains("it has expired at"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_has_decided_on_is_not_done() {
    let set = asked(&[Do::Ask(Ask { or_go: true, ..ask(CENTS) }), Do::Decide, pay_back(CENTS)]).await;
    set.bed.signal(&set.run, GO, ()).await;
    set.bed.settle().await;
    let why = failed_before_any_call(&set).await;
    assert!(why.contains("it is not decided yet"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn an_approval_is_good_for_one_effect() {
    let (seat, room) = (buy(Thing::Seat, Kind::Once).approved(CENTS), buy(Thing::Room, Kind::Once).approved(CENTS));
    for rest in [vec![Do::Buy(seat), Do::Buy(room)], vec![Do::Both(seat, room)]] {
        let order = asked(&[vec![Do::Ask(ask(CENTS))], rest].concat()).await;
        order.answers("ann", "finance", true).await.unwrap();
        order.bed.settle().await;
        let failure = order.bed.failure(&order.run).await;
        assert!(failure.message.contains("and is good for one"), "{failure}");
        assert_eq!(order.shop.requests(), ["seat"]);
        assert_eq!(order.approval().await.used.unwrap().by.as_str(), order.shop.books().requests[0].1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_effects_own_call_is_repeated_without_new_leave() {
    for does in [Does::Busy, Does::Loses, Does::Misses] {
        let set = asked(&plain()).await;
        set.shop.will("seat", [does]);
        set.answers("ann", "finance", true).await.unwrap();
        set.bed.settle().await;
        assert_eq!((set.bed.phase(&set.run).await, set.shop.requests()), (Phase::Completed, vec!["seat", "seat"]));
        assert_eq!((set.standing().await, set.shop.acted_twice()), ("used", vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_a_worker_that_holds_the_run() {
    let first = Ask { or_go: true, ..ask(CENTS) };
    for (works, taken) in [(1, true), (10, false)] {
        let set = asked(&[Do::Ask(first), Do::Work(works), Do::Nap(60), Do::Decide, pay_back(CENTS)]).await;
        set.bed.signal(&set.run, GO, ()).await;
        let (turn, answer) = (one_step(), async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            set.answers("ann", "finance", true).await
        });
        let (_, answer) = tokio::join!(set.bed.turn(&turn), answer);
        if taken {
            assert!(answer.unwrap().new);
        } else {
            // It does not wait for ever; nothing is written, and it can be said again.
            assert_eq!((code(answer), set.standing().await), ("moved-on", "open"));
            assert!(set.answers("ann", "finance", true).await.unwrap().new);
        }
        set.bed.settle().await;
        assert_eq!(set.bed.output::<Vec<String>>(&set.run).await, ["approved by ann", "a seat"]);
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_reviewers_at_once_the_first_decides() {
    for second_allows in [true, false] {
        let set = asked(&plain()).await;
        // Both have looked at the same run when they write.
        let late = |wait| {
            Gate::planned(move |_, call| if call == PortCall::Amend { Fate::SlowStart(secs(wait)) } else { Fate::Pass })
        };
        let approval = set.approval().await;
        let (ann, bob) = (late(1), late(2));
        let (ann, bob) = (set.bed.client_behind(&ann), set.bed.client_behind(&bob));
        let (yes, second) = (
            approve(&approval, "ann", "finance", true, None),
            approve(&approval, "bob", "finance", second_allows, None),
        );
        let (first, second) = tokio::join!(ann.approve(&set.run, &yes), bob.approve(&set.run, &second));
        assert!(first.unwrap().new);
        let refused = second.unwrap_err();
        assert!(refused.to_string().contains("was approved by ann before: it is decided once"), "{refused}");
        set.bed.settle().await;
        assert_eq!((set.bed.phase(&set.run).await, set.shop.requests()), (Phase::Completed, vec!["seat"]));
        assert_eq!(set.approval().await.answers.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_that_are_both_needed_none_is_lost() {
    let set = asked(&[Do::Ask(Ask { quorum: 2, ..ask(CENTS) }), Do::Decide, pay_back(CENTS)]).await;
    let (ann, bob) = tokio::join!(set.answers("ann", "finance", true), set.answers("bob", "finance", true));
    assert!(ann.unwrap().new && bob.unwrap().new);
    set.bed.settle().await;
    assert_eq!(set.bed.phase(&set.run).await, Phase::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_answer_and_the_end_of_its_time_never_both_count() {
    for (before, slow, approved) in [(secs(2), Duration::ZERO, true), (secs(2), secs(30), false)] {
        let set = asked(&plain()).await;
        let _worker = set.bed.worker("w");
        let approval = set.approval().await;
        tokio::time::sleep(approval.expires_at.since(set.bed.now().plus(before))).await;
        let gate =
            Gate::planned(move |_, call| if call == PortCall::Amend { Fate::SlowStart(slow) } else { Fate::Pass });
        let act = approve(&approval, "ann", "finance", true, None);
        let answer = set.bed.client_behind(&gate).approve(&set.run, &act).await;
        let ended = set.bed.until(&set.run, |checkpoint| checkpoint.progress.status.phase().is_ended()).await;
        assert_eq!(answer.is_ok(), approved, "{answer:?}");
        assert_eq!(matches!(ended.progress.status, Status::Completed { .. }), approved);
        assert_eq!(set.shop.requests().len(), usize::from(approved));
        assert_eq!(set.approval().await.answers.len(), usize::from(approved));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_sender_died_before_its_message_goes_on_when_it_is_repeated() {
    let set = asked(&plain()).await;
    let gate = Gate::planned(|_, call| if call == PortCall::Send { Fate::DieBefore } else { Fate::Pass });
    let (client, act) = (set.bed.client_behind(&gate), approve(&set.approval().await, "ann", "finance", true, None));
    assert!(gate.fuse().while_alive(client.approve(&set.run, &act)).await.is_none());
    assert_eq!((set.standing().await, set.bed.messages().await), ("approved", vec![]));
    assert!(!set.answers("ann", "finance", true).await.unwrap().new);
    set.bed.settle().await;
    assert_eq!(set.bed.phase(&set.run).await, Phase::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cancelled_while_it_waits_needs_no_answer_any_more() {
    let set = asked(&plain()).await;
    set.cancel().await;
    set.bed.settle().await;
    assert_eq!(code(set.answers("ann", "finance", true).await), "ended");
    assert_eq!((set.certificate().await.confirmed, set.shop.requests().len()), (0, 0));
    assert!(set.bed.now() > T0);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_approval_or_a_nameless_reviewer_is_refused() {
    let set = asked(&plain()).await;
    let approval = set.approval().await;
    let other = stepwell_core::approval::Approval {
        id: stepwell_core::ApprovalId::parse("0123456789abcdef").unwrap(),
        ..approval.clone()
    };
    assert_eq!(code(set.answers_to(&other, "ann", "finance", true).await), "no-such-approval");
    assert_eq!(code(set.answers("", "finance", true).await), "bad-value");
    assert_eq!(code(set.answers("ann", &"x".repeat(65), true).await), "bad-value");
    assert_eq!(set.approval().await, approval);
}
