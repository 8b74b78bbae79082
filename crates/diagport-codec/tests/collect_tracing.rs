//! What a `CollectTracing` may hold: every limit at its value and one past it.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

mod vectors;

use diagport_codec::{
    CollectTracing, CollectTracingVersion, Command, DecodeError, EncodeError, EventFilter, HResult,
    IpcMessage, ProviderRequest, Request, SessionOutput,
};
use vectors::{unhex, wire_string};

fn decode(command: Command, payload: &[u8]) -> Result<Request, DecodeError> {
    Request::decode(&IpcMessage::new(command, payload.to_vec()))
}

fn check(name: &str, command: Command, payload: &str, expected: Option<DecodeError>) {
    assert_eq!(decode(command, &unhex(payload)).err(), expected, "{name}");
}

const V4_HEAD: &str = "01000000 01000000 00000000 00000000 01";
const PROVIDER: &str = "01000000 00000000 04000000 02000000 5000 0000 00000000";

// spec-test: EP-CT-3, EP-CT-4, EP-CT-5, EP-PROV-2, EP-PROV-3, IPC-BOOL-1
#[test]
fn collect_tracing_fields() {
    let v4 = Command::COLLECT_TRACING_4;
    let one = format!("01000000 {PROVIDER}");
    let with_head = |head: &str| format!("{head} {one}");
    let tail = "00000000 00000000 00";
    check("good", v4, &with_head(V4_HEAD), None);
    check("most megabytes", v4, &with_head(&format!("ffffffff 01000000 {tail}")), None);
    let zero = DecodeError::ZeroCircularBuffer;
    check("0 MB", v4, &with_head(&format!("00000000 01000000 {tail}")), Some(zero));
    check("netperf", v4, &with_head(&format!("01000000 00000000 {tail}")), None);
    for value in [2, 0x100, u32::MAX] {
        let format = vectors::hex(&value.to_le_bytes());
        let error = DecodeError::StreamFormat { value };
        check("format", v4, &with_head(&format!("01000000 {format} {tail}")), Some(error));
    }
    let entry =
        |level: &str, strings: &str| format!("{V4_HEAD} 01000000 ffffffff ffffffff {level} {strings}");
    check("level 5", v4, &entry("05000000", "02000000 5000 0000 00000000"), None);
    let level = DecodeError::ProviderLevel { value: 6 };
    check("level 6", v4, &entry("06000000", "02000000 5000 0000 00000000"), Some(level));
    let field = "provider.name";
    for (name, error) in [
        ("00000000 00000000", DecodeError::NullString { field }),
        ("01000000 0000 00000000", DecodeError::EmptyString { field }),
        ("03000000 0000 4100 0000 00000000", DecodeError::EmptyString { field }),
        ("02000000 4100 4100 00000000", DecodeError::UnterminatedString { field }),
    ] {
        check("name", v4, &entry("00000000", name), Some(error));
    }
    let field = "provider.arguments";
    let open = DecodeError::UnterminatedString { field };
    check("arguments", v4, &entry("00000000", "02000000 5000 0000 01000000 4100"), Some(open));
    check("empty arguments", v4, &entry("00000000", "02000000 5000 0000 01000000 0000"), None);
    check("bytes after", v4, &with_head(V4_HEAD).replace(PROVIDER, &format!("{PROVIDER} 616263")), None);
}

