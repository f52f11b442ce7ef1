//! The statements on `runs`, and what a write does with them inside the writer's transaction.

use rusqlite::Connection;
use stepwell_core::limits::CHECKPOINT_BYTES_MAX;
use stepwell_core::write::{Commit, Write, WriteRequest, apply};
use stepwell_core::{Checkpoint, Phase, RunId};
use stepwell_ports::{StoreError, Written};

use crate::aside::Aside;
use crate::fault::Abort;
use crate::row::{self, Body, EncodedHold, EncodedProgress, Mail, Standing, Stored, standing_columns, stored_columns};
use crate::sum::int;

const LOAD: &str = concat!("SELECT ", stored_columns!(), " FROM runs WHERE run = ?1");

/// The columns of a [`Body`] that are in no index.
macro_rules! body_columns {
    () => {
        "fence = ?1, write_id = ?2, lease_until = ?3, hold = ?4, hold_crc = ?6, ticket = ?7, revision = ?8, visit = ?9, \
         wakes_at = ?11, wait_seen = ?12, progress_crc = ?13, progress = ?14, format = ?15"
    };
}

/// The condition of a commit that ends a step and consumes no letters, as [`stepwell_core::write::check`] has it. What
/// it does not cover goes the long way.
macro_rules! commit_holds {
    () => {
        " WHERE run = ?16 AND format = ?15 AND fence = ?1 AND lease_until IS NOT NULL AND revision = ?17 \
         AND (cancel IS NOT NULL) = ?18 AND (?19 IS NULL OR mailbox_seq = ?19) AND visit <> ?9 AND write_id <> ?2 \
         AND coalesce(octet_length(mailbox), 0) + coalesce(octet_length(cancel), 0) <= ?20"
    };
}

/// A commit that changes no key of an index: SQLite leaves the indexes alone only when their columns are not set.
const COMMIT_IN_PLACE: &str = concat!(
    "UPDATE runs SET ",
    body_columns!(),
    commit_holds!(),
    " AND phase = ?10 AND due_at IS ?5 RETURNING ",
    standing_columns!()
);

const COMMIT: &str = concat!(
    "UPDATE runs SET phase = ?10, due_at = ?5, ",
    body_columns!(),
    commit_holds!(),
    " RETURNING ",
    standing_columns!()
);

macro_rules! mail_columns {
    () => {
        ", mailbox_seq = ?17, mailbox = ?18, cancel = ?19, mail_crc = ?20 WHERE id = ?16"
    };
}

const UPDATE_IN_PLACE: &str = concat!("UPDATE runs SET ", body_columns!(), mail_columns!());

const UPDATE: &str = concat!("UPDATE runs SET phase = ?10, due_at = ?5, ", body_columns!(), mail_columns!());

const INSERT: &str = "INSERT INTO runs (fence, write_id, lease_until, hold, due_at, hold_crc, ticket, revision, visit, phase, \
     wakes_at, wait_seen, progress_crc, progress, format, run, mailbox_seq, mailbox, cancel, mail_crc, workflow, started_at, \
     input_digest, head_crc) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, \
     ?20, ?21, ?22, ?23, ?24)";

/// A write whose bytes were prepared by whoever asked for it.
pub(crate) struct Prepared {
    request: WriteRequest,
    /// The progress that it brings along.
    progress: Option<EncodedProgress>,
    /// The hold after a commit that ends a step and consumes no letters.
    hold: Option<EncodedHold>,
    aside: Vec<Aside>,
}

/// What became of a write.
pub(crate) enum Outcome {
    /// The commit was applied. This and the commit are the checkpoint.
    Committed(Standing),
    /// The answer is known as a whole.
    Whole(Written),
}

impl Prepared {
    pub(crate) fn of(request: &WriteRequest) -> Result<Self, StoreError> {
        let (run, mut hold) = (&request.run, None);
        let progress = match &request.write {
            Write::Start(_) => match apply(None, request) {
                Ok(started) => Some(EncodedProgress::of(run, &started.progress)?),
                Err(_) => None,
            },
            Write::Commit(commit) => {
                if commit.consumed.is_empty() {
                    hold =
                        Some(EncodedHold::of(run, &commit.hold_of_new_visit(request.id, request.now), commit.due_at)?);
                }
                Some(EncodedProgress::of(run, &commit.progress)?)
            }
            Write::Amend(amend) => Some(EncodedProgress::of(run, &amend.progress)?),
            Write::Acquire(_) | Write::Renew(_) | Write::Signal(_) | Write::Cancel(_) => None,
        };
        Ok(Self { request: request.clone(), progress, hold, aside: Aside::of(request)? })
    }

