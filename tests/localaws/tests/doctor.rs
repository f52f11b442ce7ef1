//! `stepwell doctor --aws`: what it says of a stack that is well, and of each that is not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod program;

use std::time::Duration;

use program::{Ran, variables};
use serde_json::Value;
use stepwell_aws::AwsSettings;
use stepwell_aws::sdk::dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TimeToLiveSpecification,
};
use stepwell_aws::sdk::lambda;
use stepwell_aws::sdk::lambda::client::Waiters as _;
use stepwell_aws::sdk::lambda::operation::create_event_source_mapping::builders::CreateEventSourceMappingFluentBuilder as CreateMapping;
use stepwell_aws::sdk::lambda::types::{
    Environment, FunctionCode, FunctionResponseType, RecursiveLoop, Runtime, ScalingConfig,
};
use stepwell_aws::sdk::s3::types::PublicAccessBlockConfiguration;
use stepwell_aws::sdk::sqs::types::QueueAttributeName;
use stepwell_localaws::{Emulators, Resources};

/// An archive of nothing: no function is ever called here.
const EMPTY_ZIP: [u8; 22] = [b'P', b'K', 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// What the emulators do not know; AWS does.
const NOT_EMULATED: [&str; 3] = ["table-backups", "loop-runner", "loop-dead-letter"];

/// Until an emulator has a function ready.
const READY_MAX: Duration = Duration::from_secs(30);

struct Report {
    code: Option<i32>,
    json: Value,
}

impl Report {
    /// Looks at the stack that these settings name.
    fn of(emulators: &Emulators, settings: &AwsSettings) -> Self {
        let mut command = program::command(emulators, &["doctor", "--json"]);
        command.envs(variables(settings));
        let ran @ Ran { code, .. } = &program::run(command);
        Self { code: *code, json: ran.json() }
    }

    /// Checks with this status, in order.
    fn with(&self, status: &str) -> Vec<&str> {
        let findings = self.json["findings"].as_array().unwrap().iter();
        findings.filter(|one| one["status"] == status).map(|one| one["check"].as_str().unwrap()).collect()
    }

    fn finding(&self, check: &str) -> &Value {
        let mut findings = self.json["findings"].as_array().unwrap().iter();
        findings.find(|one| one["check"] == check).unwrap_or_else(|| panic!("{check}: {}", self.json))
    }

    /// Makes sure that these fail and no others, and that each says so in these words.
    #[track_caller]
    fn fails(&self, failed: &[(&str, &str)]) {
        let checks: Vec<&str> = failed.iter().map(|(check, _)| *check).collect();
        assert_eq!(self.with("fail"), checks, "{}", self.json);
        for (check, words) in failed {
            let finding = self.finding(check);
            assert!(finding["found"].as_str().unwrap().contains(words), "{words:?}: {finding}");
            assert!(finding["mend"].is_string(), "{finding}");
        }
        assert_eq!(self.code, Some(if failed.is_empty() { 0 } else { 5 }), "{}", self.json);
    }
}

/// A stack as a template makes it, as far as emulators go.
struct Stack {
    emulators: Emulators,
    resources: Resources,
    lambda: lambda::Client,
}

impl Stack {
    async fn make() -> Self {
        let emulators = Emulators::start();
        let resources = Resources::make(&emulators).await;
        let lambda = lambda::Client::new(&emulators.others().await);
        let stack = Self { emulators, resources, lambda };
        stack.finish().await;
        stack
    }

    fn settings(&self) -> &AwsSettings {
        &self.resources.settings
    }

    fn look(&self) -> Report {
        Report::of(&self.emulators, self.settings())
    }

    async fn finish(&self) {
        let AwsSettings { table, queue_url, dead_letter_url, bucket, .. } = self.settings();
        let ttl = TimeToLiveSpecification::builder().enabled(true).attribute_name("ttl").build().unwrap();
        let expire = self.resources.dynamodb.update_time_to_live().table_name(table);
        expire.time_to_live_specification(ttl).send().await.unwrap();
        let target = self.arn(dead_letter_url).await;
        let redrive = format!(r#"{{"deadLetterTargetArn":"{target}","maxReceiveCount":"10"}}"#);
        self.set(queue_url, QueueAttributeName::RedrivePolicy, &redrive).await;
        self.set(queue_url, QueueAttributeName::VisibilityTimeout, "360").await;
        let all = PublicAccessBlockConfiguration::builder().block_public_acls(true).ignore_public_acls(true);
        let all = all.block_public_policy(true).restrict_public_buckets(true).build();
        let block = self.resources.s3.put_public_access_block().bucket(bucket);
        block.public_access_block_configuration(all).send().await.unwrap();
        for part in ["runner", "api", "sweeper", "dead-letter"] {
            self.function(part).await;
        }
        self.set_loop("s-runner", RecursiveLoop::Allow).await;
        self.set_loop("s-dead-letter", RecursiveLoop::Allow).await;
    }

    async fn set_loop(&self, function: &str, to: RecursiveLoop) {
        let put = self.lambda.put_function_recursion_config().function_name(function).recursive_loop(to);
        put.send().await.unwrap();
    }

    async fn function(&self, part: &str) {
        let variables = variables(self.settings()).map(|(name, value)| (name.to_owned(), value.to_owned()));
        let name = format!("s-{part}");
        let create = self.lambda.create_function().function_name(&name).runtime(Runtime::Providedal2023);
        create
            .role("arn:aws:iam::000000000000:role/s")
            .handler("bootstrap")
            .timeout(60)
            .code(FunctionCode::builder().zip_file(EMPTY_ZIP.to_vec().into()).build())
            .environment(Environment::builder().set_variables(Some(variables.into())).build())
            .send()
            .await
            .unwrap();
        self.lambda.wait_until_function_updated_v2().function_name(&name).wait(READY_MAX).await.unwrap();
    }

    /// Has the runner take messages, with these changes to what the template says.
    async fn map(&self, change: impl FnOnce(CreateMapping) -> CreateMapping) {
        let arn = self.arn(&self.settings().queue_url).await;
        let map = self.lambda.create_event_source_mapping().function_name("s-runner").event_source_arn(arn);
        let map = map.scaling_config(ScalingConfig::builder().maximum_concurrency(10).build());
        let map = map.function_response_types(FunctionResponseType::ReportBatchItemFailures);
        change(map).send().await.unwrap();
    }

    async fn set(&self, url: &str, name: QueueAttributeName, value: &str) {
        self.resources.sqs.set_queue_attributes().queue_url(url).attributes(name, value).send().await.unwrap();
    }

    async fn arn(&self, url: &str) -> String {
        let get = self.resources.sqs.get_queue_attributes().queue_url(url);
        let answer = get.attribute_names(QueueAttributeName::QueueArn).send().await.unwrap();
        answer.attributes.unwrap().remove(&QueueAttributeName::QueueArn).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_that_is_well() {
    let stack = Stack::make().await;
    stack.map(|as_it_is| as_it_is).await;
    let report = stack.look();
    report.fails(&[]);
    assert_eq!(report.with("warn"), Vec::<&str>::new(), "{}", report.json);
    let not_emulated = |check: &&str| NOT_EMULATED.contains(check);
    assert!(report.with("unknown").iter().all(not_emulated), "{}", report.json);
    for check in ["table-keys", "queue-redrive", "runner", "function-dead-letter", "may-write", "may-delete-blobs"] {
        assert_eq!(report.finding(check)["status"], "ok", "{}", report.json);
    }
    // It has looked, and that is all.
    let (table, bucket) = (&stack.settings().table, &stack.settings().bucket);
    let items = stack.resources.dynamodb.scan().table_name(table).send().await.unwrap();
    let objects = stack.resources.s3.list_objects_v2().bucket(bucket).send().await.unwrap();
    assert_eq!((items.count, objects.contents().len()), (0, 0));
    assert!(report.finding("queue")["found"].as_str().unwrap().ends_with("about 0 messages"), "{}", report.json);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_set_up_wrongly_is_found() {
    let stack = Stack::make().await;
    let AwsSettings { queue_url, dead_letter_url, bucket, .. } = stack.settings();
    stack.map(|map| map.enabled(false).set_function_response_types(Some(Vec::new())).set_scaling_config(None)).await;
    stack.set_loop("s-runner", RecursiveLoop::Terminate).await;
    stack.set(queue_url, QueueAttributeName::RedrivePolicy, "").await;
    stack.set(queue_url, QueueAttributeName::VisibilityTimeout, "59").await;
    stack.set(dead_letter_url, QueueAttributeName::MessageRetentionPeriod, "3600").await;
    stack.resources.sqs.send_message().queue_url(dead_letter_url).message_body("lost").send().await.unwrap();
    stack.resources.s3.delete_public_access_block().bucket(bucket).send().await.unwrap();
    stack.lambda.delete_function().function_name("s-sweeper").send().await.unwrap();
    let report = stack.look();
    report.fails(&[
        ("queue-visibility", "hidden for 59 s; the runner's time-out is 60 s"),
        ("queue-redrive", "comes again until it expires"),
        ("runner", "Disabled"),
        ("runner-batches", "whole batch"),
        ("loop-runner", "not allowed"),
        ("function-sweeper", "s-sweeper"),
    ]);
    assert_eq!(report.with("warn"), ["dead-letters", "dead-letters-kept", "bucket-public", "runner-concurrency"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stack_of_other_names_and_other_keys() {
    let stack = Stack::make().await;
    let with = |change: fn(&mut AwsSettings)| {
        let mut settings = stack.settings().clone();
        change(&mut settings);
        Report::of(&stack.emulators, &settings)
    };
    with(|settings| settings.bucket = "nobodys-bucket".into())
        .fails(&[("bucket", "nobodys-bucket"), ("may-put-blobs", "nobodys-bucket")]);
    let report = with(|settings| settings.table = "nobodys-table".into());
    assert_eq!(report.with("fail")[0], "table", "{}", report.json);
    let report = with(|settings| settings.queue_url.push_str("-of-nobody"));
    report.fails(&[("queue", "-of-nobody"), ("may-send", "-of-nobody")]);

    let text = AttributeDefinition::builder().attribute_name("id").attribute_type(ScalarAttributeType::S);
    let key = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash);
    let create =
        stack.resources.dynamodb.create_table().table_name("other-keys").billing_mode(BillingMode::PayPerRequest);
    let create = create.attribute_definitions(text.build().unwrap()).key_schema(key.build().unwrap());
    create.send().await.unwrap();
    let report = with(|settings| settings.table = "other-keys".into());
    let failed = report.with("fail");
    assert_eq!(failed[..3], ["table-keys", "index-due", "index-list"], "{}", report.json);
    assert!(report.finding("table-keys")["found"].as_str().unwrap().contains("partition key id (S)"));
    assert!(report.finding("table-keys")["mend"].as_str().unwrap().contains("partition key pk, sort key sk"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_set_is_all_that_is_said() {
    let emulators = Emulators::start();
    let mut command = program::command(&emulators, &["doctor", "--json"]);
    command.env_remove("AWS_REGION");
    let ran = program::run(command);
    let report = Report { code: ran.code, json: ran.json() };
    report.fails(&[("settings", "STEPWELL_TABLE, STEPWELL_QUEUE_URL, STEPWELL_DEAD_LETTER_URL"), ("region", "none")]);
    assert_eq!(report.with("ok"), ["credentials"]);

    let mut command = program::command(&emulators, &["doctor"]);
    command.env("STEPWELL_TABLE", "t").env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
    let ran = program::run(command);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stdout.contains("credentials  not found") && ran.stdout.contains("-> log in"), "{ran:?}");
}
