//! Streams for the tests: where the sample files are, reading all of one, walking its objects, writing it again.
#![allow(dead_code)] // every test binary uses its own part of this

#[allow(unreachable_pub)] // the session tests use the file too
pub mod keep;
pub mod mutations;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use diagport_nettrace::{Completion, ReadError, Reader, Record, Warning, Writer};

/// The folder `tests/vectors/NAME` of the project.
pub fn vectors(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors").join(name)
}

/// A file of that folder.
pub fn vector(folder: &str, name: &str) -> Vec<u8> {
    let path = vectors(folder).join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Everything a reader says about a stream.
#[derive(Debug)]
pub struct Reading {
    pub records: Vec<Record>,
    pub error: Option<ReadError>,
    pub completion: Completion,
    pub warnings: Vec<Warning>,
}

/// Reads a stream that comes in pieces of `piece_bytes`, pulling after each.
pub fn read_in_pieces(bytes: &[u8], piece_bytes: usize) -> Reading {
    let mut reader = Reader::new();
    let (mut records, mut error) = (Vec::new(), None);
    for piece in bytes.chunks(piece_bytes.max(1)) {
        reader.feed(piece);
        loop {
            match reader.next_record() {
                Ok(Some(record)) => records.push(record),
                Ok(None) => break,
                Err(problem) => {
                    error = Some(problem);
                    break;
                }
            }
        }
    }
    let completion = reader.finish();
    Reading { records, error, completion, warnings: reader.warnings().to_vec() }
}

/// Reads a stream in one piece.
pub fn read(bytes: &[u8]) -> Reading {
    read_in_pieces(bytes, bytes.len())
}

/// Reads a stream that must be whole and without oddities.
pub fn read_clean(bytes: &[u8]) -> Vec<Record> {
    let reading = read(bytes);
    assert_eq!(reading.error, None);
    assert_eq!(reading.completion, Completion::Complete);
    assert_eq!(reading.warnings, []);
    reading.records
}

/// One object of a V4 stream, found without the reader under test.
#[derive(Debug)]
pub struct Object<'a> {
    pub name: &'a str,
    pub body: &'a [u8],
    pub body_at: usize,
    /// Offset behind its closing tag.
    pub end: usize,
}

/// The objects of a whole V4 stream; panics at the first byte that is not as the format says.
pub fn objects(stream: &[u8]) -> Vec<Object<'_>> {
    let number = |at: usize| u32::from_le_bytes(stream[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut found) = (32, Vec::new());
    while stream[at] != 1 {
        assert_eq!(&stream[at..at + 3], [5, 5, 1], "object at {at}");
        let name_end = at + 15 + number(at + 11);
        let name = std::str::from_utf8(&stream[at + 15..name_end]).unwrap();
        assert_eq!(stream[name_end], 6, "type object at {at}");
        let (body_at, size) = if name == "Trace" {
            (name_end + 1, 48)
        } else {
            let size_end = name_end + 5;
            let body_at = size_end.next_multiple_of(4);
            assert!(stream[size_end..body_at].iter().all(|byte| *byte == 0), "padding at {size_end}");
            (body_at, number(name_end + 1))
        };
        let end = body_at + size + 1;
        assert_eq!(stream[end - 1], 6, "end of {name} at {at}");
        found.push(Object { name, body: &stream[body_at..end - 1], body_at, end });
        at = end;
    }
    assert_eq!(at + 1, stream.len(), "nothing follows the end marker");
    found
}

/// Writes the records of a V4 stream again, through our writer.
pub fn write_again(records: &[Record]) -> Vec<u8> {
    let mut writer = None;
    let (mut out, mut stack_ids, mut metadata_ids) = (Vec::new(), HashMap::new(), HashMap::new());
    for record in records {
        if let Record::Trace(info) = record {
            writer = Some(Writer::new(info));
            continue;
        }
        let writer = writer.as_mut().expect("the Trace object comes first");
        match record {
            Record::Trace(_) => {}
            Record::Metadata { id, definition } => {
                metadata_ids.insert(*id, writer.define(definition, 0, 0));
            }
            Record::Stack { id, frames } => drop(stack_ids.insert(*id, writer.stack(frames))),
            Record::Event(event) => {
                let mut row = event.row();
                row.metadata_id = metadata_ids[&row.metadata_id];
                row.stack_id = stack_ids.get(&row.stack_id).copied().unwrap_or(0);
                writer.event(&row);
            }
            Record::SequencePoint { ticks, threads } => {
                writer.sequence_point(*ticks, threads.iter().copied());
                stack_ids.clear();
            }
            Record::End => writer.finish(),
        }
        out.extend_from_slice(writer.output());
        writer.clear_output();
    }
    out
}

/// Numbers that are the same for the same seed.
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// The next number below `below`.
    pub fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % below as u64) as usize
    }
}
