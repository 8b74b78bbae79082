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
    variables: Mutex<BTreeMap<String, String>>,
}

impl EnvironmentTable {
    /// A table of these variables.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { variables: Mutex::new(variables.into_iter().collect()) }
    }

    /// A copy of this process's environment as it is now. What is not UTF-8 is copied lossily.
    #[must_use]
    pub fn of_this_process() -> Self {
        let text = |part: std::ffi::OsString| part.to_string_lossy().into_owned();
        Self::new(std::env::vars_os().map(|(name, value)| (text(name), text(value))))
    }

    /// Sets a variable (an empty value is a value), or removes it (`None`).
    pub fn set(&self, name: &str, value: Option<&str>) -> EnvironmentChange {
        let mut variables = self.lock();
        match value {
            Some(value) => {
                variables.insert(name.to_owned(), value.to_owned());
                EnvironmentChange::Set
            }
            None if variables.remove(name).is_some() => EnvironmentChange::Removed,
            None => EnvironmentChange::NotFound,
        }
    }

    /// A variable's value now.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<String> {
        self.lock().get(name).cloned()
    }

    /// All variables as `NAME=value`, sorted by name. A nameless one is left out: tools refuse a whole block for it.
    #[must_use]
    pub fn entries(&self) -> Vec<String> {
        self.lock()
            .iter()
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.variables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
