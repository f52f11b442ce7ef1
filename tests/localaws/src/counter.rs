//! Counts what goes out: each attempt of each request, by operation, and the units that a write is charged for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use stepwell_aws::sdk::dynamodb::operation::put_item::{PutItemInput, PutItemOutput};
use stepwell_aws::sdk::dynamodb::operation::update_item::{UpdateItemInput, UpdateItemOutput};
use stepwell_aws::sdk::dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};
use stepwell_aws::sdk::runtime_api::box_error::BoxError;
use stepwell_aws::sdk::runtime_api::client::interceptors::Intercept;
use stepwell_aws::sdk::runtime_api::client::interceptors::context::{
    AfterDeserializationInterceptorContextRef, BeforeSerializationInterceptorContextMut,
    BeforeTransmitInterceptorContextRef,
};
use stepwell_aws::sdk::runtime_api::client::orchestrator::Metadata;
use stepwell_aws::sdk::runtime_api::client::runtime_components::RuntimeComponents;
use stepwell_aws::sdk::types::config_bag::ConfigBag;

/// What was counted since the last look.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<Mutex<Counted>>);

/// Requests and write units.
#[derive(Debug, Default)]
pub struct Counted {
    /// Attempts, by operation.
    pub requests: BTreeMap<String, u64>,
    /// Write units of the table.
    pub table_units: f64,
    /// Write units of its indexes.
    pub index_units: f64,
}

impl Counter {
    /// The requests since the last look, by operation, in words: `PutItem 1, UpdateItem 3`.
    pub fn take(&self) -> String {
        let requests = self.take_all().requests;
        let words: Vec<String> = requests.iter().map(|(operation, count)| format!("{operation} {count}")).collect();
        words.join(", ")
    }

    /// All that was counted since the last look.
    pub fn take_all(&self) -> Counted {
        std::mem::take(&mut *self.counted())
    }

    /// The write units since the last look, of the table and of its indexes. What else was counted is forgotten.
    pub fn take_units(&self) -> (f64, f64) {
        let Counted { table_units, index_units, .. } = self.take_all();
        (table_units, index_units)
    }

    fn counted(&self) -> std::sync::MutexGuard<'_, Counted> {
        self.0.lock().unwrap()
    }

    fn charge(&self, consumed: Option<&ConsumedCapacity>) {
        let Some(consumed) = consumed else { return };
        let of_indexes = consumed.global_secondary_indexes.iter().flat_map(|all| all.values());
        let index_units: f64 = of_indexes.filter_map(|index| index.capacity_units).sum();
        let mut counted = self.counted();
        counted.index_units += index_units;
        counted.table_units += consumed.table.as_ref().and_then(|table| table.capacity_units).unwrap_or_default();
    }
}

impl Intercept for Counter {
    fn name(&self) -> &'static str {
        "Counter"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let all = Some(ReturnConsumedCapacity::Indexes);
        if let Some(input) = context.input_mut().downcast_mut::<UpdateItemInput>() {
            input.return_consumed_capacity.clone_from(&all);
        }
        if let Some(input) = context.input_mut().downcast_mut::<PutItemInput>() {
            input.return_consumed_capacity = all;
        }
        Ok(())
    }

    fn read_before_transmit(
        &self,
        _context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let operation = config.load::<Metadata>().map_or("unknown", |metadata| metadata.name());
        *self.counted().requests.entry(operation.to_owned()).or_default() += 1;
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Ok(output) = context.output_or_error() {
            self.charge(output.downcast_ref::<UpdateItemOutput>().and_then(|output| output.consumed_capacity()));
            self.charge(output.downcast_ref::<PutItemOutput>().and_then(|output| output.consumed_capacity()));
        }
        Ok(())
    }
}
