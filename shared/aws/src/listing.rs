//! The two indexes, read page by page.
//!
//! An index holds keys only: what changes from step to step is not in it, so a step writes nothing there. A page asks each
//! shard for its next keys, merges them, and reads the checkpoints that they lead to. So what is shown is fresh, and only
//! *whether* a run is shown may lag.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::future::try_join_all;
use stepwell_core::decide::DueRun;
use stepwell_core::{MailboxSeq, Phase, RunId, Ticket, Timestamp, WorkflowName};
use stepwell_ports::{Damaged, DuePage, ListQuery, Page, RunSummary, StoreError, check_limit};

use crate::item::{self, Item, Reader, name};
use crate::keys;
use crate::table::{Range, Table};

/// Keys that are read at least, once a first round has not filled the page.
const ROUND_MIN: usize = 100;

/// Places that a page looks at, at most: a filter may match few of those that share a bucket. The page is short then.
const LOOKED_AT_MAX: usize = 2_000;

/// Each place begins with a hexadecimal digit. The service takes no empty text for a key, which an emulator may let pass.
const FIRST: &str = "0";

/// No run id has a character as high.
const LAST: &str = "\u{7f}";

/// The attributes of a [`Glance`].
const GLANCE: [&str; 12] = [
    name::PARTITION,
    name::WORKFLOW,
    name::LIST_PLACE,
    name::DUE_PLACE,
    name::PHASE,
    name::TICKET,
    name::WAKES_AT,
    name::WAIT_SEEN,
    name::MAILBOX_SEQ,
    name::CANCEL,
    name::LEASE_UNTIL,
    name::FORMAT,
];

/// What a listing asks of an index.
struct Scan<'a> {
    index: &'static str,
    /// The attributes of its partitions and places.
    key: (&'static str, &'static str),
    shards: Vec<String>,
    /// The first and the last place.
    first: String,
    last: String,
    forward: bool,
    workflow: Option<&'a WorkflowName>,
}

/// What a listing shows of a checkpoint.
struct Glance {
    workflow: WorkflowName,
    started_at: Timestamp,
    due_place: Option<String>,
    phase: Phase,
    ticket: Ticket,
    wakes_at: Option<Timestamp>,
    leased_until: Option<Timestamp>,
}

/// One page of runs that are due.
pub(crate) async fn due(
    table: &Table,
    until: Timestamp,
    limit: usize,
    after: Option<String>,
) -> Result<DuePage, StoreError> {
    check_limit(limit)?;
    if let Some(after) = &after {
        keys::parse_place(after).ok_or_else(|| unknown_token(after))?;
    }
    let scan = Scan {
        index: keys::DUE_INDEX,
        key: (name::DUE_SHARD, name::DUE_PLACE),
        shards: keys::due_shards(),
        first: FIRST.to_owned(),
        last: format!("{:016x}{LAST}", until.0),
        forward: true,
        workflow: None,
    };
    let show = |place: &str, run: &RunId, glance: &Glance| {
        // One that has moved on has another place, and is shown there.
        let is_here = glance.due_place.as_deref() == Some(place) && keys::due_shard(run, glance.phase).is_some();
        let (due_at, _) = keys::parse_place(place).filter(|_| is_here)?;
        let Glance { ticket, wakes_at, leased_until, .. } = *glance;
        Some(DueRun { run: run.clone(), ticket, due_at, wakes_at, leased_until })
    };
    pages(table, scan, after, limit, show).await
}

/// One page of runs.
pub(crate) async fn list(table: &Table, query: &ListQuery) -> Result<Page<RunSummary>, StoreError> {
    check_limit(query.limit)?;
    let asked = query.conditions();
    let place = |token: &String| {
        let place = token.strip_prefix(&asked).filter(|place| keys::parse_place(place).is_some());
        place.map(str::to_owned).ok_or_else(|| unknown_token(token))
    };
    let last = match query.started_before {
        Some(Timestamp(0)) => return Ok(Page { items: Vec::new(), damaged: Vec::new(), next: None }),
        Some(Timestamp(before)) => format!("{:016x}{LAST}", before - 1),
        None => LAST.to_owned(),
    };
    let scan = Scan {
        index: keys::LIST_INDEX,
        key: (name::LIST_SHARD, name::LIST_PLACE),
        shards: keys::list_shards(query.phase),
        first: query.started_from.map_or_else(|| FIRST.to_owned(), |from| format!("{:016x}", from.0)),
        last,
        forward: false,
        workflow: query.workflow.as_ref(),
    };
    let show = |_: &str, run: &RunId, glance: &Glance| {
        query.phase.is_none_or(|phase| phase == glance.phase).then(|| RunSummary {
            run: run.clone(),
            workflow: glance.workflow.clone(),
            phase: glance.phase,
            started_at: glance.started_at,
            wakes_at: glance.wakes_at,
        })
    };
    let after = query.after.as_ref().map(place).transpose()?;
    let page = pages(table, scan, after, query.limit, show).await?;
    Ok(Page { next: page.next.map(|place| asked + &place), ..page })
}

