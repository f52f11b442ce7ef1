//! Approvals as an author meets them: asked for by a wait, read by a step, used by an effect.

use std::sync::Arc;

use serde_json::json;
use stepwell::host::{ErrorMeans, NotAdmitted, PlaceText, StepNext, WaitUntil};
use stepwell::prelude::*;
use stepwell::{Authority, fingerprint};
use stepwell_core::approval::{Answer, Approval as Record, AskApproval, Escalation, Reviewer, Used};
use stepwell_core::decide::NotApproved;
use stepwell_core::{ApprovalId, Class, EffectKey, FailureKind, RunId, Scope, Visit, WorkflowName};

use crate::host::{Asked, FakeHost, Outside, START, bare, inline, is_misused, json, means, only_record, succeeded};

#[derive(Clone, Copy, Serialize)]
struct Refund {
    order: u32,
    cents: u64,
}

const REFUND: Refund = Refund { order: 7, cents: 90_000 };

/// One that was asked for at this visit, and is open.
fn open(visit: u64, refund: Refund) -> Record {
    let (run, fingerprint) = (RunId::new("run-1").unwrap(), fingerprint(&refund).unwrap());
    Record {
        id: ApprovalId::derive(&run, "refund", &fingerprint, Visit(visit)),
        action: "refund".into(),
        parameters: inline(&json!({"order": refund.order, "cents": refund.cents})),
        fingerprint,
        version: 1,
        by: vec![role("finance")],
        quorum: 1,
        escalation: None,
        asked_at: START,
        expires_at: START.plus(days(1)),
        usable_ms: 3_600_000,
        answers: Vec::new(),
        used: None,
        replaced_by: None,
        by_link: false,
    }
}

fn answer(name: &str, allows: bool, why: Option<&str>) -> Answer {
    let reviewer = Reviewer { name: name.into(), roles: vec!["finance".into()] };
    Answer { reviewer, allows, why: why.map(Into::into), at: START }
}

fn given() -> Record {
    Record { answers: vec![answer("ann", true, None)], ..open(1, REFUND) }
}

async fn pays_back(cx: &Cx, outside: &Outside) -> Result<u8, EffectError> {
    let refund = cx.effect("refund").key(7).idempotent().approved_by("refund", &REFUND);
    refund.call(|call| outside.ask(call, Ok::<_, CallError>(7))).await
}

fn key_of_refund() -> EffectKey {
    let workflow = WorkflowName::new("refund").unwrap();
    EffectKey::derive(&RunId::new("run-1").unwrap(), &workflow, "refund", Scope::Run("7"))
}

#[tokio::test]
async fn an_effect_whose_approval_nobody_asked_for_is_not_made() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let other = Record { action: "payout".into(), ..given() };
    for approvals in [vec![], vec![other]] {
        let cx = host.visit(|visiting| visiting.approvals = approvals.clone());
        let error = pays_back(&cx, &outside).await.unwrap_err();
        assert!(is_misused(&error, "no approval of refund was asked for"), "{error}");
        assert!(matches!(means(error), ErrorMeans::Fail(_)));
        assert_eq!((outside.calls(), host.asked(), cx.recorded().journal), (0, vec![], vec![]));
    }
}

#[tokio::test]
async fn the_intent_names_the_approval_and_what_it_was_given_for() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.visit(|visiting| visiting.approvals = vec![open(1, Refund { cents: 1, ..REFUND }), given()]);
    assert_eq!(pays_back(&cx, &outside).await.unwrap(), 7);
    let [intent] = &host.intended()[..] else { panic!("an idempotent effect has an intent here") };
    for record in [&intent[0], &only_record(&cx)] {
        assert_eq!((record.approval.as_ref(), record.parameters), (Some(&given().id), Some(given().fingerprint)));
    }
    assert!(intent[0].is_unknown() && !only_record(&cx).is_unknown());
}

#[tokio::test]
async fn an_effect_that_has_used_one_stays_with_it_though_another_was_asked_for_since() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let used = Record { used: Some(Used { by: key_of_refund(), at: START }), ..given() };
    let cx = host.visit(|visiting| visiting.approvals = vec![used.clone(), open(5, REFUND)]);
    pays_back(&cx, &outside).await.unwrap();
    assert_eq!(only_record(&cx).approval, Some(used.id));

    // Another effect needs the new one.
    let other = cx.effect("refund").key(8).idempotent().approved_by("refund", &REFUND);
    other.call(|call| outside.ask(call, Ok::<_, CallError>(7))).await.unwrap();
    assert_eq!(cx.recorded().journal[1].approval, Some(open(5, REFUND).id));
}

