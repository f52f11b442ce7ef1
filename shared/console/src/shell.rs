//! What surrounds every page: its head, the way to the other pages, and where the script says what has happened.

use core::fmt;

use maud::{DOCTYPE, Markup, html};

use crate::assets::{ICON, SCRIPT, STYLE};
use crate::parts::text::{line, plain};

/// One page.
pub(crate) struct Page {
    /// What it is about, in plain text.
    pub(crate) title: String,
    /// Where it is among the others.
    pub(crate) here: Here,
    /// After how many seconds the script looks whether it has changed.
    pub(crate) refresh: Option<u32>,
    /// What the script says aloud when it is another than before.
    pub(crate) says: String,
    pub(crate) main: Markup,
}

/// The pages that every page leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Here {
    Runs,
    Approvals,
    Unknowns,
    Parked,
    Dashboard,
    Start,
    /// None of them.
    Elsewhere,
}

/// How many there are, at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) found: usize,
    /// Whether there may be more.
    pub(crate) more: bool,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.found, if self.more { "+" } else { "" })
    }
}

/// What waits for a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) approvals: Count,
    pub(crate) unknowns: Count,
    pub(crate) parked: Count,
}

/// What is known of whoever looks.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    /// Their name; nobody's before the login.
    pub(crate) name: Option<&'a str>,
    /// Left out when it could not be counted.
    pub(crate) counts: Option<Counts>,
}

/// The whole document.
pub(crate) fn document(page: &Page, around: Around<'_>) -> Markup {
    let Page { title, here, refresh, says, main } = page;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (plain(title)) " · Stepwell" }
                link rel="icon" href=(ICON.url()) type="image/svg+xml";
                link rel="stylesheet" href=(STYLE.url());
                script type="module" src=(SCRIPT.url()) {}
            }
            body data-refresh=[*refresh] {
                a.skip href="#main" { "Skip to the content" }
                (header(*here, around))
                p #link .banner role="status" hidden {}
                noscript { p.banner { "This page can be read as it is. To act, and to see changes as they happen, switch JavaScript on." } }
                main #main tabindex="-1" data-says=(says) { (main) }
                footer { p { "Times are in UTC. " span #updated {} } }
                div #live .away aria-live="polite" {}
                (confirmation())
            }
        }
    }
}

fn header(here: Here, Around { name, counts }: Around<'_>) -> Markup {
    let Some(name) = name else {
        return html! { header.top { p.brand { "Stepwell" } } };
    };
    let link = |to: Here, href: &str, words: &str, count: Option<(Count, &str)>| {
        html! {
            li {
                a href=(href) aria-current=[(to == here).then_some("page")] {
                    (words)
                    @if let Some((count, of)) = count {
                        " " span.count { (count) span.away { " " (of) } }
                    }
                }
            }
        }
    };
    let counted = |pick: fn(Counts) -> Count, of| {
        counts.map(pick).filter(|count| *count != Count::default()).map(|count| (count, of))
    };
    html! {
        header.top {
            p.brand { a href="/runs" { "Stepwell" } }
            nav aria-label="Pages" {
                ul #nav {
                    (link(Here::Runs, "/runs", "Runs", None))
                    (link(Here::Approvals, "/approvals", "Approvals", counted(|counts| counts.approvals, "open")))
                    (link(Here::Unknowns, "/unknowns", "Unknowns", counted(|counts| counts.unknowns, "open")))
                    (link(Here::Parked, "/parked", "Parked", counted(|counts| counts.parked, "runs")))
                    (link(Here::Dashboard, "/dashboard", "Dashboard", None))
                    (link(Here::Start, "/start", "Start", None))
                }
            }
            div.who { span { (crate::parts::text::name(name)) } @if name.starts_with("key:") { " " (sign_out()) } }
        }
    }
}

fn sign_out() -> Markup {
    html! {
        form.out #sign-out data-method="DELETE" data-path="/v1/session" data-then="login" data-done="You are signed out." {
            button.plain type="submit" data-needs-script disabled { "Sign out" }
            span.error #sign-out-error role="alert" tabindex="-1" hidden {}
        }
    }
}

/// Asked before what cannot be taken back. The script fills it in.
fn confirmation() -> Markup {
    html! {
        dialog #confirm aria-labelledby="confirm-title" aria-describedby="confirm-words" {
            h2 #confirm-title { "Are you sure?" }
            p #confirm-words {}
            p.buttons {
                button.grave #confirm-yes type="button" { "Yes, do it" }
                button #confirm-no type="button" { "No, go back" }
            }
        }
    }
}

/// The page when there is nothing, or something is wrong.
pub(crate) fn notice(title: &str, here: Here, words: &str, help: &Markup) -> Page {
    let main = html! {
        h1 { (title) }
        div.words { (line(words)) }
        (help)
    };
    Page { title: title.to_owned(), here, refresh: None, says: String::new(), main }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::is_sound;

    fn shown(around: Around<'_>) -> String {
        let page = notice("<b>", Here::Parked, "\"words\"", &html! {});
        document(&page, around).into_string()
    }

    #[test]
    fn every_page_leads_to_the_others_and_says_where_it_is() {
        let count = |found, more| Count { found, more };
        let counts = Counts { approvals: count(3, false), unknowns: count(0, false), parked: count(50, true) };
        let page = shown(Around { name: Some("key:<i>"), counts: Some(counts) });
        is_sound(&page);
        for part in [
            r#"<a href="/parked" aria-current="page">Parked <span class="count">50+"#,
            r#"<a href="/approvals">Approvals <span class="count">3"#,
            r#"<a href="/unknowns">Unknowns</a>"#,
            "key:&lt;i&gt;",
            "<title>&lt;b&gt; · Stepwell</title>",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
    }

    #[test]
    fn a_stranger_is_led_nowhere() {
        let page = shown(Around { name: None, counts: None });
        is_sound(&page);
        assert!(!page.contains("/runs") && !page.contains("Sign out"), "{page}");
    }
}
