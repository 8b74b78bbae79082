//! The options of `trace`, spelled as the released collector spells them, and what they ask for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use diagport_client::profiles::{
    Added, DEFAULT_PROFILES, DEFAULT_RUNDOWN_KEYWORD, Profile, add_missing, add_profile,
};
use diagport_client::provider_text::{DEFAULT_LEVEL, parse_clr_events, parse_level, parse_providers};
use diagport_client::time_text::parse_duration;
use diagport_client::{CollectRequest, KeywordFallback};
use diagport_codec::{BufferingMode, ProviderRequest, StackWalk};

use super::child::ADVERTISE_LIMIT;
use crate::console;
use crate::exit::{Exit, Failure};
use crate::target_options::parse_limit;

/// Record a trace of a process, or of a command that is launched for it
#[derive(Debug, Clone, Args)]
#[group(skip)]
#[command(
    override_usage = "diagport trace [OPTIONS] <-p PID | -n NAME | --dport PATH[,connect|listen] | -- CMD...>"
)]
#[command(group(
    ArgGroup::new("trace-target").required(true).args(["process_id", "name", "diagnostic_port", "child"])
))]
pub(crate) struct TraceCommand {
    /// Process id of the target
    #[arg(allow_negative_numbers = true, short = 'p', long, value_name = "PID")]
    pub(crate) process_id: Option<u32>,
    /// Name of the target, if exactly one process with a port has it
    #[arg(short = 'n', long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Path of a diagnostic port: wait there for the target to connect, or with `,connect` connect to it
    #[arg(long, visible_aliases = ["dport", "port"], value_name = "PATH[,connect|listen]")]
    pub(crate) diagnostic_port: Option<String>,
    /// Providers: NAME[:HEXKEYWORDS[:LEVEL[:KEY=VALUE;KEY=VALUE]]], separated by commas
    #[arg(long, value_name = "LIST")]
    providers: Vec<String>,
    /// Named sets of providers, separated by commas: dotnet-common, dotnet-sampled-thread-time, gc-verbose, gc-collect, database
    #[arg(long, value_name = "LIST")]
    profile: Vec<String>,
    /// Events of the .NET runtime, as words joined by `+`, such as gc+jit+loader
    #[arg(long, value_name = "WORDS")]
    clrevents: Option<String>,
    /// Level of the --clrevents, a number or a name
    #[arg(long, value_name = "LEVEL")]
    clreventlevel: Option<String>,
    /// Size of the target's event buffer in megabytes
    #[arg(allow_negative_numbers = true, long, value_name = "MB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    buffersize: u32,
    /// What the target does when its buffer is full: Drop events and count them, or Block their threads (.NET 11)
    #[arg(long, value_name = "MODE", value_enum, default_value_t = BufferingWord::Drop, ignore_case = true)]
    buffering_mode: BufferingWord,
    /// Stop after this time: dd:hh:mm:ss, hh:mm:ss, or with a unit as 5s; without it on Enter or Ctrl-C
    #[arg(allow_negative_numbers = true, long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Whether the target describes its code at the end, which names need
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", ignore_case = true, value_enum)]
    rundown: Option<YesNo>,
    /// Whether to let a suspended target go on once the recording has started
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", default_value = "true", ignore_case = true, value_enum)]
    pub(crate) resume_runtime: YesNo,
    /// File to write; by default NAME_yyyyMMdd_HHmmss.nettrace in the current folder
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Format of the file
    #[arg(long, value_enum, default_value_t = TraceFormat::NetTrace, ignore_case = true, hide = true)]
    format: TraceFormat,
    /// Accepted for compatibility: a launched command always has this terminal
    #[arg(long, hide = true, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", ignore_case = true, value_enum)]
    show_child_io: Option<YesNo>,
    /// Limit for starting the session, and again for ending it [default: 30s; 10s for a command and 10m for a target to connect]
    #[arg(allow_negative_numbers = true, long, value_name = "DURATION", value_parser = parse_limit)]
    pub(crate) timeout: Option<Duration>,
    /// Exit with 8 if events were lost
    #[arg(long)]
    pub(crate) fail_on_loss: bool,
    /// Print one JSON object at the end instead of lines
    #[arg(long)]
    pub(crate) json: bool,
    /// Command to launch, suspended until the recording has started; its arguments stay as they are
    #[arg(last = true, id = "child", value_name = "CMD")]
    pub(crate) child: Vec<OsString>,
}

