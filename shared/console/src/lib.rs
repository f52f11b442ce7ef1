//! # stepwell-console: the console, for people
//!
//! **What lives here:** the pages that a person on call and an approver need ([`router`]): runs, one run with its timeline, approvals,
//! unknown effects, parked runs, a dashboard, a form to start runs, and the login. Each is a pure function from what was loaded to HTML;
//! one style sheet and one small script are in the program, under names that change with what is in them.
//!
//! **What must not live here:** anything that changes a run: forms are sent to the API under `/v1`, by the script, as JSON. No decision
//! about who may do what either; the guard is `stepwell_http`'s. Nothing is loaded from elsewhere, nothing runs inline, and text
//! from outside is shown as text.
//!
//! ```
//! # fn serve(api: stepwell_http::Api) -> axum::Router {
//! let console = stepwell_console::router(&api);
//! stepwell_http::router(api).merge(console)
//! # }
//! ```
//!
//! | page | shows |
//! | --- | --- |
//! | `/` | leads to `/runs` |
//! | `/runs` | runs, newest first: `workflow`, `status`, `from`, `before`, `after`; `run` leads to one |
//! | `/runs/{run}` | one run; `at`: its state after a revision, `before`: older history |
//! | `/approvals`, `/unknowns`, `/parked` | what waits for a person, with what it takes to act |
//! | `/dashboard` | how the runs are doing, from bounded samples |
//! | `/start` | starts a run |
//! | `/login` | takes a key for a session; open to all |
//! | `/assets/{name}` | the style sheet, the script, the icon; open to all |

mod address;
mod answer;
mod assets;
#[cfg(test)]
mod check;
mod gather;
mod pages;
mod parts;
mod prices;
mod shell;
mod surround;
mod who;

use axum::Router;
use axum::http::HeaderMap;
use axum::middleware::from_fn;
use axum::response::{Redirect, Response};
use axum::routing::get;
use stepwell_core::WorkflowName;
use stepwell_engine::Client;
use stepwell_http::{Api, Permission, pages_guard};
use stepwell_ports::Clock as _;
use stepwell_ports::system::SystemClock;

use crate::answer::Trouble;
use crate::gather::Counter;
use crate::shell::{Around, Here, Page};
use crate::who::Viewer;

/// What pages are made from.
#[derive(Clone)]
pub(crate) struct Console {
    pub(crate) client: Client,
    counter: Counter,
}

/// The console, to be merged with the API's router. Every page but the login stands behind the API's guard; a stranger is sent to the
/// login.
pub fn router(api: &Api) -> Router {
    let console = Console { client: api.client.clone(), counter: Counter::default() };
    let guarded = Router::new()
        .route("/", get(|| async { Redirect::to("/runs") }))
        .route("/runs", get(pages::runs::get))
        .route("/runs/{run}", get(pages::run::get))
        .route("/approvals", get(pages::approvals::get))
        .route("/unknowns", get(pages::unknowns::get))
        .route("/parked", get(pages::parked::get))
        .route("/dashboard", get(pages::dashboard::get))
        .route("/start", get(pages::start::get))
        .route("/{page}", get(pages::missing))
        .route("/runs/{run}/{*more}", get(pages::missing))
        .route_layer(pages_guard(api))
        .with_state(console);
    let open = Router::new().route("/login", get(pages::login::get)).route("/assets/{name}", get(assets::serve));
    open.merge(guarded).layer(from_fn(surround::surround))
}

impl Console {
    /// The answer to whoever looks: the page, or why there is none.
    pub(crate) async fn answer(
        &self,
        viewer: &Viewer,
        here: Here,
        asked: &HeaderMap,
        made: Result<Page, Trouble>,
    ) -> Response {
        let counts = self.counter.counts(&self.client, viewer, SystemClock.now()).await;
        let around = Around { name: Some(&viewer.name), counts };
        match made {
            Ok(page) => answer::shown(&page, around, asked),
            Err(trouble) => answer::trouble(&trouble, here, around),
        }
    }

    /// The workflows whose runs whoever looks may see.
    pub(crate) fn workflows(&self, viewer: &Viewer) -> Vec<WorkflowName> {
        let known = self.client.workflows().into_iter();
        known.filter(|workflow| viewer.may(Permission::Look, workflow)).cloned().collect()
    }
}