#[tokio::test]
async fn an_effect_that_is_not_admitted_is_not_made_and_the_run_fails_with_a_code() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    for (why, words) in [
        (NotApproved::NoSuch, "it is not known any more"),
        (NotApproved::Open, "it is not decided yet"),
        (NotApproved::Rejected("bob".into()), "it was rejected by bob"),
        (NotApproved::Used(key_of_refund()), "and is good for one"),
        (NotApproved::OtherParameters, "it was given for other parameters"),
        (
            NotApproved::OtherVersion { given: 1, runs: 2 },
            "it was given to version 1 of the code, and this is version 2",
        ),
    ] {
        host.admit_nothing(NotAdmitted::NotApproved { approval: given().id, why });
        let cx = host.visit(|visiting| visiting.approvals = vec![given()]);
        let error = pays_back(&cx, &outside).await.unwrap_err();
        assert!(matches!(&error, EffectError::NotApproved { name, .. } if name == "refund"), "{error}");
        let said = error.to_string();
        assert!(said.contains(words) && said.contains(given().id.as_str()), "{said}");
        let ErrorMeans::Fail(failure) = means(error) else { panic!("no retry helps") };
        assert_eq!((failure.kind, failure.code.as_deref()), (FailureKind::Terminal, Some("not-approved")));
        assert_eq!((outside.calls(), cx.recorded().journal), (0, vec![]));
    }

    // What may have happened before still may have.
    let before = stepwell_core::EffectRecord {
        approval: Some(given().id),
        parameters: Some(given().fingerprint),
        ..bare(
            key_of_refund(),
            "refund",
            Class::Idempotent(None),
            stepwell_core::Outcome::Unknown { since: START, evidence: "reset".into() },
        )
    };
    let cx = host.visit(|visiting| {
        visiting.approvals = vec![given()];
        visiting.journal = vec![before.clone()];
    });
    pays_back(&cx, &outside).await.unwrap_err();
    assert_eq!(only_record(&cx), before);
}

#[tokio::test]
async fn a_recorded_result_needs_no_leave() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let parameters = Some(given().fingerprint);
    let made = bare(key_of_refund(), "refund", Class::Idempotent(None), succeeded(&json!(7)));
    let made = stepwell_core::EffectRecord { parameters, ..made };
    host.admit_nothing(NotAdmitted::NotApproved { approval: given().id, why: NotApproved::Expired(START) });
    let cx = host.visit(|visiting| {
        visiting.ledger = vec![made];
        visiting.approvals = vec![given()];
    });
    assert_eq!((pays_back(&cx, &outside).await.unwrap(), outside.calls(), host.asked()), (7, 0, vec![]));
}

#[test]
fn a_step_reads_what_became_of_it() {
    let host = FakeHost::new();
    let late = Record { expires_at: START, ..open(1, REFUND) };
    let stale = Record { usable_ms: 0, ..given() };
    let replaced = Record { replaced_by: Some(open(5, REFUND).id), ..open(1, REFUND) };
    let used = Record { used: Some(Used { by: key_of_refund(), at: START.plus(hours(1)) }), ..given() };
    let two = vec![answer("ann", true, None), answer("bob", true, None)];
    let approved = |by: &[&str]| Decision::Approved { by: by.iter().map(ToString::to_string).collect(), at: START };
    let rejected = |reason: &str| Decision::Rejected { by: "bob".into(), reason: reason.into() };
    let no = |why| Record { answers: vec![answer("bob", false, why)], ..open(1, REFUND) };
    for (approval, decision) in [
        (open(1, REFUND), Decision::Open),
        (given(), approved(&["ann"])),
        (Record { quorum: 2, ..given() }, Decision::Open),
        (Record { quorum: 2, answers: two, ..open(1, REFUND) }, approved(&["ann", "bob"])),
        (used, approved(&["ann"])),
        (no(Some("too much")), rejected("too much")),
        (no(None), rejected("no reason was given")),
        (late, Decision::Expired),
        (stale, Decision::Expired),
        (replaced, Decision::Expired),
    ] {
        let shown = format!("{approval:?}");
        let cx = host.visit(|visiting| visiting.approvals = vec![given(), approval]);
        assert_eq!(cx.approval("refund").unwrap(), decision, "{shown}");
    }
    let error = host.cx().approval("refund").unwrap_err();
    assert!(error.to_string().contains("no approval of refund was asked for in this run"), "{error}");
    assert!(matches!(ErrorMeans::from(error), ErrorMeans::Fail(_)));
}

/// Asks in as many ways as it has steps.
struct Asks {
    key: Secret,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum At {
    Plain,
    Full,
    ByLink,
    BesideASignal,
    Secret,
    TooFew,
    RoleAndTwo,
    Nameless,
    NoFingerprint,
}

const GO: Signal<()> = Signal::new("go");

impl Workflow for Asks {
    const NAME: &'static str = "asks";
    type Input = At;
    type State = ();
    type Step = At;
    type Output = ();

    fn begin(&self, at: At) -> (At, ()) {
        (at, ())
    }

    fn signals() -> Signals {
        Signals::none().and(GO)
    }

