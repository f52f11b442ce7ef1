//! What is not there, cannot be read, or is none of a stranger's business: a page that says so, and nothing else.

use axum::body::Body;
use axum::http::{Request, StatusCode};

use crate::bed::Bed;
use crate::visit::{ANN, app, ask, get_as, has, is_html};

#[tokio::test]
async fn a_stranger_is_sent_to_the_login_whatever_they_ask_for() {
    let bed = Bed::new();
    let app = app(&bed);
    let run = bed.waiting("secret").await;
    for path in ["/", "/runs", &format!("/runs/{run}"), "/runs/nope", "/approvals", "/dashboard", "/nope"] {
        let sent = ask(&app, Request::get(path).body(Body::empty()).unwrap()).await;
        assert_eq!(sent.status, StatusCode::SEE_OTHER, "{path}");
        assert!(sent.headers["location"].to_str().unwrap().starts_with("/login"), "{path}");
        assert!(!sent.body.contains("secret"));
    }
}

#[tokio::test]
async fn what_is_not_there_is_a_page_that_leads_on() {
    let bed = Bed::new();
    let run = bed.waiting("?").await;
    let app = app(&bed);
    let cases = [
        ("/nope".to_owned(), "No such page"),
        (format!("/runs/{run}/nope"), "No such page"),
        ("/runs/not%20an%20id".to_owned(), "No such page"),
        ("/runs/%3Cscript%3E".to_owned(), "No such page"),
        ("/runs/%ff".to_owned(), "No such page"),
        ("/runs/nobody".to_owned(), "No such run"),
    ];
    for (path, words) in cases {
        let page = get_as(&app, ANN, &path).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        is_html(&page);
        has(&page, &[words, "href=\"/runs\""]);
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_told() {
    let bed = Bed::new();
    let run = bed.waiting("?").await;
    let app = app(&bed);
    let cases = [
        (format!("/runs/{run}?at=x"), "at: "),
        (format!("/runs/{run}?at=-1"), "at: "),
        (format!("/runs/{run}?at=99999999999999999999"), "at: "),
        (format!("/runs/{run}?before=%3Cscript%3E"), "before: "),
        ("/runs?status=nope".into(), "There is no status"),
        ("/runs?status=cancelling".into(), "There is no status"),
        ("/runs?from=yesterday".into(), "from: "),
        ("/runs?workflow=a%20b".into(), "workflow name"),
        ("/runs?after=nope".into(), "begin with the first"),
        ("/runs?run=%3Cscript%3E".into(), "copy the id"),
        ("/runs?status=failed&status=parked".into(), "status"),
        ("/approvals?after=nope".into(), "begin with the first"),
        ("/approvals?after=waiting:nope".into(), "begin with the first"),
        ("/unknowns?after=completed:".into(), "begin with the first"),
        ("/parked?after=waiting:".into(), "begin with the first"),
    ];
    for (path, words) in cases {
        let page = get_as(&app, ANN, &path).await;
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{path}: {}", page.body);
        is_html(&page);
        has(&page, &[words]);
        assert!(!page.body.contains("<script>"), "{path}");
    }
}

#[tokio::test]
async fn pages_take_no_act() {
    let bed = Bed::new();
    let run = bed.waiting("?").await;
    let app = app(&bed);
    for path in ["/runs", &format!("/runs/{run}"), "/start", "/login"] {
        let sent = Request::post(path).header("x-api-key", ANN).body(Body::empty()).unwrap();
        assert_eq!(ask(&app, sent).await.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
    }
}
