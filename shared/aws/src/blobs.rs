//! Large values on S3: `runs/<run>/<sha256>`.

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{Delete, ObjectIdentifier, ServerSideEncryption};
use aws_smithy_types::base64;
use stepwell_core::limits::BLOB_BYTES_MAX;
use stepwell_core::{BlobRef, Digest, RunId};
use stepwell_ports::{BlobError, BlobStore};

use crate::fault::Fault;

/// A bucket.
#[derive(Clone, Debug)]
pub(crate) struct Blobs {
    pub(crate) client: Client,
    pub(crate) bucket: String,
    /// The key that objects are encrypted with; the bucket's own setting where there is none.
    pub(crate) kms_key: Option<String>,
}

#[async_trait]
impl BlobStore for Blobs {
    async fn put(&self, run: &RunId, bytes: &[u8]) -> Result<BlobRef, BlobError> {
        let (size, limit) = (bytes.len() as u64, BLOB_BYTES_MAX as u64);
        if size > limit {
            return Err(BlobError::TooLarge { size, limit });
        }
        let blob = BlobRef::of(run, bytes);
        // The service checks what has arrived against the digest, and stores nothing else.
        let put = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(object_key(&blob.key))
            .checksum_sha256(base64::encode(blob.sha256.0))
            .body(ByteStream::from(bytes.to_vec()))
            .set_server_side_encryption(self.kms_key.as_ref().map(|_| ServerSideEncryption::AwsKms))
            .set_ssekms_key_id(self.kms_key.clone());
        put.send().await.map_err(|error| Fault::of(&error, "PutObject", &self.what()))?;
        Ok(blob)
    }

    async fn get(&self, blob: &BlobRef) -> Result<Vec<u8>, BlobError> {
        let get = self.client.get_object().bucket(&self.bucket).key(object_key(&blob.key)).send().await;
        let found = match get {
            Ok(found) => found,
            Err(error) if matches!(error.as_service_error(), Some(GetObjectError::NoSuchKey(_))) => {
                return Err(BlobError::Missing { key: blob.key.clone() });
            }
            Err(error) => return Err(Fault::of(&error, "GetObject", &self.what()).into()),
        };
        let altered = |found: String| {
            let BlobRef { key, size, sha256 } = blob;
            BlobError::Altered { key: key.clone(), found: format!("{found}, expected {size} bytes of {sha256}") }
        };
        // Not read first: it may be far larger than what was stored.
        let length = found.content_length().and_then(|length| u64::try_from(length).ok());
        if length.is_some_and(|length| length != blob.size) {
            return Err(altered(format!("{} bytes", length.unwrap_or_default())));
        }
        let bytes = found.body.collect().await.map_err(|error| {
            BlobError::Unavailable(format!("GetObject on {}: the answer broke off: {error}", self.what()))
        })?;
        let bytes = bytes.to_vec();
        let digest = Digest::of(&bytes);
        if bytes.len() as u64 != blob.size || digest != blob.sha256 {
            return Err(altered(format!("{} bytes of {digest}", bytes.len())));
        }
        Ok(bytes)
    }

    async fn delete_run(&self, run: &RunId) -> Result<(), BlobError> {
        let prefix = format!("{}/", object_key(run.as_str()));
        // What is deleted is gone from the next listing, so each begins at the front.
        loop {
            let list = self.client.list_objects_v2().bucket(&self.bucket).prefix(&prefix).send().await;
            let found = list.map_err(|error| Fault::of(&error, "ListObjectsV2", &self.what()).of_read())?;
            let keys = found.contents().iter().filter_map(|object| object.key());
            let objects: Result<Vec<ObjectIdentifier>, _> =
                keys.map(|key| ObjectIdentifier::builder().key(key).build()).collect();
            let unusable = |error| BlobError::Unavailable(format!("DeleteObjects on {}: {error}", self.what()));
            let objects = objects.map_err(unusable)?;
            if objects.is_empty() {
                return Ok(());
            }
            let delete = Delete::builder().set_objects(Some(objects)).quiet(true).build().map_err(unusable)?;
            let delete = self.client.delete_objects().bucket(&self.bucket).delete(delete).send().await;
            let deleted = delete.map_err(|error| Fault::of(&error, "DeleteObjects", &self.what()))?;
            if let Some(error) = deleted.errors().first() {
                let [key, code, why] = [error.key(), error.code(), error.message()].map(Option::unwrap_or_default);
                let what = self.what();
                return Err(BlobError::Unavailable(format!("DeleteObjects on {what}: {key} is left, {code}: {why}")));
            }
        }
    }
}

impl Blobs {
    fn what(&self) -> String {
        format!("bucket {}", self.bucket)
    }
}

fn object_key(key: &str) -> String {
    format!("runs/{key}")
}
