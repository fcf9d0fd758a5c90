//! Files of recorded replies.

use std::{io::Read, path::Path};

use bytes::Bytes;

use super::Failure;
use crate::reply::Recording;

/// The longest recording that is read, in bytes.
const RECORDING_LIMIT_BYTES: u64 = 64 << 20;

/// Reads a recording; `-` is standard input.
pub(super) fn read(file: &Path) -> Result<Recording, Failure> {
    let shown = file.display();
    let mut recording = Vec::new();
    let limit_bytes = RECORDING_LIMIT_BYTES + 1;
    let read = if file == Path::new("-") {
        std::io::stdin().take(limit_bytes).read_to_end(&mut recording)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(limit_bytes).read_to_end(&mut recording))
    };
    if read.map_err(|error| Failure::told(format!("{shown}: {error}")))? as u64 > RECORDING_LIMIT_BYTES {
        return Err(Failure::told(format!(
            "{shown}: a recording may have {RECORDING_LIMIT_BYTES} bytes, found more"
        )));
    }
    Recording::read(&Bytes::from(recording)).map_err(|error| Failure::told(format!("{shown}: {error}")))
}
