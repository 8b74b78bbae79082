//! A good stream with a few places changed: deeper inside than bytes at random get.
#![no_main]

use diagport_fuzz::reading;
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

/// A file, and how many of its bytes are whole objects: a small stream runs often.
macro_rules! beginning {
    ($file:literal, $bytes:literal) => {
        include_bytes!(concat!("../../vectors/nettrace/", $file)).split_at($bytes).0
    };
}

/// One of every container and layout. Those that are cut get an end marker.
const STREAMS: [&[u8]; 9] = [
    include_bytes!(
        "../../vectors/nettrace/public-perfview-eventpipe-dotnetcore6.0-win-x64-executioncheckpoints.nettrace"
    ),
    include_bytes!(
        "../../vectors/nettrace/public-perfview-eventpipe-dotnetcore2.1-linux-x64-tracelogging.netperf"
    ),
    beginning!("real-net10-activities-v2params.nettrace", 2336),
    beginning!("real-net10-lossy.nettrace", 7549),
    beginning!("public-perfview-eventpipe-dotnetcore5.0-win-x64-arraytypes.nettrace", 2305),
    include_bytes!("../../vectors/loss/02-middle.nettrace"),
    include_bytes!("../../vectors/loss/08b-wrap.nettrace"),
    include_bytes!("../../vectors/loss/09-points.nettrace"),
    include_bytes!("../../vectors/loss/10-unlisted.nettrace"),
];
const END_MARKER: u8 = 1;

fuzz_target!(|bytes: &[u8]| {
    let _too_short = run(&mut Unstructured::new(bytes));
});

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let mut stream = input.choose(&STREAMS)?.to_vec();
    if stream.last() != Some(&END_MARKER) {
        stream.push(END_MARKER);
    }
    // One piece when the input is at its end, because small pieces are slow; and seldom all that can be done with a stream.
    let piece_bytes = stream.len() - input.int_in_range(0..=stream.len() - 1)?;
    let uses_it = input.int_in_range(0..=7_u8)? == 1;
    while !input.is_empty() && !stream.is_empty() {
        change(input, &mut stream)?;
    }
    let reading = reading::check(&stream, piece_bytes);
    if uses_it {
        reading::check_uses(&reading);
    }
    Ok(())
}

fn change(input: &mut Unstructured<'_>, stream: &mut Vec<u8>) -> Result<()> {
    let at = input.int_in_range(0..=stream.len() - 1)?;
    match input.int_in_range(0..=6_u8)? {
        0 => stream[at] = input.arbitrary()?,
        1 => stream[at] ^= 1 << input.int_in_range(0..=7_u8)?,
        2 => {
            let value: u32 = input.arbitrary()?;
            stream.iter_mut().skip(at).zip(value.to_le_bytes()).for_each(|(byte, new)| *byte = new);
        }
        3 => {
            let end = at + input.int_in_range(1..=64.min(stream.len() - at))?;
            stream.drain(at..end);
        }
        4 => {
            // A piece from elsewhere in the stream: a block inside a block, a header before another's payload.
            let from = input.int_in_range(0..=stream.len() - 1)?;
            let length = input.int_in_range(1..=256.min(stream.len() - from))?;
            let piece = stream[from..from + length].to_vec();
            stream.splice(at..at, piece);
        }
        5 => {
            let length = input.int_in_range(0..=16_usize)?.min(input.len());
            let piece = input.bytes(length)?.to_vec();
            stream.splice(at..at, piece);
        }
        _ => stream.truncate(at),
    }
    Ok(())
}
