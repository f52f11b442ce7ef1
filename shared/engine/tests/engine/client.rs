//! The client: starting once, checks at the edge, history, and requests whose sender died half-way.

use std::sync::Arc;

use stepwell::prelude::*;
use stepwell_core::decide::Resume;
use stepwell_core::history::EntryKind;
use stepwell_core::{Json, Phase, Revision, RunId, SignalId, SignalName, WorkflowName};
use stepwell_engine::{Client, ClientError, SignalRequest, StartRequest};
use stepwell_ports::ListQuery;
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, MARK, letter, minute, secs};

const MORE: Signal<u32> = Signal::new("more");

/// Counts up to its input, then waits for more, for ever.
struct Counter;

#[derive(Serialize, Deserialize)]
struct Input {
    to: u32,
    label: String,
}

#[derive(Serialize, Deserialize)]
enum At {
    Count,
    More,
}

impl Workflow for Counter {
    const NAME: &'static str = "counter";
    type Input = Input;
    type State = (u32, u32);
    type Step = At;
    type Output = ();

    fn begin(&self, input: Input) -> (At, (u32, u32)) {
        (At::Count, (0, input.to))
    }

    fn signals() -> Signals {
        Signals::none().and(MORE)
    }

    async fn step(&self, at: At, (count, to): &mut (u32, u32), cx: &Cx) -> StepResult<Self> {
        match at {
            At::Count => *count += 1,
            At::More => *to += cx.take(MORE).await?.unwrap_or(0),
        }
        Ok(if count < to { goto(At::Count) } else { wait(At::More).for_signal(MORE).without_deadline() })
    }
}

fn bed() -> Bed {
    Bed::new(Registry::new().with(Counter))
}

fn start(text: &str, key: Option<&str>) -> StartRequest {
    let (workflow, input) = (WorkflowName::new("counter").unwrap(), Json::from_text(text.into()).unwrap());
    StartRequest { workflow, input, key: key.map(str::to_owned) }
}

const INPUT: &str = r#"{"to":3,"label":"a"}"#;

/// A client one of whose calls has another fate than passing.
fn client_with(bed: &Bed, on: PortCall, fate: Fate) -> (Client, Arc<Gate>) {
    let mut done = false;
    let gate =
        Gate::planned(move |_, call| if call == on && !std::mem::replace(&mut done, true) { fate } else { Fate::Pass });
    (bed.client_behind(&gate), gate)
}

/// Steps of the run that have ended.
async fn count(bed: &Bed, run: &RunId) -> usize {
    let history = bed.history(run).await;
    crate::bed::count(&history, EntryKind::Stepped) + crate::bed::count(&history, EntryKind::Waited)
}

