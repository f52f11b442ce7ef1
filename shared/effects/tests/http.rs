//! The HTTP client against a real server that counts and misbehaves.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: their panic is the report")]

mod common;
#[path = "http/server.rs"]
mod server;

use std::time::{Duration, Instant};

use common::{Learnt, attempt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::{Answer, Server, reply};
use stepwell::{Call, CallError, Cx, EffectError, Secret};
use stepwell_effects::http::{Http, HttpReply, HttpSettings, Meaning, Method};

const UNHURRIED: Duration = Duration::from_secs(20);

fn http() -> Http {
    // Nobody's proxy is between the tests and their server.
    Http::new(HttpSettings { proxies: false, reply_max: 4096, ..HttpSettings::default() }).unwrap()
}

fn cx() -> Cx {
    attempt(Vec::new())
}

/// One call in a step of its own, to an outside that dedupes.
async fn call<'c, T, F, Fut>(cx: &'c Cx, deadline: Duration, make: F) -> Result<T, EffectError>
where
    T: Serialize + serde::de::DeserializeOwned + Send,
    F: FnOnce(Call<'c>) -> Fut + Send,
    Fut: Future<Output = Result<T, CallError>> + Send,
{
    cx.effect("act").key("order-7").deadline(deadline).idempotent().call(make).await
}

async fn learn<'c, T, F, Fut>(cx: &'c Cx, make: F) -> Learnt
where
    T: Serialize + serde::de::DeserializeOwned + Send,
    F: FnOnce(Call<'c>) -> Fut + Send,
    Fut: Future<Output = Result<T, CallError>> + Send,
{
    let Err(error) = call(cx, UNHURRIED, make).await else { panic!("it succeeded") };
    Learnt::from(&error)
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    id: u32,
}

#[tokio::test]
async fn a_request_carries_its_key_and_its_reply_is_what_was_asked_for() {
    let server = Server::start(|_, _| reply("201 Created\r\nLocation: /charges/7\r\nX-Other: no", r#"{"id":7}"#)).await;
    let token = Secret::new("token", "t-0123456789".to_owned()).unwrap();
    let request = http().post(server.url("/charges?a=b")).bearer(&token).secret_header("X-Api-Key", &token);
    let request = request.json(&json!({"cents": 500})).header("X-Shop", "north").keep_header("Location");
    let reply: HttpReply<Receipt> = call(&cx(), UNHURRIED, |call| request.send_for_json(call)).await.unwrap();
    assert_eq!((reply.status, reply.body), (201, Receipt { id: 7 }));
    assert_eq!(reply.headers.into_iter().collect::<Vec<_>>(), [("location".to_owned(), "/charges/7".to_owned())]);

    let seen = server.requests();
    assert_eq!(seen.len(), 1);
    assert!(seen[0].starts_with("POST /charges?a=b HTTP/1.1"), "{}", seen[0]);
    assert!(seen[0].ends_with("\r\n\r\n{\"cents\":500}"), "{}", seen[0]);
    for line in ["authorization: Bearer t-0123456789", "x-api-key: t-0123456789", "x-shop: north"] {
        assert!(seen[0].contains(line), "{line}: {}", seen[0]);
    }
    assert_eq!(server::header(&seen[0], "content-type"), Some("application/json"));
    let key = server::header(&seen[0], "idempotency-key").unwrap();
    assert_eq!(key.len(), 32, "{key}");
}

#[tokio::test]
async fn the_three_ways_to_read_a_reply() {
    let server = Server::start(|_, request| match request {
        request if request.contains("/empty") => reply("204 No Content", ""),
        _ => reply("200 OK", "plain words"),
    });
    let server = server.await;
    let (empty, plain) = (server.url("/empty"), server.url("/plain"));
    let text = call(&cx(), UNHURRIED, |call| http().get(&plain).send_for_text(call)).await.unwrap();
    assert_eq!(text.body, "plain words");
    assert_eq!(call(&cx(), UNHURRIED, |call| http().get(&plain).send(call)).await.unwrap().status, 200);
    let nothing = call(&cx(), UNHURRIED, |call| http().delete(&empty).send_for_json::<Option<u8>>(call)).await.unwrap();
    assert_eq!((nothing.status, nothing.body), (204, None));
}

#[tokio::test]
async fn every_status_says_what_became_of_the_request() {
    let server = Server::start(|_, request| {
        let status = request.split(['/', ' ']).nth(2).unwrap();
        reply(&format!("{status} Said"), "")
    });
    let (server, http) = (server.await, http());
    for status in (200..=599_u16).chain([600, 777, 999]) {
        let request = http.post(server.url(&format!("/{status}")));
        let found = call(&cx(), UNHURRIED, |call| request.send(call)).await;
        let code = format!("http-{status}");
        let expected = match status {
            200..=299 => {
                assert_eq!(found.unwrap().status, status);
                continue;
            }
            421 | 425 | 429 => Learnt::NotDone(code),
            408 | 409 | 499 => Learnt::Unknown(code),
            307 | 308 | 400..=498 | 501 | 505 => Learnt::Refused(code),
            _ => Learnt::Unknown(code),
        };
        assert_eq!(Learnt::from(&found.unwrap_err()), expected, "{status}");
    }
    assert_eq!(server.requests().len(), 403);
}

#[tokio::test]
async fn a_server_that_names_a_time_is_left_alone_until_then() {
    let server = Server::start(|_, request| match request {
        request if request.contains("/429") => reply("429 Slow\r\nRetry-After: 17", ""),
        request if request.contains("/503") => {
            reply("503 Down\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:50:07 GMT", "")
        }
        _ => reply("500 Broken\r\nRetry-After: 5", ""),
    });
    let server = server.await;
    let post = async |path| {
        let request = http().post(server.url(path));
        match call(&cx(), UNHURRIED, |call| request.send(call)).await.unwrap_err() {
            EffectError::NotDone { at_least, .. } => ("not done", at_least),
            EffectError::Unknown { at_least, .. } => ("unknown", at_least),
            other => panic!("{other}"),
        }
    };
    assert_eq!(post("/429").await, ("not done", Some(Duration::from_secs(17))));
    assert_eq!(post("/503").await, ("not done", Some(Duration::from_secs(30))));
    assert_eq!(post("/500").await, ("unknown", Some(Duration::from_secs(5))));
}

#[tokio::test]
async fn an_api_may_mean_something_else_by_a_status() {
    let server = Server::start(|_, _| reply("409 Conflict", "")).await;
    let request = || http().post(server.url("/"));
    assert_eq!(learn(&cx(), |call| request().send(call)).await, Learnt::Unknown("http-409".into()));
    let refused = request().status_means(409, Meaning::NotDone).status_means(409, Meaning::Refused);
    assert_eq!(learn(&cx(), |call| refused.send(call)).await, Learnt::Refused("http-409".into()));
}

#[tokio::test]
async fn what_was_lost_after_the_request_is_unknown_and_not_repeated() {
    let server = Server::start(|number, _| match number {
        0 | 2 => reply("200 OK", ""),
        _ => Answer::Closes,
    });
    let (server, http) = (server.await, http());
    let post = |path| http.post(server.url(path));
    // The first leaves a connection behind, on which the second is sent.
    call(&cx(), UNHURRIED, |call| post("/first").send(call)).await.unwrap();
    assert_eq!(learn(&cx(), |call| post("/second").send(call)).await, Learnt::Unknown("http-lost".into()));
    assert_eq!(server.requests().len(), 2);
    let get = || http.get(server.url("/get"));
    call(&cx(), UNHURRIED, |call| get().send(call)).await.unwrap();
    assert_eq!(learn(&cx(), |call| get().send(call)).await, Learnt::Unknown("http-lost".into()));
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn no_answer_in_time_is_unknown() {
    let server = Server::start(|_, _| Answer::Stalls("")).await;
    let request = http().post(server.url("/"));
    let error = call(&cx(), Duration::from_millis(300), |call| request.send(call)).await.unwrap_err();
    assert!(matches!(error, EffectError::Unknown { .. }), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_success_whose_answer_is_lost_is_unknown() {
    let server = Server::start(|_, request| match request {
        request if request.contains("/short") => {
            Answer::Says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"id\"".into())
        }
        request if request.contains("/long") => reply("200 OK", &format!("\"{}\"", "x".repeat(4095))),
        request if request.contains("/other") => reply("200 OK", r#"{"id":"k-not-for-errors"}"#),
        request if request.contains("/full") => reply("200 OK", &format!("\"{}\"", "x".repeat(4094))),
        _ => reply("200 OK", ""),
    });
    let server = server.await;
    for path in ["/short", "/long", "/other", "/nothing"] {
        let request = http().post(server.url(path));
        let error = call(&cx(), UNHURRIED, |call| request.send_for_json::<Receipt>(call)).await.unwrap_err();
        assert_eq!(Learnt::from(&error), Learnt::Unknown("http-reply".into()), "{path}");
        assert!(error.to_string().contains("it happened"), "{error}");
        assert!(!error.to_string().contains("k-not-for-errors"), "{error}");
        // Who wants no answer has lost none.
        let request = http().post(server.url(path));
        assert_eq!(call(&cx(), UNHURRIED, |call| request.send(call)).await.unwrap().status, 200, "{path}");
    }
    for path in ["/short", "/long"] {
        let request = http().post(server.url(path));
        assert_eq!(
            learn(&cx(), |call| request.send_for_text(call)).await,
            Learnt::Unknown("http-reply".into()),
            "{path}"
        );
    }
    let request = http().post(server.url("/full"));
    assert_eq!(call(&cx(), UNHURRIED, |call| request.send_for_text(call)).await.unwrap().body.len(), 4096);
}

#[tokio::test]
async fn where_nobody_listens_nothing_was_sent() {
    let server = Server::start(|_, _| reply("200 OK", "")).await;
    // The server speaks no TLS.
    let no_tls = server.url("/").replace("http:", "https:");
    let gone = Server::start(|_, _| reply("200 OK", "")).await;
    let nobody = gone.url("/");
    drop(gone);
    for url in [no_tls.as_str(), nobody.as_str(), "http://nobody.invalid/"] {
        let request = http().post(url);
        assert_eq!(learn(&cx(), |call| request.send(call)).await, Learnt::NotDone("http-connect".into()), "{url}");
    }
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn only_a_get_without_secrets_follows_a_redirect() {
    let server = Server::start(|_, request| match request {
        request if request.contains("/there") => reply("200 OK", "arrived"),
        request => reply(&format!("{} Moved\r\nLocation: /there", &request.split(['/', ' ']).nth(2).unwrap()), ""),
    });
    let server = server.await;
    let (http, token) = (http(), Secret::new("token", "t-0123456789".to_owned()).unwrap());
    for status in [301, 302, 303, 307, 308] {
        let (url, code) = (server.url(&format!("/{status}")), format!("http-{status}"));
        let reply = call(&cx(), UNHURRIED, |call| http.get(&url).send_for_text(call)).await.unwrap();
        assert_eq!(reply.body, "arrived");
        let seen = server.requests().len();
        let learnt = learn(&cx(), |call| http.get(&url).bearer(&token).send(call)).await;
        assert_eq!(learnt, Learnt::Refused(code.clone()));
        // A form that was accepted answers with one of the first three.
        let expected = if status < 307 { Learnt::Unknown(code) } else { Learnt::Refused(code) };
        assert_eq!(learn(&cx(), |call| http.post(&url).send(call)).await, expected);
        assert_eq!(server.requests().len(), seen + 2);
    }
    let round = Server::start(|_, _| reply("302 Moved\r\nLocation: /", "")).await;
    assert_eq!(learn(&cx(), |call| http.get(round.url("/")).send(call)).await, Learnt::Refused("http-request".into()));
}

#[tokio::test]
async fn a_request_that_cannot_be_made_is_refused_unsent() {
    let server = Server::start(|_, _| reply("200 OK", "")).await;
    let (http, url) = (http(), server.url("/"));
    let odd_key = std::collections::HashMap::from([((1, 2), 3)]);
    let requests = [
        http.post("not a URL"),
        http.post("ftp://127.0.0.1/"),
        http.post(&url).header("a b", "c"),
        http.post(&url).header("a", "b\r\nc"),
        http.post(&url).secret_header("a\n", &Secret::new("token", "t-0123456789").unwrap()),
        http.post(&url).key_header("a b"),
        http.post(&url).keep_header(""),
        http.post(&url).json(&odd_key),
    ];
    for request in requests {
        let shown = format!("{request:?}");
        assert_eq!(learn(&cx(), |call| request.send(call)).await, Learnt::Refused("http-request".into()), "{shown}");
    }
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn errors_show_neither_urls_nor_secrets() {
    let server = Server::start(|_, request| match request {
        request if request.contains("/closes") => Answer::Closes,
        request => reply("400 Bad", &format!("{} {request}", "x".repeat(150))),
    });
    let server = server.await;
    let token = Secret::new("token", "t-0123456789".to_owned()).unwrap();
    let (host, gone) = (server.url("").replace("http://", ""), Server::start(|_, _| Answer::Closes).await);
    let nobody = gone.url("").replace("http://", "");
    drop(gone);
    let hidden = "user:hidden-word";
    for url in [
        format!("http://{hidden}@{host}/hidden-path?k=hidden-query#hidden"),
        format!("http://{hidden}@{host}/closes/hidden-path?k=hidden-query"),
        format!("http://{hidden}@{nobody}/hidden-path?k=hidden-query"),
        format!("https://{hidden}@{host}/hidden-path?k=hidden-query"),
        format!("http://{hidden}@[/hidden-path?k=hidden-query"),
    ] {
        let request = http().request(Method::POST, &url).bearer(&token);
        assert!(!format!("{request:?}").contains("t-0123456789"), "{request:?}");
        let error = call(&cx(), UNHURRIED, |call| request.send(call)).await.unwrap_err().to_string();
        // What the server itself says of the request is its own, but for secrets.
        let ours = error.split("(Bad Request)").next().unwrap();
        assert!(!ours.contains("hidden"), "{error}");
        assert!(!error.contains("t-01234"), "{error}");
    }
    // Quoted up to a place within the secret.
    let request = http().get(server.url("/a")).bearer(&token);
    let error = call(&cx(), UNHURRIED, |call| request.send(call)).await.unwrap_err().to_string();
    assert!(error.contains("http://127.0.0.1") && error.contains("400 (Bad Request): xxx"), "{error}");
}

#[tokio::test]
async fn words_that_do_not_come_do_not_change_what_the_status_says() {
    let head = "HTTP/1.1 422 No\r\nContent-Length: 100\r\n\r\nthe order";
    let server = Server::start(move |_, _| Answer::Stalls(head)).await;
    let request = http().post(server.url("/"));
    let begun = Instant::now();
    let error = call(&cx(), Duration::from_secs(1), |call| request.send(call)).await.unwrap_err();
    assert_eq!(Learnt::from(&error), Learnt::Refused("http-422".into()));
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn the_attempt_after_a_lost_answer_is_deduped_by_its_key() {
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    let acts = Mutex::new(BTreeSet::new());
    let server = Server::start(move |number, request| {
        let key = server::header(request, "payment-key").unwrap().to_owned();
        let acted = acts.lock().unwrap().insert(key);
        if number == 0 { Answer::Closes } else { reply("200 OK", &json!({ "acted": acted }).to_string()) }
    });
    let (server, http) = (server.await, http());
    let pay = || http.post(server.url("/pay")).key_header("Payment-Key").json(&json!({"cents": 500}));
    let first = attempt(Vec::new());
    let paid = first.effect("pay").key("order-7").idempotent().call(|call| pay().send_for_json::<Value>(call)).await;
    assert!(matches!(paid, Err(EffectError::Unknown { .. })));

    let second = attempt(first.recorded().journal);
    let paid = second.effect("pay").key("order-7").idempotent().call(|call| pay().send_for_json::<Value>(call)).await;
    assert_eq!(paid.unwrap().body, json!({"acted": false}));
    // Recorded: the third attempt asks nobody.
    let third = attempt(second.recorded().journal);
    let paid = third.effect("pay").key("order-7").idempotent().call(|call| pay().send_for_json::<Value>(call)).await;
    assert_eq!(paid.unwrap().body, json!({"acted": false}));
    assert_eq!(server.requests().len(), 2);
}
