//! The named provider sets of the released collector, and how options combine into one list.

use diagport_codec::ProviderRequest;

use crate::provider_text::{CLR_PROVIDER, provider};

/// Rundown keyword of a session that asks for the runtime's default rundown.
pub const DEFAULT_RUNDOWN_KEYWORD: u64 = 0x8002_0139;
/// The sampling provider of the runtime.
pub const SAMPLE_PROFILER: &str = "Microsoft-DotNETCore-SampleProfiler";

/// One named set of providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// The name on the command line, matched in any case.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    /// Which rundown the profile wants; united over all chosen profiles.
    pub rundown_keyword: u64,
    rows: &'static [(&'static str, u64, u32, Option<&'static str>)],
}

impl Profile {
    /// The profile of that name, in any case.
    pub fn named(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name.eq_ignore_ascii_case(name.trim()))
    }

    /// The providers in the order the released tool sends them.
    pub fn providers(&self) -> Vec<ProviderRequest> {
        self.rows.iter().map(|&(n, k, l, a)| provider(n, k, l, a.map(str::to_owned))).collect()
    }
}

/// What is collected when neither providers nor profiles nor CLR events are named.
pub const DEFAULT_PROFILES: [&str; 2] = ["dotnet-common", "dotnet-sampled-thread-time"];

/// Adds the providers of a profile; a provider that is in the list already keeps its own settings.
pub fn add_profile(providers: &mut Vec<ProviderRequest>, profile: &Profile) {
    for added in profile.providers() {
        add_missing(providers, added);
    }
}

/// Adds one provider unless the list already has one of that name; says whether it was added.
pub fn add_missing(providers: &mut Vec<ProviderRequest>, added: ProviderRequest) -> Added {
    if providers.iter().any(|known| known.name.eq_ignore_ascii_case(&added.name)) {
        return Added::AlreadyThere;
    }
    providers.push(added);
    Added::Yes
}

/// Whether [`add_missing`] added its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It is now the last of the list.
    Yes,
    /// The list had one of that name, which stays as it was.
    AlreadyThere,
}

/// All profiles, in the released tool's order.
// spec: CLI-PROFILES-1
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "dotnet-common",
        description: "Runtime diagnostics at low overhead: GC, loader, JIT, exceptions, threading, compilation.",
        rundown_keyword: DEFAULT_RUNDOWN_KEYWORD,
        rows: &[(CLR_PROVIDER, 0x10_0003_801D, 4, None)],
    },
    Profile {
        name: "dotnet-sampled-thread-time",
        description: "Samples of all thread stacks, to estimate where wall clock time goes.",
        rundown_keyword: DEFAULT_RUNDOWN_KEYWORD,
        rows: &[(SAMPLE_PROFILER, 0xF000_0000_0000, 4, None)],
    },
    Profile {
        name: "gc-verbose",
        description: "Garbage collections and sampled object allocations.",
        rundown_keyword: DEFAULT_RUNDOWN_KEYWORD,
        rows: &[(CLR_PROVIDER, 0x8003, 5, None)],
    },
    Profile {
        name: "gc-collect",
        description: "Garbage collections only, at very low overhead.",
        rundown_keyword: 0x1,
        rows: &[(CLR_PROVIDER, 0x1, 4, None), ("Microsoft-Windows-DotNETRuntimePrivate", 0x1, 4, None)],
    },
    Profile {
        name: "database",
        description: "ADO.NET and Entity Framework database commands.",
        rundown_keyword: DEFAULT_RUNDOWN_KEYWORD,
        rows: &[
            ("System.Threading.Tasks.TplEventSource", 0x80, 4, None),
            ("Microsoft-Diagnostics-DiagnosticSource", 0x3, 5, Some(DATABASE_ARGUMENTS)),
        ],
    },
];

/// Quoted as a whole, because the value holds `;`.
const DATABASE_ARGUMENTS: &str = concat!(
    "FilterAndPayloadSpecs=\"",
    "SqlClientDiagnosticListener/System.Data.SqlClient.WriteCommandBefore@Activity1Start:-Command;Command.CommandText;",
    "ConnectionId;Operation;Command.Connection.ServerVersion;Command.CommandTimeout;Command.CommandType;",
    "Command.Connection.ConnectionString;Command.Connection.Database;Command.Connection.DataSource;",
    "Command.Connection.PacketSize\r\n",
    "SqlClientDiagnosticListener/System.Data.SqlClient.WriteCommandAfter@Activity1Stop:\r\n",
    "Microsoft.EntityFrameworkCore/Microsoft.EntityFrameworkCore.Database.Command.CommandExecuting@Activity2Start:",
    "-Command.CommandText;Command;ConnectionId;IsAsync;Command.Connection.ClientConnectionId;",
    "Command.Connection.ServerVersion;Command.CommandTimeout;Command.CommandType;",
    "Command.Connection.ConnectionString;Command.Connection.Database;Command.Connection.DataSource;",
    "Command.Connection.PacketSize\r\n",
    "Microsoft.EntityFrameworkCore/Microsoft.EntityFrameworkCore.Database.Command.CommandExecuted@Activity2Stop:\"",
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider_text::parse_providers;

    // spec-test: CLI-PROFILES-1
    #[test]
    fn explicit_providers_win_over_profiles() {
        let mut providers = parse_providers("microsoft-windows-dotnetruntime:8:5,Mine").unwrap();
        for name in DEFAULT_PROFILES {
            add_profile(&mut providers, Profile::named(&name.to_uppercase()).expect("a known profile"));
        }
        let names: Vec<_> = providers.iter().map(|p| (p.name.as_str(), p.keywords)).collect();
        assert_eq!(
            names,
            [("microsoft-windows-dotnetruntime", 8), ("Mine", 0), (SAMPLE_PROFILER, 0xF000_0000_0000)]
        );
    }

    #[test]
    fn unknown_profiles_have_no_providers() {
        assert_eq!(Profile::named("cpu-sampling"), None);
    }
}
