//! The table: each request to DynamoDB that the store makes, in one place.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, KeysAndAttributes, Put, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
};
use stepwell_core::RunId;
use stepwell_core::write::WriteRequest;
use stepwell_ports::StoreError;

use crate::aside::{Aside, Taken};
use crate::fault::{Fault, Kind, Witness};
use crate::item::{self, Item, name};
use crate::update::Update;

/// Keys that one `BatchGetItem` takes.
const BATCH_GET_MAX: usize = 100;

/// Rounds in which keys that were not processed are asked for again.
const BATCH_ROUNDS_MAX: u32 = 8;

/// The answer to a conditional write.
pub(crate) enum Answer {
    /// Done. The item as it is now.
    Done(Item),
    /// The condition did not hold. The item as it is, if there is one.
    Refused(Option<Item>),
}

/// A range of sort keys in one partition of the table or of an index.
pub(crate) struct Range<'a> {
    pub(crate) index: Option<&'a str>,
    pub(crate) partition: (&'a str, AttributeValue),
    /// Attribute, first and last.
    pub(crate) sort: (&'a str, &'a str, &'a str),
    pub(crate) forward: bool,
    /// Only items with this value in this attribute.
    pub(crate) only: Option<(&'a str, &'a str)>,
    pub(crate) limit: usize,
}

/// One table of one client.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) client: Client,
    pub(crate) name: String,
}

impl Table {
    /// Creates the item, if nothing is there, or what this very request has put.
    pub(crate) async fn create(&self, item: Item, request: &WriteRequest) -> Result<Answer, StoreError> {
        let ours = item::number(request.id.0);
        let condition = format!("attribute_not_exists({}) OR {} = :q", name::PARTITION, name::WRITE);
        self.put(item, condition, Some(HashMap::from([(":q".into(), ours)]))).await
    }

    /// Creates a run's checkpoint, if there is none. A second try finds the first one's, with all that has arrived since.
    pub(crate) async fn begin(&self, checkpoint: Item) -> Result<Answer, StoreError> {
        self.put(checkpoint, format!("attribute_not_exists({})", name::PARTITION), None).await
    }

    /// Replaces what is in an item's place, if it is still the same.
    pub(crate) async fn replace(&self, taken: &Taken, request: &WriteRequest) -> Result<Answer, StoreError> {
        let (condition, values) = still(taken);
        self.put(taken.aside.item(request), condition, Some(values)).await
    }