/// Reads keys until a page is full, enough was looked at, or nothing is left.
async fn pages<T>(
    table: &Table,
    mut scan: Scan<'_>,
    mut after: Option<String>,
    limit: usize,
    show: impl Fn(&str, &RunId, &Glance) -> Option<T>,
) -> Result<Page<T>, StoreError> {
    let mut filling = Filling::new(limit);
    loop {
        if let Some(after) = &after {
            scan.begin_after(after);
        }
        let (places, more) = scan.places(table, filling.want()).await?;
        let glances = glances(table, &places).await?;
        let looked = places.into_iter().map(|(place, run)| {
            let found = match glances.get(&run) {
                Some(Ok(glance)) => show(&place, &run, glance).map(Ok),
                Some(Err(damaged)) => Some(Err(damaged.clone())),
                None => None,
            };
            (place, found)
        });
        if !filling.add(looked, more) {
            return Ok(filling.page());
        }
        after.clone_from(&filling.last);
    }
}

/// A page that is being filled.
struct Filling<T> {
    limit: usize,
    shown: Vec<(String, Result<T, Damaged>)>,
    looked_at: usize,
    /// The last place that was looked at.
    last: Option<String>,
    /// Whether there are places after that one.
    more: bool,
}

impl<T> Filling<T> {
    const fn new(limit: usize) -> Self {
        Self { limit, shown: Vec::new(), looked_at: 0, last: None, more: true }
    }

    /// How many places to look at next. One more than the page holds tells whether another follows.
    fn want(&self) -> usize {
        let missing = self.limit.saturating_add(1).saturating_sub(self.shown.len());
        let round = if self.looked_at == 0 { missing } else { missing.max(ROUND_MIN) };
        round.min(LOOKED_AT_MAX.saturating_sub(self.looked_at)).max(1)
    }

    /// Takes in the next places, each with what is shown of it. Returns whether to go on.
    fn add(&mut self, looked: impl Iterator<Item = (String, Option<Result<T, Damaged>>)>, more: bool) -> bool {
        let before = self.looked_at;
        for (place, found) in looked {
            self.looked_at += 1;
            self.shown.extend(found.map(|found| (place.clone(), found)));
            self.last = Some(place);
        }
        self.more = more && self.looked_at > before;
        self.more && self.shown.len() <= self.limit && self.looked_at < LOOKED_AT_MAX
    }

    fn page(mut self) -> Page<T> {
        let next = if self.shown.len() > self.limit {
            self.shown.truncate(self.limit);
            self.shown.last().map(|(place, _)| place.clone())
        } else {
            self.last.filter(|_| self.more)
        };
        let mut page = Page { items: Vec::new(), damaged: Vec::new(), next };
        for (_, found) in self.shown {
            match found {
                Ok(found) => page.items.push(found),
                Err(damaged) => page.damaged.push(damaged),
            }
        }
        page
    }
}

impl Scan<'_> {
    /// Goes on right after this place.
    fn begin_after(&mut self, place: &str) {
        // Nothing lies between a place and the same with one more character, since none has a character as low.
        if self.forward {
            self.first = format!("{place}\0");
        } else {
            self.last = before(place);
        }
    }

    /// The next places over all shards, and whether there may be more.
    async fn places(&self, table: &Table, want: usize) -> Result<(Vec<(String, RunId)>, bool), StoreError> {
        if self.first > self.last {
            return Ok((Vec::new(), false));
        }
        let shard = async |shard: &String| {
            let range = Range {
                index: Some(self.index),
                partition: (self.key.0, AttributeValue::S(shard.clone())),
                sort: (self.key.1, &self.first, &self.last),
                forward: self.forward,
                only: self.workflow.map(|workflow| (name::WORKFLOW, workflow.as_str())),
                limit: want,
            };
            table.range(&range).await
        };
        let shards = try_join_all(self.shards.iter().map(shard)).await?;
        let mut more = shards.iter().any(|found| found.len() >= want);
        let mut places = Vec::new();
        for item in shards.into_iter().flatten() {
            let run = keys::run_of(item.get(name::PARTITION).unwrap_or(&AttributeValue::Null(true)))?;
            let place = Reader { run: &run, item: &item }.text(self.key.1)?.to_owned();
            places.push((place, run));
        }
        places.sort_unstable();
        if !self.forward {
            places.reverse();
        }
        more |= places.len() > want;
        places.truncate(want);
        Ok((places, more))
    }
}

/// The last text before this place, among places: its last character one lower, then anything.
fn before(place: &str) -> String {
    let mut before = place.to_owned();
    let last = before.pop().map_or('\0', |last| char::from_u32(u32::from(last).saturating_sub(1)).unwrap_or('\0'));
    before.push(last);
    before + LAST
}

