//! `response.recording`: a reply that lies in a file beside the configuration.

use std::{fs::File, io::Read, path::Path};

use bytes::Bytes;

use super::{section::Section, source::why, units, upstreams::scalar};
use crate::model::{Choice, Recording, UpstreamResponse};

/// The longest file of recorded replies that an example may name, in bytes.
const RECORDING_LIMIT_BYTES: u64 = 16 << 20;

/// Reads the reply that `recording` names, and `entry` chooses. `None` when that can't be done; it has been reported
/// then.
pub(super) fn read(section: &Section<'_, '_>) -> Option<UpstreamResponse> {
    let report = section.report;
    let (node, name) = section.text_node("recording")?;
    let choice = match section.get("entry") {
        Some(entry) => Some(scalar(report, entry, "`entry`")?.parse::<Choice>().unwrap_or(Choice::Last)),
        None => None,
    };
    let Some(folder) = report.files().folder(node.span) else {
        let help = "write the reply under `body`";
        report.error(node.span, "a configuration that is not a file has no files beside it", help);
        return None;
    };
    match bytes(&folder.join(name)) {
        Err(message) => {
            let help = "name a file by its path from the folder of this one: `replies/ok.http`";
            report.error(node.span, format!("the recording {message}"), help);
            None
        }
        Ok(bytes) => Recording::read(&bytes)
            .and_then(|recording| recording.choose(choice.as_ref()))
            .map_err(|error| {
                let help = "keep what `curl -i` prints, the body alone, or a HAR file";
                report.error(node.span, format!("the recording is not a reply: {error}"), help);
            })
            .ok(),
    }
}

fn bytes(path: &Path) -> Result<Bytes, String> {
    let metadata = std::fs::metadata(path).map_err(|error| why(&error))?;
    // A pipe would be waited for, and a device has no end.
    if !metadata.is_file() {
        return Err("is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(RECORDING_LIMIT_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| why(&error))?;
    if bytes.len() as u64 > RECORDING_LIMIT_BYTES {
        return Err(format!("is longer than {}", units::show_size(RECORDING_LIMIT_BYTES)));
    }
    Ok(bytes.into())
}
