//! What plays AWS, ready to be asked.

use std::env;
use std::ffi::{OsStr, OsString};
use std::process::Command;

use stepwell_aws::sdk::config::{BehaviorVersion, Region, SdkConfig};
use stepwell_aws::sdk::dynamodb::config::Credentials;

use crate::Kind;
use crate::emulator::{Emulator, Start, credentials, free_port};
use crate::kind;

/// The image of [`Kind::LocalStackDocker`].
const IMAGE: &str = "localstack/localstack:4.14.0";

/// What a client of another process is told of an endpoint by.
const OF_CLIENTS: [&str; 6] = [
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
];

/// `DynamoDB`, SQS, S3, Lambda and the rest, as child processes that end with this value.
pub struct Emulators {
    kind: Kind,
    urls: Option<Urls>,
    _running: Running,
}

/// What is to be started, and where.
///
/// # Examples
/// ```no_run
/// use stepwell_localaws::{Kind, Setup};
///
/// let mut setup = Setup::of(Kind::LocalStack);
/// // A proxy between functions and the table. It learns where the table is once the emulators run.
/// setup.functions.dynamodb = Some("http://127.0.0.1:9999".into());
/// let emulators = setup.start();
/// assert!(emulators.urls().is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Setup {
    /// Who plays AWS.
    pub kind: Kind,
    /// Where DynamoDB listens; 0 is any port that is free.
    pub dynamodb_port: u16,
    /// Where all the rest listens; 0 is any port that is free.
    pub others_port: u16,
    /// What functions that the emulator starts get as endpoints.
    pub functions: FunctionEndpoints,
}

/// What functions that the emulator starts get as endpoints; `None` is the emulator itself.
#[derive(Clone, Debug, Default)]
pub struct FunctionEndpoints {
    /// `AWS_ENDPOINT_URL_DYNAMODB`.
    pub dynamodb: Option<String>,
    /// `AWS_ENDPOINT_URL`.
    pub others: Option<String>,
}

/// Where emulators listen.
#[derive(Clone, Debug)]
pub struct Urls {
    /// DynamoDB.
    pub dynamodb: String,
    /// All the rest.
    pub others: String,
}

/// Fields are dropped in this order: functions first, then their table.
#[derive(Default)]
struct Running {
    _container: Option<Container>,
    _others: Option<Emulator>,
    _dynamodb: Option<Emulator>,
}

impl Emulators {
    /// Starts what `LOCAL_AWS` says on ports that are free, and waits until all are ready.
    ///
    /// # Panics
    /// As [`Setup::start`] does.
    pub fn start() -> Self {
        Setup::of(Kind::from_env()).start()
    }

    /// Who plays AWS.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where they listen; `None` for [`Kind::Endpoint`], which the environment knows alone.
    pub fn urls(&self) -> Option<&Urls> {
        self.urls.as_ref()
    }

    /// How to reach DynamoDB.
    pub async fn dynamodb(&self) -> SdkConfig {
        self.config(|urls| &urls.dynamodb).await
    }

    /// How to reach all the rest.
    pub async fn others(&self) -> SdkConfig {
        self.config(|urls| &urls.others).await
    }

    /// The environment of a program that is to speak to them, and to nobody else.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let Some(Urls { dynamodb, others }) = &self.urls else {
            return OF_CLIENTS.iter().filter_map(|name| Some((*name, env::var(name).ok()?))).collect();
        };
        let endpoints = [("AWS_ENDPOINT_URL", others), ("AWS_ENDPOINT_URL_DYNAMODB", dynamodb)];
        let endpoints = endpoints.map(|(name, url)| (name, url.clone()));
        endpoints.into_iter().chain(credentials().map(|(name, value)| (name, value.to_owned()))).collect()
    }

    async fn config(&self, url: fn(&Urls) -> &String) -> SdkConfig {
        let defaults = stepwell_aws::sdk::config::defaults(BehaviorVersion::v2026_01_12());
        let Some(urls) = &self.urls else { return defaults.load().await };
        defaults
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .endpoint_url(url(urls))
            .load()
            .await
    }
}

impl Setup {
    /// This kind, on ports that are free; functions speak to the emulators.
    pub fn of(kind: Kind) -> Self {
        Self { kind, dynamodb_port: 0, others_port: 0, functions: FunctionEndpoints::default() }
    }

