//! Explores a model's schedules, with its roles in each arrangement.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use loom::thread;

/// Preemptions of a schedule in most models.
const BOUND: Option<usize> = Some(3);

/// How far a model is explored.
pub(crate) struct Extent {
    /// Times that a schedule may take the processor from a thread that could go on; none is no bound.
    preemptions: Option<usize>,
    at_least: usize,
}

impl Extent {
    /// All schedules of up to three preemptions.
    pub(crate) fn bounded(at_least: usize) -> Self {
        Self { preemptions: BOUND, at_least }
    }

    pub(crate) fn all(at_least: usize) -> Self {
        Self { preemptions: None, at_least }
    }
}

/// Explores `model`, which answers what happened in its schedule.
pub(crate) fn explore(
    name: &str,
    extent: &Extent,
    outcomes: &[&str],
    model: impl Fn() -> &'static str + Send + Sync + 'static,
) {
    // As the test harness names it, without the crate.
    let name = name.split_once("::").map_or(name, |(_, name)| name);
    let mistake = std::env::var("DIAGPORT_MUTANT").ok();
    if let Some(mistake) = &mistake {
        diagport_buffer::plant_mistake(mistake);
    }
    let schedules = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let (counted, noted) = (Arc::clone(&schedules), Arc::clone(&seen));
    let mut builder = loom::model::Builder::new();
    // A mistake need only be found, and two preemptions suffice for those there are.
    builder.preemption_bound = if mistake.is_some() { Some(2) } else { extent.preemptions };
    builder.max_branches = 20_000;
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        let outcome = model();
        noted.lock().unwrap().insert(outcome);
    });
    let (schedules, seen) = (schedules.load(Ordering::Relaxed), seen.lock().unwrap().clone());
    let bound = extent.preemptions.map_or_else(String::new, |most| format!(" of up to {most} preemptions"));
    println!("loom: {name}: all {schedules} schedules{bound}, outcomes {seen:?}");
    if mistake.is_some() {
        // What must fail is the model: a mistake that only makes it smaller went unnoticed.
        return;
    }
    assert!(schedules >= extent.at_least, "{name}: only {schedules} schedules were explored");
    assert_eq!(seen, outcomes.iter().copied().collect(), "{name}: outcomes");
}

/// Which role has the model's main thread: loom may overlook an access of one that has it.
#[derive(Clone, Copy)]
pub(crate) enum MainIs {
    Nobody,
    Reader,
    /// The last of them.
    Producer,
}

/// Runs `producers` and `reader` at once.
pub(crate) fn run_roles(
    main: MainIs,
    mut producers: Vec<Box<dyn FnOnce() + Send>>,
    reader: impl FnOnce() + Send + 'static,
) {
    let here: Option<Box<dyn FnOnce()>> = match main {
        MainIs::Producer => producers.pop().map(|producer| producer as _),
        MainIs::Nobody | MainIs::Reader => None,
    };
    let mut threads: Vec<_> = producers.into_iter().map(thread::spawn).collect();
    match main {
        MainIs::Reader => reader(),
        MainIs::Nobody | MainIs::Producer => threads.push(thread::spawn(reader)),
    }
    if let Some(role) = here {
        role();
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

/// The tests of one model: each arrangement of its roles.
macro_rules! arrangements {
    ($model:ident) => {
        mod $model {
            use crate::explore::MainIs;

            #[test]
            fn all_spawned() {
                super::$model(concat!(module_path!(), "::all_spawned"), MainIs::Nobody);
            }

            #[test]
            fn reader_on_main() {
                super::$model(concat!(module_path!(), "::reader_on_main"), MainIs::Reader);
            }

            #[test]
            fn producer_on_main() {
                super::$model(concat!(module_path!(), "::producer_on_main"), MainIs::Producer);
            }
        }
    };
}
pub(crate) use arrangements;
