//! Objects in a bucket of S3.

use aws_sdk_s3::Client;
use aws_sdk_s3::config::Builder;
use aws_sdk_s3::operation::head_object::HeadObjectError;
use aws_sdk_s3::operation::put_object::builders::PutObjectFluentBuilder;
use aws_sdk_s3::primitives::ByteStream;
use serde::{Deserialize, Serialize};
use stepwell::{Asked, Call, CallError};

use crate::aws;

/// The object's metadata that holds the key of the effect which wrote it (`x-amz-meta-stepwell-key`).
pub const KEY_METADATA: &str = "stepwell-key";

/// Puts objects into one bucket.
///
/// The client is the caller's: region, credentials and endpoint are those of its environment. Its retries are off for the calls
/// made here, so that each is one attempt: a repetition inside the SDK would hide what became of the first.
///
/// # Class: `idempotent`
/// - [`S3::put`]: the same bytes under the same name are the same object, however often they are put. So name and bytes must
///   be functions of the effect's key and `with(..)` parameters, and the name belongs to one effect (put the run or an order
///   into it): a repetition would put back what somebody else has put there since.
/// - [`S3::create`]: never replaces an object. One that is there already is told by the effect's key in its metadata: its own
///   is a success, another's is refused.
///
/// Or `reconcile` with [`S3::ask`], where a large object should not be sent twice.
///
/// All of this holds as long as nobody deletes the object while the run may come back to it; think of lifecycle rules.
///
/// # What a failure says
///
/// | what was seen | what it says |
/// | --- | --- |
/// | no connection, no credentials | not done |
/// | throttled (`SlowDown`), in conflict with another request; credentials that have expired | not done |
/// | `create` over an object of another key (`s3-exists`) | refused |
/// | any other 4xx: no such bucket, access denied | refused |
/// | a lost connection, no answer in time, 5xx | unknown |
///
/// Codes are `aws-<code of the service>`, and `aws-connect`, `aws-lost`, `aws-request`, `http-<status>` where it gave none.
///
/// ```no_run
/// use stepwell::prelude::*;
/// use stepwell_effects::s3::{S3, S3Object};
///
/// # struct Shop { invoices: S3 }
/// # impl Shop {
/// async fn file(&self, order: &str, invoice: &str, cx: &Cx) -> Result<S3Object, StepError> {
///     let name = format!("invoices/{order}.txt");
///     Ok(cx.effect("invoice").key(order).with(invoice)
///         .reconcile(|call| self.invoices.ask(call, name.clone()))
///         .call(|call| self.invoices.create(call, name.clone(), invoice.as_bytes().to_vec())).await?)
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct S3 {
    client: Client,
    bucket: String,
}

/// An object that was put.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct S3Object {
    /// Its name in the bucket.
    pub name: String,
    /// Its `ETag`.
    pub etag: Option<String>,
    /// Its version, in a bucket that keeps them.
    pub version: Option<String>,
}

/// Who wrote the object under a name.
enum Found {
    Ours(S3Object),
    Others,
    Nothing,
}

impl S3 {
    /// The bucket of this name.
    pub fn new(client: Client, bucket: impl Into<String>) -> Self {
        Self { client, bucket: bucket.into() }
    }

    /// Puts an object under a name, in the place of what is there.
    ///
    /// # Errors
    /// [`S3`] says which.
    pub async fn put(
        &self,
        call: Call<'_>,
        name: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
    ) -> Result<S3Object, CallError> {
        let (name, bytes) = (name.into(), bytes.into());
        self.write(call, &name, bytes, |object| object).await.map_err(Refusal::into_error)
    }

