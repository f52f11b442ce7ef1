//! Where a page of a list or of a history begins.

use std::cell::LazyCell;
use std::future::Future;
use std::str;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::json;
use stepwell_core::write::{Start, Write, WriteRequest};
use stepwell_core::{Digest, Json, Payload, Phase, Revision, RunId, Timestamp, WorkflowName, WriteId};
use stepwell_engine::StartRequest;
use stepwell_local::{Local, Options};
use stepwell_ports::{CheckpointStore, ListQuery, Page, StoreError};
use stepwell_testkit::ManualClock;
use tempfile::TempDir;
use tower::ServiceExt as _;

use crate::world::{PORT, World, escaped};

/// Runs that there are, at two of each time.
const RUNS: u64 = 9;

/// The same runs in both backends, and one that has a history.
struct Lists {
    world: World,
    local: Local,
    run: RunId,
    // Dropped last.
    _dir: TempDir,
}

thread_local! {
    static LISTS: LazyCell<Lists> = LazyCell::new(Lists::new);
}

/// Pages put together are the whole, from every backend; a `next` that no page has given is refused, or begins somewhere in the list.
///
/// The first bytes say which list, with which conditions and pages of which size; the others are a `next`, or none.
pub fn pages(bytes: &[u8]) {
    let Some((&[what, limit, workflow, phase, from, before, change], rest)) = bytes.split_first_chunk::<7>() else {
        return;
    };
    let Ok(token) = str::from_utf8(rest) else { return };
    let query = ListQuery {
        workflow: [None, Some("even"), Some("odd"), Some("none")][usize::from(workflow % 4)].map(named),
        phase: [None, Some(Phase::Created), Some(Phase::Parked)][usize::from(phase % 3)],
        started_from: (from < 8).then(|| Timestamp(u64::from(from))),
        started_before: (before < 8).then(|| Timestamp(u64::from(before))),
        limit: usize::from(limit % 12),
        after: (!token.is_empty()).then(|| token.to_owned()),
    };
    LISTS.with(|lists| {
        lists.world.runtime.block_on(async {
            match what % 4 {
                0 => lists.list(&query, change).await,
                1 => lists.due(&query, change).await,
                2 => lists.asked(token).await,
                _ => lists.history(from, before, query.limit).await,
            }
        });
    });
}

impl Lists {
    fn new() -> Self {
        let (world, dir) = (World::new(), tempfile::tempdir().unwrap());
        let clock = Arc::new(ManualClock::starting_at(Timestamp(0)));
        let local = Local::open(dir.path(), clock, Options::default()).unwrap();
        let run = world.runtime.block_on(async {
            // Before the others, which no worker touches.
            let input = Json::of(&json!({"what": "end", "text": "hello"})).unwrap();
            let request = StartRequest { workflow: named("desk"), input, key: Some("history".into()) };
            let run = world.client.start(request).await.unwrap().run;
            world.work(20).await;
            for number in 0..RUNS {
                let start = started(number);
                world.behind.memory().write(&start).await.unwrap();
                local.write(&start).await.unwrap();
            }
            run
        });
        Self { world, local, run, _dir: dir }
    }

    async fn list(&self, query: &ListQuery, change: u8) {
        let memory = self.world.behind.memory();
        let only = ListQuery { workflow: query.workflow.clone().or(Some(named("odd"))), ..query.clone() };
        let one = walked(&only, change, |query| {
            let memory = memory.clone();
            async move { memory.list(&query).await }
        })
        .await;
        let other = walked(&only, change, |query| {
            let local = self.local.clone();
            async move { local.list(&query).await }
        })
        .await;
        if let (Some(one), Some(other)) = (one, other) {
            assert_eq!(one, other, "{only:?}");
            let fits = |number: u64| {
                let run = started(number);
                let workflow = if number.is_multiple_of(2) { "even" } else { "odd" };
                only.holds(run.now) && only.phase != Some(Phase::Parked) && only.workflow == Some(named(workflow))
            };
            assert_eq!(one.len(), (0..RUNS).filter(|number| fits(*number)).count(), "{only:?}");
        }
    }

