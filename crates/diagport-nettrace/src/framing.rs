//! Bytes and limits of the container: head, tags, object names, block sizes.

/// First eight bytes of every V4 and V6 stream.
// spec: NT4-HEAD-1
pub(crate) const MAGIC: &[u8; 8] = b"Nettrace";
/// Follows the magic in V4 as a length-prefixed string; a V3 stream starts with it.
pub(crate) const SIGNATURE: &[u8; 20] = b"!FastSerialization.1";
/// Magic, signature length and signature.
pub(crate) const HEAD_BYTES: usize = 32;

/// End of the stream, and "the type object has no type".
// spec: NT4-OBJ-1
pub(crate) const TAG_NULL: u8 = 0x01;
/// Starts objects in V3 streams.
pub(crate) const TAG_BEGIN: u8 = 0x04;
/// Starts objects in V4 streams.
pub(crate) const TAG_BEGIN_PRIVATE: u8 = 0x05;
/// Ends a type object, and an object.
pub(crate) const TAG_END: u8 = 0x06;

pub(crate) const TRACE_NAME: &str = "Trace";
pub(crate) const EVENT_BLOCK_NAME: &str = "EventBlock";
pub(crate) const METADATA_BLOCK_NAME: &str = "MetadataBlock";
pub(crate) const STACK_BLOCK_NAME: &str = "StackBlock";
pub(crate) const SEQUENCE_POINT_BLOCK_NAME: &str = "SPBlock";

/// Version and minimum reader version of the Trace object: also when V5 tags are used.
pub(crate) const TRACE_VERSION: u32 = 4;
/// Version and minimum reader version of every block.
pub(crate) const BLOCK_VERSION: u32 = 2;

/// Header of event and metadata blocks, counting its own size field.
// spec: NT4-BLOCK-2
pub(crate) const BLOCK_HEADER_BYTES: u16 = 20;
/// Block header flag: the blobs have compressed headers.
pub(crate) const FLAG_COMPRESSED: u16 = 1;

/// Blob bytes of a block stay below this, as the runtime keeps them.
// spec: NT4-LIMIT-1
pub(crate) const MAX_BLOB_BYTES: usize = 102_400;

/// Largest event payload, in bytes, that every known reader takes.
// spec: NT4-LIMIT-2
pub const MAX_EVENT_PAYLOAD_BYTES: usize = 65_535;

/// Largest stack, in bytes, that every known reader takes.
// spec: NT4-STACK-3
pub(crate) const MAX_STACK_BYTES: usize = 65_527;

/// The processor number that means "unknown"; what all current runtimes write.
// spec: NT4-BLOB-4
pub const UNKNOWN_PROCESSOR: u32 = 0xFFFF_FFFF;

/// Zero bytes between a block's size field, which ends at `position`, and its body.
// spec: NT4-BLOCK-1
pub(crate) fn padding_bytes(position: u64) -> usize {
    usize::try_from(position.wrapping_neg() % 4).expect("invariant: below 4")
}
