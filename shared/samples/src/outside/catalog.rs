//! The invented vendors: six makers of invoice capture software, and the page each one has.

use std::fmt::Write as _;

/// What a vendor says about itself. `None` or an empty list: its page is silent about that.
#[derive(Debug)]
pub(super) struct Facts {
    /// The name in addresses.
    pub(super) name: &'static str,
    product: &'static str,
    claim: &'static str,
    price: Option<&'static str>,
    regions: &'static [&'static str],
    trial: Option<&'static str>,
    /// What sets it apart, a paragraph.
    story: &'static str,
    strengths: &'static [&'static str],
    weaknesses: &'static [&'static str],
}

impl Facts {
    /// The page: a few kilobytes of plain text, always the same.
    pub(super) fn page(&self) -> String {
        let mut page = format!("# {}\n\n{}\n\n## At a glance\n\n", self.product, self.claim);
        let regions = (!self.regions.is_empty()).then(|| self.regions.join(", "));
        for (field, value) in [("Price", self.price), ("Regions", regions.as_deref()), ("Trial", self.trial)] {
            if let Some(value) = value {
                // Writing to a string cannot fail.
                let _ = writeln!(page, "{field}: {value}");
            }
        }
        let _ = write!(page, "\n## What it is\n\n{}\n", self.story);
        for (heading, lines) in [("Strengths", self.strengths), ("Weaknesses", self.weaknesses)] {
            if !lines.is_empty() {
                let _ = write!(page, "\n## {heading}\n\n- {}\n", lines.join("\n- "));
            }
        }
        page.push_str(&SMALL_PRINT.replace("{product}", self.product));
        page
    }
}

const SMALL_PRINT: &str = "
## How it works

Send invoices to {product} by mail, by scanner or through the API. It reads the sender, the dates, the amounts, the tax and
every line, and compares them with the order if there is one. What it is sure of goes straight to your bookkeeping; what it is
not sure of goes to a person, with the doubtful field marked. Whatever that person corrects is kept with the sender, so that
the next invoice of the same sender is read better than the last one.

## Bringing it in

Most firms start with one company code and two or three people. {product} reads the last three months of invoices first and
shows where it would have differed from what was booked. That comparison is the best estimate of what it will do for you, and
it costs nothing. The chart of accounts, the cost centres and the list of suppliers come from your bookkeeping, once an hour.
Approval chains can be taken over from a spreadsheet, one row for each amount and cost centre.

## Your data

Invoices belong to you. They are encrypted at rest, kept for as long as you say, and given back as files with an index when you
leave. Every reading, correction and approval is written to a log that can be exported for the auditors. {product} does not
learn from one customer for the benefit of another unless both have agreed to that in writing.

## Questions we hear often

Can it read photographs? Yes, if a person could. A page that was folded is read better from a scanner.
What about invoices that arrive as data? They are taken as they are; nothing is read that was never a picture.
Does somebody at {product} look at our invoices? Only when you ask for help with one, and the log says so.
What happens when the order is missing? The invoice waits for a person, with the orders that come closest beside it.

## Help

The handbook is public. Questions are answered on working days; faults that stop payments are taken at any hour. The status of
the service, with the faults of the last twelve months and what came of them, stands on a page of its own.
";

pub(super) const VENDORS: [Facts; 6] = [
    Facts {
        name: "brindlepost",
        product: "Brindlepost",
        claim: "Invoices in, bookings out, and nobody types.",
        price: Some("EUR 39 per user and month"),
        regions: &["EU", "UK"],
        trial: Some("30 days"),
        story: "Brindlepost was made for finance teams of three to thirty people. It brings templates for the usual \
                bookkeeping programs and is set up in a day, without a project. It deliberately has few switches.",
        strengths: &[
            "set up in a day",
            "reads handwriting on delivery notes",
            "templates for the usual bookkeeping programs",
        ],
        weaknesses: &["no approval over more than two levels", "a price per user punishes occasional approvers"],
    },
    Facts {
        name: "ostermill",
        product: "Ostermill Capture",
        claim: "Pay for pages, not for people.",
        price: Some("EUR 0.08 per page, no seats"),
        regions: &["EU", "US", "Canada"],
        trial: Some("500 pages"),
        story: "Ostermill Capture is an API first and a program second. Teams with developers of their own build their flow \
                around it; everybody else gets a plain inbox with an approval button.",
        strengths: &[
            "pays off for few invoices and many approvers",
            "complete API with a sandbox",
            "reads 40 languages",
        ],
        weaknesses: &["costs are hard to foresee when volumes jump", "the inbox is spartan"],
    },
    Facts {
        name: "quaylight",
        product: "Quaylight Finance Suite",
        claim: "One suite from the order to the payment.",
        // The page has no price: that is what the brief has to be honest about.
        price: None,
        regions: &["EU", "UK", "US", "Singapore"],
        trial: None,
        story: "Quaylight Finance Suite covers orders, invoices, approvals and payments. It is sold by partners, who also bring \
                it in. What it costs depends on modules and volumes; talk to a partner for an offer.",
        strengths: &[
            "orders, invoices and payments in one place",
            "approval over any number of levels",
            "audit reports on board",
        ],
        weaknesses: &["three to six months until it runs", "invoice capture is not sold alone"],
    },
    Facts {
        name: "tarnwick",
        product: "Tarnwick Server",
        claim: "Your invoices never leave the house.",
        price: Some("EUR 14,000 per year, any number of users"),
        regions: &["wherever you run it"],
        trial: Some("60 days on your own hardware"),
        story: "Tarnwick Server runs in your own rooms or in your own cloud account. Nothing is sent to Tarnwick, not even \
                statistics. Updates come four times a year as a signed package.",
        strengths: &["data stays in the house", "a price that does not grow with people or pages"],
        weaknesses: &["you run and update it yourselves", "new invoice layouts arrive only with an update"],
    },
    Facts {
        name: "velloria",
        product: "Velloria Flow",
        claim: "The invoice assistant everybody loves.",
        price: Some("USD 25 per user and month, yearly contract"),
        regions: &["US"],
        trial: Some("14 days"),
        story: "Velloria Flow answers questions about invoices in a chat: who approved this one, what is due on Friday, which \
                supplier became dearer. It books into the two largest cloud bookkeeping services.",
        strengths: &["questions in plain language", "pleasant on a phone"],
        // No vendor has none; this one does not name them.
        weaknesses: &[],
    },
    Facts {
        name: "marrowgate",
        product: "Marrowgate",
        claim: "Capture for accountants with many clients.",
        price: Some("EUR 190 per month for 10 clients, EUR 15 for each further one"),
        // The page does not say where the data is kept.
        regions: &[],
        trial: Some("30 days, 2 clients"),
        story: "Marrowgate is for accountants. Each client has a space of its own, with its own rules and its own approvers; the \
                accountant sees all of them in one list, sorted by what is due.",
        strengths: &["many clients in one list", "rules can be copied from client to client"],
        weaknesses: &["of little use to a single firm", "the API reads but does not write"],
    },
];
