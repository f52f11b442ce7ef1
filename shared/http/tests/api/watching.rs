//! What a caller knows is not sent again, and who waits is told as soon as something has changed.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use stepwell_http::Site;
use tokio::time::{Instant, sleep};

use crate::bed::{Answer, Bed, KEY, id_of, request, start};
use crate::cashier::{access, asking};

async fn get_known(bed: &Bed, path: &str, tags: &str) -> Answer {
    bed.send(request(Method::GET, path).header("if-none-match", tags).body(Body::empty()).unwrap()).await
}

fn tag(answer: &Answer) -> String {
    answer.headers["etag"].to_str().unwrap().to_owned()
}

fn revision(tag: &str) -> u64 {
    tag.trim_matches('"').split('.').next().unwrap().parse().unwrap()
}

async fn signal(bed: &Bed, path: &str, answer: &str) {
    let sent = bed.post_json(&format!("{path}/signals"), &json!({"name": "answer", "payload": answer})).await;
    assert_eq!(sent.status, StatusCode::ACCEPTED, "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_is_sent_again_only_when_it_stands_otherwise() {
    let bed = Bed::new();
    let path = bed.waiting().await;
    let first = tag(&bed.get(&path).await);
    for known in [first.clone(), format!("W/{first}"), format!("\"other\", {first}"), "*".into()] {
        let same = get_known(&bed, &path, &known).await;
        assert_eq!(
            (same.status, tag(&same), same.body),
            (StatusCode::NOT_MODIFIED, first.clone(), Value::Null),
            "{known}"
        );
    }
    for unknown in ["\"other\"", "nonsense", "", &first[1..], &first.to_uppercase().replace('.', ";")] {
        let shown = get_known(&bed, &path, unknown).await;
        assert_eq!((shown.status, tag(&shown)), (StatusCode::OK, first.clone()), "{unknown}");
    }
    signal(&bed, &path, "yes").await;
    let second = get_known(&bed, &path, &first).await;
    assert_eq!((second.status, &second.body["signals"][0]["payload"]), (StatusCode::OK, &json!("yes")));
    assert_eq!(revision(&tag(&second)), revision(&first), "a signal is no commit");
    bed.post_json(&format!("{path}/cancel"), &json!({})).await;
    let third = get_known(&bed, &path, &tag(&second)).await;
    assert_eq!((third.status, &third.body["status"]), (StatusCode::OK, &json!("cancelling")));
    bed.settle().await;
    let last = get_known(&bed, &path, &tag(&third)).await;
    assert_eq!((last.status, &last.body["status"]), (StatusCode::OK, &json!("cancelled")));
    assert!(revision(&tag(&last)) > revision(&first));
}

#[tokio::test(start_paused = true)]
async fn lists_are_sent_again_only_when_they_have_changed() {
    let bed = Bed::with(access());
    let (path, _) = asking(&bed, "a note", 1).await;
    bed.unknown(&["ann"]).await;
    let lists = [
        "/v1/runs",
        "/v1/approvals",
        "/v1/unknowns",
        "/v1/workflows",
        &format!("{path}/history"),
        &format!("{path}/approvals"),
    ];
    let mut before = Vec::new();
    for list in lists {
        let first = bed.get(list).await;
        let again = get_known(&bed, list, &tag(&first)).await;
        assert_eq!(
            (again.status, tag(&again), again.body),
            (StatusCode::NOT_MODIFIED, tag(&first), Value::Null),
            "{list}"
        );
        before.push(tag(&first));
    }
    asking(&bed, "another", 1).await;
    bed.unknown(&["bob"]).await;
    bed.post_json(&format!("{path}/cancel"), &json!({})).await;
    bed.settle().await;
    for (list, known) in lists.iter().zip(before) {
        let now = get_known(&bed, list, &known).await;
        let expected = if *list == "/v1/workflows" { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
        assert_eq!(now.status, expected, "{list}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_answered_when_something_has_changed() {
    let bed = Bed::new();
    let path = bed.waiting().await;
    let known = tag(&bed.get(&path).await);
    let (begun, asked) = (Instant::now(), bed.gate.total());
    let waiting = format!("{path}?wait=20");
    let (answer, ()) = tokio::join!(get_known(&bed, &waiting, &known), async {
        sleep(Duration::from_secs(3)).await;
        signal(&bed, &path, "yes").await;
    });
    assert_eq!((answer.status, &answer.body["signals"][0]["payload"]), (StatusCode::OK, &json!("yes")));
    let took = begun.elapsed();
    assert!((Duration::from_secs(3)..=Duration::from_secs(4)).contains(&took), "{took:?}");
    assert!(bed.gate.total() - asked < 12, "{} reads", bed.gate.total() - asked);
}

#[tokio::test(start_paused = true)]
async fn who_waits_in_vain_is_told_so_in_time() {
    let bed = Bed::new();
    let path = bed.waiting().await;
    let known = tag(&bed.get(&path).await);
    for wait in [1, 20] {
        let (begun, asked) = (Instant::now(), bed.gate.total());
        let answer = get_known(&bed, &format!("{path}?wait={wait}"), &known).await;
        assert_eq!((answer.status, begun.elapsed()), (StatusCode::NOT_MODIFIED, Duration::from_secs(wait)));
        assert!(bed.gate.total() - asked <= 3 + wait);
    }
    // Who knows nothing need not wait, and neither does who asks for what is not there.
    let begun = Instant::now();
    assert_eq!(bed.get(&format!("{path}?wait=20")).await.status, StatusCode::OK);
    get_known(&bed, "/v1/runs/r1?wait=20", &known).await.is_problem(404, "no-such-run");
    for wrong in
        ["wait=0", "wait=21", "wait=-1", "wait=", "wait=x", "wait=1&wait=1", "wait=99999999999999999999", "for=1"]
    {
        let answer = get_known(&bed, &format!("{path}?{wrong}"), &known).await;
        answer.is_problem(400, "bad-query");
        answer.says(&wrong[..3]);
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

/// Starts a run, and waits so long for its end while something else is done.
async fn start_and_wait(bed: &Bed, wait: u64, meanwhile: impl Future<Output = ()>) -> Answer {
    let request = request(Method::POST, &format!("/v1/runs?wait={wait}")).header("content-type", "application/json");
    let request = request.header("idempotency-key", "k").body(Body::from(start("?", 2).to_string())).unwrap();
    tokio::join!(bed.send(request), meanwhile).0
}

#[tokio::test(start_paused = true)]
async fn a_start_waits_for_the_end_as_long_as_it_is_told() {
    let bed = Bed::new();
    let begun = Instant::now();
    let early = start_and_wait(&bed, 5, async {
        sleep(Duration::from_secs(1)).await;
        bed.work(Duration::ZERO).await;
    })
    .await;
    assert_eq!((early.status, begun.elapsed()), (StatusCode::ACCEPTED, Duration::from_secs(5)), "{early:?}");
    assert_eq!((&early.body["new"], &early.body["stands"]["status"]), (&json!(true), &json!("waiting")));
    let path = early.headers["location"].to_str().unwrap().to_owned();
    let ended = start_and_wait(&bed, 5, async {
        sleep(Duration::from_secs(1)).await;
        signal(&bed, &path, "yes").await;
        bed.work(Duration::ZERO).await;
    })
    .await;
    assert_eq!((ended.status, &ended.body["new"]), (StatusCode::OK, &json!(false)), "{ended:?}");
    assert_eq!(ended.body["stands"]["detail"], json!({"completed": {"output": "yesyes"}}));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!((bed.started().await, ended.body["run"].as_str()), (1, Some(id_of(&path).as_str())));

    let bed = Bed::new();
    let whole = start_and_wait(&bed, 20, async {
        sleep(Duration::from_secs(1)).await;
        bed.work(Duration::ZERO).await;
        let run = bed.get("/v1/runs").await.body["runs"][0]["run"].take();
        signal(&bed, &format!("/v1/runs/{}", run.as_str().unwrap()), "no").await;
        bed.work(Duration::ZERO).await;
    })
    .await;
    assert_eq!(
        (whole.status, &whole.body["stands"]["status"]),
        (StatusCode::CREATED, &json!("completed")),
        "{whole:?}"
    );
    for wrong in ["wait=0", "wait=21", "wait=x", "for=1"] {
        bed.post_json(&format!("/v1/runs?{wrong}"), &start("?", 1)).await.is_problem(400, "bad-query");
    }
    assert_eq!(bed.started().await, 1);
}

/// The events of a run until its stream ends: each one's name, id and data.
async fn follow(bed: &Bed, path: &str, last: Option<&str>) -> (StatusCode, Vec<(String, String, Value)>, usize) {
    let mut request = Request::get(format!("{path}/events")).header("x-api-key", KEY);
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let response = bed.respond(request.body(Body::empty()).unwrap()).await;
    let status = response.status();
    if status == StatusCode::OK {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-cache");
    }
    let text = String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap();
    let (mut events, mut comments) = (Vec::new(), 0);
    for block in text.split("\n\n").filter(|block| !block.is_empty()) {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        match field("event") {
            Some(event) => {
                let data = serde_json::from_str(field("data").unwrap()).unwrap();
                events.push((event.to_owned(), field("id").unwrap().to_owned(), data));
            }
            None => comments += 1,
        }
    }
    (status, events, comments)
}

#[tokio::test(start_paused = true)]
async fn a_run_is_followed_until_it_has_ended() {
    let bed = Bed::new();
    let path = bed.waiting().await;
    let ((status, events, comments), ()) = tokio::join!(follow(&bed, &path, None), async {
        sleep(Duration::from_secs(40)).await;
        signal(&bed, &path, "<script>\n\ndata: x").await;
        sleep(Duration::from_secs(5)).await;
        bed.work(Duration::ZERO).await;
    });
    assert_eq!(status, StatusCode::OK);
    assert!(events.iter().all(|(event, _, data)| event == "run" && data["run"] == id_of(&path).as_str()), "{events:?}");
    let told: Vec<&str> = events.iter().map(|(_, _, data)| data["status"].as_str().unwrap()).collect();
    assert_eq!(told, ["waiting", "waiting", "completed"]);
    assert_eq!(events[1].2["signals"][0]["payload"], "<script>\n\ndata: x");
    assert!((2..=4).contains(&comments), "{comments} signs of life in forty seconds");
    let shown = bed.get(&path).await;
    assert_eq!((format!("\"{}\"", events[2].1), &events[2].2), (tag(&shown), &shown.body));

    // Who has been told everything is not told again, and does not come back.
    let (last, before) = (&events[2].1, &events[1].1);
    assert_eq!(follow(&bed, &path, Some(last)).await.0, StatusCode::NO_CONTENT);
    assert_eq!(follow(&bed, &path, Some(before)).await.1, [events[2].clone()]);
    assert_eq!(follow(&bed, &path, None).await.1, [events[2].clone()]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_not_for_ever_and_tells_nothing_twice() {
    let bed = Bed::new();
    let path = bed.waiting().await;
    let begun = Instant::now();
    let (_, events, comments) = follow(&bed, &path, None).await;
    assert_eq!((events.len(), begun.elapsed()), (1, Duration::from_mins(15)));
    assert!(comments > 50, "{comments}");
    let (status, events, _) = follow(&bed, &path, Some(&events[0].1)).await;
    assert_eq!((status, events), (StatusCode::OK, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn where_nothing_streams_that_is_said() {
    let mut bed = Bed::new();
    let path = bed.waiting().await;
    bed.get("/v1/runs/r1/events").await.is_problem(404, "no-such-run");
    bed.host(Site::default());
    let answer = bed.get(&format!("{path}/events")).await;
    answer.is_problem(406, "no-stream");
    answer.says("If-None-Match");
}
