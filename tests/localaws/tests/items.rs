//! What is in the table and the queue besides what this code has put there.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashMap;
use std::time::Duration;

use stepwell_aws::sdk::dynamodb::types::AttributeValue;
use stepwell_core::write::{Acquire, Amend, Commit, LogAppend, Start, Write, WriteRequest};
use stepwell_core::{
    CancelRequest, Checkpoint, Digest, EffectKey, Json, Lease, Letter, LogId, Message, Payload, RunId, Scope, SignalId,
    SignalName, Status, Ticket, Timestamp, Visit, WorkerId, WorkflowName, WriteId,
};
use stepwell_localaws::{Emulators, Resources};
use stepwell_ports::{Claim, Claimed, Damaged, Envelope, ListQuery, Page, StoreError, Written};

const NOW: Timestamp = Timestamp(1_700_000_000_123);

fn run() -> RunId {
    RunId::new("r").unwrap()
}

async fn send(made: &Resources, id: u64, write: Write) -> Result<Written, StoreError> {
    made.aws.store().write(&WriteRequest { run: run(), id: WriteId(id), now: NOW, write }).await
}

async fn applied(made: &Resources, id: u64, write: Write) -> Checkpoint {
    match send(made, id, write).await {
        Ok(Written::Applied(checkpoint)) => *checkpoint,
        other => panic!("write {id}: {other:?}"),
    }
}

fn start() -> Write {
    let input = Json::of(&7).unwrap();
    Write::Start(Box::new(Start {
        workflow: WorkflowName::new("brief").unwrap(),
        version: 1,
        input_digest: Digest::of(b"7"),
        input: Payload::Inline(input),
        step_limit: 9,
    }))
}

fn acquire(ticket: Ticket) -> Write {
    let lease = Lease { owner: WorkerId::new("w").unwrap(), since: NOW, until: NOW.plus(Duration::from_secs(30)) };
    Write::Acquire(Acquire { ticket, lease })
}

/// Ends the same visit: what the usual update takes for granted does not hold.
fn commit(held: &Checkpoint, status: Status, appends: Vec<LogAppend>) -> Write {
    let mut progress = held.progress.clone();
    progress.revision = progress.revision.next();
    progress.ticket = progress.ticket.next();
    progress.status = status;
    Write::Commit(Box::new(Commit {
        fence: held.hold.fence,
        after: held.progress.revision,
        cancel_seen: held.cancel.is_some(),
        mailbox_seen: None,
        progress,
        lease: None,
        due_at: Some(NOW.next_mark()),
        consumed: held.mailbox.letters.iter().map(|letter| letter.id.clone()).collect(),
        appends,
        segment: None,
        spill: Vec::new(),
    }))
}

fn letter(id: &str) -> Write {
    let (id, name) = (SignalId::new(id).unwrap(), SignalName::new("chat").unwrap());
    Write::Signal(Box::new(Letter { id, name, payload: Payload::Inline(Json::of(&1).unwrap()), at: NOW }))
}

fn key() -> HashMap<String, AttributeValue> {
    [("pk", "R#r"), ("sk", "C")].map(|(name, text)| (name.to_owned(), AttributeValue::S(text.to_owned()))).into()
}

async fn set(made: &Resources, attribute: &str, value: AttributeValue) {
    let update = made.dynamodb.update_item().table_name(&made.settings.table).set_key(Some(key()));
    let update = update.update_expression(format!("SET {attribute} = :v")).expression_attribute_values(":v", value);
    update.send().await.unwrap();
}

async fn unset(made: &Resources, attribute: &str) {
    let update = made.dynamodb.update_item().table_name(&made.settings.table).set_key(Some(key()));
    update.update_expression(format!("REMOVE {attribute}")).send().await.unwrap();
}

