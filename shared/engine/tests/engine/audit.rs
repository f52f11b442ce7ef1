//! The auditor: whatever was deleted, altered, forgotten or damaged is found, by run and by number; nothing else is, and it only reads.
//! That a run which is well has no finding is held in all tests of this crate: whenever a world has come to rest, and of each
//! checkpoint that is written ([`crate::bed`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stepwell::Registry;
use stepwell::prelude::*;
use stepwell_core::audit::{Finding, Referrer, WakeSource};
use stepwell_core::{BlobRef, Json, LogId, Payload, Phase, Revision, RunId, WorkerId, WorkflowName, reference};
use stepwell_engine::{AuditPage, AuditQuery, Client, ClientError, Engine, Found, Ports, Settings, WorkerSettings};
use stepwell_ports::{BlobStore as _, CheckpointStore, ListQuery, StoreError};
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, GRACE, MARK, minute, one_step, secs};
use crate::flawed::{Flaw, Flawed};
use crate::story::{ANSWER, Outside, Story};

const MORE: Signal<String> = Signal::new("more");
/// Steps that leave a note, before the run waits.
const NOTES: u32 = 40;

/// Leaves a note in a log at each step, with a page in a blob of its own, and refers to the newest page; then waits for ever.
struct Notes;

#[derive(Serialize, Deserialize)]
enum At {
    Write,
    Wait,
}

#[derive(Default, Serialize, Deserialize)]
struct Book {
    written: u32,
    newest: Option<Blob<String>>,
    notes: Log<Note>,
}

#[derive(Serialize, Deserialize)]
struct Note {
    number: u32,
    page: Blob<String>,
}

impl Workflow for Notes {
    const NAME: &'static str = "notes";
    const KEEPS_STATES: bool = true;
    type Input = String;
    type State = Book;
    type Step = At;
    type Output = (u32, Blob<String>);

    fn begin(&self, _: String) -> (At, Book) {
        (At::Write, Book::default())
    }

    fn signals() -> Signals {
        Signals::none().and(MORE)
    }

    async fn step(&self, at: At, book: &mut Book, cx: &Cx) -> StepResult<Self> {
        match at {
            At::Write if book.written < NOTES => {
                let number = book.written;
                book.newest = Some(cx.blob(format!("newest {number}").as_str()).await?);
                book.notes.push(Note { number, page: cx.blob(format!("page {number}").as_str()).await? });
                book.written += 1;
                Ok(goto(At::Write))
            }
            At::Write => Ok(wait(At::Wait).for_signal(MORE).without_deadline()),
            At::Wait => {
                let more = cx.take(MORE).await?;
                assert_eq!(cx.read(&book.notes).await?.len(), NOTES as usize);
                Ok(complete((book.written, cx.blob(format!("{more:?}").as_str()).await?)))
            }
        }
    }
}

fn bed() -> Bed {
    Bed::new(Registry::new().with(Notes).with(Story(Outside::default())))
}

/// A run that has left its notes and waits.
async fn noted() -> (Bed, RunId) {
    let bed = bed();
    let run = bed.start::<Notes>("x".repeat(10_000)).await;
    bed.settle().await;
    (bed, run)
}

fn blob_of(run: &RunId, text: &str) -> BlobRef {
    BlobRef::of(run, &serde_json::to_vec(text).unwrap())
}

fn codes(found: &[Found]) -> Vec<(&'static str, u8)> {
    found.iter().map(|found| (found.finding.code(), found.finding.invariant())).collect()
}

/// The auditor of the same world, with another store.
fn auditor(bed: &Bed, store: Arc<dyn CheckpointStore>) -> Client {
    Client::new(Ports { store, ..bed.ports_behind(&Gate::open()) }, bed.registry.clone())
}

async fn audit(client: &Client) -> Vec<Found> {
    let query = AuditQuery { workflow: None, grace: GRACE, limit: 100, after: None };
    client.audit(&query).await.unwrap().findings
}

