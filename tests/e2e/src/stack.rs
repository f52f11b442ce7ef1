//! A stack on an emulator: deployed with the program that deploys it anywhere, and spoken to from outside.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use reqwest::{Method, Url};
use serde_json::{Value, json};
use stepwell::Registry;
use stepwell_aws::sdk::sqs::types::QueueAttributeName;
use stepwell_aws::sdk::{dynamodb, s3, sqs};
use stepwell_aws::{Aws, AwsSettings};
use stepwell_core::{Checkpoint, Digest, Json, Message, Phase, RunId, WorkflowName};
use stepwell_engine::{Client, Ports, StartRequest};
use stepwell_localaws::{Emulators, FunctionEndpoints, Kind, Setup};
use stepwell_ports::system::{SystemClock, SystemIds};
use stepwell_ports::{Delivery, Envelope, QueueError, Receipt, RunQueue};
use stepwell_samples::Outside;
use stepwell_samples::outside::{World, WorldOptions};
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::wire::Wire;

/// The stack's name.
const NAME: &str = "stepwell-e2e";

/// What opens its API.
const KEY: &str = "a key for this machine only";

/// Seconds that a lease lasts. Short, so that a killed runner's runs go on soon.
const LEASE: u32 = 5;

/// A deployed stack, its outside, and the wire between them.
pub(crate) struct Stack {
    pub(crate) wire: Wire,
    pub(crate) world: World,
    /// The same as the API, without it: to look at many runs quickly.
    pub(crate) client: Client,
    settings: AwsSettings,
    ports: Ports,
    registry: Arc<Registry>,
    /// What the stack's outputs are called in an environment.
    outputs: BTreeMap<String, String>,
    sqs: sqs::Client,
    api: Api,
    emulators: Emulators,
}

/// The API, over HTTP.
struct Api {
    client: reqwest::Client,
    url: Url,
}

impl Stack {
    /// Starts an emulator and deploys to it.
    pub(crate) async fn deploy(kind: Kind) -> Self {
        let mut wire = Wire::new();
        let world = World::start(WorldOptions::default()).await.expect("an outside");
        let outside = Outside {
            vendors_url: wire.to(world.vendors_url()).await,
            mail_url: wire.to(world.mail_url()).await,
            shop_url: wire.to(world.shop_url()).await,
        };
        // Functions are told of the wire before what is behind it runs.
        let (of_table, of_others) = (listener().await, listener().await);
        let mut setup = Setup::of(kind);
        setup.functions = FunctionEndpoints { dynamodb: Some(url_of(&of_table)), others: Some(url_of(&of_others)) };
        let emulators = setup.start();
        let urls = emulators.urls().expect("an emulator of our own").clone();
        wire.serve(of_table, urls.dynamodb.clone());
        wire.serve(of_others, urls.others.clone());

        let outputs = deploy(&emulators, &outside).await;
        let settings = AwsSettings::from_lookup(|name| outputs.get(name).cloned()).expect("the stack's outputs");
        let (of_dynamodb, of_others) = (emulators.dynamodb().await, emulators.others().await);
        let sqs = sqs::Client::new(&of_others);
        let s3 = s3::Client::from_conf(s3::config::Builder::from(&of_others).force_path_style(true).build());
        if kind == Kind::MiniStack {
            // It has made the table in a DynamoDB of its own, which functions do not use here.
            copy_table(&urls.others, &urls.dynamodb, &settings.table).await;
        }
        let aws = Aws::with_clients(dynamodb::Client::new(&of_dynamodb), sqs.clone(), s3, settings.clone());
        let ports = Ports {
            store: aws.store(),
            queue: aws.queue(),
            blobs: aws.blobs(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds),
        };
        let registry = Arc::new(stepwell_samples::registry(&outside).expect("addresses"));
        let api = Api::at(&outputs["STEPWELL_API_URL"], &urls.others);
        let client = Client::new(ports.clone(), Arc::clone(&registry));
        Self { wire, world, client, settings, ports, registry, outputs, sqs, api, emulators }
    }

