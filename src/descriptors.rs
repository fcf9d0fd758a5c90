//! File descriptors: raises the limit of open files, and reserves descriptors that connections of clients and
//! upstreams can't use. So probes and metrics still get responses when all other descriptors are in use.

use std::{io, os::fd::AsRawFd};

use rustix::{
    io::Errno,
    process::{Resource, getrlimit, setrlimit},
};

/// Number of descriptors that connections to upstreams leave free, for the admin port and for reading files.
pub(crate) const ADMIN_RESERVE: u64 = 32;

/// Raises the soft limit of open files (`RLIMIT_NOFILE`) to the hard limit.
///
/// Service managers start programs with a soft limit of 1,024, because programs that use `select` can't
/// handle more.
pub(crate) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        // The current limit is enough for most deployments; `run` warns if it is too low.
        tracing::debug!(%error, "the limit of open files can't be raised");
    }
}

/// Soft limit of open files; `None` if it is unlimited.
pub(crate) fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Number of descriptors that connections of clients leave free, for connections to upstreams, programs, and
/// the admin port.
pub(crate) fn client_reserve() -> u64 {
    (limit().unwrap_or(u64::MAX) / 8).clamp(2 * ADMIN_RESERVE, 1024)
}

/// Checks that at least `reserve` descriptors are free in addition to `descriptor`. The system assigns the
/// lowest free number (POSIX, `open`), so all lower numbers are in use.
///
/// # Errors
///
/// `EMFILE` if fewer than `reserve` descriptors are free.
pub(crate) fn check_reserve(descriptor: &impl AsRawFd, reserve: u64) -> io::Result<()> {
    let Some(limit) = limit() else { return Ok(()) };
    let number = u64::try_from(descriptor.as_raw_fd()).unwrap_or_default();
    match number.saturating_add(reserve) < limit {
        true => Ok(()),
        false => Err(Errno::MFILE.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_free_descriptors_are_emfile() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let limit = limit().unwrap();
        check_reserve(&file, 1).unwrap();
        let error = check_reserve(&file, limit).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    }
}
