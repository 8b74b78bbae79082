//! Reads a V4 stream and writes it again through our writer: `reencode IN OUT`.
#![allow(clippy::print_stdout, clippy::unwrap_used, unreachable_pub, missing_docs)]

#[path = "../tests/streams/mod.rs"]
mod streams;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (source, target) = (arguments.next().unwrap(), arguments.next().unwrap());
    let records = streams::read_clean(&std::fs::read(source).unwrap());
    std::fs::write(target, streams::write_again(&records)).unwrap();
    println!("{} records", records.len());
}
