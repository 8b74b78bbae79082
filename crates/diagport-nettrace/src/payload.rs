//! Field values of an event.

use std::fmt;

use crate::cursor::{Cursor, OutOfBytes, utf16_lossy};
use crate::{Field, FieldType, UtcTime};

/// One field value.
///
/// `Display` gives one stable line: text in quotes with escapes, arrays in brackets (characters as text), objects in braces.
// spec: NT4-META-3
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Four payload bytes; anything but 0 in the first is true.
    Boolean(bool),
    /// One UTF-16 unit, which may be half of a pair.
    Char(u16),
    /// One byte, signed.
    SByte(i8),
    /// One byte.
    Byte(u8),
    /// Two bytes, signed.
    Int16(i16),
    /// Two bytes.
    UInt16(u16),
    /// Four bytes, signed.
    Int32(i32),
    /// Four bytes.
    UInt32(u32),
    /// Eight bytes, signed.
    Int64(i64),
    /// Eight bytes.
    UInt64(u64),
    /// IEEE 754, four bytes.
    Single(f32),
    /// IEEE 754, eight bytes.
    Double(f64),
    /// Units of 100 ns since 1601-01-01 UTC.
    DateTime(i64),
    /// As on the wire: the first three groups little endian.
    Guid([u8; 16]),
    /// Text; lone surrogates become U+FFFD.
    String(String),
    /// Elements of one type.
    Array(Vec<Self>),
    /// Named members in payload order.
    Object(Vec<(String, Self)>),
}

/// Why a payload does not follow its definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The payload ends before the field does.
    #[error("the payload ends inside field {field:?}")]
    TooShort {
        /// The field at the top level.
        field: String,
    },
    /// A type that is not decoded, for example 15 (decimal).
    #[error("field {field:?} has the unsupported type {code}")]
    UnsupportedType {
        /// The field at the top level.
        field: String,
        /// Its code.
        code: i32,
    },
    /// Arrays of things without size, which would make much of few bytes.
    #[error("field {field:?} holds more values than its payload can justify")]
    TooManyValues {
        /// The field at the top level.
        field: String,
    },
}

/// Memory the values of a payload may take for each payload byte, and on top.
// spec: NT4-READ-7
const BUDGET_PER_BYTE: usize = 256;
const BUDGET_BASE: usize = 65_536;

enum Problem {
    TooShort,
    Unsupported(i32),
    TooMany,
}

impl From<OutOfBytes> for Problem {
    fn from(_: OutOfBytes) -> Self {
        Self::TooShort
    }
}

/// Decodes the fields of a payload, in order. Bytes behind the last field are left alone: a newer writer may add fields.
///
/// # Errors
/// [`PayloadError`] names the top-level field that could not be read.
pub fn decode_payload(fields: &[Field], payload: &[u8]) -> Result<Vec<(String, Value)>, PayloadError> {
    let mut cursor = Cursor::new(payload);
    let mut budget = payload.len().saturating_mul(BUDGET_PER_BYTE).saturating_add(BUDGET_BASE);
    let mut values = Vec::new();
    for field in fields {
        let value = value(&field.field_type, &mut cursor, &mut budget).map_err(|problem| {
            let field = field.name.clone();
            match problem {
                Problem::TooShort => PayloadError::TooShort { field },
                Problem::Unsupported(code) => PayloadError::UnsupportedType { field, code },
                Problem::TooMany => PayloadError::TooManyValues { field },
            }
        })?;
        values.push((field.name.clone(), value));
    }
    Ok(values)
}

fn spend(budget: &mut usize, bytes: usize) -> Result<(), Problem> {
    *budget = budget.checked_sub(bytes).ok_or(Problem::TooMany)?;
    Ok(())
}

