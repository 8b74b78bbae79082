//! Is the machine at rest? A benchmark on a shared one must know, and say.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time of the kernel's tables is in hundredths of a second on every Linux.
const TICK_SECONDS: f64 = 0.01;
/// A round with more processors busy for others than this does not count.
const FOREIGN_CORES: f64 = 0.2;
/// A round in which the hypervisor took more than this does not count.
const STOLEN_CORES: f64 = 0.25;

/// What was around a run.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) processors: usize,
    pub(crate) kernel: String,
    pub(crate) load_average: String,
    /// Round trip of one cache line between two spinning threads.
    pub(crate) ping_pong_ns: f64,
}

impl Facts {
    pub(crate) fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        Self {
            processors: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            kernel: read("/proc/sys/kernel/osrelease"),
            load_average: read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
            ping_pong_ns: ping_pong_ns(),
        }
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "machine: {} processors, Linux {}, load {}, spin ping-pong {:.0} ns",
            self.processors, self.kernel, self.load_average, self.ping_pong_ns
        )
    }
}

/// Median of five series.
fn ping_pong_ns() -> f64 {
    const TURNS: u64 = 20_000;
    let mut series: Vec<f64> = (0..5)
        .map(|_| {
            let ball = Arc::new(AtomicU64::new(0));
            let other = Arc::clone(&ball);
            let answering = std::thread::spawn(move || {
                for turn in 0..TURNS {
                    while other.load(Ordering::Acquire) != 2 * turn + 1 {
                        std::hint::spin_loop();
                    }
                    other.store(2 * turn + 2, Ordering::Release);
                }
            });
            let from = Instant::now();
            for turn in 0..TURNS {
                ball.store(2 * turn + 1, Ordering::Release);
                while ball.load(Ordering::Acquire) != 2 * turn + 2 {
                    std::hint::spin_loop();
                }
            }
            let taken = from.elapsed();
            answering.join().ok();
            taken.as_secs_f64() * 1e9 / TURNS as f64
        })
        .collect();
    series.sort_by(f64::total_cmp);
    series[2]
}

/// Watches what others do with the machine while we measure.
#[derive(Debug)]
pub(crate) struct Watch {
    from: Instant,
    before: Used,
}

/// What others had of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Disturbance {
    pub(crate) foreign_cores: f64,
    pub(crate) stolen_cores: f64,
}

impl Disturbance {
    pub(crate) fn is_quiet(self) -> bool {
        self.foreign_cores <= FOREIGN_CORES && self.stolen_cores <= STOLEN_CORES
    }
}

impl Watch {
    pub(crate) fn begin() -> Self {
        Self { before: Used::now(), from: Instant::now() }
    }

    pub(crate) fn end(self) -> Disturbance {
        // The tables move in steps: over less than this they say nothing.
        let seconds = self.from.elapsed().max(Duration::from_millis(50)).as_secs_f64();
        let now = Used::now();
        Disturbance {
            foreign_cores: ((now.foreign - self.before.foreign) / seconds).max(0.0),
            stolen_cores: ((now.stolen - self.before.stolen) / seconds).max(0.0),
        }
    }
}

/// Processor time since the machine started, in seconds.
#[derive(Debug, Clone, Copy)]
struct Used {
    /// Of all processes but this one and its descendants. Summed from their own tables, which are exact: that of the machine is
    /// sampled at the clock's tick, and sees too much of whoever wakes by it.
    foreign: f64,
    stolen: f64,
}

impl Used {
    fn now() -> Self {
        let table = fs::read_to_string("/proc/stat").unwrap_or_default();
        // cpu user nice system idle iowait irq softirq steal
        let stolen = table.split_whitespace().nth(8).and_then(|word| word.parse::<f64>().ok());
        Self { foreign: foreign_seconds(), stolen: stolen.unwrap_or(0.0) * TICK_SECONDS }
    }
}

fn foreign_seconds() -> f64 {
    let Ok(folder) = fs::read_dir("/proc") else { return 0.0 };
    let pids = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let processes: Vec<(u32, u32, f64)> = pids
        .filter_map(|pid| {
            let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // state ppid … utime stime cutime cstime: fields 3, 4 and 14 to 17. A process that ends leaves its time to its parent.
            let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
            let ticks: f64 = fields.get(11..15)?.iter().filter_map(|field| field.parse::<f64>().ok()).sum();
            Some((pid, fields.get(1)?.parse().ok()?, ticks * TICK_SECONDS))
        })
        .collect();
    let parents: HashMap<u32, u32> = processes.iter().map(|(pid, parent, _)| (*pid, *parent)).collect();
    // A child's daemon works for us too.
    let is_ours = |pid: u32| {
        iter::successors(Some(pid), |pid| parents.get(pid).copied()).any(|pid| pid == std::process::id())
    };
    processes.iter().filter(|(pid, ..)| !is_ours(*pid)).map(|(.., seconds)| seconds).sum()
}