    async fn step(&self, at: At, (): &mut (), _: &Cx) -> StepResult<Self> {
        let plain = || Approval::of("refund", &REFUND).by(role("finance"));
        let asked = match at {
            At::Plain => plain().within(days(3)),
            At::Full => plain()
                .or(person("ann"))
                .quorum(2)
                .escalate_after(hours(4), role("cfo"))
                .usable_for(hours(1))
                .within(days(3)),
            At::ByLink => plain().or(person("ann")).by_link().within(days(3)),
            At::BesideASignal => return Ok(wait(at).for_signal(GO).or_approval(plain().within(days(3)))),
            At::Secret => Approval::of("refund", self.key.expose()).by(role("finance")).within(days(3)),
            At::TooFew => Approval::of("refund", &REFUND).by(person("ann")).or(person("bob")).quorum(3).within(days(3)),
            At::RoleAndTwo => {
                Approval::of("refund", &REFUND).by(person("ann")).or(role("cfo")).quorum(3).within(days(3))
            }
            At::Nameless => Approval::of("", &REFUND).by(role("finance")).within(days(3)),
            At::NoFingerprint => Approval::of("refund", &((1_u64 << 53) + 1)).by(role("finance")).within(days(3)),
        };
        Ok(wait(at).for_approval(asked))
    }
}

async fn ends(at: At) -> Result<StepNext, StepError> {
    let registry = Registry::new().with(Asks { key: Secret::new("bank-key", "k-approvals-4711".into()).unwrap() });
    let workflow = registry.get(&WorkflowName::new("asks").unwrap()).unwrap();
    let step = workflow.prepare(PlaceText::Fresh { input: json(&json!(at)), at: None });
    let step = step.unwrap_or_else(|error| panic!("{error:?}"));
    step.run(Arc::new(FakeHost::new().cx())).await
}

async fn asked(at: At) -> (Vec<stepwell_core::SignalName>, WaitUntil, AskApproval) {
    match ends(at).await.unwrap() {
        StepNext::Wait { on, until, ask: Some(ask), .. } => (on, until, *ask),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_asked_for_is_what_the_author_said() {
    let (on, until, ask) = asked(At::Plain).await;
    let plain = AskApproval {
        action: "refund".into(),
        // In full, in the author's order: a reviewer reads them.
        parameters: stepwell_core::Payload::Inline(stepwell_core::Json::of(&REFUND).unwrap()),
        // What an effect's `approved_by` is held against.
        fingerprint: fingerprint(&REFUND).unwrap(),
        by: vec![Authority::Role("finance".into())],
        quorum: 1,
        escalation: None,
        within: days(3),
        usable_for: days(1),
        by_link: false,
    };
    assert_eq!((on.len(), until, &ask), (0, WaitUntil::Forever, &plain));
    let full = AskApproval {
        by: vec![Authority::Role("finance".into()), Authority::Person("ann".into())],
        quorum: 2,
        escalation: Some((hours(4), vec![Authority::Role("cfo".into())])),
        usable_for: hours(1),
        ..plain.clone()
    };
    assert_eq!(asked(At::Full).await.2, full);
    // Nobody answers through a link unless the author says so.
    let by = vec![Authority::Role("finance".into()), Authority::Person("ann".into())];
    assert_eq!(asked(At::ByLink).await.2, AskApproval { by, by_link: true, ..plain.clone() });
    let (on, _, ask) = asked(At::BesideASignal).await;
    assert_eq!((on[0].as_str(), ask), ("go", plain));
    assert_eq!(asked(At::RoleAndTwo).await.2.quorum, 3);
}

#[tokio::test]
async fn an_approval_that_could_not_be_given_or_shown_is_not_asked_for() {
    for (at, problem) in [
        (At::Secret, "its parameters holds secret bank-key in plain"),
        (At::TooFew, "3 have to allow it, but only 2 may decide"),
        (At::Nameless, "an action's name has 1 to 64 characters"),
        (At::NoFingerprint, "its parameters: "),
    ] {
        let error = ends(at).await.unwrap_err();
        let said = error.to_string();
        assert!(said.contains(problem) && !said.contains("k-approvals-4711"), "{said}");
        assert!(matches!(ErrorMeans::from(error), ErrorMeans::Fail(_)), "{said}");
    }
}

#[test]
fn escalated_people_may_decide_only_from_then_on() {
    let escalation = Escalation { at: START.plus(hours(4)), to: vec![role("cfo")] };
    let approval = Record { escalation: Some(escalation), ..open(1, REFUND) };
    let cfo = Reviewer { name: "eve".into(), roles: vec!["cfo".into()] };
    assert!(!approval.may_decide(&cfo, START.plus(hours(3))));
    assert!(approval.may_decide(&cfo, START.plus(hours(4))));
    // An answer that had no authority when it was given has none later.
    let early = Answer { reviewer: cfo, ..answer("eve", true, None) };
    let host = FakeHost::new();
    host.pass(hours(5));
    let cx = host.visit(|visiting| visiting.approvals = vec![Record { answers: vec![early], ..approval }]);
    assert_eq!(cx.approval("refund").unwrap(), Decision::Open);
    assert_eq!(host.asked(), Vec::<Asked>::new());
}
