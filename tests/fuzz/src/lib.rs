//! # stepwell-fuzz: what comes from outside or from storage, made up
//!
//! **What lives here:** a target for each place where bytes of somebody else's are read. Each is a function of bytes that says what must
//! hold of whatever comes of them, and panics where it does not. libFuzzer drives them (`fuzz_targets/`, behind the feature
//! `libfuzzer`), `cargo run -p stepwell-fuzz` drives libFuzzer, and the crate's test replays what was kept.
//!
//! **What must not live here:** a way round the product: everything goes through its own functions. Inputs that a fuzzer finds
//! and nobody has chosen to keep: they stay in the target folder.
//!
//! | target | what it is given |
//! | --- | --- |
//! | [`api`] | a request to the API, for a run in each status: local, with a viewer's key, or with nothing |
//! | [`checkpoint`] | a stored checkpoint |
//! | [`edit`] | the JSON patch of a repair |
//! | [`link`] | a signed link, and the keys that sign |
//! | [`message`] | the body of a queue's message |
//! | [`names`] | ids, keys, names, values, references: whatever is one word or one value |
//! | [`pages`] | where a page of a list or of a history begins |
//! | [`segment`] | what is stored beside a checkpoint: history segments, spilled effects |
//! | [`times`] | times, as the API reads and writes them |
//!
//! There is no target for schedules, since the product reads none; for the command line, whose arguments a person types; nor for an
//! event of SQS or a token of an issuer, whose outer form libraries read: the body inside the event is [`message`]'s.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a property that does not hold is told by a panic: that is how a fuzzer hears of it"
)]

pub mod api;
pub mod checkpoint;
pub mod edit;
pub mod link;
pub mod message;
pub mod names;
pub mod pages;
pub mod segment;
pub mod times;

mod cases;
mod request;
mod sample;
mod world;

/// One of the places where bytes of somebody else's are read.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: of its module, its function and its folders.
    pub name: &'static str,
    /// Tries these bytes. Panics when something does not hold.
    pub run: fn(&[u8]),
    /// Bytes of an input at most: longer ones only take time.
    pub bytes_max: usize,
}

/// All of them.
pub const TARGETS: [Target; 9] = [
    Target { name: "api", run: api::api, bytes_max: 2_048 },
    Target { name: "checkpoint", run: checkpoint::checkpoint, bytes_max: 8_192 },
    Target { name: "edit", run: edit::edit, bytes_max: 2_048 },
    Target { name: "link", run: link::link, bytes_max: 1_024 },
    Target { name: "message", run: message::message, bytes_max: 512 },
    Target { name: "names", run: names::names, bytes_max: 1_024 },
    Target { name: "pages", run: pages::pages, bytes_max: 256 },
    Target { name: "segment", run: segment::segment, bytes_max: 4_096 },
    Target { name: "times", run: times::times, bytes_max: 128 },
];
