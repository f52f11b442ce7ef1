//! The pages beside the run's: each is whole, shows what is there to whom may see it, and is sent once.

use axum::body::Body;
use axum::http::{Request, StatusCode};

use crate::bed::Bed;
use crate::visit::{ANN, EVE, SAM, app, ask, get_as, has, has_not, is_page};

const PAGES: [&str; 6] = ["/runs", "/approvals", "/unknowns", "/parked", "/dashboard", "/start"];

/// Text that must stay text.
const HOSTILE: &str = "</pre><script>alert(1)</script>\u{202e}\0\" onload=\"x";

/// One run of each kind, with hostile text wherever a workflow lets it in.
async fn furnished() -> Bed {
    let bed = Bed::new();
    bed.answered(HOSTILE, "fail").await;
    bed.answered("?", "turn").await;
    bed.answered("?", HOSTILE).await;
    bed.waiting(HOSTILE).await;
    bed.asking(HOSTILE).await;
    let stuck = bed.asking("stuck").await;
    bed.decide(&stuck, false, HOSTILE).await;
    bed.unknown(HOSTILE).await;
    bed
}

#[tokio::test]
async fn every_page_is_whole_and_what_comes_from_outside_is_text() {
    let bed = furnished().await;
    let app = app(&bed);
    let mut paths: Vec<String> = PAGES.map(str::to_owned).to_vec();
    let listed = get_as(&app, ANN, "/runs").await;
    let runs = listed.body.split("href=\"/runs/").skip(1).map(|rest| rest.split('"').next().unwrap());
    paths.extend(runs.map(|run| format!("/runs/{run}")));
    assert_eq!(paths.len(), PAGES.len() + 7);
    for path in paths {
        for key in [ANN, EVE] {
            let page = get_as(&app, key, &path).await;
            is_page(&page);
            has_not(&page, &["<script>", "\u{202e}", "\0", "onload=\"x\""]);
        }
    }
}

#[tokio::test]
async fn what_waits_for_a_person_is_counted_and_shown() {
    let bed = furnished().await;
    let app = app(&bed);
    let page = get_as(&app, ANN, "/approvals").await;
    has(
        &page,
        &["Approvals <span class=\"count\">1<", "Unknowns <span class=\"count\">1<", "Parked <span class=\"count\">3<"],
    );
    has(
        &page,
        &[
            "With these parameters",
            "\"cents\": 90000".replace('"', "&quot;").as_str(),
            "anybody with the role <bdi>finance</bdi>",
            "value=\"approve\"",
        ],
    );
    has(&page, &["\\u202e", "\\u0000"]);
    let page = get_as(&app, ANN, "/unknowns").await;
    has(&page, &["the line broke for", "value=\"sign-off\"", "The run stands still until somebody says"]);
    let page = get_as(&app, ANN, "/parked").await;
    has(&page, &["unknown-outcome", "step-limit", "<code>undo</code>", "/let-stand\"", "Failed last", "/retry\""]);
}

#[tokio::test]
async fn a_page_of_approvals_stays_small_and_what_is_left_out_is_decided_elsewhere() {
    let bed = Bed::new();
    let large = "x".repeat(1_500_000);
    let runs = [bed.asking(&large).await, bed.asking(&large).await];
    let app = app(&bed);
    let page = get_as(&app, ANN, "/approvals").await;
    is_page(&page);
    assert!(page.body.len() < 3_000_000, "{}", page.body.len());
    assert_eq!(page.body.matches("value=\"approve\"").count(), 1, "the other is not shown");
    assert_eq!(page.body.matches("so it is not decided here").count(), 1);
    for run in runs {
        has(&get_as(&app, ANN, &format!("/runs/{run}")).await, &["value=\"approve\""]);
    }
}

#[tokio::test]
async fn the_dashboard_is_counted_once_and_says_when() {
    let bed = Bed::new();
    bed.waiting("?").await;
    let app = app(&bed);
    let first = get_as(&app, ANN, "/dashboard").await;
    has(&first, &["(under 1 min ago)</span>, once a minute at most", "Counted among the 1 newest runs"]);
    bed.waiting("?").await;
    has(&get_as(&app, ANN, "/dashboard").await, &["Counted among the 1 newest runs"]);
    // It is kept for everybody, and shows nobody what they may not see.
    bed.asking("a note").await;
    let other = crate::visit::app(&bed);
    has(&get_as(&other, ANN, "/dashboard").await, &["Counted among the 3 newest runs"]);
    has(&get_as(&other, SAM, "/dashboard").await, &["Counted among the 2 newest runs"]);
}

