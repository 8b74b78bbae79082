//! Reads what a startup session has left.

use std::path::Path;

use diagport_nettrace::{Completion, LossCounter, Reader, Record};

/// Events of `Test`, events lost, and how the stream ends.
pub(crate) fn facts(path: &Path) -> (usize, u64, Completion) {
    let (mut reader, mut loss, mut events) = (Reader::new(), LossCounter::new(), 0);
    reader.feed(&std::fs::read(path).unwrap());
    while let Some(record) = reader.next_record().unwrap() {
        loss.record(&record);
        events += usize::from(matches!(&record, Record::Event(event) if event.definition.provider == "Test"));
    }
    (events, loss.lost(), reader.finish())
}
