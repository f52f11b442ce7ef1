//! Approvals and what is taken back: listed, shown, and answered by a person.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a surprise in a test should stop it")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Stepwell, with_local};
use serde_json::{Value, json};
use stepwell::prelude::*;
use stepwell_core::decide::Rules;
use stepwell_core::{Json, WorkerId, WorkflowName};
use stepwell_engine::{Ack, Client, Engine, Ports, Settings, StartRequest, Started, TurnTime};
use stepwell_local::{Local, Options};
use stepwell_ports::Clock;
use stepwell_ports::system::{SystemClock, SystemIds};

const NO_ID: &str = "0011223344556677";

/// A workflow that the program itself does not know, as those of other projects: reserves, asks, and refunds.
struct Cashier;

#[derive(Clone, Serialize, Deserialize)]
struct Refund {
    order: u32,
    note: String,
    quorum: u32,
}

#[derive(Serialize, Deserialize)]
enum Give {
    Reserve,
    Pay,
    Unreserve,
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

    async fn step(&self, at: Give, refund: &mut Refund, cx: &Cx) -> StepResult<Self> {
        Ok(match at {
            Give::Reserve => {
                let reserve = cx.effect("reserve").key(refund.order).idempotent();
                let reserve = reserve.costs("cents", 700).undo(&Give::Unreserve);
                reserve.call(async |_| Ok::<_, CallError>("reserved".to_owned())).await?;
                let asked = Approval::of("refund", refund).by(role("finance")).or(person("ada")).quorum(refund.quorum);
                wait(Give::Pay).for_approval(asked.escalate_after(days(1), role("cfo")).within(days(3)))
            }
            Give::Pay => match cx.approval("refund")? {
                Decision::Approved { .. } => {
                    let pay = cx.effect("refund").key(refund.order).once().approved_by("refund", refund);
                    complete(pay.call(async |_| Ok::<_, CallError>("paid".to_owned())).await?)
                }
                Decision::Rejected { by, reason } => {
                    return Err(StepError::terminal(format!("{by} says no: {reason}")));
                }
                Decision::Expired | Decision::Open => return Err(StepError::terminal("nobody has decided")),
            },
            Give::Unreserve if refund.note == "stuck" => return Err(StepError::terminal("the shop has closed")),
            Give::Unreserve => undone(),
        })
    }
}

/// A clock that stands still.
struct Standing(Timestamp);

#[async_trait::async_trait]
impl Clock for Standing {
    fn now(&self) -> Timestamp {
        self.0
    }

    async fn sleep(&self, _: Duration) {
        std::future::pending::<()>().await;
    }
}

/// Works on the folder until no message comes, as another process would.
async fn work(ports: &Ports) {
    let settings = Settings { worker: WorkerId::new("tester").unwrap(), rules: Rules::default() };
    let engine = Engine::new(ports.clone(), registry(), settings).unwrap();
    while let Some(delivery) = ports.queue.receive(1, Duration::from_mins(1), Duration::ZERO).await.unwrap().pop() {
        match engine.turn(&delivery.message, &TurnTime::of(Duration::from_mins(1))).await {
            Ack::Delete => ports.queue.delete(&[delivery.receipt]).await.unwrap(),
            Ack::Bury(reason) => panic!("{reason}"),
            Ack::Leave => {}
        }
    }
}

fn registry() -> Arc<Registry> {
    Arc::new(Registry::new().with(Cashier))
}

fn ports(local: &Local, clock: Arc<dyn Clock>) -> Ports {
    Ports { store: local.store(), queue: local.queue(), blobs: local.blobs(), clock, ids: Arc::new(SystemIds) }
}

/// A run that asks, now or at another time; its id, and that of its approval.
fn asking_at(stepwell: &Stepwell, clock: Arc<dyn Clock>, note: &str, quorum: u32) -> (String, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = Local::open(&stepwell.data(), Arc::clone(&clock), Options::default()).unwrap();
    runtime.block_on(async {
        let ports = ports(&local, clock);
        let input = Json::of(&Refund { order: 7, note: note.into(), quorum }).unwrap();
        let request = StartRequest { workflow: WorkflowName::new("cashier").unwrap(), input, key: None };
        let client = Client::new(ports.clone(), registry());
        let Started { run, .. } = client.start(request).await.unwrap();
        work(&ports).await;
        let stands = client.get(&run).await.unwrap();
        (run.to_string(), stands.progress.approvals[0].id.to_string())
    })
}

