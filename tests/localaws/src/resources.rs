//! A table, two queues and a bucket, as the adapters need them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use stepwell_aws::sdk::config::SdkConfig;
use stepwell_aws::sdk::dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection, ProjectionType,
    ScalarAttributeType,
};
use stepwell_aws::sdk::{dynamodb, s3, sqs};
use stepwell_aws::{Aws, AwsSettings};

use crate::{Counter, Emulators, Kind};

static MADE: AtomicU64 = AtomicU64::new(0);

/// Fresh resources, and the backend on them.
pub struct Resources {
    /// The backend.
    pub aws: Aws,
    /// What it asks for.
    pub counter: Counter,
    /// Its names.
    pub settings: AwsSettings,
    /// A client of its own for looking at the table.
    pub dynamodb: dynamodb::Client,
    /// A client of its own for looking at the queues.
    pub sqs: sqs::Client,
    /// A client of its own for looking at the bucket.
    pub s3: s3::Client,
}

impl Resources {
    /// Makes them, under names that nobody has.
    ///
    /// # Panics
    /// Where an emulator refuses.
    pub async fn make(emulators: &Emulators) -> Self {
        let name = fresh_name(emulators.kind());
        let (of_dynamodb, of_others) = (emulators.dynamodb().await, emulators.others().await);
        let dynamodb = dynamodb::Client::new(&of_dynamodb);
        let sqs = sqs::Client::new(&of_others);
        let s3 = s3_client(&of_others, None);
        make_table(&dynamodb, &name).await;
        s3.create_bucket().bucket(&name).send().await.expect("a bucket");
        let settings = AwsSettings {
            table: name.clone(),
            queue_url: make_queue(&sqs, &name).await,
            dead_letter_url: make_queue(&sqs, &format!("{name}-dead")).await,
            bucket: name,
            kms_key: None,
        };
        let counter = Counter::default();
        let aws = Aws::with_clients(
            dynamodb::Client::from_conf(
                dynamodb::config::Builder::from(&of_dynamodb).interceptor(counter.clone()).build(),
            ),
            sqs::Client::from_conf(sqs::config::Builder::from(&of_others).interceptor(counter.clone()).build()),
            s3_client(&of_others, Some(counter.clone())),
            settings.clone(),
        );
        Self { aws, counter, settings, dynamodb, sqs, s3 }
    }
}

/// An endpoint that was there before may know the names of an earlier time.
fn fresh_name(kind: Kind) -> String {
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    match kind {
        Kind::MiniStack | Kind::LocalStack | Kind::LocalStackDocker => format!("stepwell-{number}"),
        Kind::Endpoint => {
            let since = UNIX_EPOCH.elapsed().unwrap_or_default();
            format!("stepwell-test-{:x}-{number}", since.as_micros())
        }
    }
}

fn s3_client(config: &SdkConfig, counter: Option<Counter>) -> s3::Client {
    let mut config = s3::config::Builder::from(config)
        .force_path_style(true)
        .response_checksum_validation(s3::config::ResponseChecksumValidation::WhenRequired);
    if let Some(counter) = counter {
        config = config.interceptor(counter);
    }
    s3::Client::from_conf(config.build())
}

async fn make_queue(sqs: &sqs::Client, name: &str) -> String {
    sqs.create_queue().queue_name(name).send().await.expect("a queue").queue_url.expect("its URL")
}

async fn make_table(dynamodb: &dynamodb::Client, name: &str) {
    let text = |name: &str| {
        let definition = AttributeDefinition::builder().attribute_name(name);
        definition.attribute_type(ScalarAttributeType::S).build().unwrap()
    };
    dynamodb
        .create_table()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest)
        .set_attribute_definitions(Some(["pk", "sk", "gd", "da", "gl", "la"].map(text).to_vec()))
        .set_key_schema(Some(keys("pk", "sk")))
        .global_secondary_indexes(index("due", ("gd", "da"), &[]))
        .global_secondary_indexes(index("list", ("gl", "la"), &["w"]))
        .send()
        .await
        .expect("a table");
}

fn index(name: &str, (hash, range): (&str, &str), with: &[&str]) -> GlobalSecondaryIndex {
    let projection = match with {
        [] => Projection::builder().projection_type(ProjectionType::KeysOnly),
        with => Projection::builder()
            .projection_type(ProjectionType::Include)
            .set_non_key_attributes(Some(with.iter().map(ToString::to_string).collect())),
    };
    let index = GlobalSecondaryIndex::builder().index_name(name).set_key_schema(Some(keys(hash, range)));
    index.projection(projection.build()).build().unwrap()
}

fn keys(hash: &str, range: &str) -> Vec<KeySchemaElement> {
    let key = |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap();
    vec![key(hash, KeyType::Hash), key(range, KeyType::Range)]
}
