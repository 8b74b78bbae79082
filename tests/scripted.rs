//! `scripts/*.script` against our target and a real runtime, over the default port and in reverse.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use anyhow::Context as _;
use support::load::{Load, LoadSetup, Target};
use support::peers::Peers;
use support::script::{Advertised, Script, Side};

/// The first line of a script that a real runtime does not follow.
const OURS_ONLY: &str = "# ours-only:";
/// The real runtime that defines the behaviour.
const REFERENCE: Target = Target::Dotnet("11.0.0");

#[derive(Debug, Clone, Copy)]
enum Direction {
    Default,
    Reverse,
}

/// Every script, one after the other, on one target.
fn check(target: Target, direction: Direction) -> anyhow::Result<()> {
    let folder = support::temp_folder()?;
    let listener = folder.path().join("reverse.sock");
    let mut setup = LoadSetup::new(target).folder(folder.path());
    let mut side = match direction {
        Direction::Default => None,
        Direction::Reverse => {
            setup = setup.env("DOTNET_DiagnosticPorts", format!("{},nosuspend", listener.display()));
            Some(Side::Reverse(Advertised::bind(&listener)?))
        }
    };
    let load: Load = setup.start()?;
    let side = match &mut side {
        Some(side) => side,
        None => &mut Side::Default(load.port()?),
    };
    let mut ran = 0;
    for path in scripts()? {
        let text = std::fs::read_to_string(&path)?;
        if text.starts_with(OURS_ONLY) && target != Target::Ours {
            continue;
        }
        let name = path.file_name().context("a script without a name")?.to_string_lossy().into_owned();
        Script::parse(&name, &text)?.run(side).with_context(|| format!("{target:?}, {direction:?}"))?;
        ran += 1;
    }
    anyhow::ensure!(ran > 5, "only {ran} scripts ran");
    if let Side::Reverse(advertised) = side {
        anyhow::ensure!(
            advertised.process_id() == Some(u64::from(load.pid())),
            "Advertise tells another pid"
        );
    }
    Ok(())
}

fn scripts() -> anyhow::Result<Vec<PathBuf>> {
    let folder = support::workspace_root().join("tests/scripts");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(&folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "script"));
    paths.sort();
    Ok(paths)
}

// spec-test: IPC-HDR-5, SRV-SESSION-5, EP-CT-7
#[test]
fn our_default_port_follows_the_scripts() -> anyhow::Result<()> {
    check(Target::Ours, Direction::Default)
}

// spec-test: SRV-CONNECT-1, SRV-CONNECT-4, ADV-1
#[test]
fn our_connect_port_follows_the_scripts() -> anyhow::Result<()> {
    check(Target::Ours, Direction::Reverse)
}

#[test]
fn a_real_default_port_follows_the_scripts() -> anyhow::Result<()> {
    let Some(_peers) = Peers::or_skip("a_real_default_port_follows_the_scripts", &["epload"]) else {
        return Ok(());
    };
    check(REFERENCE, Direction::Default)
}

#[test]
fn a_real_connect_port_follows_the_scripts() -> anyhow::Result<()> {
    let Some(_peers) = Peers::or_skip("a_real_connect_port_follows_the_scripts", &["epload"]) else {
        return Ok(());
    };
    check(REFERENCE, Direction::Reverse)
}

#[test]
fn a_script_names_the_first_difference() -> anyhow::Result<()> {
    let folder = support::temp_folder()?;
    let path = folder.path().join("p");
    let listener = std::os::unix::net::UnixListener::bind(&path)?;
    let peer = std::thread::spawn(move || -> std::io::Result<()> {
        use std::io::Write as _;
        listener.accept()?.0.write_all(&[1, 2, 3, 4])
    });
    let script = Script::parse("x.script", "# a comment\nconnect\nexpect bytes 0102ff04\n")?;
    let outcome = script.run(&mut Side::Default(support::port::Port::new(path)));
    drop(peer.join());
    let text = outcome.err().context("the difference went unseen")?.to_string();
    anyhow::ensure!(text.starts_with("x.script:3: ") && text.contains("byte Some(2)"), "{text}");
    let wrong =
        Script::parse("y.script", "connect\nexpect nothing\n").err().context("a bad script was read")?;
    anyhow::ensure!(format!("{wrong:#}").starts_with("y.script:2"), "{wrong:#}");
    Ok(())
}
