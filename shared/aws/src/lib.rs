//! # stepwell-aws: the ports on DynamoDB, SQS and S3
//!
//! **What lives here:** the store of checkpoints on one DynamoDB table, the queue on two SQS queues, the blobs in one S3
//! bucket, and what an error of the SDK means. No other crate of the engine names an `aws_sdk_*`; `stepwell-effects` does, for what a step calls.
//!
//! **What must not live here:** decisions about a run (`stepwell-core`), Lambda, and the making of tables, queues and
//! buckets, which is up to whoever deploys.
//!
//! Everything that a decision rests on is **one item**, so each write is one conditional `UpdateItem` whose answer is the
//! checkpoint, and whose refusal shows the one that refused it. Nothing is read first.
//!
//! ## The table
//!
//! Partition key `pk`, sort key `sk`, both text. Two indexes, which hold keys that do not change from step to step:
//!
//! | index | partition | sort | projection | holds |
//! | --- | --- | --- | --- | --- |
//! | `due` | `gd` | `da` | keys only | runs that are live and have a mark: `gd` is `d0` … `d7` |
//! | `list` | `gl` | `la` | `w` | all runs: `gl` is a letter (`a` live, `p` parked, `c` completed, `f` failed, `x` cancelled) and a shard |
//!
//! | item | `pk` | `sk` | holds |
//! | --- | --- | --- | --- |
//! | checkpoint | `R#<run>` | `C` | see below |
//! | log entry | `R#<run>` | `L#<log>#<seq>` | `j` the entry, `r` the revision that it was written for, `q` the write |
//! | history segment | `R#<run>` | `H#<revision>` | the same |
//! | spilled effect | `R#<run>` | `E#<key>` | the same |
//! | claim | `E#<key>` | `E` | `v` the format, `h` the run that owns the key of an effect across runs |
//!
//! The checkpoint's attributes. Those that this code does not know are left as they are: an update sets what it knows.
//!
//! | name | is | name | is |
//! | --- | --- | --- | --- |
//! | `v` | format | `p` | progress, as JSON with the short names of `stepwell-core` |
//! | `w` | workflow | `k` | ticket (in `p` as well, as are the next three) |
//! | `i` | digest of the input | `r` | revision |
//! | `la` | started at, then the run | `n` | visit |
//! | `f` | fence | `s` | phase: `n`ew, `r`unning, `w`aiting, retr`y`ing, `p`arked, `c`ompleted, `f`ailed, `x` cancelled |
//! | `q` | last write of a holder | `wa` | wakes at: the time of a retry or of a wait's end |
//! | `a` | acquires since the last commit | `ws` | signals that the wait has seen |
//! | `y` | tried since | `z` | there if the progress is large |
//! | `lo` | lease: owner | `m` | letters, by signal id |
//! | `ls` | lease: since | `o` | the letters' order, by signal id |
//! | `lu` | lease: until | `mb` | bytes of letters, or more: a commit does not lower it |
//! | `x` | cancellation asked for | `ms` | signals accepted |
//! | `da` | due at, then the run | `d` | ids of consumed signals: the last 64 count, up to 80 are stored |
//! | `gd` | shard of `due`, while live | `gl` | shard of `list` |
//!
//! ## What it costs
//!
//! In requests; a write is paid by the started KB of the item.
//!
//! | path | writes | reads |
//! | --- | --- | --- |
//! | start | 1, and 1 in each index | 0 |
//! | acquire, renewal, commit, signal, cancellation, claim | 1 | 0 |
//! | a log entry, a history segment, a spilled effect | 1 each | 0 |
//! | the same again after a crash or a refusal | 1 each, or 2 and twice that for the checkpoint; see `aside` | 1 |
//! | every 16th consumed signal; a retry after a crashed attempt | 1 more (the first is refused) | 0 |
//! | the mark moves (once in 15 minutes, or at a wait) | 2 in `due` | 0 |
//! | parked, resumed, ended | 1 in `due`, 2 in `list` | 0 |
//! | an amendment | 1, or 4 with a history segment | 1 |
//! | a page of `due` | 0 | 8 queries, then 1 item for each run |
//! | a page of `list` | 0 | 8 queries for one phase, 40 for any, then 1 item for each run |
//!
//! A list by workflow reads past the index's entries of other workflows (40 of them for half a read unit); one by a live
//! phase reads the items of all live runs.

mod aside;
mod blobs;
mod clients;
#[cfg(feature = "doctor")]
pub mod doctor;
mod exact;
mod fault;
mod item;
mod keys;
mod listing;
mod queue;
mod settings;
mod store;
mod table;
mod update;
mod writes;

use std::sync::Arc;

use stepwell_ports::{BlobStore, CheckpointStore, RunQueue};

pub use queue::REASON_ATTRIBUTE;
pub use settings::{
    AwsSettings, BUCKET_VARIABLE, DEAD_LETTER_VARIABLE, KMS_KEY_VARIABLE, QUEUE_VARIABLE, SettingsError, TABLE_VARIABLE,
};

/// The SDK, for tools and tests that make tables, queues and buckets, so that they name the same one.
pub mod sdk {
    pub use aws_config as config;
    pub use aws_sdk_dynamodb as dynamodb;
    #[cfg(feature = "doctor")]
    pub use aws_sdk_lambda as lambda;
    pub use aws_sdk_s3 as s3;
    pub use aws_sdk_sqs as sqs;
    pub use aws_smithy_runtime_api as runtime_api;
    pub use aws_smithy_types as types;
}

/// Store, queue and blobs. A clone is another handle to the same clients.
#[derive(Clone, Debug)]
pub struct Aws {
    store: store::Store,
    queue: queue::Queue,
    blobs: blobs::Blobs,
}

impl Aws {
    /// Builds the clients, once for a process. Region, credentials and endpoints are what the environment says
    /// (`AWS_REGION`, `AWS_ENDPOINT_URL`, `AWS_ENDPOINT_URL_DYNAMODB`, …). Nothing is called yet: what is wrong with the
    /// settings shows at the first use.
    pub async fn connect(settings: AwsSettings) -> Self {
        let shared = clients::shared().await;
        Self::with_clients(clients::dynamodb(&shared), clients::sqs(&shared), clients::s3(&shared), settings)
    }

    /// Takes clients as they are.
    pub fn with_clients(
        dynamodb: aws_sdk_dynamodb::Client,
        sqs: aws_sdk_sqs::Client,
        s3: aws_sdk_s3::Client,
        settings: AwsSettings,
    ) -> Self {
        let AwsSettings { table, queue_url, dead_letter_url, bucket, kms_key } = settings;
        Self {
            store: store::Store { table: table::Table { client: dynamodb, name: table } },
            queue: queue::Queue { client: sqs, url: queue_url, dead_letter_url },
            blobs: blobs::Blobs { client: s3, bucket, kms_key },
        }
    }

    /// The store of checkpoints.
    pub fn store(&self) -> Arc<dyn CheckpointStore> {
        Arc::new(self.store.clone())
    }

    /// The queue.
    pub fn queue(&self) -> Arc<dyn RunQueue> {
        Arc::new(self.queue.clone())
    }

    /// The dead-letter queue as a queue of its own: for who receives from it.
    pub fn dead_letters(&self) -> Arc<dyn RunQueue> {
        let url = self.queue.dead_letter_url.clone();
        Arc::new(queue::Queue { url, ..self.queue.clone() })
    }

    /// The blobs.
    pub fn blobs(&self) -> Arc<dyn BlobStore> {
        Arc::new(self.blobs.clone())
    }
}