#[tokio::test(start_paused = true)]
async fn an_audit_counts_what_it_has_looked_at_and_writes_nothing() {
    let (bed, run) = noted().await;
    let waits = bed.start::<Story>(()).await;
    bed.settle().await;
    let new = bed.start::<Story>(()).await;
    let page = bed.audit(GRACE).await;
    assert_eq!(page.findings, []);
    assert_eq!((page.runs, page.live, page.unknowns, page.next), (3, 3, 0, None));
    assert_eq!(page.wake, BTreeMap::from([(WakeSource::Signal, 2), (WakeSource::Message, 1)]));
    // Each note's page, and the newest of the others. And the story's one page.
    assert_eq!(page.blobs, u64::from(NOTES + 2));

    let gate = Gate::open();
    let query = AuditQuery { workflow: Some(WorkflowName::new("story").unwrap()), grace: GRACE, limit: 1, after: None };
    let client = bed.client_behind(&gate);
    let first = client.audit(&query).await.unwrap();
    let second = client.audit(&AuditQuery { after: first.next.clone(), ..query }).await.unwrap();
    assert_eq!((first.runs, second.runs, second.next), (1, 1, None));
    let looked = [PortCall::List, PortCall::Load, PortCall::History, PortCall::Log, PortCall::GetBlob];
    let looks: usize = looked.iter().map(|call| gate.count(*call)).sum();
    assert_eq!(gate.total(), looks as u64, "it only looks");
    assert_eq!(gate.count(PortCall::Load), 2, "a run that is well is read once");
    let _ = (run, waits, new);
}

