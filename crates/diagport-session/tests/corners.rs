//! Moments and callers that are rare: stops inside callbacks, handles that are dropped, readers that trickle, events at the limit.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use diagport_nettrace::{Value, decode_payload};
use diagport_session::{
    BufferingMode, EnableCause, EndReason, EventDefinition, EventPipe, SessionConfig, SessionEnd,
    WaitFinished, WriteOutcome,
};
use support::*;

// spec-test: SES-CALLBACK-1, SES-CALLBACK-2
#[test]
fn invariant_8_a_callback_may_stop_its_session_and_wait_for_it() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let (ends, ended) = mpsc::channel();
    let (inner, writer) = (pipe.clone(), tick.clone());
    pipe.provider("Load").on_enable_change(move |change| {
        let Some(session) = inner.session(change.session_id) else { return };
        // More than fits, so that the drain must run while the callback does.
        (0..200).for_each(|index| assert_eq!(writer.write((index, 0, "a node")), WriteOutcome::Written));
        session.request_stop();
        session.request_stop();
        ends.send(session.wait_finished(PATIENCE)).unwrap();
    });
    let (session, peer) = (block_session(&pipe, 4 << 10), MemoryPeer::reading());
    session.start(peer.sink());
    let WaitFinished::Finished(end) = ended.recv_timeout(PATIENCE).unwrap() else {
        panic!("it does not end")
    };
    assert_eq!(
        (end.reason.clone(), end.statistics.written, end.statistics.dropped),
        (EndReason::Stopped, 200, 0)
    );
    account(&peer, &end);
    // The dispatcher still works.
    let (told, tell) = mpsc::channel();
    pipe.provider("Other").on_enable_change(move |change| told.send(change.cause).unwrap());
    let everything = SessionConfig {
        providers: vec![diagport_session::ProviderConfig::everything("Other")],
        ..config(BufferingMode::Drop, 1 << 20)
    };
    let (session, peer) = (pipe.create_session(everything).unwrap(), MemoryPeer::reading());
    session.start(peer.sink());
    assert_eq!(tell.recv_timeout(PATIENCE), Ok(EnableCause::SessionStarted));
    stop_and_account(&session, &peer);
}

// spec-test: SES-STOP-5
#[test]
fn invariant_12_an_end_callback_may_shut_the_pipe_down() {
    let (pipe, _) = pipe();
    let running = [MemoryPeer::reading(), MemoryPeer::reading()].map(|peer| {
        let session = block_session(&pipe, 1 << 20);
        session.start(peer.sink());
        (session, peer)
    });
    let (done, is_done) = mpsc::channel();
    let inner = pipe.clone();
    running[0].0.on_finished(Box::new(move |_| {
        // On the drain thread of one session, for the drain of the other.
        inner.shutdown(PATIENCE);
        done.send(inner.statistics().live_sessions).unwrap();
    }));
    running[0].0.request_stop();
    assert_eq!(is_done.recv_timeout(PATIENCE), Ok(0));
    for (session, peer) in running {
        let end = finish(&session);
        assert_eq!(end.reason, EndReason::Stopped);
        account(&peer, &end);
    }
}

// spec-test: SES-LIFE-4, SES-STOP-5
#[test]
fn invariant_5_a_session_that_is_never_started_holds_nobody_beyond_the_shutdown() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let session = block_session(&pipe, 2_000);
    session.enable();
    let ended = Arc::new(AtomicU64::new(0));
    let end = Arc::clone(&ended);
    session.on_finished(Box::new(move |_| {
        end.fetch_add(1, Ordering::SeqCst);
    }));
    let writer = thread::spawn(move || {
        let mut written = 0;
        while tick.write((0, 0, "nobody reads")) == WriteOutcome::Written {
            written += 1;
        }
        written
    });
    until("the writer is parked", || session.waiting_count() == 1);
    drop(session);
    pipe.shutdown(PATIENCE);
    let written: u64 = writer.join().unwrap();
    let sums = pipe.statistics();
    assert_eq!((sums.live_sessions, sums.emitted, sums.dropped), (0, written + 1, written + 1));
    assert_eq!(ended.load(Ordering::SeqCst), 1);
}

// spec-test: SES-LIFE-6
#[test]
fn invariant_4_events_outlive_the_handles_of_their_pipe() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let (session, peer) = (block_session(&pipe, 4 << 10), MemoryPeer::reading());
    session.start(peer.sink());
    peer.wait_for_start();
    drop(pipe);
    drop(session);
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let tick = tick.clone();
            thread::spawn(move || {
                (0..200).for_each(|index| {
                    assert_eq!(tick.write((index, thread_id(), "x")), WriteOutcome::Written)
                });
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    peer.wait_for_events(600);
    peer.set(Peer::Closed);
    until("the session has noticed", || !tick.is_enabled() && peer.is_closed());
    assert_eq!(tick.write((0, 0, "")), WriteOutcome::Disabled);
    assert!(read(&peer.bytes()).indexes().values().all(|indexes| indexes.iter().copied().eq(0..200)));
}

/// Progress, however small, keeps a stream alive; and holds nobody but its own session.
// spec-test: SES-STOP-1, SES-STOP-3
#[test]
fn invariant_5_a_trickling_reader_holds_no_producer_and_gets_all() {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let (session, peer) = (block_session(&pipe, 20_000), MemoryPeer::reading());
    session.start(peer.sink());
    peer.wait_for_start();
    peer.hold(&tick);
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let tick = tick.clone();
            thread::spawn(move || while tick.write((0, thread_id(), "text")) == WriteOutcome::Written {})
        })
        .collect();
    until("all are parked", || session.waiting_count() == 4);
    let bystander = block_session(&pipe, 1 << 20);
    let bystander_peer = MemoryPeer::reading();
    bystander.start(bystander_peer.sink());
    session.request_stop();
    assert_eq!(session.waiting_count(), 0, "on return already, and before the reader takes anything");
    peer.set(Peer::Crawls(3));
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(tick.write((1, 0, "to the other")), WriteOutcome::Written);
    stop_and_account(&bystander, &bystander_peer);
    let end = finish(&session);
    assert_eq!(end.reason, EndReason::Stopped);
    assert_eq!(account(&peer, &end).ticks().count() as u64, end.statistics.written);
}

