//! Who commits, and what every write does to the counters.

use std::collections::BTreeMap;

use stepwell_core::write::Write;
use stepwell_core::{Fence, Phase};

use super::{Evidence, Findings, of_run};
use crate::Wrong;
use crate::tape::{Seen, Who};

/// Invariant 2: Each fence has one holder, and only that one commits under it; commits follow one another by revision, and each has its entry in
/// the history.
pub(super) fn one_holder_commits(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::of(2);
    for end in &evidence.finals {
        let revisions: Vec<u64> = end.history.iter().map(|entry| entry.revision.0).collect();
        let all: Vec<u64> = (1..=end.checkpoint.progress.revision.0).collect();
        found.must(revisions == all, || format!("{}: the history has a gap: {revisions:?}", end.checkpoint.run));
        let mut holders = BTreeMap::<Fence, &Who>::new();
        for Seen { at, by, request, before, after } in of_run(evidence, end) {
            let run = &request.run;
            match (&request.write, before) {
                (Write::Acquire(_), _) => {
                    let earlier = holders.insert(after.hold.fence, by);
                    found.must(earlier.is_none(), || {
                        format!("{run}: {by} acquires under fence {} at {at}, as did {earlier:?}", after.hold.fence)
                    });
                }
                (Write::Commit(commit), Some(before)) => {
                    found.must(commit.fence == before.hold.fence, || {
                        format!("{run}: {by} commits under an old fence at {at}")
                    });
                    let holder = holders.get(&commit.fence);
                    found.must(holder == Some(&by), || {
                        format!(
                            "{run}: {by} commits at {at} under fence {}, which is {}'s",
                            commit.fence,
                            holder.map_or("nobody", |holder| holder)
                        )
                    });
                    found.must(after.progress.revision == before.progress.revision.next(), || {
                        format!("{run}: the commit of {by} at {at} does not follow the one before it")
                    });
                }
                (
                    Write::Start(_)
                    | Write::Renew(_)
                    | Write::Commit(_)
                    | Write::Signal(_)
                    | Write::Cancel(_)
                    | Write::Amend(_),
                    _,
                ) => {}
            }
        }
    }
    found.found()
}

/// Counters never fall, and an end is an end.
pub(super) fn counters_rise(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::other();
    for Seen { at, request, before, after, .. } in &evidence.recorded.writes {
        let Some(before) = before else { continue };
        let (run, old, new) = (&request.run, &before.progress, &after.progress);
        let mut must = |holds: bool, what: &str| found.must(holds, || format!("{run} at {at}: {what}"));
        must(new.ticket >= old.ticket, "the ticket fell");
        must(after.hold.fence >= before.hold.fence, "the fence fell");
        must(new.revision >= old.revision, "the revision fell");
        must(new.visit.0 <= old.visit.0 + 1, "one write ended two steps");
        must(after.mailbox.seq >= before.mailbox.seq, "the mailbox's number fell");
        must(before.cancel.is_none() || after.cancel == before.cancel, "a cancellation was changed");
        let reopened = old.status.phase() == Phase::Failed && matches!(request.write, Write::Amend(_));
        must(!old.status.phase().is_ended() || reopened, "an ended run was written");
        if let Err(broken) = stepwell_core::invariants::check(after) {
            // The mark has a checker of its own.
            must(broken.number == 6, &broken.to_string());
        }
    }
    found.found()
}
