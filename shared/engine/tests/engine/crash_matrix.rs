//! Every crash point of a whole run: the worker dies before and after each of its port calls; so does the client; and
//! each call is answered wrongly, late, or not at all.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use stepwell::{Registry, days};
use stepwell_core::{Phase, RunId};
use stepwell_engine::WorkerSettings;
use stepwell_ports::Clock;
use stepwell_report::{Report, Table};
use stepwell_testkit::crash::{CrashPoint, Side};
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, Running, letter, request, secs};
use crate::story::{ANSWER, NAP, Outside, Story, wrong, wrong_at_rest, wrong_cancelled};

/// How many steps go into one turn.
#[derive(Clone, Copy, Debug)]
enum Turns {
    One,
    Many,
}

/// Whether a second worker is there from the beginning, or comes when the first has died.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Second {
    Beside,
    After,
}

struct Scene {
    bed: Bed,
    outside: Outside,
    settings: WorkerSettings,
}

/// How a run ended.
struct Played {
    wrong: Vec<String>,
    took: Duration,
    /// Port calls that the first worker made.
    calls: u64,
}

impl Scene {
    fn new(turns: Turns) -> Self {
        let outside = Outside::default();
        let bed = Bed::new(Registry::new().with(Story(outside.clone())));
        let turn = match turns {
            Turns::One => Duration::ZERO,
            Turns::Many => Duration::from_mins(1),
        };
        let settings = WorkerSettings { turn, wait: secs(20), sweep_every: days(30), ..WorkerSettings::default() };
        Self { bed, outside, settings }
    }

    /// A worker that nothing goes wrong with. Its sweeps fail: what it rescues, it rescues without one.
    fn healthy(&self, name: &str) -> Running {
        let gate = Gate::planned(|_, call| if call == PortCall::Due { Fate::Unavailable } else { Fate::Pass });
        self.bed.worker_behind(&gate, name, self.settings.clone())
    }

    async fn until(&self, run: &RunId, phase: impl Fn(Phase) -> bool) {
        // One that has not come so far in half an hour will not.
        for _ in 0..1_800 {
            if phase(self.bed.phase(run).await) {
                return;
            }
            tokio::time::sleep(secs(1)).await;
        }
    }

    async fn play(&self, gate: Arc<Gate>, second: Second) -> Played {
        let run = self.bed.start::<Story>(()).await;
        let first = self.bed.worker_behind(&gate, "a", self.settings.clone());
        let fuse = gate.fuse().clone();
        let standby = async {
            if second == Second::After {
                fuse.burnt().await;
            }
            let _healthy = self.healthy("b");
            std::future::pending::<()>().await;
        };
        let course = async {
            self.until(&run, |phase| phase == Phase::Waiting || phase.is_ended()).await;
            let answer = self.bed.client().signal(letter(&run, ANSWER, "yes".into(), Some("s-1"))).await;
            self.until(&run, Phase::is_ended).await;
            answer
        };
        let answer = tokio::select! {
            biased;
            answer = course => answer,
            () = standby => unreachable!("it waits for ever"),
        };
        let (took, calls) = (self.bed.elapsed(), gate.total());
        drop(first);
        let mut wrong = wrong(&self.bed, &self.outside, &run).await;
        wrong.extend(answer.err().map(|error| format!("the signal: {error}")));
        wrong.extend(wrong_at_rest(&self.bed, 2).await);
        Played { wrong, took, calls }
    }
}

/// One row of the table.
pub(crate) struct Row {
    what: String,
    pub(crate) tried: u32,
    right: u32,
    slowest: Duration,
    failures: Vec<String>,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), tried: 0, right: 0, slowest: Duration::ZERO, failures: Vec::new() }
    }

    pub(crate) fn add(&mut self, point: &str, wrong: &[String], took: Duration) {
        self.tried += 1;
        self.slowest = self.slowest.max(took);
        if wrong.is_empty() {
            self.right += 1;
        } else {
            self.failures.push(format!("{}, {point}: {}", self.what, wrong.join("; ")));
        }
    }
}