    /// Carries it out. A refusal and an unusable row are answers, told before anything is written.
    pub(crate) fn execute(&self, db: &Connection) -> Result<Result<Outcome, StoreError>, Abort> {
        if let (Write::Commit(commit), Some(hold), Some(progress)) = (&self.request.write, &self.hold, &self.progress)
            && let Some(standing) = self.commit(db, commit, &Body { hold, progress })?
        {
            self.set_aside(db, standing.id)?;
            return Ok(Ok(Outcome::Committed(standing)));
        }
        Ok(self.apply(db)?.map(Outcome::Whole))
    }

    /// A commit as one conditional update, without a look at the row before it. `None` when it hits no row.
    fn commit(&self, db: &Connection, commit: &Commit, body: &Body<'_>) -> Result<Option<Standing>, Abort> {
        let Some(room) = CHECKPOINT_BYTES_MAX.checked_sub(body.weight()) else { return Ok(None) };
        // A run that is kept stays in its phase, as a rule.
        let in_place = commit.lease.is_some().then_some(COMMIT_IN_PLACE);
        for sql in in_place.into_iter().chain([COMMIT]) {
            let mut statement = db.prepare_cached(sql)?;
            body.bind(&mut statement)?;
            statement.raw_bind_parameter(16, self.request.run.as_str())?;
            statement.raw_bind_parameter(17, int(commit.after.0))?;
            statement.raw_bind_parameter(18, commit.cancel_seen)?;
            statement.raw_bind_parameter(19, commit.mailbox_seen.map(|seen| int(seen.0)))?;
            statement.raw_bind_parameter(20, int(room as u64))?;
            if let Some(row) = statement.raw_query().next()? {
                return Standing::read(&self.request.run, row).map(Some);
            }
        }
        Ok(None)
    }

    /// Any write: reads the row, and lets the core decide on it and change it.
    fn apply(&self, db: &Connection) -> Result<Result<Written, StoreError>, Abort> {
        let request = &self.request;
        let stored = match load(db, &request.run) {
            Ok(stored) => stored,
            Err(Abort::Damaged(what)) => return Ok(Err(StoreError::Damaged(what))),
            Err(abort) => return Err(abort),
        };
        let before = stored.as_ref().map(|stored| &stored.checkpoint);
        let next = match (before, apply(before, request)) {
            (_, Err(_)) => return Ok(Ok(Written::Refused(stored.map(|stored| Box::new(stored.checkpoint))))),
            // It was applied already, or changes nothing.
            (Some(before), Ok(next)) if next == *before => return Ok(Ok(Written::Applied(Box::new(next)))),
            (_, Ok(next)) => next,
        };
        Ok(self.store(db, stored.as_ref(), &next)?.map(|()| Written::Applied(Box::new(next))))
    }

    fn store(
        &self,
        db: &Connection,
        before: Option<&Stored>,
        next: &Checkpoint,
    ) -> Result<Result<(), StoreError>, Abort> {
        let Some(progress) = self.progress.as_ref().or(before.map(|stored| &stored.progress)) else {
            return Err(Abort::Damaged(format!("run {}: there is no progress to store", next.run)));
        };
        let encoded = EncodedHold::of(&next.run, &next.hold, next.due_at).and_then(|hold| Ok((hold, Mail::of(next)?)));
        let (hold, mail) = match encoded {
            Ok(encoded) => encoded,
            Err(invalid) => return Ok(Err(invalid)),
        };
        let body = Body { hold: &hold, progress };
        if let Err(invalid) = self.check_size(body.weight() + mail.weight()) {
            return Ok(Err(invalid));
        }
        let sql = match before.map(|stored| &stored.checkpoint) {
            None => INSERT,
            Some(before) if before.due_at == next.due_at && phase(before) == phase(next) => UPDATE_IN_PLACE,
            Some(_) => UPDATE,
        };
        let mut statement = db.prepare_cached(sql)?;
        body.bind(&mut statement)?;
        mail.bind(&mut statement)?;
        match before {
            None => {
                statement.raw_bind_parameter(16, next.run.as_str())?;
                row::bind_head(next, &mut statement)?;
            }
            Some(before) => statement.raw_bind_parameter(16, before.id)?,
        }
        statement.raw_execute()?;
        let id = before.map_or_else(|| db.last_insert_rowid(), |before| before.id);
        self.set_aside(db, id).map(Ok)
    }

