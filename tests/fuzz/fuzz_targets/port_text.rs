//! Texts: port lists, a tool's port option, names of sockets and pipes.
#![no_main]

use diagport_codec::{
    PortName, parse_diagnostic_ports, parse_dsrouter_pipe_name, parse_pipe_name, parse_tool_port, pipe_name,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let ports = parse_diagnostic_ports(text);
    for port in &ports {
        assert!(!port.address.is_empty());
        assert!(text.contains(&port.address));
    }
    let again: Vec<String> = ports.iter().map(ToString::to_string).collect();
    assert_eq!(parse_diagnostic_ports(&again.join(";")), ports);

    if let Ok(port) = parse_tool_port(text) {
        assert!(!port.address.is_empty());
        assert!(text.starts_with(&port.address));
    }
    if let Some(name) = PortName::parse(text) {
        assert_eq!(PortName::parse(&name.to_string()), Some(name));
    }
    if let Some(name) = PortName::parse_dsrouter(text) {
        assert_eq!(PortName::parse_dsrouter(&name.dsrouter_file_name()), Some(name));
    }
    if let Some(process_id) = parse_pipe_name(text) {
        assert_eq!(parse_pipe_name(&pipe_name(process_id)), Some(process_id));
    }
    let _ = parse_dsrouter_pipe_name(text);
});
