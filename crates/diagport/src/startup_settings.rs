//! What the environment says about a startup session.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use diagport_server::{setting, setting_number};
use diagport_session::{
    BufferingMode, ProviderConfig, SessionConfig, SessionType, StackWalk, StartSessionError,
};

use crate::provider_list::ProviderList;

const DEFAULT_PROVIDERS: &str = "Microsoft-Windows-DotNETRuntime:4c14fccbd:5,\
     Microsoft-Windows-DotNETRuntimePrivate:4002000b:5,Microsoft-DotNETCore-SampleProfiler:0:5";
const DEFAULT_FILE: &str = "trace.nettrace";
const DEFAULT_MB: u32 = 0x400;
const BYTES_PER_MB: u64 = 1 << 20;
/// As much as a client can have over a port.
const MOST_BYTES: u64 = 4 << 30;
/// What the runtime writes at the end of a session unless told otherwise.
const RUNDOWN_KEYWORD: u64 = 0x8002_0139;

/// Why the session that the environment asks for was not started. The program runs on without it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartupSessionError {
    #[error("EventPipeBufferingMode is {0}; it can be 0 (Drop) or 1 (Block)")]
    UnknownBufferingMode(u32),
    #[error("EventPipeBufferingMode 1 (Block) needs EventPipeOutputStreaming 1")]
    BlockWithoutStreaming,
    #[error("EventPipeConfig {0:?} names no provider")]
    NoProvider(String),
    #[error("{0} is not UTF-8")]
    NotUtf8(&'static str),
    #[error("cannot write {path:?}: {source}")]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("another process records into {0:?}")]
    InUse(PathBuf),
    #[error(transparent)]
    Refused(#[from] StartSessionError),
}

/// A startup session that makes sense.
#[derive(Debug)]
pub(crate) struct StartupSettings {
    pub(crate) session: SessionConfig,
    pub(crate) path: PathBuf,
    /// Lines for the operator about what does not stand as he wrote it.
    pub(crate) remarks: Vec<String>,
}

/// Reads settings under both their names.
struct Environment<L>(L);

impl<L: Fn(&str) -> Option<OsString>> Environment<L> {
    fn text(&self, name: &'static str) -> Result<Option<String>, StartupSessionError> {
        let value = setting(&self.0, name).filter(|value| !value.is_empty());
        value.map(OsString::into_string).transpose().map_err(|_| StartupSessionError::NotUtf8(name))
    }

    /// What is no number is as good as not there.
    fn number(&self, name: &str, default: u32) -> u32 {
        let value = setting(&self.0, name);
        value.and_then(|value| setting_number(value.to_str()?)).unwrap_or(default)
    }
}

impl StartupSettings {
    /// `None`: no session is asked for. Variables that no session needs are not looked at.
    // spec: START-ENV-1
    pub(crate) fn read(
        lookup: impl Fn(&str) -> Option<OsString>,
        process_id: u32,
    ) -> Result<Option<Self>, StartupSessionError> {
        let environment = Environment(lookup);
        if environment.number("EnableEventPipe", 0) == 0 {
            return Ok(None);
        }
        let (session_type, buffering_mode) = session_kind(&environment)?;
        let text = environment.text("EventPipeConfig")?;
        let ProviderList { providers, remarks } =
            // spec: START-CONFIG-4
            ProviderList::parse(text.as_deref().unwrap_or(DEFAULT_PROVIDERS));
        if providers.is_empty() {
            return Err(StartupSessionError::NoProvider(text.unwrap_or_default()));
        }
        let path = environment.text("EventPipeOutputPath")?;
        Ok(Some(Self {
            session: session_config(&environment, session_type, buffering_mode, providers),
            path: file_path(path.as_deref().unwrap_or(DEFAULT_FILE), process_id),
            remarks,
        }))
    }
}

// spec: START-MODE-1, START-MODE-2
fn session_kind<L: Fn(&str) -> Option<OsString>>(
    environment: &Environment<L>,
) -> Result<(SessionType, BufferingMode), StartupSessionError> {
    let is_streaming = environment.number("EventPipeOutputStreaming", 1) != 0;
    match (environment.number("EventPipeBufferingMode", 0), is_streaming) {
        (0, true) => Ok((SessionType::FileStream, BufferingMode::Drop)),
        (0, false) => Ok((SessionType::File, BufferingMode::Drop)),
        (1, true) => Ok((SessionType::FileStream, BufferingMode::Block)),
        (1, false) => Err(StartupSessionError::BlockWithoutStreaming),
        (mode, _) => Err(StartupSessionError::UnknownBufferingMode(mode)),
    }
}

fn session_config<L: Fn(&str) -> Option<OsString>>(
    environment: &Environment<L>,
    session_type: SessionType,
    buffering_mode: BufferingMode,
    providers: Vec<ProviderConfig>,
) -> SessionConfig {
    // spec: START-SIZE-1
    let megabytes = environment.number("EventPipeCircularMB", DEFAULT_MB).max(1);
    SessionConfig {
        buffering_mode,
        budget_bytes: (u64::from(megabytes) * BYTES_PER_MB).min(MOST_BYTES),
        // spec: START-ALL-1
        rundown_keyword: match environment.number("EventPipeRundown", 1) {
            0 => 0,
            _ => RUNDOWN_KEYWORD,
        },
        // spec: START-ALL-2
        stack_walk: match environment.number("EventPipeEnableStackwalk", 1) {
            0 => StackWalk::Off,
            _ => StackWalk::On,
        },
        ..SessionConfig::new(session_type, providers)
    }
}

// spec: START-PATH-1
fn file_path(text: &str, process_id: u32) -> PathBuf {
    Path::new(&text.replace("{pid}", &process_id.to_string())).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn read(pairs: &[(&str, &str)]) -> Result<Option<StartupSettings>, StartupSessionError> {
        let lookup = |name: &str| {
            let found = pairs.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| OsString::from(value))
        };
        StartupSettings::read(lookup, 4711)
    }

    /// With `EnableEventPipe` on and one variable more.
    fn with(name: &str, value: &str) -> StartupSettings {
        let name = format!("DOTNET_{name}");
        let settings = read(&[("DOTNET_EnableEventPipe", "1"), (&name, value)]);
        settings.expect("sensible settings").expect("a session")
    }

    // spec-test: START-ENV-1
    #[test]
    fn what_turns_it_on() {
        let check = |pairs: &[(&str, &str)], expected: bool| {
            assert_eq!(read(pairs).expect("sensible settings").is_some(), expected, "{pairs:?}");
        };
        check(&[], false);
        check(&[("DOTNET_EnableEventPipe", "1")], true);
        check(&[("DOTNET_EnableEventPipe", "0x10")], true);
        check(&[("DOTNET_EnableEventPipe", "1z")], true);
        check(&[("DOTNET_EnableEventPipe", "00")], false);
        check(&[("DOTNET_EnableEventPipe", "x")], false);
        check(&[("DOTNET_EnableEventPipe", "")], false);
        check(&[("COMPlus_EnableEventPipe", "1")], true);
        check(&[("COMPlus_EnableEventPipe", "1"), ("DOTNET_EnableEventPipe", "0")], false);
        check(&[("dotnet_enableeventpipe", "1")], false);
        check(&[("DOTNET_EventPipeConfig", "R:1:4")], false);
        // Nothing is said of settings that no session uses.
        check(&[("DOTNET_EventPipeBufferingMode", "7")], false);
    }

    // spec-test: START-MODE-1, START-MODE-2
    #[test]
    fn kinds_of_session() {
        let kind = |streaming: &str, mode: &str| {
            let settings = read(&[
                ("DOTNET_EnableEventPipe", "1"),
                ("DOTNET_EventPipeOutputStreaming", streaming),
                ("COMPlus_EventPipeBufferingMode", mode),
            ]);
            let config = settings.map(|settings| settings.expect("a session").session);
            config
                .map(|config| (config.session_type, config.buffering_mode))
                .map_err(|error| error.to_string())
        };
        let started = |session_type, mode| Ok((session_type, mode));
        assert_eq!(kind("1", "0"), started(SessionType::FileStream, BufferingMode::Drop));
        assert_eq!(kind("1", "1"), started(SessionType::FileStream, BufferingMode::Block));
        assert_eq!(kind("0", "0"), started(SessionType::File, BufferingMode::Drop));
        assert_eq!(kind("", ""), started(SessionType::FileStream, BufferingMode::Drop));
        assert_eq!(kind("2", "x"), started(SessionType::FileStream, BufferingMode::Drop));
        let block = "EventPipeBufferingMode 1 (Block) needs EventPipeOutputStreaming 1";
        assert_eq!(kind("0", "1"), Err(block.to_owned()));
        for (streaming, mode, shown) in [("1", "2", "2"), ("0", "10", "16"), ("1", "ffffffff", "4294967295")]
        {
            let text = format!("EventPipeBufferingMode is {shown}; it can be 0 (Drop) or 1 (Block)");
            assert_eq!(kind(streaming, mode), Err(text));
        }
    }

    // spec-test: START-SIZE-1
    #[test]
    fn megabytes_are_hexadecimal() {
        let check = |text: &str, bytes: u64| {
            assert_eq!(with("EventPipeCircularMB", text).session.budget_bytes, bytes, "{text:?}");
        };
        check("1", 1 << 20);
        check("40", 64 << 20);
        check("0", 1 << 20);
        check("", 1 << 30);
        check("x", 1 << 30);
        check("1ffffffff", 1 << 30);
        check("ffffffff", 4 << 30);
    }

    // spec-test: START-PATH-1
    #[test]
    fn paths() {
        let check = |text: &str, expected: &str| {
            assert_eq!(with("EventPipeOutputPath", text).path, Path::new(expected), "{text:?}");
        };
        check("", "trace.nettrace");
        check("/tmp/a.nettrace", "/tmp/a.nettrace");
        check("{pid}/a-{pid}-{PID}", "4711/a-4711-{PID}");
    }

    // spec-test: START-CONFIG-3, START-CONFIG-4
    #[test]
    fn providers() {
        let names = |text: &str| -> Vec<String> {
            with("EventPipeConfig", text).session.providers.into_iter().map(|entry| entry.name).collect()
        };
        assert_eq!(names("R:1:4,,S:0:5"), ["R", "S"]);
        assert_eq!(with("EventPipeConfig", "R:1:4,,S:0:9").remarks.len(), 2);
        let default = with("EventPipeConfig", "").session.providers;
        let found: Vec<_> =
            default.iter().map(|entry| (entry.name.as_str(), entry.keywords, entry.level as u32)).collect();
        let expected = [
            ("Microsoft-Windows-DotNETRuntime", 0x4_c14f_ccbd, 5),
            ("Microsoft-Windows-DotNETRuntimePrivate", 0x4002_000b, 5),
            ("Microsoft-DotNETCore-SampleProfiler", 0, 5),
        ];
        assert_eq!(found, expected);
        for text in [",", ":1:4", ",,,"] {
            let error =
                read(&[("DOTNET_EnableEventPipe", "1"), ("DOTNET_EventPipeConfig", text)]).unwrap_err();
            assert_eq!(error.to_string(), format!("EventPipeConfig {text:?} names no provider"));
        }
    }

    // spec-test: START-ALL-1, START-ALL-2
    #[test]
    fn rundown_and_stacks() {
        let check = |name: &str, value: &str, rundown_keyword: u64, stack_walk: StackWalk| {
            let session = with(name, value).session;
            assert_eq!(
                (session.rundown_keyword, session.stack_walk),
                (rundown_keyword, stack_walk),
                "{name}"
            );
        };
        check("EventPipeRundown", "1", 0x8002_0139, StackWalk::On);
        check("EventPipeRundown", "0", 0, StackWalk::On);
        check("EventPipeEnableStackwalk", "0", 0x8002_0139, StackWalk::Off);
    }

    // spec-test: START-PATH-1
    #[test]
    fn a_path_that_is_not_utf8() {
        let lookup = |name: &str| match name {
            "DOTNET_EnableEventPipe" => Some(OsString::from("1")),
            "DOTNET_EventPipeOutputPath" => Some(OsString::from_vec(vec![b'a', 0xff])),
            _ => None,
        };
        let error = StartupSettings::read(lookup, 1).unwrap_err();
        assert_eq!(error.to_string(), "EventPipeOutputPath is not UTF-8");
    }
}