/// Whatever is cut off the end, from one byte to all but one, the request is refused as badly encoded.
// spec-test: IPC-FIELD-1, EP-CT-3
#[test]
fn every_cut_of_every_request_is_bad_encoding() {
    let user_events = "01000000 00000000 00000000 01000000";
    let tracepoints = "00 00000000 02000000 5000 0000 01000000 02000000 5000 0000 01000000 07000000";
    let requests = [
        (Command::STOP_TRACING, "01000000 00000000".to_owned()),
        (Command::COLLECT_TRACING, format!("01000000 01000000 01000000 {PROVIDER}")),
        (Command::COLLECT_TRACING_2, format!("01000000 01000000 01 01000000 {PROVIDER}")),
        (Command::COLLECT_TRACING_3, format!("01000000 01000000 01 01 01000000 {PROVIDER}")),
        (Command::COLLECT_TRACING_4, format!("{V4_HEAD} 01000000 {PROVIDER}")),
        (Command::COLLECT_TRACING_5, format!("00000000 {V4_HEAD} 01000000 {PROVIDER} 01 01000000 07000000")),
        (Command::COLLECT_TRACING_6, format!("00000000 {V4_HEAD} 01000000 {PROVIDER} 00 00000000 01000000")),
        (Command::COLLECT_TRACING_5, format!("{user_events} {PROVIDER} {tracepoints}")),
        (Command::COLLECT_TRACING_6, format!("{user_events} {PROVIDER} {tracepoints}")),
        (Command::GENERATE_CORE_DUMP_3, "02000000 5000 0000 01000000 00000000".to_owned()),
        (Command::ATTACH_PROFILER, format!("01000000 {} 01000000 0000 01000000 ff", "22".repeat(16))),
        (Command::STARTUP_PROFILER, format!("{} 01000000 0000", "22".repeat(16))),
        (Command::SET_ENVIRONMENT_VARIABLE, "01000000 0000 00000000".to_owned()),
        (Command::ENABLE_PERF_MAP, "01000000".to_owned()),
        (Command::APPLY_STARTUP_HOOK, "01000000 0000".to_owned()),
    ];
    for (command, payload) in requests {
        let payload = unhex(&payload);
        let whole = decode(command, &payload).unwrap_or_else(|error| panic!("{command}: {error}"));
        for len in 0..payload.len() {
            let error = decode(command, &payload[..len]).expect_err("a cut request");
            assert_eq!(error.hresult(), HResult::BAD_ENCODING, "{command} cut to {len}: {error}");
        }
        let longer = [payload.as_slice(), &[0x7A; 5]].concat();
        assert_eq!(decode(command, &longer), Ok(whole), "{command}: bytes after it are ignored");
    }
}

fn many_providers(count: u32) -> Vec<u8> {
    let mut payload = unhex(V4_HEAD);
    payload.extend_from_slice(&count.to_le_bytes());
    payload.extend(unhex(PROVIDER).repeat(count as usize));
    payload
}

// spec-test: EP-PROV-4
#[test]
fn provider_counts() {
    let v4 = Command::COLLECT_TRACING_4;
    let count_of = |count| match decode(v4, &many_providers(count)) {
        Ok(Request::CollectTracing(request)) => Ok(request.providers.len()),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error),
    };
    assert_eq!(count_of(1), Ok(1));
    assert_eq!(count_of(1000), Ok(1000));
    for count in [0, 1001] {
        assert_eq!(count_of(count), Err(DecodeError::ProviderCount { count }));
    }
    let huge = Some(DecodeError::ProviderCount { count: u32::MAX });
    check("huge", v4, &format!("{V4_HEAD} ffffffff {PROVIDER}"), huge);
    let field = "providers";
    let more = DecodeError::CountTooLarge { field, count: 2, remaining_bytes: 24 };
    check("two of one", v4, &format!("{V4_HEAD} 02000000 {PROVIDER}"), Some(more));
}

