//! Random values and random bytes. A failure prints its seed and its smallest case.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod vectors;

use diagport_codec::{
    Advertise, AdvertisePrefix, AttachProfiler, BufferingMode, CollectTracing, CollectTracingVersion,
    DecodeError, DumpFlags, DumpType, EventFilter, FilterSense, GenerateCoreDump, GenerateCoreDumpVersion,
    Guid, HResult, IpcMessage, PortKind, PortName, PortSpec, Prefix, ProcessInfo, ProcessInfoVersion,
    ProviderRequest, Reply, Request, RuntimeCookie, SessionOutput, StackWalk, StartupProfiler, StreamFormat,
    SuspendMode, TracepointConfig, TracepointSet, decode_environment, decode_prefix, encode_environment,
    end_of_input, limits, parse_diagnostic_ports,
};
use diagport_codec::{Command, EnvironmentReply};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::{option, sample};

fn text() -> impl Strategy<Value = String> {
    vec(any::<char>().prop_filter("a NUL ends a text", |character| *character != '\0'), 0..12)
        .prop_map(|characters| characters.into_iter().collect())
}

fn name() -> impl Strategy<Value = String> {
    text().prop_filter("a name says something", |text| !text.is_empty())
}

fn filter() -> impl Strategy<Value = EventFilter> {
    let sense = sample::select(vec![FilterSense::Allow, FilterSense::Deny]);
    (sense, vec(0..9_u32, 0..5)).prop_map(|(sense, ids)| EventFilter { sense, ids })
}

fn tracepoints() -> impl Strategy<Value = TracepointConfig> {
    // Ids of set n are n*100 and more, so that none stands twice.
    let set = (name(), 0..4_u32);
    (option::of(name()), vec(set, 0..4))
        .prop_filter("a tracepoint", |(default_name, sets)| default_name.is_some() || !sets.is_empty())
        .prop_map(|(default_name, sets)| TracepointConfig {
            default_name,
            sets: (0..)
                .zip(sets)
                .map(|(at, (name, ids))| TracepointSet { name, ids: (at * 100..at * 100 + ids).collect() })
                .collect(),
        })
}

fn provider() -> impl Strategy<Value = ProviderRequest> {
    (any::<u64>(), 0..=limits::MAX_EVENT_LEVEL, name(), option::of(text())).prop_map(
        |(keywords, level, name, arguments)| ProviderRequest {
            arguments,
            ..ProviderRequest::new(name, keywords, level)
        },
    )
}

fn streaming() -> impl Strategy<Value = SessionOutput> {
    let format = sample::select(vec![StreamFormat::NetPerf, StreamFormat::NetTrace]);
    let stack_walk = sample::select(vec![StackWalk::Off, StackWalk::On]);
    let buffering_mode = sample::select(vec![BufferingMode::Drop, BufferingMode::Block]);
    (1_u32.., format, stack_walk, buffering_mode).prop_map(
        |(circular_buffer_mb, format, stack_walk, buffering_mode)| SessionOutput::Streaming {
            circular_buffer_mb,
            format,
            stack_walk,
            buffering_mode,
        },
    )
}

/// A session in every version that can say it.
fn collect_tracing() -> impl Strategy<Value = CollectTracing> {
    let rundown = prop_oneof![Just(0), Just(limits::DEFAULT_RUNDOWN_KEYWORD), any::<u64>()];
    let providers = vec((provider(), filter(), tracepoints()), 1..4);
    (rundown, streaming(), any::<[bool; 2]>(), providers, any::<sample::Selector>()).prop_map(
        |(rundown_keyword, streaming, [filtered, user_events], entries, selector)| {
            let output = if user_events { SessionOutput::UserEvents } else { streaming };
            let providers = entries
                .into_iter()
                .map(|(provider, filter, tracepoints)| ProviderRequest {
                    filter: if filtered { filter } else { EventFilter::ALL },
                    tracepoints: user_events.then_some(tracepoints),
                    ..provider
                })
                .collect();
            let mut request =
                CollectTracing { version: CollectTracingVersion::V6, output, rundown_keyword, providers };
            let oldest = request.oldest_version();
            request.version =
                selector.select(CollectTracingVersion::ALL.into_iter().filter(|version| *version >= oldest));
            request
        },
    )
}

