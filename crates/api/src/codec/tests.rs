//! The codec against itself, against the real programs, and against damaged and hostile input.

use super::*;

use std::process::{Command, Stdio};

use crate::status::FrameworkAttemptStatus;
use serde_json::json;

const BOTH: [CompressionCodec; 2] = [CompressionCodec::Zstd, CompressionCodec::Gzip];

fn base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// Typical input of the codecs: many entries that differ little.
fn statuses(tasks: i32) -> Vec<u8> {
    let entry = |index: i32| json!({"index": index, "podName": format!("job-worker-{index}")});
    serde_json::to_vec(&(0..tasks).map(entry).collect::<Vec<_>>()).unwrap()
}

/// The output of a real program for `input`.
fn tool(program: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}; install it: apt-get install {program}"));
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}");
    output.stdout
}

#[test]
fn encoded_data_decodes_to_itself() {
    for json in [b"[]".to_vec(), b"null".to_vec(), Vec::new(), statuses(3000)] {
        for codec in BOTH {
            for effort in [Effort::Fast, Effort::Good, Effort::Best] {
                let text = encode(&json, codec, effort).unwrap();
                assert_eq!(decode(&text).unwrap(), json, "{codec:?} {effort:?}");
            }
        }
    }
}

#[test]
fn a_value_is_encoded_as_its_json_is() {
    let value = json!([{"a": 1}, {"b": [null, "ü"]}]);
    for codec in BOTH {
        let text = encode_json(&value, codec, Effort::Best).unwrap();
        assert_eq!(decode(&text).unwrap(), serde_json::to_vec(&value).unwrap());
    }
}

#[test]
fn the_first_bytes_say_which_codec_it_is() {
    for (codec, magic) in
        [(CompressionCodec::Zstd, &ZSTD_MAGIC[..]), (CompressionCodec::Gzip, &GZIP_MAGIC[..])]
    {
        let text = encode(b"[]", codec, Effort::Fast).unwrap();
        assert!(BASE64_STANDARD.decode(text).unwrap().starts_with(magic), "{codec:?}");
    }
}

#[test]
fn real_zstd_and_gzip_streams_of_every_level_are_read() {
    let json = statuses(20_000);
    for (program, level) in [
        ("zstd", "-1"),
        ("zstd", "-19"),
        ("zstd", "--no-check"),
        ("gzip", "-1"),
        ("gzip", "-9"),
        ("gzip", "-n"),
    ] {
        let bytes = tool(program, &[level, "-c"], &json);
        assert_eq!(decode(&base64(&bytes)).unwrap(), json, "{program} {level}");
    }
}

#[test]
fn real_zstd_and_gzip_read_our_encoding() {
    let json = statuses(20_000);
    for (codec, program) in [(CompressionCodec::Zstd, "zstd"), (CompressionCodec::Gzip, "gzip")] {
        let bytes = BASE64_STANDARD.decode(encode(&json, codec, Effort::Best).unwrap()).unwrap();
        assert_eq!(tool(program, &["-dc"], &bytes), json, "{program}");
    }
}

