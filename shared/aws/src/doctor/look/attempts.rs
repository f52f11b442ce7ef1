//! What these credentials may do, found out by trying it. Each write is one that must be refused for another reason than
//! permission; only the bucket takes something, a few bytes under a prefix of their own, and they are deleted at once, where that
//! is permitted.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::ServerSideEncryption;
use stepwell_ports::{CheckpointStore as _, ListQuery, Page, StoreError};

use super::{bucket, gap, table};
use crate::doctor::facts::{Attempt, Gap, Seen, Stored};
use crate::item::{Item, name};
use crate::{Aws, AwsSettings, keys};

/// Newest runs that are read.
const RUNS_READ: usize = 20;

/// Tries what workers, functions and the program do.
pub(super) async fn all(aws: &Aws, settings: &AwsSettings) -> Vec<Attempt> {
    let probe = Probe::new(aws);
    let mut tries = vec![
        tried("may-write", "dynamodb:UpdateItem", probe.update().await),
        tried("may-put", "dynamodb:PutItem", probe.put().await),
        tried("may-read", "dynamodb:GetItem", probe.get().await),
        tried("may-read-many", "dynamodb:BatchGetItem", probe.batch_get().await),
        tried("may-read-due", "dynamodb:Query on the index due", probe.query(keys::DUE_INDEX, name::DUE_SHARD).await),
        tried(
            "may-read-list",
            "dynamodb:Query on the index list",
            probe.query(keys::LIST_INDEX, name::LIST_SHARD).await,
        ),
        tried("may-send", "sqs:SendMessage to the queue", probe.send(&settings.queue_url).await),
        tried("may-bury", "sqs:SendMessage to the dead-letter queue", probe.send(&settings.dead_letter_url).await),
    ];
    tries.extend(probe.blob().await);
    tries
}

/// Reads the newest runs: data of a newer format would be refused here.
pub(super) async fn stored(aws: &Aws) -> Stored {
    let query = ListQuery { limit: RUNS_READ, ..ListQuery::default() };
    match aws.store.list(&query).await.and_then(Page::whole) {
        Ok(page) => Stored::Read(page.items.len()),
        Err(StoreError::Damaged(words)) => Stored::Unreadable(words),
        Err(
            error @ (StoreError::Throttled(_)
            | StoreError::Unknown(_)
            | StoreError::Invalid(_)
            | StoreError::Unavailable(_)),
        ) => Stored::NotRead(error.to_string()),
    }
}

fn tried<T>(check: &'static str, what: &'static str, seen: Seen<T>) -> Attempt {
    Attempt { check, what, seen: seen.map(|_| ()), needed: true }
}

struct Probe<'a> {
    aws: &'a Aws,
    /// A name that no run has.
    name: String,
    key: Item,
}

/// Holds for no item that is not there.
const IS_THERE: &str = "attribute_exists(pk)";

impl<'a> Probe<'a> {
    fn new(aws: &'a Aws) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("doctor-{:x}-{:08x}", now.as_millis(), fastrand::u32(..));
        let key = [(name::PARTITION, format!("R#{name}")), (name::SORT, keys::CHECKPOINT.to_owned())];
        let key = key.map(|(name, value)| (name.to_owned(), AttributeValue::S(value))).into();
        Self { aws, name, key }
    }

    async fn update(&self) -> Seen<()> {
        let table = &self.aws.store.table;
        let update = table.client.update_item().table_name(&table.name).set_key(Some(self.key.clone()));
        match update.condition_expression(IS_THERE).update_expression("REMOVE x").send().await {
            Ok(_) => Ok(()),
            Err(error)
                if error.as_service_error().is_some_and(
                    aws_sdk_dynamodb::operation::update_item::UpdateItemError::is_conditional_check_failed_exception,
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(gap(&error, "UpdateItem", &table::what(self.aws))),
        }
    }

    async fn put(&self) -> Seen<()> {
        let table = &self.aws.store.table;
        let put = table.client.put_item().table_name(&table.name).set_item(Some(self.key.clone()));
        match put.condition_expression(IS_THERE).send().await {
            Ok(_) => Ok(()),
            Err(error)
                if error.as_service_error().is_some_and(
                    aws_sdk_dynamodb::operation::put_item::PutItemError::is_conditional_check_failed_exception,
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(gap(&error, "PutItem", &table::what(self.aws))),
        }
    }

    async fn get(&self) -> Seen<()> {
        let table = &self.aws.store.table;
        let get = table.client.get_item().table_name(&table.name).set_key(Some(self.key.clone())).send().await;
        get.map(|_| ()).map_err(|error| gap(&error, "GetItem", &table::what(self.aws)))
    }

    async fn batch_get(&self) -> Seen<()> {
        let table = &self.aws.store.table;
        let wanted = KeysAndAttributes::builder().keys(self.key.clone()).build();
        let wanted = wanted.map_err(|error| Gap::NotSupported(error.to_string()))?;
        let get = table.client.batch_get_item().request_items(&table.name, wanted).send().await;
        get.map(|_| ()).map_err(|error| gap(&error, "BatchGetItem", &table::what(self.aws)))
    }

    async fn query(&self, index: &str, partition: &str) -> Seen<()> {
        let table = &self.aws.store.table;
        let query = table.client.query().table_name(&table.name).index_name(index).limit(1);
        let query = query.key_condition_expression("#p = :p").expression_attribute_names("#p", partition);
        let query = query.expression_attribute_values(":p", AttributeValue::S(self.name.clone())).send().await;
        query.map(|_| ()).map_err(|error| gap(&error, "Query", &table::what(self.aws)))
    }

    /// A batch of nothing sends nothing, whoever answers. SQS looks at its policies before it looks at a request: one that
    /// is refused as empty has passed them.
    async fn send(&self, url: &str) -> Seen<()> {
        let send = self.aws.queue.client.send_message_batch().queue_url(url).set_entries(Some(Vec::new()));
        match send.send().await {
            Ok(_) => Ok(()),
            Err(error)
                if error.as_service_error().is_some_and(
                    aws_sdk_sqs::operation::send_message_batch::SendMessageBatchError::is_empty_batch_request,
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(gap(&error, "SendMessageBatch", &format!("queue {url}"))),
        }
    }

    /// Puts, reads and deletes an object, where the run of this name would have one.
    async fn blob(&self) -> Vec<Attempt> {
        let (blobs, what) = (&self.aws.blobs, bucket::what(self.aws));
        let key = format!("runs/{}/probe", self.name);
        let put = blobs.client.put_object().bucket(&blobs.bucket).key(&key).body(ByteStream::from_static(b"probe"));
        let put = put
            .set_server_side_encryption(blobs.kms_key.as_ref().map(|_| ServerSideEncryption::AwsKms))
            .set_ssekms_key_id(blobs.kms_key.clone());
        let put = put.send().await.map_err(|error| gap(&error, "PutObject", &what));
        let is_put = put.is_ok();
        let mut tries = vec![tried("may-put-blobs", "s3:PutObject", put)];
        if is_put {
            let get = blobs.client.get_object().bucket(&blobs.bucket).key(&key).send().await;
            tries.push(tried("may-read-blobs", "s3:GetObject", get.map_err(|error| gap(&error, "GetObject", &what))));
            let delete = blobs.client.delete_object().bucket(&blobs.bucket).key(&key).send().await;
            let delete = delete.map_err(|error| gap(&error, &format!("DeleteObject of {key}"), &what));
            // Only who tidies up by hand deletes blobs.
            tries.push(Attempt { needed: false, ..tried("may-delete-blobs", "s3:DeleteObject", delete) });
        }
        tries
    }
}
