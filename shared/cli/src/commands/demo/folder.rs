//! The demo's data folder: fresh and gone afterwards, unless somebody wants to see it.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::errors::CliError;

pub(super) enum Folder {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Folder {
    pub(super) fn prepare(data: Option<&Path>, keep: bool) -> Result<Self, CliError> {
        if let Some(data) = data {
            return Ok(Self::Kept(data.to_path_buf()));
        }
        let made = tempfile::Builder::new().prefix("stepwell-demo-").tempdir();
        let made = made.map_err(|source| CliError::System { doing: "make a temporary folder".into(), source })?;
        Ok(if keep { Self::Kept(made.keep()) } else { Self::Temporary(made) })
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Temporary(dir) => dir.path(),
            Self::Kept(dir) => dir,
        }
    }

    /// Where it is, if it stays.
    pub(super) fn kept(&self) -> Option<PathBuf> {
        match self {
            Self::Temporary(_) => None,
            Self::Kept(dir) => Some(dir.clone()),
        }
    }

    /// Lets it stay, whatever was planned.
    pub(super) fn keep(&mut self) -> PathBuf {
        if let Self::Temporary(dir) = self {
            dir.disable_cleanup(true);
        }
        self.path().to_path_buf()
    }
}
