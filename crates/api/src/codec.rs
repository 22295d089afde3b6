//! The compressed form of `taskRoleStatuses`: base64 of zstd frames, or of gzip members, of its JSON.
//!
//! Several frames stand one after another, and decode to one text (RFC 8878 section 3, RFC 1952 section 2.2).
//! So a writer that changes a part of the JSON compresses that part alone.
//!
//! The input is not trusted. Its first bytes name the codec; any other beginning is refused, and so are
//! bytes after the frames. A text that decodes to more than [`DECODED_LIMIT`], or that asks for a larger
//! window than a reader must grant, is refused before memory is spent on it. It is decoded once without
//! output, to learn its size and check its checksum, and then into a buffer of that size.

use std::io::{self, BufWriter, Read, Write};

use base64::prelude::{BASE64_STANDARD, Engine};
use base64::write::EncoderStringWriter;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use zstd::zstd_safe::{CParameter, Strategy};

use crate::config::CompressionCodec;

/// The most bytes that a compressed text may decode to.
pub const DECODED_LIMIT: u64 = 64 << 20;

/// The most frames or members of a compressed text: each costs its decoder, even if it is empty.
pub const FRAMES_LIMIT: usize = 1000;

/// 8 MiB: the window that RFC 8878 asks every reader to grant. We grant no larger one.
const WINDOW_LOG_MAX: u32 = 23;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Serializers write a few bytes at a time; an encoder wants many.
const BUFFER: usize = 32 << 10;

/// The work that goes into a small result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Little: the result will be replaced soon. 1 to 2 ms for 1,000 Tasks.
    Fast,
    /// Some: the result is kept. 10 to 20 ms for 1,000 Tasks, and an eighth smaller.
    Good,
    /// As much as there is: the result has to fit. Half a second for 1,000 Tasks, and a fifth smaller.
    Best,
}