pub(crate) fn report(suite: &str, rows: &[Row]) {
    let mut report = Report::new(suite);
    let mut table = Table::new(&["what goes wrong", "points", "ended right", "slowest run, s"]);
    for row in rows {
        let (tried, right, slowest) = (row.tried.to_string(), row.right.to_string(), row.slowest.as_secs().to_string());
        table.row(&[&row.what, &tried, &right, &slowest]);
        report.pass(u64::from(row.right));
        row.failures.iter().for_each(|failure| report.fail(failure));
        report.figure(&format!("{}: points", row.what), row.tried);
        report.figure(&format!("{}: slowest run", row.what), row.slowest.as_secs()).unit("s");
    }
    // Not by the macro, so that the table is seen without being asked for.
    writeln!(std::io::stdout().lock(), "\n{table}").unwrap();
    report.write_to(&stepwell_report::reports_dir().unwrap()).unwrap();
    let failures: Vec<&String> = rows.iter().flat_map(|row| &row.failures).collect();
    assert!(
        failures.is_empty(),
        "{} went wrong, among them:\n{:#?}",
        failures.len(),
        &failures[..failures.len().min(5)]
    );
}

/// Plays the scene with the fault at each call in turn, until the run ends before it comes to that call.
async fn sweep_points(row: &mut Row, turns: Turns, second: Second, gate: impl Fn(&Scene, u64) -> Arc<Gate>) {
    for call in 1.. {
        let scene = Scene::new(turns);
        let played = scene.play(gate(&scene, call), second).await;
        if played.calls < call {
            break;
        }
        row.add(&format!("call {call}, {turns:?} step(s) a turn"), &played.wrong, played.took);
        assert!(row.failures.len() < 20, "{:#?}", row.failures);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_may_die_at_any_of_its_calls() {
    let mut rows = Vec::new();
    for turns in [Turns::One, Turns::Many] {
        let base = Scene::new(turns).play(Gate::open(), Second::After).await;
        assert_eq!(base.wrong, Vec::<String>::new());
        assert!(base.took < NAP + secs(5), "{:?}", base.took);
        for side in Side::BOTH {
            let mut row = Row::new(format!("worker dies {side} a call, {turns:?} step(s) a turn"));
            sweep_points(&mut row, turns, Second::After, |_, call| Gate::crashing(CrashPoint { call, side })).await;
            // Nobody swept: what a dead worker costs is its lease, and the message's way to its end.
            assert!(row.slowest < base.took + secs(35), "{:?} instead of {:?}", row.slowest, base.took);
            rows.push(row);
        }
    }
    assert!(rows.iter().all(|row| row.tried > 20), "too few points were tried");
    report("engine-crash-points", &rows);
}

#[tokio::test(start_paused = true)]
async fn two_workers_may_die_one_after_the_other() {
    let mut rows = Vec::new();
    for side in Side::BOTH {
        let mut row = Row::new(format!("a second worker dies {side} a call too"));
        for first in (1..40).step_by(3) {
            for then in [1, 2, 3, 4, 6, 9] {
                let scene = Scene::new(Turns::One);
                let gate = Gate::crashing(CrashPoint { call: first, side });
                let next = Gate::crashing(CrashPoint { call: then, side });
                let between = scene.bed.worker_behind(&next, "c", scene.settings.clone());
                let played = scene.play(gate, Second::After).await;
                drop(between);
                // The one that takes over may be dead before the first is: then nobody is left to take over, but for
                // the worker that comes when the first dies.
                if played.calls >= first {
                    row.add(&format!("calls {first} and {then}"), &played.wrong, played.took);
                }
            }
        }
        rows.push(row);
    }
    report("engine-crash-pairs", &rows);
}

#[tokio::test(start_paused = true)]
async fn any_call_may_be_answered_wrongly_or_late() {
    let faults: [(&str, Fate); 9] = [
        ("reply lost, it happened", Fate::LostAfter),
        ("reply lost, it did not happen", Fate::LostBefore),
        ("throttled once", Fate::Throttled),
        ("unavailable once", Fate::Unavailable),
        ("reply lost, it happens 5 s later", Fate::Late(secs(5))),
        ("reply lost, it happens 70 s later", Fate::Late(secs(70))),
        ("answered 20 s late", Fate::SlowAnswer(secs(20))),
        ("carried out 20 s late", Fate::SlowStart(secs(20))),
        ("carried out 45 s late, after the lease", Fate::SlowStart(secs(45))),
    ];
    let mut rows = Vec::new();
    for (what, fate) in faults {
        let mut row = Row::new(what);
        for (turns, second) in [(Turns::One, Second::After), (Turns::Many, Second::After), (Turns::One, Second::Beside)]
        {
            sweep_points(&mut row, turns, second, |_, call| {
                Gate::planned(move |number, _| if number == call { fate } else { Fate::Pass })
            })
            .await;
        }
        assert!(row.slowest < NAP + secs(50), "{what}: {:?}", row.slowest);
        rows.push(row);
    }
    for (what, seconds) in [("all calls fail for 2 s", 2), ("all calls fail for 40 s", 40)] {
        let mut row = Row::new(what);
        for turns in [Turns::One, Turns::Many] {
            sweep_points(&mut row, turns, Second::After, |scene, call| away(scene, call, secs(seconds))).await;
        }
        assert!(row.slowest < NAP + secs(80), "{what}: {:?}", row.slowest);
        rows.push(row);
    }
    report("engine-faults", &rows);
}

/// From this call on everything is away, for so long.
fn away(scene: &Scene, call: u64, long: Duration) -> Arc<Gate> {
    let (clock, mut until) = (scene.bed.clock.clone(), None);
    Gate::planned(move |number, _| {
        let now = clock.now();
        if number >= call && now < *until.get_or_insert_with(|| now.plus(long)) {
            Fate::Unavailable
        } else {
            Fate::Pass
        }
    })
}

/// What a client does that dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Request {
    Start,
    Signal,
    Cancel,
}

/// The client dies there; then somebody repeats its request, or nobody does and the sweeper has to find the run.
async fn client_dies(row: &mut Row, asked: Request, point: CrashPoint, repeated: bool) -> bool {
    let scene = Scene::new(Turns::One);
    let (bed, gate) = (&scene.bed, Gate::crashing(point));
    let settings = WorkerSettings { sweep_every: secs(15), ..scene.settings.clone() };
    let worker = bed.worker_behind(&Gate::open(), "a", settings);
    let start = stepwell_engine::StartRequest { key: Some("k".into()), ..request::<Story>(()) };
    let run = RunId::for_key(&start.workflow, "k");
    let (dying, client) = (bed.client_behind(&gate), bed.client());
    let answer = || letter(&run, ANSWER, "yes".into(), Some("s-1"));
    if asked == Request::Start {
        gate.fuse().while_alive(dying.start(start.clone())).await;
    }
    let never_written = asked == Request::Start && gate.count(PortCall::Start) == 1 && point.call == 1;
    if asked != Request::Start || repeated || (never_written && point.side == Side::Before) {
        client.start(start).await.unwrap();
    }
    scene.until(&run, |phase| phase == Phase::Waiting).await;
    match asked {
        Request::Start => {
            client.signal(answer()).await.unwrap();
        }
        Request::Signal => {
            gate.fuse().while_alive(dying.signal(answer())).await;
            if repeated || bed.checkpoint(&run).await.mailbox.seq.0 == 0 {
                client.signal(answer()).await.unwrap();
            }
        }
        Request::Cancel => {
            gate.fuse().while_alive(dying.cancel(&run, "ann", None)).await;
            let ended = bed.phase(&run).await.is_ended();
            if !ended && (repeated || bed.checkpoint(&run).await.cancel.is_none()) {
                client.cancel(&run, "ann", None).await.unwrap();
            }
        }
    }
    scene.until(&run, Phase::is_ended).await;
    let took = bed.elapsed();
    drop(worker);
    let mut wrong = match asked {
        Request::Start | Request::Signal => wrong(bed, &scene.outside, &run).await,
        Request::Cancel => wrong_cancelled(bed, &scene.outside, &run).await,
    };
    wrong.extend(wrong_at_rest(bed, 4).await);
    let came_to_it = gate.total() >= point.call;
    if came_to_it {
        row.add(&format!("{point}, repeated: {repeated}"), &wrong, took);
    }
    came_to_it
}

#[tokio::test(start_paused = true)]
async fn a_client_may_die_between_its_write_and_its_message() {
    let mut rows = Vec::new();
    for asked in [Request::Start, Request::Signal, Request::Cancel] {
        for repeated in [true, false] {
            let end = if repeated { "and asks again" } else { "and nobody asks again" };
            let mut row = Row::new(format!("client dies in {asked:?}, {end}"));
            for side in Side::BOTH {
                for call in 1.. {
                    if !client_dies(&mut row, asked, CrashPoint { call, side }, repeated).await {
                        break;
                    }
                }
            }
            // The watchdog's mark, the distance of its sweeps, and the nap of the story.
            let bound = if repeated { NAP + secs(5) } else { Duration::from_mins(15) + secs(17) + NAP + secs(5) };
            assert!(row.slowest < bound, "{}: {:?}", row.what, row.slowest);
            rows.push(row);
        }
    }
    assert!(rows.iter().all(|row| row.tried >= 4), "too few points were tried");
    report("engine-client-crash-points", &rows);
}