#[tokio::test]
async fn who_may_look_alone_is_offered_no_act() {
    let bed = furnished().await;
    let app = app(&bed);
    for path in PAGES {
        let page = get_as(&app, EVE, path).await;
        has_not(&page, &["data-path=\"/v1/runs"]);
    }
    has(&get_as(&app, EVE, "/start").await, &["Your roles do not let you start runs"]);
}

#[tokio::test]
async fn who_sees_one_workflow_sees_nothing_of_others() {
    let bed = furnished().await;
    let app = app(&bed);
    let cashier = bed.asking("a note").await;
    for path in PAGES {
        let page = get_as(&app, SAM, path).await;
        is_page(&page);
        has_not(&page, &["cashier", ">till<", "the line broke", "refund"]);
    }
    let page = get_as(&app, SAM, "/runs").await;
    has(&page, &["desk", "Parked <span class=\"count\">1<"]);
    let page = get_as(&app, SAM, &format!("/runs/{cashier}")).await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
    has_not(&page, &["cashier", "90000"]);
}

#[tokio::test]
async fn runs_are_found_by_workflow_status_time_and_id() {
    let bed = furnished().await;
    let app = app(&bed);
    let ids = async |query: &str| {
        let page = get_as(&app, ANN, &format!("/runs{query}")).await;
        is_page(&page);
        page.body.matches("<tr id=\"run-").count()
    };
    assert_eq!(ids("?workflow=desk").await, 4);
    assert_eq!(ids("?workflow=desk&status=parked").await, 1);
    assert_eq!(ids("?from=2026-01-01T00:00&before=&status=").await, 7);
    assert_eq!(ids("?before=2026-01-01T00:00").await, 0);
    assert_eq!(ids("?workflow=nobody").await, 0);
    let to = get_as(&app, ANN, "/runs?run=%20r1%20").await;
    assert_eq!((to.status, &to.headers["location"]), (StatusCode::SEE_OTHER, &"/runs/r1".parse().unwrap()));
}

#[tokio::test]
async fn a_long_list_goes_on() {
    let bed = Bed::new();
    for _ in 0..55 {
        bed.start("adder", serde_json::json!([])).await;
    }
    let app = app(&bed);
    let first = get_as(&app, ANN, "/runs?workflow=adder").await;
    assert_eq!(first.body.matches("<tr id=\"run-").count(), 50);
    let next = first.body.split("rel=\"next\"").next().unwrap().rsplit("href=\"").next().unwrap();
    let next = next.trim_end_matches(['"', ' ']).replace("&amp;", "&");
    let second = get_as(&app, ANN, &next).await;
    assert_eq!(second.body.matches("<tr id=\"run-").count(), 5);
    has_not(&second, &["Older runs"]);
}

#[tokio::test]
async fn a_page_that_has_not_changed_is_not_sent_again() {
    let bed = furnished().await;
    let app = app(&bed);
    let first = get_as(&app, ANN, "/runs?status=completed").await;
    let tag = first.headers["etag"].clone();
    let again = async |key: &str| {
        let request = Request::get("/runs?status=completed").header("x-api-key", key).header("if-none-match", &tag);
        ask(&app, request.body(Body::empty()).unwrap()).await
    };
    let same = again(ANN).await;
    assert_eq!((same.status, same.body.len()), (StatusCode::NOT_MODIFIED, 0));
    // Another person's page is another.
    assert_eq!(again(EVE).await.status, StatusCode::OK);
    bed.answered("?", "yes").await;
    assert_eq!(again(ANN).await.status, StatusCode::OK);
}

#[tokio::test]
async fn assets_are_kept_for_ever_and_open_to_all() {
    let bed = Bed::new();
    let app = app(&bed);
    let login = ask(&app, Request::get("/login?next=/runs").body(Body::empty()).unwrap()).await;
    is_page(&login);
    has(&login, &["name=\"next\" value=\"/runs\""]);
    let mut kinds = Vec::new();
    for url in login.body.split('"').filter(|part| part.starts_with("/assets/")) {
        let asset = ask(&app, Request::get(url).body(Body::empty()).unwrap()).await;
        assert_eq!(asset.status, StatusCode::OK, "{url}");
        assert_eq!(asset.headers["cache-control"], "public, max-age=31536000, immutable");
        assert_eq!(asset.headers["x-content-type-options"], "nosniff");
        kinds.push(asset.headers["content-type"].to_str().unwrap().to_owned());
    }
    assert_eq!(kinds, ["image/svg+xml", "text/css; charset=utf-8", "text/javascript; charset=utf-8"]);
    let gone = ask(&app, Request::get("/assets/console-0000.js").body(Body::empty()).unwrap()).await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
    assert_ne!(gone.headers["cache-control"], "public, max-age=31536000, immutable");
}
