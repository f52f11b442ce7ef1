//! The API on the embedded backend, in two ways.

use stepwell_console_suite::{Keyed, Served, digest, free_port, program};

use crate::{KEY, runs};

/// `stepwell dev`: no key, this machine alone.
pub(crate) fn dev() -> Served {
    let port = free_port();
    Served::start(&program("stepwell"), &["dev", "--port", &port.to_string()], &[], port, "/v1/health")
}

/// A server that asks for a key.
pub(crate) async fn with_keys() -> Keyed {
    let server = Keyed::serve(&keys()).await;
    runs::start(&server.client).await;
    server
}

/// Who may do everything, as the setting has it.
pub(crate) fn keys() -> String {
    format!("tester:admin+finance={}", digest(KEY))
}
