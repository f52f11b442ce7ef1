//! The two indexes, read page by page.

use rusqlite::{Connection, params};
use stepwell_core::decide::DueRun;
use stepwell_core::{Phase, RunId, Ticket, Timestamp, WorkflowName};
use stepwell_ports::{DuePage, ListQuery, Page, RunSummary, StoreError};

use crate::fault::Abort;
use crate::sum::{Sum, count, int, timestamp};

/// When a run wakes by itself: not at a time, if it is due for another reason.
macro_rules! wakes_at {
    () => {
        "CASE WHEN cancel IS NULL AND mailbox_seq <= coalesce(wait_seen, mailbox_seq) THEN wakes_at END"
    };
}

/// Live runs, earliest mark first. Names the phases as the partial index does, so that it is used.
const DUE: &str = concat!(
    "SELECT run, due_at, ticket, lease_until, ",
    wakes_at!(),
    " FROM runs WHERE phase IN ('created', 'running', 'waiting', 'retrying')
    AND due_at <= ?1 AND (due_at, run) > (?2, ?3) ORDER BY due_at, run LIMIT ?4"
);
/// Runs of one workflow in one phase, newest first.
const LIST: &str = concat!(
    "SELECT run, started_at, ",
    wakes_at!(),
    " FROM runs WHERE workflow = ?1 AND phase = ?2 AND (started_at, run) < (?3, ?4) AND started_at >= ?5
    ORDER BY started_at DESC, run DESC LIMIT ?6"
);
/// The workflow that comes after another one.
const NEXT_WORKFLOW: &str = "SELECT workflow FROM runs WHERE workflow > ?1 ORDER BY workflow LIMIT 1";

/// The first time that is negative as SQLite stores it: such times come after all others.
const FAR: u64 = 1 << 63;

/// A place in an index, right after an entry of this time and run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    at: u64,
    run: String,
}

impl Place {
    /// Before the newest entry of the list that is asked for: no run id has a character as high.
    pub(crate) fn newest(query: &ListQuery) -> Self {
        match query.started_before {
            Some(before) => Self { at: before.0.min(FAR - 1), run: String::new() },
            None => Self { at: FAR - 1, run: "\u{7f}".into() },
        }
    }

    /// As a page's `next`. Its checksum covers what was asked for, so that it is good for that alone.
    fn token(&self, asked: &str) -> String {
        format!("{:x}.{}.{:08x}", self.at, self.run, self.sum(asked))
    }

    /// Reads a token.
    pub(crate) fn parse(token: &str, asked: &str) -> Result<Self, StoreError> {
        let parts = token.split_once('.').and_then(|(at, rest)| Some((at, rest.rsplit_once('.')?)));
        parts
            .and_then(|(at, (run, sum))| {
                let place = Self { at: u64::from_str_radix(at, 16).ok()?, run: run.to_owned() };
                (i64::from_str_radix(sum, 16).ok()? == place.sum(asked)).then_some(place)
            })
            .ok_or_else(|| {
                StoreError::Invalid(format!("{token:?} is no page of this query: begin with its first page"))
            })
    }

    fn sum(&self, asked: &str) -> i64 {
        Sum::of(&self.run).int(int(self.at)).text(asked).end()
    }
}

/// What tokens of the due index are good for.
pub(crate) const DUE_ASKED: &str = "due";

/// What tokens of this query are good for.
pub(crate) fn asked(query: &ListQuery) -> String {
    format!("list/{}", query.conditions())
}

/// One page of runs that are due.
pub(crate) fn due(db: &Connection, until: Timestamp, limit: usize, after: Option<&Place>) -> Result<DuePage, Abort> {
    let mut items = Vec::new();
    let mut statement = db.prepare_cached(DUE)?;
    for (first, last) in [(0, until.0.min(FAR - 1)), (FAR, until.0)] {
        let (at, run) = match after {
            Some(after) if after.at >= first => (after.at, after.run.as_str()),
            _ => (first, ""),
        };
        if at > last {
            continue;
        }
        let mut rows =
            statement.query(params![int(last), int(at), run, one_more(limit.saturating_sub(items.len()))])?;
        while let Some(row) = rows.next()? {
            items.push(DueRun {
                run: run_id(&row.get::<_, String>(0)?)?,
                due_at: Timestamp(count(row.get(1)?)),
                ticket: Ticket(count(row.get(2)?)),
                leased_until: timestamp(row.get(3)?),
                wakes_at: timestamp(row.get(4)?),
            });
        }
    }
    Ok(page(items, limit, DUE_ASKED, |due| Place { at: due.due_at.0, run: due.run.to_string() }))
}

