//! What ThreadSanitizer has to be told about std, which is not instrumented.
//!
//! A `Mutex` that is taken at once is seen, because that code is compiled into its user. The way that waits is inside std: the
//! sanitizer misses the order it makes and would report every use of the protected data. So the linker puts a
//! few instructions around those functions (`--wrap`), which tell the sanitizer what each one orders. And `Arc` orders the
//! last drop by a fence, which the sanitizer does not model: a `fetch_sub` with Release counts as AcqRel.
//!
//! The names of std's functions differ between toolchains, so they are looked up in a probe.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

const PROBE: &str = "use std::sync::{Condvar, Mutex, OnceLock};
static ONCE: OnceLock<usize> = OnceLock::new();
fn main() {
    ONCE.get_or_init(|| std::env::args().count());
    let (mutex, condvar) = (Mutex::new(false), Condvar::new());
    let wait = |shown: bool| {
        let guard = mutex.lock().unwrap();
        if shown { drop(condvar.wait(guard)) } else { drop(condvar.wait_timeout(guard, std::time::Duration::ZERO)) }
    };
    wait(std::env::args().count() > 1);
}
";

/// The end of a mangled name, and what the function orders.
const MODELLED: [(&str, Effect); 4] = [
    ("4once5futexNtB5_4Once4call", Effect::Initializes),
    ("5mutex5futexNtB2_5Mutex14lock_contended", Effect::Locks),
    ("7condvar5futexNtB2_7Condvar4wait", Effect::Waits),
    ("7condvar5futexNtB2_7Condvar12wait_timeout", Effect::Waits),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Releases its first argument once the value is there, and acquires it.
    Initializes,
    /// Acquires its first argument.
    Locks,
    /// Releases its second argument, a mutex, and acquires it again.
    Waits,
}

/// Makes the object file in `folder` and returns the flags for rustc that link it.
///
/// # Errors
/// There is no C compiler, or std no longer has those functions.
pub(super) fn link_flags(folder: &Path) -> anyhow::Result<Vec<String>> {
    std::fs::create_dir_all(folder)?;
    let (source, probe) = (folder.join("probe.rs"), folder.join("probe"));
    std::fs::write(&source, PROBE)?;
    run(Command::new("rustc").args(["+nightly", "--edition", "2024", "-o"]).arg(&probe).arg(&source))?;
    let symbols = symbols_of(&std::fs::read(&probe)?);
    ensure!(
        symbols.iter().any(|(_, effect)| *effect == Effect::Locks)
            && symbols.iter().any(|(_, effect)| *effect == Effect::Waits),
        "this toolchain's std waits for a mutex in a way that is not known here: {symbols:?}"
    );
    let (assembly, object) = (folder.join("std_model.s"), folder.join("std_model.o"));
    std::fs::write(&assembly, assembly_of(&symbols))?;
    run(Command::new("cc").arg("-c").arg(&assembly).arg("-o").arg(&object))?;
    let mut flags = vec![format!("-Clink-arg={}", object.display())];
    let wrapped = symbols.iter().map(|(name, _)| name.as_str()).chain(["__tsan_atomic64_fetch_sub"]);
    flags.extend(wrapped.map(|name| format!("-Clink-arg=-Wl,--wrap={name}")));
    Ok(flags)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// The modelled functions among the NUL-terminated names of a program.
fn symbols_of(program: &[u8]) -> Vec<(String, Effect)> {
    let mut found: Vec<(String, Effect)> = Vec::new();
    for name in program.split(|byte| *byte == 0) {
        let Ok(name) = std::str::from_utf8(name) else { continue };
        let Some((_, effect)) =
            MODELLED.iter().find(|(end, _)| name.starts_with("_R") && name.ends_with(end))
        else {
            continue;
        };
        if !found.iter().any(|(known, _)| known == name) {
            found.push((name.to_owned(), *effect));
        }
    }
    found
}

/// x86-64: arguments in rdi, rsi, rdx, rcx; the stack is aligned to 16 bytes at a call.
fn assembly_of(symbols: &[(String, Effect)]) -> String {
    let mut text = String::from(".text\n");
    for (name, effect) in symbols {
        let _ = write!(text, ".globl __wrap_{name}\n__wrap_{name}:\n");
        text += &match effect {
            Effect::Initializes => format!(
                "push %rdi\ncall __real_{name}\nmov (%rsp), %rdi\ncall __tsan_release\npop %rdi\njmp __tsan_acquire\n"
            ),
            Effect::Locks => format!("push %rdi\ncall __real_{name}\npop %rdi\njmp __tsan_acquire\n"),
            Effect::Waits => format!(
                "push %rdi\npush %rsi\npush %rdx\npush %rcx\nsub $8, %rsp\nmov %rsi, %rdi\ncall __tsan_release\n\
                 mov 8(%rsp), %rcx\nmov 16(%rsp), %rdx\nmov 24(%rsp), %rsi\nmov 32(%rsp), %rdi\ncall __real_{name}\n\
                 mov %rax, (%rsp)\nmov 24(%rsp), %rdi\ncall __tsan_acquire\nmov (%rsp), %rax\nadd $40, %rsp\nret\n"
            ),
        };
    }
    // Memory orders are numbers: 3 is Release, 4 is AcqRel.
    text += ".globl __wrap___tsan_atomic64_fetch_sub\n__wrap___tsan_atomic64_fetch_sub:\n\
             cmp $3, %edx\njne 1f\nmov $4, %edx\n1: jmp __real___tsan_atomic64_fetch_sub\n\
             .section .note.GNU-stack,\"\",@progbits\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_once_each_between_zeros() {
        let lock = format!("_RNvMX3std{}", MODELLED[1].0);
        let program = format!("x\0{lock}\0{lock}more\0no{lock}\0{lock}\0");
        assert_eq!(symbols_of(program.as_bytes()), [(lock, Effect::Locks)]);
    }
}
