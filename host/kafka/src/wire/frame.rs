//! One request as a frame, one frame as an answer.

use super::ask::Ask;
use super::shape;
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::RequestHeader;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};

/// A request with its length in front, as it goes over the wire.
///
/// # Errors
/// What can't be written in this version (an id that is too long).
pub(crate) fn encode<R: Ask>(request: &R, version: i16, correlation: i32, client_id: &str) -> Result<Bytes, String> {
    debug_assert!((R::SPOKEN.0..=R::SPOKEN.1).contains(&version), "{} v{version} is not spoken", R::NAME);
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation)
        .with_client_id(Some(StrBytes::from_string(client_id.to_owned())));
    let mut body = BytesMut::new();
    let written = header.encode(&mut body, R::header_version(version)).and_then(|()| request.encode(&mut body, version));
    written.map_err(|error| format!("{} can't be written: {error}", R::NAME))?;
    let length = i32::try_from(body.len()).map_err(|_| format!("{} is too long", R::NAME))?;
    let mut frame = BytesMut::with_capacity(body.len() + 4);
    frame.put_i32(length);
    frame.put(body);
    Ok(frame.freeze())
}

/// The answer to the request of that number, from a frame without its length.
///
/// # Errors
/// What is wrong with the bytes: another number, lengths that don't fit, values that are none.
pub(crate) fn decode<R: Ask>(frame: Vec<u8>, version: i16, correlation: i32) -> Result<R::Response, String> {
    let garbled = |fault: String| format!("the answer to {} v{version} can't be understood: {fault}", R::NAME);
    let (number, rest) = frame.split_first_chunk().ok_or_else(|| garbled(format!("{} bytes", frame.len())))?;
    let number = i32::from_be_bytes(*number);
    if number != correlation {
        return Err(garbled(format!("it answers request {number}, not {correlation}")));
    }
    let body = if R::Response::header_version(version) >= 1 { shape::skip_tags(rest).map_err(garbled)? } else { rest };
    shape::check(&R::SHAPE, version, body).map_err(garbled)?;
    let start = frame.len() - body.len();
    let mut body = Bytes::from(frame).slice(start..);
    R::Response::decode(&mut body, version).map_err(|error| garbled(error.to_string()))
}
