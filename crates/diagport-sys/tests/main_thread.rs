//! The main thread, whose stack grows: no harness, which would run a test on another. Once with each limit that a shell may set.
#![allow(clippy::print_stdout, reason = "it has no harness to talk for it")]

#[cfg(target_os = "linux")]
mod recursion;

/// Present where this program has started itself.
const UNDER_LIMIT: &str = "DIAGPORT_STACK_LIMIT";

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<()> {
    use std::process::Command;

    if let Ok(limit) = std::env::var(UNDER_LIMIT) {
        recursion::CASES.iter().for_each(|(depth, room)| recursion::check(*depth, *room));
        println!("main thread: ok with stack limit {limit}");
        return Ok(());
    }
    if !recursion::has_frame_pointers() {
        return Ok(());
    }
    let this = std::env::current_exe()?;
    // A limit above the hard one cannot be set and is left as it is.
    for limit in ["256", "8192", "1000000", "unlimited"] {
        let script = "ulimit -s \"$1\" 2>/dev/null; exec \"$0\"";
        let status = Command::new("sh")
            .args(["-c", script])
            .args([this.as_os_str(), limit.as_ref()])
            .env(UNDER_LIMIT, limit)
            .status()?;
        assert!(status.success(), "stack limit {limit}: {status}");
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("skipped: {UNDER_LIMIT} is of no use here, stacks are empty");
}
