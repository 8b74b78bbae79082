//! GUIDs and the runtime cookie.

use std::fmt;

/// A GUID in the order of its bytes on the wire: `u32`, `u16`, `u16` little-endian, then eight bytes.
// spec: IPC-GUID-1
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// The all-zero GUID.
    pub const ZERO: Self = Self([0; 16]);

    /// From wire order.
    #[must_use]
    pub const fn from_bytes(wire: [u8; 16]) -> Self {
        Self(wire)
    }

    /// In wire order.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for Guid {
    /// The usual text, `8-4-4-4-12` lower-case hex digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a0, a1, a2, a3, b0, b1, c0, c1, d0, d1, rest @ ..] = self.0;
        let first = u32::from_le_bytes([a0, a1, a2, a3]);
        let second = u16::from_le_bytes([b0, b1]);
        let third = u16::from_le_bytes([c0, c1]);
        write!(f, "{first:08x}-{second:04x}-{third:04x}-{d0:02x}{d1:02x}-")?;
        rest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guid({self})")
    }
}

/// The GUID a server draws once at its start. The same one stands in every Advertise and every ProcessInfo reply
/// of that server; it is never all zero, which tools take for a runtime of the 3.1 era.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RuntimeCookie(pub Guid);

impl RuntimeCookie {
    /// From wire order.
    #[must_use]
    pub const fn from_bytes(wire: [u8; 16]) -> Self {
        Self(Guid(wire))
    }

    /// In wire order.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.0
    }
}

impl fmt::Display for RuntimeCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
