//! The same few thousand damaged streams, for every test that wants them.

use super::{Dice, vector};

/// A few bytes changed, cut out, doubled or made huge.
pub fn mutate(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len() - 1);
        match dice.below(5) {
            0 => bytes[at] ^= 1 << dice.below(8),
            1 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][dice.below(5)],
            2 => {
                let end = (at + 4).min(bytes.len());
                bytes[at..end].fill([0xFF, 0x7F, 0, 1][dice.below(4)]);
            }
            3 => {
                let end = (at + 1 + dice.below(40)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let end = (at + 1 + dice.below(40)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
        }
    }
}

const FILES: [(&str, &str, u64); 5] = [
    ("nettrace", "public-perfview-eventpipe-dotnetcore6.0-win-x64-executioncheckpoints.nettrace", 3_000),
    ("nettrace", "public-perfview-eventpipe-dotnetcore2.1-linux-x64-tracelogging.netperf", 1_500),
    ("loss", "10-unlisted.nettrace", 1_500),
    ("nettrace", "real-net10-counters-metrics-gc.nettrace", 300),
    ("nettrace", "real-net10-activities-v2params.nettrace", 100),
];

/// Calls `work` with each damaged stream and a size for its pieces. A panic is reported with the file and the seed.
pub fn each_mutation(mut work: impl FnMut(&[u8], usize) + std::panic::UnwindSafe + Copy) {
    for (folder, name, rounds) in FILES {
        let original = vector(folder, name);
        for seed in 0..rounds {
            let mut dice = Dice(seed);
            let mut bytes = original.clone();
            mutate(&mut bytes, &mut dice);
            let piece_bytes = 1 + dice.below(2 * bytes.len());
            let outcome = std::panic::catch_unwind(move || work(&bytes, piece_bytes));
            assert!(outcome.is_ok(), "{name}, seed {seed}");
        }
    }
}
