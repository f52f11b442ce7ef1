//! What each path costs, counted at the client: every attempt of every request.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::Duration;

use stepwell_aws::sdk::dynamodb::types::AttributeValue;
use stepwell_core::decide::{self, Moment, Rules, StepEnd, StepOutcome};
use stepwell_core::write::{Acquire, LogAppend, Renew, Start, Write, WriteRequest};
use stepwell_core::{
    CancelRequest, Checkpoint, Digest, EffectKey, Json, Lease, Letter, LogId, Message, Payload, Place, RunId, Scope,
    SignalId, SignalName, Timestamp, Usage, WorkerId, WorkflowName, WriteId,
};
use stepwell_localaws::{Counter, Emulators, Resources};
use stepwell_ports::{CheckpointStore, Claim, Claimed, Envelope, Written};
use stepwell_report::Report;

const BEGIN: Timestamp = Timestamp(1_700_000_000_123);

/// One run, written to as the engine would.
struct Run {
    id: RunId,
    store: Arc<dyn CheckpointStore>,
    counter: Counter,
    now: Timestamp,
    writes: u64,
}

impl Run {
    fn new(made: &Resources, id: &str) -> Self {
        let (store, counter) = (made.aws.store(), made.counter.clone());
        counter.take();
        Self { id: RunId::new(id).unwrap(), store, counter, now: BEGIN, writes: 0 }
    }

    async fn write(&mut self, write: Write) -> Checkpoint {
        self.writes += 1;
        let id = WriteId(u64::from(Digest::of(self.id.as_str().as_bytes()).0[0]) * 1_000_000 + self.writes);
        let request = WriteRequest { run: self.id.clone(), id, now: self.now, write };
        match self.store.write(&request).await.unwrap() {
            Written::Applied(checkpoint) => *checkpoint,
            Written::Refused(by) => panic!("{request:?} is refused by {by:?}"),
        }
    }

    async fn start(&mut self) -> Checkpoint {
        let input = Json::of("compare five vendors").unwrap();
        let start = Start {
            workflow: WorkflowName::new("brief").unwrap(),
            version: 1,
            input_digest: Digest::of(input.text().as_bytes()),
            input: Payload::Inline(input),
            step_limit: 1_000,
        };
        self.write(Write::Start(Box::new(start))).await
    }

    async fn acquire(&mut self, seen: &Checkpoint) -> Checkpoint {
        let (owner, since) = (WorkerId::new("runner-7f3a").unwrap(), self.now);
        let lease = Lease { owner, since, until: self.now.plus(Duration::from_secs(30)) };
        self.write(Write::Acquire(Acquire { ticket: seen.progress.ticket, lease })).await
    }

    /// Ends a step of 120 ms.
    async fn step(&mut self, held: &Checkpoint, outcome: StepOutcome, appends: Vec<LogAppend>) -> Checkpoint {
        self.now = self.now.plus(Duration::from_millis(120));
        let end = StepEnd {
            step: held.progress.place.step(),
            version: 1,
            outcome,
            effects: held.progress.journal.clone(),
            consumed: Vec::new(),
            logs: 1,
            appends,
            used: Usage { writes: 1, bytes: 900, ..Usage::default() },
            took: Duration::from_millis(120),
            note: None,
            back: None,
        };
        let moment = Moment { now: self.now, random: 7 };
        let decision = decide::commit(held, end, Rules::default(), moment, true).unwrap();
        self.write(Write::Commit(Box::new(decision.commit))).await
    }
}

