//! Going over events without making records of them.

use super::blob::compressed_blob;
use super::{Entries, MAX_WATCHED_CLOCKS, OpenBlock, Reader, State};
use crate::blob_header::BlobHeader;

/// Capture threads whose last ticks are at hand within one block; streams switch between few at a time.
const CLOCKS_AT_HAND: usize = 8;

impl Reader {
    /// Goes over the ordinary events that come next, as far as they are there, and shows the header of each. For whoever needs
    /// only their numbers: it is many times faster than [`Reader::next_record`], which has to be called after it all the same.
    ///
    /// It stops at whatever is no ordinary event (the end of a block, something that deserves a warning or an error), so that
    /// both together say exactly what `next_record` says alone.
    ///
    /// ```
    /// # use diagport_nettrace::{ReadError, Reader, Record};
    /// fn count(reader: &mut Reader) -> Result<u64, ReadError> {
    ///     let mut events = 0;
    ///     loop {
    ///         reader.skim_events(|_| events += 1);
    ///         match reader.next_record()? {
    ///             Some(Record::Event(_)) => events += 1,
    ///             Some(_) => {}
    ///             None => return Ok(events),
    ///         }
    ///     }
    /// }
    /// # assert_eq!(count(&mut Reader::new()), Ok(0));
    /// ```
    // spec: NT4-READ-1
    pub fn skim_events(&mut self, mut seen: impl FnMut(&BlobHeader)) {
        let State::Block(OpenBlock { entries: Entries::CompressedBlobs(first), is_metadata: false, end }) =
            &self.state
        else {
            return;
        };
        let (mut previous, end) = (*first, *end);
        let rest = self.input.rest();
        // An open block is in memory.
        let left =
            usize::try_from(end - self.input.position()).map_or(rest.len(), |left| left.min(rest.len()));
        let bytes = &rest[..left];
        let mut clocks = ClocksAtHand::default();
        let mut known_id = None;
        let mut at = 0;
        while let Ok(blob) = compressed_blob(&previous, &bytes[at..], 0) {
            let header = blob.header;
            if known_id != Some(header.metadata_id) {
                if !self.definitions.contains_key(&header.metadata_id) {
                    break;
                }
                known_id = Some(header.metadata_id);
            }
            if !clocks.goes_on(&header, |thread| self.clocks.get(&thread).copied()) {
                break;
            }
            seen(&header);
            previous = header;
            at += blob.bytes;
        }
        for (thread, ticks) in clocks.into_entries() {
            if self.clocks.len() >= MAX_WATCHED_CLOCKS && !self.clocks.contains_key(&thread) {
                self.clocks.clear();
            }
            self.clocks.insert(thread, ticks);
        }
        self.input.consume(at);
        let entries = Entries::CompressedBlobs(previous);
        self.state = State::Block(OpenBlock { entries, is_metadata: false, end });
    }
}

/// The last ticks of a few capture threads.
#[derive(Default)]
struct ClocksAtHand {
    entries: Vec<(u64, i64)>,
}

impl ClocksAtHand {
    /// Notes the event; `false` if it is older than the one before it on its thread, or if there is no room for its thread.
    fn goes_on(&mut self, header: &BlobHeader, known: impl Fn(u64) -> Option<i64>) -> bool {
        let thread = header.capture_thread;
        if let Some((_, last)) = self.entries.iter_mut().find(|(known, _)| *known == thread) {
            let fits = header.ticks >= *last;
            *last = header.ticks.max(*last);
            return fits;
        }
        let fits =
            self.entries.len() < CLOCKS_AT_HAND && known(thread).is_none_or(|last| header.ticks >= last);
        if fits {
            self.entries.push((thread, header.ticks));
        }
        fits
    }

    fn into_entries(self) -> impl Iterator<Item = (u64, i64)> {
        self.entries.into_iter()
    }
}