/// What is shown of each of these runs, or that it cannot be: one that is damaged does not keep the others from being seen.
async fn glances(
    table: &Table,
    places: &[(String, RunId)],
) -> Result<HashMap<RunId, Result<Glance, Damaged>>, StoreError> {
    // The index may show a run twice while it moves in it.
    let mut runs: Vec<&RunId> = places.iter().map(|(_, run)| run).collect();
    runs.sort_unstable();
    runs.dedup();
    let keys = runs.into_iter().map(|run| item::key(run, keys::CHECKPOINT)).collect();
    let mut glances = HashMap::new();
    for item in table.get_all(keys, &GLANCE).await? {
        let run = keys::run_of(item.get(name::PARTITION).unwrap_or(&AttributeValue::Null(true)))?;
        let glance = match Glance::read(&run, &item) {
            Err(StoreError::Damaged(what)) => Err(Damaged { run: run.clone(), what }),
            read => Ok(read?),
        };
        glances.insert(run, glance);
    }
    Ok(glances)
}

impl Glance {
    fn read(run: &RunId, item: &Item) -> Result<Self, StoreError> {
        let read = Reader { run, item };
        let damaged = |what: &str| StoreError::Damaged(format!("run {run}: {what}"));
        let phase = read.text(name::PHASE)?;
        let phase = Phase::ALL.into_iter().find(|known| item::phase_code(*known) == phase);
        let place = read.text(name::LIST_PLACE)?;
        let (started_at, _) = keys::parse_place(place).ok_or_else(|| damaged("its place in the list is none"))?;
        let seen = read.maybe_number(name::WAIT_SEEN)?.map(MailboxSeq);
        let has_news = seen.is_some_and(|seen| read.maybe_number(name::MAILBOX_SEQ).ok().flatten() > Some(seen.0));
        let sleeps = !item.contains_key(name::CANCEL) && !has_news;
        Ok(Self {
            workflow: WorkflowName::new(read.text(name::WORKFLOW)?).map_err(|error| damaged(&error.to_string()))?,
            started_at,
            due_place: read.maybe_text(name::DUE_PLACE)?.map(str::to_owned),
            phase: phase.ok_or_else(|| damaged("its phase is unknown"))?,
            ticket: Ticket(read.number(name::TICKET)?),
            wakes_at: read.maybe_number(name::WAKES_AT)?.filter(|_| sleeps).map(Timestamp),
            leased_until: read.maybe_number(name::LEASE_UNTIL)?.map(Timestamp),
        })
    }
}

fn unknown_token(token: &str) -> StoreError {
    StoreError::Invalid(format!("{token:?} is no page of this query: begin with its first page"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that pages show of these many places, of which every so many is shown, with how many places each has looked at.
    fn read(places: usize, every: usize, limit: usize) -> (Vec<usize>, Vec<usize>) {
        let (mut shown, mut looked_at, mut begin) = (Vec::new(), Vec::new(), 0);
        loop {
            let mut filling = Filling::new(limit);
            let mut at = begin;
            loop {
                let end = places.min(at + filling.want());
                let looked = (at..end).map(|place| (place.to_string(), (place % every == 0).then_some(Ok(place))));
                at = end;
                if !filling.add(looked, end < places) {
                    break;
                }
            }
            looked_at.push(filling.looked_at);
            let page = filling.page();
            assert!(page.items.len() <= limit);
            shown.extend(page.items);
            let Some(next) = page.next else { return (shown, looked_at) };
            begin = next.parse::<usize>().ok().map_or(places, |last| last + 1);
        }
    }

    #[test]
    fn a_page_looks_at_so_many_places_and_the_next_goes_on_right_there() {
        for (places, every, limit) in
            [(0, 1, 1), (7, 1, 3), (6, 1, 3), (5_000, 3, 50), (9_999, 4_000, 10), (3_000, 1, 1_000)]
        {
            let (shown, looked_at) = read(places, every, limit);
            assert_eq!(shown, (0..places).step_by(every).collect::<Vec<_>>(), "{places} {every} {limit}");
            assert!(looked_at.iter().all(|looked_at| *looked_at <= LOOKED_AT_MAX), "{looked_at:?}");
        }
        // Few match: short pages, and each but the last says where to go on.
        assert_eq!(read(9_999, 4_000, 10).1, [2_000, 2_000, 2_000, 2_000, 1_999]);
        // A page that is just full is the last one when nothing follows.
        assert_eq!(read(6, 1, 3).1, [4, 3]);
    }

    #[test]
    fn nothing_lies_between_a_place_and_the_text_before_it() {
        let before = before("0000018bcfe5687br1");
        for (place, is_before) in [
            ("0000018bcfe5687br0", true),
            ("0000018bcfe5687br0zzz", true),
            ("0000018bcfe5687br", true),
            ("0000018bcfe5687br1", false),
            ("0000018bcfe5687br10", false),
            ("0000018bcfe5687br2", false),
        ] {
            assert_eq!(place <= before.as_str(), is_before, "{place}");
        }
    }
}
