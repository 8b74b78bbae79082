//! The least that a request can cost here: an accept loop that reads a header and answers 220 bytes, in a process of its own.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::background::Background;
use support::requests::{MAGIC, PROCESS_INFO, message};
use support::{HANG, temp_folder};

const REPLY_BYTES: u16 = 220;

/// A running accept loop; ends with the value.
#[derive(Debug)]
pub(crate) struct Floor {
    path: PathBuf,
    _process: Background,
    _folder: tempfile::TempDir,
}

impl Floor {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let folder = temp_folder()?;
        let path = folder.path().join("floor");
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--floor").arg(&path);
        let process = Background::start(command)?;
        process.expect_output("ready", HANG)?;
        Ok(Self { path, _process: process, _folder: folder })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The loop itself.
///
/// # Errors
/// Where the socket cannot be made; a client that leaves is none.
pub(crate) fn serve(path: &Path) -> anyhow::Result<()> {
    let listener = UnixListener::bind(path)?;
    println!("ready");
    let mut reply = MAGIC.to_vec();
    reply.extend(REPLY_BYTES.to_le_bytes());
    reply.extend([0xFF, 0x00, 0, 0]);
    reply.resize(usize::from(REPLY_BYTES), 0);
    let mut request = message(PROCESS_INFO, &[]);
    for stream in listener.incoming() {
        let mut stream = stream?;
        if stream.read_exact(&mut request).is_ok() {
            stream.write_all(&reply).ok();
        }
    }
    Ok(())
}