    /// Refuses what would make the checkpoint too large.
    fn check_size(&self, bytes: usize) -> Result<(), StoreError> {
        if !self.request.write.brings_values() || bytes <= CHECKPOINT_BYTES_MAX {
            return Ok(());
        }
        Err(StoreError::Invalid(format!(
            "run {}: its checkpoint would take {bytes} bytes, the limit is {CHECKPOINT_BYTES_MAX}: \
             keep large values in a blob or a log",
            self.request.run
        )))
    }

    fn set_aside(&self, db: &Connection, id: i64) -> Result<(), Abort> {
        self.aside.iter().try_for_each(|aside| aside.store(db, id))
    }
}

/// Reads a run's row.
pub(crate) fn load(db: &Connection, run: &RunId) -> Result<Option<Stored>, Abort> {
    let mut statement = db.prepare_cached(LOAD)?;
    let mut rows = statement.query([run.as_str()])?;
    rows.next()?.map(|row| Stored::read(run, row)).transpose()
}

fn phase(checkpoint: &Checkpoint) -> Phase {
    checkpoint.progress.status.phase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;
    use core::time::Duration;
    use stepwell_core::write::{Acquire, Start};
    use stepwell_core::{Digest, Json, Lease, Payload, Status, Timestamp, WorkerId, WorkflowName, WriteId};

    const NOW: Timestamp = Timestamp(1_700_000_000_123);

    fn write(db: &Connection, write: Write) -> Outcome {
        let id = WriteId(fastrand::u64(1..));
        let request = WriteRequest { run: RunId::new("r").unwrap(), id, now: NOW, write };
        Prepared::of(&request).unwrap().execute(db).unwrap().unwrap()
    }

    fn applied(db: &Connection, what: Write) -> Checkpoint {
        match write(db, what) {
            Outcome::Whole(Written::Applied(checkpoint)) => *checkpoint,
            Outcome::Whole(Written::Refused(by)) => panic!("refused by {by:?}"),
            Outcome::Committed(_) => panic!("no commit"),
        }
    }

    fn held(db: &Connection) -> Checkpoint {
        db.execute_batch(schema::TABLES).unwrap();
        let input = Payload::Inline(Json::of("input").unwrap());
        let workflow = WorkflowName::new("brief").unwrap();
        let start = Start { workflow, version: 1, input, input_digest: Digest::of(b"input"), step_limit: 9 };
        let started = applied(db, Write::Start(Box::new(start)));
        let owner = WorkerId::new("worker-1").unwrap();
        let lease = Lease { owner, since: NOW, until: NOW.plus(Duration::from_secs(30)) };
        applied(db, Write::Acquire(Acquire { ticket: started.progress.ticket, lease }))
    }

    fn step(held: &Checkpoint) -> Commit {
        let mut progress = held.progress.clone();
        progress.revision = progress.revision.next();
        progress.visit.0 += 1;
        progress.status = Status::Running;
        Commit {
            fence: held.hold.fence,
            after: held.progress.revision,
            cancel_seen: false,
            mailbox_seen: None,
            progress,
            lease: held.hold.lease.clone(),
            due_at: Some(NOW.next_mark()),
            consumed: Vec::new(),
            appends: Vec::new(),
            segment: None,
            spill: Vec::new(),
        }
    }

    #[test]
    fn a_step_is_committed_without_a_look_at_its_row() {
        let db = Connection::open_in_memory().unwrap();
        let mut held = held(&db);
        for _ in 0..3 {
            let commit = step(&held);
            held.progress = commit.progress.clone();
            assert!(matches!(write(&db, Write::Commit(Box::new(commit))), Outcome::Committed(_)));
        }
        let waits = Commit { lease: None, due_at: None, ..step(&held) };
        assert!(matches!(write(&db, Write::Commit(Box::new(waits))), Outcome::Committed(_)));
    }

    #[test]
    fn another_try_of_a_step_goes_the_long_way_and_is_refused_there_or_not() {
        let db = Connection::open_in_memory().unwrap();
        let held = held(&db);
        let mut again = step(&held);
        again.progress.visit = held.progress.visit;
        let stale = again.clone();
        assert_eq!(applied(&db, Write::Commit(Box::new(again))).progress.revision, stale.progress.revision);
        let answer = write(&db, Write::Commit(Box::new(stale)));
        assert!(matches!(answer, Outcome::Whole(Written::Refused(Some(_)))));
    }
}
