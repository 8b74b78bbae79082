//! The Advertise a server sends first on every connection it makes.

use crate::reader::Reader;
use crate::writer::Writer;
use crate::{DecodeError, RuntimeCookie, limits};

/// The 8 bytes an Advertise begins with.
pub const ADVERTISE_MAGIC: [u8; 8] = *b"ADVR_V1\0";

/// Who is calling. One way, no answer.
// spec: ADV-1
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Advertise {
    /// The server's cookie.
    pub cookie: RuntimeCookie,
    /// The server's process id.
    pub process_id: u64,
}

/// What the first bytes of a reverse connection amount to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdvertisePrefix {
    /// Nothing wrong so far; this many more bytes are needed.
    Incomplete {
        /// More bytes to read, never 0.
        needed_bytes: usize,
    },
    /// The input begins with this Advertise of [`limits::ADVERTISE_BYTES`] bytes.
    Complete(Advertise),
}

impl Advertise {
    /// The 34 bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; limits::ADVERTISE_BYTES] {
        let mut writer = Writer::new();
        writer.raw(&ADVERTISE_MAGIC);
        writer.guid(self.cookie.0);
        writer.u64(self.process_id);
        writer.u16(0);
        let mut bytes = [0; limits::ADVERTISE_BYTES];
        bytes.iter_mut().zip(writer.into_bytes()).for_each(|(byte, value)| *byte = value);
        bytes
    }

    /// Reads the 34 bytes. The last two are ignored.
    ///
    /// # Errors
    /// [`DecodeError::BadAdvertiseMagic`].
    // spec: ADV-2
    pub fn decode(bytes: &[u8; limits::ADVERTISE_BYTES]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        if reader.array("magic")? != ADVERTISE_MAGIC {
            return Err(DecodeError::BadAdvertiseMagic);
        }
        let cookie = RuntimeCookie(reader.guid("runtimeCookie")?);
        let process_id = reader.u64("processId")?;
        reader.u16("future")?;
        Ok(Self { cookie, process_id })
    }

    /// Judges the beginning of an input that may still grow; the magic as soon as it is there.
    ///
    /// # Errors
    /// [`DecodeError::BadAdvertiseMagic`].
    // spec: ADV-3
    pub fn decode_prefix(bytes: &[u8]) -> Result<AdvertisePrefix, DecodeError> {
        if bytes.first_chunk().is_some_and(|magic| *magic != ADVERTISE_MAGIC) {
            return Err(DecodeError::BadAdvertiseMagic);
        }
        match bytes.first_chunk() {
            Some(whole) => Self::decode(whole).map(AdvertisePrefix::Complete),
            None => Ok(AdvertisePrefix::Incomplete {
                needed_bytes: limits::ADVERTISE_BYTES.saturating_sub(bytes.len()),
            }),
        }
    }
}
