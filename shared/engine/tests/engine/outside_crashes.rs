//! Every crash point of runs that act under an approval, fail and take back: the outside acts at most once under each key, an
//! approval is used once, and after a failure nothing stands.

use std::time::Duration;

use stepwell::{Registry, days};
use stepwell_core::decide::{Resolution, Resolve};
use stepwell_core::{EffectRecord, Phase, Status};
use stepwell_engine::WorkerSettings;
use stepwell_testkit::crash::{CrashPoint, Side};
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, secs};
use crate::crash_matrix::{Row, report};
use crate::shop::{Buy, Do, Kind, Order, Set, Shop, Thing, ask, buy, happened};

/// A run, and what has to have come of it in the end.
#[derive(Clone, Copy, PartialEq)]
enum Course {
    /// Asks, is allowed, acts.
    Approved(Kind),
    /// Does this and that, fails, and takes it back.
    Fails,
    /// Asks, is allowed, acts, then somebody cancels it.
    Cancelled,
}

const COURSES: [(&str, Course); 4] = [
    ("an approved effect, idempotent", Course::Approved(Kind::Idempotent)),
    ("an approved effect, once", Course::Approved(Kind::Once)),
    ("a failure that takes back", Course::Fails),
    ("a cancellation that takes back", Course::Cancelled),
];

fn refund(thing: Thing, kind: Kind) -> Buy {
    buy(thing, kind).approved(900).undo().costs(60, Some(50))
}

impl Course {
    fn plan(self) -> Vec<Do> {
        let asks = [Do::Ask(ask(900)), Do::Decide];
        let seat = Do::Buy(buy(Thing::Seat, Kind::Idempotent).undo());
        let room = Do::Buy(buy(Thing::Room, Kind::Reconcilable).undo());
        match self {
            Self::Approved(kind) => [&asks[..], &[Do::Buy(refund(Thing::Seat, kind))]].concat(),
            Self::Fails => vec![seat, room, Do::Buy(buy(Thing::Car, Kind::Once).undo()), Do::Fail],
            Self::Cancelled => {
                [&[room], &asks[..], &[Do::Buy(refund(Thing::Seat, Kind::Idempotent)), Do::Wait]].concat()
            }
        }
    }

    const fn ends(self) -> Phase {
        match self {
            Self::Approved(_) => Phase::Completed,
            Self::Fails => Phase::Failed,
            Self::Cancelled => Phase::Cancelled,
        }
    }
}

/// What people do: one answers, one cancels where that is the course, and one looks at what the shop's books say of what is open.
async fn people(set: &Set, course: Course) {
    for _ in 0..3_600 {
        let checkpoint = set.bed.checkpoint(&set.run).await;
        let status = &checkpoint.progress.status;
        let waits_for_answer = matches!(status, Status::Waiting(wait) if wait.approval.is_some());
        if status.phase().is_ended() {
            return;
        } else if waits_for_answer {
            set.answers("ann", "finance", true).await.ok();
        } else if course == Course::Cancelled && status.phase() == Phase::Waiting {
            set.bed.client().cancel(&set.run, "ann", None).await.ok();
        } else if let Status::Parked { .. } = status {
            settle(set).await;
        }
        tokio::time::sleep(secs(1)).await;
    }
}

async fn settle(set: &Set) {
    let progress = set.bed.checkpoint(&set.run).await.progress;
    let Some(open) = progress.journal.into_iter().chain(progress.ledger).find(EffectRecord::is_open) else { return };
    let EffectRecord { key, name, .. } = open;
    let has_acted = set.shop.books().acted.keys().any(|(acted, by)| *acted == name && by == key.as_str());
    let resolution = if has_acted { happened(&name) } else { Resolution::TryAgain };
    let act = Resolve { key, resolution, by: "ann".into(), why: "looked".into() };
    // Refused while the call may still land: then it is said again.
    set.bed.client().resolve(&set.run, act).await.ok();
}

