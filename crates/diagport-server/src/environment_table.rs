//! An environment that tools may change while the process runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::EnvironmentChange;

/// A copy of an environment with the tools' changes.
///
/// The process's own environment is left alone: changing it under running threads is unsound. Whoever wants to
/// honour a change asks this table.
///
/// ```
/// use diagport_server::{EnvironmentChange, EnvironmentTable};
///
/// let table = EnvironmentTable::new([("HOME".to_owned(), "/root".to_owned())]);
/// assert_eq!(table.set("MODE", Some("fast")), EnvironmentChange::Set);
/// assert_eq!(table.set("HOME", None), EnvironmentChange::Removed);
/// assert_eq!(table.set("HOME", None), EnvironmentChange::NotFound);
/// assert_eq!(table.entries(), ["MODE=fast"]);
/// ```
#[derive(Debug, Default)]
pub struct EnvironmentTable {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    variables: BTreeMap<String, String>,
    /// By which tools have made it larger, or smaller, than it was.
    grown_bytes: isize,
}

/// Bytes that tools may add to an environment.
const MAX_GROWTH_BYTES: isize = 16 << 20;

impl EnvironmentTable {
    /// A table of these variables.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let table = Table { variables: variables.into_iter().collect(), grown_bytes: 0 };
        Self { table: Mutex::new(table) }
    }

    /// A copy of this process's environment as it is now. What is not UTF-8 is copied lossily.
    #[must_use]
    pub fn of_this_process() -> Self {
        let text = |part: std::ffi::OsString| part.to_string_lossy().into_owned();
        Self::new(std::env::vars_os().map(|(name, value)| (text(name), text(value))))
    }

    /// Sets a variable (an empty value is a value), or removes it (`None`). Tools may add 16 MiB in all.
    // spec: SRV-SETENV-2
    pub fn set(&self, name: &str, value: Option<&str>) -> EnvironmentChange {
        let mut table = self.lock();
        let bytes_of = |value: &str| (name.len() + value.len()) as isize;
        let before = table.variables.get(name).map(|value| bytes_of(value));
        let grown_bytes = table.grown_bytes + value.map_or(0, bytes_of) - before.unwrap_or(0);
        let change = match value {
            Some(_) if grown_bytes > MAX_GROWTH_BYTES => return EnvironmentChange::NoRoom,
            Some(value) => {
                table.variables.insert(name.to_owned(), value.to_owned());
                EnvironmentChange::Set
            }
            None if before.is_none() => return EnvironmentChange::NotFound,
            None => {
                table.variables.remove(name);
                EnvironmentChange::Removed
            }
        };
        table.grown_bytes = grown_bytes;
        change
    }

    /// A variable's value now.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<String> {
        self.lock().variables.get(name).cloned()
    }

    /// All variables as `NAME=value`, sorted by name. A nameless one is left out: tools refuse a whole block for it.
    #[must_use]
    pub fn entries(&self) -> Vec<String> {
        self.lock()
            .variables
            .iter()
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{EnvironmentTable, MAX_GROWTH_BYTES};
    use crate::EnvironmentChange;

    // spec-test: SRV-SETENV-2
    #[test]
    fn tools_cannot_make_it_grow_for_ever() {
        let table = EnvironmentTable::new([("OWN".to_owned(), "x".repeat(1 << 20))]);
        let large = "v".repeat(1 << 20);
        let set = |number: usize, value: Option<&str>| table.set(&format!("N{number}"), value);
        let taken =
            (0..1000).take_while(|number| set(*number, Some(&large)) == EnvironmentChange::Set).count();
        assert_eq!(taken, MAX_GROWTH_BYTES as usize / (large.len() + 3));
        assert_eq!(set(taken, Some(&large)), EnvironmentChange::NoRoom);
        assert!(table.value(&format!("N{taken}")).is_none());
        assert_eq!(set(0, Some("short")), EnvironmentChange::Set, "smaller is always possible");
        assert_eq!(set(taken, Some(&large)), EnvironmentChange::Set, "and makes room");
        assert_eq!(set(1, None), EnvironmentChange::Removed);
        assert_eq!(set(taken + 1, Some(&large)), EnvironmentChange::Set);
    }
}
