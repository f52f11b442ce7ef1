//! What is said when it is ready: where it is, whom it takes everybody for, and what there is to look at.

use std::fmt;

use serde::Serialize;
use stepwell_core::WorkerId;
use stepwell_http::Actor;
use stepwell_samples::Outside;

use super::demo::DemoRun;
use crate::output::say;
use crate::view::harmless;

/// On stdout: the address, or all of it as JSON.
#[derive(Debug, Serialize)]
pub(super) struct ShownDev {
    url: String,
    #[serde(rename = "as")]
    name: String,
    roles: Vec<String>,
    #[serde(rename = "data")]
    place: String,
    demo: Vec<DemoRun>,
}

impl fmt::Display for ShownDev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

impl ShownDev {
    pub(super) fn of(url: String, Actor { name, roles }: Actor, place: &str, demo: Vec<DemoRun>) -> Self {
        Self { url, name, roles, place: place.to_owned(), demo }
    }

    /// The rest, for people.
    pub(super) fn say(&self, worker: &WorkerId, outside: Option<&Outside>) {
        let Self { url, name, roles, place, demo } = self;
        let (name, roles) = (harmless(name), harmless(roles.join(", ")).to_string());
        let described = format!("the API is at {url}/v1, described at {url}/v1/openapi.json");
        say(format_args!("ready: open it in a browser, Ctrl-C stops it; {described}"));
        let everybody = format!("everybody who reaches this machine's loopback is {name} ({roles}), without a key");
        say(format_args!("it listens on 127.0.0.1 alone; {everybody}"));
        say(format_args!("the runs are in {place}, and {worker} works on them"));
        if let Some(Outside { vendors_url, mail_url, shop_url }) = outside {
            let shop = format!("refunds at {shop_url}/v1/refunds, vans at {shop_url}/v1/pickups");
            say(format_args!(
                "the outside: vendors' pages at {vendors_url}/vendors, mails at {mail_url}/v1/mails, {shop}"
            ));
        }
        if demo.is_empty() {
            return;
        }
        say("to look at:");
        for DemoRun { run, workflow, leads_to, then } in demo {
            say(format_args!("  {url}/runs/{run}\n    {workflow} {leads_to}; {then}"));
        }
        say("more inputs to try: see dev --help");
    }
}
