//! A checkpoint as a DynamoDB item. The attributes' short names are all here; the crate's page has their table.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use serde::Serialize;
use serde::de::DeserializeOwned;
use stepwell_core::limits::{CHECKPOINT_BYTES_MAX, SIGNALS_SEEN_MAX};
use stepwell_core::stored::{FORMAT, StoredError};
use stepwell_core::{
    Checkpoint, Digest, EffectKey, Fence, Hold, Lease, Letter, Mailbox, MailboxSeq, Phase, Progress, RunId, SignalId,
    Status, Timestamp, WorkerId, WorkflowName, WriteId,
};
use stepwell_ports::{Claimant, StoreError};

use crate::keys;

/// An item, or a part of one.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// The attributes' names. None is a word that DynamoDB reserves.
pub(crate) mod name {
    pub(crate) const PARTITION: &str = "pk";
    pub(crate) const SORT: &str = "sk";
    pub(crate) const FORMAT: &str = "v";
    pub(crate) const WORKFLOW: &str = "w";
    pub(crate) const INPUT_DIGEST: &str = "i";
    pub(crate) const FENCE: &str = "f";
    pub(crate) const WRITE: &str = "q";
    pub(crate) const ACQUIRES: &str = "a";
    pub(crate) const TRIED_SINCE: &str = "y";
    pub(crate) const LEASE_OWNER: &str = "lo";
    pub(crate) const LEASE_SINCE: &str = "ls";
    pub(crate) const LEASE_UNTIL: &str = "lu";
    pub(crate) const PROGRESS: &str = "p";
    pub(crate) const TICKET: &str = "k";
    pub(crate) const REVISION: &str = "r";
    pub(crate) const VISIT: &str = "n";
    pub(crate) const PHASE: &str = "s";
    pub(crate) const WAKES_AT: &str = "wa";
    pub(crate) const WAIT_SEEN: &str = "ws";
    pub(crate) const LARGE: &str = "z";
    pub(crate) const LETTERS: &str = "m";
    pub(crate) const LETTER_ORDER: &str = "o";
    pub(crate) const LETTER_BYTES: &str = "mb";
    pub(crate) const MAILBOX_SEQ: &str = "ms";
    pub(crate) const SEEN: &str = "d";
    pub(crate) const CANCEL: &str = "x";
    pub(crate) const DUE_SHARD: &str = "gd";
    pub(crate) const DUE_PLACE: &str = "da";
    pub(crate) const LIST_SHARD: &str = "gl";
    pub(crate) const LIST_PLACE: &str = "la";
    pub(crate) const JSON: &str = "j";
    pub(crate) const OWNER: &str = "h";
}

/// Bytes of a checkpoint besides its progress, mailbox and cancellation, closely.
const FIXED_BYTES: usize = 256;

/// Bytes that mailbox, remembered ids and names may take beside the rest: 64 KB of payloads, 64 letters' names and
/// twice their ids, 80 ids.
const MAIL_BYTES_MAX: usize = 96 * 1024;

/// An attribute, or its absence.
pub(crate) type Attribute = (&'static str, Option<AttributeValue>);

/// A number.
pub(crate) fn number(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

/// A list of texts.
pub(crate) fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> AttributeValue {
    AttributeValue::L(texts.into_iter().map(text).collect())
}

/// JSON as text.
pub(crate) fn json<T: Serialize>(run: &RunId, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Invalid(format!("run {run}: it cannot be written as JSON: {error}")))
}

/// The key of an item of a run.
pub(crate) fn key(run: &RunId, sort: impl Into<String>) -> Item {
    HashMap::from([(name::PARTITION.into(), keys::partition(run)), (name::SORT.into(), text(sort))])
}

/// The letter that stands for a phase.
pub(crate) const fn phase_code(phase: Phase) -> &'static str {
    match phase {
        Phase::Created => "n",
        Phase::Running => "r",
        Phase::Waiting => "w",
        Phase::Retrying => "y",
        Phase::Parked => "p",
        Phase::Cancelling => "g",
        Phase::Completed => "c",
        Phase::Failed => "f",
        Phase::Cancelled => "x",
    }
}

