//! Runs Schemathesis, and reads what it has found.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use stepwell_report::reports_dir;
use tokio::process::Command;

/// The same requests each time.
const SEED: &str = "20260101";

/// Made-up requests an operation, besides those that the description leads to by itself.
const EXAMPLES: &str = "100";

/// How long one server may be tried.
const MOST: Duration = Duration::from_mins(6);

/// How long it may take until there is something to name.
const SOON: Duration = Duration::from_secs(30);

/// How many runs are asked for by their names.
const RUNS: usize = 20;

/// What may be said to a request that fits the description, besides what is usual.
const MAY_REFUSE: &str = "200, 201, 202, 204, 304, 401, 403, 404, 409, 412, 422, 429";

/// Where pages are asked for.
const PAGES: [&str; 4] = ["/v1/runs", "/v1/approvals", "/v1/unknowns", "/v1/runs/{run}/history"];

/// Where a run is watched, which a host that sends no streams refuses.
const STREAM: &str = "/v1/runs/{run}/events";

/// What was found on one server.
pub(crate) struct Tried {
    /// Which.
    pub(crate) on: &'static str,
    /// Operations that were tried.
    pub(crate) operations: u64,
    /// Those of them on which nothing was found.
    pub(crate) clean: u64,
    /// Requests whose answers were judged.
    pub(crate) cases: u64,
    /// How long it took.
    pub(crate) seconds: f64,
    /// Operations with answers of 5xx.
    pub(crate) errors: usize,
    /// Operations with answers whose status the description does not have.
    pub(crate) undocumented: usize,
    /// What was found, in words.
    pub(crate) findings: Vec<String>,
}

/// Its report, as far as it is read here.
#[derive(Deserialize)]
struct Written {
    running_time: f64,
    stop_reason: String,
    complete: bool,
    operations: Operations,
    test_cases: Cases,
    failures: Vec<Failure>,
    errors: Vec<Value>,
}

#[derive(Deserialize)]
struct Operations {
    selected: u64,
    tested: u64,
    errored: u64,
    skipped: u64,
}

#[derive(Deserialize)]
struct Cases {
    generated: u64,
}

#[derive(Deserialize)]
struct Failure {
    code: String,
    title: String,
    count: u64,
    operations: Vec<String>,
}

/// Tries the API that is served at `url`. What it says goes to `target/reports/test-api-<on>.txt`, with what reproduces each finding.
pub(crate) async fn run(on: &'static str, url: &str, key: Option<&str>) -> Tried {
    let reports = reports_dir().expect("a target folder");
    std::fs::create_dir_all(&reports).expect("a folder for reports");
    let (told, log) = (reports.join(format!("test-api-{on}-found.json")), reports.join(format!("test-api-{on}.txt")));
    let _ = std::fs::remove_file(&told);
    let dir = tempfile::tempdir().expect("a folder");
    let config = dir.path().join("schemathesis.toml");
    std::fs::write(&config, configuration(&names(url, key).await)).expect("its configuration");
    let mut program = Command::new(tool());
    program.arg("--config-file").arg(&config).arg("run").arg(format!("{url}/v1/openapi.json"));
    program.args(["--checks", "all", "--mode", "all", "--seed", SEED, "--generation-database", "none"]);
    program.args(["--max-examples", EXAMPLES, "--workers", "1", "--no-color"]);
    program.args(["--request-timeout", "30", "--rate-limit", "auto", "--continue-on-failure"]);
    program.args(["--report", "json", "--report-json-path"]).arg(&told);
    if let Some(key) = key {
        program.arg("--header").arg(format!("x-api-key: {key}"));
    } else {
        // A server of this machine alone asks for no credentials, so none are missed there.
        program.args(["--exclude-checks", "ignored_auth"]);
    }
    let output = std::fs::File::create(&log).expect("a log");
    program.stdout(output.try_clone().expect("a second handle")).stderr(output).stdin(Stdio::null());
    let mut child = program
        .current_dir(dir.path())
        .kill_on_drop(true)
        .spawn()
        .expect("Schemathesis, which `make test-api` installs");
    let ended = tokio::time::timeout(MOST, child.wait()).await;
    println!("{on}: what was asked and answered is in {}", log.display());
    match (ended, std::fs::read(&told)) {
        (Ok(Ok(_)), Ok(written)) => judge(on, serde_json::from_slice(&written).expect("its report")),
        (ended, _) => Tried {
            on,
            operations: 0,
            clean: 0,
            cases: 0,
            seconds: MOST.as_secs_f64(),
            errors: 0,
            undocumented: 0,
            findings: vec![format!("no report ({ended:?}): see {}", log.display())],
        },
    }
}