fn core_dump() -> impl Strategy<Value = GenerateCoreDump> {
    let version = sample::select(vec![
        GenerateCoreDumpVersion::V1,
        GenerateCoreDumpVersion::V2,
        GenerateCoreDumpVersion::V3,
    ]);
    (version, text(), any::<[u32; 2]>()).prop_map(|(version, path, [dump_type, flags])| GenerateCoreDump {
        version,
        path,
        dump_type: DumpType(dump_type),
        flags: DumpFlags(flags),
    })
}

fn attach_profiler() -> impl Strategy<Value = AttachProfiler> {
    (any::<u32>(), any::<[u8; 16]>(), option::of(text()), vec(any::<u8>(), 0..40)).prop_map(
        |(attach_timeout_ms, guid, profiler_path, client_data)| AttachProfiler {
            attach_timeout_ms,
            profiler_guid: Guid(guid),
            profiler_path,
            client_data,
        },
    )
}

fn request() -> impl Strategy<Value = Request> {
    let version = sample::select(ProcessInfoVersion::ALL.to_vec());
    let startup = (any::<[u8; 16]>(), option::of(text()))
        .prop_map(|(guid, profiler_path)| StartupProfiler { profiler_guid: Guid(guid), profiler_path });
    prop_oneof![
        1 => any::<u64>().prop_map(|session_id| Request::StopTracing { session_id }),
        8 => collect_tracing().prop_map(Request::CollectTracing),
        2 => core_dump().prop_map(Request::GenerateCoreDump),
        1 => attach_profiler().prop_map(Request::AttachProfiler),
        1 => startup.prop_map(Request::StartupProfiler),
        1 => version.prop_map(Request::ProcessInfo),
        1 => Just(Request::ResumeRuntime),
        1 => Just(Request::ProcessEnvironment),
        1 => (option::of(text()), option::of(text()))
            .prop_map(|(name, value)| Request::SetEnvironmentVariable { name, value }),
        1 => any::<u32>().prop_map(|kind| Request::EnablePerfMap { kind }),
        1 => Just(Request::DisablePerfMap),
        1 => option::of(text()).prop_map(|path| Request::ApplyStartupHook { path }),
    ]
}

fn process_info() -> impl Strategy<Value = ProcessInfo> {
    (any::<u64>(), any::<[u8; 16]>(), vec(text(), 6)).prop_map(|(process_id, cookie, texts)| {
        let mut texts = texts.into_iter();
        let mut next = || texts.next().unwrap();
        ProcessInfo {
            process_id,
            cookie: RuntimeCookie::from_bytes(cookie),
            command_line: next(),
            operating_system: next(),
            architecture: next(),
            entry_assembly: Some(next()),
            clr_product_version: Some(next()),
            portable_rid: Some(next()),
        }
    })
}

/// A request with a few of its bytes changed, and maybe its end cut: closer to the edges than random bytes.
fn damaged_message() -> impl Strategy<Value = IpcMessage> {
    let changes = vec((any::<sample::Index>(), any::<u8>()), 0..4);
    (request(), changes, any::<sample::Index>(), any::<bool>()).prop_map(
        |(request, changes, cut, shorten)| {
            let mut message = request.encode().unwrap();
            if !message.payload.is_empty() {
                for (at, value) in changes {
                    let at = at.index(message.payload.len());
                    message.payload[at] = value;
                }
                if shorten {
                    message.payload.truncate(cut.index(message.payload.len()));
                }
            }
            message
        },
    )
}

