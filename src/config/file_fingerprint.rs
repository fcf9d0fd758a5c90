//! Fingerprint of the configuration files, for the detection of changes.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{ConfigSource, Sources, folder};

/// Fingerprint of the configuration files and of the files that they refer to. Equal fingerprints: unchanged.
///
/// It consists of path, length, modification time and resolved symlink of each file. So it changes if a file
/// is written, replaced, or reached through another symlink, as when Kubernetes swaps mounted folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFingerprint(Vec<(PathBuf, Option<FileFingerprint>)>);

/// Fingerprint of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileFingerprint {
    length: u64,
    modified: Option<SystemTime>,
    /// Path without symlinks.
    target: PathBuf,
}

impl Sources {
    /// Fingerprint of the configuration files, and of `named`: secrets and certificates. `None` for a
    /// configuration that is not a file.
    pub fn fingerprint(&self, named: &[PathBuf]) -> Option<ConfigFingerprint> {
        let ConfigSource::Path(path) = &self.origin else { return None };
        let own = folder::list(path).unwrap_or_else(|_| vec![path.clone()]);
        let all = own.into_iter().chain(named.iter().cloned());
        Some(ConfigFingerprint(
            all.map(|path| {
                let fingerprint = FileFingerprint::from_path(&path);
                (path, fingerprint)
            })
            .collect(),
        ))
    }
}

impl FileFingerprint {
    /// `None`: missing file.
    fn from_path(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let target = fs::canonicalize(path).ok()?;
        Some(Self { length: metadata.len(), modified: metadata.modified().ok(), target })
    }
}
