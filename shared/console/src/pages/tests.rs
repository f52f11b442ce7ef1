//! Pages from models that are made up: hostile text is text, and every page is whole.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use maud::Markup;
use stepwell_core::write::{Start, Write, WriteRequest, apply};
use stepwell_core::{
    AskApproval, Authority, Checkpoint, Digest, EffectKey, Json, Payload, Phase, Revision, RunId, Scope, Status,
    Timestamp, Usage, Visit, Wait, WorkflowName, WriteId,
};
use stepwell_http::Permission;
use stepwell_http::view::{ApprovalView, At, OfRun as _, UnknownView, Value};
use stepwell_ports::RunSummary;

use crate::check::is_sound;
use crate::pages::dashboard::{Figures, Hour, Overdue};
use crate::pages::run::acts::{May, Stands, Subject};
use crate::pages::{approvals, dashboard, login, parked, runs, start, unknowns};
use crate::shell::{Around, Count, Page, document};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

/// What somebody may write wherever a workflow, a person or the outside has a say.
const HOSTILE: &str =
    "</pre></textarea><script>alert(1)</script>\" onload=\"x\" '><img src=x onerror=y>\u{202e}\u{0}\n\u{200b}&lt;";

fn hostile() -> String {
    format!("{HOSTILE}{}", "long ".repeat(2_000))
}

fn run() -> RunId {
    RunId::new("r1").unwrap()
}

fn shown(page: &Page) -> String {
    document(page, Around { name: Some("key:ann"), counts: None }).into_string()
}

