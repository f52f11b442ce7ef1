//! What a run's state refers to can be read beside it.

use serde_json::json;
use stepwell_core::{BlobRef, RunId};

use crate::bed::Bed;
use crate::visit::{ANN, SAM, app, get_as, has, has_not, is_page};

/// A run whose state refers to these texts.
async fn written(bed: &Bed, texts: &[&str]) -> RunId {
    bed.start("scribe", json!([texts, null])).await
}

/// The blob that a text has become.
fn blob(run: &RunId, text: &str) -> BlobRef {
    BlobRef::of(run, json!(text).to_string().as_bytes())
}

#[tokio::test]
async fn a_draft_is_read_beside_the_state_as_it_is_now() {
    let bed = Bed::new();
    let app = app(&bed);
    let run = written(&bed, &["First,\nthe draft.", "Second."]).await;
    let page = get_as(&app, ANN, &format!("/runs/{run}")).await;
    is_page(&page);
    has(
        &page,
        &[
            "<h3 id=\"contents\">What it refers to</h3>",
            "<details id=\"content-0\" open><summary><code><bdi>/blobs/0</bdi></code></summary><pre><bdi>First,\nthe draft.</bdi></pre>",
            "<details id=\"content-1\"><summary><code><bdi>/blobs/1</bdi></code></summary><pre><bdi>Second.</bdi></pre>",
        ],
    );
    let revision = bed.client.get(&run).await.unwrap().progress.revision.0;
    let then = get_as(&app, ANN, &format!("/runs/{run}?at={revision}")).await;
    is_page(&then);
    has(&then, &["As it is now, after revision", "&quot;blobs&quot;"]);
    has_not(&then, &["id=\"contents\"", "the draft."]);
    has_not(&get_as(&app, SAM, &format!("/runs/{run}")).await, &["the draft."]);
}

#[tokio::test]
async fn a_text_cannot_pass_for_the_page_or_read_otherwise_than_it_is() {
    let bed = Bed::new();
    let run = written(&bed, &["</pre><script>alert(1)</script>\u{202e}no\u{200b}"]).await;
    let page = get_as(&app(&bed), ANN, &format!("/runs/{run}")).await;
    is_page(&page);
    has(
        &page,
        &[
            r#"<pre><bdi>&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;<span class="unseen">\u{202e}</span>no<span class="unseen">\u{200b}</span></bdi>"#,
        ],
    );
    has_not(&page, &["<script>alert", "\u{202e}", "\u{200b}"]);
}

#[tokio::test]
async fn no_more_is_read_than_a_page_can_hold() {
    let bed = Bed::new();
    let app = app(&bed);
    // With its quotes a text has two bytes more.
    let (whole, large) = ("w".repeat(64 * 1024 - 2), "l".repeat(64 * 1024 - 1));
    let few: Vec<_> = (0..10).map(|number| format!("text {number}.")).collect();
    let texts: Vec<_> = [&whole, &large].into_iter().chain(&few).map(String::as_str).collect();
    let run = written(&bed, &texts).await;
    let page = get_as(&app, ANN, &format!("/runs/{run}")).await;
    is_page(&page);
    has(&page, &[&whole, "It has 65537 bytes: too large for a page.", "text 7.", "2 more are not shown."]);
    has_not(&page, &["llll", "text 8.", "text 9."]);
}

#[tokio::test]
async fn what_is_not_there_or_belongs_to_another_run_is_not_shown() {
    let bed = Bed::new();
    let app = app(&bed);
    let (lost, other) = (written(&bed, &["gone"]).await, written(&bed, &["of another run"]).await);
    bed.memory.damage(&blob(&lost, "gone"), None);
    let page = get_as(&app, ANN, &format!("/runs/{lost}")).await;
    is_page(&page);
    has(&page, &["It cannot be shown: it is missing or was altered; a person has to look."]);
    // The state has the reference itself: no more than it may be told.
    let key = blob(&lost, "gone").key;
    assert_eq!(page.body.split("id=\"contents\"").nth(1).unwrap().split("</details>").next().unwrap().find(&key), None);

    let sent = json!({"foreign": blob(&other, "of another run"), "log": {"log": 0, "len": 3}});
    let run = bed.start("scribe", json!([[], sent])).await;
    let page = get_as(&app, ANN, &format!("/runs/{run}")).await;
    is_page(&page);
    has(
        &page,
        &["/sent/foreign", "It cannot be shown: it is no blob of this run.", "Its logs (1) are not shown here."],
    );
    has_not(&page, &["of another run</bdi>"]);
}
