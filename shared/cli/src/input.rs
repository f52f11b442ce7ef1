//! Values given as arguments: JSON itself, `@file`, or `-` for stdin.

use std::fs::File;
use std::io::{self, Read};

use stepwell_core::Json;
use stepwell_core::limits::VALUE_BYTES_MAX;

use crate::errors::CliError;

/// Reads a value. `what` names it in errors, such as "the input".
pub(crate) fn read(what: &str, given: &str) -> Result<Json, CliError> {
    let (what, text) = if given == "-" {
        (format!("{what} on stdin"), bounded(io::stdin().lock()))
    } else if let Some(file) = given.strip_prefix('@') {
        (format!("{what} in file {file}"), File::open(file).and_then(bounded))
    } else {
        (what.to_owned(), bounded(given.as_bytes()))
    };
    let text = match text {
        Ok(text) if text.len() > VALUE_BYTES_MAX => return Err(CliError::TooLarge { what }),
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(CliError::NotJson { what, problem: "it is not UTF-8 text".into() });
        }
        Err(source) => return Err(CliError::Unreadable { what, source }),
    };
    let problem = match Json::from_text(text.trim().to_owned()) {
        Ok(json) => return Ok(json),
        Err(error) if text.trim().is_empty() => format!("it is empty ({error})"),
        Err(error) => error.to_string(),
    };
    Err(CliError::NotJson { what, problem })
}

/// One byte more than is allowed tells that it is too much.
fn bounded(from: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(VALUE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    // A character that was cut says nothing: it is too large anyway.
    if bytes.len() > VALUE_BYTES_MAX {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