// spec-test: EP-CT-6, EP-CT-7, EP-FILTER-1
#[test]
fn session_type_filter_and_mode_word() {
    let (v5, v6) = (Command::COLLECT_TRACING_5, Command::COLLECT_TRACING_6);
    let body = format!("{V4_HEAD} 01000000 {PROVIDER}");
    for value in [2, 0x100, u32::MAX] {
        let word = vectors::hex(&value.to_le_bytes());
        for command in [v5, v6] {
            let error = DecodeError::SessionType { value };
            check("type", command, &format!("{word} {body} 00 00000000 00000000"), Some(error));
        }
        let error = DecodeError::BufferingMode { value };
        check("mode", v6, &format!("00000000 {body} 00 00000000 {word}"), Some(error));
        check("no mode in v5", v5, &format!("00000000 {body} 00 00000000 {word}"), None);
    }
    for (len, word) in [(0, ""), (1, "00"), (3, "000000")] {
        let field = "bufferingMode";
        let error = DecodeError::FieldTruncated { field, needed_bytes: 4, remaining_bytes: len };
        check("mode cut", v6, &format!("00000000 {body} 00 00000000 {word}"), Some(error));
    }
    check("mode 1 and more", v6, &format!("00000000 {body} 00 00000000 01000000 ff"), None);
    let field = "filter.eventIds";
    for (count, remaining_bytes) in [(2, 4), (0x4000_0000, 4), (u32::MAX, 4)] {
        let word = vectors::hex(&count.to_le_bytes());
        let error = DecodeError::CountTooLarge { field, count, remaining_bytes };
        check("filter", v5, &format!("00000000 {body} 01 {word} 07000000"), Some(error));
    }
    check("ids twice", v5, &format!("00000000 {body} 01 02000000 07000000 07000000"), None);
}

fn tracepoints(default_name: &[u8], sets: &[(&str, &[u32])]) -> Vec<u8> {
    let mut payload = unhex(&format!("01000000 00000000 00000000 01000000 {PROVIDER} 00 00000000"));
    payload.extend_from_slice(default_name);
    payload.extend_from_slice(&u32::try_from(sets.len()).unwrap().to_le_bytes());
    for (name, ids) in sets {
        payload.extend(wire_string(name));
        payload.extend_from_slice(&u32::try_from(ids.len()).unwrap().to_le_bytes());
        payload.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    }
    payload
}

// spec-test: EP-CT-8, EP-TP-2, EP-TP-3, EP-TP-4
#[test]
fn tracepoint_configurations() {
    let null = [0; 4];
    let (fits, too_long) = ("é".repeat(218), "n".repeat(437));
    let name_too_long = DecodeError::TracepointNameTooLong { name_bytes: 437 };
    let twice = DecodeError::DuplicateTracepointId { event_id: 7 };
    let cases: [(&str, Vec<u8>, Option<DecodeError>); 11] = [
        ("default only", tracepoints(&wire_string("P"), &[]), None),
        ("set only", tracepoints(&null, &[("P", &[7])]), None),
        ("set without ids", tracepoints(&null, &[("P", &[])]), None),
        ("nothing", tracepoints(&null, &[]), Some(DecodeError::NoTracepoint)),
        (
            "set without name",
            tracepoints(&null, &[("", &[7])]),
            Some(DecodeError::EmptyString { field: "tracepoint.setName" }),
        ),
        ("default empty", tracepoints(&wire_string(""), &[]), Some(DecodeError::EmptyTracepointName)),
        ("436 bytes", tracepoints(&wire_string(&fits), &[(&fits, &[])]), None),
        ("437 bytes", tracepoints(&wire_string(&too_long), &[]), Some(name_too_long)),
        ("437 bytes in a set", tracepoints(&null, &[(&too_long, &[])]), Some(name_too_long)),
        ("twice in a set", tracepoints(&null, &[("P", &[7, 8, 7])]), Some(twice)),
        ("twice over sets", tracepoints(&null, &[("P", &[7, 8]), ("Q", &[9, 7])]), Some(twice)),
    ];
    for (name, payload, expected) in cases {
        for command in [Command::COLLECT_TRACING_5, Command::COLLECT_TRACING_6] {
            assert_eq!(decode(command, &payload).err(), expected, "{name}, {command}");
            let word = [payload.as_slice(), &[0xFF; 4]].concat();
            assert_eq!(decode(command, &word).err(), expected, "{name}, {command} with a mode word");
        }
    }
}

