//! `stepwell dev`, as `make dev` runs it: one process on loopback, asked over HTTP as a browser and a program ask it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a surprise in a test should stop it")]

mod common;

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use common::http::{Answer, ask, get, send};
use common::{Service, Stepwell};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(20);

/// It runs, and this is where.
struct Dev {
    service: Service,
    url: String,
}

impl Dev {
    fn start(stepwell: &Stepwell, args: &[&str]) -> Self {
        let service = Service::start(stepwell.command(&[&["dev", "--port", "0", "--stop-with-stdin"], args].concat()));
        // It has a whole line of its own on stdout, and is in the words to people.
        let url = service.ready.split_whitespace().find(|word| word.starts_with("http://127.0.0.1:")).unwrap();
        let url = url.strip_suffix("/v1,").unwrap().to_owned();
        Self { service, url }
    }

    fn get(&self, path: &str) -> Answer {
        get(&self.url, path)
    }

    fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    fn send(&self, path: &str, body: &Value) -> Answer {
        send(&self.url, path, &[], body)
    }

    /// The same, as often as the answer is that the call may still be on its way: nobody can know before its time is over.
    fn send_until_taken(&self, path: &str, body: &Value) -> Answer {
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = self.send(path, body);
            if answer.status != 409 || answer.json()["code"] != "on-its-way" || Instant::now() > end {
                return answer;
            }
            thread::sleep(LOOK);
        }
    }

    /// Looks at a run until it stands so.
    fn wait_for(&self, run: &str, status: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let shown = self.json(&format!("/v1/runs/{run}"));
            if shown["status"] == status {
                return shown;
            }
            assert!(Instant::now() < end, "run {run} is not {status}: {shown}");
            thread::sleep(LOOK);
        }
    }

    /// The runs that are there from the start: what an input of each says, and its id.
    fn demo(&self) -> Vec<(String, String)> {
        let listed = self.json("/v1/runs");
        let of = |run: &Value| (run["workflow"].as_str().unwrap().to_owned(), run["run"].as_str().unwrap().to_owned());
        listed["runs"].as_array().unwrap().iter().map(of).collect()
    }

    /// The demo's run whose state, input or output says this.
    fn demo_with(&self, words: &str) -> String {
        let mut runs = self.demo().into_iter().map(|(_, run)| run);
        let found = runs.find(|run| self.json(&format!("/v1/runs/{run}")).to_string().contains(words));
        found.unwrap_or_else(|| panic!("no run says {words}"))
    }

    /// The revision of a run, as it has to be stated: what its entity tag begins with.
    fn revision(&self, run: &str) -> String {
        let head = self.get(&format!("/v1/runs/{run}")).head;
        let tag = head.lines().find_map(|line| line.strip_prefix("etag: \"")).unwrap();
        format!("\"{}\"", tag.split('.').next().unwrap())
    }
}

#[test]
fn it_serves_api_and_console_to_loopback_alone_and_stops_when_told_to() {
    let stepwell = Stepwell::new();
    let dev = Dev::start(&stepwell, &[]);
    assert_eq!(dev.get("/v1/health").status, 200);
    assert_eq!(dev.get("/v1/openapi.json").json()["openapi"].as_str().unwrap().split('.').next(), Some("3"));
    assert_eq!(dev.json("/v1/runs")["runs"].as_array().unwrap().len(), 6);

    let page = dev.get("/runs");
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.head.contains("content-type: text/html") && page.body.contains("refund"), "{page:?}");
    assert!(page.head.contains("content-security-policy:"), "{page:?}");

    let demo = dev.demo_with("sofa-90000");
    assert_eq!(dev.wait_for(&demo, "waiting")["detail"]["waiting"]["approval"].as_str().unwrap().len(), 16);
    let open = dev.json("/v1/approvals");
    assert_eq!((&open["approvals"][0]["run"], &open["approvals"][0]["status"]), (&json!(demo), &json!("open")));

    let address = dev.url.strip_prefix("http://").unwrap().to_owned();
    let (port, others) = (address.split_once(':').unwrap().1, machine_addresses());
    for other in others {
        assert!(TcpStream::connect(format!("{other}:{port}")).is_err(), "{other} is no loopback");
    }
    dev.service.signal("TERM");
    let ended = dev.service.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout, format!("http://{address}\n"));
    assert!(TcpStream::connect(&address).is_err(), "nobody listens any more");
}

