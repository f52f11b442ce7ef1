use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// The files a commit of everything would hold: tracked ones, and new ones that git does not ignore.
#[derive(Debug)]
pub struct Repository {
    root: PathBuf,
    files: BTreeSet<String>,
}

impl Repository {
    /// Lists the repository this crate was built in.
    ///
    /// # Errors
    /// Where git is missing, or the sources are not in a git checkout.
    pub fn open() -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
        // A checkout may belong to another user than the one who tests it: reading its list is safe.
        let listed = Command::new("git")
            .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&root)
            .output()?;
        if !listed.status.success() {
            return Err(io::Error::other(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim())));
        }
        let names = String::from_utf8(listed.stdout).map_err(io::Error::other)?;
        // A file deleted but not yet committed is still listed.
        let files = names.split_terminator('\0').filter(|name| root.join(name).exists()).map(str::to_owned).collect();
        Ok(Self { root, files })
    }

    /// The folder all paths here start from.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Every file, by its path from the root, in order.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str)
    }

    /// Whether there is such a file, or a folder with a file in it.
    pub fn holds(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.contains(path) || self.files().any(|file| Path::new(file).starts_with(path))
    }

    /// Whether a file's path ends with this one, cut between folders: `decide.rs`, `core/src/lib.rs`.
    pub fn holds_ending(&self, path: &str) -> bool {
        self.files().any(|file| Path::new(file).ends_with(path))
    }

    /// A file's text.
    ///
    /// # Errors
    /// Where it is missing or is not text; the message names it.
    pub fn read(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.root.join(path)).map_err(|error| io::Error::other(format!("{path}: {error}")))
    }
}
