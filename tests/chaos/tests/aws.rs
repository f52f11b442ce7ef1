//! The long story on AWS, as emulators play it: with a proxy between each process and the backend.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use stepwell_aws::{AwsSettings, BUCKET_VARIABLE, DEAD_LETTER_VARIABLE, QUEUE_VARIABLE, TABLE_VARIABLE};
use stepwell_chaos::story::home::Home;
use stepwell_chaos::story::proxy::Proxy;
use stepwell_chaos::story::{Story, last_words, number, tell};
use stepwell_localaws::{Emulators, Resources};
use stepwell_report::reports_dir;

type Failed = Box<dyn Error + Send + Sync>;

#[tokio::test(flavor = "multi_thread")]
async fn everything_breaks_for_a_while_on_aws_and_every_run_ends_well() -> Result<(), Failed> {
    let (seed, dir) = (stepwell_chaos::seed(), tempfile::tempdir()?);
    let log = dir.path().join("said");
    let emulators = Emulators::start();
    let resources = Resources::make(&emulators).await;
    let urls = emulators.urls().ok_or("the story breaks the lines to emulators of its own: LOCAL_AWS names another")?;
    let table = Proxy::listen(address(&urls.dynamodb)?, seed ^ 1).await?;
    let others = Proxy::listen(address(&urls.others)?, seed ^ 2).await?;
    let mut environment: Vec<(String, String)> =
        emulators.environment().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let url = |proxy: &Proxy| format!("http://{}", proxy.address());
    environment
        .extend([("AWS_ENDPOINT_URL".to_owned(), url(&others)), ("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), url(&table))]);
    environment.extend(variables(&resources.settings).map(|(name, value)| (name.to_owned(), value)));
    let story = Story {
        name: "chaos-story-aws",
        program: env!("CARGO_BIN_EXE_chaos-process"),
        home: Home::Aws(resources.aws.clone()),
        backend: vec![table, others],
        environment,
        log: log.clone(),
        seed,
        runs: number("STEPWELL_CHAOS_RUNS", 150)?,
        faults: number("STEPWELL_CHAOS_FAULTS", 80)?,
        pause: Duration::from_millis(400),
    };
    let report = tell(story).await.map_err(|error| format!("seed {seed}: {error}\n{}", last_words(&log)))?;
    report.print_to(&mut std::io::stdout().lock())?;
    report.write_to(&reports_dir()?)?;
    assert!(report.ok(), "seed {seed}; the processes said last:\n{}", last_words(&log));
    Ok(())
}

fn address(url: &str) -> Result<SocketAddr, Failed> {
    let host = url.strip_prefix("http://").ok_or("an emulator speaks HTTP")?;
    Ok(host.trim_end_matches('/').parse()?)
}

fn variables(settings: &AwsSettings) -> [(&'static str, String); 4] {
    let AwsSettings { table, queue_url, dead_letter_url, bucket, kms_key: _ } = settings.clone();
    [
        (TABLE_VARIABLE, table),
        (QUEUE_VARIABLE, queue_url),
        (DEAD_LETTER_VARIABLE, dead_letter_url),
        (BUCKET_VARIABLE, bucket),
    ]
}
