//! A run's page: where it stands, what it knew, what has happened, and what can be done about it.

use serde_json::json;

use crate::bed::Bed;
use crate::visit::{ANN, app, get_as, has, has_not, is_page};

#[tokio::test]
async fn each_status_says_what_it_waits_for_and_what_helps() {
    let bed = Bed::new();
    let app = app(&bed);
    let waiting = bed.waiting("What is it?").await;
    let page = get_as(&app, ANN, &format!("/runs/{waiting}")).await;
    is_page(&page);
    has(
        &page,
        &[
            "the signal <code><bdi>answer</bdi></code>, until <time",
            "/signals\"",
            "/pause\"",
            "/cancel\"",
            "What is it?",
        ],
    );
    has_not(&page, &["/resume\"", "/retry\"", "/discard\""]);

    bed.signal(&waiting, "forty-two").await;
    let page = get_as(&app, ANN, &format!("/runs/{waiting}")).await;
    has(&page, &["Result", "forty-two", "data-says=\"Run", "is completed\""]);
    has_not(&page, &["data-path=\"/v1/runs"]);

    let failed = bed.answered("Why?", "fail").await;
    let page = get_as(&app, ANN, &format!("/runs/{failed}")).await;
    has(&page, &["It has failed: ", "no answer to Why?", "<bdi>closed</bdi>", "/retry\"", "/edit\"", "/move\""]);

    let stuck = bed.answered("?", "turn").await;
    let page = get_as(&app, ANN, &format!("/runs/{stuck}")).await;
    has(
        &page,
        &["step-limit", "What would help", "/resume\"", "/edit\"", "/move\"", "/discard\"", "data-goes=\"replace\""],
    );
    let revision = bed.client.get(&stuck).await.unwrap().progress.revision.0;
    has(&page, &[&format!("data-if-match=\"&quot;{revision}&quot;\"")]);
}

#[tokio::test]
async fn effects_approvals_budget_and_the_end_are_told() {
    let bed = Bed::new();
    let app = app(&bed);
    let paid = bed.asking("a broken cup").await;
    bed.decide(&paid, true, "it was broken").await;
    let page = get_as(&app, ANN, &format!("/runs/{paid}")).await;
    is_page(&page);
    has(
        &page,
        &["paid ", "Approvals that were decided", "it was broken", "key:fay", "costs 90000 <bdi>cents</bdi>", "100000"],
    );
    has(&page, &["under approval <code>", "Cost on AWS, estimated", "US$ "]);

    let cancelled = bed.asking("a note").await;
    bed.client.cancel(&cancelled, "key:ann", Some("the customer has called".into())).await.unwrap();
    bed.work().await;
    let page = get_as(&app, ANN, &format!("/runs/{cancelled}")).await;
    has(&page, &["Certificate of its end", "Taken back", "reserve", "the customer has called"]);

    let unknown = bed.unknown("ann").await;
    let page = get_as(&app, ANN, &format!("/runs/{unknown}")).await;
    has(&page, &["Effects that may have happened", "the line broke for ann", "/resolve\"", "href=\"#unknowns\""]);
}

#[tokio::test]
async fn the_state_at_a_step_is_shown_with_what_has_changed() {
    let bed = Bed::new();
    let app = app(&bed);
    let run = bed.start("adder", json!([5, 7, 11])).await;
    let page = get_as(&app, ANN, &format!("/runs/{run}?at=2")).await;
    is_page(&page);
    has(&page, &["As it was after revision 2 of 4", "&quot;sum&quot;: 12", "What revision 2 has changed"]);
    has(
        &page,
        &[
            "<code><bdi>/sum</bdi></code></th><td class=\"before\"><code class=\"json\"><bdi>5</bdi></code></td><td class=\"after\"><code class=\"json\"><bdi>12</bdi>",
        ],
    );
    has(&page, &["?at=1#state\">One step back", "?at=3#state\">One step on"]);
}

#[tokio::test]
async fn a_state_that_was_not_kept_is_told_plainly() {
    let bed = Bed::new();
    let app = app(&bed);
    let run = bed.answered("?", "yes").await;
    for at in [0, 99] {
        let page = get_as(&app, ANN, &format!("/runs/{run}?at={at}")).await;
        is_page(&page);
        has(&page, &[&format!("The state after revision {at} is not there"), "KEEPS_STATES"]);
    }
}

#[tokio::test]
async fn a_long_history_is_shown_a_page_at_a_time() {
    let bed = Bed::new();
    let app = app(&bed);
    let run = bed.start("adder", json!((0..500).collect::<Vec<u32>>())).await;
    let newest = get_as(&app, ANN, &format!("/runs/{run}")).await;
    is_page(&newest);
    assert_eq!(newest.body.matches("<tr id=\"revision-").count(), 200);
    has(&newest, &["Commits 302 to 501", "?before=302#history\">Older entries", "<svg class=\"chart\""]);
    has_not(&newest, &["Newest entries"]);
    assert!(newest.body.len() < 300_000, "{}", newest.body.len());
    let older = get_as(&app, ANN, &format!("/runs/{run}?before=302")).await;
    has(&older, &["Commits 102 to 301", "Newest entries", "?before=102#history"]);
    let oldest = get_as(&app, ANN, &format!("/runs/{run}?before=102")).await;
    has(&oldest, &["Commits 1 to 101"]);
    has_not(&oldest, &["Older entries"]);
}
