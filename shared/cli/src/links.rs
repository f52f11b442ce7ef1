//! What signs links, as the environment gives it: the API that serves a link has the same keys.

use std::fmt::Write as _;

use stepwell_core::link::LinkKeys;

use crate::errors::CliError;

/// The variable of the keys: `ID=HEX`, more of them with commas between; the first one signs.
pub(crate) const VARIABLE: &str = "STEPWELL_LINK_KEYS";

/// The keys, if there are any.
pub(crate) fn from_environment() -> Result<Option<LinkKeys>, CliError> {
    match std::env::var(VARIABLE) {
        Ok(text) if !text.trim().is_empty() => Ok(Some(LinkKeys::from_text(&text)?)),
        Ok(_) | Err(_) => Ok(None),
    }
}

/// A key that nobody else knows, and that ends with this process.
pub(crate) fn for_this_process() -> Result<LinkKeys, CliError> {
    let mut text = "here=".to_owned();
    for byte in random::<32>()? {
        // A text is written to always.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(LinkKeys::from_text(&text)?)
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], CliError> {
    let mut bytes = [0; N];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) => Err(CliError::System { doing: "draw random bytes".into(), source: error.into() }),
    }
}
