//! Reads vendors' pages over HTTP, and what they say into [`Finding`]s.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::client::{Base, Failure, Outcome, SetupError, Timeouts, text};

/// A vendor's page as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// The vendor asked for.
    pub vendor: String,
    /// Where it was read.
    pub url: String,
    /// What it says.
    pub text: String,
}

/// What a vendor's page says. `None` means that the page is silent about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The vendor asked for.
    pub vendor: String,
    /// Where it was read.
    pub source: String,
    /// The product's name.
    pub product: Option<String>,
    /// The price, in the vendor's words.
    pub price: Option<String>,
    /// Where the product is offered.
    pub regions: Option<Vec<String>>,
    /// How it can be tried.
    pub trial: Option<String>,
    /// What speaks for it.
    pub strengths: Option<Vec<String>>,
    /// What speaks against it.
    pub weaknesses: Option<Vec<String>>,
}

impl Finding {
    /// Reads a page: a title line `# …`, fields `Name: …` and lists of `- …` under a heading `## …`.
    pub fn from_page(page: &Page) -> Self {
        let text = &page.text;
        let regions = field(text, "Regions");
        Self {
            vendor: page.vendor.clone(),
            source: page.url.clone(),
            product: after(text, "# "),
            price: field(text, "Price"),
            regions: regions.and_then(|all| some(all.split(',').filter_map(said).collect())),
            trial: field(text, "Trial"),
            strengths: list(text, "Strengths"),
            weaknesses: list(text, "Weaknesses"),
        }
    }
}

/// Why there is no page. Reading changes nothing outside, so all but [`WebError::Refused`] may be asked again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WebError {
    /// The page was not handed out: no connection, or the server said "later".
    #[error("the page of {vendor} was not read: {why}; ask again later")]
    NotSent {
        /// The vendor asked for.
        vendor: String,
        /// What was found.
        why: String,
    },
    /// Asking again will not help.
    #[error("the page of {vendor} was refused: {why}; check the vendor's name")]
    Refused {
        /// The vendor asked for.
        vendor: String,
        /// What was found.
        why: String,
    },
    /// The request was sent and no complete answer came.
    #[error("the page of {vendor} did not come: {why}; it may be asked for again, reading changes nothing")]
    Unknown {
        /// The vendor asked for.
        vendor: String,
        /// What was found.
        why: String,
    },
}

impl WebError {
    fn new(vendor: &str, Failure { outcome, why }: Failure) -> Self {
        let vendor = vendor.to_owned();
        match outcome {
            Outcome::NotSent => Self::NotSent { vendor, why },
            Outcome::Refused => Self::Refused { vendor, why },
            Outcome::Unknown => Self::Unknown { vendor, why },
        }
    }
}

/// Reads vendors' pages.
#[derive(Clone, Debug)]
pub struct Web {
    base: Base,
}

impl Web {
    /// A client of the pages at `base`, such as `http://127.0.0.1:4711`.
    ///
    /// # Errors
    /// [`SetupError`] when `base` is no HTTP URL.
    pub fn new(base: &str, timeouts: Timeouts) -> Result<Self, SetupError> {
        Base::new(base, timeouts).map(|base| Self { base })
    }

    /// Reads one vendor's page.
    ///
    /// # Errors
    /// [`WebError`], which says whether to ask again.
    pub async fn page(&self, vendor: &str) -> Result<Page, WebError> {
        let url = self.base.url(&["vendors", vendor]);
        let answer = text(self.base.client.get(url.clone())).await;
        let text = answer.map_err(|failure| WebError::new(vendor, failure))?;
        Ok(Page { vendor: vendor.to_owned(), url: url.into(), text })
    }
}

/// What stands behind `prefix` on the first line that begins with it.
fn after(text: &str, prefix: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(prefix)).and_then(said)
}

fn field(text: &str, name: &str) -> Option<String> {
    after(text, &format!("{name}:"))
}

/// The `- …` lines under `## heading`, up to the next heading.
fn list(text: &str, heading: &str) -> Option<Vec<String>> {
    let section = text.lines().skip_while(|line| line.strip_prefix("## ") != Some(heading)).skip(1);
    let lines = section.take_while(|line| !line.starts_with('#'));
    some(lines.filter_map(|line| line.strip_prefix("- ")).filter_map(said).collect())
}

