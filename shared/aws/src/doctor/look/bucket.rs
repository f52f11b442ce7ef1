//! The bucket, as S3 describes it.

use aws_sdk_s3::error::ProvideErrorMetadata as _;

use super::gap;
use crate::Aws;
use crate::doctor::facts::{Gap, Seen};

pub(super) async fn look(aws: &Aws) -> Seen<()> {
    let head = aws.blobs.client.head_bucket().bucket(&aws.blobs.bucket).send().await;
    head.map(|_| ()).map_err(|error| gap(&error, "HeadBucket", &what(aws)))
}

/// Whether all four kinds of public access are blocked. A bucket without this setting is open to policies.
pub(super) async fn closed(aws: &Aws) -> Seen<bool> {
    let get = aws.blobs.client.get_public_access_block().bucket(&aws.blobs.bucket).send().await;
    let block = match get {
        Ok(answer) => answer.public_access_block_configuration,
        Err(error) if error.code() == Some("NoSuchPublicAccessBlockConfiguration") => None,
        Err(error) => return Err(gap(&error, "GetPublicAccessBlock", &what(aws))),
    };
    Ok(block.is_some_and(|block| {
        let kinds = [
            block.block_public_acls(),
            block.ignore_public_acls(),
            block.block_public_policy(),
            block.restrict_public_buckets(),
        ];
        kinds.iter().all(|kind| *kind == Some(true))
    }))
}

/// By what objects are encrypted where a request says nothing.
pub(super) async fn encryption(aws: &Aws) -> Seen<String> {
    let get = aws.blobs.client.get_bucket_encryption().bucket(&aws.blobs.bucket).send().await;
    let answer = match get {
        Ok(answer) => answer,
        Err(error) if error.code() == Some("ServerSideEncryptionConfigurationNotFoundError") => {
            return Err(Gap::NotThere("no encryption is set on the bucket".into()));
        }
        Err(error) => return Err(gap(&error, "GetBucketEncryption", &what(aws))),
    };
    let rules = answer.server_side_encryption_configuration.map(|all| all.rules).unwrap_or_default();
    let default = rules.iter().find_map(|rule| rule.apply_server_side_encryption_by_default());
    let algorithm = default.map(|default| default.sse_algorithm().as_str().to_owned());
    algorithm.ok_or_else(|| Gap::NotThere("no encryption is set on the bucket".into()))
}

pub(super) fn what(aws: &Aws) -> String {
    format!("bucket {}", aws.blobs.bucket)
}
