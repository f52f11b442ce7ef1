//! The tables. A row is described where it is written: `row`, `aside`, `queue`.

/// Says that a file is ours: "STEP", in the file's header.
pub(crate) const APPLICATION: i32 = 0x5354_4550;

/// The version of the tables. A column or a table that older code can leave alone may be added without raising it: older
/// code names the columns that it writes, so it keeps the others as they are.
pub(crate) const VERSION: i32 = 1;

/// Creates them. Both indexes have keys that a step in a chain does not change.
pub(crate) const TABLES: &str = "
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL UNIQUE,
    format INTEGER NOT NULL,
    -- what never changes
    workflow TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    input_digest BLOB NOT NULL,
    head_crc INTEGER NOT NULL,
    -- who may write; the first three are copies out of the fourth
    fence INTEGER NOT NULL,
    write_id INTEGER NOT NULL,
    lease_until INTEGER,
    hold TEXT NOT NULL,
    due_at INTEGER,
    hold_crc INTEGER NOT NULL,
    -- signals and cancellation; the first is a copy out of the second
    mailbox_seq INTEGER NOT NULL,
    mailbox TEXT,
    cancel TEXT,
    mail_crc INTEGER NOT NULL,
    -- where it stands; the first six are copies out of the last
    ticket INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    visit INTEGER NOT NULL,
    phase TEXT NOT NULL,
    wakes_at INTEGER,
    wait_seen INTEGER,
    progress_crc INTEGER NOT NULL,
    progress TEXT NOT NULL
) STRICT;
CREATE INDEX due ON runs (due_at, run) WHERE phase IN ('created', 'running', 'waiting', 'retrying');
CREATE INDEX list ON runs (workflow, phase, started_at, run);

CREATE TABLE log_entries (
    run_id INTEGER NOT NULL,
    log INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    value TEXT NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (run_id, log, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE segments (
    run_id INTEGER NOT NULL,
    first INTEGER NOT NULL,
    value TEXT NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (run_id, first)
) STRICT, WITHOUT ROWID;
CREATE TABLE effects (
    run_id INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (run_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    visible_at INTEGER NOT NULL,
    receives INTEGER NOT NULL,
    receipt INTEGER NOT NULL
) STRICT;
CREATE INDEX visible ON messages (visible_at);
CREATE TABLE dead_letters (
    id INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    reason TEXT NOT NULL,
    receives INTEGER NOT NULL,
    buried_at INTEGER NOT NULL
) STRICT;
";

/// Creates the table of claims, which a database of older code has not. That code knows no key that runs share, so it can
/// claim none.
pub(crate) const CLAIMS: &str = "
CREATE TABLE IF NOT EXISTS claims (
    key TEXT PRIMARY KEY,
    run TEXT NOT NULL,
    crc INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";