    /// Puts an object under a name, if there is none (`If-None-Match: *`).
    ///
    /// # Errors
    /// [`S3`] says which.
    pub async fn create(
        &self,
        call: Call<'_>,
        name: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
    ) -> Result<S3Object, CallError> {
        let (name, bytes) = (name.into(), bytes.into());
        match self.write(call, &name, bytes, |object| object.if_none_match("*")).await {
            Ok(object) => Ok(object),
            Err(Refusal::Exists) => match self.find(call, &name).await {
                Ok(Found::Ours(object)) => Ok(object),
                Ok(Found::Others) => {
                    let words = format!("{name} in {} is there already, and another effect wrote it", self.bucket);
                    Err(CallError::refused(words).with_code("s3-exists"))
                }
                Ok(Found::Nothing) => {
                    Err(CallError::retry(format!("{name} in {} was there, and is not any more", self.bucket)))
                }
                // An earlier attempt may have written it.
                Err(problem) => {
                    Err(CallError::unknown(format!("{name} in {} is there already: {problem}", self.bucket)))
                }
            },
            Err(Refusal::Other(error)) => Err(error),
        }
    }

    /// Whether this effect's object is under the name, for `reconcile(..)`. An object of another key leaves it open: this
    /// effect's may have been there before.
    ///
    /// # Errors
    /// When S3 does not say.
    pub async fn ask(&self, call: Call<'_>, name: impl Into<String>) -> Result<Asked<S3Object>, CallError> {
        let name = name.into();
        match self.find(call, &name).await {
            Ok(Found::Ours(object)) => Ok(Asked::Happened(object)),
            Ok(Found::Nothing) => Ok(Asked::Absent),
            Ok(Found::Others) => {
                Ok(Asked::CannotTell(format!("{name} in {} is there, and another effect wrote it last", self.bucket)))
            }
            Err(problem) => Err(CallError::unknown(problem)),
        }
    }

    async fn write(
        &self,
        call: Call<'_>,
        name: &str,
        bytes: Vec<u8>,
        with: impl FnOnce(PutObjectFluentBuilder) -> PutObjectFluentBuilder,
    ) -> Result<S3Object, Refusal> {
        let object = self.client.put_object().bucket(&self.bucket).key(name).metadata(KEY_METADATA, call.key());
        let written = with(object.body(ByteStream::from(bytes)))
            .customize()
            .config_override(one_attempt(call))
            .send()
            .await
            .map_err(|error| match error.raw_response() {
                Some(response) if response.status().as_u16() == 412 => Refusal::Exists,
                _ => Refusal::Other(aws::call_error(&error, "PutObject", &self.bucket)),
            })?;
        Ok(S3Object { name: name.to_owned(), etag: written.e_tag, version: written.version_id })
    }

    /// What is there. An answer is needed to know anything, so an error is only words.
    async fn find(&self, call: Call<'_>, name: &str) -> Result<Found, String> {
        let head = self.client.head_object().bucket(&self.bucket).key(name);
        let head = head.customize().config_override(one_attempt(call)).send().await;
        match head {
            Ok(head) => {
                let key = head.metadata.as_ref().and_then(|all| all.get(KEY_METADATA));
                if key.is_none_or(|key| key != call.key()) {
                    return Ok(Found::Others);
                }
                Ok(Found::Ours(S3Object { name: name.to_owned(), etag: head.e_tag, version: head.version_id }))
            }
            Err(error) if error.as_service_error().is_some_and(HeadObjectError::is_not_found) => Ok(Found::Nothing),
            Err(error) => Err(format!("HeadObject on {}: {}", self.bucket, stepwell::error_chain(&error))),
        }
    }
}

/// Why an object was not written, or may not have been.
enum Refusal {
    Exists,
    Other(CallError),
}

impl Refusal {
    fn into_error(self) -> CallError {
        match self {
            // Nobody has set a condition.
            Self::Exists => CallError::unknown("S3 speaks of a condition that was not set"),
            Self::Other(error) => error,
        }
    }
}

fn one_attempt(call: Call<'_>) -> Builder {
    let (retries, timeouts) = aws::one_attempt(call.deadline());
    Builder::new().retry_config(retries).timeout_config(timeouts)
}
