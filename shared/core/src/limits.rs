//! A limit on everything. Each constant is named for what it bounds and says where the number comes from.

use core::time::Duration;

/// The longest delay of one queue message (the limit of an SQS message). A timer beyond it is the sweeper's.
pub const MESSAGE_DELAY_MAX: Duration = Duration::from_mins(15);

/// Distance of the watchdog's marks. A run's `due_at` is rounded up to one, so it changes at most once in this time.
pub const WATCHDOG_MARK: Duration = Duration::from_mins(15);

/// Acquires of a run without a commit in between, before it is parked as poison.
pub const ATTEMPTS_SINCE_PROGRESS_MAX: u32 = 5;

/// Steps of one run before it is parked, unless its workflow says otherwise. Stops a loop that nobody meant.
pub const STEPS_MAX_DEFAULT: u64 = 1_000_000;

/// Signals that a mailbox holds unconsumed.
pub const MAILBOX_LETTERS_MAX: usize = 64;

/// Bytes of unconsumed signal payloads that a mailbox holds inline.
pub const MAILBOX_BYTES_MAX: usize = 64 * 1024;

/// Consumed signal ids that a mailbox remembers, newest last: a repeated delivery of one of them changes nothing.
pub const SIGNALS_SEEN_MAX: usize = 64;

/// Values up to this size stay in the checkpoint; larger ones go to the blob store first.
pub const INLINE_BYTES_MAX: usize = 4 * 1024;

/// The largest state, input, output, signal payload or log entry that is accepted at all, in bytes of JSON.
/// What is larger belongs into a `Blob` or a `Log`.
pub const VALUE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The largest blob, in bytes.
pub const BLOB_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes of a whole checkpoint: DynamoDB's item limit is 400 KB; the difference is for names and numbers.
pub const CHECKPOINT_BYTES_MAX: usize = 380 * 1024;

/// History entries that ride in the checkpoint before they are written as a segment.
pub const TAIL_ENTRIES_MAX: usize = 16;

/// Bytes of what leads back from one state to the one before it; a step that changes more keeps no way back.
pub const BACK_BYTES_MAX: usize = 4 * 1024;

/// Bytes of history that ride in the checkpoint (a write is paid by the started kilobyte).
pub const TAIL_BYTES_MAX: usize = 512;

/// Effects of one visit of a step.
pub const JOURNAL_RECORDS_MAX: usize = 256;

/// Keyed effects that a checkpoint carries; older ones are spilled to items of their own and found by key.
pub const LEDGER_RECORDS_MAX: usize = 16;

/// Settled approvals that a checkpoint keeps, besides those that are open or given and not used; what was decided is in the history, too.
pub const APPROVALS_KEPT_MAX: usize = 16;

/// Roles that a reviewer comes with.
pub const ROLES_MAX: usize = 16;

/// Effects that a run can take back.
pub const UNDO_MAX: usize = 256;

/// Bytes of a failure's message that are kept.
pub const FAILURE_MESSAGE_BYTES_MAX: usize = 1_024;

/// Bytes of what a person gives as their name, or as their reason for an act.
pub const WORDS_BYTES_MAX: usize = 1_024;

/// Characters of any name or id that comes from outside.
pub const NAME_CHARS_MAX: usize = 64;

/// Signals that one wait may name.
pub const WAIT_SIGNALS_MAX: usize = 16;

/// Entries of one page of any listing.
pub const PAGE_MAX: usize = 1_000;
