//! The Framework object for `framework.json`: the API server's own bytes, decompressed.
//!
//! Decodes only the compressed part: a Framework of 10,000 Tasks has many megabytes, and an init container
//! has little memory.

use std::collections::BTreeMap;

use framework_api::codec;
use serde_json::value::RawValue;

/// Why an object cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The body is not a Framework.
    #[error("cannot understand the Framework that the API server sent: {0}")]
    NoFramework(#[from] serde_json::Error),
    /// The compressed statuses are broken.
    #[error("cannot decompress taskRoleStatuses: {0}")]
    Compressed(#[from] codec::DecodeError),
}

const RAW: &str = "taskRoleStatuses";
const COMPRESSED: &str = "taskRoleStatusesCompressed";

type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// The object with decompressed `taskRoleStatuses`. An object without compressed ones is returned unchanged.
pub fn decompress(object: Vec<u8>) -> Result<Vec<u8>, Error> {
    let mut whole: Fields<'_> = serde_json::from_slice(&object)?;
    let Some(mut status) = fields(&whole, "status")? else { return Ok(object) };
    let Some(mut attempt) = fields(&status, "attemptStatus")? else { return Ok(object) };
    let Some(compressed) = attempt.remove(COMPRESSED).filter(|value| !is_null(value)) else {
        return Ok(object);
    };
    let statuses: Box<RawValue>;
    if attempt.get(RAW).is_none_or(|value| is_null(value)) {
        let text: String = serde_json::from_str(compressed.get())?;
        statuses = serde_json::from_slice(&codec::decode(&text)?)?;
        attempt.insert(RAW.to_owned(), &statuses);
    }
    let attempt = serde_json::value::to_raw_value(&attempt)?;
    status.insert("attemptStatus".to_owned(), &attempt);
    let status = serde_json::value::to_raw_value(&status)?;
    whole.insert("status".to_owned(), &status);
    Ok(serde_json::to_vec(&whole)?)
}

fn fields<'a>(of: &Fields<'a>, name: &str) -> Result<Option<Fields<'a>>, Error> {
    Ok(of.get(name).map_or(Ok(None), |value| serde_json::from_str(value.get()))?)
}

fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

#[cfg(test)]
mod tests {
    use super::*;
    use framework_api::config::CompressionCodec;
    use serde_json::{Value, json};

    fn open(object: &Value) -> Result<Value, String> {
        let bytes = decompress(object.to_string().into_bytes()).map_err(|error| error.to_string())?;
        Ok(serde_json::from_slice(&bytes).unwrap())
    }

    fn compressed(codec: CompressionCodec, raw: &Value) -> Value {
        let text = codec::encode(raw.to_string().as_bytes(), codec, codec::Effort::Fast).unwrap();
        json!({"spec": {"x": 1}, "status": {"tasks": "0/1", "attemptStatus": {
            "id": 0, "taskRoleStatuses": null, "taskRoleStatusesCompressed": text,
        }}})
    }

    #[test]
    fn both_codecs_are_decompressed_and_other_fields_stay() {
        let raw = json!([{"name": "a", "taskStatuses": []}]);
        let expected = json!({"spec": {"x": 1}, "status": {"tasks": "0/1", "attemptStatus": {
            "id": 0, "taskRoleStatuses": raw.clone(),
        }}});
        for codec in [CompressionCodec::Zstd, CompressionCodec::Gzip] {
            assert_eq!(open(&compressed(codec, &raw)), Ok(expected.clone()));
        }
    }

    #[test]
    fn an_uncompressed_object_stays_byte_by_byte() {
        for text in [
            "{ \"spec\": {} }\n",
            "{\"status\": null, \"spec\": {}}",
            "{\"status\": {\"attemptStatus\": {\"taskRoleStatuses\": [ ]}}}",
        ] {
            assert_eq!(decompress(text.as_bytes().to_vec()).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn raw_statuses_win_over_compressed_ones() {
        let mut object = compressed(CompressionCodec::Zstd, &json!([{"name": "old"}]));
        object["status"]["attemptStatus"]["taskRoleStatuses"] = json!([{"name": "new"}]);
        let attempt = open(&object).unwrap()["status"]["attemptStatus"].clone();
        assert_eq!(attempt, json!({"id": 0, "taskRoleStatuses": [{"name": "new"}]}));
    }

    #[test]
    fn a_broken_part_is_named() {
        let mut object = compressed(CompressionCodec::Zstd, &json!([]));
        object["status"]["attemptStatus"]["taskRoleStatusesCompressed"] = "AAAA".into();
        assert!(open(&object).unwrap_err().starts_with("cannot decompress taskRoleStatuses: "));
        let error = decompress(b"<html>".to_vec()).unwrap_err().to_string();
        assert!(error.starts_with("cannot understand the Framework"), "{error}");
    }
}