    async fn due(&self, query: &ListQuery, change: u8) {
        let memory = self.world.behind.memory();
        let until = query.started_before.map_or(Timestamp(u64::MAX), |at| Timestamp(at.0 * 900_000));
        let one = walked(query, change, |query| {
            let memory = memory.clone();
            async move { memory.due(until, query.limit, query.after).await }
        })
        .await;
        let other = walked(query, change, |query| {
            let local = self.local.clone();
            async move { local.due(until, query.limit, query.after).await }
        })
        .await;
        if let (Some(one), Some(other)) = (one, other) {
            assert_eq!(one, other, "{until}");
        }
    }

    /// The API's lists take what they have given, and tell all else that it is the caller's mistake.
    async fn asked(&self, token: &str) {
        let escaped = escaped(token);
        for list in ["runs", "approvals", "unknowns"] {
            let request = Request::get(format!("/v1/{list}?after={escaped}&limit=2"));
            let request = request.header("host", format!("localhost:{PORT}")).body(Body::empty()).unwrap();
            let status = self.world.app(true).oneshot(request).await.unwrap().status();
            assert!(matches!(status, StatusCode::OK | StatusCode::BAD_REQUEST), "{status}: {list} after {token:?}");
        }
    }

    async fn history(&self, from: u8, before: u8, limit: usize) {
        let client = &self.world.client;
        let (from, before, limit) = (Revision(from.into()), Revision(before.into()), limit.max(1));
        let whole = client.history(&self.run, Revision(0)).await.unwrap();
        let (mut found, mut next) = (Vec::new(), Some(from));
        while let Some(from) = next {
            let page = client.history_page(&self.run, from, limit).await.unwrap();
            assert!(page.entries.len() <= limit && page.next.is_none_or(|next| next > from));
            found.extend(page.entries);
            next = page.next;
        }
        assert!(found.iter().eq(whole.iter().filter(|entry| entry.revision >= from)));
        let (mut found, mut next) = (Vec::new(), Some(before));
        while let Some(before) = next {
            let page = client.history_before(&self.run, Some(before), limit).await.unwrap();
            assert!(page.entries.len() <= limit && page.next.is_none_or(|next| next < before));
            found.splice(0..0, page.entries);
            next = page.next;
        }
        assert!(found.iter().eq(whole.iter().filter(|entry| entry.revision < before)));
    }
}

/// All that the pages have, put together; each `next` has one letter changed, where that is asked for. `None`: a `next` was not the
/// list's own, or pages of this size are not given.
async fn walked<T, F: Future<Output = Result<Page<T>, StoreError>>>(
    query: &ListQuery,
    change: u8,
    list: impl Fn(ListQuery) -> F,
) -> Option<Vec<T>> {
    let (mut query, mut found, mut strange) = (query.clone(), Vec::new(), query.after.is_some());
    for _ in 0..2 * RUNS {
        let page = match list(query.clone()).await {
            Ok(page) => page,
            Err(StoreError::Invalid(_)) if strange || query.limit == 0 => return None,
            Err(error) => panic!("{error}: {query:?}"),
        };
        assert!(page.items.len() <= query.limit);
        found.extend(page.items);
        let Some(next) = page.next else { return (!strange).then_some(found) };
        strange = strange || change > 0;
        query.after = Some(if change > 0 { changed(&next, change) } else { next });
    }
    assert!(strange, "the pages never end: {query:?}");
    None
}

/// With another letter somewhere.
fn changed(token: &str, change: u8) -> String {
    let at = usize::from(change) % token.len().max(1);
    let letter = |(number, c): (usize, char)| if number == at { char::from(change) } else { c };
    token.chars().enumerate().map(letter).collect()
}

fn started(number: u64) -> WriteRequest {
    let workflow = named(if number.is_multiple_of(2) { "even" } else { "odd" });
    let input = Payload::Inline(Json::of(&number).unwrap());
    let start = Start { workflow, version: 1, input, input_digest: Digest::of(b""), step_limit: 9 };
    let run = RunId::new(format!("r{}", number * 7 % RUNS)).unwrap();
    WriteRequest { run, id: WriteId(1), now: Timestamp(number / 2), write: Write::Start(Box::new(start)) }
}

fn named(name: &str) -> WorkflowName {
    WorkflowName::new(name).unwrap()
}