/// All attributes besides the key.
pub(crate) fn attributes(checkpoint: &Checkpoint) -> Result<Vec<Attribute>, StoreError> {
    let Checkpoint { run, workflow, started_at, input_digest, hold, progress, mailbox, cancel, due_at } = checkpoint;
    let mut all = vec![
        (name::FORMAT, Some(number(FORMAT.into()))),
        (name::WORKFLOW, Some(text(workflow.as_str()))),
        (name::INPUT_DIGEST, Some(AttributeValue::B(Blob::new(input_digest.0)))),
        (name::LIST_PLACE, Some(text(keys::place(*started_at, run)))),
        (name::FENCE, Some(number(hold.fence.0))),
        (name::WRITE, Some(number(hold.write.0))),
        (name::ACQUIRES, Some(number(hold.acquires.into()))),
        (name::TRIED_SINCE, hold.tried_since.map(|at| number(at.0))),
        (name::CANCEL, cancel.as_ref().map(|cancel| json(run, cancel)).transpose()?.map(text)),
        due_place(run, *due_at),
    ];
    all.extend(lease_attributes(hold.lease.as_ref()));
    all.extend(progress_attributes(run, progress)?);
    all.extend(mailbox_attributes(run, mailbox)?);
    Ok(all)
}

/// The watchdog's mark.
pub(crate) fn due_place(run: &RunId, due_at: Option<Timestamp>) -> Attribute {
    (name::DUE_PLACE, due_at.map(|at| text(keys::place(at, run))))
}

/// Who holds the run.
pub(crate) fn lease_attributes(lease: Option<&Lease>) -> [Attribute; 3] {
    [
        (name::LEASE_OWNER, lease.map(|lease| text(lease.owner.as_str()))),
        (name::LEASE_SINCE, lease.map(|lease| number(lease.since.0))),
        (name::LEASE_UNTIL, lease.map(|lease| number(lease.until.0))),
    ]
}

/// The progress, and what conditions and indexes need of it.
pub(crate) fn progress_attributes(run: &RunId, progress: &Progress) -> Result<[Attribute; 10], StoreError> {
    let (wakes_at, wait_seen) = match &progress.status {
        Status::Retrying { at } => (Some(number(at.0)), None),
        Status::Waiting(wait) => (wait.wakes_at().map(|at| number(at.0)), Some(number(wait.seen.0))),
        Status::Created
        | Status::Running
        | Status::Parked { .. }
        | Status::Completed { .. }
        | Status::Failed { .. }
        | Status::Cancelled { .. } => (None, None),
    };
    let phase = progress.status.phase();
    let json = json(run, progress)?;
    let large = is_large(json.len() + FIXED_BYTES).then(|| number(1));
    Ok([
        (name::PROGRESS, Some(text(json))),
        (name::TICKET, Some(number(progress.ticket.0))),
        (name::REVISION, Some(number(progress.revision.0))),
        (name::VISIT, Some(number(progress.visit.0))),
        (name::PHASE, Some(text(phase_code(phase)))),
        (name::WAKES_AT, wakes_at),
        (name::WAIT_SEEN, wait_seen),
        (name::LARGE, large),
        (name::DUE_SHARD, keys::due_shard(run, phase).map(text)),
        (name::LIST_SHARD, Some(text(keys::list_shard(run, phase)))),
    ])
}

fn mailbox_attributes(run: &RunId, mailbox: &Mailbox) -> Result<[Attribute; 5], StoreError> {
    let Mailbox { seq, letters, seen } = mailbox;
    let bytes: usize = letters.iter().map(|letter| letter.payload.weight()).sum();
    let (mut values, mut order) = (HashMap::new(), HashMap::new());
    // The newest has the mailbox's own number, so that the next one comes after all of them.
    for (back, letter) in (0_u64..).zip(letters.iter().rev()) {
        values.insert(letter.id.to_string(), text(json(run, letter)?));
        order.insert(letter.id.to_string(), number(seq.0.saturating_sub(back)));
    }
    Ok([
        (name::MAILBOX_SEQ, Some(number(seq.0))),
        (name::LETTERS, Some(AttributeValue::M(values))),
        (name::LETTER_ORDER, Some(AttributeValue::M(order))),
        (name::LETTER_BYTES, Some(number(bytes as u64))),
        (name::SEEN, Some(texts(seen.iter().map(SignalId::as_str)))),
    ])
}

