//! Requests and replies that have decoded.

use diagport_codec::{HResult, IpcMessage, Reply, Request};

/// A message that is a request encodes and decodes to itself, in bounded space; one that is not has an error to answer with. The same
/// message may be read as a reply.
pub fn check(message: &IpcMessage) {
    match Request::decode(message) {
        Err(error) => assert_ne!(error.hresult(), HResult::OK),
        Ok(request) => {
            let again = request.encode().expect("what decoded encodes");
            // A lone surrogate, 2 bytes, comes back as U+FFFD, 2 bytes too; only absent fields of old versions may be added.
            assert!(again.payload.len() <= message.payload.len() * 3 / 2, "{} bytes", again.payload.len());
            assert_eq!(Request::decode(&again).as_ref(), Ok(&request));
        }
    }
    if let Ok(reply) = Reply::decode(message) {
        assert_eq!(Reply::decode(&reply.encode()).as_ref(), Ok(&reply));
    }
}
