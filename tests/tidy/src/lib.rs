//! The repository's own rules, as tests.
//!
//! What lives here: readers of sources and documents that the rules in `tests/` share: [`Repository`], [`rust`] and
//! [`markdown`].
//!
//! What must not: a rule that the compiler or clippy can check.

pub mod markdown;
mod repository;
pub mod rust;

pub use repository::Repository;

/// Stops the test with every offence against the rule, one a line.
///
/// # Panics
/// If there is an offence.
pub fn assert_none(rule: &str, offences: &[String]) {
    assert!(offences.is_empty(), "{rule}\n  {}", offences.join("\n  "));
}
