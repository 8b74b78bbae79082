//! Port texts and port names.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use diagport_codec::{
    ParseToolPortError, PortKind, PortName, PortSpec, SuspendMode, ToolPort, parse_diagnostic_ports,
    parse_dsrouter_pipe_name, parse_pipe_name, parse_tool_port, pipe_name,
};

// spec-test: PORT-TEXT-1, PORT-TEXT-2, PORT-TEXT-3, PORT-TEXT-4
#[test]
fn diagnostic_ports_as_the_runtime_reads_them() {
    for (text, ports) in [
        ("", &[][..]),
        (";", &[]),
        (",", &[]),
        (";,;,,", &[]),
        ("p", &["p,connect,suspend"]),
        ("p,nosuspend;", &["p,connect,nosuspend"]),
        (";;p,,nosuspend,;", &["p,connect,nosuspend"]),
        ("p,nosuspend,suspend", &["p,connect,nosuspend"]),
        ("p,suspend,nosuspend", &["p,connect,suspend"]),
        ("p,listen,nosuspend", &["p,listen,nosuspend"]),
        ("p,connect,listen,nosuspend", &["p,connect,nosuspend"]),
        ("p,listen,connect", &["p,listen,suspend"]),
        ("p,nosuspend,bogus", &["p,connect,nosuspend"]),
        ("p,NoSuspend,LISTEN", &["p,listen,nosuspend"]),
        ("nosuspend,connect", &["nosuspend,connect,suspend"]),
        ("p, nosuspend", &["p,connect,suspend"]),
        (" p ,nosuspend", &[" p ,connect,nosuspend"]),
        ("p;p", &["p,connect,suspend", "p,connect,suspend"]),
        (",p", &["p,connect,suspend"]),
        ("a;b,nosuspend;c,listen", &["a,connect,suspend", "b,connect,nosuspend", "c,listen,suspend"]),
        ("127.0.0.1:9000,nosuspend", &["127.0.0.1:9000,connect,nosuspend"]),
    ] {
        let parsed: Vec<String> = parse_diagnostic_ports(text).iter().map(PortSpec::to_string).collect();
        assert_eq!(parsed, ports, "{text:?}");
    }
    let spec = PortSpec { address: "/p".into(), kind: PortKind::Listen, suspend: SuspendMode::NoSuspend };
    assert_eq!(parse_diagnostic_ports(&spec.to_string()), [spec]);
}

// spec-test: PORT-TOOL-1
#[test]
fn tool_ports() {
    let port = |address: &str, kind| Ok(ToolPort { address: address.to_owned(), kind });
    let keyword = |keyword: &str| Err(ParseToolPortError::UnknownKeyword { keyword: keyword.to_owned() });
    for (text, expected) in [
        ("/p", port("/p", PortKind::Listen)),
        ("/p,listen", port("/p", PortKind::Listen)),
        ("/p,CONNECT", port("/p", PortKind::Connect)),
        (" /p,connect", port(" /p", PortKind::Connect)),
        ("", Err(ParseToolPortError::MissingAddress)),
        (",connect", Err(ParseToolPortError::MissingAddress)),
        ("/p,connect,listen", Err(ParseToolPortError::TooManyParts)),
        (",,", Err(ParseToolPortError::TooManyParts)),
        ("/p,", keyword("")),
        ("/p, connect", keyword(" connect")),
        ("/p,nosuspend", keyword("nosuspend")),
    ] {
        assert_eq!(parse_tool_port(text), expected, "{text:?}");
    }
}

// spec-test: PORT-NAME-1, PORT-NAME-2, PORT-NAME-3
#[test]
fn socket_names() {
    let name = PortName { process_id: 17, key: 281_474_976_710_656 };
    assert_eq!(name.to_string(), "dotnet-diagnostic-17-281474976710656-socket");
    assert_eq!(PortName::parse(&name.to_string()), Some(name));
    assert_eq!(name.dsrouter_file_name(), "dotnet-diagnostic-dsrouter-17-281474976710656-socket");
    assert_eq!(PortName::parse_dsrouter(&name.dsrouter_file_name()), Some(name));
    for other in [
        "",
        "dotnet-diagnostic-",
        "dotnet-diagnostic-17-socket",
        "dotnet-diagnostic-17--socket",
        "dotnet-diagnostic--5-socket",
        "dotnet-diagnostic-17-5-socket ",
        " dotnet-diagnostic-17-5-socket",
        "dotnet-diagnostic-17-5-socket\n",
        "/tmp/dotnet-diagnostic-17-5-socket",
        "dotnet-diagnostic-+17-5-socket",
        "dotnet-diagnostic-17-+5-socket",
        "dotnet-diagnostic-17-5-6-socket",
        "dotnet-diagnostic-17-abc-socket",
        "dotnet-diagnostic-٣-5-socket",
        "dotnet-diagnostic-4294967296-5-socket",
        "dotnet-diagnostic-17-18446744073709551616-socket",
        "Dotnet-diagnostic-17-5-socket",
        "dotnet-diagnostic-dsrouter-17-5-socket",
        "dotnet-diagnostic-socket",
    ] {
        assert_eq!(PortName::parse(other), None, "{other:?}");
    }
    assert_eq!(PortName::parse_dsrouter("dotnet-diagnostic-17-5-socket"), None);
}

// spec-test: PORT-NAME-4
#[test]
fn pipe_names() {
    assert_eq!(pipe_name(17), "dotnet-diagnostic-17");
    assert_eq!(parse_pipe_name("dotnet-diagnostic-17"), Some(17));
    assert_eq!(parse_dsrouter_pipe_name("dotnet-diagnostic-dsrouter-17"), Some(17));
    for other in ["dotnet-diagnostic-", "dotnet-diagnostic-17-5-socket", "dotnet-diagnostic-dsrouter-17", "x"]
    {
        assert_eq!(parse_pipe_name(other), None, "{other:?}");
    }
}