/// Limit of starting a session, and of ending it.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30);
/// Limit of ending a session whose stream goes on and on.
const DEFAULT_STOP_LIMIT: Duration = Duration::from_secs(600);
/// Limit of waiting for somebody to start a target that connects to us.
const DEFAULT_CONNECTION_LIMIT: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BufferingWord {
    #[value(name = "Drop", alias = "0")]
    Drop,
    #[value(name = "Block", alias = "1")]
    Block,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum YesNo {
    #[value(name = "true")]
    Yes,
    #[value(name = "false")]
    No,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TraceFormat {
    #[value(name = "NetTrace")]
    NetTrace,
}

impl TraceCommand {
    /// Limit of each bounded phase.
    pub(crate) fn limit(&self) -> Duration {
        self.timeout.unwrap_or(DEFAULT_LIMIT)
    }

    /// Limits of the end: for a stream that is silent, and in all. A large program takes its time to describe itself, so
    /// bytes that arrive renew the first one; a limit that was asked for is kept as it is.
    pub(crate) fn stop_limits(&self) -> (Duration, Duration) {
        match self.timeout {
            Some(limit) => (limit, limit),
            None => (DEFAULT_LIMIT, DEFAULT_STOP_LIMIT),
        }
    }

    /// Limit of waiting for a launched command to connect.
    pub(crate) fn launch_limit(&self) -> Duration {
        self.timeout.unwrap_or(ADVERTISE_LIMIT)
    }

    /// Limit of waiting for a target that connects to us.
    pub(crate) fn connection_limit(&self) -> Duration {
        self.timeout.unwrap_or(DEFAULT_CONNECTION_LIMIT)
    }

    /// Tells about the course of the recording: on standard output, as the released tool does, unless that belongs to
    /// the launched command or to JSON.
    pub(crate) fn say(&self, text: &str) {
        let is_taken = self.json || !self.child.is_empty() || self.records_to_standard_output();
        if is_taken { console::note(text) } else { console::result_line(text) }
    }

    /// Whether the recording itself goes to standard output, so that nothing else may.
    // spec: CLI-OUTPUT-4
    pub(crate) fn records_to_standard_output(&self) -> bool {
        self.output.as_deref().is_some_and(console::is_standard_output)
    }

    /// The recording that the options ask for.
    // spec: CLI-TRACE-1
    pub(crate) fn collect_request(&self) -> Result<CollectRequest, Failure> {
        let profiles = self.profiles()?;
        let providers = self.provider_list(&profiles)?;
        let (rundown_keyword, keyword_fallback) = self.rundown_keyword(&profiles);
        let request = CollectRequest {
            providers,
            circular_buffer_mb: self.buffersize,
            buffering_mode: match self.buffering_mode {
                BufferingWord::Drop => BufferingMode::Drop,
                BufferingWord::Block => BufferingMode::Block,
            },
            stack_walk: StackWalk::On,
            rundown_keyword,
            keyword_fallback,
        };
        request.check().map_err(|error| {
            Failure::new(Exit::Usage, format!("a session cannot be asked for like this: {error}"))
        })?;
        Ok(request)
    }

    /// Empty parts of a list count for nothing, and a list of nothing is no list: scripts fill these options from
    /// variables.
    fn profiles(&self) -> Result<Vec<&'static Profile>, Failure> {
        let parts = self.profile.iter().flat_map(|list| list.split(',')).map(str::trim);
        let mut names: Vec<&str> = parts.filter(|name| !name.is_empty()).collect();
        let has_providers =
            self.providers.iter().any(|list| list.chars().any(|c| c != ',' && !c.is_whitespace()));
        if names.is_empty() && !has_providers && self.clr_events().is_none() {
            self.say(&format!(
                "No profile or providers specified, using the profiles {}",
                DEFAULT_PROFILES.join(" + ")
            ));
            names.extend(DEFAULT_PROFILES);
        }
        names.into_iter().map(profile_named).collect()
    }

    fn clr_events(&self) -> Option<&str> {
        self.clrevents.as_deref().filter(|words| !words.trim().is_empty())
    }

    fn provider_list(&self, profiles: &[&'static Profile]) -> Result<Vec<ProviderRequest>, Failure> {
        let usage = |error: &dyn std::error::Error| Failure::new(Exit::Usage, error.to_string());
        let mut providers = parse_providers(&self.providers.join(",")).map_err(|error| usage(&error))?;
        profiles.iter().for_each(|profile| add_profile(&mut providers, profile));
        let Some(words) = self.clr_events() else {
            if self.clreventlevel.is_some() {
                self.say("--clreventlevel is ignored: there are no --clrevents");
            }
            return Ok(providers);
        };
        let level = self.clreventlevel.as_deref().map_or(Ok(DEFAULT_LEVEL), parse_level);
        let clr = level.and_then(|level| parse_clr_events(words, level)).map_err(|error| usage(&error))?;
        if add_missing(&mut providers, clr) == Added::AlreadyThere {
            self.say("--clrevents is ignored: --providers or --profile name the runtime's provider already");
        }
        Ok(providers)
    }

    /// A profile may want less than the usual rundown; `--rundown` overrules all of them.
    fn rundown_keyword(&self, profiles: &[&'static Profile]) -> (u64, KeywordFallback) {
        let wanted = profiles.iter().fold(0, |keyword, profile| keyword | profile.rundown_keyword);
        match self.rundown {
            Some(YesNo::No) => (0, KeywordFallback::NoRundown),
            Some(YesNo::Yes) => (wanted | DEFAULT_RUNDOWN_KEYWORD, KeywordFallback::UsualRundown),
            None if profiles.is_empty() => (DEFAULT_RUNDOWN_KEYWORD, KeywordFallback::UsualRundown),
            None => (wanted, KeywordFallback::NoRundown),
        }
    }
}

fn profile_named(name: &str) -> Result<&'static Profile, Failure> {
    Profile::named(name).ok_or_else(|| {
        let known: Vec<&str> =
            diagport_client::profiles::PROFILES.iter().map(|profile| profile.name).collect();
        Failure::new(Exit::Usage, format!("`{name}` is not a profile; known: {}", known.join(", ")))
    })
}