/// Why JSON could not be compressed.
#[derive(Debug, thiserror::Error)]
#[error("cannot compress: {0}")]
pub struct EncodeError(#[from] io::Error);

/// Why a compressed text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not base64, as JSON carries bytes.
    #[error("not base64: {0}")]
    Base64(String),
    /// It begins like neither codec.
    #[error("neither zstd nor gzip: it begins with {0}")]
    UnknownMagic(String),
    /// The data ends too early.
    #[error("the {0} data is cut short")]
    Truncated(&'static str),
    /// The data is damaged, or asks for a larger window than is granted.
    #[error("the {codec} data cannot be decoded: {reason}")]
    Broken {
        /// The codec of the data.
        codec: &'static str,
        /// The reason that the decoder gives.
        reason: String,
    },
    /// It would decode to more than [`DECODED_LIMIT`].
    #[error("it decodes to more than {} MiB", DECODED_LIMIT >> 20)]
    TooLarge,
    /// It has more than [`FRAMES_LIMIT`] frames or members.
    #[error("it has more than {FRAMES_LIMIT} frames")]
    TooManyFrames,
    /// Bytes follow the end of the data.
    #[error("{0} bytes follow the end of the compressed data")]
    TrailingData(usize),
    /// The decoded JSON is not a list of TaskRole statuses.
    #[error("the decoded text is not a list of TaskRole statuses: {0}")]
    Json(String),
}

/// Compresses JSON.
pub fn encode(json: &[u8], codec: CompressionCodec, effort: Effort) -> Result<String, EncodeError> {
    encode_with(codec, effort, |sink| sink.write_all(json))
}

/// Compresses the JSON of `value` without holding all of it in memory.
pub fn encode_json(
    value: &impl Serialize,
    codec: CompressionCodec,
    effort: Effort,
) -> Result<String, EncodeError> {
    encode_with(codec, effort, |sink| serde_json::to_writer(sink, value).map_err(io::Error::from))
}

/// Compresses a part of the JSON, which `fill` writes, into a frame or member of its own. [`join`] makes the
/// text of all parts.
pub fn frame(
    codec: CompressionCodec,
    effort: Effort,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<Vec<u8>, EncodeError> {
    Ok(compress(Vec::new(), codec, effort, |sink| fill(sink))?)
}

/// The compressed text of these frames, in their order.
pub fn join<'a>(frames: impl IntoIterator<Item = &'a [u8]>) -> Result<String, EncodeError> {
    let mut text = EncoderStringWriter::new(&BASE64_STANDARD);
    frames.into_iter().try_for_each(|frame| text.write_all(frame))?;
    Ok(text.into_inner())
}

/// Decompresses the text of either codec.
pub fn decode(text: &str) -> Result<Vec<u8>, DecodeError> {
    let bytes = BASE64_STANDARD.decode(text).map_err(|error| DecodeError::Base64(error.to_string()))?;
    let size = unpack(&bytes, &mut io::sink())?;
    let mut json = Vec::with_capacity(usize::try_from(size).map_err(|_| DecodeError::TooLarge)?);
    unpack(&bytes, &mut json)?;
    Ok(json)
}

type Sink<'a> = BufWriter<&'a mut dyn Write>;

fn encode_with(
    codec: CompressionCodec,
    effort: Effort,
    fill: impl FnOnce(&mut Sink<'_>) -> io::Result<()>,
) -> Result<String, EncodeError> {
    Ok(compress(EncoderStringWriter::new(&BASE64_STANDARD), codec, effort, fill)?.into_inner())
}

fn compress<W: Write>(
    into: W,
    codec: CompressionCodec,
    effort: Effort,
    fill: impl FnOnce(&mut Sink<'_>) -> io::Result<()>,
) -> io::Result<W> {
    let through = |encoder: &mut dyn Write| {
        let mut sink = BufWriter::with_capacity(BUFFER, encoder);
        fill(&mut sink)?;
        sink.flush()
    };
    match codec {
        CompressionCodec::Zstd => {
            let mut encoder = zstd::Encoder::new(into, 0)?;
            for parameter in parameters(effort) {
                encoder.set_parameter(parameter)?;
            }
            through(&mut encoder)?;
            encoder.finish()
        }
        CompressionCodec::Gzip => {
            let level = match effort {
                // The fastest level takes 1.4 times the space, too much for the texts of ten thousand Tasks.
                Effort::Fast => flate2::Compression::new(6),
                Effort::Good | Effort::Best => flate2::Compression::best(),
            };
            let mut encoder = GzEncoder::new(into, level);
            through(&mut encoder)?;
            encoder.finish()
        }
    }
}

/// Small windows and tables: each Task's entry is much like the one before it, a kilobyte away. A larger
/// window finds nothing better, takes longer, and needs more memory in every reader.
fn parameters(effort: Effort) -> Vec<CParameter> {
    let level = match effort {
        Effort::Fast => vec![CParameter::CompressionLevel(1), CParameter::WindowLog(18)],
        Effort::Good => vec![
            CParameter::CompressionLevel(12),
            CParameter::WindowLog(18),
            // The tables of the level are made for any window, and take 40 MB.
            CParameter::HashLog(17),
            CParameter::ChainLog(17),
        ],
        Effort::Best => vec![
            CParameter::CompressionLevel(19),
            CParameter::WindowLog(18),
            CParameter::HashLog(17),
            CParameter::ChainLog(17),
            CParameter::SearchLog(5),
            CParameter::MinMatch(5),
            CParameter::TargetLength(999),
            CParameter::Strategy(Strategy::ZSTD_btultra2),
        ],
    };
    level.into_iter().chain([CParameter::ChecksumFlag(true)]).collect()
}

/// Decodes all of `bytes`. Returns the decoded size.
fn unpack(bytes: &[u8], into: &mut impl Write) -> Result<u64, DecodeError> {
    let (codec, magic) = if bytes.starts_with(&ZSTD_MAGIC) {
        ("zstd", &ZSTD_MAGIC[..])
    } else if bytes.starts_with(&GZIP_MAGIC) {
        ("gzip", &GZIP_MAGIC[..])
    } else {
        return Err(unknown_magic(bytes));
    };
    let (mut rest, mut size) = (bytes, 0);
    for _ in 0..FRAMES_LIMIT {
        let most = DECODED_LIMIT - size;
        let copied = match codec {
            "zstd" => unpack_zstd(&mut rest, most, into),
            _ => copy(GzDecoder::new(&mut rest), most, into),
        };
        size += copied.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => DecodeError::Truncated(codec),
            _ => DecodeError::Broken { codec, reason: error.to_string() },
        })?;
        match rest.len() {
            _ if size > DECODED_LIMIT => return Err(DecodeError::TooLarge),
            0 => return Ok(size),
            more if !rest.starts_with(magic) => return Err(DecodeError::TrailingData(more)),
            _ => {}
        }
    }
    Err(DecodeError::TooManyFrames)
}

fn unpack_zstd(rest: &mut &[u8], most: u64, into: &mut impl Write) -> io::Result<u64> {
    let mut decoder = zstd::Decoder::with_buffer(rest)?.single_frame();
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    copy(decoder, most, into)
}

/// Copies one byte more than is allowed, at most: enough to know.
fn copy(from: impl Read, most: u64, into: &mut impl Write) -> io::Result<u64> {
    io::copy(&mut from.take(most + 1), into)
}

fn unknown_magic(bytes: &[u8]) -> DecodeError {
    let first: Vec<String> = bytes.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    DecodeError::UnknownMagic(if first.is_empty() { "nothing".to_owned() } else { first.join(" ") })
}

#[cfg(test)]
mod tests;
