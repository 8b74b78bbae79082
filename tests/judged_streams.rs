//! Every stream that the writer makes in the tests of the engine and of the format, before TraceEvent.
//!
//! Those tests keep their complete streams where `DIAGPORT_KEEP_STREAMS` says, each under the number of events that it truly lost. The newest
//! reader judges all of them; older ones, which take longer, the first of each test and a sample of the others by a fixed seed.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use support::background::run;
use support::judge::Judgement;
use support::peers::Peers;
use support::{say, temp_folder, workspace_root};

/// The tests may have to be built.
const BUILD_AND_RUN: Duration = Duration::from_secs(900);
/// Of each test; the files are sorted by test and number.
const FIRST: usize = 2;
const SAMPLE: usize = 60;
const SEED: u64 = 4;
/// Older readers take longer and see fewer.
const OLDER: [&str; 2] = ["tracecheck@3.1.21", "tracecheck@2.0.56"];
const OLDER_SAMPLE: usize = 8;

/// A stream that a test has kept.
#[derive(Debug)]
struct Kept {
    path: PathBuf,
    /// BINARY.TEST
    test: String,
    lost: i64,
}

impl Kept {
    fn of_path(path: PathBuf) -> anyhow::Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str()).context("a file name")?;
        let parse = || {
            let (test, lost) = name.strip_suffix(".nettrace")?.rsplit_once(".lost-")?;
            Some((test.rsplit_once('.')?.0.to_owned(), lost.parse().ok()?))
        };
        let (test, lost) =
            parse().with_context(|| format!("{name} is not BINARY.TEST.NUMBER.lost-LOST.nettrace"))?;
        Ok(Self { path, test, lost })
    }
}

#[test]
fn every_stream_of_our_writer_reads_clean() -> anyhow::Result<()> {
    let needed = ["tracecheck", OLDER[0], OLDER[1]];
    let Some(peers) = Peers::or_skip("every_stream_of_our_writer_reads_clean", &needed) else {
        return Ok(());
    };
    let folder = temp_folder()?;
    make_streams(folder.path())?;
    let mut kept = Vec::new();
    for entry in std::fs::read_dir(folder.path())? {
        kept.push(Kept::of_path(entry?.path())?);
    }
    kept.sort_by(|a, b| a.path.cmp(&b.path));
    let tests = kept.iter().map(|kept| &kept.test).collect::<BTreeSet<_>>().len();
    // Fewer would mean that the tests keep them no longer.
    ensure!(kept.len() >= 200 && tests >= 25, "only {} streams of {tests} tests were kept", kept.len());
    let chosen = choose(&kept);
    let lossy = kept.iter().filter(|kept| kept.lost > 0);
    let older: Vec<_> =
        chosen.iter().step_by(chosen.len() / OLDER_SAMPLE + 1).copied().chain(lossy.take(4)).collect();
    let orders: Vec<_> = kept
        .iter()
        .map(|kept| ("tracecheck", kept))
        .chain(OLDER.iter().flat_map(|program| older.iter().map(|kept| (*program, *kept))))
        .collect();
    let from = Instant::now();
    let wrong = judge_all(peers, &orders);
    say(&format!(
        "judged all {} streams of {tests} tests, {} of them by each of two older readers too, in {:?}",
        kept.len(),
        older.len(),
        from.elapsed()
    ));
    ensure!(wrong.is_empty(), "{} streams read badly:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

/// Runs the tests that keep their streams, with the same target folder and profile as this one.
fn make_streams(folder: &Path) -> anyhow::Result<()> {
    // TARGET/debug/deps/test-1234 → TARGET
    let test = std::env::current_exe()?;
    let profile = test.ancestors().nth(2).context("the test runs from no target folder")?;
    let target = profile.parent().context("the test runs from no target folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "test",
        "--offline",
        "--lib",
        "--tests",
        "-p",
        "diagport-session",
        "-p",
        "diagport-nettrace",
    ]);
    if profile.ends_with("release") {
        command.arg("--release");
    }
    command
        .env("CARGO_TARGET_DIR", target)
        .env("DIAGPORT_KEEP_STREAMS", folder)
        .current_dir(workspace_root());
    run(command, BUILD_AND_RUN)?.expect_code(0)?;
    Ok(())
}

fn choose(kept: &[Kept]) -> Vec<&Kept> {
    let (mut chosen, mut rest) = (Vec::new(), Vec::new());
    let mut of_test = BTreeMap::<&str, usize>::new();
    for kept in kept {
        let count = of_test.entry(&kept.test).or_default();
        *count += 1;
        if *count <= FIRST { chosen.push(kept) } else { rest.push(kept) }
    }
    let mut random = SEED;
    for _ in 0..SAMPLE.min(rest.len()) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from((random >> 33) % rest.len() as u64).unwrap_or(0);
        chosen.push(rest.swap_remove(at));
    }
    chosen
}

/// One line for each that does not read as it should.
fn judge_all(peers: &Peers, orders: &[(&str, &Kept)]) -> Vec<String> {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((program, kept)) = orders.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = judge(peers, program, kept) {
                        let line = format!("{program} {}: {error:#}", kept.path.display());
                        wrong.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(line);
                    }
                }
            });
        }
    });
    wrong.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn judge(peers: &Peers, program: &str, kept: &Kept) -> anyhow::Result<()> {
    let judgement = Judgement::of(peers, program, &kept.path, &[])?;
    ensure!(judgement.error().is_none(), "{:?}", judgement.error());
    let (lost, truly) = (judgement.lost(), kept.lost);
    ensure!(lost == truly, "it says {lost} events are lost, and {truly} are");
    let out_of_order = judgement.out_of_order();
    ensure!(out_of_order == 0, "{out_of_order} events out of order");
    Ok(())
}