#[tokio::test(start_paused = true)]
async fn a_blob_that_is_gone_or_altered_is_found_wherever_it_is_referred_to() {
    let (bed, run) = noted().await;
    for (text, of) in [
        (format!("newest {}", NOTES - 1), Referrer::State),
        ("page 0".into(), Referrer::Log),
        (format!("page {}", NOTES - 1), Referrer::Log),
    ] {
        let blob = blob_of(&run, &text);
        let good = bed.memory.get(&blob).await.unwrap();
        bed.memory.damage(&blob, None);
        let finding = Finding::MissingBlob { key: blob.key.clone(), of };
        assert_eq!(bed.audited().await, [Found { run: run.clone(), finding }], "{text}");
        bed.memory.damage(&blob, Some(b"\"other\"".to_vec()));
        assert_eq!(codes(&bed.audited().await), [("altered-blob", 9)], "{text}");
        bed.memory.damage(&blob, Some(good));
        assert_eq!(bed.audited().await, [], "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_value_that_is_gone_is_found_from_the_input_to_the_output() {
    let bed = bed();
    let run = bed.start::<Notes>("x".repeat(10_000)).await;
    let missing = async |of, blob: &Payload| {
        let Payload::Blob(blob) = blob else { panic!("it lies in the checkpoint: {blob:?}") };
        let good = bed.memory.get(blob).await.unwrap();
        bed.memory.damage(blob, None);
        let finding = Finding::MissingBlob { key: blob.key.clone(), of };
        assert_eq!(bed.audited().await, [Found { run: run.clone(), finding }]);
        bed.memory.damage(blob, Some(good));
        assert_eq!(bed.audited().await, []);
    };
    let checkpoint = bed.checkpoint(&run).await;
    missing(Referrer::Input, stepwell_core::decide::repair::known(&checkpoint)).await;
    bed.settle().await;
    bed.signal(&run, MORE, "y".repeat(10_000)).await;
    let letter = bed.checkpoint(&run).await.mailbox.letters[0].clone();
    missing(Referrer::Signal, &letter.payload).await;
    bed.settle().await;
    // Its result names a blob, which is as much as it is.
    let output: serde_json::Value = bed.output(&run).await;
    let [blob] = &reference::blobs(&output)[..] else { panic!("{output}") };
    missing(Referrer::Output, &Payload::Blob(blob.clone())).await;
}

#[tokio::test(start_paused = true)]
async fn what_somebody_sends_refers_to_nothing() {
    let (bed, run) = noted().await;
    let blob = Json::of(&blob_of(&run, "no such page")).unwrap();
    let strange = Json::of(&BlobRef { key: "elsewhere/x".into(), ..blob_of(&run, "x") }).unwrap();
    bed.signal(&run, MORE, format!("{} {}", blob.text(), strange.text())).await;
    let other = bed.start::<Notes>(blob.text()).await;
    assert_eq!(bed.audited().await, []);
    let _ = other;
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_message_was_lost_is_found_unless_the_sweeper_finds_it_first() {
    let bed = bed();
    let run = bed.start::<Story>(()).await;
    assert_eq!(bed.messages().await.len(), 1, "lost");
    let since = bed.checkpoint(&run).await.due_at.unwrap();
    tokio::time::sleep(since.plus(GRACE).since(bed.now())).await;
    assert_eq!(bed.audited().await, []);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let finding = Finding::Forgotten { source: WakeSource::Message, since };
    assert_eq!(bed.audited().await, [Found { run: run.clone(), finding }]);
    // A longer grace is a longer one.
    assert_eq!(bed.audit(GRACE + MARK).await.findings, []);
    bed.engine().sweep(MARK).await.unwrap();
    bed.settle().await;
    assert_eq!(bed.audited().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_signal_whose_sender_has_died_is_found() {
    let (bed, run) = noted().await;
    let gate = Gate::planned(|_, call| if call == PortCall::Send { Fate::Unavailable } else { Fate::Pass });
    let sent = bed.client_behind(&gate).signal(crate::bed::letter(&run, MORE, "more".into(), None)).await;
    assert!(matches!(sent, Err(ClientError::NotSent { .. })), "{sent:?}");
    tokio::time::sleep(MARK + GRACE).await;
    assert_eq!(codes(&bed.audited().await), [("forgotten", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_forgets_marks_leaves_runs_without_a_wake_source() {
    let bed = bed();
    let run = bed.start::<Notes>(String::new()).await;
    // Past the witness, who would not have it.
    let engine_on = |store: Arc<dyn CheckpointStore>| {
        let settings = Settings { worker: WorkerId::new("w").unwrap(), rules: bed.rules };
        let ports = Ports { store, ..bed.ports_behind(&Gate::open()) };
        Engine::new(ports, bed.registry.clone(), settings).unwrap()
    };
    let delivery = bed.receive(secs(1)).await.unwrap();
    bed.work(&engine_on(Flawed::new(&bed, Flaw::DropsMarks)), &delivery, &one_step()).await;
    let page = bed.audit(GRACE).await;
    assert_eq!(codes(&page.findings), [("contradiction", 10), ("no-wake-source", 10)]);
    assert!(page.findings.iter().all(|found| found.run == run));
    assert_eq!((page.live, page.wake.len()), (1, 0), "it is live, and counted under no source");
    // It has none, but its message was sent all the same.
    let delivery = bed.receive(secs(1)).await.unwrap();
    bed.work(&engine_on(bed.memory.clone()), &delivery, &minute()).await;
    assert_eq!(bed.audited().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_gap_in_what_lies_beside_a_checkpoint_is_found() {
    let (bed, run) = noted().await;
    let segments = bed.memory.history(&run, Revision(1), 100).await.unwrap();
    assert!(segments.len() > 4, "a long history: {}", segments.len());
    for segment in &segments {
        let auditor = auditor(&bed, Flawed::new(&bed, Flaw::LosesSegment(segment.from.0)));
        let finding = Finding::HistoryGap { from: segment.from, to: segment.end() };
        assert_eq!(audit(&auditor).await, [Found { run: run.clone(), finding }]);
    }
    for found in [0, 7, u64::from(NOTES) - 1] {
        let auditor = auditor(&bed, Flawed::new(&bed, Flaw::LosesEntries(found)));
        let finding = Finding::ShortLog { log: LogId(1), counted: u64::from(NOTES), found };
        assert_eq!(audit(&auditor).await, [Found { run: run.clone(), finding }]);
    }
}

/// What a log has lost is not read over.
#[tokio::test(start_paused = true)]
async fn a_step_that_reads_a_log_with_a_gap_parks_its_run_and_names_the_entry() {
    for lost in [0, 7, u64::from(NOTES) - 1] {
        let (bed, run) = noted().await;
        bed.signal(&run, MORE, "one more".to_owned()).await;
        let settings = Settings { worker: WorkerId::new("w").unwrap(), rules: bed.rules };
        let ports = Ports { store: Flawed::new(&bed, Flaw::LosesEntries(lost)), ..bed.ports_behind(&Gate::open()) };
        let engine = Engine::new(ports, bed.registry.clone(), settings).unwrap();
        let delivery = bed.receive(secs(1)).await.unwrap();
        bed.work(&engine, &delivery, &minute()).await;
        let reason = bed.parked(&run).await.to_string();
        assert!(reason.contains(&format!("entry {lost} of log 1 of run {run} is missing")), "{reason}");
        // It was restored.
        bed.resume(&run).await;
        bed.settle().await;
        assert_eq!(bed.phase(&run).await, Phase::Completed);
    }
}

#[test]
fn two_pages_come_to_what_both_have() {
    let page = |number: u64, source| AuditPage {
        runs: number,
        live: number + 1,
        wake: [(source, number + 2)].into(),
        unknowns: number + 3,
        blobs: number + 4,
        findings: Vec::new(),
        next: Some(number.to_string()),
    };
    let (timer, signal) = (WakeSource::Timer, WakeSource::Signal);
    let sum = page(10, timer).plus(page(200, signal)).plus(AuditPage { next: None, ..page(3_000, timer) });
    assert_eq!((sum.runs, sum.live, sum.unknowns, sum.blobs, sum.next), (3_210, 3_213, 3_219, 3_222, None));
    assert_eq!(sum.wake, [(timer, 3_014), (signal, 202)].into());
}

#[tokio::test(start_paused = true)]
async fn a_damaged_run_is_a_finding_and_not_the_end_of_the_audit() {
    let (bed, run) = noted().await;
    for flaw in [Flaw::Damaged, Flaw::DamagedHistory] {
        let found = audit(&auditor(&bed, Flawed::new(&bed, flaw))).await;
        assert_eq!(codes(&found), [("unreadable", 9)]);
        assert!(found[0].run == run && found[0].finding.to_string().contains("it cannot be read"));
    }
    // A store that is away tells nothing of its runs.
    let query = AuditQuery { workflow: None, grace: GRACE, limit: 1, after: None };
    let away = auditor(&bed, Flawed::new(&bed, Flaw::Away)).audit(&query).await;
    assert!(matches!(away, Err(ClientError::Store(StoreError::Unavailable(_)))), "{away:?}");
    let none = bed.client().audit(&AuditQuery { limit: 0, ..query }).await;
    assert!(matches!(none, Err(ClientError::Store(StoreError::Invalid(_)))), "{none:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_entry_is_damaged_is_a_finding_and_hides_no_other() {
    let (bed, _) = noted().await;
    for _ in 0..4 {
        bed.start::<Story>(()).await;
    }
    bed.settle().await;
    let client = auditor(&bed, Flawed::new(&bed, Flaw::DamagedEntry));
    let mut query = AuditQuery { workflow: None, grace: GRACE, limit: 3, after: None };
    let mut pages = Vec::new();
    loop {
        let page = client.audit(&query).await.unwrap();
        assert_eq!(codes(&page.findings), [("unreadable", 9)]);
        assert!(page.findings[0].finding.to_string().contains("its phase is unknown"), "{:?}", page.findings);
        pages.push(page.runs);
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(pages, [3, 2]);
    // Whoever asks for the runs themselves is told that one is missing.
    for answer in [
        client.list(&ListQuery { limit: 3, ..ListQuery::default() }).await.map(|page| page.items.len()),
        client.list(&ListQuery { limit: 1, ..ListQuery::default() }).await.map(|page| page.items.len()),
    ] {
        assert!(matches!(&answer, Err(ClientError::Store(StoreError::Damaged(_)))), "{answer:?}");
    }
}

/// Keeps a log, and refers to nothing else.
struct Diary;

impl Workflow for Diary {
    const NAME: &'static str = "diary";
    type Input = ();
    type State = Log<String>;
    type Step = ();
    type Output = ();

    fn begin(&self, (): ()) -> ((), Log<String>) {
        ((), Log::new())
    }

    fn signals() -> Signals {
        Signals::none().and(MORE)
    }

    async fn step(&self, (): (), log: &mut Log<String>, _: &Cx) -> StepResult<Self> {
        log.push("a line".to_owned());
        Ok(wait(()).for_signal(MORE).without_deadline())
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_is_read_as_far_as_it_counts() {
    let bed = Bed::new(Registry::new().with(Diary));
    bed.start::<Diary>(()).await;
    bed.settle().await;
    assert_eq!(codes(&audit(&auditor(&bed, Flawed::new(&bed, Flaw::LosesEntries(0)))).await), [("short-log", 9)]);
    assert_eq!(audit(&auditor(&bed, Flawed::new(&bed, Flaw::HasMoreEntries))).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_history_is_asked_for_once_where_there_is_one() {
    let (bed, run) = noted().await;
    let asked = async |flaw| {
        let store = Flawed::new(&bed, flaw);
        let found = audit(&auditor(&bed, store.clone())).await;
        (codes(&found), store.segments_asked())
    };
    assert_eq!(asked(Flaw::None).await, (vec![], vec![64]));
    // One with a finding is looked at twice.
    let last = bed.memory.history(&run, Revision(0), 64).await.unwrap().pop().unwrap();
    assert_eq!(asked(Flaw::LosesSegment(last.from.0)).await, (vec![("history-gap", 2)], vec![64, 64]));
    let bed = Bed::new(Registry::new().with(Diary));
    bed.start::<Diary>(()).await;
    bed.settle().await;
    let store = Flawed::new(&bed, Flaw::None);
    assert_eq!(audit(&auditor(&bed, store.clone())).await, []);
    assert_eq!(store.segments_asked(), [0; 0], "all of it is in the checkpoint");
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_when_a_run_is_looked_at_again_is_no_finding() {
    let (bed, _) = noted().await;
    assert_eq!(audit(&auditor(&bed, Flawed::new(&bed, Flaw::Flickers))).await, []);
    assert_eq!(codes(&audit(&auditor(&bed, Flawed::new(&bed, Flaw::Lies))).await), [("counter", 1)]);
}

#[tokio::test(start_paused = true)]
async fn runs_that_are_worked_on_while_they_are_audited_have_no_finding() {
    let bed = bed();
    for _ in 0..20 {
        bed.start::<Notes>(String::new()).await;
        bed.start::<Story>(()).await;
    }
    let slow =
        || Gate::planned(|_, call| if call == PortCall::Commit { Fate::SlowAnswer(secs(1)) } else { Fate::Pass });
    let workers = ["a", "b"].map(|name| bed.worker_behind(&slow(), name, WorkerSettings::default()));
    let mut seen = 0;
    for _ in 0..50 {
        let page = bed.audit(GRACE).await;
        assert_eq!(page.findings, []);
        seen += page.wake.get(&WakeSource::Lease).copied().unwrap_or_default();
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    assert!(seen > 0, "some were held while they were looked at");
    for run in bed.client().list(&ListQuery { limit: 100, ..ListQuery::default() }).await.unwrap().items {
        if run.workflow.as_str() == "story" {
            bed.signal(&run.run, ANSWER, "yes".into()).await;
        }
    }
    tokio::time::sleep(Duration::from_mins(10)).await;
    let page = bed.audit(GRACE).await;
    assert_eq!((page.findings, page.live), (Vec::new(), 20));
    drop(workers);
}
