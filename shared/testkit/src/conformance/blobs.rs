//! Blobs: what comes back is what was stored, or a clear word.

use stepwell_core::limits::BLOB_BYTES_MAX;
use stepwell_core::{BlobRef, Digest, RunId};
use stepwell_ports::BlobError;

use super::bed::{Bed, run};

async fn put(bed: &Bed<'_>, run: &RunId, bytes: &[u8]) -> BlobRef {
    bed.backend.blobs.put(run, bytes).await.unwrap_or_else(|error| panic!("put of {} bytes: {error}", bytes.len()))
}

async fn comes_back(bed: &Bed<'_>, blob: &BlobRef, bytes: &[u8]) {
    let found = bed.backend.blobs.get(blob).await.unwrap_or_else(|error| panic!("get: {error}"));
    assert!(found == bytes, "{} other bytes came back, expected {}", found.len(), bytes.len());
}

async fn is_missing(bed: &Bed<'_>, blob: &BlobRef) {
    assert_eq!(bed.backend.blobs.get(blob).await, Err(BlobError::Missing { key: blob.key.clone() }));
}

async fn is_altered(bed: &Bed<'_>, blob: &BlobRef) {
    match bed.backend.blobs.get(blob).await {
        Err(BlobError::Altered { key, .. }) => assert_eq!(key, blob.key),
        Err(other) => panic!("expected an altered blob, got: {other}"),
        Ok(bytes) => panic!("expected an altered blob, got {} bytes", bytes.len()),
    }
}

pub(super) async fn a_blob_comes_back_as_it_was(bed: &Bed<'_>) {
    let megabyte: Vec<u8> =
        (0..1_048_576_u32).map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let run = run("r");
    for bytes in [&b""[..], b"x", b"\0\xff\n\"", "{\"ok\":\"ß\"}".as_bytes(), &megabyte] {
        let blob = put(bed, &run, bytes).await;
        assert_eq!(blob, BlobRef::of(&run, bytes));
        comes_back(bed, &blob, bytes).await;
    }
}

pub(super) async fn the_same_bytes_have_the_same_reference(bed: &Bed<'_>) {
    let first = put(bed, &run("r"), b"report").await;
    assert_eq!(put(bed, &run("r"), b"report").await, first);
    comes_back(bed, &first, b"report").await;
    let other = put(bed, &run("r1"), b"report").await;
    assert_ne!(other.key, first.key, "each run has its own");
}

pub(super) async fn a_missing_blob_is_said_to_be_missing(bed: &Bed<'_>) {
    is_missing(bed, &BlobRef::of(&run("r"), b"never stored")).await;
    put(bed, &run("r"), b"report").await;
    is_missing(bed, &BlobRef::of(&run("r"), b"never stored")).await;
    is_missing(bed, &BlobRef::of(&run("r1"), b"report")).await;
}

pub(super) async fn a_blob_of_another_digest_or_size_is_said_to_be_altered(bed: &Bed<'_>) {
    let blob = put(bed, &run("r"), b"report").await;
    is_altered(bed, &BlobRef { sha256: Digest::of(b"another"), ..blob.clone() }).await;
    is_altered(bed, &BlobRef { size: 5, ..blob.clone() }).await;
    is_altered(bed, &BlobRef { size: 7, ..blob.clone() }).await;
    comes_back(bed, &blob, b"report").await;
}

pub(super) async fn a_blob_over_the_limit_is_refused(bed: &Bed<'_>) {
    // Never touched, so never really there.
    let bytes = vec![0; BLOB_BYTES_MAX + 1];
    let (size, limit) = (bytes.len() as u64, BLOB_BYTES_MAX as u64);
    assert_eq!(bed.backend.blobs.put(&run("r"), &bytes).await, Err(BlobError::TooLarge { size, limit }));
}

pub(super) async fn the_blobs_of_one_run_are_deleted(bed: &Bed<'_>) {
    let mut kept = Vec::new();
    for name in ["r1", "r.1", "R", "q"] {
        kept.push(put(bed, &run(name), b"report").await);
    }
    let gone = [put(bed, &run("r"), b"report").await, put(bed, &run("r"), b"other").await];
    bed.backend.blobs.delete_run(&run("r")).await.expect("deleting");
    for blob in &gone {
        is_missing(bed, blob).await;
    }
    for blob in &kept {
        comes_back(bed, blob, b"report").await;
    }
    bed.backend.blobs.delete_run(&run("r")).await.expect("deleting none is no error");
    bed.backend.blobs.delete_run(&run("unknown")).await.expect("deleting none is no error");
    let again = put(bed, &run("r"), b"report").await;
    comes_back(bed, &again, b"report").await;
}

pub(super) async fn a_blob_altered_from_outside_is_said_to_be(bed: &Bed<'_>) {
    let blob = put(bed, &run("r"), b"report").await;
    for bytes in [&b"reporT"[..], b"repor", b"report!", b""] {
        bed.factory.tamper(&blob, Some(bytes)).await;
        is_altered(bed, &blob).await;
    }
}

pub(super) async fn a_blob_deleted_from_outside_is_said_to_be_missing(bed: &Bed<'_>) {
    let blob = put(bed, &run("r"), b"report").await;
    bed.factory.tamper(&blob, None).await;
    is_missing(bed, &blob).await;
}

pub(super) async fn a_damaged_blob_is_mended_by_storing_it_again(bed: &Bed<'_>) {
    let blob = put(bed, &run("r"), b"report").await;
    bed.factory.tamper(&blob, Some(b"reporT")).await;
    put(bed, &run("r"), b"report").await;
    comes_back(bed, &blob, b"report").await;
    bed.factory.tamper(&blob, None).await;
    put(bed, &run("r"), b"report").await;
    comes_back(bed, &blob, b"report").await;
}
