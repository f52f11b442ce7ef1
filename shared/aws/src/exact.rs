//! A write from the checkpoint that was seen: what `stepwell_core::write::apply` makes of it, written whole, on the
//! condition that it is still that checkpoint. For what an expression alone cannot say, see [`crate::writes`].

use stepwell_core::Checkpoint;
use stepwell_core::write::{Write, WriteRequest, apply, is_applied};
use stepwell_ports::{StoreError, Written};

use crate::item::{self, name};
use crate::update::Update;
use crate::writes;

/// What the definition says.
pub(crate) enum Judged {
    /// Nothing has to be written: this is the answer.
    Answered(Written),
    /// This has to be written.
    Next(Box<Checkpoint>),
}

/// Puts a request to the definition. `beside` says whether it brings along what still has to be written.
pub(crate) fn judge(current: Option<Checkpoint>, request: &WriteRequest, beside: bool) -> Result<Judged, StoreError> {
    let Ok(next) = apply(current.as_ref(), request) else {
        return Ok(Judged::Answered(Written::Refused(current.map(Box::new))));
    };
    let repeated = current.as_ref().is_some_and(|current| is_applied(current, request));
    if repeated || (current.as_ref() == Some(&next) && !beside) {
        return Ok(Judged::Answered(Written::Applied(Box::new(next))));
    }
    // A write that brings no values is never refused for size: else a run just under the limit could not be taken up any
    // more.
    match &request.write {
        Write::Start(_) | Write::Commit(_) | Write::Signal(_) | Write::Amend(_) => {
            item::check_size(&request.run, next.weight())?;
        }
        Write::Acquire(_) | Write::Renew(_) | Write::Cancel(_) => {}
    }
    Ok(Judged::Next(Box::new(next)))
}

/// Writes `next` whole, if the checkpoint is still `seen`. Every write changes its id, its mailbox's number or its
/// cancellation, so these three tell.
pub(crate) fn rewrite(seen: &Checkpoint, next: &Checkpoint) -> Result<Update, StoreError> {
    let mut update = writes::begun();
    update.when_is(name::WRITE, seen.hold.write.0);
    update.when_is(name::MAILBOX_SEQ, seen.mailbox.seq.0);
    update.when_there(name::CANCEL, seen.cancel.is_some());
    // The format is in the first condition, and stays the newest that has written.
    let attributes = item::attributes(next)?.into_iter().filter(|(attribute, _)| *attribute != name::FORMAT);
    writes::put(&mut update, attributes);
    Ok(update)
}
