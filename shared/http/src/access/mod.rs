//! Who may use the API, and what each of them may do. Whoever shows nothing that is known here comes in nowhere; whoever does may do
//! what the roles say that came with it.

mod actor;
mod credentials;
mod guard;
mod keys;
mod origin;
mod pages;
mod roles;
mod routes;

use std::fmt;
use std::sync::Arc;

use stepwell_core::Timestamp;
use stepwell_core::link::LinkKeys;
use stepwell_ports::Clock;
use stepwell_ports::system::SystemClock;

pub use actor::{Actor, Caller, Peer};
pub(crate) use actor::{Answering, By};
pub(crate) use credentials::unauthenticated;
pub use credentials::{NoToken, Tokens};
pub(crate) use guard::{Gate, guard};
pub use keys::AccessError;
pub(crate) use origin::from_here;
pub use pages::pages_guard;
pub use roles::{BuiltIn, Permission, is_role};
pub use routes::{Needs, ROUTES, Route, permissions_table};

use crate::limits::{Limiters, Limits};
use keys::Keys;

/// Who may use the API, and with what. It holds digests of keys, never keys. Cheap to clone.
///
/// ```
/// use stepwell_core::link::LinkKeys;
/// use stepwell_http::{Access, Limits};
/// # fn access(digest: &str, signing: &str) -> Result<Access, Box<dyn std::error::Error>> {
/// let keys = format!("ann:operator+finance={digest}");
/// let access = Access::from_text(&keys)?.with_link_keys(LinkKeys::from_text(signing)?).with_limits(Limits::none());
/// # Ok(access) }
/// ```
#[derive(Clone)]
pub struct Access {
    keys: Keys,
    tokens: Option<Arc<dyn Tokens>>,
    signing: Option<LinkKeys>,
    local: Option<Local>,
    /// Where the outside finds this host: scheme, name and port.
    origin: Option<Arc<str>>,
    limiters: Limiters,
    clock: Arc<dyn Clock>,
}

/// The one caller of a program that serves this machine alone.
#[derive(Clone, Debug)]
struct Local {
    actor: Actor,
    port: u16,
}

impl Access {
    /// Nobody's: only whom the host vouches for comes in.
    pub fn none() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let limiters = Limiters::of(Limits::default(), &clock);
        Self { keys: Keys::default(), tokens: None, signing: None, local: None, origin: None, limiters, clock }
    }

    /// Reads names, roles and digests: `NAME:ROLE+ROLE=DIGEST`, apart by commas. A digest is the SHA-256 of the key's bytes, in 64
    /// hexadecimal digits. A role is `viewer`, `operator`, `approver` or `admin`, or any other word: one for approvals. With
    /// `@WORKFLOW` after it, it is for the runs of this workflow alone. A key without one of the four may do nothing. A name may stand
    /// there twice, with two keys. Blank text is [`Access::none`].
    ///
    /// ```
    /// use stepwell_http::{Access, AccessError};
    /// let digest = stepwell_core::Digest::of(b"a key of many random letters");
    /// assert!(Access::from_text(&format!("ann:viewer={digest}")).is_ok());
    /// assert!(Access::from_text(&format!("ann:approver@refund+finance+cfo={digest}")).is_ok());
    /// assert_eq!(Access::from_text("ann=a key").unwrap_err(), AccessError::BadDigest { entry: 1 });
    /// ```
    ///
    /// # Errors
    /// An entry that cannot be read. No error repeats what it has read.
    pub fn from_text(text: &str) -> Result<Self, AccessError> {
        Ok(Self { keys: Keys::from_text(text)?, ..Self::none() })
    }

    /// For a program that serves this machine alone, on this port: whoever reaches it is this actor. A request has to name the machine
    /// as itself (`localhost`, `127.0.0.1`, `[::1]`), and a page of another site cannot make one. Nothing is limited.
    pub fn local(actor: Actor, port: u16) -> Self {
        Self { local: Some(Local { actor, port }), ..Self::none() }.with_limits(Limits::none())
    }

    /// Takes tokens too, in the header `Authorization: Bearer …`.
    #[must_use]
    pub fn with_tokens(self, tokens: Arc<dyn Tokens>) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// Signs links and sessions with these keys. Without any there are none of both.
    #[must_use]
    pub fn with_link_keys(self, keys: LinkKeys) -> Self {
        Self { signing: Some(keys), ..self }
    }

    /// How much is taken from each caller.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limiters: Limiters::of(limits, &self.clock), ..self }
    }

    /// Goes by this clock. The limits count anew.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { limiters: self.limiters.by(&clock), clock, ..self }
    }

    /// Found by the outside at this address, whatever name a front asks it under.
    pub(crate) fn found_at(self, base_url: Option<&str>) -> Self {
        let origin = base_url.map(|base| base.splitn(4, '/').take(3).collect::<Vec<_>>().join("/").into());
        Self { origin, ..self }
    }

    pub(crate) fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) const fn signing(&self) -> Option<&LinkKeys> {
        self.signing.as_ref()
    }

    pub(crate) const fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) const fn limiters(&self) -> &Limiters {
        &self.limiters
    }
}

impl Default for Access {
    fn default() -> Self {
        Self::none()
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keys, tokens, signing, local, origin, limiters: _, clock: _ } = self;
        let mut shown = f.debug_struct("Access");
        shown.field("keys", keys).field("tokens", &tokens.is_some()).field("signing", signing);
        shown.field("local", local).field("origin", origin).finish_non_exhaustive()
    }
}