/// How others reach this machine. Nothing is sent.
fn machine_addresses() -> Vec<String> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let reached = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    reached.map(|address| address.ip().to_string()).into_iter().filter(|ip| !ip.starts_with("127.")).collect()
}

#[test]
fn a_page_from_elsewhere_reads_and_changes_nothing() {
    let stepwell = Stepwell::new();
    let dev = Dev::start(&stepwell, &["--no-demo"]);
    let port = dev.url.rsplit(':').next().unwrap();
    // A name of elsewhere that leads here.
    for path in ["/v1/runs", "/runs"] {
        for host in ["evil.example", &format!("evil.example:{port}"), "127.0.0.1:1"] {
            let answer = ask(&dev.url, "GET", path, &[("host", host)], "");
            assert!((400..500).contains(&answer.status), "{path} as {host}: {answer:?}");
            assert!(!answer.body.contains("\"runs\""), "{answer:?}");
        }
        assert_eq!(ask(&dev.url, "GET", path, &[("host", &format!("localhost:{port}"))], "").status, 200, "{path}");
    }
    let start = json!({"workflow": "hello", "input": {"name": "Eve"}});
    for headers in [[("origin", "http://evil.example")], [("origin", "null")], [("sec-fetch-site", "cross-site")]] {
        let answer = send(&dev.url, "/v1/runs", &headers, &start);
        assert_eq!(answer.status, 403, "{headers:?}: {answer:?}");
    }
    assert_eq!(dev.json("/v1/runs")["runs"], json!([]));
    let own = send(&dev.url, "/v1/runs", &[("origin", &dev.url)], &start);
    assert_eq!(own.status, 201, "{own:?}");
}

#[test]
fn a_demo_run_is_approved_and_a_second_start_shows_the_same_runs() {
    let stepwell = Stepwell::new();
    let mut dev = Dev::start(&stepwell, &[]);
    let demo = dev.demo_with("sofa-90000");
    let waiting = dev.wait_for(&demo, "waiting");
    let id = waiting["detail"]["waiting"]["approval"].as_str().unwrap();
    let answered = dev.send(&format!("/v1/runs/{demo}/approvals/{id}"), &json!({"decision": "approve", "why": "seen"}));
    assert_eq!((answered.status, &answered.json()["by"]), (200, &json!("you")), "{answered:?}");
    let roles = dev.wait_for(&demo, "completed")["approvals"][0]["answers"][0]["roles"].take();
    assert!(roles.as_array().unwrap().contains(&json!("finance")), "{roles}");
    let before = dev.demo();

    dev.service.close_stdin();
    assert_eq!(dev.service.end().code, Some(0));
    let again = Dev::start(&stepwell, &[]);
    assert_eq!(again.demo(), before);
    again.wait_for(&demo, "completed");
}

