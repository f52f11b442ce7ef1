use std::cmp::Reverse;

use async_trait::async_trait;
use stepwell_core::decide::DueRun;
use stepwell_core::history::Segment;
use stepwell_core::limits::CHECKPOINT_BYTES_MAX;
use stepwell_core::write::{Write, WriteRequest, apply};
use stepwell_core::{Checkpoint, EffectKey, EffectRecord, Json, LogId, Revision, RunId, Timestamp};
use stepwell_ports::{
    CheckpointStore, Claim, Claimed, DuePage, ListQuery, Page, RunSummary, StoreError, Written, check_limit,
};

use super::{Memory, State};

#[async_trait]
impl CheckpointStore for Memory {
    async fn write(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        let mut state = self.state();
        let current = state.runs.get(&request.run);
        let Ok(next) = apply(current, request) else {
            return Ok(Written::Refused(current.cloned().map(Box::new)));
        };
        check_size(&next, &request.write)?;
        self.check_bounds(&state, &request.write)?;
        state.put_beside(request);
        state.runs.insert(request.run.clone(), next.clone());
        Ok(Written::Applied(Box::new(next)))
    }

    async fn load(&self, run: &RunId) -> Result<Option<Checkpoint>, StoreError> {
        Ok(self.state().runs.get(run).cloned())
    }

    async fn log(&self, run: &RunId, log: LogId, first: u64, limit: usize) -> Result<Vec<Json>, StoreError> {
        let state = self.state();
        let entry = |position| state.entries.get(&(run.clone(), log, position)).cloned();
        Ok((first..=u64::MAX).map_while(entry).take(limit).collect())
    }

    async fn effect(&self, run: &RunId, key: &EffectKey) -> Result<Option<EffectRecord>, StoreError> {
        Ok(self.state().effects.get(&(run.clone(), key.clone())).cloned())
    }

    async fn history(&self, run: &RunId, from: Revision, limit: usize) -> Result<Vec<Segment>, StoreError> {
        let state = self.state();
        let all = state.segments.range((run.clone(), Revision(0))..=(run.clone(), Revision(u64::MAX)));
        let found = all.map(|(_, segment)| segment).filter(|segment| segment.end() > from);
        Ok(found.take(limit).cloned().collect())
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let mut state = self.state();
        let owner = state.claims.get(&claim.key);
        match owner {
            Some(owner) if !claim.is_granted_by(Some(owner)) => return Ok(Claimed::Of(owner.clone())),
            Some(_) => {}
            None => self.check_items(&state, 1)?,
        }
        state.claims.insert(claim.key.clone(), claim.by.clone());
        Ok(Claimed::Mine)
    }

    async fn due(&self, until: Timestamp, limit: usize, after: Option<String>) -> Result<DuePage, StoreError> {
        check_limit(limit)?;
        let after = after.as_deref().map(parse_place).transpose()?;
        let state = self.state();
        let place = |due: &DueRun| (due.due_at, due.run.clone());
        let mut found: Vec<DueRun> = state.runs.values().filter_map(DueRun::of).collect();
        found.retain(|due| due.due_at <= until && after.as_ref().is_none_or(|after| place(due) > *after));
        found.sort_by_key(place);
        Ok(page(found, limit, |due| place_token(due.due_at, &due.run)))
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<RunSummary>, StoreError> {
        check_limit(query.limit)?;
        let after = query.after.as_deref().map(|token| parse_list_token(query, token)).transpose()?;
        let state = self.state();
        let place = |found: &RunSummary| (found.started_at, found.run.clone());
        let mut found: Vec<RunSummary> = state.runs.values().map(RunSummary::of).collect();
        found.retain(|run| {
            query.workflow.as_ref().is_none_or(|workflow| *workflow == run.workflow)
                && query.phase.is_none_or(|phase| phase == run.phase)
                && query.holds(run.started_at)
                && after.as_ref().is_none_or(|after| place(run) < *after)
        });
        found.sort_by_key(|run| Reverse(place(run)));
        Ok(page(found, query.limit, |run| list_token(query, run)))
    }
}

impl Memory {
    fn check_bounds(&self, state: &State, write: &Write) -> Result<(), StoreError> {
        let more = match write {
            Write::Start(_) if state.runs.len() >= self.bounds.runs => return Err(full("runs", self.bounds.runs)),
            Write::Commit(commit) => {
                let entries: usize = commit.appends.iter().map(|append| append.entries.len()).sum();
                entries + usize::from(commit.segment.is_some()) + commit.spill.len()
            }
            Write::Amend(amend) => usize::from(amend.segment.is_some()),
            Write::Start(_) | Write::Acquire(_) | Write::Renew(_) | Write::Signal(_) | Write::Cancel(_) => 0,
        };
        self.check_items(state, more)
    }

