//! The payload of a definition: fixed part, V1 field list, optional tags.

use crate::{EventMetadata, Field, FieldType};

const OPCODE_TAG: u8 = 1;
const V2_PARAMETERS_TAG: u8 = 2;

/// Appends the definition `metadata` under `id`.
// spec: NT4-META-1
pub fn encode_metadata(id: u32, metadata: &EventMetadata, out: &mut Vec<u8>) {
    out.extend_from_slice(&id.to_le_bytes());
    put_utf16z(&metadata.provider, out);
    out.extend_from_slice(&metadata.event_id.to_le_bytes());
    put_utf16z(&metadata.event_name, out);
    out.extend_from_slice(&metadata.keywords.to_le_bytes());
    out.extend_from_slice(&metadata.version.to_le_bytes());
    out.extend_from_slice(&metadata.level.to_le_bytes());
    let v2 = metadata.fields.iter().any(|field| field.field_type.needs_v2());
    put_v1_fields(if v2 { &[] } else { &metadata.fields }, out);
    if metadata.opcode != 0 {
        out.extend_from_slice(&1_u32.to_le_bytes());
        out.extend_from_slice(&[OPCODE_TAG, metadata.opcode]);
    }
    if v2 {
        let size_at = out.len();
        out.extend_from_slice(&[0, 0, 0, 0, V2_PARAMETERS_TAG]);
        put_v2_fields(&metadata.fields, out);
        patch_size(out, size_at, size_at + 5);
    }
}

// spec: NT4-META-2
fn put_v1_fields(fields: &[Field], out: &mut Vec<u8>) {
    put_count(fields.len(), out);
    for field in fields {
        out.extend_from_slice(&field.field_type.code().to_le_bytes());
        if let FieldType::Object(nested) = &field.field_type {
            put_v1_fields(nested, out);
        }
        put_utf16z(&field.name, out);
    }
}

// spec: NT4-META-4
fn put_v2_fields(fields: &[Field], out: &mut Vec<u8>) {
    put_count(fields.len(), out);
    for field in fields {
        let size_at = out.len();
        out.extend_from_slice(&[0; 4]);
        put_utf16z(&field.name, out);
        put_v2_type(&field.field_type, out);
        patch_size(out, size_at, size_at); // the size counts its own four bytes
    }
}

fn put_v2_type(field_type: &FieldType, out: &mut Vec<u8>) {
    out.extend_from_slice(&field_type.code().to_le_bytes());
    match field_type {
        FieldType::Array(element) => put_v2_type(element, out),
        FieldType::Object(nested) => put_v2_fields(nested, out),
        _ => {}
    }
}

fn put_count(count: usize, out: &mut Vec<u8>) {
    let count =
        u32::try_from(count).expect("invariant: a field list fits memory many times below 2^32 entries");
    out.extend_from_slice(&count.to_le_bytes());
}

/// Stores at `size_at` the number of bytes from `from` to the end.
fn patch_size(out: &mut [u8], size_at: usize, from: usize) {
    let size = u32::try_from(out.len() - from).expect("invariant: a definition is far below 4 GB");
    out[size_at..size_at + 4].copy_from_slice(&size.to_le_bytes());
}

/// A name ends at its first NUL: anything behind it would shift the rest of the definition.
fn put_utf16z(text: &str, out: &mut Vec<u8>) {
    let name = text.split('\0').next().unwrap_or_default();
    out.extend(name.encode_utf16().flat_map(u16::to_le_bytes));
    out.extend_from_slice(&[0, 0]);
}