    /// The environment of a process that is to work on this stack.
    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        let emulators = self.emulators.environment().into_iter().map(|(name, value)| (name.to_owned(), value));
        self.outputs.clone().into_iter().chain(emulators).collect()
    }

    /// Asks the API. Answers status and body.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let url = self.api.url.join(path).expect("a path");
        let mut request = self.api.client.request(method, url).header("x-api-key", KEY);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.expect("an answer of the API");
        let (status, body) = (answer.status().as_u16(), answer.text().await.expect("its body"));
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    /// Asks the API without a key. Answers the status.
    pub(crate) async fn ask_as_stranger(&self, path: &str) -> u16 {
        let request = self.api.client.get(self.api.url.join(path).expect("a path"));
        request.send().await.expect("an answer of the API").status().as_u16()
    }

    /// Looks at a run until it stands as wanted. `None` when it does not in time.
    pub(crate) async fn until(&self, run: &RunId, most: Duration, is: impl Fn(Phase) -> bool) -> Option<Checkpoint> {
        let begun = Instant::now();
        loop {
            if let Ok(checkpoint) = self.client.get(run).await
                && is(checkpoint.progress.status.phase())
            {
                return Some(checkpoint);
            }
            if begun.elapsed() > most {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Starts runs whose messages nobody gets: they are handed to the caller instead.
    pub(crate) async fn start_quietly(&self, runs: usize) -> Vec<Message> {
        let queue = Arc::new(Drawer::default());
        let ports = Ports { queue: Arc::clone(&queue) as _, ..self.ports.clone() };
        let client = Client::new(ports, Arc::clone(&self.registry));
        for _ in 0..runs {
            let input = Json::of(&json!({"from": 20})).expect("an input");
            let workflow = WorkflowName::new("countdown").expect("a name");
            client.start(StartRequest { workflow, input, key: None }).await.expect("a start");
        }
        std::mem::take(&mut *queue.0.lock().unwrap())
    }

    /// How long a message stays hidden whose receiver has died.
    pub(crate) async fn set_visibility(&self, seconds: u32) {
        let set = self.sqs.set_queue_attributes().queue_url(&self.settings.queue_url);
        set.attributes(QueueAttributeName::VisibilityTimeout, seconds.to_string()).send().await.expect("it is set");
    }

    /// Sends a body to the queue that no part of this project would send.
    pub(crate) async fn send_raw(&self, body: &str) {
        self.sqs
            .send_message()
            .queue_url(&self.settings.queue_url)
            .message_body(body)
            .send()
            .await
            .expect("it is sent");
    }

    /// Messages of the queue, and of the dead-letter queue, hidden ones included.
    pub(crate) async fn messages(&self) -> (u64, u64) {
        (self.depth(&self.settings.queue_url).await, self.depth(&self.settings.dead_letter_url).await)
    }

    async fn depth(&self, url: &str) -> u64 {
        let all = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        let asked = self.sqs.get_queue_attributes().queue_url(url).set_attribute_names(Some(all.to_vec()));
        let counts = asked.send().await.expect("its attributes").attributes.unwrap_or_default();
        counts.values().filter_map(|count| count.parse::<u64>().ok()).sum()
    }
}

impl Api {
    /// Function URLs have names of their own; here all of them are the emulator's address.
    fn at(url: &str, emulator: &str) -> Self {
        let mut url: Url = url.parse().expect("the API's URL");
        let emulator: Url = emulator.parse().expect("the emulator's URL");
        let address: SocketAddr = format!("127.0.0.1:{}", emulator.port().unwrap_or(80)).parse().expect("an address");
        url.set_scheme("http").expect("a scheme");
        url.set_port(emulator.port()).expect("a port");
        let host = url.host_str().expect("a host").to_owned();
        let client = reqwest::Client::builder().no_proxy().resolve(&host, address).build().expect("a client");
        Self { client, url }
    }
}

/// A queue that only keeps what is sent.
#[derive(Default)]
struct Drawer(Mutex<Vec<Message>>);

#[async_trait]
impl RunQueue for Drawer {
    async fn send(&self, envelopes: &[Envelope]) -> Result<(), QueueError> {
        self.0.lock().unwrap().extend(envelopes.iter().map(|envelope| envelope.message.clone()));
        Ok(())
    }

    async fn receive(&self, _: usize, _: Duration, _: Duration) -> Result<Vec<Delivery>, QueueError> {
        Ok(Vec::new())
    }

    async fn delete(&self, _: &[Receipt]) -> Result<(), QueueError> {
        Ok(())
    }

    async fn extend(&self, _: &Receipt, _: Duration) -> Result<(), QueueError> {
        Ok(())
    }

    async fn bury(&self, _: &Delivery, _: &str) -> Result<(), QueueError> {
        Ok(())
    }
}

async fn listener() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0)).await.expect("a port")
}

fn url_of(listener: &TcpListener) -> String {
    format!("http://{}", listener.local_addr().expect("its address"))
}

/// Makes a table with the same keys and indexes in another place. By hand: `MiniStack`'s description has texts where numbers
/// and truths belong, which no SDK reads.
async fn copy_table(from: &str, to: &str, name: &str) {
    let described = dynamodb_call(from, "DescribeTable", &json!({"TableName": name})).await;
    let table = &described["Table"];
    let same = json!({
        "TableName": name,
        "KeySchema": table["KeySchema"],
        "AttributeDefinitions": table["AttributeDefinitions"],
        "GlobalSecondaryIndexes": table["GlobalSecondaryIndexes"],
        "BillingMode": "PAY_PER_REQUEST",
    });
    dynamodb_call(to, "CreateTable", &same).await;
}

async fn dynamodb_call(endpoint: &str, operation: &str, body: &Value) -> Value {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let request = client
        .post(endpoint)
        .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
        .header("content-type", "application/x-amz-json-1.0")
        .header("x-amz-date", "20260101T000000Z")
        .header("authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
        .body(body.to_string());
    let answer = request.send().await.expect("an answer");
    let (status, body) = (answer.status(), answer.text().await.expect("its body"));
    assert!(status.is_success(), "{operation}: {status} {body}");
    serde_json::from_str(&body).expect("JSON")
}

/// Runs `infra/deploy`, and reads what it says.
async fn deploy(emulators: &Emulators, outside: &Outside) -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let digest = Digest::of(KEY.as_bytes());
    let parameters = [
        "RunnerTimeoutSeconds=120".to_owned(),
        format!("LeaseSeconds={LEASE}"),
        // Its alarms over sums of metrics are refused by MiniStack.
        "Monitoring=false".to_owned(),
        format!("ApiKeys=e2e:admin+finance={digest}"),
        format!("VendorsUrl={}", outside.vendors_url),
        format!("MailUrl={}", outside.mail_url),
        format!("ShopUrl={}", outside.shop_url),
    ];
    let mut program = Command::new(root.join("infra/deploy"));
    program.arg(NAME).args(parameters).envs(emulators.environment()).stdin(Stdio::null());
    let said = program.current_dir(&root).output().await.expect("infra/deploy runs");
    assert!(said.status.success(), "infra/deploy: {}\n{}", said.status, String::from_utf8_lossy(&said.stderr));
    let said = String::from_utf8(said.stdout).expect("words");
    let exports = said.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
    let unquoted = |value: &str| value.trim_matches(['"', '\'']).to_owned();
    exports.map(|(name, value)| (name.to_owned(), unquoted(value))).collect()
}
