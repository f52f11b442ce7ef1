//! The `api` function's own process, on emulators of AWS, with a front that speaks Lambda's events to it.

use std::process::Stdio;
use std::sync::Arc;

use stepwell_aws::{AwsSettings, BUCKET_VARIABLE, DEAD_LETTER_VARIABLE, QUEUE_VARIABLE, TABLE_VARIABLE};
use stepwell_console_suite::{Working, program, work};
use stepwell_engine::Ports;
use stepwell_localaws::{Emulators, Kind, Resources, Setup};
use stepwell_ports::system::{SystemClock, SystemIds};
use stepwell_samples::outside::World;
use tokio::process::{Child, Command};

use crate::bridge::Bridge;
use crate::runs;
use crate::servers::keys;

/// Processes of the function, as Lambda has several of a busy one.
const PROCESSES: usize = 2;

/// All of it. It ends with this value: processes first, what they ask last.
pub(crate) struct Function {
    bridge: Bridge,
    _processes: Vec<Child>,
    _working: Working,
    _resources: Resources,
    _emulators: Emulators,
}

impl Function {
    pub(crate) async fn start() -> Self {
        let emulators = Setup::of(Kind::MiniStack).start();
        let resources = Resources::make(&emulators).await;
        let aws = &resources.aws;
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
        let ports = Ports { store: aws.store(), queue: aws.queue(), blobs: aws.blobs(), clock, ids };
        let (client, working) = work(ports).await;
        runs::start(&client).await;
        let bridge = Bridge::open().await;
        let processes =
            (0..PROCESSES).map(|_| process(&bridge, &emulators, &resources.settings, working.world())).collect();
        Self { bridge, _processes: processes, _working: working, _resources: resources, _emulators: emulators }
    }

    pub(crate) fn url(&self) -> &str {
        &self.bridge.url
    }

    /// How often the function was asked, and what it said where it did not answer.
    pub(crate) fn told(&self) -> (u64, Vec<String>) {
        (self.bridge.invoked(), self.bridge.failed())
    }
}

fn process(bridge: &Bridge, emulators: &Emulators, settings: &AwsSettings, world: &World) -> Child {
    let AwsSettings { table, queue_url, dead_letter_url, bucket, kms_key: _ } = settings;
    let of_stack = [
        (TABLE_VARIABLE, table),
        (QUEUE_VARIABLE, queue_url),
        (DEAD_LETTER_VARIABLE, dead_letter_url),
        (BUCKET_VARIABLE, bucket),
    ];
    let outside = world.addresses();
    let of_outside = [
        ("STEPWELL_VENDORS_URL", outside.vendors_url),
        ("STEPWELL_MAIL_URL", outside.mail_url),
        ("STEPWELL_SHOP_URL", outside.shop_url),
    ];
    let of_lambda = [
        ("AWS_LAMBDA_RUNTIME_API", &*bridge.runtime),
        ("AWS_LAMBDA_FUNCTION_NAME", "api"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512"),
        ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
        ("AWS_LAMBDA_LOG_GROUP_NAME", "api"),
        ("AWS_LAMBDA_LOG_STREAM_NAME", "api"),
    ];
    let mut process = Command::new(program("api"));
    process.env_clear().envs(emulators.environment()).envs(of_stack).envs(of_outside).envs(of_lambda);
    process.env("STEPWELL_API_KEYS", keys()).env("STEPWELL_LOG", "error");
    process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
    process.spawn().expect("the function's process")
}