/// The text without blanks around it, unless nothing is left.
fn said(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn some(list: Vec<String>) -> Option<Vec<String>> {
    (!list.is_empty()).then_some(list)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::outside::vendors::{self, VendorBehaviour};
    use crate::outside::{World, WorldOptions};

    async fn world() -> (World, Web) {
        let world = World::start(WorldOptions::default()).await.unwrap();
        let web = Web::new(world.vendors_url(), Timeouts::default()).unwrap();
        (world, web)
    }

    #[tokio::test]
    async fn a_page_is_the_same_each_time_and_counted_for_its_vendor() {
        let (world, web) = world().await;
        for name in vendors::names() {
            let page = web.page(name).await.unwrap();
            assert_eq!(page, web.page(name).await.unwrap());
            assert!((2_000..8_000).contains(&page.text.len()), "{name}: {}", page.text.len());
            let counts = world.counts().vendors[name];
            assert_eq!((counts.requested, counts.served), (2, 2), "{name}");
        }
    }

    #[tokio::test]
    async fn a_finding_holds_what_the_page_says() {
        let (_world, web) = world().await;
        let finding = Finding::from_page(&web.page("ostermill").await.unwrap());
        assert_eq!(finding.vendor, "ostermill");
        assert!(finding.source.ends_with("/vendors/ostermill"));
        assert_eq!(finding.product.as_deref(), Some("Ostermill Capture"));
        assert_eq!(finding.price.as_deref(), Some("EUR 0.08 per page, no seats"));
        assert_eq!(finding.regions, Some(vec!["EU".into(), "US".into(), "Canada".into()]));
        assert_eq!(finding.trial.as_deref(), Some("500 pages"));
        assert_eq!(finding.strengths.unwrap().len(), 3);
        let weaknesses = finding.weaknesses.unwrap();
        assert_eq!(weaknesses, ["costs are hard to foresee when volumes jump", "the inbox is spartan"]);
    }

    #[tokio::test]
    async fn a_finding_is_silent_where_the_page_is() {
        let (_world, web) = world().await;
        let quaylight = Finding::from_page(&web.page("quaylight").await.unwrap());
        assert_eq!((quaylight.price, quaylight.trial), (None, None));
        assert_eq!(Finding::from_page(&web.page("velloria").await.unwrap()).weaknesses, None);
        assert_eq!(Finding::from_page(&web.page("marrowgate").await.unwrap()).regions, None);

        let text = "Price:  \n## Strengths\n\n## Weaknesses\nnone".into();
        let bare = Finding::from_page(&Page { vendor: "x".into(), url: "http://x".into(), text });
        assert_eq!((bare.product, bare.price, bare.strengths, bare.weaknesses), (None, None, None, None));
    }

    #[tokio::test]
    async fn an_unknown_vendor_is_refused_for_good() {
        let (_world, web) = world().await;
        for name in ["nobody", "../counts", "a/b?c"] {
            let error = web.page(name).await.unwrap_err();
            assert!(matches!(error, WebError::Refused { .. }), "{error}");
        }
    }

    #[tokio::test]
    async fn a_failing_vendor_may_be_asked_again() {
        let (world, web) = world().await;
        world.set_vendor("tarnwick", VendorBehaviour::Fail { times: 2 }).unwrap();
        for _ in 0..2 {
            let error = web.page("tarnwick").await.unwrap_err();
            assert!(matches!(error, WebError::NotSent { .. }), "{error}");
        }
        web.page("velloria").await.unwrap();
        web.page("tarnwick").await.unwrap();
        let counts = world.counts().vendors["tarnwick"];
        assert_eq!((counts.requested, counts.served), (3, 1));
        assert!(world.set_vendor("nobody", VendorBehaviour::Normal).is_err());
    }

    #[tokio::test]
    async fn a_slow_vendor_answers_late_or_too_late() {
        let (world, web) = world().await;
        let (ms, wait) = (30, Duration::from_millis(30));
        world.set_vendor("tarnwick", VendorBehaviour::Slow { ms }).unwrap();
        let asked = std::time::Instant::now();
        web.page("tarnwick").await.unwrap();
        assert!(asked.elapsed() >= wait);

        world.set_vendor("tarnwick", VendorBehaviour::Slow { ms: 600_000 }).unwrap();
        let hasty = Web::new(world.vendors_url(), Timeouts { answer: wait, ..Timeouts::default() }).unwrap();
        let error = hasty.page("tarnwick").await.unwrap_err();
        assert!(matches!(error, WebError::Unknown { .. }), "{error}");
        assert_eq!(world.counts().vendors["tarnwick"].served, 1);
    }

    #[tokio::test]
    async fn nobody_there_means_not_sent() {
        let (world, web) = world().await;
        world.stop().await;
        let error = web.page("tarnwick").await.unwrap_err();
        assert!(matches!(error, WebError::NotSent { .. }), "{error}");
    }

    #[test]
    fn a_base_that_is_no_http_url_is_refused_at_once() {
        for base in ["", "127.0.0.1:80", "mailto:x", "ftp://x"] {
            assert!(matches!(Web::new(base, Timeouts::default()), Err(SetupError::Base { .. })), "{base}");
        }
    }
}
