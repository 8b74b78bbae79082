//! The environment variables that configure a server, and how any setting of a runtime is read.

use diagport_codec::{PortSpec, parse_diagnostic_ports};

use crate::SessionFeature;

/// The value of a runtime's setting: that of `DOTNET_NAME`, or where that is not set at all that of `COMPlus_NAME`.
// spec: SRV-ENV-2
pub fn setting<T>(lookup: impl Fn(&str) -> Option<T>, name: &str) -> Option<T> {
    lookup(&format!("DOTNET_{name}")).or_else(|| lookup(&format!("COMPlus_{name}")))
}

/// The number that the text of a runtime's setting says: hexadecimal, `0x` or not; what follows the digits is ignored. No digits, or more
/// than 32 bits: no number.
// spec: SRV-ENV-1
#[must_use]
pub fn setting_number(text: &str) -> Option<u32> {
    let text = text.trim_start();
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    let end = digits.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(digits.len());
    u32::from_str_radix(&digits[..end], 16).ok()
}

/// What the environment says about diagnostics.
// spec: SRV-ENV-1, SRV-ENV-2
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) is_enabled: bool,
    /// The value as it stands, for the pause message.
    pub(crate) ports_text: String,
    pub(crate) ports: Vec<PortSpec>,
    /// 0, or what makes the default port suspend.
    pub(crate) default_port_suspend: u32,
    pub(crate) rundown: SessionFeature,
    pub(crate) stack_walk: SessionFeature,
}

impl Settings {
    pub(crate) fn read(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name: &str| setting(&lookup, name);
        let number =
            |name: &str, default: u32| value(name).and_then(|text| setting_number(&text)).unwrap_or(default);
        // spec: START-ALL-1, START-ALL-2
        let feature = |name: &str| match number(name, 1) {
            0 => SessionFeature::Off,
            _ => SessionFeature::AsRequested,
        };
        let ports_text = value("DiagnosticPorts").unwrap_or_default();
        Self {
            is_enabled: number("EnableDiagnostics", 1) != 0 && number("EnableDiagnostics_IPC", 1) != 0,
            ports: parse_diagnostic_ports(&ports_text),
            ports_text,
            default_port_suspend: number("DefaultDiagnosticPortSuspend", 0),
            rundown: feature("EventPipeRundown"),
            stack_walk: feature("EventPipeEnableStackwalk"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Settings, setting_number};
    use crate::SessionFeature;

    fn read(pairs: &[(&str, &str)]) -> Settings {
        Settings::read(|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    // spec-test: SRV-ENV-1
    #[test]
    fn numbers_are_hexadecimal() {
        let check =
            |text: &str, expected: Option<u32>| assert_eq!(setting_number(text), expected, "{text:?}");
        check("40", Some(64));
        check("0x1F", Some(31));
        check("00", Some(0));
        check("ffffffff", Some(u32::MAX));
        check("1ffffffff", None);
        check("1z", Some(1));
        check("x", None);
        check("", None);
        check(" 1", Some(1));
    }

    // spec-test: SRV-ENV-2
    #[test]
    fn both_switches_must_be_on() {
        let check = |pairs: &[(&str, &str)], expected: bool| {
            assert_eq!(read(pairs).is_enabled, expected, "{pairs:?}");
        };
        check(&[], true);
        check(&[("DOTNET_EnableDiagnostics", "0")], false);
        check(&[("DOTNET_EnableDiagnostics", "00")], false);
        check(&[("DOTNET_EnableDiagnostics", "x")], true);
        check(&[("DOTNET_EnableDiagnostics", "")], true);
        check(&[("DOTNET_EnableDiagnostics_IPC", "0")], false);
        check(&[("DOTNET_EnableDiagnostics", "0"), ("DOTNET_EnableDiagnostics_IPC", "1")], false);
        check(&[("COMPlus_EnableDiagnostics", "0")], false);
        check(&[("COMPlus_EnableDiagnostics", "0"), ("DOTNET_EnableDiagnostics", "1")], true);
        check(&[("dotnet_enablediagnostics", "0")], true);
    }

    // spec-test: START-ALL-1, START-ALL-2
    #[test]
    fn features_of_sessions() {
        let check = |pairs: &[(&str, &str)], rundown: SessionFeature, stack_walk: SessionFeature| {
            let settings = read(pairs);
            assert_eq!((settings.rundown, settings.stack_walk), (rundown, stack_walk), "{pairs:?}");
        };
        let (on, off) = (SessionFeature::AsRequested, SessionFeature::Off);
        check(&[], on, on);
        check(&[("DOTNET_EventPipeRundown", "0")], off, on);
        check(&[("COMPlus_EventPipeRundown", "0")], off, on);
        check(&[("DOTNET_EventPipeRundown", "1"), ("COMPlus_EventPipeRundown", "0")], on, on);
        check(&[("DOTNET_EventPipeRundown", "no")], on, on);
        check(&[("DOTNET_EventPipeEnableStackwalk", "00")], on, off);
        check(&[("DOTNET_EventPipeEnableStackwalk", "")], on, on);
    }

    #[test]
    fn ports_and_suspension() {
        let settings = read(&[
            ("COMPlus_DiagnosticPorts", "/a;/b,nosuspend"),
            ("DOTNET_DefaultDiagnosticPortSuspend", "10"),
        ]);
        assert_eq!(settings.ports.len(), 2);
        assert_eq!(settings.ports_text, "/a;/b,nosuspend");
        assert_eq!(settings.default_port_suspend, 16);
        assert_eq!(read(&[("DOTNET_DefaultDiagnosticPortSuspend", "yes")]).default_port_suspend, 0);
    }
}