/// Whether a checkpoint of this size could pass the limit by what others add to its mailbox.
const fn is_large(bytes: usize) -> bool {
    bytes > CHECKPOINT_BYTES_MAX - MAIL_BYTES_MAX
}

/// Refuses progress that is over the limit by itself.
pub(crate) fn check_size(run: &RunId, bytes: usize) -> Result<(), StoreError> {
    if bytes <= CHECKPOINT_BYTES_MAX {
        return Ok(());
    }
    Err(StoreError::Invalid(format!(
        "the checkpoint of run {run} would have {bytes} bytes, the limit is {CHECKPOINT_BYTES_MAX}: keep large values in a \
         blob or a log"
    )))
}

/// Bytes of a checkpoint with this progress, and nothing in its mailbox.
pub(crate) fn size_with(progress: &Progress) -> usize {
    progress.weight().saturating_add(FIXED_BYTES)
}

/// Reads a checkpoint. Attributes that this code does not know stay in the item: no update touches them.
pub(crate) fn decode(run: &RunId, item: &Item) -> Result<Checkpoint, StoreError> {
    let read = Reader { run, item };
    let format = read.number(name::FORMAT)?;
    if format > FORMAT.into() {
        let newer = StoredError::Newer { found: u16::try_from(format).unwrap_or(u16::MAX) };
        return Err(StoreError::Damaged(format!("run {run}: {newer}")));
    }
    let place = |attribute| -> Result<Option<Timestamp>, StoreError> {
        let Some(place) = read.maybe_text(attribute)? else { return Ok(None) };
        let (at, _) = keys::parse_place(place).ok_or_else(|| read.damaged(attribute, &"it is no place in an index"))?;
        Ok(Some(at))
    };
    let digest = read.get(name::INPUT_DIGEST)?.as_b().ok().and_then(|bytes| bytes.as_ref().try_into().ok());
    Ok(Checkpoint {
        run: run.clone(),
        workflow: read.parsed(name::WORKFLOW, WorkflowName::new)?,
        started_at: place(name::LIST_PLACE)?.ok_or_else(|| read.damaged(name::LIST_PLACE, &"it is missing"))?,
        input_digest: Digest(digest.ok_or_else(|| read.damaged(name::INPUT_DIGEST, &"it has not 32 bytes"))?),
        hold: read.hold()?,
        progress: read.json(name::PROGRESS)?,
        mailbox: read.mailbox()?,
        cancel: if item.contains_key(name::CANCEL) { Some(read.json(name::CANCEL)?) } else { None },
        due_at: place(name::DUE_PLACE)?,
    })
}

/// Reads who owns an effect's key.
pub(crate) fn owner(key: &EffectKey, item: &Item) -> Result<Claimant, StoreError> {
    let damaged = |what: String| StoreError::Damaged(format!("the claim of {key}: {what}"));
    let format = item.get(name::FORMAT).and_then(|value| value.as_n().ok()?.parse::<u16>().ok());
    let format = format.ok_or_else(|| damaged(format!("attribute {:?} is no format", name::FORMAT)))?;
    if format > FORMAT {
        return Err(damaged(format!("it has format {format}, this code reads up to {FORMAT}: deploy the newer code")));
    }
    let owner = item.get(name::OWNER).and_then(|value| Claimant::parse(value.as_s().ok()?));
    owner.ok_or_else(|| damaged(format!("attribute {:?} is no run id", name::OWNER)))
}

/// Reads attributes of one item.
pub(crate) struct Reader<'a> {
    pub(crate) run: &'a RunId,
    pub(crate) item: &'a Item,
}

impl<'a> Reader<'a> {
    fn hold(&self) -> Result<Hold, StoreError> {
        let lease = match self.maybe_number(name::LEASE_UNTIL)? {
            None => None,
            Some(until) => Some(Lease {
                owner: self.parsed(name::LEASE_OWNER, WorkerId::new)?,
                since: Timestamp(self.number(name::LEASE_SINCE)?),
                until: Timestamp(until),
            }),
        };
        Ok(Hold {
            fence: Fence(self.number(name::FENCE)?),
            lease,
            write: WriteId(self.number(name::WRITE)?),
            acquires: u32::try_from(self.number(name::ACQUIRES)?).unwrap_or(u32::MAX),
            tried_since: self.maybe_number(name::TRIED_SINCE)?.map(Timestamp),
        })
    }

