//! `stepwell outside`: the small world that the samples call, for runs that are started by hand.

use std::fmt;

use serde::Serialize;
use stepwell_samples::outside::{MailCounts, World, WorldCounts, WorldOptions};

use crate::args;
use crate::errors::{CliError, Exit};
use crate::output::{Output, say};
use crate::stop::StopSignals;
use crate::view::count;

#[derive(Serialize)]
#[serde(transparent)]
struct CountsView(WorldCounts);

pub(super) async fn run(args: &args::OutsidePorts, out: Output) -> Result<Exit, CliError> {
    let mut signals = StopSignals::listen()?;
    let options = WorldOptions {
        vendors_port: Some(args.vendors_port),
        mail_port: Some(args.mail_port),
        shop_port: Some(args.shop_port),
    };
    let world = World::start(options).await?;
    let (vendors, mail, shop) = (world.vendors_url(), world.mail_url(), world.shop_url());
    if out.is_json() {
        tracing::info!(vendors, mail, shop, "ready");
    } else {
        say(format_args!(
            "ready: vendors' pages at {vendors}/vendors, mail API at {mail}/v1/mails, shop at {shop}/v1/orders"
        ));
    }
    signals.next().await;
    out.data(&CountsView(world.counts()))?;
    world.stop().await;
    Ok(Exit::Done)
}

impl fmt::Display for CountsView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pages: u64 = self.0.vendors.values().map(|vendor| vendor.served).sum();
        let MailCounts { requested, delivered, .. } = self.0.mail;
        let paid = self.0.shop.paid;
        write!(f, "{} served; {} requested, {delivered} delivered; ", count(pages, "page"), count(requested, "mail"))?;
        write!(f, "{} paid", count(paid, "refund"))
    }
}
