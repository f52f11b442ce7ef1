//! The size limit of a checkpoint. Backends may measure a little differently; none by more than [`MARGIN`].

use stepwell_core::limits::CHECKPOINT_BYTES_MAX;
use stepwell_core::write::Write;
use stepwell_core::{Checkpoint, Payload, Status};
use stepwell_ports::{StoreError, Written};

use super::bed::{Bed, LEASE, at, boxed, json, json_of, renew, run, start, start_with};

/// How far two honest measures of one checkpoint may be apart.
const MARGIN: usize = 1024;

/// What a checkpoint has besides its state, closely.
fn state_for(held: &Checkpoint, whole: usize) -> usize {
    let mut empty = held.clone();
    empty.progress.place = at("\"Next\"", json_of(2));
    empty.hold.lease = None;
    whole - empty.weight() + 2
}

/// A hand-off that makes the checkpoint this large.
fn hand_off_of(bed: &Bed<'_>, held: &Checkpoint, whole: usize) -> Write {
    let mut commit = bed.hand_off(held, Status::Running);
    commit.progress.place = at("\"Next\"", json_of(state_for(held, whole)));
    boxed(commit)
}

pub(super) async fn a_checkpoint_up_to_the_limit_is_stored(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    bed.applied(&held.run, hand_off_of(bed, &held, CHECKPOINT_BYTES_MAX - MARGIN)).await;
    let input = json_of(CHECKPOINT_BYTES_MAX - 2 * MARGIN);
    bed.applied(&run("large-input"), start_with("brief", input)).await;
}

pub(super) async fn a_checkpoint_over_the_limit_is_invalid(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    let small = bed.handed_off(&held, Status::Running).await;
    let held = bed.acquired(&small).await;
    let over = bed.request(&held.run, hand_off_of(bed, &held, CHECKPOINT_BYTES_MAX + MARGIN));
    is_invalid(bed, &over).await;
    // The very same run goes on with less.
    let free = bed.handed_off(&held, Status::Running).await;

    is_invalid(bed, &bed.request(&run("new"), start_with("brief", json_of(CHECKPOINT_BYTES_MAX + MARGIN)))).await;
    bed.applied(&run("new"), start("brief")).await;

    // Others can make it too large as well.
    let held = bed.acquired(&free).await;
    let free = bed.applied(&held.run, hand_off_of(bed, &held, CHECKPOINT_BYTES_MAX - 3 * MARGIN)).await;
    let signal = bed.signal_of("s", "chat", Payload::Inline(json_of(5 * MARGIN)));
    is_invalid(bed, &bed.request(&free.run, signal)).await;
    let mut amend = bed.amend(&free);
    amend.progress.place = at("\"Next\"", json_of(CHECKPOINT_BYTES_MAX + MARGIN));
    is_invalid(bed, &bed.request(&free.run, Write::Amend(Box::new(amend)))).await;
}

async fn is_invalid(bed: &Bed<'_>, request: &stepwell_core::write::WriteRequest) {
    let before = bed.load(&request.run).await;
    let answer = bed.store.write(request).await;
    assert!(matches!(answer, Err(StoreError::Invalid(_))), "too large, yet the answer is {}", short(&answer));
    assert_eq!(bed.load(&request.run).await, before, "nothing was written");
}

/// A run that was stored must always be taken up again. Whatever a backend measures, the largest checkpoint that it accepts
/// has to leave room for a lease and a cancellation.
pub(super) async fn a_run_at_the_limit_can_still_be_taken_up(bed: &Bed<'_>) {
    let (mut fits, mut over) = (CHECKPOINT_BYTES_MAX - MARGIN, CHECKPOINT_BYTES_MAX + MARGIN);
    let mut largest = None;
    while over - fits > 1 {
        let middle = fits.midpoint(over);
        let held = bed.held(&format!("r{middle}")).await;
        match bed.store.write(&bed.request(&held.run, hand_off_of(bed, &held, middle))).await {
            Ok(Written::Applied(stored)) => (fits, largest) = (middle, Some(stored)),
            Err(StoreError::Invalid(_)) => over = middle,
            other => panic!("expected it stored or invalid, got {}", short(&other)),
        }
    }
    let stored = largest.expect("a checkpoint between the two sizes");
    let held = bed.acquired(&stored).await;
    bed.applied(&held.run, renew(held.hold.fence, bed.now().plus(LEASE * 2))).await;
    let cancelled = bed.applied(&held.run, bed.cancel("ann")).await;
    let mut smaller = bed.hand_off(&cancelled, bed.completed());
    smaller.progress.place = at("\"End\"", json("1"));
    bed.applied(&held.run, boxed(smaller)).await;
}

/// An answer without its 400 KB.
fn short(answer: &Result<Written, StoreError>) -> String {
    format!("{answer:?}").chars().take(200).collect()
}