async fn item(made: &Resources) -> HashMap<String, AttributeValue> {
    let get = made.dynamodb.get_item().table_name(&made.settings.table).set_key(Some(key())).consistent_read(true);
    get.send().await.unwrap().item.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_newer_code_has_added_is_left_alone() {
    let emulators = Emulators::start();
    let made = Resources::make(&emulators).await;
    applied(&made, 1, start()).await;
    let newer = AttributeValue::M(HashMap::from([("deep".to_owned(), AttributeValue::N("7".to_owned()))]));
    set(&made, "newer", newer.clone()).await;
    let held = applied(&made, 2, acquire(Ticket(1))).await;
    applied(&made, 3, letter("s")).await;
    let held = Checkpoint { mailbox: applied(&made, 4, letter("t")).await.mailbox, ..held };
    let entries = vec![Json::of(&1).unwrap()];
    let append = LogAppend { log: LogId(0), first: 0, entries };
    let committed = applied(&made, 5, commit(&held, Status::Running, vec![append.clone()])).await;
    let held = applied(&made, 6, acquire(committed.progress.ticket)).await;
    // Over an entry that counts: a transaction.
    let parked = commit(&held, Status::Retrying { at: NOW }, vec![append]);
    let retrying = applied(&made, 7, parked).await;
    let mut progress = retrying.progress.clone();
    (progress.revision, progress.visit) = (progress.revision.next(), Visit(0));
    let amend = Amend {
        after: retrying.progress.revision,
        progress,
        tried_since: None,
        due_at: None,
        segment: None,
        consumed: Vec::new(),
    };
    applied(&made, 8, Write::Amend(Box::new(amend))).await;
    applied(&made, 9, Write::Cancel(CancelRequest { by: "ann".into(), why: None, at: NOW })).await;
    assert_eq!(item(&made).await.get("newer"), Some(&newer));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_newer_code_is_left_alone() {
    let emulators = Emulators::start();
    let made = Resources::make(&emulators).await;
    let (store, workflow) = (made.aws.store(), WorkflowName::new("refund").unwrap());
    let key = EffectKey::derive(&run(), &workflow, "refund", Scope::Business("order-7"));
    let claim = Claim { key: key.clone(), by: run().into(), instead_of: None };
    assert_eq!(store.claim(&claim).await, Ok(Claimed::Mine));
    let text = AttributeValue::S;
    let place = [("pk", format!("E#{key}")), ("sk", "E".to_owned())].map(|(name, at)| (name.to_owned(), text(at)));
    let table = &made.settings.table;
    let set = async |what: &str, value: AttributeValue| {
        let update = made.dynamodb.update_item().table_name(table).set_key(Some(place.clone().into()));
        let update = update.update_expression(format!("SET {what} = :v")).expression_attribute_values(":v", value);
        update.send().await.unwrap();
    };
    set("newer", text("7".to_owned())).await;
    assert_eq!(store.claim(&claim).await, Ok(Claimed::Mine));
    set("v", AttributeValue::N("2".to_owned())).await;
    for claim in
        [claim.clone(), Claim { by: RunId::new("r2").unwrap().into(), instead_of: Some(run().into()), ..claim }]
    {
        let answer = store.claim(&claim).await;
        assert!(matches!(&answer, Err(StoreError::Damaged(why)) if why.contains("newer")), "{answer:?}");
    }
    let get = made.dynamodb.get_item().table_name(table).set_key(Some(place.clone().into())).consistent_read(true);
    let stored = get.send().await.unwrap().item.unwrap();
    assert_eq!([&stored["h"], &stored["newer"]].map(|value| value.as_s().unwrap().as_str()), ["r", "7"]);
}

/// The lease is over as soon as it is taken, so nothing but the write's id tells the second try from another acquire.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_sent_twice_is_carried_out_once() {
    let emulators = Emulators::start();
    let made = Resources::make(&emulators).await;
    applied(&made, 1, start()).await;
    let lease = Lease { owner: WorkerId::new("w").unwrap(), since: NOW, until: NOW };
    let acquire = Write::Acquire(Acquire { ticket: Ticket(1), lease });
    let held = applied(&made, 2, acquire.clone()).await;
    assert_eq!(applied(&made, 2, acquire.clone()).await, held);
    assert_eq!(applied(&made, 3, acquire).await.hold.fence, held.hold.fence.next());
}

/// A log that is written again from its front, by more entries than one transaction takes.
#[tokio::test(flavor = "multi_thread")]
async fn more_entries_than_a_transaction_takes_are_replaced() {
    let emulators = Emulators::start();
    let made = Resources::make(&emulators).await;
    let mut held = applied(&made, 1, start()).await;
    for round in 0..2_u64 {
        held = applied(&made, 2 + 2 * round, acquire(held.progress.ticket)).await;
        let entries: Vec<Json> = (0..150).map(|number| Json::of(&[round, number]).unwrap()).collect();
        let append = LogAppend { log: LogId(0), first: 0, entries: entries.clone() };
        held = applied(&made, 3 + 2 * round, commit(&held, Status::Running, vec![append])).await;
        assert_eq!(made.aws.store().log(&run(), LogId(0), 0, 1_000).await.unwrap(), entries);
    }
    let requests = made.counter.take();
    assert!(requests.contains("TransactWriteItems 1"), "{requests}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_of_a_newer_format_is_refused_and_left_alone() {
    let emulators = Emulators::start();
    let made = Resources::make(&emulators).await;
    applied(&made, 1, start()).await;
    set(&made, "v", AttributeValue::N("9".into())).await;
    let before = item(&made).await;
    let cancel = CancelRequest { by: "ann".into(), why: None, at: NOW };
    for write in [start(), acquire(Ticket(1)), letter("s"), Write::Cancel(cancel)] {
        let answer = send(&made, 2, write).await;
        assert!(matches!(&answer, Err(StoreError::Damaged(words)) if words.contains("format 9")), "{answer:?}");
    }
    let answer = made.aws.store().load(&run()).await;
    assert!(matches!(&answer, Err(StoreError::Damaged(words)) if words.contains("format 9")), "{answer:?}");
    assert_eq!(item(&made).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_checkpoint_is_said_to_be() {
    let emulators = Emulators::start();
    let made = Resources::make(&emulators).await;
    applied(&made, 1, start()).await;
    set(&made, "p", AttributeValue::S("{".into())).await;
    for answer in
        [send(&made, 2, acquire(Ticket(2))).await.map(|_| ()), made.aws.store().load(&run()).await.map(|_| ())]
    {
        let is_said = |words: &str| words.contains("run r") && words.contains("\"p\"");
        assert!(matches!(&answer, Err(StoreError::Damaged(words)) if is_said(words)), "{answer:?}");
    }
}

/// Each attribute that a listing reads, as nothing of ours has written it.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_entry_is_damaged_hides_no_other_run() {
    let emulators = Emulators::start();
    let made = Resources::make(&emulators).await;
    let store = made.aws.store();
    for name in ["a", "r", "z"] {
        let run = RunId::new(name).unwrap();
        let started = store.write(&WriteRequest { run, id: WriteId(1), now: NOW, write: start() }).await;
        assert!(matches!(started, Ok(Written::Applied(_))), "{started:?}");
    }
    let sound = item(&made).await;
    let text = |text: &str| AttributeValue::S(text.to_owned());
    for (attribute, damaged) in [("s", text("?")), ("k", text("7")), ("w", text("no name")), ("wa", text("now"))] {
        set(&made, attribute, damaged).await;
        for limit in [1, 2, 10] {
            let query = |after| ListQuery { limit, after, ..ListQuery::default() };
            let listed = all(limit, async |after| store.list(&query(after)).await, |summary| &summary.run).await;
            let due = all(limit, async |after| store.due(NOW.next_mark(), limit, after).await, |due| &due.run).await;
            for (runs, damaged) in [listed, due] {
                assert_eq!(runs, ["a", "z"], "{attribute}, {limit} a page");
                assert!(damaged.iter().all(|damaged| damaged.what.starts_with("run r: ")), "{damaged:?}");
                assert_eq!(damaged.into_iter().map(|damaged| damaged.run).collect::<Vec<_>>(), [run()]);
            }
        }
        match sound.get(attribute) {
            Some(value) => set(&made, attribute, value.clone()).await,
            None => unset(&made, attribute).await,
        }
    }
}

/// What all pages show, in the order of the runs' names.
async fn all<T>(
    limit: usize,
    page: impl AsyncFn(Option<String>) -> Result<Page<T>, StoreError>,
    run: impl Fn(&T) -> &RunId,
) -> (Vec<String>, Vec<Damaged>) {
    let (mut runs, mut damaged, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let found = page(after).await.unwrap();
        assert!(found.items.len() + found.damaged.len() <= limit);
        runs.extend(found.items.iter().map(|item| run(item).to_string()));
        damaged.extend(found.damaged);
        after = found.next;
        if after.is_none() {
            runs.sort_unstable();
            return (runs, damaged);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_another_form_becomes_a_dead_letter() {
    let emulators = Emulators::start();
    let made = Resources::make(&emulators).await;
    let (queue, settings) = (made.aws.queue(), &made.settings);
    let foreign = format!("no message of ours {}", "x".repeat(3_000));
    made.sqs.send_message().queue_url(&settings.queue_url).message_body(&foreign).send().await.unwrap();
    let envelope = Envelope { message: Message { run: run(), ticket: Ticket(1) }, delay: Duration::ZERO };
    queue.send(std::slice::from_ref(&envelope)).await.unwrap();
    let mut got = Vec::new();
    for _ in 0..2 {
        got.extend(queue.receive(10, Duration::from_mins(1), Duration::from_secs(1)).await.unwrap());
    }
    assert_eq!(got.into_iter().map(|delivery| delivery.message).collect::<Vec<_>>(), [envelope.message]);
    let receive = made.sqs.receive_message().queue_url(&settings.dead_letter_url).message_attribute_names("All");
    let dead = receive.send().await.unwrap().messages.unwrap();
    assert_eq!(dead[0].body.as_deref(), Some(foreign.as_str()));
    let reason = dead[0].message_attributes.as_ref().unwrap()[stepwell_aws::REASON_ATTRIBUTE].string_value.clone();
    assert!(reason.unwrap().contains("is not {\"v\":1"));
}