    async fn put(&self, item: Item, condition: String, values: Option<Item>) -> Result<Answer, StoreError> {
        let witness = Witness::default();
        let put = self.client.put_item().table_name(&self.name).set_item(Some(item)).condition_expression(condition);
        let put = put
            .set_expression_attribute_values(values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match put.customize().interceptor(witness.clone()).send().await {
            Ok(_) => Ok(Answer::Done(Item::new())),
            Err(error) => {
                let fault = Fault::of(&error, "PutItem", &self.what());
                match error.into_service_error() {
                    PutItemError::ConditionalCheckFailedException(refused) => Ok(refused_by(refused.item)),
                    _ => Err(fault.seen_by(&witness).into()),
                }
            }
        }
    }

    /// Updates an item; the answer is all of it.
    pub(crate) async fn update(&self, key: Item, update: Update) -> Result<Answer, StoreError> {
        let (witness, parts) = (Witness::default(), update.into_parts());
        let update = self
            .client
            .update_item()
            .table_name(&self.name)
            .set_key(Some(key))
            .update_expression(parts.update)
            .condition_expression(parts.condition)
            .set_expression_attribute_names(parts.names)
            .set_expression_attribute_values(Some(parts.values))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match update.customize().interceptor(witness.clone()).send().await {
            Ok(output) => Ok(Answer::Done(output.attributes.unwrap_or_default())),
            Err(error) => {
                let fault = Fault::of(&error, "UpdateItem", &self.what());
                match error.into_service_error() {
                    UpdateItemError::ConditionalCheckFailedException(refused) => Ok(refused_by(refused.item)),
                    _ => Err(fault.seen_by(&witness).into()),
                }
            }
        }
    }

    /// Updates a checkpoint and puts items beside it, all or nothing. Whether it was done.
    pub(crate) async fn transact(
        &self,
        request: &WriteRequest,
        update: Update,
        beside: &[Aside],
    ) -> Result<bool, StoreError> {
        let invalid = |error: aws_sdk_dynamodb::error::BuildError| StoreError::Invalid(error.to_string());
        let key = item::key(&request.run, crate::keys::CHECKPOINT);
        let update = update.into_transaction().table_name(&self.name).set_key(Some(key)).build().map_err(invalid)?;
        let mut items = vec![TransactWriteItem::builder().update(update).build()];
        for aside in beside {
            let put = Put::builder().table_name(&self.name).set_item(Some(aside.item(request)));
            items.push(TransactWriteItem::builder().put(put.build().map_err(invalid)?).build());
        }
        let witness = Witness::default();
        let transact = self.client.transact_write_items().set_transact_items(Some(items)).customize();
        match transact.interceptor(witness.clone()).send().await {
            Ok(_) => Ok(true),
            Err(error) => {
                let fault = Fault::of(&error, "TransactWriteItems", &self.what());
                match error.into_service_error() {
                    TransactWriteItemsError::TransactionCanceledException(cancelled) => {
                        let reasons: Vec<&str> =
                            cancelled.cancellation_reasons().iter().filter_map(|reason| reason.code()).collect();
                        if reasons.contains(&"ValidationError") {
                            return Err(StoreError::Invalid(fault.words));
                        }
                        if reasons.contains(&"ConditionalCheckFailed") {
                            return Ok(false);
                        }
                        Err(Fault { kind: Kind::Busy, ..fault }.seen_by(&witness).into())
                    }
                    _ => Err(fault.seen_by(&witness).into()),
                }
            }
        }
    }

    /// Reads one item, consistently.
    pub(crate) async fn get(&self, run: &RunId, sort: &str) -> Result<Option<Item>, StoreError> {
        let get = self.client.get_item().table_name(&self.name).set_key(Some(item::key(run, sort)));
        match get.consistent_read(true).send().await {
            Ok(output) => Ok(output.item.filter(|item| !item.is_empty())),
            Err(error) => Err(Fault::of(&error, "GetItem", &self.what()).of_read().into()),
        }
    }

    /// Reads these attributes of checkpoints, in no order; those that are not there are left out.
    pub(crate) async fn get_all(&self, keys: Vec<Item>, attributes: &[&str]) -> Result<Vec<Item>, StoreError> {
        let mut found = Vec::new();
        for batch in keys.chunks(BATCH_GET_MAX) {
            let mut left = batch.to_vec();
            for round in 0.. {
                let wanted = KeysAndAttributes::builder()
                    .set_keys(Some(left))
                    .projection_expression(attributes.join(", "))
                    .build()
                    .map_err(|error| StoreError::Invalid(error.to_string()))?;
                let get = self.client.batch_get_item().request_items(&self.name, wanted).send().await;
                let output =
                    get.map_err(|error| StoreError::from(Fault::of(&error, "BatchGetItem", &self.what()).of_read()))?;
                found.extend(output.responses.unwrap_or_default().into_values().flatten());
                left = output.unprocessed_keys.unwrap_or_default().into_values().flat_map(|left| left.keys).collect();
                if left.is_empty() {
                    break;
                }
                if round == BATCH_ROUNDS_MAX {
                    let left = left.len();
                    return Err(StoreError::Throttled(format!(
                        "BatchGetItem on {}: {left} keys are left",
                        self.what()
                    )));
                }
                crate::clients::pause(round).await;
            }
        }
        Ok(found)
    }

    /// Reads a range, in order, at most as much as was asked for. Consistent on the table, not on an index.
    pub(crate) async fn range(&self, range: &Range<'_>) -> Result<Vec<Item>, StoreError> {
        let (mut found, mut from): (Vec<Item>, Option<Item>) = (Vec::new(), None);
        while found.len() < range.limit {
            let (sort, first, last) = range.sort;
            debug_assert!(!first.is_empty(), "DynamoDB takes no empty text for a key");
            let mut query = self
                .client
                .query()
                .table_name(&self.name)
                .set_index_name(range.index.map(Into::into))
                .key_condition_expression(format!("{} = :p AND {sort} BETWEEN :a AND :b", range.partition.0))
                .expression_attribute_values(":p", range.partition.1.clone())
                .expression_attribute_values(":a", AttributeValue::S(first.into()))
                .expression_attribute_values(":b", AttributeValue::S(last.into()))
                .scan_index_forward(range.forward)
                .consistent_read(range.index.is_none())
                .set_exclusive_start_key(from);
            query = match range.only {
                // The service counts what it has looked at, so a limit would only make for more requests.
                Some((attribute, value)) => query
                    .filter_expression(format!("{attribute} = :o"))
                    .expression_attribute_values(":o", AttributeValue::S(value.into())),
                None => query.limit(i32::try_from(range.limit - found.len()).unwrap_or(i32::MAX)),
            };
            let output = query.send().await;
            let output =
                output.map_err(|error| StoreError::from(Fault::of(&error, "Query", &self.what()).of_read()))?;
            found.extend(output.items.unwrap_or_default());
            from = output.last_evaluated_key.filter(|key| !key.is_empty());
            if from.is_none() {
                break;
            }
        }
        found.truncate(range.limit);
        Ok(found)
    }

    pub(crate) fn what(&self) -> String {
        format!("table {}", self.name)
    }
}

fn refused_by(item: Option<Item>) -> Answer {
    Answer::Refused(item.filter(|item| !item.is_empty()))
}

fn still(taken: &Taken) -> (String, Item) {
    let condition = format!("{} = :q AND {} = :r", name::WRITE, name::REVISION);
    let values = [(":q", taken.by.0), (":r", taken.revision.0)];
    (condition, values.into_iter().map(|(name, number)| (name.into(), item::number(number))).collect())
}