// spec-test: SES-LOSS-4
#[test]
fn invariant_2_the_largest_event_passes_at_one_megabyte_and_one_byte_more_is_a_drop() {
    let (pipe, _) = pipe();
    let blob =
        pipe.provider("Load").define::<(Vec<u8>,)>(EventDefinition::new(2, "Blob"), ["bytes"]).unwrap();
    for mode in [BufferingMode::Drop, BufferingMode::Block] {
        let (session, peer) = (pipe.create_session(config(mode, 1 << 20)).unwrap(), MemoryPeer::reading());
        session.start(peer.sink());
        let mut written = 0;
        let mut write = |bytes: usize| {
            let value: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
            let outcome = blob.write((&value,));
            written += u64::from(outcome == WriteOutcome::Written);
            outcome
        };
        for _ in 0..30 {
            // With the count before them: 65,535 and 65,536.
            let at_the_limit = write(65_533);
            assert!(at_the_limit == WriteOutcome::Written || mode == BufferingMode::Drop);
            assert_eq!(write(65_534), WriteOutcome::Dropped);
            let _ = write(5);
        }
        let (reading, end) = stop_and_account(&session, &peer);
        assert_eq!((end.statistics.emitted, end.statistics.written), (90, written));
        for event in reading.ticks() {
            let fields = decode_payload(&event.definition.fields, &event.payload).unwrap();
            let [(_, Value::Array(bytes))] = &fields[..] else { panic!("{fields:?}") };
            assert!(bytes.len() == 65_533 || bytes.len() == 5);
        }
        let lengths: Vec<_> = reading.ticks().map(|event| event.payload.len()).collect();
        assert!(mode == BufferingMode::Drop || lengths == [65_535, 7].repeat(30), "{lengths:?}");
    }
}

// spec-test: SES-NUM-7
#[test]
fn an_info_event_tells_of_any_thread_whatever_its_name() {
    for name in ["", "é worker", &"long ".repeat(20_000)] {
        let (pipe, _) = pipe();
        let tick = tick(&pipe);
        let session = drop_session(&pipe, 600);
        session.enable();
        while tick.write((0, 0, "fill")) == WriteOutcome::Written {}
        let silent = thread::Builder::new().name(name.to_owned());
        let silent = silent.spawn(move || {
            assert_eq!(tick.write((0, 0, "lost")), WriteOutcome::Dropped);
            thread_id()
        });
        let silent = silent.unwrap().join().unwrap();
        let peer = MemoryPeer::reading();
        session.start(peer.sink());
        let (reading, _) = stop_and_account(&session, &peer);
        let infos = reading.events.iter().filter(|event| event.definition.provider == "Diagport");
        let told: Vec<_> =
            infos.map(|event| decode_payload(&event.definition.fields, &event.payload).unwrap()).collect();
        let cut: String = name.chars().take(256).collect();
        let wanted = [("ThreadId".to_owned(), Value::Int64(silent)), ("Name".to_owned(), Value::String(cut))];
        assert_eq!(told, [wanted]);
    }
}

/// Eight threads and a reader at half their pace: all get on alike.
// spec-test: SES-BLOCK-3
#[test]
fn invariant_3_parked_threads_get_on_alike() {
    let pipe = EventPipe::new(description());
    let tick = tick(&pipe);
    let (session, peer) = (block_session(&pipe, 1 << 20), MemoryPeer::new(Peer::Reads, None));
    session.start(peer.sink());
    peer.wait_for_start();
    peer.set(Peer::Stalls);
    let over = Arc::new(AtomicBool::new(false));
    let counts: Vec<_> = (0..8).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let writers: Vec<_> = counts
        .iter()
        .map(|count| {
            let (tick, over, count) = (tick.clone(), Arc::clone(&over), Arc::clone(count));
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed)
                    && tick.write((0, thread_id(), "0123456789")) == WriteOutcome::Written
                {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    until("all are parked", || session.waiting_count() == 8);
    peer.set(Peer::Crawls(16 << 10));
    // From a full buffer on, so that the start of the threads does not count. The fairest of three stretches: another program's threads may come
    // between ours in some.
    let fairest = (1..=3).map(|stretch| {
        let before: Vec<_> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        peer.wait_for_bytes(stretch * (6 << 20));
        let gained: Vec<_> =
            counts.iter().zip(before).map(|(count, before)| count.load(Ordering::Relaxed) - before).collect();
        println!("events of each thread: {gained:?}");
        *gained.iter().max().unwrap() as f64 / *gained.iter().min().unwrap() as f64
    });
    let fairest = fairest.fold(f64::INFINITY, f64::min);
    over.store(true, Ordering::Relaxed);
    peer.set(Peer::Reads);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let (_, end): (_, SessionEnd) = stop_and_account(&session, &peer);
    assert_eq!(end.statistics.dropped, 0);
    assert!(fairest < 2.0, "the most events of a thread are {fairest} times the fewest");
}
