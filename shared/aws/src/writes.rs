//! Each write as one conditional update that needs no read: what `stepwell_core::write` says, in DynamoDB's words.
//!
//! An expression cannot decide: it has no "if" and no "maximum", and cannot count bytes. Where the definition does, an
//! update here takes the usual case for granted, as one more condition. So such an update may be refused where the
//! definition would accept it, never the other way round; [`crate::exact`] writes what was refused so, from the
//! checkpoint that the refusal shows.
//!
//! | taken for granted | because | not so |
//! | --- | --- | --- |
//! | a commit ends a visit if its history entry says so | `tried_since` depends on the visit before | a cancelled step |
//! | an attempt that failed was the only one | the same | an attempt before it crashed |
//! | there is room for more remembered ids | a list cannot be cut from the front unread | once in 16 consumed signals |
//! | consumed letters still count for the mailbox's bytes | their sizes are not known unread | a mailbox that seems full |
//! | a renewal extends the lease | an expression has no maximum | a clock that is behind |
//! | a large checkpoint has no letters, and takes none | nothing adds up sizes | progress of over 284 KB |

use stepwell_core::history::EntryKind;
use stepwell_core::limits::{MAILBOX_BYTES_MAX, MAILBOX_LETTERS_MAX, SIGNALS_SEEN_MAX};
use stepwell_core::stored::FORMAT;
use stepwell_core::write::{Acquire, Commit, Renew};
use stepwell_core::{CancelRequest, Letter, Phase, Progress, RunId, SignalId, Timestamp, WriteId};
use stepwell_ports::{Claim, StoreError};

use crate::item::{self, Attribute, name};
use crate::update::Update;

/// Remembered signal ids that are stored: more than count, so that most commits need not cut the list.
pub(crate) const SEEN_STORED_MAX: usize = SIGNALS_SEEN_MAX + 16;

const LIVE: [Phase; 4] = [Phase::Created, Phase::Running, Phase::Waiting, Phase::Retrying];
const NOT_ENDED: [Phase; 5] = [Phase::Created, Phase::Running, Phase::Waiting, Phase::Retrying, Phase::Parked];

/// Takes the lease.
pub(crate) fn acquire(acquire: &Acquire, id: WriteId, now: Timestamp) -> Update {
    let mut update = begun();
    not_yet(&mut update, id);
    phase_in(&mut update, &LIVE);
    update.when_is(name::TICKET, acquire.ticket.0);
    let now = update.value(now.0);
    update.when(format!("(attribute_not_exists({until}) OR {until} <= {now})", until = name::LEASE_UNTIL));
    // At once, or cancelled, or at its time, or when a signal is new. What is missing compares as false.
    let [created, running] = [Phase::Created, Phase::Running].map(|phase| update.value(item::phase_code(phase)));
    update.when(format!(
        "({} IN ({created}, {running}) OR attribute_exists({}) OR {} <= {now} OR {} > {})",
        name::PHASE,
        name::CANCEL,
        name::WAKES_AT,
        name::MAILBOX_SEQ,
        name::WAIT_SEEN
    ));
    for counter in [name::FENCE, name::ACQUIRES] {
        raise(&mut update, counter, 1);
    }
    update.set_to(name::TRIED_SINCE, &format!("if_not_exists({}, {now})", name::TRIED_SINCE));
    put(&mut update, item::lease_attributes(Some(&acquire.lease)));
    update
}

/// Extends the lease.
pub(crate) fn renew(renew: &Renew, id: WriteId) -> Update {
    let mut update = begun();
    not_yet(&mut update, id);
    update.when_is(name::FENCE, renew.fence.0);
    let until = update.value(renew.until.0);
    update.when(format!("{} <= {until}", name::LEASE_UNTIL));
    update.set_to(name::LEASE_UNTIL, &until);
    update
}

/// Writes the progress of a step.
pub(crate) fn commit(run: &RunId, commit: &Commit, id: WriteId, now: Timestamp) -> Result<Update, StoreError> {
    let mut update = begun();
    not_yet(&mut update, id);
    update.when_is(name::FENCE, commit.fence.0);
    update.when_there(name::LEASE_UNTIL, true);
    update.when_is(name::REVISION, commit.after.0);
    update.when_there(name::CANCEL, commit.cancel_seen);
    if let Some(seen) = commit.mailbox_seen {
        update.when_is(name::MAILBOX_SEQ, seen.0);
    }
    let visit = update.value(commit.progress.visit.0);
    if ends_a_visit(&commit.progress) {
        update.when(format!("{} <> {visit}", name::VISIT));
        update.set_or_remove(name::TRIED_SINCE, commit.lease.as_ref().map(|_| now.0));
        update.set(name::ACQUIRES, 0);
    } else {
        update.when(format!("{} = {visit}", name::VISIT));
        if commit.lease.is_none() {
            let (tried, held) = (name::TRIED_SINCE, name::LEASE_SINCE);
            update.when(format!("(attribute_not_exists({tried}) OR {tried} >= {held})"));
            update.remove(tried);
            update.set(name::ACQUIRES, 0);
        }
    }
    put(&mut update, item::lease_attributes(commit.lease.as_ref()));
    let progress = item::progress_attributes(run, &commit.progress)?;
    let is_large = progress.iter().any(|(attribute, value)| *attribute == name::LARGE && value.is_some());
    put(&mut update, progress);
    put(&mut update, [item::due_place(run, commit.due_at)]);
    if is_large {
        let none = update.value(0);
        update.when(format!("size({}) = {none}", name::LETTERS));
    }
    consume(&mut update, commit);
    Ok(update)
}

