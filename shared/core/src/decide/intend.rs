//! Before a call that cannot be repeated unasked: its intent is written, under the fence, and only then it is made.

use alloc::vec::Vec;
use core::time::Duration;

use super::{Draft, Illegal, Rules};
use crate::approval::Used;
use crate::checkpoint::{Checkpoint, Lease};
use crate::effect::EffectRecord;
use crate::history::{EffectLine, EntryKind, More};
use crate::status::Status;
use crate::time::Timestamp;
use crate::write::Commit;

/// Decides on the write that has to stand before calls are made: `journal` is every effect of this visit, those about to be
/// called included, as unknown; each has been [admitted](super::admit()), and uses its approval with this write. The lease is kept, and lasts at least until `until`, when the calls give up waiting.
///
/// The write is refused when the run was cancelled or taken over meanwhile: then nothing may be called.
pub fn intend(
    held: &Checkpoint,
    journal: Vec<EffectRecord>,
    until: Timestamp,
    rules: Rules,
    now: Timestamp,
) -> Result<Commit, Illegal> {
    let step = held.progress.place.step();
    let known = |record: &EffectRecord| held.progress.journal.contains(record);
    let is_intended =
        |record: &&EffectRecord| (record.has_intent() || record.class.acts()) && record.is_unknown() && !known(record);
    let effects = journal.iter().filter(is_intended);
    let effects = effects.map(EffectLine::from).collect();
    let mut draft = Draft::new(held, now);
    draft.become_status(Status::Running, &step)?;
    for record in journal.iter().filter(|record| is_intended(record)) {
        let given = record.approval.as_ref();
        let approvals = draft.progress.approvals.iter_mut();
        for approval in approvals.filter(|approval| Some(&approval.id) == given && approval.used.is_none()) {
            approval.used = Some(Used { by: record.key.clone(), at: now });
        }
    }
    draft.progress.journal = journal;
    draft.record(step, EntryKind::Intended, Duration::ZERO, More { effects, ..More::default() });
    let lease = held.hold.lease.as_ref();
    // An effect beside this one may need the lease for longer than a new one would last.
    let lease = lease.map(|held| Lease { until: held.until.max(until).max(now.plus(rules.lease)), ..held.clone() });
    Ok(draft.into_commit(lease, None))
}
