//! The table, as DynamoDB describes it.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::{
    BillingMode, GlobalSecondaryIndexDescription, KeySchemaElement, KeyType, PointInTimeRecoveryStatus, ProjectionType,
    TableDescription, TimeToLiveStatus,
};

use super::clock::Dates;
use super::gap;
use crate::Aws;
use crate::doctor::facts::{Index, Keys, Projection, Seen, Skew, Table};

/// The table, and the clock of the service by the way.
pub(super) async fn look(aws: &Aws) -> (Seen<Table>, Seen<Skew>) {
    let dates = Dates::default();
    let (table, what) = (&aws.store.table, what(aws));
    let describe = table.client.describe_table().table_name(&table.name).customize().interceptor(dates.clone());
    let table = match describe.send().await {
        Ok(answer) => Ok(described(&answer.table.unwrap_or_else(|| TableDescription::builder().build()))),
        Err(error) => Err(gap(&error, "DescribeTable", &what)),
    };
    let skew = match &table {
        Ok(_) => dates.skew(),
        Err(gap) => dates.skew().map_err(|_| gap.clone()),
    };
    (table, skew)
}

/// By which attribute items expire, if they do.
pub(super) async fn expiry(aws: &Aws) -> Seen<Option<String>> {
    let table = &aws.store.table;
    let answer = table.client.describe_time_to_live().table_name(&table.name).send().await;
    let answer = answer.map_err(|error| gap(&error, "DescribeTimeToLive", &what(aws)))?;
    let is_on = |status: Option<&TimeToLiveStatus>| {
        matches!(status, Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling))
    };
    let description = answer.time_to_live_description.filter(|ttl| is_on(ttl.time_to_live_status()));
    Ok(description.and_then(|ttl| ttl.attribute_name))
}

/// Whether the table can be brought back to any point in time.
pub(super) async fn backups(aws: &Aws) -> Seen<bool> {
    let table = &aws.store.table;
    let answer = table.client.describe_continuous_backups().table_name(&table.name).send().await;
    let answer = answer.map_err(|error| gap(&error, "DescribeContinuousBackups", &what(aws)))?;
    let backups = answer.continuous_backups_description;
    let status = backups.and_then(|backups| backups.point_in_time_recovery_description?.point_in_time_recovery_status);
    Ok(status == Some(PointInTimeRecoveryStatus::Enabled))
}

pub(super) fn what(aws: &Aws) -> String {
    format!("table {}", aws.store.table.name)
}

fn described(table: &TableDescription) -> Table {
    let types = table.attribute_definitions().iter();
    let types = types.map(|one| (one.attribute_name().to_owned(), one.attribute_type().as_str().to_owned()));
    let on_demand = table.billing_mode_summary().and_then(|summary| summary.billing_mode());
    Table {
        status: table.table_status().map_or("unknown", |status| status.as_str()).to_owned(),
        keys: keys(table.key_schema()),
        types: types.collect(),
        on_demand: on_demand == Some(&BillingMode::PayPerRequest),
        indexes: table.global_secondary_indexes().iter().map(index).collect::<BTreeMap<_, _>>(),
    }
}

fn index(index: &GlobalSecondaryIndexDescription) -> (String, Index) {
    let projection = index.projection();
    let projection = match projection.and_then(|projection| projection.projection_type()) {
        Some(ProjectionType::All) => Projection::All,
        Some(ProjectionType::Include) => Projection::Include(
            projection.map(|projection| projection.non_key_attributes().to_vec()).unwrap_or_default(),
        ),
        _ => Projection::Keys,
    };
    let status = index.index_status().map_or("unknown", |status| status.as_str()).to_owned();
    let name = index.index_name().unwrap_or_default().to_owned();
    (name, Index { status, keys: keys(index.key_schema()), projection })
}

fn keys(schema: &[KeySchemaElement]) -> Keys {
    let of = |kind: &KeyType| {
        let key = schema.iter().find(|key| key.key_type() == kind);
        key.map(|key| key.attribute_name().to_owned()).unwrap_or_default()
    };
    Keys { partition: of(&KeyType::Hash), sort: of(&KeyType::Range) }
}
