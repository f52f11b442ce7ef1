//! The emulators, as child processes that end with this value.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use stepwell_aws::sdk::config::{BehaviorVersion, Region, SdkConfig};
use stepwell_aws::sdk::dynamodb::config::Credentials;
use tempfile::TempDir;

/// How long an emulator may take to listen.
const START_MAX: Duration = Duration::from_secs(30);

/// `DynamoDB`, SQS and S3 on ports of their own.
pub struct Emulators {
    dynamodb: Emulator,
    others: Emulator,
}

struct Emulator {
    process: Child,
    port: u16,
    _dir: TempDir,
}

impl Emulators {
    /// Starts them on ports that are free, and waits until they listen.
    ///
    /// # Panics
    /// Where one is not named, cannot be started, or does not come up.
    pub fn start() -> Self {
        Self::start_on(0, 0)
    }

    /// Starts them on these ports; 0 is any that is free.
    ///
    /// # Panics
    /// As [`Emulators::start`] does, and where somebody else listens there.
    pub fn start_on(dynamodb: u16, others: u16) -> Self {
        let dynamodb = Emulator::start("STEPWELL_DYNOXIDE", dynamodb, |program, port| {
            program.args(["serve", "--host", "127.0.0.1", "--port", &port.to_string()]);
        });
        let others = Emulator::start("STEPWELL_MINISTACK", others, |program, port| {
            let endpoint = format!("http://127.0.0.1:{port}");
            program
                .env("BIND_HOST", "127.0.0.1")
                .env("MINISTACK_HOST", "127.0.0.1")
                .env("GATEWAY_PORT", port.to_string())
                .env("AWS_ENDPOINT_URL", endpoint);
        });
        Self { dynamodb, others }
    }

    /// How to reach DynamoDB.
    pub async fn dynamodb(&self) -> SdkConfig {
        config(self.dynamodb.port).await
    }

    /// The environment of a program that is to speak to them, and to nobody else.
    pub fn environment(&self) -> [(&'static str, String); 5] {
        let endpoint = |emulator: &Emulator| format!("http://127.0.0.1:{}", emulator.port);
        [
            ("AWS_ENDPOINT_URL", endpoint(&self.others)),
            ("AWS_ENDPOINT_URL_DYNAMODB", endpoint(&self.dynamodb)),
            ("AWS_REGION", "us-east-1".into()),
            ("AWS_ACCESS_KEY_ID", "test".into()),
            ("AWS_SECRET_ACCESS_KEY", "test".into()),
        ]
    }

    /// How to reach SQS and S3.
    pub async fn others(&self) -> SdkConfig {
        config(self.others.port).await
    }
}

impl Emulator {
    fn start(variable: &str, port: u16, with: impl Fn(&mut Command, u16)) -> Self {
        let path = env::var_os(variable).unwrap_or_else(|| panic!("{variable} is not set: it names the emulator"));
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap_or_else(|error| panic!("port {port}: {error}"));
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let dir = tempfile::tempdir().unwrap();
        let mut program = Command::new(&path);
        program
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("HOME", dir.path())
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            .env("AWS_REGION", "us-east-1")
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        with(&mut program, port);
        let process = program.spawn().unwrap_or_else(|error| panic!("{variable}={}: {error}", path.display()));
        let mut emulator = Self { process, port, _dir: dir };
        emulator.wait(variable);
        emulator
    }

    fn wait(&mut self, variable: &str) {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if let Some(status) = self.process.try_wait().unwrap() {
                panic!("{variable} has ended: {status}");
            }
            assert!(begun.elapsed() < START_MAX, "{variable} does not listen on port {}", self.port);
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn config(port: u16) -> SdkConfig {
    stepwell_aws::sdk::config::defaults(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .endpoint_url(format!("http://127.0.0.1:{port}"))
        .load()
        .await
}
