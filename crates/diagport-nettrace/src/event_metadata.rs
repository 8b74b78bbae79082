//! What a stream says about an event before its first use.

/// The definition of one event: provider, id, name, level and field layout.
///
/// One definition describes one layout; keep one layout per provider and event id, because readers do.
// spec: NT4-META-1
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventMetadata {
    /// Provider name. ASCII is the safe choice; a NUL ends it.
    pub provider: String,
    /// Event id; readers keep 16 bits.
    pub event_id: u32,
    /// Event name, may be empty. A NUL ends it.
    pub event_name: String,
    /// Keyword bits.
    pub keywords: u64,
    /// Version of the layout; readers keep 8 bits.
    pub version: u32,
    /// 0 (always) to 5 (verbose).
    pub level: u32,
    /// 0 when there is none; 1 start, 2 stop, others as the event defines.
    pub opcode: u8,
    /// Fields in payload order.
    pub fields: Vec<Field>,
}

/// One field of an event or of an object inside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Field name, may be empty. A NUL ends it.
    pub name: String,
    /// Its type.
    pub field_type: FieldType,
}

impl Field {
    /// A field of that name and type.
    pub fn new(name: impl Into<String>, field_type: FieldType) -> Self {
        Self { name: name.into(), field_type }
    }
}

/// Type of a field. The payload form of each is in [`crate::Value`].
// spec: NT4-META-3
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FieldType {
    /// Four bytes, 0 or 1.
    Boolean,
    /// One UTF-16 unit.
    Char,
    /// One byte, signed.
    SByte,
    /// One byte.
    Byte,
    /// Two bytes, signed.
    Int16,
    /// Two bytes.
    UInt16,
    /// Four bytes, signed.
    Int32,
    /// Four bytes.
    UInt32,
    /// Eight bytes, signed.
    Int64,
    /// Eight bytes.
    UInt64,
    /// Four bytes, IEEE 754.
    Single,
    /// Eight bytes, IEEE 754.
    Double,
    /// Eight bytes: 100 ns units since 1601 UTC.
    DateTime,
    /// Sixteen bytes, the first three groups little endian.
    Guid,
    /// UTF-16 units up to a zero unit.
    String,
    /// A 16-bit count and that many elements. Needs the V2 parameter tag.
    Array(Box<Self>),
    /// The fields back to back.
    Object(Vec<Field>),
    /// A code this crate does not decode; it is kept as it stands.
    Other(i32),
}

impl FieldType {
    /// The number of the type in a definition.
    pub fn code(&self) -> i32 {
        match self {
            Self::Object(_) => 1,
            Self::Boolean => 3,
            Self::Char => 4,
            Self::SByte => 5,
            Self::Byte => 6,
            Self::Int16 => 7,
            Self::UInt16 => 8,
            Self::Int32 => 9,
            Self::UInt32 => 10,
            Self::Int64 => 11,
            Self::UInt64 => 12,
            Self::Single => 13,
            Self::Double => 14,
            Self::DateTime => 16,
            Self::Guid => 17,
            Self::String => 18,
            Self::Array(_) => 19,
            Self::Other(code) => *code,
        }
    }

    /// The type of a code that needs nothing after it; `None` for 1 (object) and 19 (array).
    pub(crate) fn from_plain_code(code: i32) -> Option<Self> {
        Some(match code {
            1 | 19 => return None,
            3 => Self::Boolean,
            4 => Self::Char,
            5 => Self::SByte,
            6 => Self::Byte,
            7 => Self::Int16,
            8 => Self::UInt16,
            9 => Self::Int32,
            10 => Self::UInt32,
            11 => Self::Int64,
            12 => Self::UInt64,
            13 => Self::Single,
            14 => Self::Double,
            16 => Self::DateTime,
            17 => Self::Guid,
            18 => Self::String,
            other => Self::Other(other),
        })
    }

    /// True when the type can only be described by the V2 parameter tag.
    // spec: NT4-META-4
    pub(crate) fn needs_v2(&self) -> bool {
        match self {
            Self::Array(_) => true,
            Self::Object(fields) => fields.iter().any(|field| field.field_type.needs_v2()),
            _ => false,
        }
    }
}
