//! A forked child, and its child, know it. No test harness: a process that forks has one thread here.
#![allow(
    unsafe_code,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that forks, without a harness"
)]

#[cfg(unix)]
fn main() {
    use diagport_sys::fork::{generation, watch_forks};

    /// Runs `child` in a forked child, whose exit status is the result. Afterwards the child may only do what a signal handler may.
    fn status_of_child(child: impl FnOnce() -> u32) -> i32 {
        // SAFETY: the process has one thread.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let status = i32::try_from(child()).unwrap_or(99);
            // SAFETY: always.
            unsafe { libc::_exit(status) }
        }
        assert!(pid > 0, "fork: {}", std::io::Error::last_os_error());
        let mut status = 0;
        // SAFETY: the child above, and room for its status.
        let ended = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!(ended, pid);
        assert!(libc::WIFEXITED(status), "the child ended with {status:#x}");
        libc::WEXITSTATUS(status)
    }

    assert_eq!(status_of_child(generation), 0, "nobody watches");
    watch_forks().unwrap();
    watch_forks().unwrap();
    assert_eq!(generation(), 0);
    assert_eq!(status_of_child(generation), 1, "two registrations count once");
    assert_eq!(status_of_child(generation), 1, "brothers are of one generation");
    assert_eq!(
        status_of_child(|| u32::try_from(status_of_child(generation)).unwrap_or(99)),
        2,
        "a grandchild"
    );
    assert_eq!(generation(), 0, "the parent stays what it is");
    println!("fork: ok");
}

#[cfg(not(unix))]
fn main() {
    assert_eq!(diagport_sys::fork::generation(), 0);
}