    /// Starts them, and waits until all are ready.
    ///
    /// # Panics
    /// Where one is not named, cannot be started, or does not come up; where somebody else listens on its port; where
    /// functions are to have endpoints that this kind cannot give them.
    pub fn start(self) -> Emulators {
        let kind = self.kind;
        let (urls, running) = match kind {
            Kind::MiniStack => self.with_dynoxide("STEPWELL_MINISTACK", "/_ministack/health", Self::of_ministack),
            Kind::LocalStack => self.with_dynoxide("STEPWELL_LOCALSTACK", "/_localstack/health", Self::of_localstack),
            Kind::LocalStackDocker => self.in_a_container(),
            Kind::Endpoint => {
                self.assert_no_function_endpoints();
                let given = env::var("AWS_ENDPOINT_URL").is_ok_and(|url| !url.is_empty());
                assert!(
                    given,
                    "{}={kind} is for the one that AWS_ENDPOINT_URL names, which is not set",
                    kind::VARIABLE
                );
                return Emulators { kind, urls: None, _running: Running::default() };
            }
        };
        Emulators { kind, urls: Some(urls), _running: running }
    }

    fn with_dynoxide(
        &self,
        variable: &str,
        health: &'static str,
        environment: fn(&Self, &Urls) -> Vec<(&'static str, String)>,
    ) -> (Urls, Running) {
        let (dynamodb_port, port) = (free_port(self.dynamodb_port), free_port(self.others_port));
        let dynamodb = Emulator::start(&Start {
            program: &named_by("STEPWELL_DYNOXIDE"),
            arguments: ["serve", "--host", "127.0.0.1", "--port", &dynamodb_port.to_string()].map(Into::into).into(),
            environment: Vec::new(),
            port: dynamodb_port,
            health: None,
        });
        let urls = Urls { dynamodb: url(dynamodb_port), others: url(port) };
        let others = Emulator::start(&Start {
            program: &named_by(variable),
            arguments: Vec::new(),
            environment: environment(self, &urls),
            port,
            health: Some(health),
        });
        (urls, Running { _others: Some(others), _dynamodb: Some(dynamodb), _container: None })
    }

    /// Functions inherit all of it, and their `AWS_ENDPOINT_URL` is always this one.
    fn of_ministack(&self, urls: &Urls) -> Vec<(&'static str, String)> {
        let FunctionEndpoints { dynamodb, others } = &self.functions;
        vec![
            ("BIND_HOST", "127.0.0.1".into()),
            ("MINISTACK_HOST", "127.0.0.1".into()),
            ("GATEWAY_PORT", port_of(&urls.others)),
            ("AWS_ENDPOINT_URL", others.as_ref().unwrap_or(&urls.others).clone()),
            ("AWS_ENDPOINT_URL_DYNAMODB", dynamodb.as_ref().unwrap_or(&urls.dynamodb).clone()),
        ]
    }

    /// Its plugin gives functions nothing but what it is told to.
    fn of_localstack(&self, urls: &Urls) -> Vec<(&'static str, String)> {
        let FunctionEndpoints { dynamodb, others } = &self.functions;
        vec![
            ("GATEWAY_LISTEN", format!("127.0.0.1:{}", port_of(&urls.others))),
            ("STEPWELL_DYNAMODB_URL", urls.dynamodb.clone()),
            ("STEPWELL_FUNCTION_ENDPOINT_URL", others.as_ref().unwrap_or(&urls.others).clone()),
            ("STEPWELL_FUNCTION_ENDPOINT_URL_DYNAMODB", dynamodb.as_ref().unwrap_or(&urls.dynamodb).clone()),
        ]
    }

    fn in_a_container(&self) -> (Urls, Running) {
        self.assert_no_function_endpoints();
        let engine = Command::new("docker").arg("info").output();
        let there = engine.is_ok_and(|output| output.status.success());
        assert!(there, "{}={} needs a Docker engine, and `docker info` finds none", kind::VARIABLE, self.kind);
        let port = free_port(self.others_port);
        let container = Container(format!("stepwell-localstack-{port}"));
        let publish = format!("--publish=127.0.0.1:{port}:4566");
        let socket = "--volume=/var/run/docker.sock:/var/run/docker.sock";
        let others = Emulator::start(&Start {
            program: OsStr::new("docker"),
            arguments: ["run", "--rm", "--name", &container.0, &publish, socket, IMAGE].map(Into::into).into(),
            environment: Vec::new(),
            port,
            health: Some("/_localstack/health"),
        });
        let urls = Urls { dynamodb: url(port), others: url(port) };
        (urls, Running { _container: Some(container), _others: Some(others), _dynamodb: None })
    }

    fn assert_no_function_endpoints(&self) {
        let FunctionEndpoints { dynamodb, others } = &self.functions;
        assert!(dynamodb.is_none() && others.is_none(), "{} does not let functions have endpoints of ours", self.kind);
    }
}

/// A container outlives the program that has started it.
struct Container(String);

impl Drop for Container {
    fn drop(&mut self) {
        let _ = Command::new("docker").args(["rm", "--force", &self.0]).output();
    }
}

fn named_by(variable: &str) -> OsString {
    env::var_os(variable).unwrap_or_else(|| panic!("{variable} is not set: it names the emulator"))
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn port_of(url: &str) -> String {
    url.rsplit(':').next().unwrap_or_default().to_owned()
}
