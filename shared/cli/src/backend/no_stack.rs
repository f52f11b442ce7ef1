//! What stands in for a stack on AWS in a program that was built without it.

use std::future::{Ready, ready};

use super::Backend;
use crate::errors::CliError;
use crate::view::Finding;

pub(super) fn check() -> Result<(), CliError> {
    Err(without())
}

pub(super) fn open() -> Ready<Result<Backend, CliError>> {
    ready(Err(without()))
}

pub(super) fn examine() -> Ready<Result<Vec<Finding>, CliError>> {
    ready(Err(without()))
}

fn without() -> CliError {
    let why = "--aws: this program was built without AWS; build it with `cargo build -p stepwell-cli --features aws`";
    CliError::Stack { code: "without-aws", why: why.into() }
}
