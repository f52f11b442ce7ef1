//! # stepwell-effects: ready-made effects
//!
//! **What lives here:** adapters for the outsides that most workflows call, each of which knows what a failed call says about
//! the outside: it did not happen, it will not, or nobody knows.
//!
//! **What must not live here:** clients for one vendor's API, and anything that makes calls without a [`stepwell::Call`].
//!
//! An adapter is used within an effect. It takes the call, whose key and deadline it passes on, and returns
//! [`CallError`](stepwell::CallError), so the `?` of the step does the rest. The class is said by the author, since it is the
//! outside's promise; each adapter says which it is, and why:
//!
//! | feature | adapter | class | why |
//! | --- | --- | --- | --- |
//! | `http` | `http::Http` | `read` for a GET; else what the API promises of an `Idempotency-Key` | the key is sent with each request, what it is good for is the API's affair |
//! | `smtp` | `smtp::Smtp` | `once` | SMTP knows no key, and nobody can be asked |
//! | `sqs` | `sqs::Sqs::send_fifo` | `idempotent_for(sqs::FIFO_WINDOW)` | a FIFO queue drops what comes under a known key, for five minutes |
//! | `sqs` | `sqs::Sqs::send` | `once`, or `idempotent` where the receiver dedupes | a standard queue takes everything |
//! | `s3` | `s3::S3::put`, `create` | `idempotent` | the same bytes under the same name are the same object |
//!
//! No feature is on by default. What all adapters have in common:
//!
//! - **One call is one attempt.** No client below repeats a request by itself, since a repetition that nobody knows of is a
//!   guess about the first one.
//! - **Unknown is the answer where there is doubt.** Only a failure that shows that nothing was done counts as such.
//! - Errors have a code (`http-429`, `smtp-550`, `aws-AccessDenied`), for `RetryPolicy::never_on` and for people, and no URL's
//!   path, query or password.
//!
#![cfg_attr(feature = "http", doc = "```no_run")]
#![cfg_attr(not(feature = "http"), doc = "```ignore")]
//! use stepwell::prelude::*;
//! use stepwell_effects::http::Http;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Charge { order: String, cents: u64 }
//! #[derive(Serialize, Deserialize)]
//! struct Receipt { id: String }
//!
//! # struct Shop { http: Http, key: Secret }
//! # impl Shop {
//! async fn charge(&self, charge: &Charge, cx: &Cx) -> Result<Receipt, StepError> {
//!     let request = self.http.post("https://pay.example.com/v1/charges").bearer(&self.key).json(charge);
//!     let reply = cx.effect("charge").key(&charge.order).with(charge)
//!         // What this API promises of its keys.
//!         .idempotent_for(Duration::from_hours(24))
//!         .call(|call| request.send_for_json(call)).await?;
//!     Ok(reply.body)
//! }
//! # }
//! ```

#[cfg(any(feature = "sqs", feature = "s3"))]
mod aws;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "s3")]
pub mod s3;
#[cfg(feature = "smtp")]
pub mod smtp;
#[cfg(feature = "sqs")]
pub mod sqs;