/// One page of runs. The index begins with workflow and phase, so each pair of them is a list of its own, newest first;
/// they are merged.
pub(crate) fn list(db: &Connection, query: &ListQuery, after: &Place) -> Result<Page<RunSummary>, Abort> {
    let workflows = match &query.workflow {
        Some(workflow) => vec![workflow.clone()],
        None => workflows(db)?,
    };
    let phases = query.phase.map_or_else(|| Phase::ALL.to_vec(), |phase| vec![phase]);
    let mut items = Vec::new();
    let from = query.started_from.map_or(0, |from| from.0.min(FAR - 1));
    let mut statement = db.prepare_cached(LIST)?;
    for workflow in &workflows {
        for phase in &phases {
            let (at, limit) = (int(after.at), one_more(query.limit));
            let asked = params![workflow.as_str(), phase.as_str(), at, after.run, int(from), limit];
            let mut rows = statement.query(asked)?;
            while let Some(row) = rows.next()? {
                items.push(RunSummary {
                    run: run_id(&row.get::<_, String>(0)?)?,
                    workflow: workflow.clone(),
                    phase: *phase,
                    started_at: Timestamp(count(row.get(1)?)),
                    wakes_at: timestamp(row.get(2)?),
                });
            }
        }
    }
    items.sort_unstable_by(|a, b| (b.started_at, &b.run).cmp(&(a.started_at, &a.run)));
    let place = |summary: &RunSummary| Place { at: summary.started_at.0, run: summary.run.to_string() };
    Ok(page(items, query.limit, &asked(query), place))
}

fn workflows(db: &Connection) -> Result<Vec<WorkflowName>, Abort> {
    let mut statement = db.prepare_cached(NEXT_WORKFLOW)?;
    let mut found: Vec<WorkflowName> = Vec::new();
    loop {
        let last = found.last().map_or("", WorkflowName::as_str);
        let mut rows = statement.query([last])?;
        let Some(row) = rows.next()? else { break };
        let name: String = row.get(0)?;
        found.push(
            WorkflowName::new(&name).map_err(|error| Abort::Damaged(format!("a stored workflow name: {error}")))?,
        );
    }
    Ok(found)
}

fn page<T>(mut items: Vec<T>, limit: usize, asked: &str, place: impl Fn(&T) -> Place) -> Page<T> {
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|last| place(last).token(asked));
    Page { items, damaged: Vec::new(), next }
}

fn one_more(limit: usize) -> i64 {
    i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX)
}

fn run_id(stored: &str) -> Result<RunId, Abort> {
    RunId::new(stored).map_err(|error| Abort::Damaged(format!("a stored run id: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    fn plan(sql: &str) -> String {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(schema::TABLES).unwrap();
        let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let nothing = vec![rusqlite::types::Null; statement.parameter_count()];
        let steps = statement.query_map(rusqlite::params_from_iter(nothing), |row| row.get::<_, String>(3)).unwrap();
        steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn listings_walk_their_index_and_sort_nothing() {
        assert_eq!(plan(DUE), "SEARCH runs USING INDEX due ((due_at,run)>(?,?) AND due_at<?)");
        assert_eq!(
            plan(LIST),
            "SEARCH runs USING INDEX list (workflow=? AND phase=? AND started_at>? AND (started_at,run)<(?,?))"
        );
        assert_eq!(plan(NEXT_WORKFLOW), "SEARCH runs USING COVERING INDEX list (workflow>?)");
    }

    #[test]
    fn a_token_is_good_for_what_was_asked_and_for_nothing_else() {
        let place = Place { at: 1_700_000_000_123, run: "r.1-a:b".into() };
        let token = place.token("list/brief/");
        assert_eq!(Place::parse(&token, "list/brief/"), Ok(place));
        for (token, asked) in
            [(token.as_str(), "list/other/"), (&token[1..], "list/brief/"), ("", DUE_ASKED), ("..", DUE_ASKED)]
        {
            assert!(matches!(Place::parse(token, asked), Err(StoreError::Invalid(_))), "{token:?}");
        }
    }
}
