//! A process that forks while events are written: the child, which has no drain, must not wait for one, and the parent must not notice.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use diagport_session::{BufferingMode, WriteOutcome};
use fork::Fork;
use rustix::process::{Pid, Signal, kill_process};
use support::*;

const FORKS: usize = 20;
const CHILDS_CODE: i32 = 77;

/// Forks, and returns once the child has written 5,000 events and is gone: whether it did so by itself. A child that hangs is killed.
fn child_writes_and_ends(tick: &Tick) -> bool {
    let child = match fork::fork().unwrap() {
        Fork::Child => {
            for index in 0..5_000 {
                let _ = tick.write((index, -1, "a text of some length"));
            }
            // With the exit handlers and the thread-local destructors, which find what the parent's threads held at the fork.
            std::process::exit(CHILDS_CODE);
        }
        Fork::Parent(child) => child,
    };
    let begin = std::time::Instant::now();
    loop {
        if let Some(status) = fork::waitpid_nohang(child).unwrap() {
            return fork::WEXITSTATUS(status) == CHILDS_CODE && fork::WIFEXITED(status);
        }
        if begin.elapsed() > PATIENCE / 4 {
            kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
            fork::waitpid(child).unwrap();
            return false;
        }
        thread::yield_now();
    }
}

/// Budgets that the child's events do not fit in. Other threads are in the middle of a write at the moment of the fork, and so may
/// hold whatever a write holds.
fn check(mode: BufferingMode) {
    let (pipe, _) = pipe();
    let tick = tick(&pipe);
    let session = pipe.create_session(config(mode, 16 << 10)).unwrap();
    let peer = MemoryPeer::reading();
    session.start(peer.sink());
    peer.wait_for_start();
    let over = AtomicBool::new(false);
    let emitted: u64 = thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|number| {
                let (tick, over) = (&tick, &over);
                scope.spawn(move || {
                    let mut index = 0;
                    while !over.load(Ordering::Relaxed) {
                        assert_ne!(
                            tick.write((index, number, "a text of some length")),
                            WriteOutcome::Disabled
                        );
                        index += 1;
                    }
                    index as u64
                })
            })
            .collect();
        let ended = (0..FORKS).take_while(|index| {
            // The forking thread writes too, so that the child inherits what a writing thread has.
            assert_ne!(tick.write((*index as i64, 2, "parent")), WriteOutcome::Disabled);
            child_writes_and_ends(&tick)
        });
        let ended = ended.count();
        over.store(true, Ordering::Relaxed);
        assert_eq!(ended, FORKS, "{mode:?}: a forked child hangs or dies in its write");
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    let (reading, end) = stop_and_account(&session, &peer);
    assert_eq!(
        end.statistics.emitted,
        emitted + FORKS as u64,
        "{mode:?}: a child's events are not the parent's"
    );
    assert!(reading.indexes().keys().all(|thread| *thread >= 0));
    assert!(mode == BufferingMode::Drop || end.statistics.dropped == 0);
}

// spec-test: SES-FORK-1
#[test]
fn invariants_1_and_2_hold_over_forks() {
    check(BufferingMode::Drop);
    check(BufferingMode::Block);
}
