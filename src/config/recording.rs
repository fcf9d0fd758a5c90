//! `response.recording`: a recorded response in a file next to the configuration.

use std::{fs::File, io::Read, path::Path};

use bytes::Bytes;

use super::{code::Code, source::describe_io_error, units};
use crate::{
    model::{EntryChoice, Recording, UpstreamResponse},
    settings::{
        keys::ValueKind,
        section::{Checked, Cursor, Invalid, Setting},
        value::text_of,
    },
};

/// Maximum size of a file with recorded responses, in bytes.
const RECORDING_LIMIT_BYTES: u64 = 16 << 20;

/// Response from the file `recording`, selected by `entry` if it has several.
pub(super) struct RecordedResponse(pub(super) UpstreamResponse);

impl Setting for RecordedResponse {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let name = text_of(value)?;
        let choice = value.sibling("entry").and_then(|entry| entry.scalar());
        let choice = choice.map(|text| EntryChoice::from(text.as_str()));
        let Some(folder) = value.context.report.files().folder(value.node.span) else {
            let message = "`recording` needs a configuration file, and this configuration is not a file";
            return value.reject(Invalid::new(message, "write the response under `body`"));
        };
        let bytes = bytes(&folder.join(name)).or_else(|message| {
            let help = "write a path relative to the folder of this file: `responses/ok.http`";
            value.reject(
                Invalid::new(format!("the recording {message}"), help).with_code(Code::UnreadableFile),
            )
        })?;
        let read = Recording::read(&bytes).and_then(|recording| recording.choose(choice.as_ref()));
        read.map(Self).or_else(|error| {
            let help = "record the output of `curl -i`, a body, or a HAR file";
            value.reject(
                Invalid::new(format!("the recording is not a response: {error}"), help)
                    .with_code(Code::InvalidRecording),
            )
        })
    }
}

fn bytes(path: &Path) -> Result<Bytes, String> {
    let metadata = std::fs::metadata(path).map_err(|error| describe_io_error(&error))?;
    // Reading a pipe could block, and a device has no end.
    if !metadata.is_file() {
        return Err("is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(RECORDING_LIMIT_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| describe_io_error(&error))?;
    if bytes.len() as u64 > RECORDING_LIMIT_BYTES {
        return Err(format!("is longer than {}", units::format_size(RECORDING_LIMIT_BYTES)));
    }
    Ok(bytes.into())
}