/// On to a step, with a state of some 300 bytes.
fn on(number: u64) -> StepOutcome {
    let state = format!(r#"{{"goal":"{}","vendor":{number},"found":{{"log":0,"len":{number}}}}}"#, "x".repeat(250));
    let cursor = Json::from_text(format!(r#"{{"Research":{{"vendor":{number}}}}}"#)).unwrap();
    StepOutcome::Goto { place: Place::At { cursor, state: Payload::Inline(Json::from_text(state).unwrap()) } }
}

fn letter(run: &RunId, number: u64, now: Timestamp) -> Write {
    let id = SignalId::new(format!("signal-{number}-of-{run}")).unwrap();
    let payload = Payload::Inline(Json::of(&number).unwrap());
    Write::Signal(Box::new(Letter { id, name: SignalName::new("chat").unwrap(), payload, at: now }))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_path_stays_in_its_budget() {
    let emulators = Emulators::start();
    let made = Resources::make(&emulators).await;
    let mut report = Report::new("budgets-aws");
    let mut run = Run::new(&made, "019d1b2c-7a10-7c3e-9f42-000000000001");
    let mut is = |what: &str, found: String, expected: &str| {
        let holds = found == expected;
        report.check(&format!("{what}: {found}, not {expected}"), holds);
    };

    let started = run.start().await;
    is("a start", run.counter.take(), "PutItem 1");
    let mut held = run.acquire(&started).await;
    is("an acquire", run.counter.take(), "UpdateItem 1");
    held = run.step(&held, on(1), Vec::new()).await;
    is("a step", run.counter.take(), "UpdateItem 1");
    let until = run.now.plus(Duration::from_mins(1));
    held = run.write(Write::Renew(Renew { fence: held.hold.fence, until })).await;
    is("a renewal", run.counter.take(), "UpdateItem 1");
    let write = letter(&run.id, 1, run.now);
    run.write(write).await;
    is("a signal", run.counter.take(), "UpdateItem 1");
    held = run.store.load(&run.id).await.unwrap().unwrap_or(held);
    is("a load", run.counter.take(), "GetItem 1");
    let entries = vec![Json::of(&"x".repeat(1_000)).unwrap()];
    held = run.step(&held, on(2), vec![LogAppend { log: LogId(0), first: 0, entries: entries.clone() }]).await;
    is("a step that appends to a log", run.counter.take(), "PutItem 1, UpdateItem 1");
    // However long the log is.
    let many = (0..50).map(|number| Json::of(&number).unwrap()).collect();
    held = run.step(&held, on(3), vec![LogAppend { log: LogId(0), first: 1, entries: many }]).await;
    run.counter.take();
    held = run.step(&held, on(4), vec![LogAppend { log: LogId(0), first: 51, entries }]).await;
    let (table, index) = run.counter.take_units();
    // Two for the entry of just over 1 KB, two for the checkpoint of the same size; none for the 52 entries before.
    is("units of a step that appends 1 KB", format!("{table} and {index} in indexes"), "4 and 0 in indexes");
    let cancel = CancelRequest { by: "ann".into(), why: None, at: run.now };
    run.write(Write::Cancel(cancel)).await;
    is("a cancellation", run.counter.take(), "UpdateItem 1");
    assert_eq!(held.progress.revision.0, 4);
    claims(&made, &mut is).await;
    queue(&made, &mut is).await;
    a_run_of_a_hundred_steps(&made, &mut report).await;
    a_run_of_a_hundred_signals(&made, &mut report).await;
    assert!(report.finish().unwrap());
}

/// Who owns a key is told without a read, whether it is the one that asks or another.
async fn claims(made: &Resources, is: &mut impl FnMut(&str, String, &str)) {
    let [first, second] = ["r1", "r2"].map(|run| RunId::new(run).unwrap());
    let workflow = WorkflowName::new("refund").unwrap();
    let key = EffectKey::derive(&first, &workflow, "refund", Scope::Business("order-7"));
    let claim = |run: &RunId, instead_of| Claim { key: key.clone(), by: run.clone().into(), instead_of };
    let (store, mine) = (made.aws.store(), Claimed::Mine);
    let others = Claimed::Of(first.clone().into());
    let paths = [
        ("a first claim", claim(&first, None), &mine),
        ("a repeated claim", claim(&first, None), &mine),
        ("another's claim", claim(&second, None), &others),
        ("a take-over", claim(&second, Some(first.into())), &mine),
    ];
    for (what, claim, expected) in paths {
        made.counter.take();
        assert_eq!(store.claim(&claim).await.as_ref(), Ok(expected), "{what}");
        is(what, made.counter.take(), "UpdateItem 1");
    }
    store.claim(&claim(&second, None)).await.unwrap();
    let (table, index) = made.counter.take_units();
    is("units of a claim", format!("{table} and {index} in indexes"), "1 and 0 in indexes");
}

async fn queue(made: &Resources, is: &mut impl FnMut(&str, String, &str)) {
    let message = Message { run: RunId::new("r").unwrap(), ticket: stepwell_core::Ticket(1) };
    let envelope = Envelope { message, delay: Duration::ZERO };
    made.counter.take();
    made.aws.queue().send(std::slice::from_ref(&envelope)).await.unwrap();
    is("one message", made.counter.take(), "SendMessageBatch 1");
    made.aws.queue().send(&vec![envelope; 25]).await.unwrap();
    is("25 messages", made.counter.take(), "SendMessageBatch 3");
}

/// In one invocation, from start to end.
async fn a_run_of_a_hundred_steps(made: &Resources, report: &mut Report) {
    let mut run = Run::new(made, "019d1b2c-7a10-7c3e-9f42-000000000002");
    let started = run.start().await;
    let mut held = run.acquire(&started).await;
    let mut units = run.counter.take_units();
    let mut requests = std::collections::BTreeMap::from([("PutItem".to_owned(), 1), ("UpdateItem".to_owned(), 1)]);
    let mut of_steps = 0.0;
    for number in 1..=100 {
        let outcome = match number {
            100 => StepOutcome::Complete { output: Payload::Inline(Json::of("done").unwrap()) },
            number => on(number),
        };
        held = run.step(&held, outcome, Vec::new()).await;
        let counted = run.counter.take_all();
        for (operation, count) in counted.requests {
            *requests.entry(operation).or_insert(0) += count;
        }
        units = (units.0 + counted.table_units, units.1 + counted.index_units);
        of_steps += if number < 100 { counted.index_units } else { 0.0 };
    }
    assert!(held.progress.status.phase().is_ended());
    let writes: u64 = requests.values().sum();
    report.check(
        "a run of 100 steps reads nothing",
        requests.keys().all(|name| ["PutItem", "UpdateItem"].contains(&name.as_str())),
    );
    report.check("a run of 100 steps takes at most 110 writes", writes <= 110);
    report.check("a step writes nothing to an index", of_steps == 0.0);
    report.figure("writes of a run of 100 steps", writes).at_most(110.0);
    report.figure("write units of it, table", units.0);
    report.figure("write units of it, indexes", units.1);
}

/// Each consumed by the next step.
async fn a_run_of_a_hundred_signals(made: &Resources, report: &mut Report) {
    let mut run = Run::new(made, "019d1b2c-7a10-7c3e-9f42-000000000003");
    let started = run.start().await;
    let mut held = run.acquire(&started).await;
    run.counter.take();
    let mut writes = 0;
    for number in 0..100 {
        let write = letter(&run.id, number, run.now);
        held = run.write(write).await;
        let consumed = held.mailbox.letters.iter().map(|letter| letter.id.clone()).collect();
        let moment = Moment { now: run.now, random: 7 };
        let end = StepEnd {
            step: "Listen".into(),
            version: 1,
            outcome: on(number),
            effects: Vec::new(),
            consumed,
            appends: Vec::new(),
            logs: 0,
            used: Usage::default(),
            took: Duration::ZERO,
            note: None,
            back: None,
        };
        let decision = decide::commit(&held, end, Rules::default(), moment, true).unwrap();
        held = run.write(Write::Commit(Box::new(decision.commit))).await;
        writes += run.counter.take_all().requests.values().sum::<u64>();
    }
    assert!(held.mailbox.letters.is_empty());
    let key = [("pk", format!("R#{}", run.id)), ("sk", "C".to_owned())];
    let key = key.map(|(name, text)| (name.to_owned(), AttributeValue::S(text))).into();
    let get = made.dynamodb.get_item().table_name(&made.settings.table).set_key(Some(key)).send().await.unwrap();
    let remembered = get.item.unwrap()["d"].as_l().unwrap().len();
    report.check(&format!("{remembered} signal ids are remembered, at most 80"), (64..=80).contains(&remembered));
    report.check("100 signals and the steps that consume them read nothing and write at most 215 times", writes <= 215);
    report.figure("writes of 100 signals and their steps", writes).at_most(215.0);
}