/// A gzip member as Go's compress/gzip writes it: no name, no time, system unknown, and blocks ended by
/// flushes.
#[test]
fn the_gzip_of_the_reference_is_read() {
    let mut encoder =
        flate2::GzBuilder::new().operating_system(255).write(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(b"[{\"name\":").unwrap();
    encoder.flush().unwrap();
    encoder.write_all(b"\"worker\"}]").unwrap();
    let bytes = encoder.finish().unwrap();
    assert_eq!(bytes[..10], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
    assert_eq!(decode(&base64(&bytes)).unwrap(), b"[{\"name\":\"worker\"}]");
}

#[test]
fn a_stream_that_is_cut_anywhere_is_refused() {
    for codec in BOTH {
        let bytes = BASE64_STANDARD.decode(encode(&statuses(30), codec, Effort::Best).unwrap()).unwrap();
        for end in 4..bytes.len() {
            let error = decode(&base64(&bytes[..end])).unwrap_err();
            assert!(matches!(error, DecodeError::Truncated(_)), "{codec:?} cut at {end}: {error}");
        }
    }
}

#[test]
fn no_flipped_bit_goes_unnoticed_and_none_panics() {
    for codec in BOTH {
        let json = statuses(30);
        let bytes = BASE64_STANDARD.decode(encode(&json, codec, Effort::Best).unwrap()).unwrap();
        for at in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[at / 8] ^= 1 << (at % 8);
            // Some bits have no meaning; the decoded content never differs.
            if let Ok(decoded) = decode(&base64(&bad)) {
                assert_eq!(decoded, json, "{codec:?} bit {at}");
            }
        }
    }
}

#[test]
fn unknown_data_is_refused_with_its_first_bytes() {
    for (bytes, begins) in [
        (&b""[..], "nothing"),
        (b"[]", "5b 5d"),
        (b"BZh91AY", "42 5a 68 39"),
        (b"\x28\xb5\x2f", "28 b5 2f"),
        // A skippable frame, and the frame format of zstd 0.7.
        (b"\x50\x2a\x4d\x18\x04\0\0\0junk", "50 2a 4d 18"),
        (b"\x27\xb5\x2f\xfd\0\0\0", "27 b5 2f fd"),
    ] {
        assert_eq!(decode(&base64(bytes)), Err(DecodeError::UnknownMagic(begins.to_owned())));
    }
    assert!(matches!(decode("[{}]"), Err(DecodeError::Base64(_))));
    assert!(matches!(decode("KLUv/Q"), Err(DecodeError::Base64(_))), "without padding");
}

#[test]
fn trailing_data_is_refused() {
    for codec in BOTH {
        let one = BASE64_STANDARD.decode(encode(b"[]", codec, Effort::Fast).unwrap()).unwrap();
        let skippable = b"\x50\x2a\x4d\x18\x04\0\0\0junk".to_vec();
        let other = if codec == CompressionCodec::Zstd { GZIP_MAGIC.to_vec() } else { ZSTD_MAGIC.to_vec() };
        for more in [other, skippable, b"x".to_vec(), vec![0; 100]] {
            let two = [one.clone(), more.clone()].concat();
            assert_eq!(decode(&base64(&two)), Err(DecodeError::TrailingData(more.len())), "{codec:?}");
        }
    }
}

#[test]
fn frames_one_after_another_decode_to_one_text() {
    for codec in BOTH {
        let json = statuses(30);
        let parts = [&json[..100], &json[100..100], &json[100..]];
        let frame = |part: &&[u8]| super::frame(codec, Effort::Fast, |sink| sink.write_all(part)).unwrap();
        let frames: Vec<Vec<u8>> = parts.iter().map(frame).collect();
        let text = join(frames.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(decode(&text).unwrap(), json, "{codec:?}");
        let (program, option) = match codec {
            CompressionCodec::Zstd => ("zstd", "-dc"),
            CompressionCodec::Gzip => ("gzip", "-dc"),
        };
        assert_eq!(tool(program, &[option], &frames.concat()), json, "{codec:?}");
        let cut = BASE64_STANDARD.encode(&frames.concat()[..frames.concat().len() - 1]);
        assert!(matches!(decode(&cut), Err(DecodeError::Truncated(_))), "{codec:?}");
    }
}

#[test]
fn many_frames_and_much_in_all_of_them_are_refused() {
    for codec in BOTH {
        let repeated = |bytes: &[u8], times: usize| {
            let frame = super::frame(codec, Effort::Fast, |sink| sink.write_all(bytes)).unwrap();
            decode(&join(std::iter::repeat_n(&frame[..], times)).unwrap())
        };
        assert_eq!(repeated(b"", FRAMES_LIMIT), Ok(Vec::new()), "{codec:?}");
        assert_eq!(repeated(b"", FRAMES_LIMIT + 1), Err(DecodeError::TooManyFrames), "{codec:?}");
        let half = vec![0; 32 << 20];
        assert_eq!(repeated(&half, 2).unwrap().len(), 64 << 20, "{codec:?}");
        assert_eq!(repeated(&[&half[..], b"0"].concat(), 2), Err(DecodeError::TooLarge), "{codec:?}");
    }
}

#[test]
fn a_frame_that_wants_a_dictionary_or_a_large_window_is_refused() {
    // Magic; a descriptor with a one-byte dictionary id; window of 8 MiB; the id; an empty last block.
    let dictionary = [&ZSTD_MAGIC[..], &[0x01, 0x68, 0x07, 0x01, 0, 0]].concat();
    assert!(matches!(decode(&base64(&dictionary)), Err(DecodeError::Broken { .. })));
    let empty = |window: u8| [&ZSTD_MAGIC[..], &[0x00, window, 0x01, 0, 0]].concat();
    assert_eq!(decode(&base64(&empty(0x68))), Ok(Vec::new()), "8 MiB");
    assert!(matches!(decode(&base64(&empty(0x69))), Err(DecodeError::Broken { .. })), "9 MiB");
    let long = tool("zstd", &["--long=27", "-c"], &vec![0; 16 << 20]);
    assert!(matches!(decode(&base64(&long)), Err(DecodeError::Broken { .. })));
}

#[test]
fn a_bomb_is_refused_and_data_at_the_limit_is_not() {
    for codec in BOTH {
        let bomb = |size: u64| {
            encode_with(codec, Effort::Fast, |sink| {
                io::copy(&mut io::repeat(b' ').take(size), sink).map(|_| ())
            })
            .unwrap()
        };
        assert_eq!(decode(&bomb(DECODED_LIMIT + 1)), Err(DecodeError::TooLarge), "{codec:?}");
        let fits = decode(&bomb(DECODED_LIMIT)).unwrap();
        assert_eq!((fits.len() as u64, fits.capacity() as u64), (DECODED_LIMIT, DECODED_LIMIT), "{codec:?}");
    }
}

fn attempt(raw: serde_json::Value, compressed: Option<String>) -> FrameworkAttemptStatus {
    let mut attempt = json!({
        "id": 0, "startTime": "2026-01-01T00:00:00Z", "configMapName": "job-attempt", "taskRoleStatuses": raw,
    });
    if let Some(text) = compressed {
        attempt["taskRoleStatusesCompressed"] = text.into();
    }
    serde_json::from_value(attempt).unwrap()
}

#[test]
fn a_compressed_status_becomes_a_raw_one() {
    let roles = json!([{"name": "worker", "instanceUID": "u", "taskStatuses": []}]);
    for codec in BOTH {
        let text = encode_json(&roles, codec, Effort::Best).unwrap();
        let mut status = attempt(json!(null), Some(text));
        assert_eq!(status.decompress(), Ok(true));
        assert_eq!(status, attempt(roles.clone(), None));
        assert_eq!(status.decompress(), Ok(false));
        assert_eq!(status, attempt(roles.clone(), None));
    }
}

#[test]
fn a_raw_status_wins_over_a_compressed_one() {
    let mut status = attempt(json!([]), Some("not base64".to_owned()));
    assert_eq!(status.decompress(), Ok(false));
    assert_eq!(status, attempt(json!([]), None));
}

#[test]
fn a_status_that_cannot_be_decoded_stays_as_it_is() {
    let wrong = encode(br#"[{"name": 1}]"#, CompressionCodec::Zstd, Effort::Fast).unwrap();
    for (text, message) in [
        ("AAAA".to_owned(), "neither zstd nor gzip: it begins with 00 00 00"),
        (
            wrong,
            "the decoded text is not a list of TaskRole statuses: invalid type: integer `1`, \
             expected a string",
        ),
    ] {
        let mut status = attempt(json!(null), Some(text.clone()));
        let error = status.decompress().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
        assert_eq!(status, attempt(json!(null), Some(text)));
    }
}