    fn mailbox(&self) -> Result<Mailbox, StoreError> {
        let damaged = |attribute, what: &'static str| self.damaged(attribute, &what);
        let map = |attribute| self.get(attribute)?.as_m().map_err(|_| damaged(attribute, "it is no map"));
        let order = map(name::LETTER_ORDER)?;
        let mut letters: Vec<(u64, Letter)> = Vec::new();
        for (id, letter) in map(name::LETTERS)? {
            let place = order.get(id).and_then(|place| place.as_n().ok()?.parse().ok());
            let letter = letter.as_s().map_err(|_| damaged(name::LETTERS, "a letter is no text"))?;
            let letter = serde_json::from_str(letter).map_err(|error| self.damaged(name::LETTERS, &error))?;
            letters.push((place.ok_or_else(|| damaged(name::LETTER_ORDER, "a letter has no place"))?, letter));
        }
        letters.sort_by_key(|(place, _)| *place);
        let seen = self.get(name::SEEN)?.as_l().map_err(|_| damaged(name::SEEN, "it is no list"))?;
        // More than count are stored between two trims.
        let surplus = seen.len().saturating_sub(SIGNALS_SEEN_MAX);
        let id = |id: &AttributeValue| SignalId::new(id.as_s().ok()?).ok();
        let seen: Option<Vec<SignalId>> = seen.iter().skip(surplus).map(id).collect();
        Ok(Mailbox {
            seq: MailboxSeq(self.number(name::MAILBOX_SEQ)?),
            letters: letters.into_iter().map(|(_, letter)| letter).collect(),
            seen: seen.ok_or_else(|| damaged(name::SEEN, "it has an entry that is no signal id"))?,
        })
    }

    fn get(&self, attribute: &str) -> Result<&'a AttributeValue, StoreError> {
        self.item.get(attribute).ok_or_else(|| self.damaged(attribute, &"it is missing"))
    }

    /// A number that has to be there.
    pub(crate) fn number(&self, attribute: &str) -> Result<u64, StoreError> {
        self.maybe_number(attribute)?.ok_or_else(|| self.damaged(attribute, &"it is missing"))
    }

    /// A number.
    pub(crate) fn maybe_number(&self, attribute: &str) -> Result<Option<u64>, StoreError> {
        let Some(value) = self.item.get(attribute) else { return Ok(None) };
        let number = value.as_n().ok().and_then(|number| number.parse().ok());
        number.map(Some).ok_or_else(|| self.damaged(attribute, &"it is no whole number"))
    }

    /// Text that has to be there.
    pub(crate) fn text(&self, attribute: &str) -> Result<&'a str, StoreError> {
        self.maybe_text(attribute)?.ok_or_else(|| self.damaged(attribute, &"it is missing"))
    }

    /// Text.
    pub(crate) fn maybe_text(&self, attribute: &str) -> Result<Option<&'a str>, StoreError> {
        let Some(value) = self.item.get(attribute) else { return Ok(None) };
        value.as_s().map(|text| Some(text.as_str())).map_err(|_| self.damaged(attribute, &"it is no text"))
    }

    /// A value as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self, attribute: &str) -> Result<T, StoreError> {
        serde_json::from_str(self.text(attribute)?).map_err(|error| self.damaged(attribute, &error))
    }

    fn parsed<T, E: std::fmt::Display>(
        &self,
        attribute: &str,
        parse: impl Fn(&'a str) -> Result<T, E>,
    ) -> Result<T, StoreError> {
        parse(self.text(attribute)?).map_err(|error| self.damaged(attribute, &error))
    }

    fn damaged(&self, attribute: &str, what: &dyn std::fmt::Display) -> StoreError {
        StoreError::Damaged(format!("run {}: attribute {attribute:?}: {what}", self.run))
    }
}