    fn check_items(&self, state: &State, more: usize) -> Result<(), StoreError> {
        let State { entries, segments, effects, claims, .. } = state;
        let items = entries.len() + segments.len() + effects.len() + claims.len();
        if more > 0 && items + more > self.bounds.items { Err(full("items", self.bounds.items)) } else { Ok(()) }
    }
}

impl State {
    /// Writes what a commit or an amendment leaves beside the checkpoint.
    fn put_beside(&mut self, request: &WriteRequest) {
        let run = &request.run;
        let segment = match &request.write {
            Write::Commit(commit) => {
                for append in &commit.appends {
                    let places = (append.first..).map(|position| (run.clone(), append.log, position));
                    self.entries.extend(places.zip(append.entries.iter().cloned()));
                }
                let keyed = |record: &EffectRecord| ((run.clone(), record.key.clone()), record.clone());
                self.effects.extend(commit.spill.iter().map(keyed));
                &commit.segment
            }
            Write::Amend(amend) => &amend.segment,
            Write::Start(_) | Write::Acquire(_) | Write::Renew(_) | Write::Signal(_) | Write::Cancel(_) => &None,
        };
        if let Some(segment) = segment {
            self.segments.insert((run.clone(), segment.from), segment.clone());
        }
    }
}

fn full(what: &str, bound: usize) -> StoreError {
    StoreError::Unavailable(format!("the memory holds {bound} {what}, which is its bound"))
}

/// Refuses what would make the checkpoint too large.
fn check_size(next: &Checkpoint, write: &Write) -> Result<(), StoreError> {
    let weight = next.weight();
    if write.brings_values() && weight > CHECKPOINT_BYTES_MAX {
        return Err(StoreError::Invalid(format!(
            "the checkpoint of run {} would have {weight} bytes, the limit is {CHECKPOINT_BYTES_MAX}: \
             keep large values in a blob or a log",
            next.run
        )));
    }
    Ok(())
}

/// The first `limit` of what was found, and the last one's token if there is more.
fn page<T>(mut items: Vec<T>, limit: usize, token: impl Fn(&T) -> String) -> Page<T> {
    let more = items.len() > limit;
    items.truncate(limit);
    Page { next: items.last().filter(|_| more).map(token), items, damaged: Vec::new() }
}

fn place_token(at: Timestamp, run: &RunId) -> String {
    format!("{}/{run}", at.0)
}

fn parse_place(token: &str) -> Result<(Timestamp, RunId), StoreError> {
    let place = token.split_once('/').and_then(|(at, run)| Some((Timestamp(at.parse().ok()?), RunId::new(run).ok()?)));
    place.ok_or_else(|| unknown_token(token))
}

/// Carries the query's conditions, so that a token of another query is told apart.
fn list_token(query: &ListQuery, run: &RunSummary) -> String {
    format!("{}{}", query.conditions(), place_token(run.started_at, &run.run))
}

fn parse_list_token(query: &ListQuery, token: &str) -> Result<(Timestamp, RunId), StoreError> {
    parse_place(token.strip_prefix(&query.conditions()).ok_or_else(|| unknown_token(token))?)
}

fn unknown_token(token: &str) -> StoreError {
    StoreError::Invalid(format!("no page of this query ends at {token:?}; start again from the first page"))
}