/// Checks a page that shows hostile text somewhere.
#[track_caller]
fn is_harmless(page: &str) {
    is_sound(page);
    for raw in ["<img", "\u{202e}", "\u{0}", "\u{200b}", "<script>", "</textarea><script"] {
        assert!(!page.contains(raw), "{raw:?} in {page}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
}

fn checkpoint() -> Checkpoint {
    let input = Payload::Inline(Json::of(&()).unwrap());
    let workflow = WorkflowName::new("shop").unwrap();
    let start = Start { workflow, version: 1, input, input_digest: Digest::of(b"null"), step_limit: 9 };
    let request = WriteRequest { run: run(), id: WriteId(1), now: NOW, write: Write::Start(Box::new(start)) };
    apply(None, &request).unwrap()
}

fn subject(stands: Stands, knows: Value) -> Subject {
    Subject {
        run: run(),
        revision: Revision(1),
        stands,
        is_ending: false,
        signals: Vec::new(),
        knows: Some(knows),
        has_begun: true,
        may: May { operate: true, repair: true },
    }
}

#[test]
fn runs_are_listed_and_filters_are_text() {
    let summary = |phase, wakes_at| RunSummary {
        run: RunId::new(format!("r-{phase}")).unwrap(),
        workflow: WorkflowName::new("shop").unwrap(),
        phase,
        started_at: NOW,
        wakes_at,
    };
    let listed = Phase::ALL.map(|phase| summary(phase, Some(NOW)));
    let asked: runs::Asked =
        serde_json::from_value(serde_json::json!({"workflow": HOSTILE, "after": HOSTILE})).unwrap();
    let (workflows, next) = (vec![WorkflowName::new("shop").unwrap()], Some(HOSTILE.to_owned()));
    let model = runs::Model { asked, workflows, runs: listed.to_vec(), next, now: NOW };
    let page = shown(&runs::page(&model));
    is_harmless(&page);
    for phase in Phase::ALL {
        assert!(page.contains(&format!("href=\"/runs/r-{phase}\"")), "{phase}");
    }
    assert!(page.contains("rel=\"next\">Older runs") && page.contains("Newest runs"));
}

#[test]
fn an_empty_list_says_how_to_begin() {
    let model = |asked| runs::Model { asked, workflows: Vec::new(), runs: Vec::new(), next: None, now: NOW };
    let page = shown(&runs::page(&model(runs::Asked::default())));
    is_sound(&page);
    assert!(page.contains("href=\"/start\">Start a run") && page.contains("stepwell start hello"), "{page}");
    let filtered: runs::Asked = serde_json::from_value(serde_json::json!({"status": "failed"})).unwrap();
    let page = shown(&runs::page(&model(filtered)));
    assert!(page.contains("No run is like that") && !page.contains("stepwell start"), "{page}");
}

/// An approval whose every text is hostile.
fn approval() -> ApprovalView {
    let mut run = checkpoint();
    let text = hostile();
    let parameters = Json::of(&serde_json::json!({ &text: &text })).unwrap();
    let ask = AskApproval {
        action: text.clone(),
        fingerprint: Digest::of(parameters.text().as_bytes()),
        parameters: Payload::Inline(parameters),
        by: vec![Authority::Person(text.clone()), Authority::Role(text), Authority::Person("key:ann".into())],
        quorum: 1,
        escalation: None,
        within: core::time::Duration::from_hours(1),
        usable_for: core::time::Duration::from_hours(1),
        by_link: true,
    };
    run.progress.approvals.push(asked(&ask, &run));
    let id = run.progress.approvals[0].id.clone();
    let wait = Wait { on: Vec::new(), approval: Some(id), until: None, budget_ends: None, seen: run.mailbox.seq };
    run.progress.status = Status::Waiting(wait);
    ApprovalView::of(&run, NOW).pop().unwrap()
}

fn asked(ask: &AskApproval, run: &Checkpoint) -> stepwell_core::Approval {
    stepwell_core::Approval {
        id: stepwell_core::ApprovalId::derive(&run.run, &ask.action, &ask.fingerprint, Visit(0)),
        action: ask.action.clone(),
        parameters: ask.parameters.clone(),
        fingerprint: ask.fingerprint,
        version: 1,
        by: ask.by.clone(),
        quorum: ask.quorum,
        escalation: None,
        asked_at: NOW,
        expires_at: NOW.plus(ask.within),
        usable_ms: 1_000,
        answers: Vec::new(),
        used: None,
        replaced_by: None,
        by_link: ask.by_link,
    }
}

#[test]
fn an_approval_shows_all_that_is_asked_for() {
    let page = |may_answer| {
        let item = approvals::Item {
            workflow: WorkflowName::new("shop").unwrap(),
            approval: approval(),
            may_answer,
            may_link: may_answer,
        };
        let model = approvals::Model { items: vec![item], is_first: true, next: Some(HOSTILE.into()), now: NOW };
        shown(&approvals::page(&model))
    };
    let answering = page(true);
    is_harmless(&answering);
    // The parameters are there to the last letter, and not folded.
    let parameters = answering.split("With these parameters").nth(1).unwrap().split("<dl").next().unwrap();
    assert!(!parameters.contains("<details") && parameters.matches("long ").count() == 4_000, "{parameters}");
    assert!(
        answering.contains("/links\"")
            && answering.contains("value=\"approve\"")
            && answering.contains("value=\"reject\"")
    );
    let looking = page(false);
    is_harmless(&looking);
    assert!(
        !looking.contains("/links\"")
            && !looking.contains("<button class=\"grave\" type=\"submit\"")
            && looking.contains("do not let you answer")
    );
}

#[test]
fn what_is_not_shown_in_full_is_not_decided() {
    for parameters in [Value::Apart { stored_apart: 3_000_000 }, Value::Lost { unreadable: HOSTILE.into() }] {
        let mut approval = approval();
        approval.parameters = parameters;
        let (workflow, may_answer, may_link) = (WorkflowName::new("shop").unwrap(), true, true);
        let item = approvals::Item { workflow, approval, may_answer, may_link };
        let alone = approvals::card(&item, NOW, false).into_string();
        let listed = approvals::card(&item, NOW, true).into_string();
        for card in [&alone, &listed] {
            assert!(!card.contains("<form") && !card.contains("<button"), "{card}");
            assert!(card.contains("so it is not decided here") && card.contains("stepwell approvals"), "{card}");
        }
        assert!(listed.contains("Look at <a href=\"/runs/r1\">"), "{listed}");
    }
}

#[test]
fn an_unknown_says_what_is_known_and_takes_each_word() {
    let workflow = WorkflowName::new("shop").unwrap();
    let unknown = UnknownView {
        run: run(),
        step: hostile(),
        effect: hostile(),
        key: EffectKey::derive(&run(), &workflow, "pay", Scope::Run("k")),
        class: "once",
        attempts: 1,
        since: At(NOW),
        until: Some(At(NOW.plus(core::time::Duration::from_secs(9)))),
        evidence: hostile(),
        parked: true,
    };
    let item = unknowns::Item { workflow, unknown, may_operate: true };
    let page = shown(&unknowns::page(&unknowns::Model { items: vec![item], is_first: true, next: None, now: NOW }));
    is_harmless(&page);
    for word in ["succeeded", "failed", "try-again", "sign-off"] {
        assert!(page.contains(&format!("name=\"resolution\" value=\"{word}\"")), "{word}");
    }
    assert_eq!(page.matches("data-confirm=").count(), 2, "both that cannot be taken back");
    assert!(page.contains("may still land"));
}

#[test]
fn a_parked_run_says_why_and_what_would_help() {
    let knows = Value::Here(Json::of(&hostile()).unwrap());
    let item = |stands| parked::Item {
        subject: Subject {
            run: RunId::new(if stands == Stands::Ended { "r2" } else { "r1" }).unwrap(),
            ..subject(stands, knows.clone())
        },
        workflow: hostile(),
        step: hostile(),
        reason: hostile(),
        since: NOW,
    };
    let (stuck, ended) = (item(Stands::Parked { code: "unknown-outcome" }), item(Stands::Ended));
    let model = parked::Model { parked: vec![stuck], failed: vec![ended], is_first: true, next: None, now: NOW };
    let page = shown(&parked::page(&model));
    is_harmless(&page);
    assert!(page.contains("What would help") && page.contains("/runs/r1#unknowns") && page.contains("Failed last"));
    let nothing = parked::Model { parked: Vec::new(), failed: Vec::new(), is_first: true, next: None, now: NOW };
    assert!(shown(&parked::page(&nothing)).contains("No run is parked"));
}

fn figures(oldest: Option<Timestamp>) -> Figures {
    let hour = |hours: u64, started| Hour { from: Timestamp(NOW.0 - hours * 3_600_000), started, ended: 1 };
    Figures {
        at: Timestamp(NOW.0 - 90_000),
        by_status: Phase::ALL.map(|phase| (phase, Count { found: 1_000, more: true })).to_vec(),
        sampled: 7,
        loaded: 5,
        hours: vec![hour(1, 3), hour(0, 0)],
        overdue: Overdue { runs: Count { found: 1, more: false }, oldest },
        late: Count { found: 2, more: false },
        usage: Usage { effects_skipped: 42, ..Usage::default() },
    }
}

#[test]
fn the_dashboard_says_what_each_figure_is_of() {
    let page = shown(&dashboard::page(&figures(Some(Timestamp(NOW.0 - 3_600_000))), NOW));
    is_sound(&page);
    for part in
        ["1000+", "1 h 0 min", "42", "in the 5 newest runs", "Of the 7 newest runs", "list prices of", "(1 min ago)"]
    {
        assert!(page.contains(part), "{part} in {page}");
    }
    // What is overdue for long stands out, and by a word too.
    let fresh = shown(&dashboard::page(&figures(Some(NOW)), NOW));
    assert_eq!((page.matches("</svg>look").count(), fresh.matches("</svg>look").count()), (2, 1));
}

#[test]
fn what_can_be_started_is_offered_and_nothing_else() {
    let model = |workflows: &[&str], are_others| start::Model {
        workflows: workflows.iter().map(|name| WorkflowName::new(name).unwrap()).collect(),
        are_others,
    };
    let page = shown(&start::page(&model(&["refund", "hello"], false)));
    is_sound(&page);
    assert!(page.contains("data-path=\"/v1/runs\"") && page.contains("data-header=\"Idempotency-Key\""));
    assert!(page.contains("<option value=\"hello\">"));
    let none = shown(&start::page(&model(&[], true)));
    is_sound(&none);
    assert!(none.contains("Your roles do not let you start") && !none.contains("data-path=\"/v1/runs\""));
}

#[test]
fn the_login_works_without_the_script() {
    let page = document(&login::page(HOSTILE), Around { name: None, counts: None }).into_string();
    is_sound(&page);
    assert!(!page.contains("<script>alert") && !page.contains("<img"), "{page}");
    assert!(page.contains("method=\"post\" action=\"/v1/session\"") && !page.contains("disabled"), "{page}");
}

/// Without the script nothing could be sent: a button that looks as if it would is a lie.
#[test]
fn buttons_wait_for_the_script() {
    let knows = Value::Here(Json::of(&1).unwrap());
    let acts: Markup = crate::pages::run::acts::acts(&subject(Stands::Parked { code: "undo" }, knows));
    let acts = acts.into_string();
    let buttons = acts.matches("type=\"submit\"").count();
    assert_eq!(acts.matches("type=\"submit\" data-needs-script disabled").count(), buttons);
    assert!(buttons > 5);
}

#[test]
fn viewers_are_whom_the_guard_lets_in() {
    let viewer = crate::who::Viewer::who_may(&[Permission::Look]);
    let workflow = WorkflowName::new("shop").unwrap();
    assert!(viewer.may(Permission::Look, &workflow) && !viewer.may(Permission::Operate, &workflow));
}