async fn wrong(set: &Set, course: Course) -> Vec<String> {
    let mut found = set.shop.acted_twice();
    let mut must = |holds: bool, what: String| {
        if !holds {
            found.push(what);
        }
    };
    let checkpoint = set.bed.checkpoint(&set.run).await;
    let progress = &checkpoint.progress;
    let phase = progress.status.phase();
    must(phase == course.ends(), format!("it is {phase}: {:?}", progress.status));
    let stands = set.shop.stands();
    let expected: &[&str] = if matches!(course, Course::Approved(_)) { &["seat"] } else { &[] };
    must(stands == expected, format!("{stands:?} stand"));
    let (asked, used) =
        (progress.approvals.len(), progress.approvals.iter().filter_map(|approval| approval.used.as_ref()));
    let keys: Vec<String> =
        set.shop.books().acted.keys().filter(|(name, _)| *name == "seat").map(|(_, key)| key.clone()).collect();
    let used: Vec<String> = used.map(|used| used.by.to_string()).collect();
    if course != Course::Fails {
        must(
            asked == 1 && used == keys && used.len() == 1,
            format!("of {asked} approvals {used:?} are used, by {keys:?}"),
        );
    }
    let undone: Vec<&str> =
        progress.undoing.iter().flat_map(|undoing| &undoing.undone).map(|effect| effect.name.as_str()).collect();
    let expected: &[&str] = match course {
        Course::Approved(_) => &[],
        Course::Fails => &["car", "room", "seat"],
        Course::Cancelled => &["seat", "room"],
    };
    must(undone == expected, format!("{undone:?} are taken back"));
    // What each has cost counts once; so does each way back.
    let cents = progress.spent.ended.get("cents").copied().unwrap_or(0);
    let ways_back = expected.len() as u64;
    // What a person says has happened has cost what was reserved.
    let of_seat = if course == Course::Fails { 0..=0 } else { 50..=60 };
    must(cents >= ways_back && of_seat.contains(&(cents - ways_back)), format!("{cents} cents are spent"));
    found.extend(set.bed.witness.violations());
    found
}

/// Plays a course; the first worker dies at this point, and another comes.
async fn play(course: Course, point: CrashPoint) -> (Vec<String>, Duration, bool) {
    let shop = Shop::default();
    let bed = Bed::new(Registry::new().with(Order::<1, 0>(shop.clone())));
    let run = bed.start::<Order>(course.plan()).await;
    let set = Set { bed, shop, run };
    let settings =
        WorkerSettings { turn: Duration::ZERO, wait: secs(20), sweep_every: days(30), ..WorkerSettings::default() };
    let gate = Gate::crashing(point);
    let first = set.bed.worker_behind(&gate, "a", settings.clone());
    let fuse = gate.fuse().clone();
    let standby = async {
        fuse.burnt().await;
        // It sweeps nothing: what it rescues, it rescues without that.
        let gate = Gate::planned(|_, call| if call == PortCall::Due { Fate::Unavailable } else { Fate::Pass });
        let _second = set.bed.worker_behind(&gate, "b", settings.clone());
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = people(&set, course) => {}
        () = standby => {}
    }
    let (took, came_to_it) = (set.bed.elapsed(), gate.total() >= point.call);
    drop(first);
    (wrong(&set, course).await, took, came_to_it)
}

#[tokio::test(start_paused = true)]
async fn a_worker_may_die_at_any_of_its_calls_and_the_outside_acts_once() {
    let mut rows = Vec::new();
    for (what, course) in COURSES {
        for side in Side::BOTH {
            let mut row = Row::new(format!("{what}; worker dies {side} a call"));
            for call in 1.. {
                let (wrong, took, came_to_it) = play(course, CrashPoint { call, side }).await;
                if !came_to_it {
                    assert_eq!(wrong, Vec::<String>::new(), "{what}, undisturbed");
                    break;
                }
                row.add(&format!("call {call}"), &wrong, took);
            }
            rows.push(row);
        }
    }
    assert!(rows.iter().all(|row| row.tried > 12), "too few points were tried");
    report("engine-outside-crash-points", &rows);
}
