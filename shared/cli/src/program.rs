//! What this program is called: its hints name a command that can be typed.

use std::fmt::Display;
use std::path::Path;
use std::sync::LazyLock;

static NAME: LazyLock<String> = LazyLock::new(|| {
    let called = std::env::args_os().next();
    let name = called.as_deref().and_then(|called| Path::new(called).file_stem()).and_then(|name| name.to_str());
    name.unwrap_or("stepwell").to_owned()
});

/// The name that it was called by.
pub(crate) fn name() -> &'static str {
    &NAME
}

/// A command of this program, as a hint gives it.
pub(crate) fn command(words: impl Display) -> String {
    format!("`{} {words}`", name())
}