fn value(field_type: &FieldType, cursor: &mut Cursor<'_>, budget: &mut usize) -> Result<Value, Problem> {
    spend(budget, size_of::<Value>())?;
    Ok(match field_type {
        FieldType::Boolean => Value::Boolean(cursor.array::<4>()?[0] != 0),
        FieldType::Char => Value::Char(cursor.u16()?),
        FieldType::SByte => Value::SByte(i8::from_le_bytes(cursor.array()?)),
        FieldType::Byte => Value::Byte(cursor.u8()?),
        FieldType::Int16 => Value::Int16(i16::from_le_bytes(cursor.array()?)),
        FieldType::UInt16 => Value::UInt16(cursor.u16()?),
        FieldType::Int32 => Value::Int32(cursor.i32()?),
        FieldType::UInt32 => Value::UInt32(cursor.u32()?),
        FieldType::Int64 => Value::Int64(cursor.i64()?),
        FieldType::UInt64 => Value::UInt64(cursor.u64()?),
        FieldType::Single => Value::Single(f32::from_le_bytes(cursor.array()?)),
        FieldType::Double => Value::Double(f64::from_le_bytes(cursor.array()?)),
        FieldType::DateTime => Value::DateTime(cursor.i64()?),
        FieldType::Guid => Value::Guid(cursor.array()?),
        FieldType::String => Value::String(cursor.utf16z()?),
        FieldType::Array(element) => {
            let count = cursor.u16()?;
            let mut elements = Vec::new();
            for _ in 0..count {
                elements.push(value(element, cursor, budget)?);
            }
            Value::Array(elements)
        }
        FieldType::Object(members) => {
            let mut named = Vec::new();
            for member in members {
                spend(budget, size_of::<String>() + member.name.len())?;
                named.push((member.name.clone(), value(&member.field_type, cursor, budget)?));
            }
            Value::Object(named)
        }
        FieldType::Other(code) => return Err(Problem::Unsupported(*code)),
    })
}

impl Value {
    /// The text of an array of characters; `None` for any other value.
    pub fn char_array_text(&self) -> Option<String> {
        let Self::Array(elements) = self else { return None };
        if elements.is_empty() {
            return None;
        }
        let units = elements.iter().map(|element| match element {
            Self::Char(unit) => Some(unit.to_le_bytes()),
            _ => None,
        });
        Some(utf16_lossy(&units.collect::<Option<Vec<_>>>()?))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Char(unit) => write!(f, "{:?}", utf16_lossy(&[unit.to_le_bytes()])),
            Self::SByte(value) => write!(f, "{value}"),
            Self::Byte(value) => write!(f, "{value}"),
            Self::Int16(value) => write!(f, "{value}"),
            Self::UInt16(value) => write!(f, "{value}"),
            Self::Int32(value) => write!(f, "{value}"),
            Self::UInt32(value) => write!(f, "{value}"),
            Self::Int64(value) => write!(f, "{value}"),
            Self::UInt64(value) => write!(f, "{value}"),
            Self::Single(value) => write!(f, "{value}"),
            Self::Double(value) => write!(f, "{value}"),
            Self::DateTime(filetime) => f.write_str(&filetime_text(*filetime)),
            Self::Guid(bytes) => f.write_str(&guid_text(bytes)),
            Self::String(text) => write!(f, "{text:?}"),
            Self::Array(elements) => match self.char_array_text() {
                Some(text) => write!(f, "{text:?}"),
                None => {
                    f.write_str("[")?;
                    for (index, element) in elements.iter().enumerate() {
                        write!(f, "{}{element}", if index == 0 { "" } else { ", " })?;
                    }
                    f.write_str("]")
                }
            },
            Self::Object(members) => f.write_str(&members_text(members)),
        }
    }
}

/// `{name: value, …}`.
pub(crate) fn members_text(members: &[(String, Value)]) -> String {
    use fmt::Write;
    let mut text = String::from("{");
    for (index, (name, value)) in members.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let written = if plain {
            write!(text, "{separator}{name}: {value}")
        } else {
            write!(text, "{separator}{name:?}: {value}")
        };
        written.expect("invariant: writing to a String cannot fail");
    }
    text.push('}');
    text
}

/// Days from 1601 to 1970, in milliseconds.
const FILETIME_TO_UNIX_MILLIS: i64 = 11_644_473_600_000;

/// `2026-11-30T03:37:01.5985910Z`; a value outside 1970 to 9999 as its number.
pub(crate) fn filetime_text(filetime: i64) -> String {
    let unix_millis = filetime / 10_000 - FILETIME_TO_UNIX_MILLIS;
    let time = UtcTime::from_unix_millis(unix_millis);
    if time.to_unix_millis() != unix_millis {
        return format!("filetime:{filetime}");
    }
    let text = time.to_string();
    format!("{}{:04}Z", text.trim_end_matches('Z'), filetime % 10_000)
}

/// The usual 8-4-4-4-12 form of a GUID in wire order.
pub(crate) fn guid_text(bytes: &[u8; 16]) -> String {
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut text = String::with_capacity(36);
    for (index, from) in order.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{:02x}", bytes[from]));
    }
    text
}
