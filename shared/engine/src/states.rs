//! What a run knew at each step: the history keeps, for workflows that ask for it, what leads back from each state to the one before.

use json_patch::Patch;
use serde_json::Value;
use stepwell_core::history::Back;
use stepwell_core::limits::BACK_BYTES_MAX;
use stepwell_core::{Checkpoint, Json, Revision, RunId};

use crate::history::HistoryEntry;
use crate::repair;
use crate::{Client, ClientError};

/// Entries of history that are looked at in one go, backwards: few at first, since most look at what is new.
const ENTRIES_AT_ONCE_FIRST: usize = 16;
const ENTRIES_AT_ONCE_MAX: usize = 256;

/// What a run knew around one entry of its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateAt {
    /// The revision that the entry's commit made.
    pub revision: Revision,
    /// The step that it belongs to.
    pub step: String,
    /// What the run knew before it. `None`: that was not kept, or there is nothing before it.
    pub before: Option<Json>,
    /// What the run knew after it: its state, or its input while no step had ended.
    pub after: Json,
}

/// What leads from `after` back to `before`: a JSON patch. `None`: it is too long to be kept, or would not lead there exactly.
pub(crate) fn back(after: &Json, before: &Json) -> Option<Json> {
    let (from, to) = (exact(after)?, exact(before)?);
    let patch = json_patch::diff(&from, &to);
    let mut there = from;
    json_patch::patch(&mut there, &patch).ok()?;
    let text = Json::of(&patch).ok()?;
    // As text, since there are two zeros that are equal and written differently.
    let leads_there = Json::of(&there).ok()? == Json::of(&to).ok()?;
    (leads_there && text.text().len() <= BACK_BYTES_MAX).then_some(text)
}

/// The value of this text, unless it has a number that reading it would round.
pub(crate) fn exact(json: &Json) -> Option<Value> {
    let value: Value = json.parse().ok()?;
    let written = Json::of(&value).ok()?;
    (numbers(json.text()) == numbers(written.text())).then_some(value)
}

/// Every number in this text, sorted, since keys may change their order. Each as its sign, its digits without zeros at the ends, and
/// the power of ten that they are multiplied with.
fn numbers(text: &str) -> Vec<(bool, String, i64)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
        rest = rest.get(at..).unwrap_or_default();
        let length = if rest.starts_with('"') {
            string_length(rest)
        } else {
            let length = rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
            found.extend(rest.get(..length).map(number));
            length
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    found.sort();
    found
}

/// Bytes of the string that this text begins with.
fn string_length(text: &str) -> usize {
    let mut escaped = true;
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !escaped;
        // The first byte is the quote that begins it.
        escaped = byte == b'\\' && !escaped;
        is_end
    });
    end.map_or(text.len(), |end| end + 1)
}

fn number(text: &str) -> (bool, String, i64) {
    let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let power = power.parse::<i64>().unwrap_or(i64::MAX).saturating_sub_unsigned(fraction.len() as u64);
    let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
    let significant = digits.trim_end_matches('0');
    let zeros = digits.len() - significant.len();
    let digits = significant.trim_start_matches('0').to_owned();
    let power = if digits.is_empty() { 0 } else { power.saturating_add_unsigned(zeros as u64) };
    (whole.starts_with('-'), digits, power)
}

impl Client {
    /// What a run knew around the commit that made this revision. The newest is always there; older ones are where the workflow keeps
    /// states ([`Workflow::KEEPS_STATES`](stepwell::Workflow::KEEPS_STATES)). The further back, the more history is read.
    ///
    /// # Errors
    /// [`ClientError::NotKept`] when it was not kept, or the run has not come so far.
    pub async fn state_at(&self, run: &RunId, revision: Revision) -> Result<StateAt, ClientError> {
        self.state_of(&self.get(run).await?, revision).await
    }

    /// The same, of a run that was looked at: as it was then, and without another look.
    ///
    /// # Errors
    /// As [`state_at`](Self::state_at).
    pub async fn state_of(&self, run: &Checkpoint, revision: Revision) -> Result<StateAt, ClientError> {
        let newest = run.progress.revision;
        let not_kept = || ClientError::NotKept { run: run.run.clone(), revision, newest };
        if revision > newest {
            return Err(not_kept());
        }
        // The newest as it is written; older ones as they are found from it.
        let written = self.value(repair::known(run)).await?;
        let mut after: Value = parsed(&written)?;
        let mut is_newest = true;
        let text =
            |after: &Value, is_newest| if is_newest { Ok(written.clone()) } else { Json::of(after).map_err(unwritten) };
        let (mut before_which, mut at_once) = (newest.next(), ENTRIES_AT_ONCE_FIRST);
        // Whose entry comes next, if none is missing: over a gap the way back leads nowhere.
        let mut next = newest;
        loop {
            let page = self.entries_before(run, before_which, at_once).await?;
            at_once = (at_once * 2).min(ENTRIES_AT_ONCE_MAX);
            for HistoryEntry { revision: at, entry, .. } in page.iter().rev() {
                if *at != next {
                    return Err(not_kept());
                }
                next = Revision(at.0.saturating_sub(1));
                let back = entry.back();
                let (found, before_is_newest) = (*at == revision, is_newest && back == Back::Same);
                let step = entry.step.clone();
                let before = stepped_back(&after, back);
                if found {
                    let before = before.map(|before| text(&before, before_is_newest)).transpose()?;
                    return Ok(StateAt { revision, step, before, after: text(&after, is_newest)? });
                }
                (after, is_newest) = (before.ok_or_else(not_kept)?, before_is_newest);
            }
            match page.first() {
                Some(first) => before_which = first.revision,
                None => break,
            }
        }
        if (revision, next) != (Revision(0), Revision(0)) {
            return Err(not_kept());
        }
        // Before the first commit there is only what the run was started with.
        Ok(StateAt { revision, step: "start".into(), before: None, after: text(&after, is_newest)? })
    }
}

fn stepped_back(after: &Value, back: Back<'_>) -> Option<Value> {
    match back {
        Back::Same => Some(after.clone()),
        Back::NotKept => None,
        Back::Patch(patch) => {
            let patch: Patch = patch.parse().ok()?;
            let mut before = after.clone();
            json_patch::patch(&mut before, &patch).ok()?;
            Some(before)
        }
    }
}

fn parsed(json: &Json) -> Result<Value, ClientError> {
    json.parse().map_err(unwritten)
}

#[allow(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn unwritten(error: serde_json::Error) -> ClientError {
    ClientError::Value(format!("the state cannot be read as JSON: {error}"))
}
