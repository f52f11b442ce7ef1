//! The effects on SQS and S3: on an emulator, and against a server that misbehaves.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: their panic is the report")]

#[path = "../../../shared/effects/tests/common/mod.rs"]
mod common;
#[path = "../../../shared/effects/tests/http/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{Learnt, attempt};
use server::{Answer, Server, reply};
use stepwell::{Asked, Call, CallError, Cx, EffectError};
use stepwell_aws::sdk::config::profile::ProfileFileCredentialsProvider;
use stepwell_aws::sdk::config::{BehaviorVersion, Region};
use stepwell_aws::sdk::dynamodb::config::{Credentials, ProvideCredentials};
use stepwell_aws::sdk::sqs::types::QueueAttributeName;
use stepwell_aws::sdk::{s3, sqs};
use stepwell_effects::s3::{KEY_METADATA, S3, S3Object};
use stepwell_effects::sqs::{FIFO_WINDOW, KEY_ATTRIBUTE, Sqs, SqsMessage};
use stepwell_localaws::{Emulators, Resources};

const UNHURRIED: Duration = Duration::from_secs(20);

fn cx() -> Cx {
    attempt(Vec::new())
}

/// One call by this key, to an outside that dedupes.
async fn call<'c, T, F, Fut>(cx: &'c Cx, key: &str, make: F) -> Result<T, EffectError>
where
    T: serde::Serialize + serde::de::DeserializeOwned + Send,
    F: FnOnce(Call<'c>) -> Fut + Send,
    Fut: Future<Output = Result<T, CallError>> + Send,
{
    cx.effect("act").key(key).deadline(UNHURRIED).idempotent().call(make).await
}

/// The same, and what the step learns.
async fn learn<'c, T, F, Fut>(cx: &'c Cx, key: &str, make: F) -> Learnt
where
    T: serde::Serialize + serde::de::DeserializeOwned + Send,
    F: FnOnce(Call<'c>) -> Fut + Send,
    Fut: Future<Output = Result<T, CallError>> + Send,
{
    let Err(error) = call(cx, key, make).await else { panic!("it succeeded") };
    Learnt::from(&error)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_delivered_once_and_an_object_created_once() {
    let emulators = Emulators::start();
    let made = Resources::make(&emulators).await;
    a_fifo_queue_delivers_one_message_a_key(&made).await;
    a_standard_queue_delivers_all_with_their_keys(&made).await;
    an_object_is_put_and_put_again(&made).await;
    an_object_is_created_once(&made).await;
    an_object_is_asked_for(&made).await;
    what_is_not_there_refuses(&made).await;
}

async fn a_fifo_queue_delivers_one_message_a_key(made: &Resources) {
    let name = format!("{}.fifo", made.settings.bucket);
    let queue = made.sqs.create_queue().queue_name(name).attributes(QueueAttributeName::FifoQueue, "true");
    let url = queue.send().await.unwrap().queue_url.unwrap();
    let orders = Sqs::new(made.sqs.clone(), &url);
    let send = async |key: &'static str, body: &'static str| -> SqsMessage {
        // Each time in an attempt that knows nothing of the one before, as after a crash.
        let cx = cx();
        let effect = cx.effect("order").key(key).idempotent_for(FIFO_WINDOW);
        effect.call(|call| orders.send_fifo(call, "orders", body)).await.unwrap()
    };
    let first = send("order-7", "seven").await;
    assert!(!first.id.is_empty());
    send("order-7", "seven").await;
    send("order-8", "eight").await;
    let mut delivered = Vec::new();
    for _ in 0..3 {
        delivered.extend(receive(&made.sqs, &url).await);
    }
    let bodies: Vec<&str> = delivered.iter().map(|(body, _)| body.as_str()).collect();
    assert_eq!(bodies, ["seven", "eight"]);
    assert_ne!(delivered[0].1, delivered[1].1);
}

async fn a_standard_queue_delivers_all_with_their_keys(made: &Resources) {
    let url = &made.settings.queue_url;
    let orders = Sqs::new(made.sqs.clone(), url);
    for _ in 0..2 {
        call(&cx(), "order-7", |call| orders.send(call, "seven")).await.unwrap();
    }
    call(&cx(), "order-8", |call| orders.send(call, "eight")).await.unwrap();
    let mut by_key = BTreeMap::<String, Vec<String>>::new();
    for _ in 0..3 {
        for (body, key) in receive(&made.sqs, url).await {
            by_key.entry(key).or_default().push(body);
        }
    }
    let mut bodies: Vec<_> = by_key.into_values().collect();
    bodies.sort();
    assert_eq!(bodies, [vec!["eight"], vec!["seven", "seven"]]);
}

/// Bodies and keys, deleted.
async fn receive(sqs: &sqs::Client, url: &str) -> Vec<(String, String)> {
    let received = sqs.receive_message().queue_url(url).max_number_of_messages(10).wait_time_seconds(1);
    let received = received.message_attribute_names("All").send().await.unwrap();
    let mut messages = Vec::new();
    for message in received.messages.unwrap_or_default() {
        let key = message.message_attributes.unwrap()[KEY_ATTRIBUTE].string_value.clone().unwrap();
        messages.push((message.body.unwrap(), key));
        let handle = message.receipt_handle.unwrap();
        sqs.delete_message().queue_url(url).receipt_handle(handle).send().await.unwrap();
    }
    messages
}

async fn an_object_is_put_and_put_again(made: &Resources) {
    let files = S3::new(made.s3.clone(), &made.settings.bucket);
    let first = call(&cx(), "order-7", |call| files.put(call, "put", *b"seven")).await.unwrap();
    let again = call(&cx(), "order-7", |call| files.put(call, "put", *b"seven")).await.unwrap();
    assert_eq!((&again.name, &again.etag), (&first.name, &first.etag));
    assert_eq!(text(made, "put").await, "seven");
    call(&cx(), "order-8", |call| files.put(call, "put", *b"eight")).await.unwrap();
    assert_eq!(text(made, "put").await, "eight");
}

async fn an_object_is_created_once(made: &Resources) {
    let files = S3::new(made.s3.clone(), &made.settings.bucket);
    let first = call(&cx(), "order-7", |call| files.create(call, "created", *b"seven")).await.unwrap();
    // The same effect after a lost answer finds its own.
    let again = call(&cx(), "order-7", |call| files.create(call, "created", *b"seven")).await.unwrap();
    assert_eq!((&again.name, &again.etag), (&first.name, &first.etag));
    let learnt = learn(&cx(), "order-8", |call| files.create(call, "created", *b"eight")).await;
    assert_eq!(learnt, Learnt::Refused("s3-exists".into()));
    assert_eq!(text(made, "created").await, "seven");
    let head = made.s3.head_object().bucket(&made.settings.bucket).key("created").send().await.unwrap();
    assert_eq!(head.metadata.unwrap()[KEY_METADATA].len(), 32);
}

async fn an_object_is_asked_for(made: &Resources) {
    let files = S3::new(made.s3.clone(), &made.settings.bucket);
    // A read whose result is what was said.
    let ask = async |key: &'static str| -> String {
        let said = async |call| match files.ask(call, "asked").await {
            Ok(Asked::Happened(S3Object { name, .. })) => Ok::<_, CallError>(format!("happened: {name}")),
            Ok(Asked::Absent) => Ok("absent".into()),
            Ok(Asked::CannotTell(why)) => Ok(why),
            Err(error) => Err(error),
        };
        cx().effect("act").key(key).read().call(said).await.unwrap()
    };
    assert_eq!(ask("order-7").await, "absent");
    call(&cx(), "order-7", |call| files.put(call, "asked", *b"seven")).await.unwrap();
    assert_eq!(ask("order-7").await, "happened: asked");
    assert!(ask("order-8").await.contains("another effect"));
}

async fn what_is_not_there_refuses(made: &Resources) {
    let files = S3::new(made.s3.clone(), "stepwell-no-such-bucket");
    let learnt = learn(&cx(), "order-7", |call| files.put(call, "x", *b"x")).await;
    assert_eq!(learnt, Learnt::Refused("aws-NoSuchBucket".into()));
    let queue = Sqs::new(made.sqs.clone(), format!("{}-none", made.settings.queue_url));
    let Learnt::Refused(code) = learn(&cx(), "order-7", |call| queue.send(call, "x")).await else {
        panic!("it was not refused")
    };
    assert!(code.starts_with("aws-"), "{code}");
}

async fn text(made: &Resources, name: &str) -> String {
    let object = made.s3.get_object().bucket(&made.settings.bucket).key(name).send().await.unwrap();
    String::from_utf8(object.body.collect().await.unwrap().to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_service_says_of_one_attempt() {
    let rows = [
        ((400, "ThrottlingException"), Learnt::NotDone("aws-ThrottlingException".into())),
        ((503, "SlowDown"), Learnt::NotDone("aws-SlowDown".into())),
        ((409, "ConditionalRequestConflict"), Learnt::NotDone("aws-ConditionalRequestConflict".into())),
        ((400, "ExpiredToken"), Learnt::NotDone("aws-ExpiredToken".into())),
        ((429, "NeverHeardOf"), Learnt::NotDone("aws-NeverHeardOf".into())),
        ((403, "AccessDenied"), Learnt::Refused("aws-AccessDenied".into())),
        ((400, "InvalidMessageContents"), Learnt::Refused("aws-InvalidMessageContents".into())),
        ((404, "NoSuchBucket"), Learnt::Refused("aws-NoSuchBucket".into())),
        ((400, "RequestTimeout"), Learnt::Unknown("aws-RequestTimeout".into())),
        ((500, "InternalError"), Learnt::Unknown("aws-InternalError".into())),
        ((503, "ServiceUnavailable"), Learnt::Unknown("aws-ServiceUnavailable".into())),
    ];
    for ((status, code), expected) in rows {
        let server = Server::start(move |_, request| match request {
            request if request.starts_with("PUT") => {
                reply(&format!("{status} X"), &format!("<Error><Code>{code}</Code><Message>no</Message></Error>"))
            }
            _ => reply(
                &format!("{status} X\r\nContent-Type: application/x-amz-json-1.0"),
                &format!(r#"{{"__type":"com.amazonaws.sqs#{code}","message":"no"}}"#),
            ),
        });
        let server = server.await;
        assert_eq!(of_both(&server.url(""), who()).await, [expected.clone(), expected], "{status} {code}");
        // Each was asked once: the SDK repeats nothing by itself.
        assert_eq!(server.requests().len(), 2, "{status} {code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_of_an_attempt_without_an_answer() {
    let lost = Learnt::Unknown("aws-lost".into());
    for (name, answer) in [("closes", None), ("stalls", Some("")), ("breaks off", Some("HTTP/1.1 200 OK\r\nCont"))] {
        let server = Server::start(move |_, _| answer.map_or(Answer::Closes, Answer::Stalls)).await;
        let found = of_both(&server.url(""), who()).await;
        let late = Learnt::Unknown(String::new());
        // The step's own clock may be the first to give up.
        assert!(found.iter().all(|learnt| *learnt == lost || *learnt == late), "{name}: {found:?}");
        assert_eq!(server.requests().len(), 2, "{name}");
    }
    let server = Server::start(|_, _| reply("200 OK", "no answer of AWS")).await;
    let [of_sqs, _] = of_both(&server.url(""), who()).await;
    assert_eq!(of_sqs, lost, "a success that cannot be read");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_sent_was_not_done() {
    let unsent = Learnt::NotDone("aws-connect".into());
    let server = Server::start(|_, _| reply("200 OK", "")).await;
    let nobody = {
        let gone = Server::start(|_, _| Answer::Closes).await;
        gone.url("")
    };
    assert_eq!(of_both(&nobody, who()).await, [unsent.clone(), unsent.clone()]);
    let no_tls = server.url("").replace("http:", "https:");
    assert_eq!(of_both(&no_tls, who()).await, [unsent.clone(), unsent.clone()]);
    let stranger = ProfileFileCredentialsProvider::builder().profile_name("nobody-of-this-name").build();
    assert_eq!(of_both(&server.url(""), stranger).await, [unsent.clone(), unsent]);
    assert_eq!(server.requests(), Vec::<String>::new());
}

fn who() -> Credentials {
    Credentials::new("test", "test", None, None, "test")
}

/// What one call to this server comes to, on SQS and on S3. Both fail.
async fn of_both(url: &str, who: impl ProvideCredentials + 'static) -> [Learnt; 2] {
    let config = stepwell_aws::sdk::config::defaults(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(who)
        .endpoint_url(url)
        .load()
        .await;
    let queue = Sqs::new(sqs::Client::new(&config), format!("{url}/queue"));
    let path_style = s3::config::Builder::from(&config).force_path_style(true).build();
    let files = S3::new(s3::Client::from_conf(path_style), "bucket");
    let (of_sqs, of_s3) = (cx(), cx());
    let effect = of_sqs.effect("send").key("a").deadline(Duration::from_secs(2)).idempotent();
    let sent = effect.call(|call| queue.send(call, "body")).await;
    let effect = of_s3.effect("put").key("a").deadline(Duration::from_secs(2)).idempotent();
    let put = effect.call(|call| files.put(call, "name", *b"bytes")).await;
    let learnt = |error: Option<EffectError>| error.map_or(Learnt::Unsettled, |error| Learnt::from(&error));
    [learnt(sent.err()), learnt(put.err())]
}
