//! Large values by reference.

use core::fmt;
use core::marker::PhantomData;

use serde::{Deserialize, Serialize};
use stepwell_core::BlobRef;

/// A value of type `T` that lies in the blob store; the state only holds where, how long, and its SHA-256.
///
/// Made with [`Cx::blob`](crate::Cx::blob), read with [`Cx::load`](crate::Cx::load).
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct Blob<T> {
    pub(crate) reference: BlobRef,
    #[serde(skip)]
    _holds: PhantomData<fn() -> T>,
}

impl<T> Blob<T> {
    pub(crate) fn new(reference: BlobRef) -> Self {
        Self { reference, _holds: PhantomData }
    }

    /// Length in bytes.
    pub fn size(&self) -> u64 {
        self.reference.size
    }
}

impl<T> Clone for Blob<T> {
    fn clone(&self) -> Self {
        Self::new(self.reference.clone())
    }
}

impl<T> PartialEq for Blob<T> {
    fn eq(&self, other: &Self) -> bool {
        self.reference == other.reference
    }
}

impl<T> fmt::Debug for Blob<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({}, {} bytes)", self.reference.key, self.reference.size)
    }
}