fn asking(stepwell: &Stepwell, note: &str, quorum: u32) -> (String, String) {
    asking_at(stepwell, Arc::new(SystemClock), note, quorum)
}

/// Lets the runs go on.
fn go_on(stepwell: &Stepwell) {
    with_local(stepwell, async |local| work(&ports(&local, Arc::new(SystemClock))).await);
}

/// Makes sure that a text has each of these.
#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
}

#[test]
fn what_has_to_be_decided_is_listed_for_whom_it_concerns() {
    let stepwell = Stepwell::new();
    stepwell.start(&["hello", "--input", r#"{"name": "Ada"}"#]);
    let none = stepwell.run(&["approvals"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""), "{none:?}");
    assert!(none.stderr.contains("no approval is open"), "{none:?}");
    assert_eq!(stepwell.json(&["approvals"]), json!([]));

    let (run, id) = asking(&stepwell, "it came broken", 2);
    let listed = stepwell.json(&["approvals"]);
    let one = &listed[0];
    assert_eq!((&one["run"], &one["id"], &one["action"]), (&json!(run), &json!(id), &json!("refund")));
    assert_eq!(one["parameters"], json!({"order": 7, "note": "it came broken", "quorum": 2}));
    assert_eq!(stepwell.json(&["approvals", &run]), listed);
    let text = stepwell.run(&["approvals"]).stdout;
    has(
        &text,
        &[
            &format!("refund {id}\n"),
            &format!("{run}, at step Pay, which waits for it\n"),
            ", 0 of 2 have allowed it\n",
            "role finance or ada\n",
            " on role cfo, too\n",
            "version 1, fingerprint ",
            "\n  order: 7\n",
            "\n  note: it came broken\n",
            &format!("`stepwell approve {run} {id} --by WHO --role ROLE` or `stepwell reject {run} {id} --by WHO"),
        ],
    );
    for (args, found) in [
        (vec!["--role", "finance"], 1),
        (vec!["--by", "ada"], 1),
        (vec!["--by", "eve", "--role", "x", "--role", "finance"], 1),
        (vec!["--by", "eve"], 0),
        // Not before it is escalated.
        (vec!["--role", "cfo"], 0),
    ] {
        let listed = stepwell.json(&[&["approvals"], &args[..]].concat());
        assert_eq!(listed.as_array().unwrap().len(), found, "{args:?}");
    }
    let none = stepwell.run(&["approvals", "--role", "cfo"]);
    assert!(none.stderr.contains("no approval is open that they may decide"), "{none:?}");
}

#[test]
fn as_many_as_have_to_allow_it_and_the_run_goes_on() {
    let stepwell = Stepwell::new();
    let (run, id) = asking(&stepwell, "it came broken", 2);
    let waits = stepwell.run(&["show", &run]).stdout;
    has(
        &waits,
        &[
            &format!("approval {id}, until "),
            &format!("answer it with `stepwell approve {run} {id} --by WHO"),
            &format!("refund {id}: open until "),
            r#"with {"order":7,"note":"it came broken","quorum":2}"#,
            "to undo     reserve (idempotent), 1 call, key ",
            ", by step Unreserve\n",
            "budget      700 cents in the run\n",
            "; for 700 cents; step Unreserve takes it back\n",
        ],
    );
    // Without --by it is the user of this machine.
    let first = stepwell.run(&["approve", &run, &id, "--why", "I have seen it"]);
    let said = format!("approval {id} of run {run} is approved by ada; 1 of 2 have allowed it, so it stays open\n");
    assert_eq!((first.code, first.stdout.as_str()), (Some(0), said.as_str()), "{first:?}");
    let again = stepwell.run(&["approve", &run, &id]);
    assert!(again.code == Some(0) && again.stdout.contains("had been approved by ada before; nothing"), "{again:?}");
    has(
        &stepwell.run(&["approvals"]).stdout,
        &[", 1 of 2 have allowed it\n", "approved    by ada at ", ": I have seen it\n"],
    );

    let second = stepwell.json(&["approve", &run, &id, "--by", "bob", "--role", "finance"]);
    let expected = json!({
        "run": run, "approval": id, "new": true, "answer": "approved", "by": "bob", "roles": ["finance"], "why": null,
        "stands": {"status": "approved", "quorum": 2, "allowed": 2},
    });
    assert_eq!(second, expected);
    go_on(&stepwell);
    let shown = stepwell.run(&["show", &run, "--history"]).stdout;
    has(
        &shown,
        &[
            "completed",
            &format!("refund {id}: used for effect "),
            "approved by ada at ",
            ": I have seen it\n",
            "approved by bob (finance) at ",
            &format!("; under approval {id}"),
            "answered",
            " by ada: I have seen it",
        ],
    );
    assert_eq!(stepwell.json(&["approvals", &run]), json!([]));
    assert_eq!(stepwell.json(&["approvals", &run, "--all"])[0]["status"], "used");
    has(&stepwell.run(&["approvals", &run, "--all"]).stdout, &["used for effect ", "approved    by bob (finance) at "]);
}

#[test]
fn a_rejection_is_told_to_the_run_and_what_it_has_done_is_taken_back() {
    let stepwell = Stepwell::new();
    let (run, id) = asking(&stepwell, "it came broken", 1);
    let rejected = stepwell.run(&["reject", &run, &id, "--by", "bob", "--role", "finance", "--why", "it did not"]);
    assert!(rejected.stdout.contains("is rejected by bob; the run goes on with that"), "{rejected:?}");
    go_on(&stepwell);
    let text = stepwell.run(&["show", &run]).stdout;
    has(
        &text,
        &[
            "terminal: bob says no: it did not\n",
            "undoing     taken back: reserve, since at step Pay it has failed, terminal: bob says no",
            "undone      reserve (idempotent), 1 call, key ",
        ],
    );
    assert!(!text.contains("to undo"), "{text}");
}

#[test]
fn what_cannot_be_taken_back_is_let_stand() {
    let stepwell = Stepwell::new();
    let (run, id) = asking(&stepwell, "stuck", 1);
    let early = ["let-stand", &run, "--why", "it is sold"];
    stepwell.run(&early).failed(3, &["error[not-undoing]", "nothing to let stand"]);
    assert_eq!(stepwell.run(&["reject", &run, &id, "--why", "no"]).code, Some(0));
    go_on(&stepwell);
    let parked = stepwell.run(&["show", &run]).stdout;
    has(
        &parked,
        &[
            "undo: effect reserve (key ",
            &format!("`stepwell resume {run}` tries it again"),
            &format!("`stepwell let-stand {run} --why …` leaves effect "),
            "still to undo reserve (idempotent), 1 call, key ",
        ],
    );
    stepwell.run(&["let-stand", &run]).failed(2, &["--why <TEXT>"]);
    stepwell.run(&["let-stand", &run, "--why", " "]).failed(2, &["it says nothing"]);
    let cancelled = stepwell.run(&["cancel", &run]).stdout;
    let next = [format!("`stepwell resume {run}`"), format!("`stepwell let-stand {run} --why …`")];
    has(&cancelled, &["parked while it takes back what it has done, and waits for a person\n", &next[0], &next[1]]);
    assert!(!cancelled.contains("a worker"), "{cancelled}");
    let stands = stepwell.run(&["let-stand", &run, "--why", "it is sold"]);
    let said = format!("effect reserve of run {run} stands, says ada; the run goes on to its end\n");
    assert_eq!((stands.code, stands.stdout.as_str()), (Some(0), said.as_str()), "{stands:?}");
    go_on(&stepwell);
    let text = stepwell.run(&["show", &run]).stdout;
    has(
        &text,
        &["undoing     stands: reserve, since at", "stands      reserve (idempotent)", ", by ada: it is sold\n"],
    );
    assert!(!text.contains("taken back"), "{text}");
    assert_eq!(stepwell.json(&["show", &run])["status"], "failed");
}

#[test]
fn a_cancelled_run_says_that_it_takes_back_first() {
    let stepwell = Stepwell::new();
    let (run, id) = asking(&stepwell, "it came broken", 1);
    let cancelled = stepwell.run(&["cancel", &run]);
    assert!(
        cancelled.stdout.contains("is to end; a worker takes back what it has done first: 1 effect"),
        "{cancelled:?}"
    );
    assert_eq!(stepwell.json(&["approvals"]), json!([]), "nothing comes of an answer any more");
    has(
        &stepwell.run(&["approvals", "--all"]).stdout,
        &["open, but the run is about to end: no answer is taken any more"],
    );
    go_on(&stepwell);
    let text = stepwell.run(&["show", &run]).stdout;
    has(
        &text,
        &[
            "cancelled",
            "certificate ended at step Pay",
            "undone      reserve (idempotent), 1 call",
            "open when the run ended",
        ],
    );
    assert_eq!(stepwell.json(&["approvals", &run]), json!([]));
    let all = format!("; `stepwell approvals {run} --all` shows what became of its approvals");
    stepwell.run(&["approve", &run, &id]).failed(3, &["error[ended]", "cancelled", &all]);
    let none = stepwell.run(&["approvals", "--all"]);
    has(
        &none.stderr,
        &["no approval of a run that has not ended", "`stepwell approvals RUN --all` shows those of one that"],
    );
}

#[test]
fn an_approval_that_its_run_did_not_use_is_no_promise() {
    let stepwell = Stepwell::new();
    let (run, id) = asking(&stepwell, "it came broken", 1);
    assert_eq!(stepwell.run(&["approve", &run, &id]).code, Some(0));
    assert_eq!(stepwell.run(&["cancel", &run]).code, Some(0));
    go_on(&stepwell);
    assert_eq!(stepwell.json(&["show", &run])["status"], "cancelled");
    let text = stepwell.run(&["approvals", &run, "--all"]).stdout;
    has(&text, &["approved when the run ended: nothing comes of it any more\n"]);
    assert!(!text.contains("may be used"), "{text}");
}

#[test]
fn who_may_not_decide_or_comes_too_late_changes_nothing() {
    let stepwell = Stepwell::new();
    let long = Timestamp(1_600_000_000_000);
    let (old, expired) = asking_at(&stepwell, Arc::new(Standing(long)), "long ago", 1);
    let (run, id) = asking(&stepwell, "it came broken", 1);
    let (other, _) = asking(&stepwell, "another", 1);
    let told = || [&run, &other, &old].map(|run| stepwell.json(&["show", run, "--history"]));
    let before = told();
    let (many, name) = ("w".repeat(1_025), "n".repeat(1_025));
    let refused: [(&[&str], &[&str]); 8] = [
        (
            &["approve", &run, &id, "--by", "eve"],
            &["error[no-authority]", "eve may not decide", "role finance or ada; and from ", " on role cfo, too"],
        ),
        (
            &["reject", &run, &id, "--by", "eve", "--role", "cfo", "--why", "no"],
            &["error[no-authority]", "eve may not"],
        ),
        (&["approve", &run, NO_ID], &["error[no-such-approval]", NO_ID, &format!("`stepwell approvals {run} --all`")]),
        (&["approve", &other, &id], &["error[no-such-approval]"]),
        (&["approve", "r1", &id], &["error[no-such-run]"]),
        (&["approve", &old, &expired], &["error[expired]", "has expired at"]),
        (&["approve", &run, &id, "--why", &many], &["error[bad-value]", "1024"]),
        (&["approve", &run, &id, "--by", &name], &["error[bad-value]", "1024"]),
    ];
    for (args, words) in refused {
        stepwell.run(args).failed(3, words);
    }
    let usage: [(&[&str], &str); 12] = [
        (&["approve", &run, &id, "--role", ""], "it says nothing"),
        (&["approve", &run, &id, "--by", " ada"], "blanks around it"),
        (&["approve", &run, &id, "--role", "finance\t"], "blanks around it"),
        (&["approvals", "--by", "ada "], "blanks around it"),
        (&["approve", &run], "<APPROVAL>"),
        (&["approve", &run, "refund"], "no id of an approval: those are 16 hex"),
        (&["approve", &run, &format!("{id}0")], "no id of an approval"),
        (&["approve", &run, &id, "--why", " "], "it says nothing"),
        (&["approve", &run, &id, "--by", ""], "it says nothing"),
        (&["reject", &run, &id], "--why <TEXT>"),
        (&["reject", &run, &id, "--why", ""], "it says nothing"),
        (&["approvals", &run, "--limit", "3"], "cannot be used with"),
    ];
    for (args, words) in usage {
        stepwell.run(args).failed(2, &[words]);
    }
    let mut nobody = stepwell.command(&["approve", &run, &id]);
    nobody.env_remove("USER");
    common::finish(nobody, "").failed(2, &["--by <WHO>"]);
    assert_eq!(told(), before);
    let listed = stepwell.json(&["approvals"]);
    assert!(listed.as_array().unwrap().iter().all(|approval| approval["run"] != json!(old)), "{listed}");
    has(&stepwell.run(&["approvals", &old, "--all"]).stdout, &["expired, no answer was taken from 2020-09-16T"]);
}

#[test]
fn what_was_decided_stays_so_and_the_answer_that_stands_is_told() {
    let stepwell = Stepwell::new();
    let (run, id) = asking(&stepwell, "it came broken", 1);
    assert_eq!(stepwell.run(&["reject", &run, &id, "--why", "it did not"]).code, Some(0));
    let before = stepwell.json(&["show", &run, "--history"]);
    let late = stepwell.run(&["approve", &run, &id, "--by", "bob", "--role", "finance", "--json"]);
    late.failed(3, &["error[decided]", "was rejected by ada before", ": it did not"]);
    let error = &late.json()["error"];
    let first = (&error["first"]["by"], &error["first"]["answer"], &error["first"]["why"]);
    assert_eq!(first, (&json!("ada"), &json!("rejected"), &json!("it did not")), "{error}");
    stepwell.run(&["approve", &run, &id]).failed(3, &["error[decided]"]);
    assert_eq!(stepwell.json(&["show", &run, "--history"]), before);
}

#[test]
fn hostile_words_do_not_steer_the_terminal() {
    let stepwell = Stepwell::new();
    let evil = "x\u{1b}[2J\u{9b}1m\nstands      approved\r\u{202e}lla\u{2066}\u{200b}\u{7f}";
    let (run, id) = asking(&stepwell, evil, 2);
    let who = format!("{evil} bob");
    let answer = ["approve", &run, &id, "--by", &who, "--role", "finance", "--role", evil, "--why", evil];
    let said = stepwell.run(&answer);
    assert_eq!(said.code, Some(0), "{said:?}");
    let refused = stepwell.run(&["reject", &run, &id, "--by", &who, "--role", "finance", "--why", evil]);
    refused.failed(3, &["error[decided]", r"x\u{1b}[2J"]);
    let shown = stepwell.run(&["show", &run, "--history"]);
    let listed = stepwell.run(&["approvals"]);
    for text in [&said.stdout, &refused.stderr, &shown.stdout, &listed.stdout] {
        let steers = |c: char| c != '\n' && (c.is_control() || "\u{202e}\u{2066}\u{200b}".contains(c));
        assert!(!text.chars().any(steers), "{text:?}");
        // No line of it is taken for one of ours.
        let forged = text.lines().any(|line| line.starts_with("stands      approved"));
        assert!(!forged, "{text:?}");
    }
    has(&listed.stdout, &[r"by x\u{1b}[2J\u{9b}1m\nstands      approved\r\u{202e}lla"]);
    // As JSON it is what it is.
    let answered = &stepwell.json(&["approvals"])[0]["answers"][0];
    assert_eq!((&answered["by"], &answered["why"]), (&json!(who), &json!(evil)));
}

#[test]
fn nobody_decides_on_parameters_that_are_not_shown_whole_unwarned() {
    let stepwell = Stepwell::new();
    let note = format!("{}the end", "ü".repeat(20_000));
    let (run, _) = asking(&stepwell, &note, 1);
    let text = stepwell.run(&["approvals"]).stdout;
    has(&text, &["THE REST IS NOT SHOWN: 40", " bytes, all of it with --json\n"]);
    assert!(!text.contains("the end") && text.len() < 20_000, "{} bytes", text.len());
    let whole: Value = stepwell.json(&["approvals", &run]);
    assert_eq!(whole[0]["parameters"]["note"], json!(note));
}