/// Meaning is judged after encoding: a later provider that is cut outranks an earlier duplicate.
// spec-test: EP-TP-4
#[test]
fn bad_encoding_outranks_tracepoints_that_cannot_be() {
    let mut payload = tracepoints(&[0; 4], &[("P", &[7, 7])]);
    payload[12] = 2;
    payload.extend(unhex(PROVIDER));
    let error = decode(Command::COLLECT_TRACING_5, &payload).unwrap_err();
    assert_eq!(error.hresult(), HResult::BAD_ENCODING, "{error}");
}

/// What a version cannot say is an error, never a silent change of meaning.
// spec-test: EP-CT-2
#[test]
fn versions_that_cannot_say_what_is_asked() {
    use CollectTracingVersion::{V1, V2, V3, V4, V5, V6};
    let base = decode(
        Command::COLLECT_TRACING_6,
        &unhex(&format!(
            "00000000 01000000 01000000 39010280 00000000 01 01000000 {PROVIDER} 00 00000000 00000000"
        )),
    );
    let Ok(Request::CollectTracing(base)) = base else { panic!("{base:?}") };
    let change = |change: &dyn Fn(&mut CollectTracing)| {
        let mut request = base.clone();
        change(&mut request);
        request
    };
    let streaming = |stacks: &str, mode: &str| {
        let hex = format!(
            "00000000 01000000 01000000 39010280 00000000 {stacks} 01000000 {PROVIDER} 00 00000000 {mode}"
        );
        match decode(Command::COLLECT_TRACING_6, &unhex(&hex)) {
            Ok(Request::CollectTracing(request)) => request.output,
            other => panic!("{other:?}"),
        }
    };
    let no_stacks = streaming("00", "00000000");
    let block = streaming("01", "01000000");
    let filter = EventFilter::NOTHING;
    for (oldest, request) in [
        (V1, base.clone()),
        (V2, change(&|request| request.rundown_keyword = 0)),
        (V3, change(&|request| request.output = no_stacks.clone())),
        (V4, change(&|request| request.rundown_keyword = 0x20)),
        (V5, change(&|request| request.providers[0].filter = filter.clone())),
        (V6, change(&|request| request.output = block.clone())),
    ] {
        assert_eq!(request.oldest_version(), oldest);
        for version in CollectTracingVersion::ALL {
            let request = CollectTracing { version, ..request.clone() };
            let encoded = Request::CollectTracing(request.clone()).encode();
            if version < oldest {
                let error = encoded.unwrap_err();
                assert!(matches!(error, EncodeError::NotExpressible { .. }), "{version:?}: {error}");
            } else {
                let decoded = Request::decode(&encoded.unwrap());
                assert_eq!(decoded, Ok(Request::CollectTracing(request)), "{version:?}");
            }
        }
    }
}

#[test]
fn values_without_a_wire_form() {
    let provider = ProviderRequest::new("P", 0, 0);
    let request = |providers: Vec<ProviderRequest>| {
        Request::CollectTracing(CollectTracing {
            version: CollectTracingVersion::V5,
            output: SessionOutput::UserEvents,
            rundown_keyword: 0,
            providers,
        })
        .encode()
        .unwrap_err()
    };
    let with = |change: &dyn Fn(&mut ProviderRequest)| {
        let mut provider = provider.clone();
        change(&mut provider);
        request(vec![provider])
    };
    assert_eq!(request(vec![]), EncodeError::ProviderCount { count: 0 });
    assert_eq!(request(vec![provider.clone(); 1001]), EncodeError::ProviderCount { count: 1001 });
    assert_eq!(with(&|provider| provider.level = 6), EncodeError::ProviderLevel { value: 6 });
    let field = "provider.name";
    assert_eq!(with(&|provider| provider.name.clear()), EncodeError::EmptyString { field });
    assert_eq!(with(&|provider| provider.name.push('\0')), EncodeError::InteriorNul { field });
    assert!(matches!(request(vec![provider.clone()]), EncodeError::Tracepoints { .. }));
}