#[test]
fn each_ready_input_leads_to_what_it_says_and_a_person_can_mend_it() {
    let stepwell = Stepwell::new();
    let dev = Dev::start(&stepwell, &[]);

    // An answer that was lost: somebody finds out, and says so.
    let unknown = dev.demo_with("Farhaven");
    let parked = dev.wait_for(&unknown, "parked");
    assert_eq!(parked["detail"]["parked"]["code"], "unknown-outcome", "{parked}");
    let key = parked["effects"][0]["key"].as_str().unwrap();
    let resolution = json!({"resolution": "succeeded", "result": {"pickup": "pickup-1"}, "why": "the carrier says so"});
    let resolved = dev.send_until_taken(&format!("/v1/runs/{unknown}/effects/{key}/resolve"), &resolution);
    assert_eq!(resolved.status, 200, "{resolved:?}");
    assert_eq!(dev.wait_for(&unknown, "completed")["detail"]["completed"]["output"]["pickup"], "pickup-1");

    // A weight with zeros too many: edited, looked at, resumed.
    let heavy = dev.demo_with("vase-3000");
    let parked = dev.wait_for(&heavy, "parked");
    assert_eq!(parked["detail"]["parked"]["code"], "budget", "{parked}");
    let revision = dev.revision(&heavy);
    let lighter = json!([{"op": "replace", "path": "/grams", "value": 1200}]);
    let edit = json!({"why": "two zeros too many", "patch": lighter});
    let path = format!("/v1/runs/{heavy}/edit");
    let edited = send(&dev.url, &path, &[("if-match", &revision)], &edit);
    assert_eq!(edited.status, 200, "{edited:?}");
    assert_eq!(send(&dev.url, &path, &[("if-match", &revision)], &edit).status, 412, "it was edited meanwhile");
    assert_eq!(dev.json(&format!("/v1/runs/{heavy}"))["status"], "parked");
    assert_eq!(dev.send(&format!("/v1/runs/{heavy}/resume"), &json!({})).status, 200);
    dev.wait_for(&heavy, "completed");

    // A road that was closed: tried again.
    let closed = dev.demo_with("desk-40000");
    let failed = dev.wait_for(&closed, "failed");
    assert!(failed["detail"]["failed"]["message"].as_str().unwrap().contains("road to Fernpass is closed"), "{failed}");
    assert_eq!(dev.send(&format!("/v1/runs/{closed}/retry"), &json!({"why": "it is open"})).status, 200);
    dev.wait_for(&closed, "completed");

    // A brief waits for its signal: paused, resumed, cancelled.
    let brief = dev.demo_with("velloria");
    dev.wait_for(&brief, "waiting");
    assert_eq!(dev.send(&format!("/v1/runs/{brief}/pause"), &json!({})).status, 200);
    assert_eq!(dev.wait_for(&brief, "parked")["detail"]["parked"]["code"], "paused");
    assert_eq!(dev.send(&format!("/v1/runs/{brief}/resume"), &json!({})).status, 200);
    dev.wait_for(&brief, "waiting");
    assert_eq!(dev.send(&format!("/v1/runs/{brief}/cancel"), &json!({})).status, 200);
    dev.wait_for(&brief, "cancelled");
}

#[test]
fn who_everybody_is_and_what_they_may_do_is_for_the_arguments() {
    let stepwell = Stepwell::new();
    let dev = Dev::start(&stepwell, &["--no-demo", "--as", "vera", "--role", "viewer"]);
    assert_eq!(dev.json("/v1/runs")["runs"], json!([]));
    let started = dev.send("/v1/runs", &json!({"workflow": "hello", "input": {"name": "Ada"}}));
    assert_eq!(started.status, 403, "{started:?}");
    let said = dev.service.says("everybody who reaches");
    assert!(said.contains("127.0.0.1 alone") && said.contains("is vera (viewer), without a key"), "{said}");
}

#[test]
fn for_programs_it_says_all_of_it_as_one_object() {
    let stepwell = Stepwell::new();
    let service = Service::start(stepwell.command(&["dev", "--port", "0", "--json"]));
    assert!(service.ready.starts_with('{'), "logs are JSON: {}", service.ready);
    service.signal("INT");
    let ended = service.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let said = ended.json();
    assert!(said["url"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{said}");
    assert_eq!((&said["as"], &said["roles"]), (&json!("you"), &json!(["admin", "finance", "head-of-finance"])));
    let workflows = said["demo"].as_array().unwrap().iter().map(|run| run["workflow"].as_str().unwrap());
    let count = workflows.fold(BTreeMap::new(), |mut count, name| {
        *count.entry(name.to_owned()).or_insert(0) += 1;
        count
    });
    assert_eq!((count["refund"], count["parcel"], count["hello"]), (1, 3, 1), "{said}");
}

#[test]
fn a_port_that_is_taken_and_a_place_elsewhere_are_refused() {
    let stepwell = Stepwell::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ran = stepwell.run(&["dev", "--port", &port]);
    ran.failed(3, &["error[port-in-use]", &port, "API and console", "choose another port"]);
    assert!(!stepwell.data().exists(), "nothing was made");
    stepwell.run(&["dev", "--role", " admin"]).failed(2, &["blanks around it"]);
    let help = stepwell.run(&["dev", "--help"]).stdout;
    for words in ["Farhaven", "vase-3000", "/grams", "Fernpass", "waits for an approval", "127.0.0.1"] {
        assert!(help.contains(words), "{words}: {help}");
    }
}
