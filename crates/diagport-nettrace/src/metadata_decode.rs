//! Reading a definition back, with every count bounded by the bytes that are there.

use crate::cursor::{Cursor, OutOfBytes};
use crate::{EventMetadata, Field, FieldType};

/// Objects and arrays nest at most this deep.
// spec: NT4-META-7
pub const MAX_NESTED_TYPES: usize = 32;

/// The fixed part of a definition is incomplete, so not even its id can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the definition ends inside its fixed part")]
pub struct MetadataError;

/// Why a field list was given up. The event keeps its name and id, and has no fields.
// spec: NT4-META-7
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldListProblem {
    /// The bytes end inside the list.
    #[error("the field list ends too early")]
    TooShort,
    /// A count is negative or larger than the bytes can hold.
    #[error("a field count does not fit the definition")]
    BadCount,
    /// Deeper than [`MAX_NESTED_TYPES`].
    #[error("types nest deeper than {MAX_NESTED_TYPES}")]
    TooDeep,
    /// A description's own size is too small or reaches past its list.
    #[error("a field size does not fit the definition")]
    BadSize,
    /// An array in a V1 list, which has no place for the element type.
    #[error("an array in a V1 field list")]
    ArrayInV1,
}

impl From<OutOfBytes> for FieldListProblem {
    fn from(_: OutOfBytes) -> Self {
        Self::TooShort
    }
}

/// A definition as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedMetadata {
    /// The id that events name.
    pub id: u32,
    /// What it says.
    pub definition: EventMetadata,
    /// Set when the field list could not be read.
    pub problem: Option<FieldListProblem>,
}

/// Reads the payload of a definition.
///
/// A definition that ends after the level has no fields; unknown tags and spare bytes are skipped.
///
/// # Errors
/// [`MetadataError`] when the fixed part is incomplete; all else is a [`FieldListProblem`] inside the result.
// spec: NT4-META-6
pub fn decode_metadata(payload: &[u8]) -> Result<DecodedMetadata, MetadataError> {
    let mut cursor = Cursor::new(payload);
    let (id, mut definition) = fixed_part(&mut cursor).map_err(|OutOfBytes| MetadataError)?;
    let problem = match field_lists(&mut cursor, &mut definition) {
        Ok(()) => None,
        Err(problem) => {
            definition.fields = Vec::new();
            Some(problem)
        }
    };
    Ok(DecodedMetadata { id, definition, problem })
}

fn fixed_part(cursor: &mut Cursor<'_>) -> Result<(u32, EventMetadata), OutOfBytes> {
    let id = cursor.u32()?;
    let definition = EventMetadata {
        provider: cursor.utf16z()?,
        event_id: cursor.u32()?,
        event_name: cursor.utf16z()?,
        keywords: cursor.u64()?,
        version: cursor.u32()?,
        level: cursor.u32()?,
        opcode: 0,
        fields: Vec::new(),
    };
    Ok((id, definition))
}

fn field_lists(cursor: &mut Cursor<'_>, definition: &mut EventMetadata) -> Result<(), FieldListProblem> {
    if cursor.remaining() == 0 {
        return Ok(());
    }
    definition.fields = v1_fields(cursor, 0)?;
    while cursor.remaining() >= 5 {
        let size = cursor.u32()?;
        let kind = cursor.u8()?;
        let content = cursor.bytes(usize::try_from(size).map_err(|_| FieldListProblem::BadSize)?)?;
        match kind {
            1 => definition.opcode = content.first().copied().unwrap_or(0),
            2 => definition.fields = v2_fields(&mut Cursor::new(content), 0)?,
            _ => {}
        }
    }
    Ok(())
}

/// The count in front of a list whose entries take at least `least_bytes` each.
fn field_count(cursor: &mut Cursor<'_>, least_bytes: usize) -> Result<usize, FieldListProblem> {
    let count = usize::try_from(cursor.i32()?).map_err(|_| FieldListProblem::BadCount)?;
    if count > cursor.remaining() / least_bytes {
        return Err(FieldListProblem::BadCount);
    }
    Ok(count)
}

fn deeper(depth: usize) -> Result<usize, FieldListProblem> {
    if depth < MAX_NESTED_TYPES { Ok(depth + 1) } else { Err(FieldListProblem::TooDeep) }
}

fn v1_fields(cursor: &mut Cursor<'_>, depth: usize) -> Result<Vec<Field>, FieldListProblem> {
    let count = field_count(cursor, 6)?;
    let mut fields = Vec::new();
    for _ in 0..count {
        let code = cursor.i32()?;
        let field_type = match FieldType::from_plain_code(code) {
            Some(plain) => plain,
            None if code == 1 => FieldType::Object(v1_fields(cursor, deeper(depth)?)?),
            None => return Err(FieldListProblem::ArrayInV1),
        };
        fields.push(Field { name: cursor.utf16z()?, field_type });
    }
    Ok(fields)
}

fn v2_fields(cursor: &mut Cursor<'_>, depth: usize) -> Result<Vec<Field>, FieldListProblem> {
    let count = field_count(cursor, 10)?;
    let mut fields = Vec::new();
    for _ in 0..count {
        let size = cursor.u32()? as usize;
        let description = size.checked_sub(4).ok_or(FieldListProblem::BadSize)?;
        let mut description =
            Cursor::new(cursor.bytes(description).map_err(|OutOfBytes| FieldListProblem::BadSize)?);
        let name = description.utf16z()?;
        // Bytes behind the type are skipped with the rest of the description.
        fields.push(Field { name, field_type: v2_type(&mut description, depth)? });
    }
    Ok(fields)
}

fn v2_type(cursor: &mut Cursor<'_>, depth: usize) -> Result<FieldType, FieldListProblem> {
    let code = cursor.i32()?;
    match FieldType::from_plain_code(code) {
        Some(plain) => Ok(plain),
        None if code == 1 => Ok(FieldType::Object(v2_fields(cursor, deeper(depth)?)?)),
        None => Ok(FieldType::Array(Box::new(v2_type(cursor, deeper(depth)?)?))),
    }
}