fn judge(on: &'static str, written: Written) -> Tried {
    let Written { running_time, stop_reason, complete, operations, test_cases, failures, errors } = written;
    let mut findings: Vec<String> = failures
        .iter()
        .map(|Failure { code, title, count, operations }| {
            format!("{code} {title}, {count} times: {}", operations.join(", "))
        })
        .collect();
    findings.extend(errors.iter().map(|error| format!("it could not try: {error}")));
    if !complete {
        findings.push(format!("it was not tried to the end: {stop_reason}"));
    }
    if operations.tested < operations.selected || operations.errored + operations.skipped > 0 {
        let Operations { selected, tested, errored, skipped } = operations;
        findings.push(format!(
            "of {selected} operations {tested} were tried, {errored} could not be, {skipped} were skipped"
        ));
    }
    let with = |wanted: &str| {
        failures.iter().filter(|failure| failure.code == wanted).map(|failure| failure.operations.len()).sum()
    };
    let (server_errors, undocumented) = (with("ST101"), with("ST103"));
    let mut marred: Vec<&String> = failures.iter().flat_map(|failure| &failure.operations).collect();
    marred.sort_unstable();
    marred.dedup();
    let marred = u64::try_from(marred.len()).expect("a small number");
    let clean = operations.tested.saturating_sub(marred);
    Tried {
        on,
        operations: operations.tested,
        clean,
        cases: test_cases.generated,
        seconds: running_time,
        errors: server_errors,
        undocumented,
        findings,
    }
}

/// What is there to be named in paths.
struct Names {
    runs: Vec<String>,
    approvals: Vec<String>,
    effects: Vec<String>,
}

/// Its configuration, all of it with a reason:
///
/// - Most paths name what is there; nobody waits long; a run that is watched is watched for one event.
/// - The key is the caller's own: no other credentials are made up beside it. That they are asked for is a check of its own.
/// - Which inputs, signals, results and steps fit is the workflow's to say (422), and whether a run stands as stated is no matter of
///   form (412), whatever else is wrong with what is sent. A cursor fits its schema and is still none (400); of two ways to say where a page begins only one is taken (400).
///   A host that sends no streams says so (406).
/// - Who does not say what was looked at is answered 428, as RFC 6585 has it.
fn configuration(Names { runs, approvals, effects }: &Names) -> String {
    let (runs, approvals, effects) = (json!(runs), json!(approvals), json!(effects));
    let refusing = [PAGES.map(|path| (path, 400)).as_slice(), &[(STREAM, 406)]].concat();
    let refusing = refusing.iter().map(|(path, status)| {
        format!(
            "[[operations]]\ninclude-name = \"GET {path}\"\n\
             checks.positive_data_acceptance.expected-statuses = [{MAY_REFUSE}, {status}]\n"
        )
    });
    let refusing: Vec<String> = refusing.collect();
    format!(
        r#"max-stream-events = 1

[dictionaries]
runs = {{ values = {runs} }}
approvals = {{ values = {approvals} }}
effects = {{ values = {effects} }}
moments = {{ values = [1] }}

[parameters]
"path.run" = {{ dictionary = "runs", probability = 0.8 }}
"path.id" = {{ dictionary = "approvals", probability = 0.8 }}
"path.key" = {{ dictionary = "effects", probability = 0.8 }}
"query.wait" = {{ dictionary = "moments", probability = 0.9 }}

[generation]
with-security-parameters = false

[checks]
positive_data_acceptance.expected-statuses = [{MAY_REFUSE}]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 412, 415, 422, 428, 429]
missing_required_header.expected-statuses = [400, 401, 403, 406, 415, 422, 428]

{}"#,
        refusing.join("\n")
    )
}

/// Names of what is there.
async fn names(url: &str, key: Option<&str>) -> Names {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    // The first page may be empty, and runs may still be on their way to where they are to stand.
    let list = async |path: &str, field: &str, name: &str| {
        let begun = Instant::now();
        let mut after = String::new();
        loop {
            let mut asked = client.get(format!("{url}{path}?limit={RUNS}{after}"));
            if let Some(key) = key {
                asked = asked.header("x-api-key", key);
            }
            let page: Value = asked.send().await.expect("an answer").json().await.expect("JSON");
            let items = page[field].as_array().unwrap_or_else(|| panic!("no {field}: {page}"));
            let names: Vec<String> = items.iter().filter_map(|item| item[name].as_str().map(str::to_owned)).collect();
            if !names.is_empty() {
                return names;
            }
            assert!(begun.elapsed() < SOON, "there are no {field}: {page}");
            after = page["next"].as_str().map(|next| format!("&after={next}")).unwrap_or_default();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    Names {
        runs: list("/v1/runs", "runs", "run").await,
        approvals: list("/v1/approvals", "approvals", "id").await,
        effects: list("/v1/unknowns", "unknowns", "key").await,
    }
}

/// The one that the Makefile has installed, or that the environment names.
fn tool() -> PathBuf {
    let named = env::var_os("STEPWELL_SCHEMATHESIS").expect("STEPWELL_SCHEMATHESIS names it: run `make test-api`");
    Path::new(&named).to_path_buf()
}
