//! `stepwell link`: for whom one is made, and what stands in it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a surprise in a test should stop it")]

mod common;

use common::http::{ask, get};
use common::{Ran, Service, Stepwell, finish};
use serde_json::{Value, json};
use stepwell_core::Timestamp;
use stepwell_core::link::{LinkKeys, Target};
use stepwell_samples::outside::{World, WorldOptions};
use tokio::runtime::Runtime;

const KEYS: &str = "k1=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const CFO: &str = "cfo@example.com";
const BASE: &str = "https://runs.example.com/";

/// A refund that waits for an approval.
struct Set {
    stepwell: Stepwell,
    run: String,
    id: String,
    _world: World,
    _worker: Service,
    _runtime: Runtime,
}

impl Set {
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let world = runtime.block_on(World::start(WorldOptions::default())).unwrap();
        let stepwell = Stepwell::new();
        let outside = world.addresses();
        let worker = stepwell.worker(&["--mail-url", &outside.mail_url, "--shop-url", &outside.shop_url]);
        let run = stepwell.start(&["refund", "--input", r#"{"order": "sofa-90000", "reason": "arrived broken"}"#]);
        let waiting = stepwell.wait_for(&run, "waiting");
        let id = waiting["approvals"][0]["id"].as_str().unwrap().to_owned();
        Self { stepwell, run, id, _world: world, _worker: worker, _runtime: runtime }
    }

    fn link(&self, keys: &str, args: &[&str]) -> Ran {
        let mut command = self.stepwell.command(&[&["link"], args].concat());
        command.env("STEPWELL_LINK_KEYS", keys);
        finish(command, "")
    }
}

fn time(text: &Value) -> jiff::Timestamp {
    text.as_str().unwrap().parse().unwrap()
}

#[test]
fn a_link_is_for_one_person_and_one_approval_until_it_expires() {
    let set = Set::start();
    let (run, id) = (set.run.as_str(), set.id.as_str());
    let args = [run, id, "--for", CFO, "--base", BASE];
    let made = set.link(KEYS, &[&args[..], &["--json"]].concat()).json();
    assert_eq!((&made["run"], &made["approval"], &made["for"]), (&json!(run), &json!(id), &json!(CFO)), "{made}");
    let expires = &set.stepwell.json(&["approvals", run])[0]["expires_at"];
    assert_eq!(&made["expires_at"], expires);

    let token = made["url"].as_str().unwrap().strip_prefix("https://runs.example.com/links/").unwrap();
    let link = LinkKeys::from_text(KEYS).unwrap().verify(token, Timestamp(0)).unwrap();
    let Target::Approval { id: signed, person, .. } = &link.target else { panic!("{link:?}") };
    assert_eq!((link.run.as_str(), signed.to_string().as_str(), person.as_str()), (run, id, CFO));
    assert_eq!(link.expires.to_string(), *expires.as_str().unwrap());

    let short = set.link(KEYS, &[&args[..], &["--expires-in", "1h", "--json"]].concat()).json();
    assert!(time(&short["expires_at"]) < time(expires), "{short}");
    let long = set.link(KEYS, &[&args[..], &["--expires-in", "900h", "--json"]].concat()).json();
    assert_eq!(&long["expires_at"], expires, "no longer than the approval may be answered");
    let text = set.link(KEYS, &args);
    assert!(
        text.stdout.starts_with("https://runs.example.com/links/k1.") && text.stdout.lines().count() == 1,
        "{text:?}"
    );
    assert!(text.stderr.contains("may answer as cfo@example.com, once"), "{text:?}");
}

#[test]
fn a_link_that_would_do_nothing_is_not_made() {
    let set = Set::start();
    let (run, id) = (set.run.as_str(), set.id.as_str());
    let base = ["--base", BASE];
    let link = |keys: &str, args: &[&str]| set.link(keys, &[args, &base[..]].concat());
    link("", &[run, id, "--for", CFO]).failed(3, &["error[no-links]", "STEPWELL_LINK_KEYS", "ID=HEX"]);
    let secret = link("k1=s3cret", &[run, id, "--for", CFO]);
    secret.failed(3, &["error[bad-link-keys]", "entry 1"]);
    assert!(!secret.stderr.contains("s3cret"), "{secret:?}");
    link(KEYS, &[run, id, "--for", "eve"]).failed(3, &["error[no-links]", "names no person eve", CFO]);
    link(KEYS, &[run, id, "--for", "finance"]).failed(3, &["error[no-links]", "names no person finance"]);
    link(KEYS, &[run, "0011223344556677", "--for", CFO]).failed(3, &["error[no-such-approval]"]);
    link(KEYS, &["r1", id, "--for", CFO]).failed(3, &["error[no-such-run]"]);
    link(KEYS, &[run, "nine", "--for", CFO]).failed(2, &["no id of an approval"]);
    set.link(KEYS, &[run, id, "--for", CFO, "--base", "here"]).failed(3, &["error[no-links]", "is no URL"]);

    set.stepwell.json(&["approve", run, id, "--by", "ada", "--role", "finance"]);
    link(KEYS, &[run, id, "--for", CFO]).failed(3, &["error[no-links]", "no answer is awaited"]);
}

#[test]
fn a_link_shows_what_is_asked_and_is_confirmed_without_an_account() {
    let stepwell = Stepwell::new();
    let mut command = stepwell.command(&["dev", "--port", "0", "--role", "viewer"]);
    command.env("STEPWELL_LINK_KEYS", KEYS);
    let dev = Service::start(command);
    let url = dev.ready.split_whitespace().find_map(|word| word.strip_suffix("/v1,")).unwrap();
    let refund = stepwell.json(&["list", "--workflow", "refund"])["runs"][0].take();
    let run = refund["run"].as_str().unwrap();
    let waiting = stepwell.wait_for(run, "waiting");
    let id = waiting["approvals"][0]["id"].as_str().unwrap();
    let mut link = stepwell.command(&["link", run, id, "--for", CFO, "--base", url]);
    link.env("STEPWELL_LINK_KEYS", KEYS);
    let link = finish(link, "").stdout;
    let path = link.trim().strip_prefix(url).unwrap();

    let page = get(url, path);
    assert!(page.status == 200 && page.body.contains("sofa-90000") && page.body.contains(CFO), "{page:?}");
    assert_eq!(stepwell.json(&["show", run])["status"], "waiting", "opening it changes nothing");
    let form = [("content-type", "application/x-www-form-urlencoded"), ("origin", url)];
    let altered = format!("{path}x");
    assert!((400..500).contains(&ask(url, "POST", &altered, &form, "decision=approve").status));
    assert_eq!(ask(url, "POST", path, &form, "decision=approve").status, 200);
    let shown = stepwell.wait_for(run, "completed");
    assert_eq!(shown["approvals"][0]["answers"][0]["by"], CFO, "{shown}");
    dev.signal("TERM");
    assert_eq!(dev.end().code, Some(0));
}