#[tokio::test(start_paused = true)]
async fn the_same_key_and_input_start_one_run() {
    let bed = bed();
    let first = bed.client().start(start(INPUT, Some("k"))).await.unwrap();
    // The same input, written in another way.
    let second = bed.client().start(start(r#"{ "label": "a", "to": 3 }"#, Some("k"))).await;
    let second = second.unwrap();
    assert!(first.new && !second.new);
    assert_eq!(first.run, second.run);
    bed.settle().await;
    let third = bed.client().start(start(INPUT, Some("k"))).await.unwrap();
    assert_eq!((&third.run, third.new), (&first.run, false));
    assert_eq!(bed.client().list(&ListQuery { limit: 10, ..ListQuery::default() }).await.unwrap().items.len(), 1);
    assert_eq!(count(&bed, &first.run).await, 3);
}

#[tokio::test(start_paused = true)]
async fn the_same_key_with_another_input_is_refused() {
    let bed = bed();
    let first = bed.client().start(start(INPUT, Some("k"))).await.unwrap();
    let refused = bed.client().start(start(r#"{"to":4,"label":"a"}"#, Some("k"))).await.unwrap_err();
    assert!(matches!(&refused, ClientError::KeyConflict { run } if *run == first.run), "{refused}");
    assert_eq!(refused.code(), "key-conflict");
    bed.settle().await;
    assert_eq!(count(&bed, &first.run).await, 3);
}

#[tokio::test(start_paused = true)]
async fn without_a_key_each_start_is_a_run() {
    let bed = bed();
    let client = bed.client();
    let (first, second) =
        (client.start(start(INPUT, None)).await.unwrap(), client.start(start(INPUT, None)).await.unwrap());
    assert!(first.new && second.new && first.run != second.run);
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_send_failed_says_so_and_can_be_repeated() {
    let bed = bed();
    let (client, _) = client_with(&bed, PortCall::Send, Fate::Unavailable);
    let failed = client.start(start(INPUT, Some("k"))).await.unwrap_err();
    let ClientError::NotSent { run, .. } = failed else { panic!("{failed}") };
    assert_eq!(bed.messages().await, []);
    let again = client.start(start(INPUT, Some("k"))).await.unwrap();
    assert_eq!((again.run, again.new), (run.clone(), false));
    bed.settle().await;
    assert_eq!(count(&bed, &run).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_sender_died_before_the_message_is_found_by_the_watchdog() {
    let bed = bed();
    let (client, gate) = client_with(&bed, PortCall::Send, Fate::DieBefore);
    assert!(gate.fuse().while_alive(client.start(start(INPUT, Some("k")))).await.is_none());
    let run = RunId::for_key(&WorkflowName::new("counter").unwrap(), "k");
    assert_eq!(bed.phase(&run).await, Phase::Created);
    let worker = bed.worker("w");
    bed.until_phase(&run, Phase::Waiting).await;
    assert!(bed.elapsed() <= MARK + secs(16), "{:?}", bed.elapsed());
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn requests_whose_replies_were_lost_are_answered_as_if_they_were_not() {
    let bed = bed();
    for fate in [Fate::LostAfter, Fate::LostBefore, Fate::Throttled, Fate::Unavailable, Fate::Late(secs(60))] {
        let (client, _) = client_with(&bed, PortCall::Start, fate);
        let started = client.start(start(INPUT, None)).await.unwrap();
        assert!(started.new, "{fate:?}");
        bed.settle().await;
        let run = started.run;
        let (client, _) = client_with(&bed, PortCall::Signal, fate);
        assert!(client.signal(letter(&run, MORE, 2, None)).await.unwrap().new, "{fate:?}");
        bed.settle().await;
        let (client, _) = client_with(&bed, PortCall::Cancel, fate);
        assert!(client.cancel(&run, "ann", None).await.unwrap().new, "{fate:?}");
        bed.settle().await;
        // The late one has happened by now, and changed nothing.
        let checkpoint = bed.checkpoint(&run).await;
        assert_eq!((checkpoint.progress.status.phase(), checkpoint.mailbox.seq.0), (Phase::Cancelled, 1), "{fate:?}");
        assert_eq!(count(&bed, &run).await, 6, "{fate:?}: {}", bed.story(&run).await);
    }
    assert_eq!(bed.witness.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_away_is_reported_and_nothing_is_done() {
    let bed = bed();
    let gate = Gate::planned(|_, call| if call == PortCall::Start { Fate::Unavailable } else { Fate::Pass });
    let failed = bed.client_behind(&gate).start(start(INPUT, None)).await.unwrap_err();
    assert_eq!(failed.code(), "unavailable");
    // Six tries, with pauses of 50 ms that double.
    assert_eq!((gate.count(PortCall::Start), bed.elapsed().as_millis()), (6, 50 + 100 + 200 + 400 + 800));
    assert_eq!(bed.messages().await, []);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_refused_at_the_edge_by_name_and_path() {
    let bed = bed();
    let refuse = async |text: &str| bed.client().start(start(text, None)).await.unwrap_err().to_string();
    let refused = refuse(r#"{"to":"three","label":"a"}"#).await;
    assert!(refused.contains("at `to`") && refused.contains("counter"), "{refused}");
    let refused = refuse(r#"{"to":3}"#).await;
    assert!(refused.contains("missing field `label`"), "{refused}");
    let mut unknown = start(INPUT, None);
    unknown.workflow = WorkflowName::new("contre").unwrap();
    let refused = bed.client().start(unknown).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no workflow contre; this program knows: counter");
    assert_eq!(bed.witness.seen().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn signals_are_checked_before_they_are_sent() {
    let bed = bed();
    let run = bed.client().start(start(INPUT, None)).await.unwrap().run;
    let request = |run: &RunId, name: &str, text: &str| SignalRequest {
        run: run.clone(),
        name: SignalName::new(name).unwrap(),
        payload: Json::from_text(text.into()).unwrap(),
        id: Some(SignalId::new("s").unwrap()),
    };
    let refuse = async |request: SignalRequest| bed.client().signal(request).await.unwrap_err();
    let refused = refuse(request(&run, "less", "1")).await;
    assert!(refused.to_string().contains("accepts no signal less; it accepts: more"), "{refused}");
    let refused = refuse(request(&run, "more", r#""one""#)).await;
    assert!(refused.to_string().contains("signal more of workflow counter does not fit"), "{refused}");
    let refused = refuse(request(&RunId::new("nobody").unwrap(), "more", "1")).await;
    assert!(matches!(refused, ClientError::NoSuchRun(_)), "{refused}");
    // A program that does not know the workflow cannot check, so it does not send.
    let stranger = Client::new(bed.ports_behind(&Gate::open()), Arc::new(Registry::new()));
    let refused = stranger.signal(request(&run, "more", "1")).await.unwrap_err();
    assert!(matches!(refused, ClientError::UnknownWorkflow { .. }), "{refused}");
    assert_eq!(bed.checkpoint(&run).await.mailbox.seq.0, 0);
}

#[tokio::test(start_paused = true)]
async fn a_signals_id_stands_for_one_signal() {
    let bed = bed();
    let run = bed.client().start(start(INPUT, None)).await.unwrap().run;
    assert!(bed.try_signal(&run, MORE, 2, Some("s")).await.unwrap().new);
    assert!(!bed.try_signal(&run, MORE, 2, Some("s")).await.unwrap().new);
    let refused = bed.try_signal(&run, MORE, 3, Some("s")).await.unwrap_err();
    assert!(matches!(refused, ClientError::SignalConflict { .. }), "{refused}");
    assert_eq!(bed.checkpoint(&run).await.mailbox.letters.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_signal_whose_sender_died_before_the_message_is_found_by_the_watchdog() {
    let bed = bed();
    let run = bed.client().start(start(INPUT, None)).await.unwrap().run;
    bed.settle().await;
    let (client, gate) = client_with(&bed, PortCall::Send, Fate::DieBefore);
    assert!(gate.fuse().while_alive(client.signal(letter(&run, MORE, 2, None))).await.is_none());
    assert_eq!(bed.messages().await, []);
    let from = bed.now();
    let worker = bed.worker("w");
    bed.until(&run, |checkpoint| checkpoint.mailbox.letters.is_empty()).await;
    assert!(bed.now().since(from) <= MARK + secs(16));
    worker.stop().await;
    assert_eq!(count(&bed, &run).await, 6);
}

#[tokio::test(start_paused = true)]
async fn history_is_complete_and_in_order_over_many_segments() {
    let bed = bed();
    let run = bed.client().start(start(r#"{"to":1000,"label":"a"}"#, None)).await.unwrap().run;
    // Each commit takes a moment, and so does each page that is read: segments are written while others are read.
    let moment = std::time::Duration::from_millis(1);
    let slow = move |on: PortCall| {
        Gate::planned(move |_, call| if call == on { Fate::SlowStart(moment * 5) } else { Fate::Pass })
    };
    let client = bed.client_behind(&slow(PortCall::History));
    let reading = async {
        let mut longest = 0;
        for _ in 0..150 {
            tokio::time::sleep(moment * 7).await;
            let entries = client.history(&run, Revision(0)).await.unwrap();
            let revisions: Vec<u64> = entries.iter().map(|entry| entry.revision.0).collect();
            assert_eq!(revisions, (1..=entries.len() as u64).collect::<Vec<_>>());
            assert!(entries.len() >= longest, "history was forgotten");
            longest = entries.len();
        }
        assert!((100..1_000).contains(&longest), "nothing was read meanwhile: {longest}");
    };
    let (engine, budget) = (bed.engine_behind(&slow(PortCall::Commit), "w"), minute());
    let delivery = bed.receive(secs(1)).await.unwrap();
    tokio::join!(bed.work(&engine, &delivery, &budget), reading);
    let entries = bed.history(&run).await;
    assert_eq!(entries.len(), 1_000);
    assert!(entries.is_sorted_by_key(|entry| (entry.revision, entry.at)));
    for from in [0, 1, 2, 17, 500, 999, 1_000, 1_001] {
        let rest = client.history(&run, Revision(from)).await.unwrap();
        assert_eq!(rest, entries[usize::try_from(from.max(1) - 1).unwrap()..], "from {from}");
    }
    let missing = client.history(&RunId::new("nobody").unwrap(), Revision(0)).await.unwrap_err();
    assert!(matches!(missing, ClientError::NoSuchRun(_)));
}

#[tokio::test(start_paused = true)]
async fn a_history_entry_says_when_it_was_committed() {
    let bed = bed();
    let run = bed.client().start(start(INPUT, None)).await.unwrap().run;
    for _ in 0..30 {
        tokio::time::advance(secs(7)).await;
        bed.signal(&run, MORE, 1).await;
        bed.settle().await;
    }
    let committed: Vec<Timestamp> = (bed.witness.seen().iter())
        .filter(|seen| {
            seen.before.as_ref().is_some_and(|before| before.progress.revision < seen.after.progress.revision)
        })
        .map(|seen| seen.request.now)
        .collect();
    let told: Vec<Timestamp> = bed.history(&run).await.iter().map(|entry| entry.at).collect();
    assert_eq!(told, committed);
}

#[tokio::test(start_paused = true)]
async fn only_a_parked_run_can_be_resumed() {
    let bed = bed();
    let run = bed.client().start(start(INPUT, None)).await.unwrap().run;
    let act = Resume { by: "ann".into(), why: None };
    let refused = bed.client().resume(&run, &act).await.unwrap_err();
    assert!(matches!(refused, ClientError::NotParked { phase: Phase::Created, .. }), "{refused}");
    let refused = bed.client().resume(&RunId::new("nobody").unwrap(), &act).await.unwrap_err();
    assert!(matches!(refused, ClientError::NoSuchRun(_)), "{refused}");
}

/// A run that is parked: its program does not know it, and the deploy has taken too long.
async fn parked() -> (Bed, RunId) {
    let bed = bed();
    let run = bed.client().start(start(INPUT, None)).await.unwrap().run;
    bed.deployed(Registry::new()).settle().await;
    assert_eq!(bed.phase(&run).await, Phase::Parked);
    (bed, run)
}

#[tokio::test(start_paused = true)]
async fn of_two_who_resume_at_once_one_does() {
    let (bed, run) = parked().await;
    let (client, _) = client_with(&bed, PortCall::Amend, Fate::SlowStart(secs(1)));
    let act = |by: &str| Resume { by: by.into(), why: None };
    let (ann, bob) = (act("ann"), act("bob"));
    let (slow, quick) = tokio::join!(client.resume(&run, &ann), async {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        bed.client().resume(&run, &bob).await
    });
    quick.unwrap();
    let refused = slow.unwrap_err();
    assert!(matches!(refused, ClientError::MovedOn(_)), "{refused}");
    bed.settle().await;
    let history = bed.history(&run).await;
    assert_eq!(crate::bed::count(&history, EntryKind::Resumed), 1);
    assert_eq!(count(&bed, &run).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_resumption_whose_sender_died_before_the_message_is_found_by_the_watchdog() {
    for fate in [Fate::DieBefore, Fate::DieAfter] {
        let (bed, run) = parked().await;
        let (client, gate) = client_with(&bed, PortCall::Send, fate);
        let act = Resume { by: "ann".into(), why: None };
        assert!(gate.fuse().while_alive(client.resume(&run, &act)).await.is_none());
        let worker = bed.worker("w");
        bed.until_phase(&run, Phase::Waiting).await;
        worker.stop().await;
        assert_eq!(count(&bed, &run).await, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn runs_are_listed_newest_first_page_by_page() {
    let bed = bed();
    let mut started = Vec::new();
    for _ in 0..5 {
        started.push(bed.client().start(start(INPUT, None)).await.unwrap().run);
        tokio::time::advance(secs(1)).await;
    }
    started.reverse();
    let mut found = Vec::new();
    let mut query = ListQuery { limit: 2, ..ListQuery::default() };
    loop {
        let page = bed.client().list(&query).await.unwrap();
        found.extend(page.items.into_iter().map(|summary| summary.run));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(found, started);
}

#[tokio::test(start_paused = true)]
async fn runs_that_nobody_woke_are_listed_the_longest_overdue_first() {
    let bed = Bed::new(Registry::new().with(Counter));
    assert_eq!(bed.client().workflows().iter().map(|name| name.as_str()).collect::<Vec<_>>(), [Counter::NAME]);
    let first = bed.start::<Counter>(Input { to: 3, label: "a".into() }).await;
    tokio::time::sleep(MARK).await;
    let second = bed.start::<Counter>(Input { to: 3, label: "b".into() }).await;
    let due =
        async |limit| -> Vec<RunId> { bed.client().due(limit).await.unwrap().into_iter().map(|due| due.run).collect() };
    assert_eq!(due(9).await, std::slice::from_ref(&first), "the other's mark is still to come");
    tokio::time::sleep(MARK).await;
    assert_eq!(due(9).await, [first.clone(), second]);
    assert_eq!(due(1).await, [first]);
    bed.settle().await;
    assert_eq!(due(9).await, Vec::<RunId>::new());
}
