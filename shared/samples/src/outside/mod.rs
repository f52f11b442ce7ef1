//! The outside world of the samples: vendors' pages, a mail API, and a shop with its carrier, as three HTTP servers on 127.0.0.1.
//!
//! It plays what workflows meet out there: slow pages, refusals, and a mail that was accepted but whose answer never came.
//! It counts what reached it, so that a demo or a test can say how often something really happened.

pub mod carrier;
mod catalog;
mod counts;
mod http;
pub mod mail;
pub mod shop;
pub mod vendors;

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use axum::Router;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use carrier::{BookedPickup, CarrierApi};
pub use counts::{CarrierCounts, MailCounts, ShopCounts, VendorCounts, WorldCounts};
use http::{Closing, Line};
pub use http::{FailStatus, NotAFailure};
use mail::{DeliveredMail, MailApi, MailBehaviour};
use shop::{PaidRefund, ShopApi, ShopBehaviour};
use vendors::{UnknownVendor, VendorBehaviour, Vendors};

/// How long [`World::stop`] lets open connections finish.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Where the world listens, always on 127.0.0.1. `None` means any free port.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorldOptions {
    /// Port of the vendors' pages.
    pub vendors_port: Option<u16>,
    /// Port of the mail API.
    pub mail_port: Option<u16>,
    /// Port of the shop.
    pub shop_port: Option<u16>,
}

/// Why the world did not start.
#[derive(Debug, Error)]
pub enum WorldError {
    /// Another program holds the port.
    #[error(
        "port {port} on 127.0.0.1, wanted for the {service}, is already in use: \
         stop the program that holds it, or choose another port (0 means any free one)"
    )]
    PortInUse {
        /// What should have listened there.
        service: &'static str,
        /// The port asked for.
        port: u16,
    },
    /// The system does not let us listen.
    #[error("cannot listen on 127.0.0.1:{port} for the {service}: choose another port, or allow this one")]
    Bind {
        /// What should have listened there.
        service: &'static str,
        /// The port asked for; 0 stands for any free one.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
}

/// The running outside world. Dropping it ends it at once; [`World::stop`] ends it and waits.
#[derive(Debug)]
pub struct World {
    vendors: Vendors,
    vendors_url: String,
    mail: MailApi,
    mail_url: String,
    shop: ShopApi,
    carrier: CarrierApi,
    shop_url: String,
    closing: watch::Sender<bool>,
    tasks: [JoinHandle<()>; 3],
}

impl World {
    /// Starts all servers on tasks of the current tokio runtime. They accept connections when this returns.
    ///
    /// # Errors
    /// [`WorldError`] when a port cannot be had; nothing is left running then.
    pub async fn start(options: WorldOptions) -> Result<Self, WorldError> {
        let (vendors_listener, vendors_url) = bind("vendors' pages", options.vendors_port).await?;
        let (mail_listener, mail_url) = bind("mail API", options.mail_port).await?;
        let (shop_listener, shop_url) = bind("shop", options.shop_port).await?;
        let closing = watch::Sender::new(false);
        let (shop, carrier) = (ShopApi::default(), CarrierApi::default());
        let shop_router = shop.router().merge(carrier.router());
        let vendors = Vendors::new(Closing::new(closing.subscribe()));
        let mail = MailApi::new(Closing::new(closing.subscribe()));
        let tasks = [
            serve(vendors_listener, vendors.router(), Closing::new(closing.subscribe())),
            serve(mail_listener, mail.router(), Closing::new(closing.subscribe())),
            serve(shop_listener, shop_router, Closing::new(closing.subscribe())),
        ];
        Ok(Self { vendors, vendors_url, mail, mail_url, shop, carrier, shop_url, closing, tasks })
    }

    /// Base URL of the vendors' pages, such as `http://127.0.0.1:4711`.
    pub fn vendors_url(&self) -> &str {
        &self.vendors_url
    }

    /// Base URL of the mail API, such as `http://127.0.0.1:4712`.
    pub fn mail_url(&self) -> &str {
        &self.mail_url
    }

    /// Base URL of the shop and its carrier, such as `http://127.0.0.1:4713`.
    pub fn shop_url(&self) -> &str {
        &self.shop_url
    }

    /// Where all of it is, for a registry.
    pub fn addresses(&self) -> crate::Outside {
        let (vendors_url, mail_url, shop_url) =
            (self.vendors_url.clone(), self.mail_url.clone(), self.shop_url.clone());
        crate::Outside { vendors_url, mail_url, shop_url }
    }

    /// How the shop behaves from now on.
    pub fn set_shop(&self, behaviour: ShopBehaviour) {
        self.shop.set(behaviour);
    }

    /// The refunds that were paid, oldest first.
    pub fn refunds(&self) -> Vec<PaidRefund> {
        self.shop.paid()
    }

    /// The vans that were booked, oldest first.
    pub fn pickups(&self) -> Vec<BookedPickup> {
        self.carrier.booked()
    }

    /// Whether an order is held right now.
    pub fn is_held(&self, order: &str) -> bool {
        self.shop.is_held(order)
    }

    /// How the mail API behaves from now on. Connections held until now are closed.
    pub fn set_mail(&self, behaviour: MailBehaviour) {
        self.mail.set(behaviour);
    }

    /// How one vendor's page behaves from now on.
    ///
    /// # Errors
    /// [`UnknownVendor`] when there is no such vendor.
    pub fn set_vendor(&self, name: &str, behaviour: VendorBehaviour) -> Result<(), UnknownVendor> {
        self.vendors.set(name, behaviour)
    }

    /// What has reached this world so far.
    pub fn counts(&self) -> WorldCounts {
        WorldCounts {
            vendors: self.vendors.counts(),
            mail: self.mail.counts(),
            shop: self.shop.counts(),
            carrier: self.carrier.counts(),
        }
    }

    /// The delivered mails, oldest first.
    pub fn mails(&self) -> Vec<DeliveredMail> {
        self.mail.mails()
    }

    /// Resolves once the first mail has been accepted, at once if that has happened already.
    pub async fn mail_accepted(&self) {
        self.mails_accepted(1).await;
    }

    /// Resolves once `at_least` mails have been accepted in all, at once if they have been already. Duplicates do not count.
    pub async fn mails_accepted(&self, at_least: u64) {
        self.mail.accepted(at_least).await;
    }

    /// Ends all servers: held and slow requests end, open connections may finish for up to two seconds.
    pub async fn stop(mut self) {
        self.closing.send_replace(true);
        for task in &mut self.tasks {
            if tokio::time::timeout(STOP_GRACE, task).await.is_err() {
                tracing::warn!("a connection to the outside world did not end in {STOP_GRACE:?}; leaving it behind");
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.closing.send_replace(true);
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn bind(service: &'static str, port: Option<u16>) -> Result<(TcpListener, String), WorldError> {
    let port = port.unwrap_or(0);
    let bound = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
        Ok(listener) => listener.local_addr().map(|address| (listener, format!("http://{address}"))),
        Err(error) => Err(error),
    };
    bound.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => WorldError::PortInUse { service, port },
        _ => WorldError::Bind { service, port, source },
    })
}

fn serve(listener: TcpListener, router: Router, closing: Closing) -> JoinHandle<()> {
    let service = router.into_make_service_with_connect_info::<Line>();
    tokio::spawn(async move {
        let served = axum::serve(listener, service).with_graceful_shutdown(async move { closing.closed().await });
        if let Err(error) = served.await {
            tracing::error!(%error, "a server of the outside world ended");
        }
    })
}

#[cfg(test)]
pub(crate) mod tests;
