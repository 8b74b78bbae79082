//! A startup session into a file, by environment variables: Block, 1 MB, as the events come.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use support::{HANG, temp_folder};

use crate::case::{Bound, Case, Figure, Measure, Peer, Reading, Side};
use crate::options::Options;
use crate::recording::Counts;

pub(crate) fn case(options: &Options) -> Case {
    let count: u64 = options.scale(1_000_000, 100_000);
    let figure = Figure::time("an event, to the end of the process and its file", Bound::TimesPeer(50.0));
    let prepare = move |side: Side| {
        let measure = move || {
            let folder = temp_folder()?;
            let file = folder.path().join("startup.nettrace");
            let setup = side
                .setup()?
                .env("DOTNET_EnableEventPipe", "1")
                .env("DOTNET_EventPipeConfig", "Peer-Load:1:4")
                .env("DOTNET_EventPipeOutputPath", &file)
                .env("DOTNET_EventPipeCircularMB", "1")
                .env("DOTNET_EventPipeOutputStreaming", "1")
                .env("DOTNET_EventPipeBufferingMode", "1")
                .env("DOTNET_EventPipeRundown", "0");
            let mut load = setup.start()?;
            let from = Instant::now();
            let answer = load.command(&format!("burst 1 {count}"))?;
            load.exit(HANG)?.expect_code(0)?;
            let took = from.elapsed();
            ensure!(answer.contains("enabled=True"), "no startup session: {answer}");
            let bytes = std::fs::read(&file).with_context(|| file.display().to_string())?;
            let received = Counts::of(&bytes)?.of_event("Peer-Load", 1);
            ensure!(received == count, "{received} of {count} events are in the file");
            Ok(vec![Reading::Value(took.as_secs_f64() / count as f64)])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "FILESTREAM, Block 1 MB, 1 thread, all events in the file",
        figures: vec![figure.aim(Bound::TimesPeer(80.0))],
        rounds: options.scale(5, 1),
        peer: Some(Peer::Dotnet),
        prepare: Box::new(prepare),
    }
}