/// Puts a signal into the mailbox.
pub(crate) fn signal(run: &RunId, letter: &Letter, now: Timestamp) -> Result<Update, StoreError> {
    let mut update = begun();
    phase_in(&mut update, &NOT_ENDED);
    update.when_there(name::LARGE, false);
    let (id, weight) = (update.name(letter.id.as_str()), letter.payload.weight());
    update.when_there(&format!("{}.{id}", name::LETTERS), false);
    let seen = update.value(letter.id.as_str());
    update.when(format!("NOT contains({}, {seen})", name::SEEN));
    let most = update.value(MAILBOX_LETTERS_MAX as u64);
    update.when(format!("size({}) < {most}", name::LETTERS));
    match MAILBOX_BYTES_MAX.checked_sub(weight) {
        Some(room) => {
            let room = update.value(room as u64);
            update.when(format!("{} <= {room}", name::LETTER_BYTES));
        }
        // Never: it is too large for an empty mailbox.
        None => update.when_there(name::FORMAT, false),
    }
    let next = raise(&mut update, name::MAILBOX_SEQ, 1);
    update.set(&format!("{}.{id}", name::LETTERS), item::json(run, letter)?);
    update.set_to(&format!("{}.{id}", name::LETTER_ORDER), &next);
    raise(&mut update, name::LETTER_BYTES, weight as u64);
    put(&mut update, [item::due_place(run, Some(now.next_mark()))]);
    Ok(update)
}

/// Asks for the end of the run.
pub(crate) fn cancel(run: &RunId, cancel: &CancelRequest, now: Timestamp) -> Result<Update, StoreError> {
    let mut update = begun();
    phase_in(&mut update, &NOT_ENDED);
    update.when_there(name::CANCEL, false);
    update.set(name::CANCEL, item::json(run, cancel)?);
    put(&mut update, [item::due_place(run, Some(now.next_mark()))]);
    Ok(update)
}

/// Makes a run the owner of a key: what [`Claim::is_granted_by`] says.
pub(crate) fn claim(claim: &Claim) -> Update {
    let mut update = Update::default();
    let format = update.value(u64::from(FORMAT));
    update.when(format!("(attribute_not_exists({v}) OR {v} <= {format})", v = name::FORMAT));
    let run = update.value(claim.by.to_string());
    let (nobody, owner) = (format!("attribute_not_exists({})", name::PARTITION), name::OWNER);
    let ours = match &claim.instead_of {
        None => format!("{owner} = {run}"),
        Some(from) => format!("{owner} IN ({run}, {})", update.value(from.to_string())),
    };
    update.when(format!("({nobody} OR {ours})"));
    update.set_to(name::FORMAT, &format);
    update.set_to(owner, &run);
    update
}

/// An update that touches nothing which newer code wrote. That a run is not there shows in this condition as well.
pub(crate) fn begun() -> Update {
    let mut update = Update::default();
    let format = update.value(u64::from(FORMAT));
    update.when(format!("{} <= {format}", name::FORMAT));
    update
}

/// Sets the attributes that have a value, and removes the others.
pub(crate) fn put(update: &mut Update, attributes: impl IntoIterator<Item = Attribute>) {
    for (attribute, value) in attributes {
        update.set_or_remove(attribute, value);
    }
}

/// A request that was applied already is not applied again.
fn not_yet(update: &mut Update, id: WriteId) {
    let id = update.value(id.0);
    update.when(format!("{} <> {id}", name::WRITE));
    update.set_to(name::WRITE, &id);
}

fn phase_in(update: &mut Update, phases: &[Phase]) {
    let codes: Vec<String> = phases.iter().map(|phase| update.value(item::phase_code(*phase))).collect();
    update.when(format!("{} IN ({})", name::PHASE, codes.join(", ")));
}

/// Raises a counter; the answer is the expression for what it is then.
fn raise(update: &mut Update, counter: &str, by: u64) -> String {
    let raised = format!("{counter} + {}", update.value(by));
    update.set_to(counter, &raised);
    raised
}

/// Whether a commit ends a visit of a step, by the history entry that it adds.
fn ends_a_visit(progress: &Progress) -> bool {
    progress.tail.entries.last().is_none_or(|entry| match entry.kind {
        EntryKind::Stepped
        | EntryKind::Waited
        | EntryKind::Undoing
        | EntryKind::Undone
        | EntryKind::LetStand
        | EntryKind::Moved
        | EntryKind::Completed => true,
        EntryKind::LookedUp
        | EntryKind::Edited
        | EntryKind::Reopened
        | EntryKind::Intended
        | EntryKind::Retried
        | EntryKind::Parked
        | EntryKind::Resumed
        | EntryKind::Resolved
        | EntryKind::Answered
        | EntryKind::Failed
        | EntryKind::Cancelled => false,
    })
}

/// Removes letters and remembers their ids. Letters are named by id, so that a holder removes what it has read, whatever
/// has arrived since.
fn consume(update: &mut Update, commit: &Commit) {
    if commit.consumed.is_empty() {
        return;
    }
    let mut names: Vec<_> = commit.consumed.iter().collect();
    names.sort();
    names.dedup();
    for id in names {
        let id = update.name(id.as_str());
        update.remove(&format!("{}.{id}", name::LETTERS));
        update.remove(&format!("{}.{id}", name::LETTER_ORDER));
    }
    let room = update.value(SEEN_STORED_MAX.saturating_sub(commit.consumed.len()) as u64);
    update.when(format!("size({}) <= {room}", name::SEEN));
    let ids = update.value(item::texts(commit.consumed.iter().map(SignalId::as_str)));
    update.set_to(name::SEEN, &format!("list_append({}, {ids})", name::SEEN));
}
