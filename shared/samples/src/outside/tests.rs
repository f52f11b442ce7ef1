//! The world as any HTTP client sees it.

use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};

use super::*;

async fn world() -> World {
    World::start(WorldOptions::default()).await.unwrap()
}

/// Waits for what must come without delay, so that a test whose event never comes fails instead of hanging.
pub(crate) async fn soon<T>(event: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), event).await.expect("it should have come long ago")
}

fn client() -> Client {
    Client::builder().no_proxy().build().unwrap()
}

async fn problem(response: Response) -> (StatusCode, String) {
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let status = response.status();
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["status"], status.as_u16());
    (status, body["detail"].as_str().unwrap().to_owned())
}

fn mail() -> Value {
    json!({"to": "board", "subject": "Brief", "body": "text"})
}

#[tokio::test]
async fn a_mail_needs_a_key_and_a_whole_body() {
    let world = world().await;
    let url = format!("{}/v1/mails", world.mail_url());
    let (status, detail) = problem(client().post(&url).json(&mail()).send().await.unwrap()).await;
    assert_eq!((status, detail.as_str()), (StatusCode::BAD_REQUEST, "header Idempotency-Key is missing"));

    let long = "k".repeat(mail::MAX_KEY_BYTES + 1);
    let (status, detail) =
        problem(client().post(&url).header("Idempotency-Key", long).json(&mail()).send().await.unwrap()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(detail.contains("256 bytes"), "{detail}");

    for body in ["", "{", "[]", r#"{"to": "board"}"#, r#"{"to": "", "subject": "s", "body": "b"}"#] {
        let sent = client().post(&url).header("Idempotency-Key", "key").body(body).send().await.unwrap();
        assert_eq!(problem(sent).await.0, StatusCode::BAD_REQUEST, "{body}");
    }
    let counts = world.counts().mail;
    assert_eq!((counts.requested, counts.delivered, counts.refused), (7, 0, 7));
}

#[tokio::test]
async fn mails_counts_and_control_are_there_over_http() {
    let world = world().await;
    let base = world.mail_url();
    let control = format!("{base}/control");
    let told = json!({"mode": "fail", "times": 1, "status": 503});
    let answer = client().put(&control).body(told.to_string()).send().await.unwrap();
    assert_eq!(answer.json::<Value>().await.unwrap(), told);

    let send = || client().post(format!("{base}/v1/mails")).header("Idempotency-Key", "key").json(&mail()).send();
    assert_eq!(problem(send().await.unwrap()).await.0, StatusCode::SERVICE_UNAVAILABLE);
    let accepted: Value = send().await.unwrap().json().await.unwrap();
    assert_eq!(accepted, json!({"id": "mail-1", "duplicate": false}));
    let repeated: Value = send().await.unwrap().json().await.unwrap();
    assert_eq!(repeated, json!({"id": "mail-1", "duplicate": true}));

    let get = async |path| client().get(format!("{base}{path}")).send().await.unwrap().json::<Value>().await.unwrap();
    let listed = get("/v1/mails").await;
    assert_eq!(listed, json!([{"id": "mail-1", "key": "key", "to": "board", "subject": "Brief", "body": "text"}]));
    let counts: MailCounts = serde_json::from_value(get("/v1/counts").await).unwrap();
    assert_eq!(counts, world.counts().mail);
    assert_eq!((counts.requested, counts.delivered, counts.duplicates, counts.failed), (3, 1, 1, 1));
}

#[tokio::test]
async fn every_behaviour_can_be_said_in_json_and_nonsense_changes_nothing() {
    let world = world().await;
    let put = async |url: String, body: &str| client().put(url).body(body.to_owned()).send().await.unwrap();
    let mail = || format!("{}/control", world.mail_url());
    let vendor = |name| format!("{}/control/{name}", world.vendors_url());
    for body in [
        r#"{"mode":"slow","ms":5}"#,
        r#"{"mode":"accept_then_drop","times":1}"#,
        r#"{"mode":"accept_then_hold","times":1}"#,
        r#"{"mode":"normal"}"#,
    ] {
        assert_eq!(put(mail(), body).await.text().await.unwrap(), body);
    }
    for body in ["", r#"{"mode":"fast"}"#, r#"{"mode":"fail","times":1}"#, r#"{"mode":"fail","times":1,"status":200}"#]
    {
        assert_eq!(problem(put(mail(), body).await).await.0, StatusCode::BAD_REQUEST, "{body}");
    }
    assert_eq!(put(vendor("velloria"), r#"{"mode":"fail","times":1}"#).await.status(), StatusCode::OK);
    assert_eq!(problem(put(vendor("velloria"), "{}").await).await.0, StatusCode::BAD_REQUEST);
    let (status, detail) = problem(put(vendor("nobody"), r#"{"mode":"normal"}"#).await).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(detail.contains("velloria"), "{detail}");

    let page = client().get(format!("{}/vendors/velloria", world.vendors_url())).send().await.unwrap();
    assert_eq!(problem(page).await.0, StatusCode::SERVICE_UNAVAILABLE);
    let counts = client().get(format!("{}/counts", world.vendors_url())).send().await.unwrap();
    let counts: Value = counts.json().await.unwrap();
    assert_eq!(counts["velloria"], json!({"requested": 1, "served": 0}));
    assert_eq!(counts["tarnwick"], json!({"requested": 0, "served": 0}));
}

#[tokio::test]
async fn a_port_in_use_is_said_with_its_number_and_what_to_do() {
    let first = world().await;
    let port = |url: &str| url.rsplit(':').next().unwrap().parse::<u16>().unwrap();
    let (mail_port, vendors_port) = (port(first.mail_url()), port(first.vendors_url()));
    for (options, taken) in [
        (WorldOptions { mail_port: Some(mail_port), ..WorldOptions::default() }, mail_port),
        (WorldOptions { vendors_port: Some(vendors_port), ..WorldOptions::default() }, vendors_port),
    ] {
        let error = World::start(options).await.unwrap_err();
        assert!(matches!(error, WorldError::PortInUse { port, .. } if port == taken));
        let message = error.to_string();
        assert!(message.contains(&format!("port {taken}")) && message.contains("stop the program"), "{message}");
    }

    // Once the first world has stopped, the ports are free for the next.
    first.stop().await;
    let options =
        WorldOptions { vendors_port: Some(vendors_port), mail_port: Some(mail_port), ..WorldOptions::default() };
    let again = World::start(options).await.unwrap();
    assert_eq!((port(again.vendors_url()), port(again.mail_url())), (vendors_port, mail_port));
}

#[tokio::test]
async fn mail_accepted_wakes_one_who_waits_already() {
    let world = world().await;
    let url = format!("{}/v1/mails", world.mail_url());
    let send = async |key: &str| client().post(&url).header("Idempotency-Key", key).json(&mail()).send().await.unwrap();
    let traffic = async {
        send("first").await;
        send("first").await;
        assert_eq!(world.counts().mail.delivered, 1);
        send("second").await;
    };
    soon(async { tokio::join!(world.mails_accepted(2), traffic) }).await;
    assert_eq!(world.counts().mail.delivered, 2);
}

#[tokio::test]
async fn a_slow_answer_does_not_keep_the_world_from_stopping() {
    let world = world().await;
    world.set_mail(MailBehaviour::Slow { ms: 600_000 });
    world.set_vendor("velloria", VendorBehaviour::Slow { ms: 600_000 }).unwrap();
    let mail =
        client().post(format!("{}/v1/mails", world.mail_url())).header("Idempotency-Key", "key").json(&mail()).send();
    let page = client().get(format!("{}/vendors/velloria", world.vendors_url())).send();
    let (mail, page) = (tokio::spawn(mail), tokio::spawn(page));
    // Both have arrived before the world stops.
    while world.counts().mail.requested == 0 || world.counts().vendors["velloria"].requested == 0 {
        tokio::task::yield_now().await;
    }
    world.stop().await;
    for answer in [mail, page] {
        assert_eq!(problem(soon(answer).await.unwrap().unwrap()).await.0, StatusCode::SERVICE_UNAVAILABLE);
    }
}

#[tokio::test]
async fn dropping_the_world_lets_held_requests_go_and_frees_its_ports() {
    let world = world().await;
    world.set_mail(MailBehaviour::AcceptThenHold { times: 1 });
    let url = format!("{}/v1/mails", world.mail_url());
    let held = tokio::spawn(client().post(&url).header("Idempotency-Key", "key").json(&mail()).send());
    soon(world.mail_accepted()).await;
    drop(world);
    assert!(soon(held).await.unwrap().unwrap_err().is_request());
    assert!(client().get(&url).send().await.unwrap_err().is_connect());
}

#[tokio::test]
async fn a_held_request_ends_with_its_client() {
    let world = world().await;
    world.set_mail(MailBehaviour::AcceptThenHold { times: 1 });
    let url = format!("{}/v1/mails", world.mail_url());
    let held = tokio::spawn(client().post(&url).header("Idempotency-Key", "key").json(&mail()).send());
    soon(world.mail_accepted()).await;
    let waiting = async |count| {
        while world.mail.waiting() != count {
            tokio::task::yield_now().await;
        }
    };
    soon(waiting(1)).await;
    held.abort();
    soon(waiting(0)).await;
}