/// The port grammar as a C programmer writes it: `strtok` over `;`, then over `,`, tags applied from the right.
fn strtok_ports(text: &str) -> Vec<PortSpec> {
    fn strtok(text: &str, separator: char) -> Vec<String> {
        let mut tokens = vec![String::new()];
        for character in text.chars() {
            if character == separator {
                tokens.push(String::new());
            } else {
                tokens.last_mut().unwrap().push(character);
            }
        }
        tokens.retain(|token| !token.is_empty());
        tokens
    }
    let mut ports = Vec::new();
    for part in strtok(text, ';') {
        let tokens = strtok(&part, ',');
        if tokens.is_empty() {
            continue;
        }
        let mut port =
            PortSpec { address: tokens[0].clone(), kind: PortKind::Connect, suspend: SuspendMode::Suspend };
        for tag in tokens[1..].iter().rev() {
            match tag.to_ascii_lowercase().as_str() {
                "connect" => port.kind = PortKind::Connect,
                "listen" => port.kind = PortKind::Listen,
                "suspend" => port.suspend = SuspendMode::Suspend,
                "nosuspend" => port.suspend = SuspendMode::NoSuspend,
                _ => {}
            }
        }
        ports.push(port);
    }
    ports
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    // spec-test: IPC-REQ-1, EP-CT-1, EP-CT-2, EP-TP-1, EP-FILTER-1
    #[test]
    fn a_request_that_encodes_decodes_to_itself(request in request()) {
        let bytes = request.encode().unwrap().encode().unwrap();
        let decoded = Request::decode(&IpcMessage::decode_exact(&bytes).unwrap());
        prop_assert_eq!(decoded, Ok(request));
    }

    // spec-test: IPC-REQ-4
    #[test]
    fn bytes_behind_the_last_field_change_nothing(request in request(), behind in vec(any::<u8>(), 0..9)) {
        let mut message = request.encode().unwrap();
        message.payload.extend(behind);
        prop_assert_eq!(Request::decode(&message), Ok(request));
    }

    /// What survives damage is a request like any other: it encodes, and decodes to itself.
    #[test]
    fn a_damaged_request_never_panics(message in damaged_message()) {
        match Request::decode(&message) {
            Err(error) => prop_assert_ne!(error.hresult(), HResult::OK),
            Ok(request) => {
                let again = request.encode().unwrap();
                prop_assert!(again.payload.len() <= message.payload.len() * 3 / 2);
                prop_assert_eq!(Request::decode(&again), Ok(request));
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..200), at in any::<sample::Index>()) {
        let _ = decode_prefix(&bytes);
        let _ = Advertise::decode_prefix(&bytes);
        let _ = decode_environment(&bytes);
        let _ = EnvironmentReply::decode(&bytes);
        for version in ProcessInfoVersion::ALL {
            let _ = ProcessInfo::decode(version, &bytes);
        }
        let command = *at.get(Command::KNOWN);
        let _ = Request::decode(&IpcMessage::new(command, bytes.clone()));
        let _ = Reply::decode(&IpcMessage::new(command, bytes));
    }

    /// However an input arrives, every look at it says what one look at all of it would.
    // spec-test: IPC-HDR-5
    #[test]
    fn any_split_gives_the_same_message(
        request in request(),
        behind in vec(any::<u8>(), 0..30),
        damage in option::of((0..20_usize, any::<u8>())),
        pieces in vec(1..40_usize, 1..60),
    ) {
        let mut bytes = request.encode().unwrap().encode().unwrap();
        bytes.extend(behind);
        if let Some((at, value)) = damage {
            bytes[at] = value;
        }
        let at_once = decode_prefix(&bytes);
        let mut fed = 0;
        for piece in pieces.into_iter().chain([bytes.len()]) {
            let needed_bytes = match decode_prefix(&bytes[..fed]) {
                Ok(Prefix::Incomplete { needed_bytes }) => needed_bytes,
                judged => {
                    prop_assert_eq!(&judged, &at_once);
                    break;
                }
            };
            prop_assert!(needed_bytes > 0);
            // With fewer than the bytes it asks for there is nothing more to say.
            if let Some(almost) = bytes.get(..fed + needed_bytes - 1) {
                prop_assert_eq!(
                    decode_prefix(almost),
                    Ok(Prefix::Incomplete { needed_bytes: 1 })
                );
            }
            let _: DecodeError = end_of_input(&bytes[..fed]);
            fed = (fed + piece).min(bytes.len());
        }
    }

    #[test]
    fn a_reply_decodes_to_itself(code in any::<u32>(), message in option::of(text()), payload in vec(any::<u8>(), 0..50)) {
        for reply in [Reply::Error { hresult: HResult(code), message }, Reply::Ok { payload }] {
            let bytes = reply.encode().encode().unwrap();
            prop_assert_eq!(Reply::decode(&IpcMessage::decode_exact(&bytes).unwrap()), Ok(reply));
        }
    }

    // spec-test: PROC-INFO-3
    #[test]
    fn process_info_decodes_to_itself(info in process_info()) {
        let payload = info.encode(ProcessInfoVersion::V3).unwrap();
        prop_assert_eq!(ProcessInfo::decode(ProcessInfoVersion::V3, &payload), Ok(info));
    }

    // spec-test: PROC-INFO-5
    #[test]
    fn a_command_line_of_any_length_has_a_reply(
        unit in any::<char>().prop_filter("NUL", |unit| *unit != '\0'),
        count in 0..70_000_usize,
        info in process_info(),
    ) {
        let command_line: String = std::iter::repeat_n(unit, count).collect();
        let info = ProcessInfo { command_line, ..info };
        let payload = info.encode(ProcessInfoVersion::V3).unwrap();
        prop_assert!(payload.len() <= limits::MAX_PAYLOAD_BYTES);
        let read = ProcessInfo::decode(ProcessInfoVersion::V3, &payload).unwrap();
        prop_assert!(info.command_line.starts_with(&read.command_line));
        let cut = read.command_line.len() < info.command_line.len();
        prop_assert!(!cut || payload.len() + 4 > limits::MAX_PAYLOAD_BYTES, "cut to {}", payload.len());
    }

    // spec-test: PROC-ENV-2
    #[test]
    fn an_environment_block_decodes_to_its_entries(entries in vec((text(), text()), 0..6)) {
        let entries: Vec<String> = entries.iter().map(|(name, value)| format!("{name}={value}")).collect();
        prop_assert_eq!(decode_environment(&encode_environment(&entries)), Ok(entries));
    }

    // spec-test: ADV-1
    #[test]
    fn an_advertise_decodes_to_itself(cookie in any::<[u8; 16]>(), process_id in any::<u64>()) {
        let advertise = Advertise { cookie: RuntimeCookie::from_bytes(cookie), process_id };
        prop_assert_eq!(
            Advertise::decode_prefix(&advertise.encode()),
            Ok(AdvertisePrefix::Complete(advertise))
        );
    }

    // spec-test: PORT-TEXT-1, PORT-TEXT-2, PORT-TEXT-3, PORT-TEXT-4
    #[test]
    fn ports_parse_as_strtok_would(parts in vec(sample::select(vec![
        ";", ";", ",", ",", ",", "p", "/a b", " ", "connect", "LISTEN", "listen", "suspend", "NoSuspend", "é", "xsuspend",
    ]), 0..16)) {
        let text = parts.concat();
        prop_assert_eq!(parse_diagnostic_ports(&text), strtok_ports(&text), "{:?}", text);
    }

    // spec-test: PORT-NAME-1, PORT-NAME-2
    #[test]
    fn port_names_parse_to_themselves(process_id in any::<u32>(), key in any::<u64>(), junk in "[-0-9a-z+]{0,3}") {
        let name = PortName { process_id, key };
        prop_assert_eq!(PortName::parse(&name.to_string()), Some(name));
        prop_assert_eq!(PortName::parse(&format!("{name}{junk}")).is_some(), junk.is_empty());
    }

    // spec-test: EP-FILTER-2
    #[test]
    fn a_filter_passes_what_the_rule_says(filter in filter(), id in 0..10_u32) {
        let enable = filter.sense == FilterSense::Allow;
        let rule = if filter.ids.is_empty() { !enable } else { enable == filter.ids.contains(&id) };
        prop_assert_eq!(filter.passes(id), rule);
        prop_assert!(!filter.passes_all() || filter.passes(id));
    }
}
