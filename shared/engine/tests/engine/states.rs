//! What a run knew at each of its commits, and its history page by page: exactly as it was, or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use stepwell::prelude::*;
use stepwell_core::decide::{Pause, Resume};
use stepwell_core::history::EntryKind;
use stepwell_core::limits::BACK_BYTES_MAX;
use stepwell_core::{Json, Phase, Revision, RunId};
use stepwell_engine::{Client, ClientError, Edit, HistoryEntry, MoveTo, Ports};
use stepwell_ports::CheckpointStore as _;
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, count, minute, one_step, secs};
use crate::flawed::{Flaw, Flawed};

const GO: Signal<()> = Signal::new("go");

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Known {
    n: u32,
    map: BTreeMap<String, u32>,
    list: Vec<Value>,
    ratio: f64,
    note: Option<String>,
    /// Larger than any step may change and keep the way back.
    bulk: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Plan {
    steps: u32,
    /// At this step it changes more than is kept.
    bulk_at: u32,
    fails: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum At {
    Go(Plan),
    Back,
}

/// Changes its state in another way each step; some steps fail once, some wait.
#[derive(Clone, Default)]
struct Keeper<const KEEPS: bool>(Arc<Mutex<BTreeSet<u32>>>);

impl<const KEEPS: bool> Workflow for Keeper<KEEPS> {
    const NAME: &'static str = "keeper";
    const KEEPS_STATES: bool = KEEPS;
    type Input = Plan;
    type State = Known;
    type Step = At;
    type Output = u32;

    fn begin(&self, plan: Plan) -> (At, Known) {
        (At::Go(plan), Known::default())
    }

    fn signals() -> Signals {
        Signals::none().and(GO)
    }

    async fn step(&self, at: At, known: &mut Known, cx: &Cx) -> StepResult<Self> {
        let At::Go(plan) = at else {
            known.note = Some("taken back".into());
            return Ok(undone());
        };
        known.n += 1;
        let n = known.n;
        if n % 13 == 5 && self.0.lock().unwrap().insert(n) {
            return Err(StepError::retry("busy"));
        }
        if n == 3 {
            cx.effect("seat").key("order-7").idempotent().undo(&At::Back).call(async |_| Ok::<_, CallError>(1)).await?;
        }
        known.map.insert(format!("key/{}~{n}", n % 9), n);
        known.map.remove(&format!("key/{}~{}", n % 9, n.wrapping_sub(9)));
        match n % 5 {
            0 => known.list.push(json!({"at": n, "of": [n, n + 1], "text": "é \" \\ 1e5"})),
            1 => drop(known.list.pop()),
            2 => known.list.insert(0, json!(null)),
            3 => known.list.truncate(3),
            // Nothing more.
            _ => {}
        }
        known.ratio = f64::from(n) * 0.5;
        known.note = n.is_multiple_of(3).then(|| format!("note {n}"));
        if n == plan.bulk_at {
            known.bulk = "x".repeat(BACK_BYTES_MAX * 8);
        } else if n == plan.bulk_at + 1 {
            known.bulk.clear();
        }
        if n >= plan.steps {
            return if plan.fails { Err(StepError::terminal("sold out")) } else { Ok(complete(n)) };
        }
        Ok(if n % 50 == 7 { wait(At::Go(plan)).lasting(secs(1)) } else { goto(At::Go(plan)) })
    }
}

const PLAN: Plan = Plan { steps: 300, bulk_at: 0, fails: false };

fn bed<const KEEPS: bool>() -> Bed {
    Bed::new(Registry::new().with(Keeper::<KEEPS>::default()))
}

/// What the run truly knew after each revision, by every write that was seen.
async fn record(bed: &Bed, run: &RunId) -> BTreeMap<Revision, Json> {
    let client = bed.client();
    let mut found = BTreeMap::new();
    for seen in bed.witness.seen().into_iter().filter(|seen| seen.request.run == *run) {
        let progress = seen.after.progress;
        let known = match &progress.place {
            stepwell_core::Place::Fresh { input, .. } => input,
            stepwell_core::Place::At { state, .. } => state,
        };
        found.entry(progress.revision).or_insert(client.value(known).await.unwrap());
    }
    found
}

fn value(json: &Json) -> Value {
    json.parse().unwrap()
}

/// Every state is the true one or not kept. Answers which are kept.
async fn kept(bed: &Bed, run: &RunId) -> Vec<Revision> {
    let (client, record) = (bed.client(), record(bed, run).await);
    let newest = bed.checkpoint(run).await.progress.revision;
    let mut kept = Vec::new();
    for (revision, truth) in &record {
        match client.state_at(run, *revision).await {
            Ok(found) => {
                assert_eq!((found.revision, value(&found.after)), (*revision, value(truth)));
                if *revision == newest {
                    assert_eq!(found.after, *truth, "as it is written");
                }
                if let Some(before) = found.before {
                    assert_eq!(value(&before), value(&record[&Revision(revision.0 - 1)]), "before {revision}");
                }
                kept.push(*revision);
            }
            Err(ClientError::NotKept { revision: asked, newest: at, .. }) => {
                assert_eq!((asked, at), (*revision, newest));
            }
            Err(other) => panic!("{revision}: {other}"),
        }
    }
    let beyond = client.state_at(run, newest.next()).await.unwrap_err();
    assert_eq!(beyond.code(), "not-kept");
    kept
}

fn all(from: u64, to: Revision) -> Vec<Revision> {
    (from..=to.0).map(Revision).collect()
}

fn resume() -> Resume {
    Resume { by: "ann".into(), why: None }
}

async fn edit(client: &Client, run: &RunId, at: Revision, patch: Value) -> Revision {
    let patch = Json::of(&patch).unwrap();
    client.edit(run, Edit { at, patch, by: "ann".into(), why: "wrong".into() }).await.unwrap().revision
}

#[tokio::test(start_paused = true)]
async fn each_state_of_three_hundred_steps_is_found_again() {
    let bed = bed::<true>();
    let run = bed.start::<Keeper<true>>(PLAN).await;
    bed.settle().await;
    assert_eq!(bed.phase(&run).await, Phase::Completed);
    let newest = bed.checkpoint(&run).await.progress.revision;
    assert!(newest > Revision(300), "{newest}");
    // Before its first step it knew its input, which is kept for nobody.
    assert_eq!(kept(&bed, &run).await, all(1, newest));
    let history = bed.history(&run).await;
    assert!(count(&history, EntryKind::Retried) > 10 && count(&history, EntryKind::Waited) > 3);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_changes_too_much_hides_what_was_before_it_and_nothing_else() {
    let bed = bed::<true>();
    let run = bed.start::<Keeper<true>>(Plan { steps: 60, bulk_at: 30, ..PLAN }).await;
    bed.settle().await;
    let (newest, record) = (bed.checkpoint(&run).await.progress.revision, record(&bed, &run).await);
    // Where it grows the way back is short; where it shrinks it would have to bring all of it.
    let shrinks = record.iter().find(|(_, known)| value(known)["n"] == json!(31)).map(|(revision, _)| *revision);
    assert_eq!(kept(&bed, &run).await, all(shrinks.unwrap().0, newest));
    assert_eq!(bed.client().state_at(&run, shrinks.unwrap()).await.unwrap().before, None);
}

/// Some steps, then everything that a person can do to it, twice; then it fails, is tried again, fails, and takes back.
async fn a_life(bed: &Bed, plan: Plan) -> RunId {
    let client = bed.client();
    let run = client.start(crate::bed::request::<Keeper<true>>(plan.clone())).await.unwrap().run;
    for round in 0..2 {
        for _ in 0..9 {
            bed.turn(&one_step()).await;
        }
        client.pause(&run, &Pause { by: "ann".into(), why: None }).await.unwrap();
        let at = bed.checkpoint(&run).await.progress.revision;
        let at = edit(&client, &run, at, json!([{"op": "add", "path": "/map/by~1hand", "value": round}])).await;
        let at = edit(&client, &run, at, json!([{"op": "replace", "path": "/list", "value": [1.5, "two"]}])).await;
        let at = edit(&client, &run, at, json!([])).await;
        let to = Json::of(&At::Go(plan.clone())).unwrap();
        client.move_to(&run, MoveTo { at, to, by: "ann".into(), why: "again".into() }).await.unwrap();
        client.resume(&run, &resume()).await.unwrap();
    }
    bed.settle().await;
    run
}

#[tokio::test(start_paused = true)]
async fn edits_moves_pauses_and_what_is_taken_back_are_in_it() {
    let bed = bed::<true>();
    let run = a_life(&bed, Plan { steps: 40, bulk_at: 0, fails: true }).await;
    assert_eq!(bed.failure(&run).await.message, "sold out");
    let newest = bed.checkpoint(&run).await.progress.revision;
    assert_eq!(kept(&bed, &run).await, all(1, newest));
    let history = bed.history(&run).await;
    for kind in [EntryKind::Edited, EntryKind::Moved, EntryKind::Parked, EntryKind::Resumed, EntryKind::Undone] {
        assert!(count(&history, kind) > 0, "{kind:?}");
    }
    assert_eq!(bed.witness.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn so_is_a_failed_run_that_is_edited_and_tried_again() {
    let bed = bed::<true>();
    let run = bed.start::<Keeper<true>>(Plan { steps: 2, bulk_at: 0, fails: true }).await;
    bed.settle().await;
    let client = bed.client();
    client.retry(&run, &resume()).await.unwrap();
    bed.settle().await;
    let at = bed.checkpoint(&run).await.progress.revision;
    edit(&client, &run, at, json!([{"op": "replace", "path": "/n", "value": 0}])).await;
    client.resume(&run, &resume()).await.unwrap();
    bed.settle().await;
    let newest = bed.checkpoint(&run).await.progress.revision;
    assert_eq!((bed.phase(&run).await, kept(&bed, &run).await), (Phase::Failed, all(1, newest)));
    assert_eq!(count(&bed.history(&run).await, EntryKind::Reopened), 1);
}

#[tokio::test(start_paused = true)]
async fn before_its_first_step_it_knows_its_input() {
    let bed = bed::<true>();
    let run = bed.start::<Keeper<true>>(PLAN).await;
    let client = bed.client();
    let found = client.state_at(&run, Revision(0)).await.unwrap();
    assert_eq!((found.step.as_str(), found.before), ("start", None));
    assert_eq!(value(&found.after), value(&Json::of(&PLAN).unwrap()));
    client.pause(&run, &Pause { by: "ann".into(), why: None }).await.unwrap();
    edit(&client, &run, Revision(1), json!([{"op": "replace", "path": "/steps", "value": 7}])).await;
    assert_eq!(kept(&bed, &run).await, all(0, Revision(2)));
}

#[tokio::test(start_paused = true)]
async fn without_it_the_newest_is_there_and_never_a_wrong_one() {
    let bed = bed::<false>();
    let run = a_life(&bed, Plan { steps: 40, bulk_at: 0, fails: true }).await;
    let kept = kept(&bed, &run).await;
    let newest = bed.checkpoint(&run).await.progress.revision;
    assert_eq!(kept.last(), Some(&newest));
    assert!(kept.len() < 4, "{kept:?}");
    assert!(bed.history(&run).await.iter().all(|entry| entry.entry.more.back.is_none()), "it costs nothing");

    // Also where a step ends in a park, or with the end of a cancelled run: looked at after each turn.
    for keeps in [true, false] {
        for steps in 1..6 {
            let bed = if keeps { self::bed::<true>() } else { self::bed::<false>() };
            let run = bed.start::<Keeper<true>>(PLAN).await;
            for _ in 0..steps {
                bed.turn(&one_step()).await;
                self::kept(&bed, &run).await;
            }
            let slow = |_, call| if call == PortCall::Commit { Fate::SlowStart(secs(2)) } else { Fate::Pass };
            let (engine, time) = (bed.engine_behind(&Gate::planned(slow), "w"), minute());
            let delivery = bed.receive(secs(1)).await.unwrap();
            tokio::join!(bed.work(&engine, &delivery, &time), async {
                tokio::time::sleep(secs(1)).await;
                bed.client().cancel(&run, "ann", None).await.unwrap();
            });
            bed.settle().await;
            assert_eq!(bed.phase(&run).await, Phase::Cancelled);
            self::kept(&bed, &run).await;
        }
    }
}

/// Knows what JSON readers like to round.
struct Exact;

impl Workflow for Exact {
    const NAME: &'static str = "exact";
    const KEEPS_STATES: bool = true;
    type Input = u128;
    /// The quote in front hides what follows from whoever reads strings carelessly.
    type State = (String, u128, f64, u32);
    type Step = ();
    type Output = u128;

    fn begin(&self, input: u128) -> ((), Self::State) {
        ((), ("\"".into(), input, if input == 8 { 0.0 } else { 0.1 + 0.2 }, 0))
    }

    async fn step(&self, (): (), known: &mut Self::State, _: &Cx) -> StepResult<Self> {
        (known.2, known.3) = (-known.2, known.3 + 1);
        Ok(if known.3 < 4 { goto(()) } else { complete(known.1) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_number_that_would_be_rounded_is_shown_as_it_is_or_not_at_all() {
    // The second is as long when it is rounded as it was.
    for number in [u128::from(u64::MAX) + 1, 123_456_789_012_345_678_901, 7, 8] {
        let bed = Bed::new(Registry::new().with(Exact));
        let run = bed.start::<Exact>(number).await;
        bed.settle().await;
        let (client, record) = (bed.client(), record(&bed, &run).await);
        let newest = bed.checkpoint(&run).await.progress.revision;
        let mut found = 0;
        for (revision, truth) in record.iter().filter(|(revision, _)| revision.0 > 0) {
            if let Ok(state) = client.state_at(&run, *revision).await {
                assert_eq!(state.after.text(), truth.text(), "{revision}");
                found += 1;
            }
        }
        assert!(found >= 2 && found <= newest.0, "{number}: its newest is there, and its end changes nothing");
    }
}

/// The revisions of pages, and what they cost, walked from the beginning.
async fn walked(bed: &Bed, run: &RunId, limit: usize, back: bool) -> (Vec<HistoryEntry>, Vec<usize>) {
    let gate = Gate::open();
    let client = bed.client_behind(&gate);
    let (mut found, mut calls) = (Vec::new(), Vec::new());
    let mut next = (!back).then_some(Revision(0));
    loop {
        let before = gate.count(PortCall::History);
        let page = match (back, next) {
            (true, before) => client.history_before(run, before, limit).await.unwrap(),
            (false, from) => client.history_page(run, from.unwrap(), limit).await.unwrap(),
        };
        calls.push(gate.count(PortCall::History) - before);
        assert!((1..=limit).contains(&page.entries.len()));
        found = if back { [page.entries, found].concat() } else { [found, page.entries].concat() };
        match page.next {
            Some(more) => next = Some(more),
            None => return (found, calls),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_history_is_walked_page_by_page_without_loss_or_repetition() {
    for bed in [bed::<true>(), bed::<false>()] {
        let run = bed.start::<Keeper<true>>(Plan { steps: 220, ..PLAN }).await;
        assert_eq!(bed.client().history_page(&run, Revision(0), 5).await.unwrap().entries, []);
        assert_eq!(bed.client().history_before(&run, None, 5).await.unwrap().next, None);
        bed.settle().await;
        let whole = bed.history(&run).await;
        let newest = bed.checkpoint(&run).await.progress.revision;
        assert_eq!(whole.iter().map(|entry| entry.revision).collect::<Vec<_>>(), all(1, newest));
        for (limit, back) in [1, 2, 7, 16, 17, 100, 1_000].into_iter().flat_map(|limit| [(limit, true), (limit, false)])
        {
            let (found, calls) = walked(&bed, &run, limit, back).await;
            assert_eq!(found, whole, "limit {limit}, back: {back}");
            // Each call brings at least one entry more; one entry beyond the page says whether there is another page.
            let most = (limit + 1).min(30);
            assert!(calls.iter().all(|calls| *calls <= most), "limit {limit}, back: {back}: {calls:?}");
        }
        // From the middle.
        let page = bed.client().history_page(&run, Revision(100), 10).await.unwrap();
        assert_eq!((page.entries[0].revision, page.next), (Revision(100), Some(Revision(110))));
        let page = bed.client().history_before(&run, Some(Revision(100)), 10).await.unwrap();
        assert_eq!((page.entries[9].revision, page.next), (Revision(99), Some(Revision(90))));
        let page = bed.client().history_before(&run, Some(Revision(9_999)), 3).await.unwrap();
        assert_eq!(page.entries.last().map(|entry| entry.revision), Some(newest));
        assert_eq!(bed.client().history_page(&run, newest.next(), 3).await.unwrap().entries, []);
    }
}

/// A call to the store is made for what is missing, and asks for no more segments than that can need.
#[tokio::test(start_paused = true)]
async fn a_page_asks_for_as_many_segments_as_it_needs() {
    for (bed, keeps) in [(bed::<true>(), true), (bed::<false>(), false)] {
        let run = bed.start::<Keeper<true>>(Plan { steps: 220, ..PLAN }).await;
        bed.settle().await;
        let asked = async |from: Revision, limit: usize| {
            let store = Flawed::new(&bed, Flaw::None);
            let client =
                Client::new(Ports { store: store.clone(), ..bed.ports_behind(&Gate::open()) }, bed.registry.clone());
            assert_eq!(client.history_page(&run, from, limit).await.unwrap().entries.len(), limit);
            store.segments_asked()
        };
        // What the checkpoint holds is not asked for.
        let tail = bed.checkpoint(&run).await.progress.tail;
        assert_eq!(asked(tail.from, tail.entries.len()).await, [0; 0]);
        // As many as the first eight segments hold, and one less, since one more says whether there is another page.
        let segments = bed.memory.history(&run, Revision(0), 1_000).await.unwrap();
        let first: usize = segments[..8].iter().map(|segment| segment.entries.len()).sum();
        assert_eq!(asked(Revision(0), first - 1).await[1..], [0; 0]);
        // A segment has eight entries at least where no states are kept.
        let many = asked(Revision(0), 150).await;
        assert_eq!((many[0], many.len() == 1), (19, !keeps), "{many:?}");
        assert!(many.iter().is_sorted_by(|one, next| one >= next), "{many:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_gap_in_the_history_hides_what_was_before_it_and_leads_to_nothing_wrong() {
    let bed = bed::<true>();
    let client = bed.client();
    let run = client.start(crate::bed::request::<Keeper<true>>(PLAN)).await.unwrap().run;
    // Edited before its first step, so that what it knew before all of them is kept, too.
    client.pause(&run, &Pause { by: "ann".into(), why: None }).await.unwrap();
    edit(&client, &run, Revision(1), json!([{"op": "replace", "path": "/steps", "value": 60}])).await;
    client.resume(&run, &resume()).await.unwrap();
    for _ in 0..40 {
        bed.turn(&one_step()).await;
    }
    let record = record(&bed, &run).await;
    let segments = bed.memory.history(&run, Revision(0), 1_000).await.unwrap();
    assert!(segments.len() > 6);
    for lost in [&segments[0], &segments[1], &segments[segments.len() / 2], &segments[segments.len() - 1]] {
        let store = Flawed::new(&bed, Flaw::LosesSegment(lost.from.0));
        let client = Client::new(Ports { store, ..bed.ports_behind(&Gate::open()) }, bed.registry.clone());
        let mut kept = Vec::new();
        for (revision, truth) in &record {
            match client.state_at(&run, *revision).await {
                Ok(found) => {
                    assert_eq!(value(&found.after), value(truth), "{revision}, without {}", lost.from);
                    kept.push(*revision);
                }
                Err(error) => assert_eq!(error.code(), "not-kept", "{revision}, without {}", lost.from),
            }
        }
        // Some behind it may be hidden, too, that would have been read together with it.
        assert!(kept.first() >= Some(&lost.from) && kept.last() == record.keys().next_back(), "{kept:?}");
    }
}

/// Most look at what is new; whoever looks further back reads more in one go.
#[tokio::test(start_paused = true)]
async fn the_further_back_a_state_is_the_more_is_read_at_once() {
    let bed = bed::<true>();
    let run = bed.start::<Keeper<true>>(Plan { steps: 220, ..PLAN }).await;
    bed.settle().await;
    let store = Flawed::new(&bed, Flaw::None);
    let client = Client::new(Ports { store: store.clone(), ..bed.ports_behind(&Gate::open()) }, bed.registry.clone());
    client.state_at(&run, Revision(1)).await.unwrap();
    // 16 entries, 32, 64, 128: eight a segment.
    assert_eq!(store.segments_asked().into_iter().max(), Some(16));
}

/// However long the run is, its newest and oldest pages read as much as those of a short one.
#[tokio::test(start_paused = true)]
async fn a_page_reads_as_much_however_long_the_run_is() {
    let mut costs = Vec::new();
    for steps in [60, 600] {
        let bed = bed::<true>();
        let run = bed.start::<Keeper<true>>(Plan { steps, ..PLAN }).await;
        bed.settle().await;
        let gate = Gate::open();
        let client = bed.client_behind(&gate);
        client.history_page(&run, Revision(0), 20).await.unwrap();
        client.history_before(&run, None, 20).await.unwrap();
        client.history_before(&run, Some(Revision(50)), 20).await.unwrap();
        costs.push((gate.count(PortCall::History), gate.count(PortCall::Load)));
    }
    let [short, long] = costs[..] else { panic!("{costs:?}") };
    assert!(long.0 <= short.0 + 3 && long.0 <= 30 && (short.1, long.1) == (3, 3), "{costs:?}");
}
